//! The two sides of a chain: which packets come from inside, and which from outside.
//!
//! What comes from inside meets the functions in the order of the chain file, what comes from outside in reverse. So
//! each function sees the addresses of its own place both times: with `conntrack` before `nat` in the file, the
//! tracker sees inside addresses in both directions.
//!
//! The side is decided once, from the headers as received, and rides in [`Marks::FROM_OUTSIDE`]: the dispatcher, history,
//! and every function see the same. Where interfaces have sides the interface decides ([`Sides::mark_by`]), and a packet
//! whose source address is of the other side is [spoofed](Malformed::Spoofed) (RFC 2827, RFC 3704). Elsewhere the source
//! address decides ([`Sides::mark`]).
//!
//! Some addresses are of no side: those that are valid on one link alone, and those of a family of which no prefix is
//! inside. So a packet that is not spoofed comes from outside if its source address is not inside, but for those.

use nf::FixedEnds;
use nf::prefix::PrefixSet;
use wire::{Addr, Headers, Malformed, Marks, Side, protocol};

use crate::path::batch::Batch;
use crate::path::packets::bits;

/// Which packets come from inside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    pub(crate) inside: PrefixSet,
    /// Addresses that functions of the chain have outside: what is sent to them is for hosts inside.
    pub(crate) external: PrefixSet,
    /// Those of the addresses that lead to one host inside whatever is sent.
    pub(crate) fixed: FixedEnds,
    /// Whether packets are spread by their inside end, as they are beside a function that stands between the sides: then
    /// an error of a router outside to an inside end comes to the core of the connection that it is about.
    pub(crate) spreads_by_inside: bool,
    /// What packets are marked with whose family has no address inside.
    pub(crate) without_inside: Marks,
}

impl Sides {
    pub(crate) fn new(inside: PrefixSet, external: PrefixSet, spreads_by_inside: bool) -> Sides {
        let (ipv4, ipv6) = inside.families();
        let mut without_inside = Marks::empty();
        without_inside.set(Marks::IPV4, !ipv4);
        without_inside.set(Marks::IPV6, !ipv6);
        Sides { inside, external, fixed: FixedEnds::default(), spreads_by_inside, without_inside }
    }

    /// Some of the addresses outside always stand for these inside ends.
    pub(crate) fn with_fixed(self, fixed: FixedEnds) -> Sides {
        Sides { fixed, ..self }
    }

    /// Notes in the headers of a packet, as it was received, which side it comes from by its source address.
    #[inline]
    pub fn mark(&self, headers: &mut Headers) {
        let is_from_outside = headers.is_ip() && !self.inside.contains(headers.src);
        headers.marks.set(Marks::FROM_OUTSIDE, is_from_outside);
        if headers.protocol == protocol::ICMP {
            self.forget_connections_of_other_cores(headers);
        }
    }

    /// A router's error is spread by the host that it goes to, and the connection that it is about by its inside end. Where
    /// that may be another end, the connection may be on another core: then the error is about none, under every strategy.
    #[cold]
    fn forget_connections_of_other_cores(&self, headers: &mut Headers) {
        let goes_to_inside_end = self.spreads_by_inside
            && headers.marks.contains(Marks::FROM_OUTSIDE)
            && self.crosses(headers)
            && headers.quoted_destination().is_none_or(|other| !self.inside.contains(other));
        if !goes_to_inside_end {
            headers.forget_quoted_destination();
        }
    }

    /// Marks a packet that came by an interface on this side. If its source address is of the other side, it is
    /// spoofed, which makes it malformed.
    #[inline]
    pub fn mark_by(&self, side: Option<Side>, headers: &mut Headers) {
        self.mark(headers);
        let is_outside = headers.marks.contains(Marks::FROM_OUTSIDE);
        if let Some(side) = side
            && is_outside != (side == Side::Outside)
        {
            self.contradict(side, headers);
        }
    }

    /// The interface says another side than the source address.
    #[cold]
    fn contradict(&self, side: Side, headers: &mut Headers) {
        match side {
            // No function sees it, and hashes go by addresses.
            _ if !headers.is_well_formed() => {}
            _ if !headers.is_ip() => headers.marks.insert(Marks::FROM_OUTSIDE),
            Side::Inside if self.may_be_of_no_side(headers) => headers.marks.remove(Marks::FROM_OUTSIDE),
            Side::Inside | Side::Outside => headers.malformed_code = Malformed::Spoofed as u8,
        }
    }

    /// Whether the source address is of no side, unless it is inside. Of IPv4 two comparisons say no.
    #[inline]
    fn may_be_of_no_side(&self, headers: &Headers) -> bool {
        let last = u32::from_be_bytes(headers.src.last4());
        let may_be =
            last == 0 || last >> 16 == 0xa9fe || headers.marks.intersects(self.without_inside | Marks::IPV6);
        may_be && self.is_of_no_family_inside_or_one_link(headers)
    }

    #[inline(never)]
    fn is_of_no_family_inside_or_one_link(&self, headers: &Headers) -> bool {
        headers.marks.intersects(self.without_inside) || is_of_one_link(headers.src)
    }

    /// Whether a packet, as it was received, goes from one side to the other by its addresses.
    #[inline]
    pub fn crosses(&self, headers: &Headers) -> bool {
        let is_of_no_side = || self.may_be_of_no_side(headers) && !self.inside.contains(headers.src);
        match headers.marks.contains(Marks::FROM_OUTSIDE) || is_of_no_side() {
            true => self.inside.contains(headers.dst) || self.external.contains(headers.dst),
            false => !self.inside.contains(headers.dst),
        }
    }

    /// The packet as its connection looks from inside: of one from outside, source and destination are exchanged.
    /// Both directions of a connection that does not cross look alike, too.
    pub(crate) fn seen_from_inside(&self, headers: &Headers) -> Headers {
        if !self.fixed.is_empty() && headers.marks.contains(Marks::FROM_OUTSIDE) {
            return self.mirrored(&self.fixed.directed(headers));
        }
        self.mirrored(headers)
    }

    #[inline]
    fn mirrored(&self, headers: &Headers) -> Headers {
        let Headers { src, dst, src_port, dst_port, marks, .. } = *headers;
        let is_mirrored = match self.crosses(headers) {
            true => marks.contains(Marks::FROM_OUTSIDE),
            false => (src, src_port) > (dst, dst_port),
        };
        match is_mirrored {
            true => Headers { src: dst, dst: src, src_port: dst_port, dst_port: src_port, ..*headers },
            false => *headers,
        }
    }

    /// The packets from outside, and those that cross, among the live packets of a batch as they were received.
    pub(crate) fn of(&self, batch: &Batch) -> (u64, u64) {
        bits(batch.live).fold((0, 0), |(outside, crossing), packet| {
            let headers = &batch.headers[packet];
            let is_from_outside = headers.marks.contains(Marks::FROM_OUTSIDE);
            let crosses = self.crosses(headers);
            (outside | u64::from(is_from_outside) << packet, crossing | u64::from(crosses) << packet)
        })
    }

    /// What is inside, for people: `10.0.0.0/8, 2001:db8::/32`.
    pub fn inside(&self) -> String {
        self.inside.to_string()
    }
}

/// Whether an address is valid on one link alone: link-local (RFC 3927, RFC 4291 §2.5.6), or none (`0.0.0.0`, `::`).
fn is_of_one_link(address: Addr) -> bool {
    match address.to_v4() {
        Some(octets) => matches!(octets, [169, 254, ..] | [0, 0, 0, 0]),
        None => matches!(address.0, [0xfe, 0x80..=0xbf, ..]) || address == Addr::UNSPECIFIED,
    }
}

#[cfg(test)]
mod tests {
    use wire::LinkType;

    use super::*;

    fn sides(inside: &[&str]) -> Sides {
        let inside: Vec<String> = inside.iter().map(ToString::to_string).collect();
        Sides::new(PrefixSet::parse("inside", &inside).expect("prefixes"), PrefixSet::default(), true)
    }

    fn packet(src: &str, dst: &str) -> Headers {
        let [src, dst] =
            [src, dst].map(|address| Addr::from(address.parse::<std::net::IpAddr>().expect("address")));
        let marks = if src.to_v4().is_some() { Marks::IPV4 } else { Marks::IPV6 };
        Headers { src, dst, marks, ..Headers::default() }
    }

    /// From outside, or why not.
    fn by(sides: &Sides, side: Option<Side>, mut headers: Headers) -> Result<bool, Malformed> {
        sides.mark_by(side, &mut headers);
        headers.malformed().map_or(Ok(headers.marks.contains(Marks::FROM_OUTSIDE)), Err)
    }

    #[test]
    fn the_interface_says_the_side_and_an_address_of_the_other_one_is_spoofed() {
        let sides = sides(&["10.0.0.0/8", "2001:db8::/32"]);
        let (inside, outside) = (Some(Side::Inside), Some(Side::Outside));
        for (of_inside, of_outside) in [("10.0.0.1", "192.0.2.1"), ("2001:db8::1", "2001:db9::1")] {
            let (in_, out) = (packet(of_inside, of_outside), packet(of_outside, of_inside));
            assert_eq!((by(&sides, None, in_), by(&sides, None, out)), (Ok(false), Ok(true)));
            assert_eq!((by(&sides, inside, in_), by(&sides, outside, out)), (Ok(false), Ok(true)));
            assert_eq!(by(&sides, outside, in_), Err(Malformed::Spoofed), "{of_inside}");
            assert_eq!(by(&sides, inside, out), Err(Malformed::Spoofed), "{of_outside}");
        }
        // Found malformed for another reason before.
        let truncated =
            Headers { malformed_code: Malformed::TcpTruncated as u8, ..packet("10.0.0.1", "192.0.2.1") };
        assert_eq!(by(&sides, outside, truncated), Err(Malformed::TcpTruncated));
    }

    #[test]
    fn addresses_of_no_side_come_from_where_their_interface_is() {
        let both = sides(&["10.0.0.0/8", "2001:db8::/32"]);
        for address in ["0.0.0.0", "169.254.1.1", "fe80::1", "::"] {
            let to = if address.contains(':') { "ff02::1" } else { "255.255.255.255" };
            assert_eq!(by(&both, Some(Side::Inside), packet(address, to)), Ok(false), "{address}");
            assert_eq!(by(&both, Some(Side::Outside), packet(address, to)), Ok(true), "{address}");
        }
        let ipv4 = sides(&["10.0.0.0/8"]);
        for (side, is_outside) in [(Side::Inside, false), (Side::Outside, true)] {
            assert_eq!(by(&ipv4, Some(side), packet("2001:db8::1", "2001:db9::1")), Ok(is_outside));
        }
    }

    /// A time exceeded from `src` to `dst`, which quotes what `dst` sent to `quoted`.
    fn time_exceeded([src, dst, quoted]: [&str; 3]) -> Headers {
        let octets = |address: &str| address.parse::<std::net::Ipv4Addr>().expect("address").octets();
        let ip = |protocol: u8, len: u8, src: &str, dst: &str| {
            [&[0x45, 0, 0, len, 0, 0, 0, 0, 9, protocol, 0, 0][..], &octets(src), &octets(dst)].concat()
        };
        let quote = [&ip(protocol::UDP, 28, dst, quoted)[..], &[0x13, 0x88, 0, 53, 0, 8, 0, 0]].concat();
        let bytes = [&ip(protocol::ICMP, 56, src, dst)[..], &[11, 0, 0, 0, 0, 0, 0, 0], &quote].concat();
        wire::parse(LinkType::RawIp, &bytes, bytes.len() as u32)
    }

    /// A host outside may be told of a way between two hosts outside, by a router outside; and a forger may write anything.
    #[test]
    fn an_error_is_about_a_connection_only_where_both_are_spread_by_one_end() {
        let inside = PrefixSet::parse("inside", &["10.0.0.0/8".to_owned()]).expect("prefixes");
        let external = PrefixSet::parse("external", &["203.0.113.1/32".to_owned()]).expect("prefixes");
        let sides = Sides::new(inside, external, true);
        for (addresses, is_about) in [
            (["198.51.100.1", "10.0.0.1", "192.0.2.9"], true),
            (["198.51.100.1", "203.0.113.1", "192.0.2.9"], true),
            (["198.51.100.1", "192.0.2.9", "10.0.0.1"], false),
            (["198.51.100.1", "192.0.2.9", "192.0.2.10"], false),
            (["198.51.100.1", "10.0.0.1", "10.0.0.2"], false),
            (["10.0.0.3", "10.0.0.1", "192.0.2.9"], false),
            (["10.0.0.3", "192.0.2.9", "10.0.0.1"], false),
        ] {
            let mut headers = time_exceeded(addresses);
            assert!(headers.quoted_destination().is_some(), "{addresses:?}");
            sides.mark(&mut headers);
            let answer = nf::Connection::quoted(&headers);
            assert_eq!(
                (answer.is_some(), headers.quoted_destination().is_some()),
                (is_about, is_about),
                "{addresses:?}"
            );
            if let Some(answer) = answer {
                let [error, answer] = [&headers, &answer].map(|headers| sides.seen_from_inside(headers));
                assert_eq!(
                    (error.src, error.src_port),
                    (answer.src, answer.src_port),
                    "{addresses:?}: spread alike"
                );
            }
        }
    }

    /// What hashes in front of a card knows addresses, and no marks.
    #[test]
    fn what_crosses_follows_from_addresses_alone() {
        let sides = sides(&["10.0.0.0/8", "fe80:1::/32"]);
        let addresses = ["10.0.0.1", "10.0.0.2", "192.0.2.1", "0.0.0.0", "169.254.0.9"];
        let addresses6 = ["fe80:1::1", "fe80::1", "2001:db8::1", "::"];
        let pairs = |all: &'static [&'static str]| all.iter().flat_map(|a| all.iter().map(move |b| (*a, *b)));
        for (src, dst) in pairs(addresses.to_vec().leak()).chain(pairs(addresses6.to_vec().leak())) {
            for side in [None, Some(Side::Inside), Some(Side::Outside)] {
                let mut headers = packet(src, dst);
                sides.mark_by(side, &mut headers);
                if !headers.is_well_formed() {
                    continue;
                }
                let [src_inside, dst_inside] =
                    [headers.src, headers.dst].map(|address| sides.inside.contains(address));
                assert_eq!(sides.crosses(&headers), src_inside != dst_inside, "{src} to {dst}, {side:?}");
            }
        }
        let frame = wire::parse(LinkType::Ethernet, &[0; 14], 14);
        assert!(!sides.crosses(&frame), "no IP");
    }
}
