//! The value of an array map, of any length: the one system call for which the loader has no function.
#![allow(unsafe_code, reason = "a system call with pointers")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `BPF_MAP_LOOKUP_ELEM` of linux/bpf.h.
const MAP_LOOKUP_ELEM: libc::c_long = 1;

/// The part of `union bpf_attr` that a look-up reads.
#[repr(C)]
struct LookUp {
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
    let look_up = LookUp {
        map_fd: map.as_raw_fd() as u32,
        unused: 0,
        key: (&raw const index) as u64,
        value: value.as_mut_ptr() as u64,
        flags: 0,
    };
    let bytes = size_of::<LookUp>();
    // SAFETY: the kernel reads `bytes` bytes of `look_up` and the 4 bytes of its key, and writes one value of the map, for
    // which the caller of this module has room: all three live until the call is over.
    let result = unsafe { libc::syscall(libc::SYS_bpf, MAP_LOOKUP_ELEM, &raw const look_up, bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
