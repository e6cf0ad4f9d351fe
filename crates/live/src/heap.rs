//! Memory that was freed, and that the allocator keeps.

#![allow(unsafe_code)]

/// Gives free memory back to the kernel. After a reload that is most of a chain's tables: the allocator would keep it, in as
/// many pieces as there were threads. Waits for nobody who works on packets, since they allocate nothing.
pub fn give_back_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and only frees what nobody has.
    unsafe {
        libc::malloc_trim(0);
    }
}
