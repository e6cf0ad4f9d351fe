//! Memory for large arrays: on huge pages where the system gives them.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::mem::needs_drop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use zerocopy::FromZeros;

/// A huge page of x86-64 and of most others.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A slice of plain values of fixed length. Random access to an array larger than what the TLB covers
/// costs a page walk per access, nested in a virtual machine; with huge pages the TLB covers 512 times
/// as much.
pub struct Array<T: Copy> {
    values: NonNull<T>,
    len: usize,
}

// SAFETY: owns its values, as a `Box<[T]>` does.
unsafe impl<T: Copy + Send> Send for Array<T> {}
// SAFETY: as above.
unsafe impl<T: Copy + Sync> Sync for Array<T> {}

impl<T: Copy> Array<T> {
    /// `len` copies of `value`; `None` if there is no memory for them.
    ///
    /// # Panics
    /// If `len` is 0 or the size overflows.
    pub fn filled(value: T, len: usize) -> Option<Array<T>> {
        let array = Self::uninitialised(len)?;
        for i in 0..len {
            // SAFETY: `i` lies within what was allocated.
            unsafe { array.values.add(i).write(value) };
        }
        Some(array)
    }

    /// `len` values of zeros, all touched, so that no page is first given out on the data path; `None` if
    /// there is no memory for them.
    ///
    /// # Panics
    /// As [`Array::filled`].
    pub fn zeroed(len: usize) -> Option<Array<T>>
    where
        T: FromZeros,
    {
        let array = Self::uninitialised(len)?;
        // SAFETY: within what was allocated, and all zeros are a value.
        unsafe { array.values.write_bytes(0, len) };
        Some(array)
    }

    /// Memory that holds nothing yet: to be filled before anyone else sees it.
    fn uninitialised(len: usize) -> Option<Array<T>> {
        const { assert!(!needs_drop::<T>() && size_of::<T>() > 0) };
        assert!(len > 0, "an array of nothing");
        let layout = Self::layout(len);
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc(layout) };
        let values = NonNull::new(memory.cast::<T>())?;
        advise_huge_pages(memory, layout.size());
        Some(Array { values, len })
    }

    fn layout(len: usize) -> Layout {
        let layout = Layout::array::<T>(len).expect("an array that fits in memory");
        let align = if layout.size() >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { layout.align() };
        layout.align_to(align).expect("a power of two")
    }
}

impl<T: Copy> Deref for Array<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `filled` wrote all `len` values.
        unsafe { slice::from_raw_parts(self.values.as_ptr(), self.len) }
    }
}

impl<T: Copy> DerefMut for Array<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the borrow is exclusive.
        unsafe { slice::from_raw_parts_mut(self.values.as_ptr(), self.len) }
    }
}

impl<T: Copy> Drop for Array<T> {
    fn drop(&mut self) {
        // SAFETY: allocated in `filled` with the same layout.
        unsafe { dealloc(self.values.as_ptr().cast(), Self::layout(self.len)) }
    }
}

/// Asks for huge pages before the memory is first touched. A hint: where it is refused, small pages do.
fn advise_huge_pages(memory: *mut u8, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    if bytes >= HUGE_PAGE_BYTES {
        // SAFETY: the range was just allocated, and the advice does not change what it holds.
        unsafe { libc::madvise(memory.cast(), bytes, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (memory, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_was_written() {
        // Below and above the size of a huge page.
        for len in [1usize, 1000, if cfg!(miri) { 1001 } else { 600_000 }] {
            let mut array = Array::filled(7u64, len).expect("memory");
            array[len - 1] = 8;
            assert_eq!(array.len(), len);
            assert!(array[..len - 1].iter().all(|value| *value == 7));
            assert_eq!(array[len - 1], 8);
        }
    }

    #[test]
    #[should_panic(expected = "nothing")]
    fn an_empty_array_is_a_mistake() {
        let _ = Array::filled(0u8, 0);
    }
}
