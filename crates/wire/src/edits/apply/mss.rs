//! Lowers the maximum segment size that a SYN announces.

use crate::checksum::Difference;

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;

/// RFC 9293 §3.1: a TCP header without options.
const WITHOUT_OPTIONS: usize = 20;

/// Lowers each MSS option of a TCP header, as far as captured, to `most`, and notes what changed. Options are stepped over as
/// receivers do (RFC 9293 §3.1): a wrong length ends them.
#[cold]
pub(super) fn lower(most: u16, transport: &mut [u8], difference: &mut Difference) {
    let header_len = transport.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4).min(transport.len());
    let mut at = WITHOUT_OPTIONS;
    while let Some([kind, rest @ ..]) = transport.get(at..header_len) {
        let len = match (*kind, rest) {
            (END, _) => return,
            (NO_OPERATION, _) => 1,
            (_, [len, ..]) if *len >= 2 => usize::from(*len),
            _ => return,
        };
        if (*kind, len) == (MSS, 4) && at + len <= header_len {
            lower_at(at + 2, most, transport, difference);
        }
        at += len;
    }
}

fn lower_at(at: usize, most: u16, transport: &mut [u8], difference: &mut Difference) {
    // Checksums are over words at even offsets: at an odd one the value lies in two of them. At an even one it may be the
    // last of what there is, so the word before goes with it.
    let first = if at.is_multiple_of(2) { at - 2 } else { at - 1 };
    let offset = at - first;
    let Some(words) = transport.get_mut(first..).and_then(|rest| rest.first_chunk_mut::<4>()) else { return };
    let mut lowered = *words;
    let Some(value) = lowered.get_mut(offset..).and_then(|rest| rest.first_chunk_mut::<2>()) else { return };
    if u16::from_be_bytes(*value) > most {
        *value = most.to_be_bytes();
        difference.write4(words, lowered);
    }
}
