//! Ports of several cores at the same queues: each packet comes once, to the right core, and every frame comes back.

use std::collections::HashSet;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use io::{Fate, Frame, Pool, Port, Received};
use nf::Connection;
use paceline_live::xdp::{Descriptor, SocketOptions, Steering, Umem, XdpProgram, XdpSocket};
use paceline_live::{Interface, LiveError, LivePort, Mode, PortOptions, Sockets};
use strategy::{Assign, INDIRECTION_SIZES, Rss, SYMMETRIC_KEY};
use wire::{LinkType, parse};

use crate::lab::{Lab, Namespace};
use crate::spread::{fields, spread};

const PATIENCE: Duration = Duration::from_secs(60);
const FRAMES: usize = 4_096;

/// l0 - m0, m1 - r0, with so many queues each.
fn three(lab: &mut Lab, queues: u32) -> [Namespace; 3] {
    let [left, middle, right] = ["left", "middle", "right"].map(|label| lab.namespace(label));
    lab.pair_of((&left, "l0"), (&middle, "m0"), queues);
    lab.pair_of((&middle, "m1"), (&right, "r0"), queues);
    left.ip("addr add 192.0.2.1/24 dev l0");
    right.ip("addr add 192.0.2.2/24 dev r0");
    let address = |host: &Namespace, interface: &str| {
        host.ip(&format!("link show dev {interface}")).split("link/ether ").nth(1).expect("it has one")[..17]
            .to_owned()
    };
    left.ip(&format!("neigh add 192.0.2.2 dev l0 lladdr {}", address(&right, "r0")));
    [left, middle, right]
}

/// Packets are spread over the cores, or cores take them in turns.
fn bridge(middle: &Namespace, cores: usize, is_spread: bool) -> Result<Vec<LivePort>, LiveError> {
    let rss = Rss::new(fields::<Connection>(), cores, INDIRECTION_SIZES[0]);
    let spread = is_spread.then(|| spread(&rss, fields::<Connection>(), &SYMMETRIC_KEY));
    let steering = Steering { spread, ..Steering::default() };
    let options =
        PortOptions { sockets: Sockets::Xdp, steering: vec![steering; 2], ..PortOptions::default() };
    middle.inside(|| {
        let interfaces = [Interface::open("m0")?, Interface::open("m1")?];
        let pools = Pool::peers(FRAMES, LivePort::chunk_bytes(1_500), cores);
        LivePort::open_each(
            &interfaces,
            pools.into_iter().map(|pool| (Mode::Bridge, pool)).collect(),
            &options,
        )
    })
}

/// Each core's turn, once, from core `first` on. Says by core which packets came.
fn turn(
    ports: &mut [LivePort],
    first: usize,
    frames: &mut Vec<Frame>,
    mut seen: impl FnMut(usize, &LivePort, &Frame),
) {
    let cores = ports.len();
    for core in (first..first + cores).map(|core| core % cores) {
        let port = &mut ports[core];
        port.prepare();
        if port.receive(frames, 64) == Received::Frames {
            port.fetch(frames);
            frames.iter().for_each(|frame| seen(core, port, frame));
            port.send(frames, &[Fate::Forward; 64][..frames.len()]).expect("it takes them");
        }
    }
}

/// Until so many frames are at home, or for as long as is patient; how many there are.
fn quiet(ports: &mut [LivePort], wanted: usize) -> usize {
    let (begin, mut frames) = (Instant::now(), Vec::with_capacity(64));
    while LivePort::at_home(ports) < wanted && begin.elapsed() < PATIENCE {
        turn(ports, 0, &mut frames, |_, _, _| {});
    }
    LivePort::at_home(ports)
}

fn each_packet_comes_to_its_core(queues: u32, cores: usize) {
    each_packet_comes_once(queues, cores, true);
}

fn each_packet_comes_once(queues: u32, cores: usize, is_spread: bool) {
    let Some(mut lab) = crate::lab("own") else { return };
    let [left, middle, right] = three(&mut lab, queues);
    let mut ports = bridge(&middle, cores, is_spread).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(LivePort::at_home(&mut ports), FRAMES, "before the first packet");
    let mut rss = Rss::new(fields::<Connection>(), cores, INDIRECTION_SIZES[0]);
    let receives = right.bound(|| UdpSocket::bind("192.0.2.2:9"));
    receives.set_nonblocking(true).expect("a socket");
    let senders: Vec<UdpSocket> =
        (0..40_u16).map(|flow| left.bound(|| UdpSocket::bind(("192.0.2.1", 5_000 + flow)))).collect();
    let (mut frames, mut buffer) = (Vec::with_capacity(64), [0; 16]);
    let (mut by_core, mut numbers) = (vec![0; cores], HashSet::with_capacity(1 << 16));
    let (mut arrived, mut sent, begin) = (0_u64, 0_u64, Instant::now());
    let (mut last, mut turns) = (vec![None; cores], 0);
    let mut allocated = 0;
    while arrived < 4_000 && begin.elapsed() < PATIENCE {
        if sent < 4_000 && sent - arrived < 200 {
            senders[sent as usize % senders.len()].send_to(&sent.to_be_bytes(), "192.0.2.2:9").expect("sent");
            sent += 1;
        }
        let before = crate::allocations();
        turns += 1;
        turn(&mut ports, turns, &mut frames, |core, port, frame| {
            let bytes = port.bytes(frame);
            let headers = parse(LinkType::Ethernet, bytes, frame.wire_len);
            let entry = rss.entry(&headers);
            assert!(!is_spread || rss.core(entry) == core, "{bytes:02x?}");
            by_core[core] += 1;
            assert!(
                is_spread || frame.stamp.seq == numbers.len() as u64,
                "in the order in which they were received"
            );
            assert!(numbers.insert(frame.stamp.seq), "a number of its own");
            assert!(last[core].replace(frame.stamp) < Some(frame.stamp), "stamps of a core ascend");
        });
        allocated += crate::allocations() - before;
        while receives.recv(&mut buffer).is_ok() {
            arrived += 1;
        }
    }
    assert_eq!((sent, arrived), (4_000, 4_000));
    // The board has its lines from the first time on that it is written.
    assert!(allocated < 100, "packets allocate nothing: {allocated}");
    assert!(by_core.iter().all(|count| *count > 300), "{by_core:?}");
    assert_eq!(numbers.len() as u64, by_core.iter().sum::<u64>());
    assert_eq!(numbers.iter().max(), Some(&(numbers.len() as u64 - 1)), "numbers have no gaps");
    let all = LivePort::all_interfaces(&mut ports);
    assert!(all[0].2.received >= 4_000 && all[1].2.sent >= 4_000, "{all:?}");
    assert!(all.iter().all(|(.., counters)| counters.lost.iter().all(|count| *count == 0)), "{all:?}");
    assert_eq!(ports[0].board().read().len(), 2);
    assert_eq!(quiet(&mut ports, FRAMES), FRAMES, "every frame is at home");

    // Planted: a frame that a core forgets.
    senders[0].send_to(b"leak", "192.0.2.2:9").expect("sent");
    let begin = Instant::now();
    let mut leaked = false;
    while !leaked && begin.elapsed() < PATIENCE {
        for port in &mut ports {
            if port.receive(&mut frames, 1) == Received::Frames {
                // Its token is gone without having been given back.
                frames.clear();
                leaked = true;
            }
        }
    }
    assert!(leaked);
    assert_eq!(quiet(&mut ports, FRAMES - 1), FRAMES - 1, "planted: it is missed");
}

#[test]
fn each_packet_comes_to_its_core_at_one_queue() {
    each_packet_comes_to_its_core(1, 2);
}

#[test]
fn cores_that_take_turns_get_each_packet_once() {
    each_packet_comes_once(1, 2, false);
    each_packet_comes_once(4, 3, false);
}

#[test]
fn each_packet_comes_to_its_core_at_four_queues() {
    each_packet_comes_to_its_core(4, 3);
}

/// What one socket sent another one of the queue takes back, and what is forgotten then is missed.
#[test]
fn sockets_of_a_queue_share_what_the_kernel_has() {
    let Some(mut lab) = crate::lab("beside") else { return };
    let namespace = lab.namespace("one");
    lab.pair((&namespace, "a0"), (&namespace, "a1"));
    let umem = Umem::mapped(64, 2_048, 0).expect("there is memory");
    let options = SocketOptions::default();
    let (_program, mut first, mut second) = namespace
        .inside(|| {
            let interface = Interface::open("a0")?;
            let program = XdpProgram::attach(&interface, &Steering::default())?;
            let first = XdpSocket::open(&umem, &interface, 0, &options)?;
            let second = first.beside(&options)?;
            Ok::<_, LiveError>((program, first, second))
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let mut chunks: Vec<u64> = umem.chunks().collect();
    let mut filled = chunks.split_off(32);
    assert_eq!(second.fill(&mut filled), 32);
    assert_eq!((first.to_receive(), second.to_receive()), (32, 32));
    assert_eq!(second.transmit(&[Descriptor { address: chunks[3], len: 60, goes_on: false }]), 1);
    let (begin, mut back) = (Instant::now(), Vec::new());
    while first.to_send() > 0 && begin.elapsed() < PATIENCE {
        second.kick().expect("it is there");
        first.complete(&mut back);
    }
    assert_eq!((back, first.to_send(), second.to_send()), (vec![chunks[3]], 0, 0));

    // Nobody else has the rings while one does, and nobody waits for them who need not.
    let rings = first.rings(false).expect("nobody has them");
    assert!(second.rings(false).is_none());
    drop(rings);
    assert!(second.rings(false).is_some());

    // The queue is the first's as long as the second is there.
    drop(first);
    assert_eq!(second.transmit(&[Descriptor { address: chunks[4], len: 60, goes_on: false }]), 1);
    let mut forgotten = Vec::new();
    while second.to_send() > 0 && begin.elapsed() < PATIENCE {
        second.kick().expect("it is there");
        second.complete(&mut forgotten);
    }
    assert_eq!(forgotten, [chunks[4]]);
}

/// Planted: a completion that is forgotten leaves a chunk lent that no socket has.
#[test]
fn a_completion_that_a_peer_forgets_is_missed() {
    let mut pools = Pool::peers(1_024, 2_048, 2);
    let mut chunks = Vec::new();
    pools[0].lend(0, 3, &mut chunks);
    // The other one takes back two of them; of the third it forgets to.
    assert!(pools[1].take_back(chunks[0]) && pools[1].take_back(chunks[1]));
    assert!(!pools[1].take_back(chunks[0]), "not twice");
    let free: usize = pools.iter_mut().map(Pool::free).sum();
    let frames = pools[0].frames();
    assert_eq!((free + pools[0].in_bank(), pools[0].lent_to(0)), (frames - 1, 1));
    // What a peer has too many of all can have.
    let mut all = Vec::new();
    pools[0].lend(1, frames, &mut all);
    assert_eq!(all.len(), frames - 1 - pools[1].free(), "all but what the other one has at hand");
    all.into_iter().for_each(|chunk| assert!(pools[1].take_back(chunk)));
    pools[1].deposit();
    let mut again = Vec::new();
    pools[0].lend(1, 900, &mut again);
    assert_eq!(again.len(), 900, "through the bank");
}
