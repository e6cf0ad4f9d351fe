//! TAP: an interface whose wire is this program. What this host sends by it is received here, and the other way round.
//!
//! It needs no card: for tests, for virtual machines, and for users without rights, who get an interface of their own from
//! an administrator (`ip tuntap add dev NAME mode tap user USER`). A packet is copied once each way, by a system call of its
//! own. The kernel completes checksums and segments before it hands packets over.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use io::{Frame, Pool};
use wire::{LinkType, Stamp};

use crate::clock::Clock;
use crate::counters::{InterfaceCounters, Lost};
use crate::interface::control_socket;
use crate::link::Link;
use crate::{Interface, LiveError};

const DEVICE: &str = "/dev/net/tun";
/// The longest frame that the kernel hands over.
const LONGEST: usize = 1 << 16;

/// A TAP interface, held by this program. One that was made here is gone with the last clone; one that an administrator
/// made stays.
#[derive(Clone, Debug)]
pub struct TapDevice(Arc<File>);

impl TapDevice {
    /// Takes the TAP interface of this name, and makes it if there is none. Takes it up, where this process may.
    ///
    /// # Errors
    /// [`LiveError`] if another program has it, it is of another kind, or this process may not.
    pub fn open(name: &str) -> Result<(TapDevice, Interface), LiveError> {
        let what = format!("cannot take the TAP interface `{name}`");
        // SAFETY: all bytes 0 is a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // The kernel would replace a `%d`.
        if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains(['%', '/', '\0']) {
            return Err(LiveError::refused(
                format!("`{name}` is no name of an interface"),
                "It has up to 15 letters.",
            ));
        }
        let mut options = File::options();
        let device = options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
        let device = device.open(DEVICE).map_err(|error| {
            let help = match error.kind() {
                ErrorKind::PermissionDenied => format!("This user may not open {DEVICE}: ls -l {DEVICE}"),
                _ => format!("{DEVICE} has to be there: modprobe tun"),
            };
            LiveError::helped(what.clone(), error, help)
        })?;
        request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte as libc::c_char);
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the call reads and writes one `ifreq`, which outlives it.
        if unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF as _, &mut request) } != 0 {
            return Err(not_taken(what, std::io::Error::last_os_error(), name));
        }
        take_up(request);
        Ok((TapDevice(Arc::new(device)), Interface::open(name)?))
    }
}

fn not_taken(what: String, error: std::io::Error, name: &str) -> LiveError {
    match error.raw_os_error() {
        Some(libc::EPERM) => LiveError::helped(
            what,
            error,
            format!(
                "Have an administrator make it for you: ip tuntap add dev {name} mode tap user YOU; ip link set {name} up"
            ),
        ),
        Some(libc::EBUSY) => {
            LiveError::helped(what, error, "Another program has it: end that, or use another name.")
        }
        Some(libc::EINVAL) => LiveError::helped(
            what,
            error,
            "There is an interface of that name, and it is no TAP interface with one queue: use another name.",
        ),
        _ => LiveError::of(what, error),
    }
}

/// Brings the interface up. Where this process may not, the interface's maker did so, or is told to.
fn take_up(mut request: libc::ifreq) {
    let Ok(socket) = control_socket() else { return };
    // SAFETY: both calls read or write one `ifreq`, which outlives them; flags are a number.
    unsafe {
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &mut request) == 0 {
            request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
            libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request);
        }
    }
}

/// The link of a port.
pub(crate) struct TapLink {
    device: TapDevice,
    counters: InterfaceCounters,
    /// A frame as it comes.
    frame: Box<[u8]>,
}

impl TapLink {
    pub(crate) fn new(device: TapDevice) -> TapLink {
        TapLink { device, counters: InterfaceCounters::default(), frame: vec![0; LONGEST].into() }
    }
}

impl Link for TapLink {
    fn receive(&mut self, pool: &mut Pool, clock: &mut Clock, max: usize, frames: &mut Vec<Frame>) {
        // Without a free frame packets wait in the interface's own queue.
        for _ in 0..max.min(pool.free()) {
            let Ok(len) = (&*self.device.0).read(&mut self.frame) else { return };
            let bytes = &self.frame[..len];
            self.counters.received += 1;
            self.counters.received_bytes += len as u64;
            match pool.fill(Stamp::default(), LinkType::Ethernet, len as u32, bytes) {
                Some(mut frame) => {
                    frame.stamp = clock.stamp();
                    frames.push(frame);
                }
                None => self.counters.lose(Lost::TooLong),
            }
        }
    }

    fn send(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        let mut done = 0;
        for frame in frames.iter() {
            let bytes = pool.bytes(frame);
            match (&*self.device.0).write(bytes) {
                Ok(_) => {
                    self.counters.sent += 1;
                    self.counters.sent_bytes += bytes.len() as u64;
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => break,
                Err(error) => self.counters.lose(match error.raw_os_error() {
                    // It is down, or gone.
                    Some(libc::EIO | libc::EBADFD) => Lost::LinkDown,
                    _ => Lost::Refused,
                }),
            }
            done += 1;
        }
        pool.give_back(frames.drain(..done));
    }

    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.device.0.as_raw_fd()]
    }

    fn shares_with_host(&self) -> bool {
        false
    }

    fn counters(&mut self) -> InterfaceCounters {
        self.counters
    }

    fn describe(&self) -> String {
        "TAP, each packet copied; this host is its other end".to_owned()
    }
}
