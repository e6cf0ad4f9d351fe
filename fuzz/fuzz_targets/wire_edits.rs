//! Any edits on any frame: headers and frame agree afterwards, and no checksum is better or worse.
//!
//! Input: link, flags, room before, room behind, a plan of edits, the frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Headers, parse};

#[path = "../../crates/wire/tests/invariants/mod.rs"]
mod invariants;

fuzz_target!(|input: &[u8]| {
    let Some((&[link, flags, before, behind], rest)) = input.split_first_chunk::<4>() else { return };
    let Some((plan, frame)) = rest.split_first_chunk::<{ invariants::PLAN_LEN }>() else { return };
    let link = invariants::LINKS[usize::from(link) % invariants::LINKS.len()];
    let edits = invariants::edits_of(plan, flags & 1 != 0);
    let room = (usize::from(before % 8), usize::from(behind % 8));
    // Half of the frames were cut by the capture.
    let wire_len = frame.len() as u32 + if flags & 2 != 0 { u32::from(flags) } else { 0 };
    invariants::check_edits(&edits, link, frame, wire_len, room);

    // Headers of another frame, and headers of no frame at all.
    let start = usize::from(before);
    let range = start..start + usize::from(behind);
    let other = parse(link, rest, wire_len);
    invariants::check_mismatched(&edits, &other, link, frame, range.clone());
    if let Ok(any) = <Headers as zerocopy::FromBytes>::read_from_bytes(plan) {
        invariants::check_mismatched(&edits, &any, link, frame, range);
    }
});
