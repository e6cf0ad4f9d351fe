//! A link that holds an XDP program at an interface.
//!
//! The loader library would fall back to an attachment without a link where the kernel refuses one, and such a program
//! stays at the interface when the process dies. So the one system call is made here.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Where the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver, before the kernel has made anything of the packet.
    Native,
    /// In the network stack, because the driver cannot: slower.
    Generic,
}

impl fmt::Display for AttachMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AttachMode::Native => "native",
            AttachMode::Generic => "generic",
        })
    }
}

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

/// `BPF_TCX_INGRESS` of linux/bpf.h, Linux 6.6: where packets enter the network stack.
const TCX_INGRESS: u32 = 46;

/// Attaches a program where packets enter the network stack from the interface of this index, until the link is closed.
pub(super) fn create_behind(program: BorrowedFd<'_>, interface: u32) -> io::Result<OwnedFd> {
    attach(LinkCreate { program: program.as_raw_fd() as u32, interface, attach_type: TCX_INGRESS, flags: 0 })
}

/// Attaches a program to the interface of this index. The program comes off when the link is closed: by drop, or by the
/// end of the process.
pub(super) fn create(program: BorrowedFd<'_>, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    attach(LinkCreate { program: program.as_raw_fd() as u32, interface, attach_type: BPF_XDP, flags })
}

fn attach(request: LinkCreate) -> io::Result<OwnedFd> {
    let fd = bpf(BPF_LINK_CREATE, &request)?;
    // SAFETY: it was just opened, and nobody else knows it.
    Ok(closed_first(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Files from this number on are links: a process has fewer others open, and may open 1,024 unless told otherwise.
const LINKS: libc::c_int = 768;

/// Gives a link a number above those of all other files, where the process may have one.
///
/// When a process dies the kernel closes its files from the highest number down. Each AF_XDP socket holds it up for a
/// grace period of RCU, and the programs drop or lose packets meanwhile: so they have to go before the sockets.
fn closed_first(link: OwnedFd) -> OwnedFd {
    // SAFETY: it takes two numbers, and the first is that of an open file.
    let fd = unsafe { libc::fcntl(link.as_raw_fd(), libc::F_DUPFD_CLOEXEC, LINKS) };
    if fd < 0 {
        return link;
    }
    // SAFETY: it was just opened, and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// `BPF_OBJ_PIN`, `BPF_OBJ_GET`, `BPF_OBJ_GET_INFO_BY_FD` and `BPF_LINK_UPDATE` of linux/bpf.h.
const BPF_OBJ_PIN: libc::c_long = 6;
const BPF_OBJ_GET: libc::c_long = 7;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const BPF_LINK_UPDATE: libc::c_long = 29;
/// `BPF_LINK_TYPE_XDP`.
const TYPE_XDP: u32 = 6;

/// The object commands of `union bpf_attr`.
#[repr(C)]
struct Object {
    path: u64,
    fd: u32,
    flags: u32,
}

/// `link_update` of `union bpf_attr`.
#[repr(C)]
struct LinkUpdate {
    link: u32,
    program: u32,
    flags: u32,
    old_program: u32,
}

/// `info` of `union bpf_attr`.
#[repr(C)]
struct AskInfo {
    fd: u32,
    len: u32,
    info: u64,
}

/// `struct bpf_link_info`, as far as XDP uses it.
#[repr(C)]
#[derive(Default)]
struct LinkInfo {
    kind: u32,
    id: u32,
    program: u32,
    _padding: u32,
    interface: u32,
    rest: [u32; 7],
}

/// Asks the kernel with a request that is the beginning of `union bpf_attr`, and may name memory that outlives the call.
pub(super) fn bpf<T>(command: libc::c_long, request: &T) -> io::Result<libc::c_int> {
    let len = size_of::<T>();
    // SAFETY: the request is the beginning of the kernel's structure for the command, of the length that is given, and
    // outlives the call, as does what it points to; the rest of that structure counts as 0.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(request), len) };
    match libc::c_int::try_from(answer) {
        Ok(answer) if answer >= 0 => Ok(answer),
        _ => Err(io::Error::last_os_error()),
    }
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Gives the link a name in a BPF file system: it stays at the interface until that is removed, whether or not this
/// process lives.
pub(super) fn pin(link: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    bpf(BPF_OBJ_PIN, &Object { path: path.as_ptr().addr() as u64, fd: link.as_raw_fd() as u32, flags: 0 })
        .map(drop)
}

/// The link that has this name, and the index of its interface: 0 if that is gone.
pub(super) fn pinned(path: &Path) -> io::Result<(OwnedFd, u32)> {
    let path = c_path(path)?;
    let fd = bpf(BPF_OBJ_GET, &Object { path: path.as_ptr().addr() as u64, fd: 0, flags: 0 })?;
    // SAFETY: it was just opened, and nobody else knows it.
    let link = closed_first(unsafe { OwnedFd::from_raw_fd(fd) });
    let mut info = LinkInfo::default();
    let ask = AskInfo {
        fd: link.as_raw_fd() as u32,
        len: size_of::<LinkInfo>() as u32,
        info: (&raw mut info).addr() as u64,
    };
    bpf(BPF_OBJ_GET_INFO_BY_FD, &ask)?;
    // SAFETY: the kernel has written at most its length; it is numbers.
    let info = unsafe { std::ptr::read_volatile(&raw const info) };
    Ok((link, if info.kind == TYPE_XDP { info.interface } else { 0 }))
}

/// Puts another program in the place of a link's: no packet meets neither.
pub(super) fn update(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let (link, program) = (link.as_raw_fd() as u32, program.as_raw_fd() as u32);
    bpf(BPF_LINK_UPDATE, &LinkUpdate { link, program, flags: 0, old_program: 0 }).map(drop)
}
