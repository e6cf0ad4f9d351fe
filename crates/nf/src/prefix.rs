//! Sets of address prefixes, for options such as `allow = ["10.0.0.0/8", "2001:db8::/32"]`.

use core::fmt;
use core::net::IpAddr;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use wire::Addr;

use crate::OptionError;

/// The most prefixes that one option takes.
pub const PREFIXES_MAX: usize = 1024;

/// The addresses that stand for IPv4: `::ffff:0:0/96`.
const MAPPED: Range = Range { first: 0xffff_0000_0000, last: 0xffff_ffff_ffff };

/// A set of addresses as disjoint ranges in ascending order: looked up in `O(log prefixes)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixSet {
    ranges: Vec<Range>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u128,
    last: u128,
}

impl PrefixSet {
    /// The union of `prefixes`; a prefix without a length is one address.
    ///
    /// # Errors
    /// [`OptionError`] for `option`, saying which prefix is wrong and what would be right.
    pub fn parse(option: &'static str, prefixes: &[String]) -> Result<PrefixSet, OptionError> {
        PrefixSet::parse_up_to(PREFIXES_MAX, option, prefixes)
    }

    /// As [`PrefixSet::parse`], of at most so many prefixes.
    ///
    /// # Errors
    /// As [`PrefixSet::parse`].
    pub fn parse_up_to(
        most: usize,
        option: &'static str,
        prefixes: &[String],
    ) -> Result<PrefixSet, OptionError> {
        if prefixes.len() > most {
            let message = format!("has {} prefixes; at most {most} are possible", prefixes.len());
            return Err(OptionError { option, message });
        }
        let mut ranges = Vec::new();
        for prefix in prefixes {
            let (ip, length) = parse_prefix(prefix).map_err(|message| OptionError { option, message })?;
            push_ranges(&mut ranges, ip, length);
        }
        Ok(PrefixSet::of_ranges(ranges))
    }

    /// These addresses.
    pub fn of(addrs: impl IntoIterator<Item = Addr>) -> PrefixSet {
        let one = |addr: Addr| {
            let addr = u128::from_be_bytes(addr.0);
            Range { first: addr, last: addr }
        };
        PrefixSet::of_ranges(addrs.into_iter().map(one).collect())
    }

    /// The addresses of either.
    pub fn union(&self, other: &PrefixSet) -> PrefixSet {
        PrefixSet::of_ranges(self.ranges.iter().chain(&other.ranges).copied().collect())
    }

    /// The addresses that both have.
    pub fn intersection(&self, other: &PrefixSet) -> PrefixSet {
        let pairs = self.ranges.iter().flat_map(|a| other.ranges.iter().map(move |b| (a, b)));
        let both = pairs.map(|(a, b)| Range { first: a.first.max(b.first), last: a.last.min(b.last) });
        PrefixSet::of_ranges(both.filter(|range| range.first <= range.last).collect())
    }

    /// All addresses that the set has not, of both families.
    pub fn complement(&self) -> PrefixSet {
        let (mut ranges, mut next) = (Vec::new(), Some(0_u128));
        for range in &self.ranges {
            if let Some(first) = next
                && first < range.first
            {
                ranges.push(Range { first, last: range.first - 1 });
            }
            next = range.last.checked_add(1);
        }
        ranges.extend(next.map(|first| Range { first, last: u128::MAX }));
        PrefixSet { ranges }
    }

    /// An address that both have.
    pub fn common(&self, other: &PrefixSet) -> Option<Addr> {
        let pairs = self.ranges.iter().flat_map(|a| other.ranges.iter().map(move |b| (a, b)));
        let first = |(a, b): (&Range, &Range)| {
            let first = a.first.max(b.first);
            (first <= a.last.min(b.last)).then_some(Addr(first.to_be_bytes()))
        };
        pairs.filter_map(first).next()
    }

    /// The IPv4 addresses among them.
    pub fn v4(&self) -> PrefixSet {
        let cut = |range: &Range| {
            let (first, last) = (range.first.max(MAPPED.first), range.last.min(MAPPED.last));
            (first <= last).then_some(Range { first, last })
        };
        PrefixSet { ranges: self.ranges.iter().filter_map(cut).collect() }
    }

    /// Whether the set has an address of IPv4, and whether it has one of IPv6.
    pub fn families(&self) -> (bool, bool) {
        let is_ipv4 = |range: &Range| range.first <= MAPPED.last && range.last >= MAPPED.first;
        let is_ipv6 = |range: &Range| range.first < MAPPED.first || range.last > MAPPED.last;
        (self.ranges.iter().any(is_ipv4), self.ranges.iter().any(is_ipv6))
    }

    /// How many ranges of addresses make it up.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether the set has no address.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    fn of_ranges(mut ranges: Vec<Range>) -> PrefixSet {
        ranges.sort_unstable_by_key(|range| range.first);
        ranges.dedup_by(|next, kept| {
            let overlaps = next.first <= kept.last.saturating_add(1);
            if overlaps {
                kept.last = kept.last.max(next.last);
            }
            overlaps
        });
        PrefixSet { ranges }
    }

    /// Whether the set has this address.
    #[inline]
    pub fn contains(&self, addr: Addr) -> bool {
        let addr = u128::from_be_bytes(addr.0);
        let after = self.ranges.partition_point(|range| range.first <= addr);
        after > 0 && addr <= self.ranges[after - 1].last
    }
}

impl PrefixSet {
    /// The fewest prefixes that make up the set: of each its first address, and its length within its family.
    pub fn prefixes(&self) -> impl Iterator<Item = (IpAddr, u32)> {
        self.ranges.iter().flat_map(|Range { first, last }| {
            let mut next = Some(*first);
            core::iter::from_fn(move || {
                let first = next?;
                // As many low bits as are 0 in the first address, and as fit.
                let fits = |bits: &u32| {
                    let ones = 1_u128.checked_shl(*bits).unwrap_or(0).wrapping_sub(1);
                    first & ones == 0 && first | ones <= *last
                };
                let host_bits = (0..=128).rev().find(fits).unwrap_or(0);
                let end = first | 1_u128.checked_shl(host_bits).unwrap_or(0).wrapping_sub(1);
                next = (end < *last).then(|| end + 1);
                let ip = IpAddr::from(Addr(first.to_be_bytes()));
                let bits = if ip.is_ipv4() { 32_u32 } else { 128 };
                Some((ip, bits.saturating_sub(host_bits)))
            })
        })
    }
}

impl fmt::Display for PrefixSet {
    /// The fewest prefixes that make up the set: `10.0.0.0/8, 2001:db8::/32`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (ip, length) in self.prefixes() {
            write!(f, "{separator}{ip}/{length}")?;
            separator = ", ";
        }
        Ok(())
    }
}

/// Address and length within its family, or what is wrong with `text`.
///
/// # Errors
/// Says which text, and what would be right.
pub fn parse_prefix(text: &str) -> Result<(IpAddr, u32), String> {
    let bad = |why: &str| format!("has the prefix \"{text}\", {why}");
    let (ip, length) = match text.split_once('/') {
        Some((ip, length)) => (ip, Some(length)),
        None => (text, None),
    };
    let ip: IpAddr = ip
        .parse()
        .map_err(|_| bad("which is no IP prefix; write one like \"10.0.0.0/8\" or \"2001:db8::/32\""))?;
    let bits = if ip.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => bits,
        Some(length) => match length.parse() {
            Ok(length) if length <= bits => length,
            _ => return Err(bad(&format!("whose length must be a number from 0 to {bits}"))),
        },
    };
    let network = network_of(ip, length);
    if network != ip {
        return Err(bad(&format!("which has bits set behind its length; write \"{network}/{length}\"")));
    }
    Ok((ip, length))
}

/// `ip` with the bits behind `length` cleared.
fn network_of(ip: IpAddr, length: u32) -> IpAddr {
    match ip {
        IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & u32::MAX.checked_shl(32 - length).unwrap_or(0)).into()),
        IpAddr::V6(v6) => {
            IpAddr::V6((v6.to_bits() & u128::MAX.checked_shl(128 - length).unwrap_or(0)).into())
        }
    }
}

fn push_ranges(ranges: &mut Vec<Range>, ip: IpAddr, length: u32) {
    let host_bits = if ip.is_ipv4() { 32 - length } else { 128 - length };
    let first = u128::from_be_bytes(Addr::from(ip).0);
    let last = first | (1_u128.checked_shl(host_bits).unwrap_or(0)).wrapping_sub(1);
    if ip.is_ipv6() && first < MAPPED.first && last > MAPPED.last {
        // `::/0` means every IPv6 address, and not the IPv4 ones that are mapped among them.
        ranges.push(Range { first, last: MAPPED.first - 1 });
        ranges.push(Range { first: MAPPED.last + 1, last });
    } else {
        ranges.push(Range { first, last });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    fn parse(prefixes: &[&str]) -> Result<PrefixSet, String> {
        let prefixes: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
        PrefixSet::parse("allow", &prefixes).map_err(|error| error.to_string())
    }

    fn addr(text: &str) -> Addr {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn holds_the_addresses_of_its_prefixes_and_no_others() {
        let set = parse(&["10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "192.0.2.8/31"]).unwrap();
        for inside in ["10.0.0.0", "10.255.255.255", "192.0.2.7", "192.0.2.9", "2001:db8:ffff::1"] {
            assert!(set.contains(addr(inside)), "{inside}");
        }
        for outside in ["9.255.255.255", "11.0.0.0", "192.0.2.6", "192.0.2.10", "2001:db9::", "::"] {
            assert!(!set.contains(addr(outside)), "{outside}");
        }
        assert!(!parse(&[]).unwrap().contains(addr("10.0.0.1")));
    }

    #[test]
    fn sets_are_joined_compared_and_written() {
        let set = |prefixes: &[&str]| parse(prefixes).unwrap();
        let office = set(&["10.0.0.0/9", "10.128.0.0/9", "2001:db8::/32"]);
        assert_eq!(office, set(&["10.0.0.0/8"]).union(&set(&["2001:db8::/32"])));
        assert_eq!(office.to_string(), "10.0.0.0/8, 2001:db8::/32");
        assert_eq!(office.v4(), set(&["10.0.0.0/8"]));
        assert_eq!(office.common(&set(&["10.9.0.0/16", "192.0.2.0/24"])), Some(addr("10.9.0.0")));
        assert_eq!(office.common(&set(&["192.0.2.0/24"])), None);
        let hosts = PrefixSet::of([addr("192.0.2.1"), addr("192.0.2.3"), addr("192.0.2.2")]);
        assert_eq!(hosts.to_string(), "192.0.2.1/32, 192.0.2.2/31");
        assert!(hosts.contains(addr("192.0.2.2")) && !hosts.contains(addr("192.0.2.4")));
        assert_eq!(set(&["0.0.0.0/0"]).to_string(), "0.0.0.0/0");
        assert!(set(&["2001:db8::/32"]).v4().is_empty());
    }

    #[test]
    fn a_set_is_cut_by_another_and_turned_round() {
        let set = |prefixes: &[&str]| parse(prefixes).unwrap();
        let (office, dmz) = (set(&["10.0.0.0/8", "2001:db8::/32"]), set(&["10.0.1.0/24", "192.0.2.0/24"]));
        assert_eq!(office.intersection(&dmz), set(&["10.0.1.0/24"]));
        assert!(office.intersection(&set(&["192.0.2.0/24"])).is_empty());
        let others = office.complement();
        for (address, is_other) in [
            ("10.255.255.255", false),
            ("11.0.0.0", true),
            ("9.255.255.255", true),
            ("2001:db8::1", false),
            ("::", true),
        ] {
            assert_eq!(others.contains(addr(address)), is_other, "{address}");
        }
        assert_eq!(others.complement(), office);
        assert!(others.intersection(&office).is_empty());
        let all = PrefixSet::default().complement();
        assert!(
            all.contains(addr("::")) && all.contains(addr("255.255.255.255")) && all.complement().is_empty()
        );
    }

    /// The addresses that stand for IPv4 are in the midst of the others.
    #[test]
    fn the_families_of_a_set_are_those_of_its_addresses() {
        let (below, above) = (addr("::fffe:ffff:ffff"), addr("::1:0:0:0"));
        let (first, last) = (addr("0.0.0.0"), addr("255.255.255.255"));
        let all_v4 = parse(&["0.0.0.0/0"]).unwrap();
        for (set, v4, has_v6) in [
            (PrefixSet::default(), PrefixSet::default(), false),
            (all_v4.clone(), all_v4.clone(), false),
            (parse(&["::/0"]).unwrap(), PrefixSet::default(), true),
            (parse(&["::/0", "0.0.0.0/0"]).unwrap(), all_v4, true),
            (PrefixSet::of([below]), PrefixSet::default(), true),
            (PrefixSet::of([above]), PrefixSet::default(), true),
            (PrefixSet::of([first]), PrefixSet::of([first]), false),
            (PrefixSet::of([last]), PrefixSet::of([last]), false),
            (PrefixSet::of([first, below]), PrefixSet::of([first]), true),
            (PrefixSet::of([above, last]), PrefixSet::of([last]), true),
        ] {
            assert_eq!((set.v4(), set.families()), (v4.clone(), (!v4.is_empty(), has_v6)), "{set}");
        }
        assert!(PrefixSet::of([]).is_empty() && PrefixSet::of([first, below]).ranges.len() == 1);
        assert_eq!(PrefixSet::of([first]).common(&PrefixSet::of([below, first])), Some(first));
        assert_eq!(PrefixSet::of([addr("::3"), addr("::1")]).to_string(), "::1/128, ::3/128");
        let most = alloc::vec!["10.0.0.0/8"; PREFIXES_MAX];
        assert_eq!(parse(&most).unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(parse(&["::/0", "0.0.0.0/0"]).unwrap().to_string(), "::/0");
    }

    #[test]
    fn everything_of_one_family_is_nothing_of_the_other() {
        let all_v4 = parse(&["0.0.0.0/0"]).unwrap();
        let all_v6 = parse(&["::/0"]).unwrap();
        for v4 in ["0.0.0.0", "255.255.255.255"] {
            assert!(all_v4.contains(addr(v4)) && !all_v6.contains(addr(v4)), "{v4}");
        }
        for v6 in ["::", "::fffe:ffff:ffff", "::1:0:0:0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"] {
            assert!(all_v6.contains(addr(v6)) && !all_v4.contains(addr(v6)), "{v6}");
        }
    }

    #[test]
    fn a_bad_prefix_is_named_with_its_remedy() {
        for (bad, expected) in [
            ("10.0.0/8", "write one like \"10.0.0.0/8\""),
            ("10.0.0.0/33", "must be a number from 0 to 32"),
            ("2001:db8::/129", "must be a number from 0 to 128"),
            ("10.0.0.0/x", "must be a number from 0 to 32"),
            ("10.1.2.3/8", "write \"10.0.0.0/8\""),
            ("2001:db8::1/32", "write \"2001:db8::/32\""),
        ] {
            let error = parse(&["192.0.2.0/24", bad]).unwrap_err();
            assert!(error.contains(bad) && error.contains(expected), "{error}");
        }
        let too_many = alloc::vec!["10.0.0.0/8"; PREFIXES_MAX + 1];
        assert!(parse(&too_many).unwrap_err().contains("at most 1024"));
    }

    proptest! {
        /// The ranges against the definition: equal in the first `length` bits.
        #[test]
        fn agrees_with_the_definition(
            prefixes in proptest::collection::vec((any::<u8>(), 0_u32..=8), 0..6),
            probe: u8,
        ) {
            let masked = |byte: u8, length: u32| byte & u8::MAX.checked_shl(8 - length).unwrap_or(0);
            let texts: Vec<String> = prefixes
                .iter()
                .map(|&(byte, length)| format!("10.0.0.{}/{}", masked(byte, length), 24 + length))
                .collect();
            let set = PrefixSet::parse("allow", &texts).unwrap();
            let expected =
                prefixes.iter().any(|&(byte, length)| masked(byte, length) == masked(probe, length));
            prop_assert_eq!(set.contains(Addr::v4([10, 0, 0, probe])), expected);
        }
    }
}
