//! A part of a socket that is mapped into this process.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU32;

use super::ring::Parts;

/// The memory of one ring. Dropping it unmaps it.
pub(super) struct Mapping {
    start: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: it is an address and a length; the memory is shared with the kernel and belongs to no thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the ring at `page_offset` of a socket, and says where its parts are, for a ring of `size` entries of `T`.
    pub(super) fn ring<T>(
        socket: &OwnedFd,
        page_offset: u64,
        at: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<(Mapping, Parts<T>)> {
        let bytes = at.desc as usize + size as usize * size_of::<T>();
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.as_raw_fd(),
                page_offset as libc::off_t,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let Some(start) = NonNull::new(start) else { return Err(io::ErrorKind::OutOfMemory.into()) };
        let mapping = Mapping { start, bytes };
        let ends = [at.producer, at.consumer, at.flags].map(|offset| offset as usize + size_of::<u32>());
        if ends.iter().any(|end| *end > bytes) {
            return Err(io::Error::other("the kernel places a ring's counters outside the ring"));
        }
        // SAFETY: the counters lie in the mapping, as was just checked.
        let counter = |offset: u64| unsafe { start.byte_add(offset as usize).cast::<AtomicU32>() };
        let parts = Parts {
            producer: counter(at.producer),
            consumer: counter(at.consumer),
            flags: counter(at.flags),
            // SAFETY: the entries are the end of the mapping, whose length was computed from them.
            entries: unsafe { start.byte_add(at.desc as usize).cast() },
            size,
        };
        Ok((mapping, parts))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and the rings in it are dropped with their socket.
        unsafe { libc::munmap(self.start.as_ptr(), self.bytes) };
    }
}
