//! Mutates captures: packets are flipped, cut, moved and made up.

// All changes have one type, and some of them add or remove packets.
#![allow(clippy::ptr_arg)]

use io::capture::{CaptureReader, Record};
use wire::LinkType;

use crate::fragment::pieces;
use crate::{Capture, Draw};

/// One in so many mutations changes bytes of the file, and not of packets.
const FILES: u64 = 8;

/// The longest packet that a mutation makes.
const LONGEST: usize = 4096;

/// A packet while it is changed.
#[derive(Clone)]
struct Loose {
    time_ns: u64,
    wire_len: u32,
    link: LinkType,
    data: Vec<u8>,
}

/// Changes a capture as a whole, all drawn from `seed`: packets are flipped, cut, lengthened, doubled, dropped, put
/// elsewhere, fragmented, given the headers of others or times of their own. Seldom bytes of the file are changed, or its end is
/// missing.
///
/// # Errors
/// The changed file cannot be read at all; says why.
pub fn mutate(capture: &Capture, seed: u64) -> Result<Capture, String> {
    let mut draw = Draw::new(seed);
    if draw.hits(1, FILES) {
        return mutate_file(capture, &mut draw);
    }
    let loose = |record: Record<'_>| Loose {
        time_ns: record.time_ns,
        wire_len: record.wire_len,
        link: record.link,
        data: record.data.to_vec(),
    };
    let mut packets: Vec<Loose> = capture.records().map(loose).collect();
    if packets.is_empty() {
        return Ok(capture.clone());
    }
    // From a packet or two to every other.
    let share = draw.of(&[2, 5, 20, 100, 1_000]);
    let changes = (packets.len() as u64 / share).max(2);
    // Some captures have changes of one kind.
    let only = draw.hits(1, 3).then(|| draw.below(CHANGES.len() as u64) as usize);
    for _ in 0..changes {
        let change = only.unwrap_or_else(|| draw.below(CHANGES.len() as u64) as usize);
        CHANGES[change](&mut packets, &mut draw);
        if packets.is_empty() {
            break;
        }
    }
    let mut mutated = Capture::new();
    mutated.cut_short.clone_from(&capture.cut_short);
    for Loose { time_ns, wire_len, link, data } in &packets {
        mutated.push_record(&Record { time_ns: *time_ns, wire_len: *wire_len, link: *link, data });
    }
    Ok(mutated)
}

type Change = fn(&mut Vec<Loose>, &mut Draw);

const CHANGES: [Change; 14] = [
    flip_bit,
    set_byte,
    set_header_field,
    cut_captured,
    cut,
    lengthen,
    double,
    drop_one,
    put_elsewhere,
    take_headers_of_another,
    set_time,
    swap_direction,
    repeat_later,
    fragment,
];

fn any<'a>(packets: &'a mut [Loose], draw: &mut Draw) -> &'a mut Loose {
    let index = draw.below(packets.len() as u64) as usize;
    &mut packets[index]
}

/// Headers are where it hurts.
fn position(data: &[u8], draw: &mut Draw) -> Option<usize> {
    let end = if draw.hits(7, 8) { data.len().min(80) } else { data.len() };
    (end > 0).then(|| draw.below(end as u64) as usize)
}

fn flip_bit(packets: &mut Vec<Loose>, draw: &mut Draw) {
    let data = &mut any(packets, draw).data;
    if let Some(at) = position(data, draw) {
        data[at] ^= 1 << draw.below(8);
    }
}

fn set_byte(packets: &mut Vec<Loose>, draw: &mut Draw) {
    let data = &mut any(packets, draw).data;
    if let Some(at) = position(data, draw) {
        data[at] = draw.of(&[0, 1, 0x7f, 0x80, 0xff, 0x45, 0x60, 6, 17, 44]);
    }
}

/// The bytes of an Ethernet and IPv4 or IPv6 packet with TCP that decide most: type, version, lengths, fragment,
/// protocol, TCP flags, options.
fn set_header_field(packets: &mut Vec<Loose>, draw: &mut Draw) {
    let at = draw.of(&[12, 13, 14, 16, 17, 18, 19, 20, 21, 22, 23, 34, 36, 38, 46, 47, 54, 55, 56, 66, 67]);
    let value = draw.below(256) as u8;
    if let Some(byte) = any(packets, draw).data.get_mut(at) {
        *byte = value;
    }
}

fn cut_captured(packets: &mut Vec<Loose>, draw: &mut Draw) {
    let data = &mut any(packets, draw).data;
    let len = draw.below(data.len() as u64 + 1) as usize;
    data.truncate(len);
}

fn cut(packets: &mut Vec<Loose>, draw: &mut Draw) {
    let packet = any(packets, draw);
    let len = draw.below(packet.data.len() as u64 + 1) as usize;
    packet.data.truncate(len);
    packet.wire_len = len as u32;
}

fn lengthen(packets: &mut Vec<Loose>, draw: &mut Draw) {
    let packet = any(packets, draw);
    let more = 1 + draw.below(64) as usize;
    if packet.data.len() + more <= LONGEST {
        let byte = draw.below(256) as u8;
        packet.data.resize(packet.data.len() + more, byte);
    }
    packet.wire_len = packet.wire_len.saturating_add(draw.of(&[0, more as u32, 60_000])).min(65_535);
}

fn double(packets: &mut Vec<Loose>, draw: &mut Draw) {
    let index = draw.below(packets.len() as u64) as usize;
    packets.insert(index, packets[index].clone());
}

fn drop_one(packets: &mut Vec<Loose>, draw: &mut Draw) {
    let index = draw.below(packets.len() as u64) as usize;
    if packets.len() > 1 {
        packets.remove(index);
    }
}

/// With its own time: times run back.
fn put_elsewhere(packets: &mut Vec<Loose>, draw: &mut Draw) {
    let (a, b) = (draw.below(packets.len() as u64), draw.below(packets.len() as u64));
    packets.swap(a as usize, b as usize);
}

fn take_headers_of_another(packets: &mut Vec<Loose>, draw: &mut Draw) {
    let other = any(packets, draw).data.clone();
    let packet = any(packets, draw);
    let len = draw.of(&[14, 26, 34, 42, 54]).min(other.len()).min(packet.data.len());
    packet.data[..len].copy_from_slice(&other[..len]);
}

fn set_time(packets: &mut Vec<Loose>, draw: &mut Draw) {
    const SECOND_NS: u64 = 1_000_000_000;
    let by_ns = draw.of(&[1, 1_000, 1_000_000, SECOND_NS, 61 * SECOND_NS, 7_200 * SECOND_NS]);
    let (index, forward) = (draw.below(packets.len() as u64) as usize, draw.hits(1, 2));
    // This packet alone, or all from here on.
    let end = if draw.hits(1, 2) { index + 1 } else { packets.len() };
    for packet in &mut packets[index..end] {
        packet.time_ns = match forward {
            true => packet.time_ns.saturating_add(by_ns),
            false => packet.time_ns.saturating_sub(by_ns),
        };
    }
}

/// Swaps the ends of an Ethernet and IPv4 packet with ports.
fn swap_direction(packets: &mut Vec<Loose>, draw: &mut Draw) {
    let data = &mut any(packets, draw).data;
    if data.len() >= 38 && data[12..14] == [8, 0] {
        let (src, dst) = data[26..34].split_at_mut(4);
        src.swap_with_slice(dst);
        let (src, dst) = data[34..38].split_at_mut(2);
        src.swap_with_slice(dst);
    }
}

/// A run of packets once more, at the end: flows that were over begin again.
fn repeat_later(packets: &mut Vec<Loose>, draw: &mut Draw) {
    let begin = draw.below(packets.len() as u64) as usize;
    let len = draw.below(20) as usize;
    let last_ns = packets.last().map_or(0, |packet| packet.time_ns);
    let again: Vec<Loose> = packets[begin..].iter().take(len).cloned().collect();
    packets.extend(again.into_iter().map(|packet| Loose { time_ns: last_ns, ..packet }));
}

/// A packet in fragments, which need not fit.
fn fragment(packets: &mut Vec<Loose>, draw: &mut Draw) {
    let index = draw.below(packets.len() as u64) as usize;
    let whole = packets[index].clone();
    if whole.link == LinkType::Ethernet
        && let Some(pieces) = pieces(&whole.data, draw)
    {
        let loose = |data: Vec<u8>| Loose { wire_len: data.len() as u32, data, ..whole.clone() };
        packets.splice(index..=index, pieces.into_iter().map(loose));
    }
}

fn mutate_file(capture: &Capture, draw: &mut Draw) -> Result<Capture, String> {
    let mut file = capture.to_file();
    for _ in 0..draw.of(&[1, 3, 30]) {
        // Seldom in the header of the file, which often makes all of it unreadable.
        let (from, to) =
            if draw.hits(1, 8) { (0, 24.min(file.len())) } else { (24.min(file.len() - 1), file.len()) };
        let at = from + draw.below((to - from) as u64) as usize;
        file[at] = draw.below(256) as u8;
    }
    if draw.hits(1, 3) {
        let len = draw.below(file.len() as u64 + 1) as usize;
        file.truncate(len);
    }
    let reader = CaptureReader::from_bytes(file).map_err(|error| error.to_string())?;
    Capture::read(reader, capture.packets() + 1).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_are_bounded_of_all_kinds_and_the_same_again() {
        let mut capture = Capture::new();
        (0..200).for_each(|i| capture.push(i * 1_000_000, 60, &[i as u8; 60]));
        let files: Vec<_> = (0..200).map(|seed| mutate(&capture, seed).map(|it| it.to_file())).collect();
        let again = mutate(&capture, 7).map(|it| it.to_file());
        assert_eq!(files[7], again);
        assert!(files.iter().any(Result::is_err), "some files cannot be read");
        let original = capture.to_file();
        let changed = files.iter().flatten().filter(|file| **file != original).count();
        assert!(changed > 150, "{changed} of 200 differ");
        assert!(files.iter().flatten().all(|file| file.len() < 10 * original.len() + 100_000));
        mutate(&Capture::new(), 3).expect("nothing to change");
    }
}
