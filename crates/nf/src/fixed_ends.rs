//! Ends outside that always stand for ends inside, as a NAT's port forwards do.

use alloc::vec::Vec;

use wire::{Addr, Headers, IcmpPorts, protocol};

/// An address, and one port of it if it is not the address as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// The address.
    pub addr: Addr,
    /// Protocol and port; `None`: the address with all that it has.
    pub port: Option<(u8, u16)>,
}

/// An end outside with the end inside that it stands for. Both have a port, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedEnd {
    /// As the outside sees it.
    pub external: End,
    /// As the inside sees it.
    pub inside: End,
}

/// The ends outside that stand for ends inside whatever is sent: see [`Sides::fixed`](crate::Sides::fixed).
///
/// Looked up both ways, in the logarithm of their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FixedEnds {
    by_external: Vec<(End, End)>,
    by_inside: Vec<(End, End)>,
}

/// What an end stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counterpart {
    /// The address.
    pub addr: Addr,
    /// The port; `None`: every port stays as it is.
    pub port: Option<u16>,
}

impl FixedEnds {
    /// These, in any order. Of two that have an end in common one is found.
    pub fn new(ends: impl IntoIterator<Item = FixedEnd>) -> FixedEnds {
        let mut by_external: Vec<(End, End)> =
            ends.into_iter().map(|FixedEnd { external, inside }| (external, inside)).collect();
        let mut by_inside: Vec<(End, End)> =
            by_external.iter().map(|(external, inside)| (*inside, *external)).collect();
        by_external.sort_unstable();
        by_inside.sort_unstable();
        FixedEnds { by_external, by_inside }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_external.is_empty()
    }

    /// What is there, in the order of the external ends.
    pub fn iter(&self) -> impl Iterator<Item = FixedEnd> {
        self.by_external.iter().map(|(external, inside)| FixedEnd { external: *external, inside: *inside })
    }

    /// The inside end that this external one stands for, if it is fixed.
    pub fn inside(&self, addr: Addr, protocol: u8, port: u16) -> Option<Counterpart> {
        find(&self.by_external, addr, protocol, port)
    }

    /// The external end that stands for this inside one, if it is fixed.
    pub fn external(&self, addr: Addr, protocol: u8, port: u16) -> Option<Counterpart> {
        find(&self.by_inside, addr, protocol, port)
    }

    /// The headers of a packet from outside, or of an error about one from inside, with the inside end as destination if that
    /// is fixed.
    #[cold]
    pub fn directed(&self, headers: &Headers) -> Headers {
        let of = match headers.icmp_ports() {
            Some(IcmpPorts::Error { protocol, .. }) if headers.protocol == protocol::ICMP => protocol,
            _ => headers.protocol,
        };
        match self.inside(headers.dst, of, headers.dst_port) {
            Some(Counterpart { addr, port }) => {
                Headers { dst: addr, dst_port: port.unwrap_or(headers.dst_port), ..*headers }
            }
            None => *headers,
        }
    }
}

/// A port's own entry goes before its address'.
fn find(ends: &[(End, End)], addr: Addr, protocol: u8, port: u16) -> Option<Counterpart> {
    let of = |port| {
        let index = ends.binary_search_by_key(&End { addr, port }, |(end, _)| *end).ok()?;
        ends.get(index).map(|(_, to)| to)
    };
    let to = of(Some((protocol, port))).or_else(|| of(None))?;
    Some(Counterpart { addr: to.addr, port: to.port.map(|(_, port)| port) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Marks;

    const EXTERNAL: Addr = Addr::v4([203, 0, 113, 1]);
    const WHOLE: Addr = Addr::v4([203, 0, 113, 9]);
    const INSIDE: Addr = Addr::v4([10, 0, 0, 5]);
    const HOST: Addr = Addr::v4([10, 0, 0, 9]);

    fn ends() -> FixedEnds {
        let tcp = |addr, port| End { addr, port: Some((protocol::TCP, port)) };
        let whole = |addr| End { addr, port: None };
        FixedEnds::new([
            FixedEnd { external: whole(WHOLE), inside: whole(HOST) },
            FixedEnd { external: tcp(EXTERNAL, 443), inside: tcp(INSIDE, 8443) },
            FixedEnd { external: tcp(EXTERNAL, 80), inside: tcp(INSIDE, 80) },
        ])
    }

    #[test]
    fn each_end_leads_to_its_counterpart_and_no_other_does() {
        let ends = ends();
        let port = |addr, port| Some(Counterpart { addr, port: Some(port) });
        assert_eq!(ends.inside(EXTERNAL, protocol::TCP, 443), port(INSIDE, 8443));
        assert_eq!(ends.external(INSIDE, protocol::TCP, 8443), port(EXTERNAL, 443));
        assert_eq!(ends.external(INSIDE, protocol::TCP, 80), port(EXTERNAL, 80));
        for (protocol, port) in [(protocol::TCP, 1), (protocol::ICMP, 0)] {
            assert_eq!(ends.inside(WHOLE, protocol, port), Some(Counterpart { addr: HOST, port: None }));
            assert_eq!(ends.external(HOST, protocol, port), Some(Counterpart { addr: WHOLE, port: None }));
        }
        for (addr, protocol, port) in
            [(EXTERNAL, protocol::UDP, 443), (EXTERNAL, protocol::TCP, 444), (INSIDE, protocol::TCP, 443)]
        {
            assert_eq!(ends.inside(addr, protocol, port), None);
        }
        assert!(!ends.is_empty() && FixedEnds::default().is_empty());
        assert_eq!(FixedEnds::new(ends.iter()), ends);
    }

    #[test]
    fn headers_are_directed_to_the_inside_end() {
        let headers = Headers {
            dst: EXTERNAL,
            dst_port: 443,
            protocol: protocol::TCP,
            marks: Marks::IPV4,
            ..Headers::default()
        };
        let directed = Headers { dst: INSIDE, dst_port: 8443, ..headers };
        assert_eq!(ends().directed(&headers), directed);
        let other = Headers { dst_port: 444, ..headers };
        assert_eq!(ends().directed(&other), other);
        let whole = Headers { dst: WHOLE, ..headers };
        assert_eq!(ends().directed(&whole), Headers { dst: HOST, ..headers });
    }
}
