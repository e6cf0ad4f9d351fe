//! A network interface of this machine, as the kernel describes it.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::mem;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::LiveError;

/// An Ethernet interface of this network namespace, as it was when it was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, as `ip link` shows it.
    pub name: String,
    /// Its index in this namespace.
    pub index: u32,
    /// The longest packet that it carries without the Ethernet header, bytes.
    pub mtu: usize,
    /// Its Ethernet address.
    pub address: [u8; 6],
    /// The name of its driver; empty where the kernel tells none.
    pub driver: String,
    /// How many receive queues it has, as its driver says (`ethtool -l`), or else `/sys/class/net`; 1 where neither does.
    pub queues: u32,
}

/// What there is of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Up(Interface),
    /// With this index.
    Down(u32),
    Gone,
}

impl Interface {
    /// Looks again for one that was there.
    pub(crate) fn look(name: &str) -> Presence {
        match Interface::open(name) {
            Ok(interface) => Presence::Up(interface),
            Err(LiveError::Down { .. }) => match nix::net::if_::if_nametoindex(name) {
                Ok(index) => Presence::Down(index),
                Err(_) => Presence::Gone,
            },
            Err(_) => Presence::Gone,
        }
    }

    /// Looks an interface up.
    ///
    /// # Errors
    /// [`LiveError`] if there is none of that name, it is down, or it is not Ethernet.
    pub fn open(name: &str) -> Result<Interface, LiveError> {
        let socket = control_socket()?;
        let missing = || LiveError::NoInterface { name: name.to_owned(), there: names() };
        // SAFETY: all bytes 0 is a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        let c_name = CString::new(name).map_err(|_| missing())?;
        let bytes = c_name.as_bytes_with_nul();
        if bytes.len() == 1 || bytes.len() > request.ifr_name.len() {
            return Err(missing());
        }
        request.ifr_name.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte as libc::c_char);
        let ask = |code, what: &str| ask(&socket, code, request, what, name);

        let index = match ask(libc::SIOCGIFINDEX, "look up") {
            // SAFETY: the kernel has filled in this field of the union.
            Ok(answer) => unsafe { answer.ifr_ifru.ifru_ifindex as u32 },
            Err(_) => return Err(missing()),
        };
        let answer = ask(libc::SIOCGIFFLAGS, "read the flags of")?;
        // SAFETY: as above.
        let flags = libc::c_int::from(unsafe { answer.ifr_ifru.ifru_flags });
        let answer = ask(libc::SIOCGIFHWADDR, "read the address of")?;
        // SAFETY: as above.
        let hardware = unsafe { answer.ifr_ifru.ifru_hwaddr };
        if hardware.sa_family != libc::ARPHRD_ETHER && flags & libc::IFF_LOOPBACK == 0 {
            return Err(LiveError::NotEthernet { name: name.to_owned(), hardware: hardware.sa_family });
        }
        if flags & libc::IFF_UP == 0 {
            return Err(LiveError::Down { name: name.to_owned() });
        }
        let answer = ask(libc::SIOCGIFMTU, "read the MTU of")?;
        // SAFETY: as above.
        let mtu = unsafe { answer.ifr_ifru.ifru_mtu }.max(0) as usize;
        let mut address = [0; 6];
        address.iter_mut().zip(hardware.sa_data).for_each(|(to, byte)| *to = byte as u8);
        let driver = driver(&socket, request).unwrap_or_default();
        let queues = queues(&socket, request).unwrap_or_else(|_| listed_queues(name, index)).max(1);
        Ok(Interface { name: name.to_owned(), index, mtu, address, driver, queues })
    }

    /// Whether it takes VLAN tags off what it receives (`rx-vlan-offload`) and notes them beside the frame, where AF_XDP
    /// does not see them. Of a `veth` this says nothing: its other end decides whether a tag is in the frame.
    pub fn takes_tags_off(&self) -> bool {
        self.flags().is_ok_and(|(_, _, flags)| flags & ETH_FLAG_RXVLAN != 0)
    }

    /// Switches that on or off.
    ///
    /// # Errors
    /// [`LiveError`] if its driver cannot, or this process may not.
    pub(crate) fn take_tags_off(&self, takes: bool) -> Result<(), LiveError> {
        let name = &self.name;
        let what =
            || format!("interface `{name}` takes VLAN tags off what it receives, and cannot be told not to");
        let (socket, request, flags) = self.flags().map_err(|error| LiveError::of(what(), error))?;
        let data = if takes { flags | ETH_FLAG_RXVLAN } else { flags & !ETH_FLAG_RXVLAN };
        let set = ethtool(&socket, request, &mut Value { cmd: ETHTOOL_SFLAGS, data });
        // The kernel may take a wish that the driver does not follow.
        let done = set.and_then(|()| match self.takes_tags_off() == takes {
            true => Ok(()),
            false => Err(io::ErrorKind::Unsupported.into()),
        });
        done.map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM) => LiveError::of_rights(what(), error, &[caps::Capability::CAP_NET_ADMIN]),
            _ => LiveError::helped(what(), error, "Use AF_PACKET, which puts tags back: --socket packet."),
        })
    }

    /// Its switches, as `ethtool` had them first, and what to ask for others with.
    fn flags(&self) -> io::Result<(OwnedFd, libc::ifreq, u32)> {
        let socket = control_socket().map_err(io::Error::other)?;
        // SAFETY: all bytes 0 is a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        request.ifr_name.iter_mut().zip(self.name.bytes()).for_each(|(to, byte)| *to = byte as libc::c_char);
        let mut value = Value { cmd: ETHTOOL_GFLAGS, data: 0 };
        ethtool(&socket, request, &mut value)?;
        Ok((socket, request, value.data))
    }
}

/// The addresses of all interfaces of this network namespace: those that packets for this host have.
///
/// # Errors
/// [`LiveError`] if the kernel does not tell them.
pub fn host_addresses() -> Result<Vec<IpAddr>, LiveError> {
    let all = nix::ifaddrs::getifaddrs()
        .map_err(|error| LiveError::of("cannot read this host's addresses", error.into()))?;
    let address = |address: nix::sys::socket::SockaddrStorage| {
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
    };
    Ok(all.filter_map(|interface| interface.address.and_then(address)).collect())
}

/// A socket to ask for interfaces.
pub(crate) fn control_socket() -> Result<OwnedFd, LiveError> {
    // SAFETY: the arguments are plain numbers.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(LiveError::last("cannot open a socket to ask for interfaces"));
    }
    // SAFETY: it was just opened, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn ask(
    socket: &OwnedFd,
    code: libc::c_ulong,
    mut request: libc::ifreq,
    what: &str,
    name: &str,
) -> Result<libc::ifreq, LiveError> {
    // SAFETY: these requests read and write one `ifreq`, which outlives the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), code as _, &mut request) } {
        0 => Ok(request),
        _ => Err(LiveError::last(format!("cannot {what} interface `{name}`"))),
    }
}

/// The names of all interfaces.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    // SAFETY: the list is read up to its end, which has index 0, and freed once.
    unsafe {
        let list = libc::if_nameindex();
        if list.is_null() {
            return names;
        }
        let mut at = list;
        while (*at).if_index != 0 {
            names.push(CStr::from_ptr((*at).if_name).to_string_lossy().into_owned());
            at = at.add(1);
        }
        libc::if_freenameindex(list);
    }
    names
}

/// `struct ethtool_drvinfo` of linux/ethtool.h, up to the driver's name.
#[repr(C)]
struct DriverInfo {
    cmd: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// `struct ethtool_channels` of linux/ethtool.h.
#[repr(C)]
#[derive(Default)]
struct Channels {
    cmd: u32,
    max: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct Value {
    cmd: u32,
    data: u32,
}

const ETHTOOL_GDRVINFO: u32 = 0x3;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const ETH_FLAG_RXVLAN: u32 = 1 << 8;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// The driver of the interface of this name; empty where the kernel tells none.
pub(crate) fn driver_of(name: &str) -> String {
    question(name).and_then(|(socket, request)| driver(&socket, request)).unwrap_or_default()
}

/// Whether the interface of this name merges what it receives (GRO).
pub(crate) fn has_gro(name: &str) -> io::Result<bool> {
    let (socket, request) = question(name)?;
    let mut value = Value { cmd: ETHTOOL_GGRO, data: 0 };
    ethtool(&socket, request, &mut value)?;
    Ok(value.data != 0)
}

/// What to ask for the interface of this name with.
fn question(name: &str) -> io::Result<(OwnedFd, libc::ifreq)> {
    let socket = control_socket().map_err(io::Error::other)?;
    // SAFETY: all bytes 0 is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::NotFound.into());
    }
    request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte as libc::c_char);
    Ok((socket, request))
}

fn driver(socket: &OwnedFd, request: libc::ifreq) -> io::Result<String> {
    let mut info = DriverInfo { cmd: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
    ethtool(socket, request, &mut info)?;
    let end = info.driver.iter().position(|byte| *byte == 0).unwrap_or(info.driver.len());
    Ok(String::from_utf8_lossy(&info.driver[..end]).into_owned())
}

fn queues(socket: &OwnedFd, request: libc::ifreq) -> io::Result<u32> {
    let mut channels = Channels { cmd: ETHTOOL_GCHANNELS, ..Channels::default() };
    ethtool(socket, request, &mut channels)?;
    Ok(channels.rx + channels.combined)
}

/// How many receive queues `/sys/class/net` lists, which is that of this network namespace or of another one; 0 where it
/// is not of this interface.
fn listed_queues(name: &str, index: u32) -> u32 {
    let folder = Path::new("/sys/class/net").join(name);
    let its_index = fs::read_to_string(folder.join("ifindex")).unwrap_or_default();
    if its_index.trim() != index.to_string() {
        return 0;
    }
    let queues = fs::read_dir(folder.join("queues")).into_iter().flatten().flatten();
    queues.filter(|queue| queue.file_name().as_bytes().starts_with(b"rx-")).count() as u32
}

/// Asks the driver of the interface of this name with bytes that begin with a command, and have room for its answer.
pub(crate) fn call_driver(socket: &OwnedFd, name: &str, bytes: &mut [u8]) -> io::Result<()> {
    // SAFETY: all bytes 0 is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte as libc::c_char);
    request.ifr_ifru.ifru_data = bytes.as_mut_ptr().cast();
    // SAFETY: the callers' structures say how long they are, where that varies, and outlive the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn ethtool<T>(socket: &OwnedFd, mut request: libc::ifreq, value: &mut T) -> io::Result<()> {
    request.ifr_ifru.ifru_data = (value as *mut T).cast();
    // SAFETY: `value` is the kernel's structure for its command, and outlives the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_there() {
        let loopback = Interface::open("lo").expect("each namespace has one");
        assert_eq!((loopback.name.as_str(), loopback.address), ("lo", [0; 6]));
        assert!(loopback.index > 0 && loopback.mtu >= 1_280 && loopback.queues > 0, "{loopback:?}");
    }

    #[test]
    fn what_is_not_there_is_named_with_what_is() {
        for name in ["", "no-such-interface-of-anyone", "a\0b"] {
            let error = Interface::open(name).expect_err("no such interface").to_string();
            assert!(error.contains(name) && error.contains("lo"), "{error}");
        }
    }
}
