//! The value of an array map, of any length, by system calls for which the loader has no function; and its memory.
#![allow(unsafe_code, reason = "system calls with pointers")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// `BPF_MAP_LOOKUP_ELEM` and `BPF_MAP_UPDATE_ELEM` of linux/bpf.h.
const MAP_LOOKUP_ELEM: libc::c_long = 1;
const MAP_UPDATE_ELEM: libc::c_long = 2;

/// `MEMBARRIER_CMD_GLOBAL` of linux/membarrier.h.
const MEMBARRIER_GLOBAL: libc::c_long = 1;

/// The part of `union bpf_attr` that a look-up and an update read.
#[repr(C)]
struct Element {
    map_fd: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Reads the element of an array map into `value`, which is as long as the map's values are.
///
/// # Errors
/// There is no such element.
pub fn read(map: BorrowedFd<'_>, index: u32, value: &mut [u8]) -> io::Result<()> {
    element(MAP_LOOKUP_ELEM, map, index, value.as_mut_ptr())
}

/// Writes the element of an array map; `value` is as long as the map's values are. Programs may see a part of it.
///
/// # Errors
/// There is no such element.
pub fn write(map: BorrowedFd<'_>, index: u32, value: &[u8]) -> io::Result<()> {
    element(MAP_UPDATE_ELEM, map, index, value.as_ptr().cast_mut())
}

/// Does a command with an element of an array map. Of `value` the kernel writes what it looks up, and reads what it updates.
fn element(command: libc::c_long, map: BorrowedFd<'_>, index: u32, value: *mut u8) -> io::Result<()> {
    let element = Element {
        map_fd: map.as_raw_fd() as u32,
        unused: 0,
        key: (&raw const index) as u64,
        value: value as u64,
        flags: 0,
    };
    let bytes = size_of::<Element>();
    // SAFETY: the kernel reads `bytes` bytes of `element` and the 4 bytes of its key, and reads or writes one value of the map, for
    // which the caller of this module has room: all three live until the call is over.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const element, bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits until all runs of programs that have begun are over: programs run in read-side sections of RCU, and the barrier waits for
/// these.
///
/// # Errors
/// The kernel has no such barrier, or has CPUs without ticks (`nohz_full`).
pub fn wait_for_programs() -> io::Result<()> {
    // SAFETY: all arguments are plain numbers.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_GLOBAL, 0, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Some words of an array map's memory, as programs have them at the moment. Dropping it unmaps them.
pub struct Window {
    start: NonNull<libc::c_void>,
    bytes: usize,
    words: NonNull<AtomicU64>,
    many: usize,
}

// SAFETY: it is an address and a length; the memory is shared with the kernel, is only read, and belongs to no thread.
unsafe impl Send for Window {}
// SAFETY: words are read by atomic loads alone.
unsafe impl Sync for Window {}

impl Window {
    /// Maps so many words from byte `at` of a map on, which is the first of a word.
    ///
    /// # Errors
    /// The map does not allow it, or is not that long.
    pub fn open(map: BorrowedFd<'_>, at: usize, many: usize) -> io::Result<Window> {
        // SAFETY: it takes a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let (first, before) = (at / page * page, at % page);
        let bytes = (before + many * size_of::<u64>()).next_multiple_of(page);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            let access = (libc::PROT_READ, libc::MAP_SHARED);
            libc::mmap(ptr::null_mut(), bytes, access.0, access.1, map.as_raw_fd(), first as libc::off_t)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let Some(start) = NonNull::new(start) else { return Err(io::ErrorKind::OutOfMemory.into()) };
        // SAFETY: the words lie in the mapping, whose length was computed from them.
        let words = unsafe { start.byte_add(before).cast() };
        Ok(Window { start, bytes, words, many })
    }

    /// A word; 0 if it is not one of them.
    pub fn word(&self, at: usize) -> u64 {
        if at >= self.many {
            return 0;
        }
        // SAFETY: it is one of the words of the mapping, which lives as long as this, and is aligned as a word.
        unsafe { self.words.add(at).as_ref() }.load(Ordering::Relaxed)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody has a reference into it.
        unsafe { libc::munmap(self.start.as_ptr(), self.bytes) };
    }
}
