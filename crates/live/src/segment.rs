//! Segments what a sender left to its network card to be segmented.
//!
//! Where two machines are two namespaces of one, no card is in between: a packet of up to 64 KiB arrives whole, with a
//! note of how long its segments were to be. What leaves by a real interface has to be segmented then, with checksums
//! for each, as RFC 9293 has TCP's sequence numbers and RFC 768 UDP's lengths.

use wire::{Headers, LinkType, inside, internet_checksum, parse, protocol, renew, tcp_flags};

/// Packets in packets, at most, with the outermost one.
const LEVELS: usize = 5;

/// Cuts an Ethernet frame with a TCP segment, or a row of UDP datagrams, into frames with up to `payload_bytes` of payload
/// each, and gives each to `take`. Where the frame is a tunnel's, `transport` says where the TCP or UDP header is that the
/// sender meant; the headers around it are made each segment's own. Without it the outermost one is meant. `false` if there
/// is no such header, or headers are not whole, or one around is of no tunnel that is known: then nothing was given.
///
/// `buffer` is for one segment, of whatever length.
pub(crate) fn segment(
    frame: &[u8],
    payload_bytes: usize,
    transport: Option<usize>,
    buffer: &mut Vec<u8>,
    take: &mut dyn FnMut(&mut [u8]),
) -> bool {
    let (levels, count) = levels(frame);
    let is_meant = |level: &Level| level.start + usize::from(level.headers.l4_offset);
    let last = match transport {
        None => Some(0),
        Some(at) => levels[..count].iter().position(|level| is_meant(level) == at),
    };
    last.is_some_and(|last| cut(frame, &levels[..=last], payload_bytes, buffer, take))
}

/// Cuts a frame whose sender's wish is not known so that each segment is an IP packet of `mtu` bytes at most: TCP alone, of
/// the innermost packet. `false` as of [`segment`]. The ends of datagrams in a row of them cannot be told.
pub(crate) fn segment_to_fit(
    frame: &[u8],
    mtu: usize,
    buffer: &mut Vec<u8>,
    take: &mut dyn FnMut(&mut [u8]),
) -> bool {
    let (levels, count) = levels(frame);
    let levels = &levels[..count];
    let (first, Level { start, headers }) = (&levels[0].headers, &levels[count - 1]);
    let header_bytes = match payload(&frame[*start..], headers) {
        Some((len, _)) if headers.protocol == protocol::TCP => start + len - usize::from(first.l3_offset),
        _ => return false,
    };
    cut(frame, levels, mtu.saturating_sub(header_bytes), buffer, take)
}

/// A packet, perhaps inside another one.
#[derive(Clone, Copy)]
struct Level {
    /// Where it begins in the frame.
    start: usize,
    headers: Headers,
}

/// The packets in each other that a frame is, from outside, and how many they are.
fn levels(frame: &[u8]) -> ([Level; LEVELS], usize) {
    let headers = parse(LinkType::Ethernet, frame, frame.len() as u32);
    let mut levels = [Level { start: 0, headers }; LEVELS];
    let (mut count, mut end) = (1, frame.len());
    while count < LEVELS {
        let Level { start, headers } = &levels[count - 1];
        let Some(found) = inside(&frame[*start..end], headers) else { break };
        end = start + found.end;
        levels[count] = Level { start: start + found.start, headers: found.headers };
        count += 1;
    }
    (levels, count)
}

fn cut(
    frame: &[u8],
    levels: &[Level],
    payload_bytes: usize,
    buffer: &mut Vec<u8>,
    take: &mut dyn FnMut(&mut [u8]),
) -> bool {
    let Some((Level { start, headers }, around)) = levels.split_last() else { return false };
    let Some((header_len, payload)) = payload(&frame[*start..], headers) else { return false };
    if payload_bytes == 0 || around.iter().any(|level| has_own_length(frame, level)) {
        return false;
    }
    let chunks = payload.chunks(payload_bytes);
    let last = chunks.len().saturating_sub(1);
    for (number, chunk) in chunks.enumerate() {
        buffer.clear();
        buffer.extend_from_slice(&frame[..start + header_len]);
        buffer.extend_from_slice(chunk);
        rewrite(buffer, levels, Part { number, payload_bytes, is_last: number == last });
        take(buffer);
    }
    true
}

/// Whether a header between this packet and the one inside it says how long that is: PPPoE's and GTP's do.
fn has_own_length(frame: &[u8], Level { start, headers }: &Level) -> bool {
    let (l3, l4) = (start + usize::from(headers.l3_offset), start + usize::from(headers.l4_offset));
    match headers.is_ip() {
        false => frame.get(l3.saturating_sub(2)..l3) == Some(&[0x88, 0x64]),
        true => {
            headers.protocol == protocol::UDP && matches!(frame.get(l4 + 8..), Some([0x30..=0x33, 0xff, ..]))
        }
    }
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

/// Makes copied headers those of one segment: lengths and IPv4 identifications of all packets in each other, TCP sequence
/// number and flags of the innermost, and checksums from the inside out.
fn rewrite(segment: &mut [u8], levels: &[Level], part: Part) {
    let mut written = [levels[0]; LEVELS];
    let written = &mut written[..levels.len()];
    written.copy_from_slice(levels);
    for Level { start, headers } in written.iter_mut() {
        write_lengths(&mut segment[*start..], headers, part.number);
    }
    if let Some(Level { start, headers }) = written.last()
        && headers.protocol == protocol::TCP
    {
        write_tcp(&mut segment[start + usize::from(headers.l4_offset)..], headers.seq, part);
    }
    for Level { start, headers } in written.iter().rev() {
        renew(&mut segment[*start..], headers);
    }
}

/// Writes the lengths of one of the nested packets, which ends where the segment ends.
fn write_lengths(packet: &mut [u8], headers: &mut Headers, number: usize) {
    if !headers.is_ip() {
        return;
    }
    let (l3, l4) = (usize::from(headers.l3_offset), usize::from(headers.l4_offset));
    headers.l3_len = (packet.len() - l3) as u16;
    if headers.marks.contains(wire::Marks::IPV4) {
        put(packet, l3 + 2, headers.l3_len);
        let id = get(packet, l3 + 4).wrapping_add(number as u16);
        put(packet, l3 + 4, id);
        put(packet, l3 + 10, 0);
        let checksum = internet_checksum(&[&packet[l3..l4]]);
        packet[l3 + 10..l3 + 12].copy_from_slice(&checksum);
    } else {
        put(packet, l3 + 4, headers.l3_len.wrapping_sub(40));
    }
    if headers.protocol == protocol::UDP {
        let len = (packet.len() - l4) as u16;
        put(packet, l4 + 4, len);
        headers.seq = u32::from(len);
    }
}

fn write_tcp(transport: &mut [u8], seq: u32, Part { number, payload_bytes, is_last }: Part) {
    let seq = seq.wrapping_add((number * payload_bytes) as u32);
    transport[4..8].copy_from_slice(&seq.to_be_bytes());
    if !is_last {
        transport[13] &= !(tcp_flags::FIN | tcp_flags::PSH);
    }
    if number > 0 {
        // The receiver hears of it once: RFC 3168 §6.1.2.
        transport[13] &= !tcp_flags::CWR;
    }
}

fn get(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests;
