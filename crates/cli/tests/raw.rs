//! Frames that are sent as they are.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use live::Interface;
use wire::protocol;

use crate::lab::Namespace;

/// Sends frames as they are by an interface of the calling thread's namespace.
pub struct Raw(OwnedFd);

impl Raw {
    pub fn open(interface: &str) -> Raw {
        let name = std::ffi::CString::new(interface).expect("a name");
        // SAFETY: all arguments are plain numbers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: it was opened above, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: all bytes 0 is a valid address.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        // SAFETY: the name ends with 0.
        address.sll_ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) } as libc::c_int;
        // SAFETY: the address is as long as is said.
        let bound = unsafe {
            libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
        };
        assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
        Raw(fd)
    }

    /// Waits where the queue is full.
    pub fn send(&self, frame: &[u8]) {
        // SAFETY: the buffer outlives the call, which is told its length.
        unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
    }
}

/// The link address of a host.
pub fn station(host: &Namespace) -> [u8; 6] {
    host.inside(|| Interface::open("eth0").expect("the test made it").address)
}

/// A datagram without data, from a port of `source` to port 99 of 192.0.2.2.
pub fn datagram(to: [u8; 6], from: [u8; 6], source: [u8; 4], port: u16) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, protocol::UDP, 0, 0];
    ip.extend(source);
    ip.extend([192, 0, 2, 2]);
    let sum = wire::internet_checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum);
    // Without a checksum (RFC 768).
    ip.extend(port.to_be_bytes());
    ip.extend([0, 99, 0, 8, 0, 0]);
    [&to[..], &from, &[8, 0], &ip].concat()
}
