//! Any bytes as a frame of any link, cut at any length: what every parse must satisfy.
//!
//! Input: link, two bytes of length on the wire beyond the frame, two bytes of cut, the frame.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wire/tests/invariants/mod.rs"]
mod invariants;

fuzz_target!(|input: &[u8]| {
    let Some((&[link, a, b, c, d], frame)) = input.split_first_chunk::<5>() else { return };
    let link = invariants::LINKS[usize::from(link) % invariants::LINKS.len()];
    let wire_len = frame.len() as u32 + u32::from(u16::from_be_bytes([a, b]));
    let captured = usize::from(u16::from_be_bytes([c, d])).min(frame.len());
    invariants::check_parse(link, frame, 0);
    invariants::check_snapped(link, frame, captured, wire_len);
});
