//! A network interface as far as programs at it need it. The loader library would fall back to an attachment that outlives
//! this process where the kernel refuses a link: so the link is made here.
#![allow(unsafe_code, reason = "system calls with pointers")]

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `BPF_LINK_CREATE` and `BPF_XDP` of linux/bpf.h, `XDP_FLAGS_DRV_MODE` of linux/if_link.h.
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_XDP: u32 = 37;
const NATIVE: u32 = 1 << 2;

/// `ETHTOOL_GCHANNELS` of linux/ethtool.h.
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// `struct ethtool_channels` of linux/ethtool.h.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    send: u32,
    other: u32,
    combined: u32,
}

/// `link_create` of `union bpf_attr`, as far as XDP uses it.
#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// The index of the interface of this name, in the network namespace of the calling thread.
///
/// # Errors
/// There is none.
pub fn index(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the name ends with a 0 and outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// How many receive queues an interface has in use. One whose driver does not say has one.
///
/// # Errors
/// There is no such interface.
pub fn receive_queues(name: &str) -> io::Result<u32> {
    // SAFETY: all arguments are plain numbers.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was just opened, and nobody else knows it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    // SAFETY: all bytes 0 is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte as libc::c_char);
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // SAFETY: the request and the kernel's structure for its command outlive the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) } {
        0 => Ok((channels.receive + channels.combined).max(1)),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(1),
            error => Err(error),
        },
    }
}

/// Attaches a program to the interface of this index, in its driver. The program comes off when the link is closed: by drop,
/// or by the end of the process.
///
/// # Errors
/// The kernel, or the driver, refuses it.
pub fn attach(program: BorrowedFd<'_>, interface: u32) -> io::Result<OwnedFd> {
    let request =
        LinkCreate { program: program.as_raw_fd() as u32, interface, attach_type: BPF_XDP, flags: NATIVE };
    let len = size_of::<LinkCreate>();
    // SAFETY: the request is the beginning of the kernel's structure for the command, of the length that is given, and
    // outlives the call; the rest of that structure counts as 0.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_LINK_CREATE, &raw const request, len) };
    match libc::c_int::try_from(fd) {
        // SAFETY: it was just opened, and nobody else knows it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
