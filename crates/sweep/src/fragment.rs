//! Packets in fragments, as small links, and attackers, send them.

use io::capture::Record;
use wire::LinkType;

use crate::{Capture, Draw};

/// Bytes of an IPv6 fragment header.
const FRAGMENT_LEN: usize = 8;

/// A fragment's place in its datagram's data: from where to where, and whether more follows.
type Part = (usize, usize, bool);

/// A capture in which about half of the packets that can be are fragmented, all drawn from `seed`: in pieces of all
/// lengths, which come mixed with the packets behind them. Of a third of the datagrams a piece is doubled, missing,
/// early, overlaps another, or says that it is the last one and is not.
pub fn fragmented(capture: &Capture, seed: u64) -> Capture {
    let mut draw = Draw::new(seed);
    let mut mixed = Capture::new();
    mixed.cut_short.clone_from(&capture.cut_short);
    // What is still to come of datagrams.
    let mut late: Vec<Vec<u8>> = Vec::new();
    for record in capture.records() {
        let pieces = (record.link == LinkType::Ethernet && draw.hits(1, 2))
            .then(|| pieces(record.data, &mut draw))
            .flatten();
        match pieces {
            None => mixed.push_record(&record),
            Some(pieces) => {
                // In the order in which they come: the last is taken first.
                late.splice(0..0, pieces.into_iter().rev());
            }
        }
        let now = if late.len() > 40 { late.len() } else { draw.below(3) as usize };
        for _ in 0..now {
            late.pop().into_iter().for_each(|piece| push(&mut mixed, &record, &piece));
        }
    }
    if let Some(last) = capture.packets().checked_sub(1) {
        late.iter().rev().for_each(|piece| push(&mut mixed, &capture.record(last), piece));
    }
    mixed
}

/// At the time of `beside`.
fn push(capture: &mut Capture, beside: &Record<'_>, piece: &[u8]) {
    capture.push(beside.time_ns, piece.len() as u32, piece);
}

/// The fragments of a whole packet over Ethernet, IPv4 or IPv6, all of which was captured, with mistakes now and then;
/// `None` for others, and for those with too little data.
pub(crate) fn pieces(frame: &[u8], draw: &mut Draw) -> Option<Vec<Vec<u8>>> {
    let packet = frame.get(14..)?;
    let (header_len, end, is_whole) = match frame.get(12..14)? {
        [0x08, 0x00] => {
            let header = packet.first_chunk::<20>()?;
            let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
            let end = usize::from(u16::from_be_bytes([header[2], header[3]]));
            (usize::from(header[0] & 15) * 4, end, header[0] >> 4 == 4 && fragment == 0)
        }
        [0x86, 0xdd] => {
            let header = packet.first_chunk::<40>()?;
            // Extension headers are left whole.
            let is_whole = matches!(header[6], 6 | 17 | 58);
            (40, 40 + usize::from(u16::from_be_bytes([header[4], header[5]])), is_whole)
        }
        _ => return None,
    };
    let data = packet.get(header_len..end)?;
    if !is_whole || header_len < 20 || data.len() < 16 {
        return None;
    }
    let id = draw.below(1 << 16) as u32;
    let mut parts = cut(data.len(), draw);
    if draw.hits(1, 3) {
        spoil(&mut parts, draw);
    }
    let in_range = |&(begin, end, _): &Part| begin < end && end <= data.len();
    let piece =
        |&(begin, end, more): &Part| piece(&frame[..14 + header_len], &data[begin..end], (begin, more), id);
    Some(parts.iter().filter(|part| in_range(part)).map(piece).collect())
}

fn cut(len: usize, draw: &mut Draw) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut begin = 0;
    while begin < len {
        // The first one holds the transport header, as a rule.
        let least = if begin == 0 && draw.hits(7, 8) { 4 } else { 1 };
        let step = 8 * (least + draw.below(1 + len as u64 / 24) as usize);
        let end = (begin + step).min(len);
        parts.push((begin, end, end < len));
        begin = end;
    }
    parts
}

/// One mistake.
fn spoil(parts: &mut Vec<Part>, draw: &mut Draw) {
    let any = draw.below(parts.len() as u64) as usize;
    let other = draw.below(parts.len() as u64) as usize;
    match draw.below(8) {
        0 => parts.insert(other, parts[any]),
        1 => parts.push(parts[any]),
        2 => parts.swap(any, other),
        3 if parts.len() > 1 => drop(parts.remove(any)),
        4 => parts[any].0 = parts[any].0.saturating_sub(8),
        5 => parts.insert(any + 1, (8, parts[any].1, true)),
        6 => {
            parts[any].2 = !parts[any].2;
            parts.swap(any, other);
        }
        _ => parts[any].1 = parts[any].1.saturating_sub(3),
    }
}

/// One fragment with the headers of the whole packet.
fn piece(headers: &[u8], data: &[u8], (begin, more): (usize, bool), id: u32) -> Vec<u8> {
    let mut frame = headers.to_vec();
    let ip = &mut frame[14..];
    if ip[0] >> 4 == 4 {
        let field = (begin / 8) as u16 | u16::from(more) << 13;
        let total_len = (ip.len() + data.len()) as u16;
        ip[2..4].copy_from_slice(&total_len.to_be_bytes());
        ip[4..6].copy_from_slice(&(id as u16).to_be_bytes());
        ip[6..8].copy_from_slice(&field.to_be_bytes());
        ip[10..12].fill(0);
        let checksum = wire::internet_checksum(&[ip]);
        ip[10..12].copy_from_slice(&checksum);
    } else {
        let payload_len = (FRAGMENT_LEN + data.len()) as u16;
        ip[4..6].copy_from_slice(&payload_len.to_be_bytes());
        let next = std::mem::replace(&mut ip[6], 44);
        let [high, low] = (begin as u16 | u16::from(more)).to_be_bytes();
        frame.extend([next, 0, high, low]);
        frame.extend(id.to_be_bytes());
    }
    frame.extend_from_slice(data);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without mistakes the pieces are the packet.
    #[test]
    fn pieces_make_up_the_packet() {
        let mut frame = vec![0; 14 + 20 + 100];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..34].copy_from_slice(&[0x45, 0, 0, 120, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        (0..100).for_each(|at| frame[34 + at] = at as u8);
        let mut draw = Draw::new(3);
        let mut whole = 0;
        for _ in 0..100 {
            let pieces = pieces(&frame, &mut draw).expect("data enough");
            let mut data: Vec<u8> = Vec::new();
            for piece in &pieces {
                let words = piece[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
                let sum: u32 = words.sum();
                assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "its own checksum (RFC 1071)");
                data.extend(&piece[34..]);
            }
            whole += usize::from(data == frame[34..]);
        }
        assert!(whole > 60, "{whole} of 100");
        assert!(pieces(&frame[..60], &mut draw).is_none(), "cut by the capture");
    }
}
