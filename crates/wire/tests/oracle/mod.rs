//! What the `etherparse` crate, as another author's reading of the same RFCs, says of a frame.
//!
//! Where the two read differently on purpose, [`Doubt::Exempt`] says why; nothing else is excused.

use etherparse::{
    EtherType, Ethernet2Slice, Icmpv4Slice, Icmpv6Slice, IpFragOffset, IpNumber, Ipv4HeaderSlice, Ipv4Slice,
    Ipv6ExtensionSlice, Ipv6Slice, LinuxSllProtocolType, LinuxSllSlice, SingleVlanSlice, TcpHeaderSlice,
    TcpOptionElement, TcpOptionsIterator, UdpHeaderSlice, UdpSlice, err, ip_number,
};
use wire::{Addr, Headers, LinkType, Marks, parse};

/// Why there are no headers to compare with.
#[derive(Debug)]
pub enum Doubt {
    /// etherparse refuses the frame, for this reason.
    Malformed(String),
    /// A documented difference.
    Exempt(&'static str),
}

fn malformed(error: impl std::fmt::Debug) -> Doubt {
    Doubt::Malformed(format!("{error:?}"))
}

/// Compares [`parse`] with etherparse on a frame that was captured whole; `Ok(Some(reason))` where a
/// documented difference stands in the way.
pub fn compare(link: LinkType, frame: &[u8]) -> Result<Option<&'static str>, String> {
    let headers = parse(link, frame, frame.len() as u32);
    match (opinion(link, frame), headers.malformed()) {
        (Err(Doubt::Exempt(reason)), _) => Ok(Some(reason)),
        (Err(Doubt::Malformed(_)), Some(_)) => Ok(None),
        (Err(Doubt::Malformed(_)), None) if headers.marks.contains(Marks::IPV6 | Marks::LATER_FRAGMENT) => {
            Ok(Some("etherparse reads extension headers in later fragments, where payload is"))
        }
        (Err(Doubt::Malformed(reason)), None) => Err(format!("etherparse: {reason}; here: {headers:?}")),
        (Ok(_), Some(reason)) => Err(format!("well-formed to etherparse, here {}", reason.name())),
        (Ok((expected, payload_len)), None) => {
            if headers != expected {
                return Err(format!("etherparse: {expected:#?}\nhere: {headers:#?}"));
            }
            let here = usize::from(headers.payload_len());
            (here == payload_len.min(65_535)).then_some(None).ok_or_else(|| {
                format!("payload of {payload_len} bytes to etherparse, here {here}: {headers:?}")
            })
        }
    }
}

/// The headers, and the payload's length.
fn opinion(link: LinkType, frame: &[u8]) -> Result<(Headers, usize), Doubt> {
    let mut headers = Headers::default();
    let (mut ether_type, mut rest) = match link {
        LinkType::Ethernet => {
            let ethernet = Ethernet2Slice::from_slice_without_fcs(frame).map_err(malformed)?;
            (ethernet.ether_type(), &frame[14..])
        }
        LinkType::LinuxSll => {
            let sll = LinuxSllSlice::from_slice(frame).map_err(|_| {
                Doubt::Exempt("etherparse refuses hardware and packet types it does not know")
            })?;
            match sll.protocol_type() {
                LinuxSllProtocolType::EtherType(ether_type) => (ether_type, &frame[16..]),
                _ => (EtherType(0), &frame[16..]),
            }
        }
        LinkType::RawIp => match frame.first().map(|first| first >> 4) {
            Some(4) => (EtherType::IPV4, frame),
            Some(6) => (EtherType::IPV6, frame),
            _ => return Err(Doubt::Malformed("neither IPv4 nor IPv6".into())),
        },
        _ => return Err(Doubt::Exempt("etherparse does not know the link")),
    };
    let mut tags = 0;
    while let EtherType::VLAN_TAGGED_FRAME
    | EtherType::PROVIDER_BRIDGING
    | EtherType::VLAN_DOUBLE_TAGGED_FRAME = ether_type
    {
        let tag = SingleVlanSlice::from_slice(rest).map_err(malformed)?;
        tags += 1;
        if tags > 2 {
            return Err(Doubt::Malformed("a third tag".into()));
        }
        if tags == 1 {
            headers.vlan = u16::from(tag.priority_code_point().value()) << 13
                | u16::from(tag.drop_eligible_indicator()) << 12
                | tag.vlan_identifier().value();
            headers.marks |= Marks::VLAN;
        }
        ether_type = tag.ether_type();
        rest = &rest[4..];
    }
    headers.l3_offset = (frame.len() - rest.len()) as u8;
    headers.l4_offset = u16::from(headers.l3_offset);
    headers.l3_len = rest.len().min(65_535) as u16;
    match ether_type {
        EtherType::IPV4 => ipv4(rest, headers),
        EtherType::IPV6 => ipv6(rest, headers),
        _ => Ok((headers, rest.len())),
    }
}

fn ipv4(bytes: &[u8], mut headers: Headers) -> Result<(Headers, usize), Doubt> {
    // etherparse takes a total length of 0 at its word, and looks behind authentication headers also
    // in IPv4: it gets to see a packet without these.
    let mut bytes = bytes.to_vec();
    if bytes.len() >= 20 && bytes[2..4] == [0, 0] {
        let Ok(len) = u16::try_from(bytes.len()) else {
            return Err(Doubt::Exempt("longer than etherparse can be told"));
        };
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
    }
    let is_authenticated = bytes.len() >= 20 && bytes[9] == ip_number::AUTH.0;
    if is_authenticated {
        bytes[9] = 254;
    }
    let packet = Ipv4Slice::from_slice(&bytes).map_err(malformed)?;
    let header = packet.header();
    headers.marks |= Marks::IPV4;
    headers.src = Addr::v4(header.source());
    headers.dst = Addr::v4(header.destination());
    headers.ttl = header.ttl();
    headers.tos = header.dcp().value() << 2 | header.ecn().value();
    headers.protocol = if is_authenticated { 51 } else { header.protocol().0 };
    headers.l3_len = header.total_len();
    headers.l4_offset += u16::from(header.ihl()) * 4;
    let offset = usize::from(header.fragments_offset().value()) * 8;
    if offset > 0 && offset + usize::from(header.total_len()) > 65_535 {
        return Err(Doubt::Malformed("the datagram would be too long".into()));
    }
    mark_fragment(header.fragments_offset(), header.more_fragments(), &mut headers);
    transport(packet.payload().payload, IpNumber(headers.protocol), false, headers)
}

fn ipv6(bytes: &[u8], mut headers: Headers) -> Result<(Headers, usize), Doubt> {
    use err::ipv6_exts::HeaderError::{HopByHopNotAtStart, IpAuth};
    let packet = Ipv6Slice::from_slice(bytes).map_err(|error| match error {
        err::ipv6::SliceError::Exts(HopByHopNotAtStart) => {
            Doubt::Exempt("etherparse insists on hop-by-hop options being first")
        }
        err::ipv6::SliceError::Exts(IpAuth(_)) => {
            Doubt::Exempt("etherparse refuses authentication headers of length 0")
        }
        error => malformed(error),
    })?;
    let header = packet.header();
    headers.marks |= Marks::IPV6;
    headers.src = Addr(header.source());
    headers.dst = Addr(header.destination());
    headers.ttl = header.hop_limit();
    headers.tos = header.traffic_class();
    headers.protocol = header.next_header().0;
    headers.l4_offset += 40;
    let is_jumbogram = header.payload_length() == 0;
    let packet_len = if is_jumbogram { bytes.len() } else { 40 + usize::from(header.payload_length()) };
    headers.l3_len = packet_len.min(65_535) as u16;
    for (count, extension) in packet.extensions().clone().into_iter().enumerate() {
        if count == 8 {
            return Err(Doubt::Malformed("too many extension headers".into()));
        }
        let (next, len) = match &extension {
            Ipv6ExtensionSlice::HopByHop(raw)
            | Ipv6ExtensionSlice::Routing(raw)
            | Ipv6ExtensionSlice::DestinationOptions(raw) => (raw.next_header(), raw.slice().len()),
            Ipv6ExtensionSlice::Fragment(fragment) => (fragment.next_header(), 8),
            Ipv6ExtensionSlice::Authentication(auth) => (auth.next_header(), auth.slice().len()),
        };
        headers.protocol = next.0;
        headers.l4_offset += len as u16;
        if let Ipv6ExtensionSlice::Fragment(fragment) = &extension {
            let offset = fragment.fragment_offset();
            let whole_payload_len = usize::from(offset.value()) * 8 + packet_len - 48;
            if offset.value() > 0 && whole_payload_len > 65_535 {
                return Err(Doubt::Malformed("the datagram would be too long".into()));
            }
            mark_fragment(offset, fragment.more_fragments(), &mut headers);
            if headers.marks.contains(Marks::LATER_FRAGMENT) {
                break;
            }
        }
    }
    if matches!(headers.protocol, 135 | 139 | 140) && !headers.marks.contains(Marks::LATER_FRAGMENT) {
        return Err(Doubt::Exempt("etherparse does not know mobility, HIP and shim6"));
    }
    let payload_start = usize::from(headers.l4_offset) - usize::from(headers.l3_offset);
    transport(&bytes[payload_start..packet_len], IpNumber(headers.protocol), is_jumbogram, headers)
}

fn mark_fragment(offset: IpFragOffset, more: bool, headers: &mut Headers) {
    if offset.value() > 0 {
        headers.marks.remove(Marks::FIRST_FRAGMENT);
        headers.marks |= Marks::LATER_FRAGMENT;
    } else if more {
        headers.marks |= Marks::FIRST_FRAGMENT;
    }
}

fn transport(
    bytes: &[u8],
    protocol: IpNumber,
    is_jumbogram: bool,
    mut headers: Headers,
) -> Result<(Headers, usize), Doubt> {
    if headers.marks.contains(Marks::LATER_FRAGMENT) {
        return Ok((headers, bytes.len()));
    }
    match protocol {
        ip_number::TCP => tcp(bytes, headers),
        ip_number::UDP => {
            let header = UdpHeaderSlice::from_slice(bytes).map_err(malformed)?;
            headers.src_port = header.source_port();
            headers.dst_port = header.destination_port();
            headers.seq = header.length().into();
            headers.tcp_shape = 0x20;
            if header.length() == 0 && !is_jumbogram {
                return Err(Doubt::Malformed("UDP length 0".into()));
            }
            if headers.marks.contains(Marks::FIRST_FRAGMENT) {
                let is_long_enough = header.length() == 0 || header.length() >= 8;
                return is_long_enough.then_some((headers, bytes.len() - 8)).ok_or(malformed("UDP length"));
            }
            let datagram = UdpSlice::from_slice(bytes).map_err(malformed)?;
            Ok((headers, datagram.payload().len()))
        }
        // Timestamp messages of odd lengths, which etherparse refuses, have whole headers: it gets the
        // header alone, as another type.
        ip_number::ICMP if bytes.len() >= 8 && matches!(bytes[0], 13 | 14) => {
            let rest = [bytes[4], bytes[5], bytes[6], bytes[7]];
            icmp_header(bytes[0], bytes[1], rest, &[13, 14], &mut headers);
            icmp_ports(bytes, &mut headers);
            Ok((headers, bytes.len() - 8))
        }
        ip_number::ICMP => {
            let icmp = Icmpv4Slice::from_slice(bytes).map_err(malformed)?;
            icmp_header(icmp.type_u8(), icmp.code_u8(), icmp.bytes5to8(), &[0, 8], &mut headers);
            icmp_ports(bytes, &mut headers);
            Ok((headers, bytes.len() - 8))
        }
        ip_number::IPV6_ICMP => {
            let icmp = Icmpv6Slice::from_slice(bytes).map_err(malformed)?;
            icmp_header(icmp.type_u8(), icmp.code_u8(), icmp.bytes5to8(), &[128, 129], &mut headers);
            icmpv6_ports(bytes, &mut headers);
            Ok((headers, bytes.len() - 8))
        }
        ip_number::SCTP | IpNumber(33) => {
            let &[a, b, c, d, ..] = bytes else { return Err(Doubt::Malformed("no ports".into())) };
            headers.src_port = u16::from_be_bytes([a, b]);
            headers.dst_port = u16::from_be_bytes([c, d]);
            Ok((headers, bytes.len()))
        }
        _ => Ok((headers, bytes.len())),
    }
}

fn icmp_header(kind: u8, code: u8, rest: [u8; 4], echo: &[u8], headers: &mut Headers) {
    headers.tcp_shape = 0x20;
    headers.seq = u32::from(kind) << 24 | u32::from(code) << 16;
    if echo.contains(&kind) {
        headers.seq |= u32::from(rest[0]) << 8 | u32::from(rest[1]);
    }
}

/// The identifier of a query over IPv4, or the ports that an error quotes.
fn icmp_ports(bytes: &[u8], headers: &mut Headers) {
    if !headers.marks.contains(Marks::IPV4) {
        return;
    }
    let identifier = |message: &[u8]| u16::from_be_bytes([message[4], message[5]]);
    match bytes[0] {
        8 | 13 => (headers.src_port, headers.tcp_shape) = (identifier(bytes), 0x21),
        0 | 14 => (headers.dst_port, headers.tcp_shape) = (identifier(bytes), 0x22),
        3 | 4 | 11 | 12 => {
            let Ok(quoted) = Ipv4HeaderSlice::from_slice(&bytes[8..]) else { return };
            let behind = &bytes[8 + quoted.slice().len()..];
            if Addr::v4(quoted.source()) != headers.dst
                || quoted.fragments_offset().value() > 0
                || behind.len() < 8
            {
                return;
            }
            let (number, ports) = match quoted.protocol() {
                ip_number::TCP => (4, [behind[2], behind[3], behind[0], behind[1]]),
                ip_number::UDP => (5, [behind[2], behind[3], behind[0], behind[1]]),
                ip_number::ICMP if matches!(behind[0], 8 | 13) => (6, [0, 0, behind[4], behind[5]]),
                ip_number::ICMP if matches!(behind[0], 0 | 14) => (7, [behind[4], behind[5], 0, 0]),
                _ => return,
            };
            headers.src_port = u16::from_be_bytes([ports[0], ports[1]]);
            headers.dst_port = u16::from_be_bytes([ports[2], ports[3]]);
            headers.ack = u32::from_be_bytes(quoted.destination());
            let is_from_destination = Addr::v4(quoted.destination()) == headers.src;
            headers.tcp_shape |= if is_from_destination { number } else { number + 8 };
        }
        _ => {}
    }
}

/// The ports that an ICMPv6 error quotes.
fn icmpv6_ports(bytes: &[u8], headers: &mut Headers) {
    if !headers.marks.contains(Marks::IPV6) || !(1..=4).contains(&bytes[0]) {
        return;
    }
    let Ok(quoted) = etherparse::Ipv6HeaderSlice::from_slice(&bytes[8..]) else { return };
    let Some(&[a, b, c, d, ..]) = bytes.get(48..).filter(|behind| behind.len() >= 8) else { return };
    let number = match quoted.next_header() {
        ip_number::TCP => 4,
        ip_number::UDP => 5,
        _ => return,
    };
    if Addr(quoted.source()) != headers.dst {
        return;
    }
    headers.src_port = u16::from_be_bytes([c, d]);
    headers.dst_port = u16::from_be_bytes([a, b]);
    headers.ack = Headers::word_of(Addr(quoted.destination()));
    let is_from_destination = Addr(quoted.destination()) == headers.src;
    headers.tcp_shape |= if is_from_destination { number } else { number + 8 };
}

fn tcp(bytes: &[u8], mut headers: Headers) -> Result<(Headers, usize), Doubt> {
    let tcp = TcpHeaderSlice::from_slice(bytes).map_err(malformed)?;
    headers.src_port = tcp.source_port();
    headers.dst_port = tcp.destination_port();
    headers.seq = tcp.sequence_number();
    headers.ack = tcp.acknowledgment_number();
    headers.sack = headers.ack;
    headers.window = tcp.window_size();
    let flags = [tcp.fin(), tcp.syn(), tcp.rst(), tcp.psh(), tcp.ack(), tcp.urg(), tcp.ece(), tcp.cwr()];
    headers.tcp_flags = flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag));
    headers.tcp_shape = tcp.data_offset() << 4 | 15;
    let mut options = tcp.options_iterator();
    loop {
        let before = options.rest();
        match options.next() {
            Some(Ok(TcpOptionElement::WindowScale(shift))) if tcp.syn() => {
                headers.tcp_shape = tcp.data_offset() << 4 | shift.min(14);
            }
            Some(Ok(TcpOptionElement::SelectiveAcknowledgementPermitted)) if tcp.syn() => {
                headers.marks |= Marks::SACK_PERMITTED;
            }
            Some(Ok(TcpOptionElement::SelectiveAcknowledgement(first, others))) if tcp.ack() => {
                headers.sack = std::iter::once(first)
                    .chain(others.into_iter().flatten())
                    .map(|(_, right)| right)
                    .filter(|right| (right.wrapping_sub(headers.ack) as i32) > 0)
                    .max_by_key(|right| right.wrapping_sub(headers.ack))
                    .unwrap_or(headers.ack);
            }
            Some(Ok(_)) => {}
            // etherparse ends at what it does not know; the lengths say where that ends.
            Some(Err(_)) if is_skippable(before) => {
                options = TcpOptionsIterator::from_slice(&before[usize::from(before[1])..]);
            }
            Some(Err(_)) | None => break,
        }
    }
    Ok((headers, bytes.len() - tcp.slice().len()))
}

/// Whether an option that etherparse gave up at has a length by which it can be skipped (RFC 9293 §3.1, MUST-6).
fn is_skippable(option: &[u8]) -> bool {
    matches!(option, [_, len, ..] if (2..=option.len()).contains(&usize::from(*len)))
}
