//! Setting up the kernel's side of a socket, and what its refusals mean.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::thread;
use std::time::Duration;

use super::options::{BusyPoll, Mode, SocketOptions};
use super::umem::Umem;
use crate::{Interface, LiveError};

/// Ethernet header and two VLAN tags, bytes: a frame is as much longer than the MTU.
pub(crate) const LINK_BYTES: usize = 14 + 2 * 4;

/// How often a queue is asked for that the kernel has not quite let go of, and how long between.
const BIND_TRIES: u32 = 150;
const BIND_WAIT: Duration = Duration::from_millis(20);

/// `XDP_MAX_TX_SKB_BUDGET` of linux/if_xdp.h, since Linux 6.17.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Refuses what the kernel would refuse with a bare EINVAL, or take and then drop packets.
pub(super) fn check(
    umem: &Umem,
    interface: &Interface,
    queue: u32,
    options: &SocketOptions,
) -> Result<(), LiveError> {
    let name = &interface.name;
    if queue >= interface.queues {
        let (queues, last) = (interface.queues, interface.queues.saturating_sub(1));
        return Err(LiveError::refused(
            format!("interface `{name}` has no queue {queue}: it has {queues}"),
            format!("Use a queue from 0 to {last}, or give it more: ethtool -L {name} combined N"),
        ));
    }
    let frame = interface.mtu + LINK_BYTES;
    let room = umem.longest_packet();
    if frame > room && !options.takes_parts {
        return Err(LiveError::refused(
            format!("frames of interface `{name}` have up to {frame} bytes, and a chunk has room for {room}"),
            format!(
                "Use longer chunks, or a smaller MTU: ip link set dev {name} mtu {}",
                room.saturating_sub(LINK_BYTES)
            ),
        ));
    }
    for size in [options.fill, options.receive, options.transmit, options.completion] {
        if !size.is_power_of_two() || size > 1 << 20 {
            return Err(LiveError::refused(
                format!("AF_XDP has no rings of {size} entries"),
                "Use a power of two up to 1048576.",
            ));
        }
    }
    Ok(())
}

/// A new socket, without rings or queue.
pub(super) fn socket(name: &str) -> Result<OwnedFd, LiveError> {
    // SAFETY: the arguments are plain numbers.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd >= 0 {
        // SAFETY: it was just opened, and nobody else knows it.
        return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    let (what, error) =
        (format!("cannot open an AF_XDP socket for interface `{name}`"), io::Error::last_os_error());
    Err(match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => {
            LiveError::helped(what, error, "This kernel was built without XDP_SOCKETS: use AF_PACKET.")
        }
        _ => LiveError::of_rights(what, error, &[caps::Capability::CAP_NET_RAW]),
    })
}

/// Registers the memory, which locks it.
pub(super) fn register(fd: &OwnedFd, umem: &Umem, what: impl Fn() -> String) -> Result<(), LiveError> {
    let set = set(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &umem.registration());
    set.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOMEM) => LiveError::helped(what(), error, "This machine has not so much memory free."),
        Some(libc::ENOBUFS) => LiveError::helped(
            what(),
            error,
            "The kernel may not lock that much memory: ulimit -l unlimited, or run as root.",
        ),
        _ => LiveError::of(what(), error),
    })
}

/// Sets what makes it fast. Only busy polling was asked for, and can fail.
pub(super) fn tune(fd: &OwnedFd, options: &SocketOptions) -> io::Result<()> {
    // As much in one call as the ring has, and as much on its way. Kernels that know no such bound have others.
    let _ = set(fd, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &options.transmit);
    let in_flight = options.transmit.saturating_mul(4_096).min(i32::MAX as u32);
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &in_flight);
    let Some(BusyPoll { micros, budget }) = options.busy_poll else { return Ok(()) };
    set(fd, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, &1u32)?;
    set(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &micros)?;
    set(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET, &budget)
}

/// Takes the queue.
pub(super) fn bind(
    fd: &OwnedFd,
    interface: &Interface,
    queue: u32,
    options: &SocketOptions,
) -> Result<(), LiveError> {
    let parts = if options.takes_parts { libc::XDP_USE_SG } else { 0 };
    let how = match options.mode {
        // The kernel tries zero-copy itself, and then goes on with a copy.
        Mode::Best => 0,
        Mode::ZeroCopy => libc::XDP_ZEROCOPY,
        Mode::Copy => libc::XDP_COPY,
    };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: how | parts | libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: interface.index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let mut tries = 0;
    loop {
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is the kernel's structure for this family, of this length.
        if unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        tries += 1;
        // The kernel lets go of a queue some time after its socket was closed.
        if error.raw_os_error() != Some(libc::EBUSY) || tries >= BIND_TRIES {
            return Err(bind_failed(error, &interface.name, queue, options));
        }
        thread::sleep(BIND_WAIT);
    }
}

/// Takes a queue that another socket of this process has, with that one's memory and its fill and completion ring.
pub(super) fn bind_beside(
    fd: &OwnedFd,
    interface: &Interface,
    queue: u32,
    first: &OwnedFd,
) -> Result<(), LiveError> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        // The first socket's mode is all sockets' mode.
        sxdp_flags: libc::XDP_SHARED_UMEM,
        sxdp_ifindex: interface.index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: first.as_raw_fd() as u32,
    };
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is the kernel's structure for this family, of this length.
    if unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) } == 0 {
        return Ok(());
    }
    Err(LiveError::last(format!(
        "cannot have a second socket at queue {queue} of interface `{}`",
        interface.name
    )))
}

fn bind_failed(error: io::Error, name: &str, queue: u32, options: &SocketOptions) -> LiveError {
    let what = format!("cannot take queue {queue} of interface `{name}`");
    // ENOTSUPP, which some drivers give for EOPNOTSUPP, has no name outside the kernel.
    const ENOTSUPP: i32 = 524;
    match error.raw_os_error() {
        Some(libc::EBUSY) => LiveError::helped(
            format!("{what}: another AF_XDP socket has it"),
            error,
            "`ss --xdp --processes` names its program: end that, or use another queue.",
        ),
        Some(libc::EOPNOTSUPP | ENOTSUPP) if options.mode == Mode::ZeroCopy => LiveError::helped(
            format!("{what}: its driver has no zero-copy"),
            error,
            "Let the kernel choose, or ask for a copy.",
        ),
        Some(libc::EOPNOTSUPP | ENOTSUPP) => {
            LiveError::helped(what, error, "This interface cannot have AF_XDP sockets: use AF_PACKET.")
        }
        Some(libc::EINVAL) if options.takes_parts => LiveError::helped(
            format!("{what} for frames longer than a page"),
            error,
            format!(
                "They take Linux 6.6. Use a smaller MTU (ip link set dev {name} mtu 3498), or AF_PACKET."
            ),
        ),
        Some(libc::EINVAL) => LiveError::helped(
            what,
            error,
            format!(
                "Its driver refuses it. `ethtool -l {name}` shows its queues; AF_PACKET works with all of them."
            ),
        ),
        Some(libc::ENETDOWN | libc::ENODEV) => {
            LiveError::helped(what, error, format!("Take it up first: ip link set {name} up"))
        }
        _ => LiveError::of(what, error),
    }
}

/// Sets an option to a value.
pub(super) fn set<T>(fd: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is read for its length, and outlives the call.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, ptr::from_ref(value).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A structure of numbers.
///
/// # Safety
/// All bytes 0 is a valid value, and so is whatever the kernel writes.
pub(super) unsafe trait Numbers: Copy {}
// SAFETY: these are structures of numbers.
unsafe impl Numbers for libc::xdp_mmap_offsets {}
// SAFETY: as above.
unsafe impl Numbers for libc::xdp_options {}
// SAFETY: as above.
unsafe impl Numbers for libc::xdp_statistics {}

/// The value of an option of AF_XDP; what an older kernel does not fill in is 0.
pub(super) fn get<T: Numbers>(fd: &OwnedFd, option: libc::c_int) -> io::Result<T> {
    // SAFETY: all bytes 0 is a valid value.
    let mut value: T = unsafe { mem::zeroed() };
    let mut len = size_of::<T>() as libc::socklen_t;
    let to = (&raw mut value).cast();
    // SAFETY: the kernel writes up to `len` bytes of the value, which outlives the call.
    match unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, to, &mut len) } {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}
