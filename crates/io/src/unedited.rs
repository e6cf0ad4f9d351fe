//! Keeps what a packet's headers were before its edits, so that an ICMP error can quote the packet as it came.

use wire::{Addr, Edits, Headers, LinkType, Marks, protocol};

/// What a packet's headers were before its edits, so that these can be undone: an ICMP error quotes the packet that its
/// sender sent (RFC 792).
///
/// It lies in the packet's buffer, before the [reference](crate::Reference), if the packet's [note](crate::Note) says so:
///
/// ```text
///   buffer:  | ... | bytes 6 to 57 of the frame | 4 bytes of the transport header | reference | packet ... |
///                  data.start - 64              data.start - 12                   - 8         data.start
/// ```
///
/// Bytes 6 to 57 of an Ethernet frame are all that edits change of IPv4 without options and of IPv6 without extension
/// headers, but checksums, which are undone by the difference. The 4 bytes are ports, or the identifier of an ICMP query,
/// wherever they are. Edits of VLAN tags are not undone.
#[derive(Clone, Copy, Debug)]
pub struct Unedited<'a>(&'a [u8; KEPT]);

/// The first byte of an Ethernet frame that is kept: edits may change all from the source MAC address on.
const FIRST: usize = 6;
const LAST: usize = 58;
const PORTS: usize = 4;
const KEPT: usize = LAST - FIRST + PORTS;
/// With the reference behind it.
const LINE: usize = KEPT + crate::Reference::LEN;

impl<'a> Unedited<'a> {
    /// Keeps what the headers of an Ethernet frame at `start` of its buffer are, which is about to be edited. `false` if there
    /// is no room for it.
    #[inline]
    pub fn keep(buffer: &mut [u8], start: usize, headers: &Headers) -> bool {
        let Some((before, frame)) = buffer.split_at_mut_checked(start) else { return false };
        let Some(kept) = before.last_chunk_mut::<LINE>().and_then(|line| line.first_chunk_mut::<KEPT>())
        else {
            return false;
        };
        let Some(first) = frame.get(FIRST..LAST) else { return false };
        kept[..LAST - FIRST].copy_from_slice(first);
        let ports = ports_at(headers);
        if ports + PORTS > LAST {
            kept[LAST - FIRST..].copy_from_slice(frame.get(ports..ports + PORTS).unwrap_or(&[0; PORTS]));
        }
        true
    }

    /// What was kept of a packet, from the bytes before it in its buffer.
    #[inline]
    pub fn before(bytes: &'a [u8]) -> Option<Unedited<'a>> {
        bytes.last_chunk::<LINE>().and_then(|line| line.first_chunk::<KEPT>()).map(Unedited)
    }

    /// Undoes the edits of the frame, which reads as `headers` now. The destination MAC address stays.
    pub fn restore(self, headers: &Headers, frame: &mut [u8]) {
        let Unedited(kept) = self;
        let at = |offset: usize| &kept[offset - FIRST..];
        let mut edits = Edits::NONE;
        edits.set_src_mac(chunk(at(FIRST)));
        if headers.marks.contains(Marks::IPV4) {
            edits.set_tos(at(15)[0]);
            edits.set_ttl(at(22)[0]);
            edits.set_src(Addr::v4(chunk(at(26))));
            edits.set_dst(Addr::v4(chunk(at(30))));
        } else {
            edits.set_tos(at(14)[0] << 4 | at(15)[0] >> 4);
            edits.set_ttl(at(21)[0]);
            edits.set_src(Addr(chunk(at(22))));
            edits.set_dst(Addr(chunk(at(38))));
        }
        let ports = ports_at(headers);
        let [a, b, c, d] = chunk(if ports + PORTS > LAST { at(LAST) } else { at(ports.max(FIRST)) });
        let first = u16::from_be_bytes([a, b]);
        // A query has one identifier, as one of the two.
        let second = if is_icmp(headers) { first } else { u16::from_be_bytes([c, d]) };
        edits.set_src_port(first);
        edits.set_dst_port(second);
        let len = frame.len();
        let room = wire::apply_by_layers(&edits, headers, LinkType::Ethernet, frame, &mut (0..len));
        debug_assert!(room.is_ok(), "no tag is pushed");
    }
}

/// Where ports are, or the identifier of a query.
#[inline]
fn ports_at(headers: &Headers) -> usize {
    usize::from(headers.l4_offset) + if is_icmp(headers) { 4 } else { 0 }
}

#[inline]
fn is_icmp(headers: &Headers) -> bool {
    headers.protocol == protocol::ICMP
}

fn chunk<const N: usize>(bytes: &[u8]) -> [u8; N] {
    *bytes.first_chunk().expect("within what is kept")
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: usize = 64;

    fn ethernet(kind: [u8; 2], packet: &[u8]) -> Vec<u8> {
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &kind[..], packet].concat()
    }

    /// IPv4 with so many bytes of options.
    fn ipv4(number: u8, options: usize, transport: &[u8]) -> Vec<u8> {
        let len = (20 + options + transport.len()) as u16;
        let mut header = vec![0x45 + options as u8 / 4, 0xb8];
        header.extend(len.to_be_bytes());
        header.extend([0, 7, 0x40, 0, 63, number, 0, 0, 192, 0, 2, 7, 203, 0, 113, 9]);
        header.extend(std::iter::repeat_n(1, options));
        let sum = wire::internet_checksum(&[&header]);
        header[10..12].copy_from_slice(&sum);
        ethernet([8, 0], &[&header[..], transport].concat())
    }

    /// IPv6 with so many bytes of destination options.
    fn ipv6(number: u8, options: usize, transport: &[u8]) -> Vec<u8> {
        let next = if options > 0 { 60 } else { number };
        let [high, low] = ((options + transport.len()) as u16).to_be_bytes();
        let mut header = vec![0x6b, 0x80, 0, 1, high, low, next, 63];
        header.extend([0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
        header.extend([0x20, 1, 0xd, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        if options > 0 {
            header.extend([number, options as u8 / 8 - 1, 1, options as u8 - 4]);
            header.resize(40 + options, 0);
        }
        ethernet([0x86, 0xdd], &[&header[..], transport].concat())
    }

    fn tcp() -> Vec<u8> {
        [&[0x30, 0x39, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8, 0x50, 0x18, 4, 0, 0xab, 0xcd, 0, 0][..], b"hello"]
            .concat()
    }

    fn frames() -> Vec<Vec<u8>> {
        let udp = [0x30, 0x39, 0, 53, 0, 12, 0x12, 0x34, 1, 2, 3, 4];
        let no_checksum = [0x30, 0x39, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4];
        let sctp = [0x30, 0x39, 0, 53, 1, 2, 3, 4, 9, 9, 9, 9, 5, 5, 5, 5];
        let (request, reply) = ([8, 0, 1, 2, 0x77, 0x66, 0, 1], [0, 0, 1, 2, 0x77, 0x66, 0, 1]);
        let mut all = Vec::new();
        for options in [0, 4, 20, 24, 40] {
            all.extend([ipv4(6, options, &tcp()), ipv4(17, options, &udp), ipv4(132, options, &sctp)]);
            all.extend([
                ipv4(1, options, &request),
                ipv4(1, options, &reply),
                ipv4(17, options, &no_checksum),
            ]);
        }
        for options in [0, 8, 64] {
            all.extend([ipv6(6, options, &tcp()), ipv6(17, options, &udp), ipv6(132, options, &sctp)]);
        }
        all
    }

    fn edits(is_ipv4: bool) -> Edits {
        let mut edits = Edits::NONE;
        let addresses = match is_ipv4 {
            true => [Addr::v4([10, 0, 0, 1]), Addr::v4([10, 9, 8, 7])],
            false => [Addr([0xfd; 16]), Addr([0xfc; 16])],
        };
        edits.set_src(addresses[0]);
        edits.set_dst(addresses[1]);
        edits.set_src_port(60_000);
        edits.set_dst_port(8_080);
        edits.set_ttl(9);
        edits.set_tos(0x20);
        edits.set_src_mac([6; 6]);
        edits
    }

    #[test]
    fn edits_are_undone_byte_for_byte() {
        for frame in frames() {
            let headers = wire::parse(LinkType::Ethernet, &frame, frame.len() as u32);
            assert!(headers.is_well_formed(), "{headers:?}");
            let mut buffer = [&[0xee; START][..], &frame[..], &[0; 64][..]].concat();
            assert!(Unedited::keep(&mut buffer, START, &headers));
            assert_eq!(buffer[START - 8..START], [0xee; 8], "the reference stays");
            let (before, packet) = buffer.split_at_mut(START);
            let packet = &mut packet[..frame.len()];
            let edits = edits(headers.marks.contains(Marks::IPV4));
            wire::apply_by_layers(&edits, &headers, LinkType::Ethernet, packet, &mut (0..frame.len()))
                .expect("room");
            assert_ne!(packet, frame);
            let edited = wire::parse(LinkType::Ethernet, packet, frame.len() as u32);
            Unedited::before(before).expect("it was kept").restore(&edited, packet);
            assert_eq!(packet, frame, "{headers:?}");
        }
    }

    #[test]
    fn where_there_is_no_room_nothing_is_kept() {
        let frame = ipv4(6, 0, &tcp());
        let headers = wire::parse(LinkType::Ethernet, &frame, frame.len() as u32);
        let mut buffer = [&[0; 63][..], &frame[..]].concat();
        assert!(!Unedited::keep(&mut buffer, 63, &headers));
        assert!(Unedited::before(&buffer[..63]).is_none());
    }
}
