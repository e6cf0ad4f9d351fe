//! Bytes become headers.

use io::Port;
use wire::Checksums;

use crate::path::batch::Batch;
use crate::path::checks::{Checks, Fragments};
use crate::path::counters::CoreCounters;
use crate::path::packets::bits;

pub(super) fn parse(port: &impl Port, batch: &mut Batch) {
    let parsed = batch.history | batch.parsed;
    let (mut plain, mut live, mut packet) = (0, 0, 1);
    for (frame, headers) in batch.frames.iter().zip(&mut *batch.headers) {
        // Of history the headers are here.
        let is_plain = match parsed & packet {
            0 => wire::parse_into(frame.link, port.bytes(frame), frame.wire_len, headers),
            _ => headers.is_plain(frame.link),
        };
        match is_plain {
            true => plain |= packet,
            false if headers.is_well_formed() => live |= packet,
            false => (),
        }
        packet <<= 1;
    }
    (batch.plain, batch.live) = (plain, live | plain);
}

/// Finds packets malformed that could be parsed. Of history this was done where it was written.
#[inline(never)]
pub(super) fn check(port: &impl Port, checks: &Checks, batch: &mut Batch, counters: &mut CoreCounters) {
    if checks.fragments != Fragments::Pass {
        for i in bits(batch.live & !batch.history) {
            checks.refuse(batch.frames[i].refused, &mut batch.headers[i]);
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
