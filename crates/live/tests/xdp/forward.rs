//! Packets through sockets: between two namespaces, and back to where they came from.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::Stdio;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use paceline_live::Interface;
use paceline_live::xdp::{AttachMode, Descriptor, SocketOptions, Steering, Umem, XdpProgram, XdpSocket};

use crate::lab::{Lab, Namespace};
use crate::xdp_forward::Forwarder;
use crate::xdp_sink::Sink;
use crate::xdp_source::{self, Arguments, Sent};

/// Left host, middle, right host: l0 - m0, m1 - r0.
fn three(lab: &mut Lab) -> [Namespace; 3] {
    let [left, middle, right] = ["left", "middle", "right"].map(|label| lab.namespace(label));
    lab.pair((&left, "l0"), (&middle, "m0"));
    lab.pair((&middle, "m1"), (&right, "r0"));
    left.ip("addr add 192.0.2.1/24 dev l0");
    right.ip("addr add 192.0.2.2/24 dev r0");
    left.ip("addr add 2001:db8::1/64 dev l0 nodad");
    right.ip("addr add 2001:db8::2/64 dev r0 nodad");
    [left, middle, right]
}

#[test]
fn two_hosts_ping_each_other_through_the_forwarder() {
    let Some(mut lab) = crate::lab("forward") else { return };
    let [left, middle, right] = three(&mut lab);
    assert!(!left.ping_once("192.0.2.2", 1), "nobody forwards yet");
    let is_over = AtomicBool::new(false);
    let mut forwarder = middle
        .inside(|| Forwarder::new(["m0", "m1"], &Steering::default()))
        .unwrap_or_else(|error| panic!("{error}"));
    let counts = thread::scope(|scope| {
        let runs = scope.spawn(|| {
            forwarder.run(|_| is_over.load(Ordering::Relaxed)).unwrap_or_else(|error| panic!("{error}"));
            forwarder
        });
        let answers = [left.ping("192.0.2.2", 40), right.ping("192.0.2.1", 5), left.ping("2001:db8::2", 5)];
        is_over.store(true, Ordering::Relaxed);
        let forwarder = runs.join().expect("it does not panic");
        assert_eq!(answers, [true; 3]);
        whole(forwarder)
    });
    // ARP, neighbour discovery, and the echoes.
    assert!(counts.iter().all(|count| *count >= 50), "{counts:?}");
}

/// Checks that each chunk is accounted for when all is quiet, and that a chunk that is forgotten would be noticed.
fn whole(mut forwarder: Forwarder) -> [u64; 2] {
    let deadline = Instant::now() + Duration::from_secs(60);
    while forwarder.sides.iter().any(|side| side.socket.to_send() > 0) && Instant::now() < deadline {
        forwarder.round().expect("the interfaces are there");
    }
    assert_eq!(forwarder.sides.each_ref().map(|side| side.socket.to_send()), [0, 0], "all left");
    assert_eq!(forwarder.chunks_accounted_for(), forwarder.chunks);
    let fill = 1_024;
    assert_eq!(forwarder.free.len(), forwarder.chunks - 2 * fill, "and both fill rings are full");
    let mut chunks = forwarder.free.clone();
    chunks.sort_unstable();
    chunks.dedup();
    assert_eq!(chunks.len(), forwarder.free.len(), "no chunk is there twice");

    // Planted: a completion that nobody keeps.
    let side = &mut forwarder.sides[0].socket;
    let chunk = forwarder.free.pop().expect("some are free");
    side.transmit(&[Descriptor { address: chunk, len: 60, goes_on: false }]);
    let mut forgotten = Vec::new();
    while side.to_send() > 0 && Instant::now() < deadline {
        side.kick().expect("the interface is there");
        side.complete(&mut forgotten);
    }
    assert_eq!(forgotten, [chunk]);
    assert_eq!(forwarder.chunks_accounted_for(), forwarder.chunks - 1, "it is missed");

    let statistics = forwarder.sides.each_ref().map(|side| side.socket.statistics().expect("it counts"));
    assert!(statistics.iter().all(|of| of.transmit_invalid == 0 && of.fill_invalid == 0), "{statistics:?}");
    forwarder.sides.each_ref().map(|side| side.forwarded)
}

/// What measurements send: whole packets, of flows that take turns.
#[test]
fn the_source_sends_flows_in_turn() {
    let Some(mut lab) = crate::lab("source") else { return };
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.pair((&left, "l0"), (&right, "r0"));
    let umem = Umem::mapped(4_096, 2_048, 0).expect("there is memory");
    let (_program, mut socket) = right.inside(|| {
        let interface = Interface::open("r0").expect("it is there");
        let mut program = XdpProgram::attach(&interface, &Steering::default()).expect("it has none");
        let socket = XdpSocket::open(&umem, &interface, 0, &SocketOptions::default()).expect("it is free");
        program.insert(&socket).expect("it is the interface's");
        (program, socket)
    });
    socket.fill(&mut umem.chunks().collect());
    let what = Arguments {
        interface: "l0".to_owned(),
        seconds: 1,
        packets_per_second: 2_000,
        flows: 3,
        bytes: 100,
        stamped: false,
    };
    let begin = Instant::now();
    let offered = left.inside(|| xdp_source::send(&what).map_err(|error| error.to_string()));
    let Sent { packets: offered, seconds } = offered.unwrap_or_else(|error| panic!("{error}"));
    // No faster than was asked, and without the kernel's pause behind a call.
    let asked = offered as f64 / 2_000.0;
    assert!(seconds > 0.9 * asked, "{offered} in {seconds} s");
    let took = begin.elapsed().as_secs_f64();
    assert!(seconds < took, "{offered} in {seconds} s of {took} s");
    let mut packets = Vec::new();
    socket.receive(4_096, &mut packets);
    assert!((100..=2_001).contains(&offered), "{offered}");
    assert_eq!(packets.len() as u64, offered, "a quiet veth loses none");
    for (i, packet) in (1u16..).zip(packets) {
        // SAFETY: it was just received.
        let bytes = unsafe { read(&umem, packet) };
        assert_eq!(bytes.len(), 100);
        assert_eq!(u16::from_be_bytes([bytes[34], bytes[35]]), 1_024 + i % 3, "packet {i}");
        let sum: u32 =
            bytes[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the header's checksum");
    }
}

/// Memory of a packet is sent again: with the headers that it had at first, whatever a forwarder did to it. A kernel that
/// forwards changes addresses and the time to live in that memory.
#[test]
fn the_source_sends_the_same_packets_behind_a_kernel_that_changes_them() {
    let Some(mut lab) = crate::lab("again") else { return };
    let [left, middle, right] = three(&mut lab);
    if !middle.run("ethtool", "--version").status.success() {
        println!("skipped: `ethtool` (package ethtool) does not run");
        return;
    }
    middle.ip("addr add 198.51.100.254/24 dev m0");
    middle.ip("addr add 203.0.113.254/24 dev m1");
    middle.ip("link set m0 address 02:00:00:00:00:99");
    middle.ip("neigh add 203.0.113.1 dev m1 lladdr 02:00:00:00:00:98");
    middle.write("/proc/sys/net/ipv4/ip_forward", "1");
    let sink = right.inside(|| Sink::attach("r0").map_err(|error| error.to_string()));
    let sink = sink.unwrap_or_else(|error| panic!("{error}"));
    // Frames of another namespace's program are taken with GRO on, or a program here.
    assert!(middle.run("ethtool", "-K m0 gro on").status.success());
    let what = Arguments {
        interface: "l0".to_owned(),
        seconds: 1,
        packets_per_second: 5_000,
        flows: 3,
        bytes: 60,
        stamped: true,
    };
    let offered = left.inside(|| xdp_source::send(&what).map_err(|error| error.to_string()));
    let Sent { packets: offered, .. } = offered.unwrap_or_else(|error| panic!("{error}"));
    thread::sleep(Duration::from_millis(300));
    let counted = sink.times().expect("the program is there").packets();
    assert!(counted * 100 >= offered * 95, "{counted} of {offered} arrived");
}

/// Any address in a chunk stands for it: frames are sent from the middle of chunks, and filled in where they arrived.
#[test]
fn frames_arrive_whole_and_in_order_and_chunks_come_back_by_their_starts() {
    const FRAMES: u32 = 3_000;
    let Some(mut lab) = crate::lab("whole") else { return };
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.pair((&left, "l0"), (&right, "r0"));
    let umem = Umem::mapped(256, 2_048, 64).expect("there is memory");
    let options =
        SocketOptions { fill: 64, receive: 64, transmit: 64, completion: 64, ..SocketOptions::default() };
    let open = |namespace: &Namespace, name: &str| {
        namespace.inside(|| {
            let interface = Interface::open(name)?;
            let mut program = XdpProgram::attach(&interface, &Steering::default())?;
            let socket = XdpSocket::open(&umem, &interface, 0, &options)?;
            program.insert(&socket)?;
            Ok::<_, paceline_live::LiveError>((program, socket))
        })
    };
    let (_left_program, mut sender) = open(&left, "l0").unwrap_or_else(|error| panic!("{error}"));
    let (right_program, mut receiver) = open(&right, "r0").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((sender.is_zero_copy(), receiver.queue()), (false, 0), "a veth has no zero-copy");

    let mut free: Vec<u64> = umem.chunks().collect();
    let (mut sent, mut seen, mut packets) = (0u32, 0u32, Vec::with_capacity(64));
    let deadline = Instant::now() + Duration::from_secs(60);
    while seen < FRAMES && Instant::now() < deadline {
        receiver.fill(&mut free);
        // No more on the way than there is room for, so that none is lost.
        while sent < FRAMES
            && sent - seen < 32
            && let Some(chunk) = free.pop()
        {
            let (address, len) = (chunk + u64::from(sent % 500), 60 + sent % 1_400);
            // SAFETY: the chunk was free, and nobody else uses the memory.
            unsafe { write(&umem, address, &frame(sent, len)) };
            assert_eq!(sender.transmit(&[Descriptor { address, len, goes_on: false }]), 1);
            sent += 1;
        }
        sender.kick().expect("the interface is there");
        sender.complete(&mut free);
        receiver.receive(64, &mut packets);
        for packet in packets.drain(..) {
            // SAFETY: it was just received.
            let bytes = unsafe { read(&umem, packet) };
            assert_eq!(bytes, frame(seen, 60 + seen % 1_400), "frame {seen}");
            assert_eq!(packet.address - umem.chunk_of(packet.address), 256 + 64);
            free.push(packet.address);
            seen += 1;
        }
    }
    assert_eq!((sent, seen), (FRAMES, FRAMES));
    while sender.to_send() > 0 && Instant::now() < deadline {
        sender.complete(&mut free);
    }
    let starts = free.iter().filter(|chunk| umem.chunk_of(**chunk) == **chunk).count();
    assert!(
        starts > 0 && starts < free.len(),
        "those that were received have an offset: {starts} of {}",
        free.len()
    );
    assert_eq!(free.len() + receiver.to_receive() + sender.to_send(), umem.chunks().len());
    assert_eq!(right_program.counters().expect("it counts").redirected, u64::from(FRAMES));
}

/// A frame of its own kind of link, that no host answers, with its number in all bytes.
fn frame(number: u32, len: u32) -> Vec<u8> {
    let mut frame = vec![number as u8; len as usize];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

/// # Safety
/// Nobody else uses the chunk.
unsafe fn write(umem: &Umem, address: u64, bytes: &[u8]) {
    let to = umem.pointer(address).expect("it lies in the memory");
    // SAFETY: the caller holds the chunk, and the bytes end in it.
    unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
}

/// # Safety
/// Nobody else uses the chunk.
unsafe fn read(umem: &Umem, packet: Descriptor) -> Vec<u8> {
    let from = umem.pointer(packet.address).expect("it lies in the memory");
    // SAFETY: the caller holds the chunk, and the packet ends in it.
    unsafe { std::slice::from_raw_parts(from.as_ptr(), packet.len as usize) }.to_vec()
}

/// Memory that belongs to another owner is let go when the last socket is gone, and not before.
#[test]
fn the_owner_of_the_memory_is_kept_as_long_as_a_socket_has_it() {
    #[repr(align(4096))]
    struct Memory(UnsafeCell<[u8; 16 * 2_048]>);
    // SAFETY: nobody but the kernel touches it.
    unsafe impl Sync for Memory {}

    let Some(mut lab) = crate::lab("owner") else { return };
    let namespace = lab.namespace("one");
    lab.pair_of((&namespace, "a0"), (&namespace, "a1"), 2);
    let owner = Arc::new(Memory(UnsafeCell::new([0; _])));
    let start = NonNull::new(owner.0.get().cast()).expect("it is somewhere");
    // SAFETY: the owner has the memory, which nobody else touches.
    let umem =
        unsafe { Umem::new(start, size_of::<Memory>(), 2_048, 0, owner.clone()) }.expect("it is aligned");
    let open = |queue| {
        namespace.inside(|| XdpSocket::open(&umem, &Interface::open("a0")?, queue, &SocketOptions::default()))
    };
    let sockets = [0, 1].map(|queue| open(queue).unwrap_or_else(|error| panic!("{error}")));
    drop(umem);
    let [first, second] = sockets;
    drop(first);
    assert_eq!(Arc::strong_count(&owner), 2);
    drop(second);
    assert_eq!(Arc::strong_count(&owner), 1);
}

/// Each queue's packets go to its socket, in one memory.
#[test]
fn flows_spread_over_queues_and_each_queue_has_its_socket() {
    let Some(mut lab) = crate::lab("queues") else { return };
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.pair_of((&left, "l0"), (&right, "r0"), 2);
    left.ip("addr add 192.0.2.1/24 dev l0");
    left.ip("neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 dev l0");
    let umem = Umem::mapped(256, 2_048, 0).expect("there is memory");
    let mut chunks: Vec<u64> = umem.chunks().collect();
    let options =
        SocketOptions { fill: 128, receive: 128, transmit: 64, completion: 64, ..SocketOptions::default() };
    let (program, mut sockets) = right.inside(|| {
        let interface = Interface::open("r0").expect("it is there");
        let mut program = XdpProgram::attach(&interface, &Steering::default()).expect("it has none");
        let sockets = [0, 1].map(|queue| {
            let mut socket = XdpSocket::open(&umem, &interface, queue, &options).expect("it is free");
            socket.fill(&mut chunks);
            program.insert(&socket).expect("it is the interface's");
            socket
        });
        (program, sockets)
    });
    assert!(chunks.is_empty());
    left.inside(|| {
        for _flow in 0..100 {
            let socket = UdpSocket::bind("192.0.2.1:0").expect("there are ports");
            socket.send_to(b"hello", "192.0.2.2:9").expect("there is a way");
        }
    });
    let deadline = Instant::now() + Duration::from_secs(60);
    while program.counters().expect("it counts").redirected < 100 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    let mut packets = Vec::new();
    let counts = sockets.each_mut().map(|socket| socket.receive(128, &mut packets));
    assert!(counts.iter().all(|count| *count >= 10), "both have some: {counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), 100);
    assert_eq!(packets.len() + sockets.iter().map(XdpSocket::to_receive).sum::<usize>(), umem.chunks().len());
}

#[test]
fn a_round_allocates_nothing() {
    let Some(mut lab) = crate::lab("rounds") else { return };
    let [left, middle, _right] = three(&mut lab);
    let mut forwarder = middle
        .inside(|| Forwarder::new(["m0", "m1"], &Steering::default()))
        .unwrap_or_else(|error| panic!("{error}"));
    let _pings = left.start("ping", "-n -i 0.002 -c 1000 192.0.2.2");
    let deadline = Instant::now() + Duration::from_secs(60);
    let before = crate::allocations();
    while forwarder.sides.iter().any(|side| side.forwarded < 100) && Instant::now() < deadline {
        forwarder.round().expect("the interfaces are there");
    }
    let after = crate::allocations();
    assert!(forwarder.sides.iter().all(|side| side.forwarded >= 100), "there was traffic");
    assert_eq!(after - before, 0);
    drop(std::hint::black_box(vec![0]));
    assert_eq!(crate::allocations() - after, 1, "planted: an allocation is counted");
}

/// A driver that cannot have the program leaves it to the network stack, and packets arrive as well.
#[test]
fn without_the_driver_the_network_stack_runs_the_program() {
    let Some(mut lab) = crate::lab("generic") else { return };
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.pair((&left, "l0"), (&right, "r0"));
    left.ip("addr add 192.0.2.1/24 dev l0");
    left.ip("neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 dev l0");
    // A veth whose peer sends frames longer than a page has no native XDP.
    left.ip("link set dev l0 mtu 9000");
    right.ip("link set dev r0 mtu 9000");
    let attach = || XdpProgram::attach(&Interface::open("r0")?, &Steering::default());
    let mut program = right.inside(attach).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(program.mode(), AttachMode::Generic);
    assert!(right.ip("link show dev r0").contains("xdpgeneric"));
    let error = right.inside(attach).err().expect("there is one").to_string();
    assert!(error.contains("`r0` has another XDP program"), "{error}");

    left.ip("link set dev l0 mtu 1500");
    right.ip("link set dev r0 mtu 1500");
    let umem = Umem::mapped(64, 2_048, 0).expect("there is memory");
    let mut socket = right
        .inside(|| XdpSocket::open(&umem, &Interface::open("r0")?, 0, &SocketOptions::default()))
        .unwrap_or_else(|error| panic!("{error}"));
    socket.fill(&mut umem.chunks().collect());
    program.insert(&socket).expect("it is the interface's");
    assert!(!left.ping_once("192.0.2.2", 3));
    let mut packets = Vec::new();
    assert_eq!(socket.receive(9, &mut packets), 3);
    assert!(packets.iter().all(|packet| packet.len == 14 + 84), "{packets:?}");
    drop(program);
    assert!(!right.ip("link show dev r0").contains("xdp"));
}

#[test]
fn what_finds_no_chunk_is_counted() {
    let Some(mut lab) = crate::lab("empty") else { return };
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.pair((&left, "l0"), (&right, "r0"));
    left.ip("addr add 192.0.2.1/24 dev l0");
    left.ip("neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 dev l0");
    let umem = Umem::mapped(16, 2_048, 0).expect("there is memory");
    let (_program, socket) = right.inside(|| {
        let interface = Interface::open("r0").expect("it is there");
        let mut program = XdpProgram::attach(&interface, &Steering::default()).expect("it has none");
        let socket = XdpSocket::open(&umem, &interface, 0, &SocketOptions::default()).expect("it is free");
        program.insert(&socket).expect("it is the interface's");
        (program, socket)
    });
    assert!(!left.ping_once("192.0.2.2", 3));
    let statistics = socket.statistics().expect("it counts");
    assert!(statistics.fill_ring_empty >= 3, "{statistics:?}");
}

/// A process that is killed leaves no program at the interface.
#[test]
fn the_death_of_the_process_takes_the_program_off() {
    let Some(mut lab) = crate::lab("death") else { return };
    let namespace = lab.namespace("one");
    lab.pair((&namespace, "a0"), (&namespace, "a1"));
    let itself = std::env::current_exe().expect("it runs");
    let mut command = namespace.command(&itself.to_string_lossy());
    command
        .args(["--exact", "forward::holds_a_program", "--nocapture"])
        .env(HOLDS, "a0")
        .stdout(Stdio::piped());
    let mut holder = command.spawn().expect("it ran once already");
    let said = BufReader::new(holder.stdout.take().expect("it is piped"));
    let attached = said.lines().map_while(Result::ok).any(|line| line.contains("attached"));
    let shown = namespace.ip("link show dev a0");
    holder.kill().expect("it waits to be killed");
    holder.wait().expect("it was killed");
    assert!(attached && shown.contains("xdp"), "{shown}");
    let deadline = Instant::now() + Duration::from_secs(60);
    while namespace.ip("link show dev a0").contains("xdp") {
        assert!(Instant::now() < deadline, "it came off");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Names the interface, for the process that is going to be killed.
const HOLDS: &str = "PACELINE_TEST_HOLDS";

/// Only for the test above: attaches a program, and waits to be killed.
#[test]
fn holds_a_program() {
    let Ok(name) = std::env::var(HOLDS) else { return };
    let interface = Interface::open(&name).expect("it was made");
    let _program = XdpProgram::attach(&interface, &Steering::default()).expect("it has none");
    println!("\nattached");
    thread::sleep(Duration::from_secs(30));
}

/// What the figures of latency go by: each packet is counted once, with a time; a pause shows in the slowest alone.
#[test]
fn a_sink_tells_how_long_packets_were_on_their_way() {
    let Some(mut lab) = crate::lab("sink") else { return };
    let [left, middle, right] = three(&mut lab);
    let sink = right.inside(|| Sink::attach("r0").map_err(|error| error.to_string()));
    let sink = sink.unwrap_or_else(|error| panic!("{error}"));
    let mut forwarder = middle
        .inside(|| Forwarder::new(["m0", "m1"], &Steering::default()))
        .unwrap_or_else(|error| panic!("{error}"));
    const PAUSE: Duration = Duration::from_millis(200);
    let is_over = AtomicBool::new(false);
    let what = |stamped| Arguments {
        interface: "l0".to_owned(),
        seconds: 1,
        packets_per_second: 2_000,
        flows: 3,
        bytes: 60,
        stamped,
    };
    let offered = thread::scope(|scope| {
        scope.spawn(|| {
            let (mut begin, mut has_paused) = (None, false);
            let ran = forwarder.run(|forwarder| {
                // While packets of the source come: hosts say something of their own first.
                let is_due = forwarder.sides[0].forwarded > 100
                    && begin.get_or_insert_with(Instant::now).elapsed() > PAUSE;
                if is_due && !has_paused {
                    has_paused = true;
                    thread::sleep(PAUSE);
                }
                is_over.load(Ordering::Relaxed)
            });
            ran.unwrap_or_else(|error| panic!("{error}"));
        });
        let send =
            |stamped| left.inside(|| xdp_source::send(&what(stamped)).map_err(|error| error.to_string()));
        let sent = [send(true), send(false)];
        thread::sleep(PAUSE);
        is_over.store(true, Ordering::Relaxed);
        sent.map(|sent| sent.unwrap_or_else(|error| panic!("{error}")).packets)
    });
    let times = sink.times().expect("the program is there");
    let within = [0.5, 0.99, 1.0].map(|share| Duration::from_nanos(times.within(share)));
    // What is not stamped is no packet of its own.
    assert!(
        times.packets() > offered[0] / 2 && times.packets() <= offered[0],
        "{offered:?} {}",
        times.packets()
    );
    assert!(within.is_sorted() && within[0] > Duration::ZERO, "{within:?}");
    assert!(within[2] > PAUSE / 2 && within[2] < 20 * PAUSE, "{within:?}");
    println!("{} packets: {within:?}", times.packets());
}
