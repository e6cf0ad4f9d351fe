//! Waiting until no XDP program runs any more that began before.
//!
//! A program that runs may have read what a map held before it was changed. It runs in an RCU read-side critical section,
//! which ends only when the packets that it steered are in their sockets' rings: drivers flush these before they let other
//! work on (`xdp_do_flush`, in the same poll). So a grace period of RCU is what has to be waited for.
//!
//! The system call that waits for one is a change of a map of maps: the kernel has the caller wait, "so that
//! userspace, when we return to it, knows that all non-sleepable programs that could be running use the new map value"
//! (`maybe_wait_bpf_programs` of kernel/bpf/syscall.c, Linux 4.19 and later). A change of an array, such as the table that
//! packets are spread by, does not wait. A test holds the kernel to both.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::link::bpf;
use crate::LiveError;

/// `BPF_MAP_CREATE`, `BPF_MAP_UPDATE_ELEM`, `BPF_MAP_TYPE_ARRAY` and `BPF_MAP_TYPE_ARRAY_OF_MAPS` of linux/bpf.h.
const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const ARRAY: u32 = 2;
const ARRAY_OF_MAPS: u32 = 12;

/// What `BPF_MAP_CREATE` takes of `union bpf_attr`, up to what is used here.
#[repr(C)]
struct Create {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
    inner: u32,
}

/// What `BPF_MAP_UPDATE_ELEM` takes of it.
#[repr(C)]
struct Update {
    map: u32,
    _padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// A map of maps that no program uses, to be changed.
#[derive(Debug)]
pub struct GracePeriod {
    outer: OwnedFd,
    inner: OwnedFd,
}

impl GracePeriod {
    /// Makes the maps. It takes `CAP_BPF`; waiting takes no rights.
    ///
    /// # Errors
    /// [`LiveError`] if the kernel refuses.
    pub fn new() -> Result<GracePeriod, LiveError> {
        let made = create(ARRAY, 0)
            .and_then(|inner| Ok(GracePeriod { outer: create(ARRAY_OF_MAPS, inner.as_raw_fd())?, inner }));
        made.map_err(|error| LiveError::of("cannot make a map to wait for XDP programs by", error))
    }

    /// Waits until all programs are through that run now, and the packets that they steered are in their sockets' rings:
    /// some milliseconds.
    ///
    /// # Errors
    /// [`LiveError`] if the kernel refuses.
    pub fn wait(&self) -> Result<(), LiveError> {
        let (key, value) = (0_u32, self.inner.as_raw_fd());
        let request = Update {
            map: self.outer.as_raw_fd() as u32,
            _padding: 0,
            key: (&raw const key).addr() as u64,
            value: (&raw const value).addr() as u64,
            flags: 0,
        };
        let done = bpf(BPF_MAP_UPDATE_ELEM, &request);
        done.map(drop).map_err(|error| LiveError::of("cannot wait for XDP programs that run", error))
    }
}

fn create(kind: u32, inner: i32) -> io::Result<OwnedFd> {
    let request = Create { kind, key_bytes: 4, value_bytes: 4, entries: 1, flags: 0, inner: inner as u32 };
    let fd = bpf(BPF_MAP_CREATE, &request)?;
    // SAFETY: it was just opened, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
