/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Lines of a value that are asked for: what a step reads first. More would crowd out the other packets'.
const LINES_MAX: usize = 2;

/// Asks for the first cache lines of `value`, to be read or written soon. No effect but on time.
#[inline(always)]
#[allow(unsafe_code)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..size_of::<T>().div_ceil(LINE_BYTES).min(LINES_MAX) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no architectural effect, and the line lies in a live value.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(value).cast::<i8>().add(line * LINE_BYTES))
        };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
