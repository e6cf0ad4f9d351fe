//! The way to this host's own stack for packets that AF_XDP took from it and the chain leaves to it: a TUN interface, by
//! which the kernel receives them. It has no routes, and an address that stands for none; what the host answers leaves by
//! its usual ways.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use caps::Capability;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
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
        // Where the kernel refuses, hosts that are strict about sources drop what comes by the interface.
        let _ = give_address(request).and_then(|()| loosen(index_of(&request)?));
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

/// The dummy address of IPv4 (RFC 7600 §4.8). Where an interface has no address at all, "loose" is as strict as "strict".
const ADDRESS: [u8; 4] = [192, 0, 0, 8];

/// Gives the interface that the request names its address, with a prefix of 32 bits, as interfaces without a broadcast domain have.
fn give_address(mut request: libc::ifreq) -> io::Result<()> {
    let socket = control_socket().map_err(io::Error::other)?;
    // `struct sockaddr_in`: a port, and the address.
    let mut address = libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: [0; 14] };
    address.sa_data[2..6].iter_mut().zip(ADDRESS).for_each(|(to, byte)| *to = byte as libc::c_char);
    request.ifr_ifru.ifru_addr = address;
    // SAFETY: the call reads one `ifreq`, which outlives it.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFADDR as _, &request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The index of the interface that the request names.
fn index_of(request: &libc::ifreq) -> io::Result<u32> {
    let name: Vec<u8> =
        request.ifr_name.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    Ok(nix::net::if_::if_nametoindex(name.as_slice())?)
}

/// `IFLA_AF_SPEC`, `IFLA_INET_CONF` of linux/if_link.h, `IPV4_DEVCONF_RP_FILTER` of linux/ip.h, and its value for "loose".
const AF_SPEC: u16 = 26;
const INET_CONF: u16 = 1;
const RP_FILTER: u16 = 8;
const LOOSE: u32 = 2;

/// Has the kernel take packets by the interface from all sources that it has a route to: those that its routes lead to by other
/// interfaces. The larger one of this and the host's value holds (`rp_filter` of all interfaces), so that "strict" is overruled.
fn loosen(index: u32) -> io::Result<()> {
    let attribute = |kind: u16, value: &[u8]| {
        let len = (4 + value.len()) as u16;
        [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat()
    };
    let spec = attribute(RP_FILTER, &LOOSE.to_ne_bytes());
    let spec = attribute(AF_SPEC, &attribute(libc::AF_INET as u16, &attribute(INET_CONF, &spec)));
    // `struct ifinfomsg`: the interface's index is its second word of four.
    let link = [&[0; 4][..], &index.to_ne_bytes(), &[0; 8], &spec].concat();
    let mut request = vec![0; 16];
    request.extend(link);
    // `struct nlmsghdr`.
    let len = request.len() as u32;
    request[..4].copy_from_slice(&len.to_ne_bytes());
    request[4..6].copy_from_slice(&libc::RTM_SETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    // Only a refusal is answered, and nobody waits for it.
    socket.send(&request, 0).map(drop)
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
