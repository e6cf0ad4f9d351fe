//! Segments what a sender left to its network card to be segmented.
//!
//! Where two machines are two namespaces of one, no card is in between: a packet of up to 64 KiB arrives whole, with a
//! note of how long its segments were to be. What leaves by a real interface has to be segmented then, with checksums
//! for each, as RFC 9293 has TCP's sequence numbers and RFC 768 UDP's lengths.

use wire::{Headers, LinkType, complete, internet_checksum, parse, protocol, tcp_flags};

/// Cuts an Ethernet frame with a TCP segment, or a row of UDP datagrams, into frames with up to `payload_bytes` of payload
/// each, and gives each to `take`. `false` if it is neither, or its headers are not whole: then nothing was given.
///
/// `buffer` is for one segment, of whatever length.
pub(crate) fn segment(
    frame: &[u8],
    payload_bytes: usize,
    buffer: &mut Vec<u8>,
    take: &mut dyn FnMut(&mut [u8]),
) -> bool {
    let headers = parse(LinkType::Ethernet, frame, frame.len() as u32);
    let Some((header_len, payload)) = payload(frame, &headers) else { return false };
    if payload_bytes == 0 {
        return false;
    }
    let chunks = payload.chunks(payload_bytes);
    let last = chunks.len().saturating_sub(1);
    for (number, chunk) in chunks.enumerate() {
        buffer.clear();
        buffer.extend_from_slice(&frame[..header_len]);
        buffer.extend_from_slice(chunk);
        rewrite(buffer, &headers, Part { number, payload_bytes, is_last: number == last });
        let written = parse(LinkType::Ethernet, buffer, buffer.len() as u32);
        complete(buffer, &written);
        take(buffer);
    }
    true
}

/// How long all headers are, and the payload behind them.
fn payload<'a>(frame: &'a [u8], headers: &Headers) -> Option<(usize, &'a [u8])> {
    if !headers.is_ip() || !headers.is_well_formed() || headers.is_fragment() {
        return None;
    }
    let l4 = usize::from(headers.l4_offset);
    let transport_len = match headers.protocol {
        protocol::TCP => usize::from(headers.tcp_shape >> 4) * 4,
        protocol::UDP => 8,
        _ => return None,
    };
    let end = (usize::from(headers.l3_offset) + usize::from(headers.l3_len)).min(frame.len());
    let payload = frame.get(l4 + transport_len..end).filter(|payload| !payload.is_empty())?;
    Some((l4 + transport_len, payload))
}

/// A segment of a packet.
#[derive(Clone, Copy)]
struct Part {
    number: usize,
    payload_bytes: usize,
    is_last: bool,
}

/// Makes copied headers those of one segment: lengths, IPv4 identification, TCP sequence number and flags, and a
/// transport checksum that holds the sum of its pseudo-header, to be completed.
fn rewrite(segment: &mut [u8], headers: &Headers, Part { number, payload_bytes, is_last }: Part) {
    let (l3, l4) = (usize::from(headers.l3_offset), usize::from(headers.l4_offset));
    let ip_len = (segment.len() - l3) as u16;
    let transport_len = (segment.len() - l4) as u16;
    let addresses = if headers.marks.contains(wire::Marks::IPV4) {
        put(segment, l3 + 2, ip_len);
        let id = get(segment, l3 + 4).wrapping_add(number as u16);
        put(segment, l3 + 4, id);
        put(segment, l3 + 10, 0);
        let checksum = internet_checksum(&[&segment[l3..l4]]);
        segment[l3 + 10..l3 + 12].copy_from_slice(&checksum);
        l3 + 12..l3 + 20
    } else {
        put(segment, l3 + 4, ip_len - 40);
        l3 + 8..l3 + 40
    };
    let checksum_at = match headers.protocol {
        protocol::TCP => {
            let seq = headers.seq.wrapping_add((number * payload_bytes) as u32);
            segment[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
            if !is_last {
                segment[l4 + 13] &= !(tcp_flags::FIN | tcp_flags::PSH);
            }
            if number > 0 {
                // The receiver hears of it once: RFC 3168 §6.1.2.
                segment[l4 + 13] &= !tcp_flags::CWR;
            }
            l4 + 16
        }
        _ => {
            put(segment, l4 + 4, transport_len);
            l4 + 6
        }
    };
    let [high, low] = transport_len.to_be_bytes();
    // The sum itself, not its complement.
    let pseudo =
        internet_checksum(&[&segment[addresses], &[0, headers.protocol, high, low]]).map(|byte| !byte);
    segment[checksum_at..checksum_at + 2].copy_from_slice(&pseudo);
}

fn get(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use wire::{Checksums, verify};

    use super::*;

    fn data(payload: usize) -> Vec<u8> {
        (0..payload).map(|at| (at * 7) as u8).collect()
    }

    fn tcp(payload: usize, is_ipv6: bool) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let builder = match is_ipv6 {
            false => builder.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64),
            true => builder.ipv6([1; 16], [2; 16], 64),
        };
        let mut frame = Vec::new();
        let builder = builder.tcp(1_000, 80, u32::MAX - 1_000, 500).fin().psh().ack(7);
        builder.write(&mut frame, &data(payload)).expect("a packet");
        frame
    }

    fn segments(frame: &[u8], payload_bytes: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        assert!(segment(frame, payload_bytes, &mut Vec::new(), &mut |part| all.push(part.to_vec())));
        all
    }

    /// Each is a packet that a receiver takes, and together they are what was sent.
    #[test]
    fn segments_are_whole_packets() {
        for is_ipv6 in [false, true] {
            for (payload, payload_bytes, count) in [(10_000, 1_448, 7), (1_448, 1_448, 1), (2_897, 1_448, 3)]
            {
                let frame = tcp(payload, is_ipv6);
                let whole = parse(LinkType::Ethernet, &frame, frame.len() as u32);
                let segments = segments(&frame, payload_bytes);
                assert_eq!(segments.len(), count);
                let mut data = Vec::new();
                for (number, segment) in segments.iter().enumerate() {
                    let headers = parse(LinkType::Ethernet, segment, segment.len() as u32);
                    assert_eq!(verify(segment, &headers), Checksums::Right, "{headers:?}");
                    assert_eq!(headers.seq, whole.seq.wrapping_add(data.len() as u32));
                    let is_last = number + 1 == count;
                    assert_eq!(headers.tcp_flags & tcp_flags::FIN != 0, is_last);
                    data.extend_from_slice(&segment[usize::from(headers.l4_offset) + 20..]);
                    assert_eq!(
                        headers.payload_len() as usize + 54 + if is_ipv6 { 20 } else { 0 },
                        segment.len()
                    );
                }
                assert_eq!(data, frame[frame.len() - payload..]);
            }
        }
    }

    #[test]
    fn datagrams_are_segmented_too() {
        let builder =
            PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(1_000, 53);
        let mut frame = Vec::new();
        builder.write(&mut frame, &data(3_000)).expect("a packet");
        let segments = segments(&frame, 1_200);
        assert_eq!(segments.iter().map(Vec::len).collect::<Vec<_>>(), [1_242, 1_242, 642]);
        for segment in segments {
            let headers = parse(LinkType::Ethernet, &segment, segment.len() as u32);
            assert_eq!((verify(&segment, &headers), headers.is_well_formed()), (Checksums::Right, true));
        }
    }

    #[test]
    fn other_packets_are_not_segmented() {
        let mut never = |_: &mut [u8]| panic!("nothing is given");
        for frame in [vec![], vec![0; 60], tcp(0, false)] {
            assert!(!segment(&frame, 100, &mut Vec::new(), &mut never));
        }
        assert!(!segment(&tcp(100, false), 0, &mut Vec::new(), &mut never));
    }
}
