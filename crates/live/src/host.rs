//! The way to this host's own stack for packets that AF_XDP took from it and the chain leaves to it: a TUN interface, by
//! which the kernel receives them. It has no address and no routes; what the host answers leaves by its usual ways.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use caps::Capability;
use wire::{Headers, LinkType};

use crate::LiveError;
use crate::interface::control_socket;

/// What the interface is called; the kernel puts a number in.
const NAME: &[u8] = b"paceline%d\0";
const DEVICE: &str = "/dev/net/tun";

/// It is gone when this is dropped.
pub(crate) struct HostDoor(File);

impl HostDoor {
    /// Makes the interface.
    ///
    /// # Errors
    /// [`LiveError`] if there are no such interfaces here, or this process may not make one.
    pub(crate) fn open() -> Result<HostDoor, LiveError> {
        const WHAT: &str = "cannot make a TUN interface by which packets reach this host";
        let cannot = |error| LiveError::of_rights(WHAT, error, &[Capability::CAP_NET_ADMIN]);
        let mut options = File::options();
        let device = options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
        let device = device.open(DEVICE).map_err(|error| {
            LiveError::helped(WHAT, error, format!("{DEVICE} has to be there (modprobe tun) and writable."))
        })?;
        // SAFETY: all bytes 0 is a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_name.iter_mut().zip(NAME).for_each(|(to, byte)| *to = *byte as libc::c_char);
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the call reads and writes one `ifreq`, which outlives it.
        if unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF as _, &mut request) } != 0 {
            return Err(cannot(std::io::Error::last_os_error()));
        }
        take_up(request).map_err(cannot)?;
        Ok(HostDoor(device))
    }

    /// Has the kernel receive the IP packet of a frame, from whatever thread; `false` if it does not.
    pub(crate) fn hand_in(&self, frame: &[u8]) -> bool {
        let Headers { l3_offset, l3_len, marks, .. } =
            wire::parse(LinkType::Ethernet, frame, frame.len() as u32);
        let begin = usize::from(l3_offset);
        // What a short frame is padded with is no part of the packet.
        let end = (begin + usize::from(l3_len)).min(frame.len());
        let is_ip = marks.intersects(wire::Marks::IPV4 | wire::Marks::IPV6);
        is_ip
            && begin < end
            && (&self.0).write(&frame[begin..end]).is_ok_and(|written| written == end - begin)
    }
}

/// Takes the interface up that the request names.
fn take_up(mut request: libc::ifreq) -> std::io::Result<()> {
    let socket = control_socket().map_err(std::io::Error::other)?;
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: the call reads one `ifreq`, which outlives it.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
