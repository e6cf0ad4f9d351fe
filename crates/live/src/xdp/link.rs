//! A link that holds an XDP program at an interface.
//!
//! The loader library would fall back to an attachment without a link where the kernel refuses one, and such a program
//! stays at the interface when the process dies. So the one system call is made here.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `BPF_LINK_CREATE` and `BPF_XDP` of linux/bpf.h.
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_XDP: u32 = 37;

/// `XDP_FLAGS_SKB_MODE` of linux/if_link.h: behind the driver, with a packet that the stack has made.
pub(super) const GENERIC: u32 = 1 << 1;
/// `XDP_FLAGS_DRV_MODE`: in the driver.
pub(super) const NATIVE: u32 = 1 << 2;

/// `link_create` of `union bpf_attr`, as far as XDP uses it.
#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// Attaches a program to the interface of this index. The program comes off when the link is closed: by drop, or by the
/// end of the process.
pub(super) fn create(program: BorrowedFd<'_>, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let request = LinkCreate { program: program.as_raw_fd() as u32, interface, attach_type: BPF_XDP, flags };
    // SAFETY: the request is the beginning of the kernel's structure, of the length that is given, and outlives the
    // call; the rest of that structure counts as 0.
    let fd =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_LINK_CREATE, &raw const request, size_of::<LinkCreate>()) };
    match libc::c_int::try_from(fd) {
        // SAFETY: it was just opened, and nobody else knows it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
