//! Memory that the system gives as it is used.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use crate::{LINE_BYTES, Line};

/// Cache lines of zeros, of which the system gives each page when it is first touched: for a buffer that is large in case,
/// and of which most runs touch little.
///
/// Several threads may write to them, each to its own. The owner says which thread has which: all that this gives is pointers.
#[derive(Debug)]
pub struct FreshLines {
    first: NonNull<Line>,
    lines: usize,
}

// SAFETY: plain bytes that it owns, and does not read or write itself.
unsafe impl Send for FreshLines {}
// SAFETY: as above.
unsafe impl Sync for FreshLines {}

impl FreshLines {
    /// So many lines; `None` if there is no memory for them.
    ///
    /// # Panics
    /// If `lines` is 0 or the size overflows.
    pub fn new(lines: usize) -> Option<FreshLines> {
        assert!(lines > 0, "memory of no lines");
        let bytes = lines.checked_mul(LINE_BYTES).expect("a size that fits in memory");
        Some(FreshLines { first: map(bytes)?.cast(), lines })
    }

    /// Where `count` lines from number `first` on begin.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub fn lines(&self, first: usize, count: usize) -> *mut u8 {
        assert!(first <= self.lines && count <= self.lines - first, "lines beyond the end");
        // SAFETY: within what was allocated.
        unsafe { self.first.as_ptr().add(first).cast() }
    }
}

impl Drop for FreshLines {
    fn drop(&mut self) {
        unmap(self.first.cast(), self.lines * LINE_BYTES);
    }
}

// Not the allocator: it writes the zeros itself where memory is to lie on whole cache lines, or was used before.
#[cfg(all(target_os = "linux", not(miri)))]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: asks for new memory, and says nothing of what there is.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    if memory == libc::MAP_FAILED { None } else { NonNull::new(memory.cast()) }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn unmap(memory: NonNull<u8>, bytes: usize) {
    // SAFETY: from `map`, as long, and nobody has it any more.
    unsafe { libc::munmap(memory.as_ptr().cast(), bytes) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: there is something to allocate.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout(bytes)) })
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn unmap(memory: NonNull<u8>, bytes: usize) {
    // SAFETY: allocated in `map` with the same layout.
    unsafe { std::alloc::dealloc(memory.as_ptr(), layout(bytes)) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn layout(bytes: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(bytes, LINE_BYTES).expect("a size that fits in memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_zeros_and_hold_what_was_written() {
        let lines = FreshLines::new(100).expect("memory");
        let byte = |line: usize| lines.lines(line, 1);
        assert_eq!(byte(0) as usize % LINE_BYTES, 0);
        // SAFETY: lines of its own, which nobody else has.
        unsafe {
            byte(99).write(7);
            assert_eq!((byte(98).read(), byte(99).read()), (0, 7));
            assert_eq!(byte(99).offset_from(byte(98)), LINE_BYTES as isize);
        }
    }

    #[test]
    #[should_panic(expected = "beyond the end")]
    fn there_are_no_more_than_there_are() {
        FreshLines::new(10).expect("memory").lines(9, 2);
    }
}
