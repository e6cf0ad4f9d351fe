//! An interface for the frames of one VLAN, made here, since not every kernel has `8021q`: a TAP interface, and a socket
//! on the interface below. The tag is part of the frame on the wire, as it comes from a switch, or beside it, as the
//! kernel's VLAN interfaces leave it to the interface below.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const DEVICE: &str = "/dev/net/tun";
const TPID: [u8; 2] = [0x81, 0x00];
/// Both Ethernet addresses; a tag stands behind them.
const ADDRESSES: usize = 12;
const LONGEST: usize = 1 << 16;

/// Whether this machine has TAP interfaces; the reason is printed where it has not.
pub fn has_devices() -> bool {
    let opened = File::options().read(true).write(true).open(DEVICE);
    if let Err(error) = &opened {
        println!("skipped: {DEVICE}: {error}");
    }
    opened.is_ok()
}

/// What is sent to the TAP interface leaves by the one below, tagged, and the other way round.
pub struct Tagged {
    tap: File,
    below: OwnedFd,
    tag: [u8; 4],
    /// What puts the tag beside each frame that leaves by the interface below; none where it is put into the frame.
    beside: Option<OwnedFd>,
}

impl Tagged {
    /// In the calling thread's network namespace, as long as this lives.
    pub fn new(below: &str, name: &str, vlan: u16) -> io::Result<Tagged> {
        let mut options = File::options();
        let tap =
            options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(DEVICE)?;
        // SAFETY: all bytes 0 is a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte as libc::c_char);
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the call reads and writes one `ifreq`, which outlives it.
        check(unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF as _, &mut request) })?;
        let [high, low] = vlan.to_be_bytes();
        Ok(Tagged { tap, below: socket(below)?, tag: [TPID[0], TPID[1], high, low], beside: None })
    }

    /// A tagged interface whose leaving frames have their tags beside them.
    pub fn beside(below: &str, name: &str, vlan: u16) -> io::Result<Tagged> {
        Ok(Tagged { beside: Some(push_tags(below, vlan)?), ..Tagged::new(below, name, vlan)? })
    }

    /// Carries frames as long as it `goes_on`. What comes without the tag is counted.
    pub fn carry(&self, goes_on: &AtomicBool, others: &AtomicU64) {
        let mut frame = vec![0; LONGEST];
        while goes_on.load(Ordering::Relaxed) {
            self.wait();
            while let Ok(len) = (&self.tap).read(&mut frame[4..]) {
                frame.copy_within(4..4 + ADDRESSES, 0);
                frame[ADDRESSES..ADDRESSES + 4].copy_from_slice(&self.tag);
                match self.beside {
                    None => self.send(&frame[..len + 4]),
                    Some(_) => {
                        frame.copy_within(..ADDRESSES, 4);
                        self.send(&frame[4..len + 4]);
                    }
                }
            }
            while let Some((len, tag)) = self.receive(&mut frame) {
                if tag != Some(self.tag) {
                    others.fetch_add(1, Ordering::Relaxed);
                } else if let Err(error) = (&self.tap).write(&frame[..len]) {
                    println!("a frame of {len} bytes was not received: {error}");
                }
            }
        }
    }

    /// Until there is something, 50 ms at most.
    fn wait(&self) {
        let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut both = [poll(self.tap.as_raw_fd()), poll(self.below.as_raw_fd())];
        // SAFETY: the array outlives the call, which is told its length.
        unsafe { libc::poll(both.as_mut_ptr(), 2, 50) };
    }

    fn send(&self, frame: &[u8]) {
        // SAFETY: the buffer outlives the call, which is told its length. Where the queue is full, it waits.
        let sent = unsafe { libc::send(self.below.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent < 0 {
            println!("a frame of {} bytes was not sent: {}", frame.len(), io::Error::last_os_error());
        }
    }

    /// A frame without its tag, and the tag: the kernel takes it off before sockets see it.
    fn receive(&self, frame: &mut [u8]) -> Option<(usize, Option<[u8; 4]>)> {
        let mut part = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
        let mut control = [0_u64; 16];
        // SAFETY: all bytes 0 is a valid header of a message.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        // SAFETY: the header leads to buffers as long as it says, which outlive the call.
        let len = unsafe { libc::recvmsg(self.below.as_raw_fd(), &mut header, libc::MSG_DONTWAIT) };
        let len = usize::try_from(len).ok()?;
        // SAFETY: the kernel filled in as much of the control buffer as the header says.
        let message = unsafe { libc::CMSG_FIRSTHDR(&header) };
        if message.is_null() {
            return Some((len, None));
        }
        // SAFETY: it is not null; the socket asks for nothing but this note, which need not be aligned.
        let note = unsafe { libc::CMSG_DATA(message).cast::<libc::tpacket_auxdata>().read_unaligned() };
        let ([a, b], [c, d]) = (note.tp_vlan_tpid.to_be_bytes(), note.tp_vlan_tci.to_be_bytes());
        let is_tagged = note.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
        Some((len, is_tagged.then_some([a, b, c, d])))
    }
}

/// A program where frames leave by an interface (TCX), which puts a tag beside each: `skb_vlan_push`. It is there as long
/// as what is returned is open.
fn push_tags(interface: &str, vlan: u16) -> io::Result<OwnedFd> {
    const BPF_PROG_LOAD: libc::c_long = 5;
    const BPF_LINK_CREATE: libc::c_long = 28;
    const TYPE_SCHED_CLS: u32 = 3;
    const TCX_EGRESS: u32 = 47;
    let load = |to: u64, value: u32| 0xb7 | to << 8 | u64::from(value) << 32;
    let call = |helper: u64| 0x85 | helper << 32;
    let tpid = u32::from(u16::from_ne_bytes(TPID));
    let program = [load(2, tpid), load(3, u32::from(vlan)), call(18), load(0, 0), 0x95];
    // `union bpf_attr`: type, how many instructions, where they are, and the licence.
    let request = [
        u64::from(TYPE_SCHED_CLS) | (program.len() as u64) << 32,
        program.as_ptr().addr() as u64,
        c"MIT".as_ptr().addr() as u64,
        0,
        0,
        0,
    ];
    let bpf = |command: libc::c_long, request: &[u64]| -> io::Result<OwnedFd> {
        // SAFETY: the request is the kernel's structure, of the length that is given; what it points to outlives the call.
        let fd = unsafe { libc::syscall(libc::SYS_bpf, command, request.as_ptr(), size_of_val(request)) };
        let fd = check(fd as libc::c_int)?;
        // SAFETY: it was just opened, and nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    let loaded = bpf(BPF_PROG_LOAD, &request)?;
    let index = index_of(interface);
    bpf(BPF_LINK_CREATE, &[loaded.as_raw_fd() as u64 | u64::from(index) << 32, u64::from(TCX_EGRESS), 0, 0])
}

/// A socket that sees the frames that come by an interface, with notes of their tags.
fn socket(interface: &str) -> io::Result<OwnedFd> {
    let protocol = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: all arguments are plain numbers.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: it was opened above, and nobody else has it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    for option in [libc::PACKET_AUXDATA, libc::PACKET_IGNORE_OUTGOING] {
        let (yes, len) = (1 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: the value outlives the call, which is told its length.
        check(unsafe {
            libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, option, (&raw const yes).cast(), len)
        })?;
    }
    // SAFETY: all bytes 0 is a valid address.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = index_of(interface) as libc::c_int;
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is as long as is said.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
    Ok(fd)
}

fn index_of(interface: &str) -> u32 {
    let mut name = interface.as_bytes().to_vec();
    name.push(0);
    // SAFETY: the name ends with 0.
    unsafe { libc::if_nametoindex(name.as_ptr().cast()) }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
