//! A bare forwarder between two interfaces, by AF_XDP: what arrives at queue 0 of one leaves by the other, as it is.
//!
//! It does nothing else, so that it shows what sockets and kernel can do here: the engine is measured beside it.
//!
//! ```sh
//! cargo run --release -p paceline-live --example xdp_forward -- eth0 eth1 10
//! ```
//!
//! It runs for the seconds that are given, or until it is interrupted, on one core, and prints packets a second. The
//! frames of both interfaces are in one memory, and none is copied here. What finds no room to be sent is dropped.

#![allow(unsafe_code)]

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, process};

use paceline_live::xdp::{Descriptor, Mode, SocketOptions, Steering, Umem, XdpProgram, XdpSocket};
use paceline_live::{Interface, LiveError};

/// Packets that are taken at a time.
const BATCH: usize = 256;
/// Chunks that wait for packets at each interface. Few, so that they stay in the cache: with a copy, the kernel writes
/// each of them, and reads it again.
const WAITING: u32 = 1_024;
const CHUNK_BYTES: u32 = 2_048;
/// Rounds without a packet after which it sleeps until one arrives.
const IDLE_ROUNDS: u32 = 200;

/// Two sockets, and the chunks that neither has.
pub struct Forwarder {
    /// What arrives at one leaves by the other.
    pub sides: [Side; 2],
    /// Chunks that neither socket has.
    pub free: Vec<u64>,
    /// How many chunks there are.
    pub chunks: usize,
    packets: Vec<Descriptor>,
}

/// An interface with its program and the socket of its queue 0.
pub struct Side {
    /// Steers packets to the socket.
    pub program: XdpProgram,
    /// The socket of queue 0.
    pub socket: XdpSocket,
    /// Packets that arrived here and left on the other side.
    pub forwarded: u64,
    /// Packets that arrived here and found no room there.
    pub dropped: u64,
}

impl Forwarder {
    /// Attaches to both interfaces.
    pub fn new(names: [&str; 2], steering: &Steering) -> Result<Forwarder, LiveError> {
        let options = SocketOptions {
            fill: WAITING,
            receive: WAITING,
            transmit: WAITING,
            completion: WAITING,
            ..Default::default()
        };
        // Each side may hold a full ring of each kind.
        let umem = Umem::mapped(4 * WAITING as usize + BATCH, CHUNK_BYTES, 0)?;
        let mut free: Vec<u64> = umem.chunks().collect();
        let mut open = |name| {
            let interface = Interface::open(name)?;
            let mut program = XdpProgram::attach(&interface, steering)?;
            let mut socket = XdpSocket::open(&umem, &interface, 0, &options)?;
            socket.fill(&mut free);
            program.insert(&socket)?;
            Ok::<Side, LiveError>(Side { program, socket, forwarded: 0, dropped: 0 })
        };
        let sides = [open(names[0])?, open(names[1])?];
        Ok(Forwarder { sides, free, chunks: umem.chunks().len(), packets: Vec::with_capacity(BATCH) })
    }

    /// Takes packets across, a batch from each side, and says how many arrived.
    pub fn round(&mut self) -> Result<usize, LiveError> {
        let Forwarder { sides: [left, right], free, packets, .. } = self;
        Ok(across(left, right, free, packets)? + across(right, left, free, packets)?)
    }

    /// Chunks that are here, and with the kernel: as many as there are, always.
    pub fn chunks_accounted_for(&self) -> usize {
        let with_kernel = |side: &Side| side.socket.to_receive() + side.socket.to_send();
        self.free.len() + self.sides.iter().map(with_kernel).sum::<usize>()
    }

    /// Takes packets across until `is_over` says so; it is asked at least ten times a second.
    pub fn run(&mut self, mut is_over: impl FnMut(&Forwarder) -> bool) -> Result<(), LiveError> {
        let (mut idle, mut rounds) = (0, 0u32);
        loop {
            rounds = rounds.wrapping_add(1);
            idle = if self.round()? == 0 { idle + 1 } else { 0 };
            let sleeps = idle >= IDLE_ROUNDS;
            if sleeps {
                self.sleep();
                idle = 0;
            }
            if (sleeps || rounds.is_multiple_of(1_024)) && is_over(self) {
                return Ok(());
            }
        }
    }

    /// Until a packet arrives, or a tenth of a second has passed.
    fn sleep(&self) {
        let wait =
            |side: &Side| libc::pollfd { fd: side.socket.fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut waits = [wait(&self.sides[0]), wait(&self.sides[1])];
        // SAFETY: there are two, and they outlive the call. A signal ends it early, which does no harm.
        unsafe { libc::poll(waits.as_mut_ptr(), 2, 100) };
    }
}

/// Takes a batch of packets from one side to the other.
#[inline]
fn across(
    from: &mut Side,
    to: &mut Side,
    free: &mut Vec<u64>,
    packets: &mut Vec<Descriptor>,
) -> Result<usize, LiveError> {
    let received = from.socket.receive(BATCH, packets);
    if received > 0 {
        let sent = to.socket.transmit(packets);
        from.forwarded += sent as u64;
        from.dropped += (received - sent) as u64;
        free.extend(packets.drain(..).skip(sent).map(|packet| packet.address));
    }
    to.socket.kick()?;
    to.socket.complete(free);
    from.socket.fill(free);
    from.socket.wake_receive()?;
    Ok(received)
}

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn interrupt(_signal: libc::c_int) {
    IS_INTERRUPTED.store(true, Ordering::Relaxed);
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (names, seconds) = match &arguments[..] {
        [left, right] => ([left.as_str(), right], None),
        [left, right, seconds] if seconds.parse::<u64>().is_ok() => {
            ([left.as_str(), right], seconds.parse().ok())
        }
        _ => fail(&"usage: xdp_forward INTERFACE INTERFACE [SECONDS]"),
    };
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores a value.
        unsafe { libc::signal(signal, interrupt as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    }
    let mut forwarder = Forwarder::new(names, &Steering::default()).unwrap_or_else(|error| fail(&error));
    for (name, side) in names.iter().zip(&forwarder.sides) {
        let copies = if side.socket.is_zero_copy() { Mode::ZeroCopy } else { Mode::Copy };
        println!("{name}: XDP is {}, sockets: {copies:?}", side.program.mode());
    }
    let start = Instant::now();
    let (mut last, mut then) = ([0; 2], start);
    let ran = forwarder.run(|forwarder| {
        let now = Instant::now();
        if now - then >= Duration::from_secs(1) {
            let counts = forwarder.sides.each_ref().map(|side| side.forwarded);
            let rate = |side: usize| (counts[side] - last[side]) as f64 / (now - then).as_secs_f64();
            println!("{:>12.0} packets/s ->  {:>12.0} packets/s <-", rate(0), rate(1));
            (last, then) = (counts, now);
        }
        IS_INTERRUPTED.load(Ordering::Relaxed)
            || seconds.is_some_and(|seconds| now - start >= Duration::from_secs(seconds))
    });
    let seconds = start.elapsed().as_secs_f64();
    for (name, side) in names.iter().zip(&forwarder.sides) {
        println!(
            "from {name}: {} packets, {:.0} a second; {} found no room; {:?}",
            side.forwarded,
            side.forwarded as f64 / seconds,
            side.dropped,
            side.socket.statistics().unwrap_or_default()
        );
    }
    let packets: u64 = forwarder.sides.iter().map(|side| side.forwarded).sum();
    let nanos = cpu_nanos() as f64 / packets.max(1) as f64;
    println!(
        "{nanos:.0} ns of processor time for each packet, waiting for packets and the kernel's sending included"
    );
    ran.unwrap_or_else(|error| fail(&error));
}

/// Processor time of this process: on a machine that others use, too, it says more than packets a second.
fn cpu_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the value outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn fail(error: &dyn std::fmt::Display) -> ! {
    eprintln!("xdp_forward: {error}");
    process::exit(1)
}
