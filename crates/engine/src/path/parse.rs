//! Bytes become headers.

use io::Port;
use wire::Checksums;

use crate::path::batch::Batch;
use crate::path::checks::{Checks, Fragments};
use crate::path::counters::CoreCounters;
use crate::path::packets::{all_bits, bits};

pub(super) fn parse(port: &impl Port, batch: &mut Batch) {
    let Batch { frames, headers, history, parsed, .. } = &mut *batch;
    // Of history the headers are here.
    let here = *history | *parsed;
    let parsed = wire::parse_batch(frames, here, &mut headers[..], |frame| {
        (frame.link, port.bytes(frame), frame.wire_len)
    });
    (batch.plain, batch.live) = (parsed.plain, parsed.well_formed);
    for i in bits(here & all_bits(batch.len())) {
        let headers = &batch.headers[i];
        batch.plain |= u64::from(headers.is_plain(batch.frames[i].link)) << i;
        batch.live |= u64::from(headers.is_well_formed()) << i;
    }
}

/// Finds packets malformed that could be parsed. Of history this was done where it was written.
#[inline(never)]
pub(super) fn check(port: &mut impl Port, checks: &Checks, batch: &mut Batch, counters: &mut CoreCounters) {
    if checks.fragments != Fragments::Pass {
        for i in bits(batch.live & !batch.history) {
            let (frame, headers) = (&mut batch.frames[i], &mut batch.headers[i]);
            checks.refuse(frame.note.refused(), headers);
            checks.follow(port, frame, headers);
            batch.live &= !(u64::from(!batch.headers[i].is_well_formed()) << i);
        }
    }
    if checks.verifies_checksums {
        verify_checksums(port, batch, counters);
    }
}

fn verify_checksums(port: &impl Port, batch: &mut Batch, counters: &mut CoreCounters) {
    for i in bits(batch.live & !batch.history) {
        let (frame, headers) = (&batch.frames[i], &mut batch.headers[i]);
        match wire::verify_into(port.bytes(frame), headers) {
            Checksums::Wrong { .. } => batch.live &= !(1 << i),
            Checksums::Unverifiable => counters.unverifiable += 1,
            Checksums::Right | Checksums::Absent => {}
        }
    }
}
