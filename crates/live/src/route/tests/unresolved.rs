//! Packets that wait for their neighbours: each of them comes to one end, in time.

use std::sync::Arc;

use proptest::prelude::*;

use super::lab::*;
use crate::route::message::Change;
use crate::route::mirror::How;
use crate::route::snapshot::Neighbour;
use crate::route::{Decision, RouteDrop, UNRESOLVED, UNRESOLVED_EACH, Unresolved, WAIT_NS};

const FROM: &str = "10.0.2.9";
const STATION: [u8; 6] = [2, 7, 7, 7, 7, 7];
const MS: u64 = 1_000_000;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Sent,
    /// Its sender is told.
    Told,
    Dropped,
}

/// A fault that a test plants in the thread that has the forwarder, and has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// What waits is not looked for.
    Never,
    /// What was sent waits on.
    Twice,
    /// A packet that lost its place is not counted.
    Uncounted,
    /// A batch goes ahead of what waited.
    Late,
    /// What waits when all ends is forgotten.
    Forgotten,
}

#[derive(Clone)]
struct Packet {
    number: usize,
    host: u8,
    came_ns: u64,
    frame: Vec<u8>,
}

/// A thread that forwards packets to the hosts of one network, and the kernel's tables.
struct Thread {
    lab: Lab,
    unresolved: Unresolved<Packet>,
    now_ns: u64,
    fault: Option<Fault>,
    /// What became of all packets that came, in the order in which that was decided: the packet's number and host.
    ends: Vec<(usize, u8, End)>,
    came: usize,
}

impl Thread {
    fn new(fault: Option<Fault>) -> Thread {
        let lab = Lab::new();
        Thread { lab, unresolved: Unresolved::default(), now_ns: MS, fault, ends: Vec::new(), came: 0 }
    }

    /// The kernel comes to know something of a neighbour, or forgets it.
    fn tell(&mut self, host: u8, known: Option<Neighbour>) {
        let change = Change::Neighbour { interface: NARROW, address: addr(&to(host)), known };
        self.lab.mirror.apply(change, How::Added);
        self.lab.board.post(Arc::new(compiled(&self.lab.mirror)));
    }

    /// A batch of packets to hosts, or none, `later_ns` after the one before it.
    fn turn(&mut self, later_ns: u64, hosts: &[u8]) -> Result<(), String> {
        self.now_ns += later_ns;
        self.lab.forwarder.refresh(self.now_ns);
        if self.fault != Some(Fault::Late) {
            self.release();
        }
        for host in hosts {
            let frame = udp(FROM, &to(*host), 64, self.came);
            let mut packet = Packet { number: self.came, host: *host, came_ns: self.now_ns, frame };
            self.came += 1;
            let headers = headers(&packet.frame);
            match self.lab.forwarder.forward(&mut packet.frame, &headers, INSIDE) {
                Decision::Unresolved => {
                    let before = self.unresolved.put(&self.lab.forwarder, packet);
                    if let Some(before) = before
                        && self.fault != Some(Fault::Uncounted)
                    {
                        self.give_up(&before);
                    }
                }
                decision => self.end(&packet, decision),
            }
        }
        if self.fault == Some(Fault::Late) {
            self.release();
        }
        self.check()
    }

    fn release(&mut self) {
        if self.fault == Some(Fault::Never) {
            return;
        }
        while let Some(mut packet) = self.unresolved.take_due(&self.lab.forwarder) {
            let copy = packet.clone();
            let headers = headers(&packet.frame);
            let decision = self.lab.forwarder.again(&mut packet.frame, &headers, INSIDE);
            self.end(&packet, decision);
            if self.fault == Some(Fault::Twice) {
                self.unresolved.put(&self.lab.forwarder, copy);
                return;
            }
        }
    }

    fn give_up(&mut self, packet: &Packet) {
        let reason = self.lab.forwarder.give_up();
        self.end(packet, Decision::Drop(reason));
    }

    fn end(&mut self, packet: &Packet, decision: Decision) {
        let end = match decision {
            Decision::Send { interface: NARROW } => {
                assert_eq!((&packet.frame[..6], packet.frame[22]), (&STATION[..], 63), "made ready once");
                End::Sent
            }
            Decision::Reply { interface: INSIDE, reason: RouteDrop::NoNeighbour } => End::Told,
            Decision::Drop(RouteDrop::NoNeighbour) => End::Dropped,
            other => panic!("{other:?}"),
        };
        self.ends.push((packet.number, packet.host, end));
    }

    /// All is over.
    fn finish(&mut self) -> Result<(), String> {
        while self.fault != Some(Fault::Forgotten)
            && let Some(packet) = self.unresolved.take()
        {
            self.give_up(&packet);
        }
        match self.lab.forwarder.counters().unresolved {
            0 => self.check(),
            left => Err(format!("{left} packets wait after the end")),
        }
    }

    /// What holds after each batch.
    fn check(&self) -> Result<(), String> {
        let counters = self.lab.forwarder.counters();
        let ended = |end| self.ends.iter().filter(|(.., other)| *other == end).count() as u64;
        let counted = [counters.sent, counters.replies, counters.dropped(RouteDrop::NoNeighbour)];
        let seen = [ended(End::Sent), ended(End::Told), ended(End::Told) + ended(End::Dropped)];
        if counted != seen {
            return Err(format!("counted {counted:?} and not {seen:?}"));
        }
        if counters.packets() != self.came as u64 || counters.unresolved != self.unresolved.len() as u64 {
            return Err(format!("{} came, {} wait, {counters:?}", self.came, self.unresolved.len()));
        }
        let mut numbers: Vec<usize> = self.ends.iter().map(|(number, ..)| *number).collect();
        numbers.sort_unstable();
        if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("a packet has two ends".to_owned());
        }
        for host in 0..=u8::MAX {
            let sent = self.ends.iter().filter(|end| (end.1, end.2) == (host, End::Sent));
            if !sent.map(|(number, ..)| number).is_sorted() {
                return Err(format!("packets to {host} overtake each other"));
            }
        }
        let mut neighbours = Vec::new();
        for packet in self.unresolved.packets() {
            let known = self.lab.board.newest().neighbour(NARROW, addr(&to(packet.host)));
            if known.is_some() || self.now_ns - packet.came_ns >= WAIT_NS {
                return Err(format!("packet {} to {} still waits: {known:?}", packet.number, packet.host));
            }
            neighbours.push(packet.host);
        }
        neighbours.sort_unstable();
        let most = neighbours.chunk_by(|a, b| a == b).map(<[u8]>::len).max().unwrap_or(0);
        let are_few = most <= UNRESOLVED_EACH && neighbours.len() <= UNRESOLVED;
        are_few
            .then_some(())
            .ok_or(format!("{most} packets wait for a neighbour, {} in all", neighbours.len()))
    }
}

fn to(host: u8) -> String {
    format!("10.0.4.{host}")
}

fn known() -> Option<Neighbour> {
    Some(Neighbour::Known { address: STATION, is_stale: false })
}

/// As a host sends two questions to a name server at once, of which both are to arrive.
#[test]
fn packets_are_sent_in_order_when_their_neighbour_is_known() {
    let mut thread = Thread::new(None);
    thread.turn(MS, &[77, 77, 78]).expect("they wait");
    thread.turn(MS, &[]).expect("they wait on");
    assert_eq!((&thread.ends[..], thread.unresolved.len()), (&[][..], 3));
    thread.tell(77, known());
    thread.turn(MS, &[77]).expect("in order");
    assert_eq!(thread.ends, [(0, 77, End::Sent), (1, 77, End::Sent), (3, 77, End::Sent)]);
    assert_eq!((thread.unresolved.len(), thread.unresolved.is_empty()), (1, false));
    thread.finish().expect("the last one");
    assert_eq!(thread.ends[3..], [(2, 78, End::Dropped)]);
}

#[test]
fn the_latest_packets_to_a_neighbour_are_kept() {
    let mut thread = Thread::new(None);
    thread.turn(MS, &[[78].as_slice(), &[77; UNRESOLVED_EACH + 2]].concat()).expect("they wait");
    assert_eq!(thread.ends, [(1, 77, End::Dropped), (2, 77, End::Dropped)], "later ones take their places");
    thread.tell(77, known());
    thread.turn(MS, &[]).expect("in order");
    let sent: Vec<_> = (0..UNRESOLVED_EACH).map(|later| (3 + later, 77, End::Sent)).collect();
    assert_eq!((&thread.ends[2..], thread.unresolved.len()), (&sent[..], 1));
}

#[test]
fn the_sender_is_told_when_the_neighbour_has_failed() {
    let mut thread = Thread::new(None);
    thread.turn(MS, &[77]).expect("it waits");
    // The kernel gives up after three seconds.
    thread.turn(3_100 * MS, &[]).expect("it waits on");
    thread.tell(77, Some(Neighbour::Failed));
    thread.turn(MS, &[]).expect("told");
    assert_eq!(thread.ends, [(0, 77, End::Told)]);
    let reply = thread.lab.forwarder.reply();
    assert_eq!((&reply[..6], &reply[30..34], &reply[34..36]), (&HOST[..], &[10, 0, 2, 9][..], &[3, 1][..]));
    thread.turn(MS, &[77]).expect("as before");
    assert_eq!(thread.ends[1..], [(1, 77, End::Told)], "nothing waits for a neighbour that has failed");
}

#[test]
fn a_packet_whose_time_is_over_is_dropped() {
    let mut thread = Thread::new(None);
    thread.turn(MS, &[77]).expect("it waits");
    thread.turn(MS, &[78]).expect("another one");
    thread.turn(WAIT_NS - MS - 1, &[]).expect("not yet");
    assert_eq!(thread.ends, []);
    thread.turn(1, &[]).expect("now");
    assert_eq!(thread.ends, [(0, 77, End::Dropped)]);
    thread.turn(MS, &[]).expect("and the other one");
    assert_eq!(thread.ends[1..], [(1, 78, End::Dropped)]);
}

#[test]
fn one_packet_too_many_takes_the_place_of_the_oldest() {
    let mut thread = Thread::new(None);
    let hosts: Vec<u8> = (100..100 + UNRESOLVED as u8).collect();
    for host in &hosts {
        thread.turn(MS, &[*host]).expect("room");
    }
    thread.turn(MS, &[100, 99]).expect("no room");
    assert_eq!(thread.ends, [(0, 100, End::Dropped), (1, 101, End::Dropped)]);
    assert_eq!(thread.unresolved.len(), UNRESOLVED);
    hosts.iter().for_each(|host| thread.tell(*host, known()));
    thread.turn(MS, &[]).expect("all");
    assert_eq!(thread.lab.forwarder.counters().sent as usize, UNRESOLVED - 1);
}

/// By the time that a packet may go on, its route may have gone, or lead to another neighbour that is unknown.
#[test]
fn the_route_may_change_meanwhile() {
    let mut lab = Lab::new();
    let mut unresolved = Unresolved::default();
    let way = |gateway| Change::Route(main_route("9.0.0.0/8", hop(NARROW, Some(gateway))));
    let neighbour =
        |address: &str| Change::Neighbour { interface: NARROW, address: addr(address), known: known() };
    lab.apply(way("10.0.4.77"));
    let mut frame = udp(FROM, "9.9.9.9", 64, 10);
    assert_eq!(lab.forward(&mut frame), Decision::Unresolved);
    unresolved.put(&lab.forwarder, ());
    lab.mirror.apply(way("10.0.4.78"), How::Replaced);
    lab.apply(neighbour("10.0.4.77"));
    assert_eq!(unresolved.take_due(&lab.forwarder), Some(()));
    let headers = headers(&frame);
    let decision = lab.forwarder.again(&mut frame, &headers, INSIDE);
    assert_eq!(decision, Decision::Drop(RouteDrop::NoNeighbour), "it does not wait a second time");
    let counters = lab.forwarder.counters();
    assert_eq!((counters.unresolved, counters.packets()), (0, 1));
}

/// A batch, and what the kernel tells before it.
type Turn = (u64, Vec<u8>, Vec<(u8, u8)>);

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    // Some hosts are asked for often, and packets for all of them are more than there are places.
    let host = || prop_oneof![10..14_u8, 10..200_u8];
    let later = prop_oneof![Just(0), 0..20 * MS, 0..2 * WAIT_NS];
    let told = prop::collection::vec((host(), 0..4_u8), 0..4);
    prop::collection::vec((later, prop::collection::vec(host(), 0..40), told), 1..30)
}

fn run(turns: &[Turn], fault: Option<Fault>) -> Result<(), String> {
    let mut thread = Thread::new(fault);
    for (later_ns, hosts, told) in turns {
        for (host, what) in told {
            let known = match what {
                0 | 1 => known(),
                2 => Some(Neighbour::Failed),
                _ => None,
            };
            thread.tell(*host, known);
        }
        thread.turn(*later_ns, hosts)?;
    }
    thread.finish()
}

proptest! {
    /// Whatever comes, and whatever the kernel tells: each packet is counted once and has one end, none is overtaken by a
    /// later one to the same host, and none waits for what is known or for too long.
    #[test]
    fn each_packet_has_one_end(turns in turns()) {
        prop_assert_eq!(run(&turns, None), Ok(()));
    }
}

/// Planted: packets that are kept for ever, sent twice, late, or not counted are found.
#[test]
fn packets_without_an_end_are_found() {
    let turns = |fault| {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        runner.run(&turns(), |turns| {
            prop_assert_eq!(run(&turns, Some(fault)), Ok(()));
            Ok(())
        })
    };
    for (fault, expected) in [
        (Fault::Never, "still waits"),
        (Fault::Twice, "wait"),
        (Fault::Uncounted, "wait"),
        (Fault::Late, "overtake"),
        (Fault::Forgotten, "wait after the end"),
    ] {
        let found = turns(fault).expect_err("a fault").to_string();
        assert!(found.contains(expected), "{fault:?}: {found}");
    }
}
