//! Any bytes as packets with history, and packets of a sequencer with bytes changed: what a plain reader
//! takes is taken and read the same, all else is rejected, and a receiver only goes forward.
//!
//! Input: mask, cores, flags, a length; then the changes to packets of a sequencer, or the packets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sequencer::{HEADER_LEN, History, ItemLayout, Receiver, Rejected, Sequencer, outer_ethernet};
use wire::{Headers, LinkType};

#[path = "../../crates/sequencer/tests/invariants/mod.rs"]
mod invariants;

fuzz_target!(|input: &[u8]| {
    let Some((mask, rest)) = input.split_first_chunk::<8>() else { return };
    let Some((&[cores, flags, len], rest)) = rest.split_first_chunk::<3>() else { return };
    let layout = ItemLayout::new(u64::from_le_bytes(*mask));
    let frames = match flags & 1 == 0 {
        true => rest.chunks(usize::from(len) * 4 + 1).map(|bytes| dressed(bytes, &layout, flags)).collect(),
        false => sequenced(&layout, usize::from(cores % 64) + 1, flags, rest),
    };
    let mut receiver = Receiver::starting_at(0);
    for frame in &frames {
        invariants::check_bytes(frame, &layout).unwrap();
        let Ok(history) = History::parse(frame, &layout) else { continue };
        let before = receiver.expected();
        match receiver.accept(&history) {
            Ok(arrival) => {
                assert!(arrival.lost.start == before && arrival.lost.end >= before);
                assert!(arrival.known <= history.count());
                let first_new = history.first_seq() + arrival.known as u64;
                assert!(first_new == arrival.lost.end || history.count() == arrival.known);
            }
            Err(reason) => {
                assert_eq!(reason, Rejected::SequenceGoesBack);
                assert!(history.stamp().seq < before && receiver.expected() == before);
            }
        }
    }
});

/// Bytes behind what no search would find: magic, version and layout.
fn dressed(bytes: &[u8], layout: &ItemLayout, flags: u8) -> Vec<u8> {
    let mut frame = bytes.to_vec();
    if let Some(header) = frame.first_chunk_mut::<HEADER_LEN>()
        && flags & 2 == 0
    {
        header[..5].copy_from_slice(b"PLHI\x01");
        header[24..32].copy_from_slice(&layout.header_bytes().to_be_bytes());
        header[32..34].copy_from_slice(&(layout.item_len() as u16).to_be_bytes());
    }
    frame
}

/// Packets of a sequencer; of each four bytes, two change one of its packet's.
fn sequenced(layout: &ItemLayout, cores: usize, flags: u8, changes: &[u8]) -> Vec<Vec<u8>> {
    let mut sequencer = Sequencer::new(layout.clone(), cores).unwrap();
    let frame = |&[passed, number, at, change]: &[u8; 4]| {
        let headers = Headers { dst_port: number.into(), malformed_code: number >> 4, ..Headers::default() };
        let placed = sequencer.next(&headers, u64::from(passed) << (flags >> 4));
        if passed == 0 {
            sequencer.flush();
        }
        let mut frame = if flags & 4 == 0 { Vec::new() } else { outer_ethernet(placed.core as u16).to_vec() };
        let start = frame.len();
        frame.resize(start + sequencer.prefix_len(), 0);
        sequencer.prefix(LinkType::Ethernet, &mut frame[start..]);
        let at = (usize::from(at) * if flags & 8 == 0 { 1 } else { 18 }) % frame.len();
        frame[at] ^= change;
        frame
    };
    changes.as_chunks::<4>().0.iter().map(frame).collect()
}
