//! Memory for large arrays: on huge pages where the system gives them.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;
use std::mem::needs_drop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use zerocopy::FromZeros;

use crate::{FreshLines, LINE_BYTES};

/// A huge page of x86-64 and of most others.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A slice of plain values of fixed length. Random access to an array larger than what the TLB covers
/// costs a page walk per access, nested in a virtual machine; with huge pages the TLB covers 512 times
/// as much.
pub struct Array<T: Copy> {
    values: NonNull<T>,
    len: usize,
    /// Where the values are, if the system gives their pages as they are touched; else they are the allocator's.
    pages: Option<FreshLines>,
}

/// Arrays of zeros that are smaller are touched all the same: a page costs more by itself.
const ON_DEMAND_BYTES: usize = 256 << 10;

thread_local! {
    static ON_DEMAND: Cell<bool> = const { Cell::new(false) };
}

/// What `make` does, on this thread, with the pages of large [`Array::zeroed`] given out when they are first touched: for runs that
/// touch little of what they have room for, and are not measured. Without that each page is touched when an array is made.
pub fn on_demand<R>(make: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            ON_DEMAND.set(self.0);
        }
    }
    let _before = Before(ON_DEMAND.replace(true));
    make()
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

    /// `len` values of zeros, all touched, so that no page is first given out on the data path, but for [`on_demand`]; `None`
    /// if there is no memory for them.
    ///
    /// # Panics
    /// As [`Array::filled`].
    pub fn zeroed(len: usize) -> Option<Array<T>>
    where
        T: FromZeros,
    {
        Self::of_zeros(len, ON_DEMAND.get())
    }

    /// `len` values of zeros, given out as this array's were.
    ///
    /// # Panics
    /// As [`Array::filled`].
    pub fn zeroed_alike(&self, len: usize) -> Option<Array<T>>
    where
        T: FromZeros,
    {
        Self::of_zeros(len, self.pages.is_some())
    }

    fn of_zeros(len: usize, on_demand: bool) -> Option<Array<T>>
    where
        T: FromZeros,
    {
        let bytes = Self::layout(len).size();
        if on_demand && bytes >= ON_DEMAND_BYTES {
            const { assert!(align_of::<T>() <= LINE_BYTES) };
            let lines = bytes.div_ceil(LINE_BYTES);
            let pages = FreshLines::new(lines)?;
            let values = NonNull::new(pages.lines(0, lines).cast())?;
            return Some(Array { values, len, pages: Some(pages) });
        }
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
        Some(Array { values, len, pages: None })
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
        // SAFETY: all `len` values were written when it was made, or are zeros of pages that the system gives.
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
        if self.pages.is_some() {
            // They go back by themselves.
            return;
        }
        // SAFETY: allocated in `uninitialised` with the same layout.
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
    fn zeros_are_zeros_however_they_are_given_out() {
        let len = if cfg!(miri) { ON_DEMAND_BYTES / 8 } else { 600_000 };
        let small = on_demand(|| Array::<u64>::zeroed(10)).expect("memory");
        let mut sparse = on_demand(|| Array::<u64>::zeroed(len)).expect("memory");
        let full = Array::<u64>::zeroed(len).expect("memory");
        assert_eq!([&small, &sparse, &full].map(|array| array.pages.is_some()), [false, true, false]);
        assert!([&small, &sparse, &full].iter().all(|array| array.iter().all(|value| *value == 0)));
        sparse[len - 1] = 8;
        let like = sparse.zeroed_alike(len).expect("memory");
        assert!(like.pages.is_some() && like[len - 1] == 0 && sparse[len - 1] == 8);
        let full = full.zeroed_alike(len).expect("memory");
        assert!(full.pages.is_none());
    }

    #[test]
    fn on_demand_ends_with_a_panic() {
        let _ = std::panic::catch_unwind(|| on_demand(|| panic!("as it should")));
        assert!(!ON_DEMAND.get());
    }

    #[test]
    #[should_panic(expected = "nothing")]
    fn an_empty_array_is_a_mistake() {
        let _ = Array::filled(0u8, 0);
    }
}
