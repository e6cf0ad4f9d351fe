//! Parses TCP options.

use crate::{Headers, Marks, tcp_flags};

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;

/// `NOP NOP timestamp`: what nearly every segment of an established connection has (RFC 7323
/// appendix A), and nothing here is in it.
const TIMESTAMP_ONLY: [u8; 4] = [NO_OPERATION, NO_OPERATION, 8, 10];

/// Parses TCP options. One that is not known, or has another length than its kind, is skipped by its length
/// (RFC 9293 §3.1, MUST-6). A length below 2 or beyond the header ends the options (MUST-7); the segment is
/// well-formed still, as receivers take it.
#[inline(always)]
pub(super) fn parse_options(options: &[u8], headers: &mut Headers) {
    let is_plain = options.is_empty() || (options.len() == 12 && options.starts_with(&TIMESTAMP_ONLY));
    if !is_plain {
        parse_each(options, headers);
    }
}

fn parse_each(mut options: &[u8], headers: &mut Headers) {
    while let [kind, rest @ ..] = options {
        options = match (*kind, rest) {
            (END, _) => return,
            (NO_OPERATION, _) => rest,
            (kind, [len, ..]) if (2..=options.len()).contains(&usize::from(*len)) => {
                let (option, following) = options.split_at(usize::from(*len));
                parse_option(kind, &option[2..], headers);
                following
            }
            _ => return,
        }
    }
}

/// Parses one option. A `value` whose length is not that of the kind says nothing.
fn parse_option(kind: u8, value: &[u8], headers: &mut Headers) {
    // RFC 7323 §2.2, RFC 2018 §2: without SYN these two mean nothing.
    let is_syn = headers.tcp_flags & tcp_flags::SYN != 0;
    match (kind, value) {
        // RFC 7323 §2.3: more than 14 counts as 14.
        (WINDOW_SCALE, [shift]) if is_syn => {
            headers.tcp_shape = headers.tcp_shape & 0xf0 | (*shift).min(14);
        }
        (SACK_PERMITTED, []) => headers.marks.set(Marks::SACK_PERMITTED, is_syn),
        // Blocks lie after the acknowledgment number, so there must be one (RFC 2018 §3).
        (SACK, blocks)
            if !blocks.is_empty() && blocks.len() % 8 == 0 && headers.tcp_flags & tcp_flags::ACK != 0 =>
        {
            headers.sack = highest_right_edge(headers.ack, blocks);
        }
        _ => {}
    }
}

/// The right edge farthest after `ack` in sequence space; `ack` if none is after it, as with the
/// duplicates that RFC 2883 reports.
fn highest_right_edge(ack: u32, blocks: &[u8]) -> u32 {
    let distances = blocks.chunks_exact(8).map(|block| {
        let right = u32::from_be_bytes([block[4], block[5], block[6], block[7]]);
        right.wrapping_sub(ack).cast_signed()
    });
    let farthest = distances.fold(0, i32::max);
    ack.wrapping_add_signed(farthest)
}
