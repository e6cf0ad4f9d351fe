//! What holds for any bytes. Property tests, the capture and the fuzz targets all call these.
#![allow(dead_code)] // Each of them calls some.

use std::ops::Range;

use wire::{
    Addr, ApplyError, Edits, Headers, IcmpPorts, LinkType, Malformed, Marks, VlanEdit, apply, protocol,
};

pub const LINKS: [LinkType; 6] = [
    LinkType::Ethernet,
    LinkType::Null,
    LinkType::Loop,
    LinkType::RawIp,
    LinkType::LinuxSll,
    LinkType::LinuxSll2,
];

/// Parses, and checks what must be true of every result.
pub fn check_parse(link: LinkType, frame: &[u8], wire_len: u32) -> Headers {
    let headers = parse_both_ways(link, frame, wire_len);
    let real_wire_len = (wire_len as usize).max(frame.len());
    let marks = headers.marks;
    assert!(usize::from(headers.l3_offset) <= usize::from(headers.l4_offset));
    assert!(usize::from(headers.payload_offset()) <= frame.len());
    assert_eq!(marks.contains(Marks::SNAPPED), real_wire_len > frame.len());
    assert!(!marks.contains(Marks::IPV4 | Marks::IPV6));
    assert!(!marks.contains(Marks::FIRST_FRAGMENT | Marks::LATER_FRAGMENT));
    assert!(!marks.contains(Marks::FROM_OUTSIDE), "a chain's business");
    assert!(marks.contains(Marks::VLAN) || headers.vlan == 0);
    assert_eq!(headers.malformed().map_or(0, |reason| reason as u8), headers.malformed_code);
    assert!(
        headers.is_well_formed() || link != LinkType::Ethernet || frame.len() < 14 || headers.l3_offset >= 14
    );
    if headers.is_well_formed() {
        assert!(usize::from(headers.l3_offset) + usize::from(headers.l3_len) <= real_wire_len);
        assert!(usize::from(headers.payload_offset()) + usize::from(headers.payload_len()) <= real_wire_len);
        assert!(headers.is_ip() || headers.l4_offset == u16::from(headers.l3_offset));
    }
    if marks.contains(Marks::LATER_FRAGMENT) {
        assert_eq!((headers.src_port, headers.dst_port, headers.tcp_shape), (0, 0, 0));
    }
    if headers.is_tcp() {
        assert!((20..=60).contains(&headers.l4_header_len()));
        assert!(headers.sack.wrapping_sub(headers.ack).cast_signed() >= 0);
        assert!(headers.window_scale().is_none_or(|shift| shift <= 14));
    }
    headers
}

/// Parses by the short way that plain packets take, as one of a batch, and layer by layer: all agree in every field.
/// None leaves anything of what was in the headers before.
pub fn parse_both_ways(link: LinkType, frame: &[u8], wire_len: u32) -> Headers {
    let mut short = leftover();
    let is_plain = wire::parse_into(link, frame, wire_len, &mut short);
    assert!(!is_plain || short.is_plain(link), "{short:?}");
    let mut long = leftover();
    wire::parse_by_layers(link, frame, wire_len, &mut long);
    assert_eq!(short, long, "{link:?}, {wire_len} bytes on the wire: {frame:02x?}");
    assert_eq!(short, wire::parse(link, frame, wire_len));
    let mut in_batch = [leftover()];
    let batch = wire::parse_batch(&[frame], 0, &mut in_batch, |frame| (link, *frame, wire_len));
    let expected = wire::ParsedBatch { plain: is_plain.into(), well_formed: short.is_well_formed().into() };
    assert_eq!((in_batch[0], batch), (long, expected), "{link:?}, {wire_len} bytes: {frame:02x?}");
    short
}

/// Headers with no field as any parse would have it.
pub fn leftover() -> Headers {
    <Headers as zerocopy::FromBytes>::read_from_bytes(&[0xa5; 64]).unwrap()
}

/// The first `captured` bytes read as the whole frame does, or as a header cut through.
pub fn check_snapped(link: LinkType, frame: &[u8], captured: usize, wire_len: u32) -> Headers {
    let wire_len = wire_len.max(frame.len() as u32);
    let whole = check_parse(link, frame, wire_len);
    let snapped = check_parse(link, &frame[..captured], wire_len);
    let mut expected = whole;
    expected.marks.set(Marks::SNAPPED, (wire_len as usize) > captured);
    // An error is whole without what it quotes.
    let is_error = matches!(whole.icmp_ports(), Some(IcmpPorts::Error { .. }));
    if is_error && snapped.icmp_ports().is_none() {
        (expected.src_port, expected.dst_port, expected.ack) = (0, 0, 0);
        expected.tcp_shape &= 0xf0;
    }
    match snapped.malformed() {
        Some(
            Malformed::LinkTruncated
            | Malformed::Ipv4Truncated
            | Malformed::Ipv6Truncated
            | Malformed::Ipv6ExtensionTruncated
            | Malformed::TcpTruncated
            | Malformed::UdpTruncated
            | Malformed::IcmpTruncated
            | Malformed::PortsTruncated,
        ) => {}
        _ => assert_eq!(snapped, expected),
    }
    snapped
}

pub const PLAN_LEN: usize = 64;

/// Edits from any bytes: which fields, then their values. Addresses are of both families.
pub fn edits_of(plan: &[u8; PLAN_LEN], is_v4: bool) -> Edits {
    let mut edits = Edits::default();
    add_edits(&mut edits, plan, is_v4);
    edits
}

/// Adds the edits that `plan` says to those that are in `edits` already.
pub fn add_edits(edits: &mut Edits, plan: &[u8; PLAN_LEN], is_v4: bool) {
    let has = |bit: u32| plan[0] & 1 << bit != 0;
    let addr = |octets: &[u8]| match is_v4 {
        true => Addr::v4(octets[..4].try_into().unwrap()),
        false => Addr(octets.try_into().unwrap()),
    };
    let number = |at: usize| u16::from_be_bytes([plan[at], plan[at + 1]]);
    let mac = |at: usize| plan[at..at + 6].try_into().unwrap();
    if has(0) {
        edits.set_src(addr(&plan[2..18]));
    }
    if has(1) {
        edits.set_dst(addr(&plan[18..34]));
    }
    if has(2) {
        edits.set_src_port(number(34));
    }
    if has(3) {
        edits.set_dst_port(number(36));
    }
    if has(4) {
        edits.set_ttl(plan[38]);
    }
    if has(5) {
        edits.set_tos(plan[39]);
    }
    if has(6) {
        edits.set_src_mac(mac(40));
        edits.set_dst_mac(mac(46));
    }
    match plan[1] % 4 {
        0 => edits.set_vlan(VlanEdit::Push(number(52))),
        1 => edits.set_vlan(VlanEdit::Pop),
        2 => edits.set_vlan(VlanEdit::Rewrite(number(52))),
        _ => {}
    }
}

const AROUND: u8 = 0xa5;

/// Applies `edits` to `frame` with `room` bytes before and behind it, and checks everything that must
/// hold. Returns the frame afterwards.
pub fn check_edits(
    edits: &Edits,
    link: LinkType,
    frame: &[u8],
    wire_len: u32,
    room: (usize, usize),
) -> Vec<u8> {
    let before = wire::parse(link, frame, wire_len);
    let mut buffer = vec![AROUND; room.0];
    buffer.extend_from_slice(frame);
    buffer.resize(buffer.len() + room.1, AROUND);
    let untouched = buffer.clone();
    let mut range = room.0..room.0 + frame.len();
    let (mut by_layers, mut range_by_layers) = (buffer.clone(), range.clone());
    let outcome = apply(edits, &before, link, &mut buffer, &mut range);
    let outcome_by_layers = wire::apply_by_layers(edits, &before, link, &mut by_layers, &mut range_by_layers);
    assert_eq!(
        (outcome, &range, &buffer),
        (outcome_by_layers, &range_by_layers, &by_layers),
        "the short way and the layers: {edits:?}"
    );
    if outcome == Err(ApplyError::NoRoom) {
        assert!(room.0 < 4 && room.1 < 4);
        assert_eq!((buffer, range), (untouched, room.0..room.0 + frame.len()));
        return frame.to_vec();
    }
    let added_before = room.0 as isize - range.start as isize;
    let added_behind = range.end as isize - (room.0 + frame.len()) as isize;
    let touched = range.start.min(room.0)..range.end.max(room.0 + frame.len());
    assert!([(0, 0), (4, 0), (-4, 0), (0, 4)].contains(&(added_before, added_behind)));
    assert_eq!(buffer[..touched.start], untouched[..touched.start]);
    assert_eq!(buffer[touched.end..], untouched[touched.end..]);

    let edited = buffer[range].to_vec();
    let added = added_before + added_behind;
    check_headers_follow(edits, link, &before, &edited, (wire_len as usize).max(frame.len()), added);
    let start = usize::from(before.l3_offset);
    let packet = &frame[start..];
    let edited_packet = &edited[start.saturating_add_signed(added)..];
    assert_eq!(packet.len(), edited_packet.len());
    assert_eq!(sums(&before, packet), sums(&before, edited_packet), "{before:?} {edits:?}");
    check_others_kept(&before, packet, edited_packet);
    edited
}

/// Parsing the edited frame gives what [`Edits::apply_to_headers`] gives, but for offsets.
fn check_headers_follow(
    edits: &Edits,
    link: LinkType,
    before: &Headers,
    edited: &[u8],
    wire_len: usize,
    added: isize,
) {
    let mut expected = *before;
    edits.apply_to_headers(&mut expected);
    let mut twice = expected;
    edits.apply_to_headers(&mut twice);
    assert_eq!(twice, expected, "the same edits again change nothing");
    let after = check_parse(link, edited, wire_len.saturating_add_signed(added) as u32);
    expected.l3_offset = expected.l3_offset.saturating_add_signed(added as i8);
    expected.l4_offset = expected.l4_offset.saturating_add_signed(added as i16);
    if before.has_two_tags() && added < 0 {
        // The one thing that headers do not know: the inner tag's.
        assert_eq!(expected.vlan, 0);
        expected.vlan = after.vlan;
    }
    assert_eq!(after, expected, "{before:?} {edits:?}");
}

/// Nothing changes that no edit is about: lengths, flow label, fragmentation, options, extension
/// headers, and all behind the transport header, or behind a later fragment's IP header.
fn check_others_kept(before: &Headers, packet: &[u8], edited_packet: &[u8]) {
    let l4 = usize::from(before.l4_offset) - usize::from(before.l3_offset);
    for (at, (byte, edited_byte)) in packet.iter().zip(edited_packet).enumerate().take(l4) {
        let kept = match at {
            _ if before.marks.contains(Marks::IPV4) => match at {
                1 | 8 | 10..20 => 0,
                _ => 0xff,
            },
            0 => 0xf0,
            1 => 0x0f,
            7..40 => 0,
            _ => 0xff,
        };
        assert_eq!(byte & kept, edited_byte & kept, "byte {at} of the IP header");
    }
    check_payload_kept(before, packet, edited_packet);
}

fn check_payload_kept(before: &Headers, packet: &[u8], edited_packet: &[u8]) {
    if let Some(IcmpPorts::Error { .. }) = before.icmp_ports() {
        // What it quotes is edited too.
        return;
    }
    let mut start = usize::from(before.payload_offset()) - usize::from(before.l3_offset);
    if matches!(before.protocol, protocol::SCTP | protocol::DCCP) || !before.is_well_formed() {
        start += 20;
    }
    if before.protocol == 136 && !before.marks.contains(Marks::LATER_FRAGMENT) {
        start += 8;
    }
    if let (Some(payload), Some(edited_payload)) = (packet.get(start..), edited_packet.get(start..)) {
        assert_eq!(payload, edited_payload);
    }
}

/// By how much the checksums of a packet are wrong: of the IPv4 header, and of the transport. `None`
/// where there is none, or it cannot be told here.
///
/// Computed in full, from the definition, so that mending is held to something else than itself.
fn sums(headers: &Headers, packet: &[u8]) -> (Option<u16>, Option<u32>) {
    use Malformed::{IcmpTruncated, PortsTruncated, TcpDataOffset, TcpTruncated, UdpLength, UdpTruncated};
    let is_ip_whole = matches!(
        headers.malformed(),
        None | Some(TcpTruncated | TcpDataOffset | UdpTruncated | UdpLength | IcmpTruncated | PortsTruncated)
    );
    if !headers.is_ip() || !is_ip_whole {
        return (None, None);
    }
    let is_v4 = headers.marks.contains(Marks::IPV4);
    let l4 = usize::from(headers.l4_offset - u16::from(headers.l3_offset));
    let (header_sum, addresses) = match is_v4 {
        true => (Some(sum(&packet[..l4])), &packet[12..20]),
        false => (None, &packet[8..40]),
    };
    // Behind extension headers, of which one may be a routing header, addresses are not what is summed.
    if headers.marks.contains(Marks::LATER_FRAGMENT) || (!is_v4 && l4 > 40) {
        return (header_sum, None);
    }
    let end = match headers.l3_len {
        u16::MAX => packet.len(),
        len => packet.len().min(usize::from(len)),
    };
    let segment = &packet[l4..end];
    let transport_sum = match headers.protocol {
        protocol::UDP if segment.get(6..8) == Some(&[0, 0]) => None,
        protocol::UDP | protocol::DCCP | 136 if segment.len() >= 8 => Some(6),
        protocol::TCP if segment.len() >= 18 => Some(16),
        protocol::ICMPV6 if !is_v4 && segment.len() >= 4 => Some(2),
        // Without addresses, and with whatever an error quotes.
        protocol::ICMP if is_v4 => return (header_sum, Some(u32::from(sum(segment)))),
        protocol::SCTP => return (header_sum, sctp_difference(headers, segment)),
        _ => None,
    }
    .map(|_| u32::from(sum(&[addresses, segment].concat())));
    (header_sum, transport_sum)
}

/// The one's complement sum (RFC 1071), with one form of zero.
pub fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0)));
    (words.sum::<u64>() % 0xffff) as u16
}

/// By which bits the checksum of a whole SCTP packet differs from its CRC32c.
fn sctp_difference(headers: &Headers, segment: &[u8]) -> Option<u32> {
    let is_whole = !headers.is_fragment() && !headers.marks.contains(Marks::SNAPPED);
    let field = segment.get(8..12).filter(|field| is_whole && **field != [0; 4])?;
    let stored = u32::from_le_bytes(field.try_into().unwrap());
    let mut zeroed = segment.to_vec();
    zeroed[8..12].fill(0);
    Some(crc32c(&zeroed) ^ stored)
}

/// RFC 9260 appendix A, bit by bit.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 != 0 { 0x82f6_3b78 } else { 0 })
    })
}

/// Headers that are not this frame's: nothing to promise but no panic, and room around the frame.
pub fn check_mismatched(
    edits: &Edits,
    headers: &Headers,
    link: LinkType,
    buffer: &[u8],
    frame: Range<usize>,
) {
    let mut edited = buffer.to_vec();
    let mut range = frame.clone();
    let _ = apply(edits, headers, link, &mut edited, &mut range);
    let (start, end) = (frame.start.min(range.start), frame.end.max(range.end));
    assert!(start.abs_diff(frame.start) <= 4 && end.abs_diff(frame.end) <= 4);
    assert_eq!(edited.get(..start), buffer.get(..start));
    assert_eq!(edited.get(end..), buffer.get(end..));
    edits.apply_to_headers(&mut headers.clone());
}
