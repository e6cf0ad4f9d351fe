//! What a router drops before anything else looks at it: packets that no honest sender sends by way of a router.

use wire::Addr;

use super::reason::RouteDrop;
use super::snapshot::Snapshot;

/// IPv4 options (RFC 791 §3.1).
mod option {
    pub const END: u8 = 0;
    pub const NO_OPERATION: u8 = 1;
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    pub const STRICT_SOURCE_ROUTE: u8 = 137;
}

/// IPv6 extension headers.
mod extension {
    pub const HOP_BY_HOP: u8 = 0;
    pub const ROUTING: u8 = 43;
    pub const FRAGMENT: u8 = 44;
    pub const AUTHENTICATION: u8 = 51;
    pub const DESTINATION: u8 = 60;
}

/// Extension headers that are followed: a packet with more is malformed.
const EXTENSIONS: usize = 8;

/// Why an Ethernet frame, as it was received, is dropped, if it is.
#[inline]
pub(super) fn screen(snapshot: &Snapshot, frame: &[u8]) -> Option<RouteDrop> {
    let ethernet = frame.first_chunk::<14>()?;
    let packet = &frame[14..];
    let (source, has_source_route) = match [ethernet[12], ethernet[13]] {
        [0x08, 0x00] => {
            let header = packet.first_chunk::<20>()?;
            let source = Addr::v4([header[12], header[13], header[14], header[15]]);
            (source, header[0] & 0x0f > 5 && has_source_route_v4(packet))
        }
        [0x86, 0xdd] => {
            let header = packet.first_chunk::<40>()?;
            let source = Addr(*header[8..].first_chunk::<16>()?);
            (source, is_extension(header[6]) && has_source_route_v6(header[6], &packet[40..]))
        }
        _ => return None,
    };
    match snapshot.has_own(source) {
        true => Some(RouteDrop::OwnSource),
        false => has_source_route.then_some(RouteDrop::SourceRoute),
    }
}

#[cold]
fn has_source_route_v4(packet: &[u8]) -> bool {
    let end = usize::from(packet[0] & 0x0f) * 4;
    let mut rest = packet.get(20..end.min(packet.len())).unwrap_or_default();
    loop {
        rest = match *rest {
            [] | [option::END, ..] => return false,
            [option::LOOSE_SOURCE_ROUTE | option::STRICT_SOURCE_ROUTE, ..] => return true,
            [option::NO_OPERATION, ref rest @ ..] => rest,
            [_, len, ..] if len >= 2 => rest.get(usize::from(len)..).unwrap_or_default(),
            [..] => return false,
        }
    }
}

#[inline]
fn is_extension(next: u8) -> bool {
    use extension::{AUTHENTICATION, DESTINATION, FRAGMENT, HOP_BY_HOP, ROUTING};
    matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION)
}

#[cold]
fn has_source_route_v6(mut next: u8, mut rest: &[u8]) -> bool {
    for _ in 0..EXTENSIONS {
        let Some([following, len, kind, ..]) = rest.first_chunk::<8>().copied() else { return false };
        if next == extension::ROUTING && kind == 0 {
            return true;
        }
        let bytes = match next {
            extension::FRAGMENT => 8,
            extension::AUTHENTICATION => (usize::from(len) + 2) * 4,
            _ => (usize::from(len) + 1) * 8,
        };
        (next, rest) = (following, rest.get(bytes..).unwrap_or_default());
        if !is_extension(next) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet of these options, padded to whole words.
    fn ipv4(options: &[u8]) -> Vec<u8> {
        let words = options.len().div_ceil(4);
        let mut packet = vec![0; 20 + 4 * words];
        packet[0] = 0x45 + words as u8;
        packet[20..20 + options.len()].copy_from_slice(options);
        packet
    }

    #[test]
    fn source_routes_of_ipv4_are_found_behind_other_options() {
        for route in [131, 137] {
            assert!(has_source_route_v4(&ipv4(&[route, 7, 4, 192, 0, 2, 1])));
            assert!(has_source_route_v4(&ipv4(&[1, 1, 7, 7, 4, 0, 0, 0, 0, route, 3, 4])));
            // Behind the end of the list, in another option's data, and behind an option without a length.
            assert!(!has_source_route_v4(&ipv4(&[0, route, 3, 4])));
            assert!(!has_source_route_v4(&ipv4(&[7, 4, route, 3])));
            assert!(!has_source_route_v4(&ipv4(&[7, 0, route, 3])));
        }
        assert!(!has_source_route_v4(&ipv4(&[148, 4, 0, 0])), "router alert");
        assert!(!has_source_route_v4(&[0x4f; 20]), "cut");
    }

    #[test]
    fn routing_headers_of_type_0_are_found_behind_other_headers() {
        let header = |next: u8, kind: u8| [next, 0, kind, 0, 0, 0, 0, 0];
        let headers = |kinds: &[[u8; 8]]| kinds.concat();
        assert!(has_source_route_v6(43, &headers(&[header(17, 0)])));
        assert!(!has_source_route_v6(43, &headers(&[header(17, 4)])), "segment routing");
        for before in [0, 60, 44] {
            assert!(has_source_route_v6(before, &headers(&[header(43, 0), header(17, 0)])), "{before}");
        }
        assert!(!has_source_route_v6(0, &headers(&[header(17, 0)])));
        assert!(!has_source_route_v6(0, &[43, 0]), "cut");
        assert!(!has_source_route_v6(0, &headers(&[header(0, 1); 20])), "more than are followed");
    }
}
