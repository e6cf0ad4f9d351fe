//! Prefetches: they ask the processor for cache lines that are needed soon.

use crate::LINE_BYTES;

/// Asks for the `lines` cache lines from `at` on, to be read or written soon. No effect but on time,
/// wherever it points.
#[inline(always)]
#[allow(unsafe_code)]
pub fn prefetch_lines(at: *const u8, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..lines {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch has no architectural effect, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(line * LINE_BYTES).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, lines);
}

/// Asks for the line that `at` points to. No effect but on time, wherever it points.
#[inline(always)]
pub fn prefetch(at: *const u8) {
    prefetch_lines(at, 1);
}
