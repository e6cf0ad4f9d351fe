//! Sets of address prefixes, for options such as `allow = ["10.0.0.0/8", "2001:db8::/32"]`.

use core::net::IpAddr;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nf::OptionError;
use wire::Addr;

/// The most prefixes that one option takes.
pub(crate) const PREFIXES_MAX: usize = 1024;

/// The addresses that stand for IPv4: `::ffff:0:0/96`.
const MAPPED: Range = Range { first: 0xffff_0000_0000, last: 0xffff_ffff_ffff };

/// A set of addresses as disjoint ranges in ascending order: looked up in `O(log prefixes)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrefixSet {
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
    pub(crate) fn parse(option: &'static str, prefixes: &[String]) -> Result<PrefixSet, OptionError> {
        if prefixes.len() > PREFIXES_MAX {
            let message = format!("has {} prefixes; at most {PREFIXES_MAX} are possible", prefixes.len());
            return Err(OptionError { option, message });
        }
        let mut ranges = Vec::new();
        for prefix in prefixes {
            let (ip, length) = parse_prefix(prefix).map_err(|message| OptionError { option, message })?;
            push_ranges(&mut ranges, ip, length);
        }
        ranges.sort_unstable_by_key(|range| range.first);
        ranges.dedup_by(|next, kept| {
            let overlaps = next.first <= kept.last;
            if overlaps {
                kept.last = kept.last.max(next.last);
            }
            overlaps
        });
        Ok(PrefixSet { ranges })
    }

    /// Whether the set has this address.
    #[inline]
    pub(crate) fn contains(&self, addr: Addr) -> bool {
        let addr = u128::from_be_bytes(addr.0);
        let after = self.ranges.partition_point(|range| range.first <= addr);
        after > 0 && addr <= self.ranges[after - 1].last
    }
}

/// Address and length within its family, or what is wrong with `text`.
pub(crate) fn parse_prefix(text: &str) -> Result<(IpAddr, u32), String> {
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
