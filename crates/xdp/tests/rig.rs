//! A program behind the XDP sequencer between two namespaces: frames go in at one end, and what leaves is read at the other.
//!
//! ```text
//! left l0 ---- m0 middle m1 ---- r0 right
//!                        m2 ---- r2
//! ```
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use live::xdp::Pins;
use p4::ir::Program;
use paceline_xdp::Compiled;
use paceline_xdp::live::{HistoryIn, Live, LiveError, OnDeath, Sequenced, Way, Wiring};
use paceline_xdp::load::{LoadError, Progress};
use paceline_xdp::meter::Counts;
use paceline_xdp::verdict::{Came, Verdict, judge};

use crate::lab::{Lab, Namespace};

/// How frames are sent.
pub struct Pace {
    /// Frames that are sent at once: less than the queue of a virtual interface holds.
    pub burst: usize,
    /// What comes between two bursts.
    pub pause: Duration,
    /// The frames between which there is no pause.
    pub storm: Range<usize>,
}

/// What neither a virtual interface nor the queue of a CPU of [`Pace::burst`] frames loses.
pub const PACED: Pace = Pace { burst: 64, pause: Duration::from_millis(2), storm: 0..0 };

/// Three namespaces in a row.
pub struct Rig {
    /// It removes the namespaces.
    _lab: Lab,
    left: Namespace,
    middle: Namespace,
    right: Namespace,
}

/// What a run gave.
pub struct Outcome {
    pub verdict: Verdict,
    pub sequenced: Sequenced,
    pub progress: Vec<Progress>,
    /// What is counted in the end, of the ports that have an interface.
    pub counts: Counts,
    /// What came.
    pub came: Vec<Came>,
}

impl Rig {
    /// The namespaces, if this machine lets tests have some; the reason why not is printed.
    pub fn new(label: &str) -> Option<Rig> {
        let mut lab = Lab::new(label)?;
        let [left, middle, right] = ["left", "middle", "right"].map(|name| lab.namespace(name));
        lab.pair((&left, "l0"), (&middle, "m0"));
        lab.pair((&middle, "m1"), (&right, "r0"));
        lab.pair((&middle, "m2"), (&right, "r2"));
        // What is redirected to a virtual interface arrives if its peer has GRO, or a program.
        right.inside(|| ["r0", "r2"].map(set_gro));
        Some(Rig { _lab: lab, left, middle, right })
    }

    /// A rig whose first pair has so many receive queues.
    pub fn with_queues(label: &str, queues: u32) -> Option<Rig> {
        let mut lab = Lab::new(label)?;
        let [left, middle, right] = ["left", "middle", "right"].map(|name| lab.namespace(name));
        lab.pair_of((&left, "l0"), (&middle, "m0"), queues);
        lab.pair((&middle, "m1"), (&right, "r0"));
        Some(Rig { _lab: lab, left, middle, right })
    }

    /// A rig whose pairs on the right have both ends in the middle, without GRO.
    pub fn without_gro(label: &str) -> Option<Rig> {
        let mut lab = Lab::new(label)?;
        let [left, middle, right] = ["left", "middle", "right"].map(|name| lab.namespace(name));
        lab.pair((&left, "l0"), (&middle, "m0"));
        lab.pair((&middle, "m1"), (&middle, "p1"));
        lab.pair((&middle, "m2"), (&middle, "p2"));
        Some(Rig { _lab: lab, left, middle, right })
    }

    /// Switches GRO on at an interface in the middle.
    pub fn set_gro(&self, interface: &str) {
        self.middle.inside(|| set_gro(interface));
    }

    /// Runs a program in the middle: port 0 of it is towards the left, ports 1 and 2 towards the right.
    pub fn start<'a>(
        &self,
        compiled: &'a Compiled,
        object: &[u8],
        cpus: &[u32],
        queue: u32,
        witnesses: u32,
        recovers: bool,
    ) -> Result<Live<'a>, LiveError> {
        let wiring = wiring(cpus, queue, witnesses, recovers);
        self.middle.inside(|| Live::start(compiled, object, &wiring))
    }

    /// Runs a program whose history is in a log.
    pub fn start_logged<'a>(
        &self,
        compiled: &'a Compiled,
        object: &[u8],
        cpus: &[u32],
        queue: u32,
        witnesses: u32,
    ) -> Result<Live<'a>, LiveError> {
        let wiring = Wiring { history: HistoryIn::Log, ..wiring(cpus, queue, witnesses, true) };
        self.middle.inside(|| Live::start(compiled, object, &wiring))
    }

    /// Runs a program whose packets come with their history from the left, without recovery.
    pub fn start_sequenced<'a>(
        &self,
        compiled: &'a Compiled,
        object: &[u8],
        cpus: &[u32],
        queue: u32,
        witnesses: u32,
    ) -> Result<Live<'a>, LiveError> {
        let wiring = Wiring { is_sequenced: true, ..wiring(cpus, queue, witnesses, false) };
        self.middle.inside(|| Live::start(compiled, object, &wiring))
    }

    /// Sends frames through a program, and compares what it did with the interpreter.
    pub fn run(
        &self,
        program: &Program,
        live: &mut Live<'_>,
        frames: &[Vec<u8>],
        pace: &Pace,
    ) -> Result<Outcome, LoadError> {
        let sender = self.left.inside(|| Socket::open("l0")).expect("a socket at l0");
        let receivers =
            self.right.inside(|| [(1, "r0"), (2, "r2")].map(|(port, name)| (port, Socket::open(name))));
        let receivers = receivers.map(|(port, socket)| (port, socket.expect("a socket on the right")));
        let mut left: Vec<(u16, Vec<u8>)> = Vec::new();
        let receive =
            |left: &mut Vec<_>| receivers.iter().for_each(|(port, socket)| socket.receive(*port, left));
        for (number, burst) in frames.chunks(pace.burst).enumerate() {
            burst.iter().for_each(|frame| sender.send(frame));
            if !pace.storm.contains(&(number * pace.burst)) {
                thread::sleep(pace.pause);
            }
            receive(&mut left);
        }
        live.stop()?;
        let until = Instant::now() + Duration::from_secs(5);
        let sent: u64 = live.progress()?.iter().map(|progress| progress.sent).sum();
        while (left.len() as u64) < sent && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
            receive(&mut left);
        }
        let sequenced = live.sequenced()?;
        let mut came: Vec<Came> = Vec::new();
        for number in 0..sequenced.packets as u32 {
            came.push(live.witness(number)?.expect("all are kept"));
        }
        let verdict = judge(program, live.loaded(), live.replicas(), &came, &left)?;
        let counts = live.meter()?.read()?;
        Ok(Outcome { verdict, sequenced, progress: live.progress()?, counts, came })
    }
}

/// Port 0 of the program is towards the left, ports 1 and 2 towards the right.
fn wiring(cpus: &[u32], queue: u32, witnesses: u32, recovers: bool) -> Wiring {
    Wiring {
        receives: vec![(0, "m0".to_owned())],
        sends: vec![(1, "m1".to_owned()), (2, "m2".to_owned())],
        way: Way::Bridge,
        is_sequenced: false,
        history: HistoryIn::Any,
        cpus: cpus.to_vec(),
        queue,
        witnesses,
        recovers,
        counts_order: true,
        entries: String::new(),
        on_death: OnDeath::Pass,
        pins: Pins::default(),
    }
}

/// A socket of frames at an interface.
struct Socket(OwnedFd);

impl Socket {
    fn open(interface: &str) -> io::Result<Socket> {
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: all arguments are plain numbers.
        let socket = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just opened, and nobody else knows it.
        let socket = Socket(unsafe { OwnedFd::from_raw_fd(socket) });
        let bytes: libc::c_int = 64 << 20;
        let length = size_of_val(&bytes) as u32;
        // SAFETY: the value is a number that outlives the call.
        unsafe {
            let level = (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
            libc::setsockopt(socket.fd(), level.0, level.1, (&raw const bytes).cast(), length);
        }
        // SAFETY: all bytes 0 is a valid `sockaddr_ll`.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        let name = std::ffi::CString::new(interface)?;
        // SAFETY: the name ends with a 0 and outlives the call.
        address.sll_ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) } as i32;
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        let length = size_of_val(&address) as u32;
        // SAFETY: the address outlives the call.
        match unsafe { libc::bind(socket.fd(), (&raw const address).cast(), length) } {
            0 => Ok(socket),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn fd(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Sends a frame. One that finds no room is lost before it comes to the sequencer, and counts nowhere.
    fn send(&self, frame: &[u8]) {
        // SAFETY: the frame outlives the call.
        let sent = unsafe { libc::send(self.fd(), frame.as_ptr().cast(), frame.len(), 0) };
        let error = io::Error::last_os_error();
        assert!(sent >= 0 || error.raw_os_error() == Some(libc::ENOBUFS), "{error}");
    }

    /// Takes all frames that are there, as those of a port.
    fn receive(&self, port: u16, frames: &mut Vec<(u16, Vec<u8>)>) {
        let mut bytes = vec![0_u8; 1 << 16];
        loop {
            // SAFETY: all bytes 0 is a valid `sockaddr_ll`.
            let mut from: libc::sockaddr_ll = unsafe { mem::zeroed() };
            let mut length = size_of_val(&from) as u32;
            // SAFETY: the kernel writes no more than these bytes and this address, which outlive the call.
            let got = unsafe {
                let address = (&raw mut from).cast();
                libc::recvfrom(self.fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0, address, &mut length)
            };
            match usize::try_from(got) {
                Ok(got) if from.sll_pkttype != libc::PACKET_OUTGOING => {
                    frames.push((port, bytes[..got].to_vec()))
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

/// `ethtool -K INTERFACE gro on`, without the program.
fn set_gro(interface: &str) {
    const ETHTOOL_SGRO: u32 = 0x2c;
    // SAFETY: all arguments are plain numbers.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    assert!(socket >= 0, "{}", io::Error::last_os_error());
    // SAFETY: it was just opened, and nobody else knows it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let mut value = [ETHTOOL_SGRO, 1];
    // SAFETY: all bytes 0 is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    request.ifr_name.iter_mut().zip(interface.bytes()).for_each(|(to, byte)| *to = byte as libc::c_char);
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    // SAFETY: the request and its value (`struct ethtool_value`) outlive the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) };
    assert_eq!(done, 0, "GRO of {interface}: {}", io::Error::last_os_error());
}
