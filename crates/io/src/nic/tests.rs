//! Tests of the simulated card, by hand and with a virtual clock.

use std::sync::Arc;

use proptest::prelude::*;
use wire::LinkType;

use super::*;
use crate::Trace;
use crate::capture::Record;
use crate::contract::{Lab, port_contract};

fn offer(pace: Pace) -> Offer {
    let mut trace = Trace::default();
    for byte in 0..3u8 {
        let data = vec![byte; 60 + 40 * usize::from(byte)];
        let wire_len = data.len() as u32;
        trace.push(&Record { time_ns: 5, wire_len, link: LinkType::Ethernet, data: &data });
    }
    let packets = Packets::new(&trace, &[0, 1, 2], |record| u16::from(record.data[0]) + 10);
    Offer { packets: Arc::new(packets), pace, origin: Stamp { seq: 100, time_ns: 7_000 } }
}

/// Every other packet of a million a second comes to this queue of two descriptors.
#[test]
fn a_queue_by_hand() {
    let clock = VirtualClock::default();
    let mut port = NicPort::new(offer(Pace::even(1e6)), vec![0, 2, 4, 6, 8], 2, 8, clock.clone());
    let mut port = port_step(&mut port, &clock, 0, &[(100, 7_000, 0)]);
    // At 6 us: 2 and 4 wait, 6 was dropped.
    port = port_step(port, &clock, 6_999, &[(102, 9_000, 2), (104, 11_000, 1)]);
    assert_eq!((port.received(), port.dropped(), port.consumed()), (3, 1, 4));
    assert_eq!(port.next_arrival_ns(), Some(8_000));
    port = port_step(port, &clock, 7_999, &[]);
    port = port_step(port, &clock, 8_000, &[(108, 15_000, 2)]);
    let mut frames = Vec::new();
    assert_eq!(port.receive(&mut frames, 8), Received::End);
    assert_eq!((port.received(), port.dropped(), port.consumed()), (4, 1, 5));
}

/// Receives at `now_ns`, and expects sequence numbers, times and packets of the trace.
fn port_step<'a>(
    port: &'a mut NicPort<VirtualClock>,
    clock: &VirtualClock,
    now_ns: u64,
    expected: &[(u64, u64, u8)],
) -> &'a mut NicPort<VirtualClock> {
    clock.advance_to(now_ns);
    let mut frames = Vec::new();
    let received = port.receive(&mut frames, 8);
    assert_eq!(received, if expected.is_empty() { Received::Idle } else { Received::Frames });
    let seen: Vec<(u64, u64, u8)> = frames
        .iter()
        .map(|frame| {
            let bytes = port.bytes(frame);
            let first = bytes[0];
            assert_eq!(bytes, vec![first; 60 + 40 * usize::from(first)]);
            assert_eq!(frame.entry, u16::from(first) + 10);
            (frame.stamp.seq, frame.stamp.time_ns, first)
        })
        .collect();
    assert_eq!(seen, expected);
    let fates = vec![Fate::Forward; frames.len()];
    port.send(&mut frames, &fates).expect("open");
    port
}

/// Without a free frame the queue fills, and drops.
#[test]
fn frames_that_are_held_back_fill_the_queue() {
    let clock = VirtualClock::default();
    let mut port = NicPort::new(offer(Pace::even(1e9)), (0..20).collect(), 4, 2, clock.clone());
    let mut held = Vec::new();
    clock.advance_to(9);
    assert_eq!(port.receive(&mut held, 64), Received::Frames);
    assert_eq!((held.len(), port.dropped()), (2, 6));
    clock.advance_to(99);
    assert_eq!(port.receive(&mut Vec::new(), 64), Received::Idle);
    assert_eq!((port.received(), port.dropped(), port.consumed()), (2, 14, 2));
    port.send(&mut held, &[Fate::Forward; 2]).expect("open");
    for _ in 0..2 {
        assert_eq!(port.receive(&mut held, 64), Received::Frames);
        port.send(&mut held, &[Fate::Forward; 2]).expect("open");
    }
    assert_eq!(port.receive(&mut held, 64), Received::End);
    assert_eq!(port.received() + port.dropped(), 20, "each is received or dropped");
}

#[test]
fn latency_is_from_arrival_to_the_receive_after_sending() {
    let clock = VirtualClock::default();
    let mut port = NicPort::new(offer(Pace::even(1e9)), vec![0, 50], 4, 4, clock.clone()).with_latency(0);
    let mut frames = Vec::new();
    for (now_ns, received) in [(60, Received::Frames), (200, Received::End)] {
        clock.advance_to(now_ns);
        assert_eq!(port.receive(&mut frames, 64), received);
        let fates = vec![Fate::Forward; frames.len()];
        port.send(&mut frames, &fates).expect("open");
    }
    let latency = port.into_latency().expect("asked for");
    assert_eq!((latency.len(), latency.min(), latency.max()), (2, 150, 200));
}

/// A front of two descriptors that passes packets on to two cores in turn, each with room for two.
fn in_front(pace: Pace, count: u32) -> (Front<VirtualClock>, Vec<NicPort<VirtualClock>>, VirtualClock) {
    let (offer, clock) = (offer(pace), VirtualClock::default());
    let (front, behind) = front(offer.clone(), count, 2, (2, 2), clock.clone());
    let port = |behind| NicPort::behind(offer.clone(), behind, 8, clock.clone());
    (front, behind.into_iter().map(port).collect(), clock)
}

/// Receives, and sends each packet to a core by its number.
fn receive(front: &mut Front<VirtualClock>, core_of: impl Fn(u64) -> usize) -> Received {
    let mut frames = Vec::new();
    let received = front.receive(&mut frames, 8);
    for mut frame in frames {
        let bytes = front.bytes(&frame);
        assert_eq!(bytes.len() as u32, frame.wire_len);
        assert_eq!(front.sent().iter().sum::<u64>(), frame.stamp.seq - 100);
        frame.entry = u16::from(bytes[0]) + 10;
        front.stage(core_of(frame.stamp.seq), frame);
    }
    received
}

fn in_turn(seq: u64) -> usize {
    seq as usize % 2
}

/// What the card dropped has no number, and what is received is passed on with its arrival's time.
#[test]
fn a_front_numbers_what_it_receives() {
    let (mut front, mut ports, clock) = in_front(Pace::even(1e6), 7);
    // 0 to 4 have arrived, and 0 and 1 found a descriptor.
    clock.advance_to(4_000);
    assert_eq!(receive(&mut front, in_turn), Received::Frames);
    assert_eq!((front.received(), front.dropped(), front.next_arrival_ns()), (2, 3, Some(5_000)));
    assert_eq!(ports[0].receive(&mut Vec::new(), 8), Received::Idle, "nothing was passed on yet");
    assert_eq!(front.pass_on(), Ok(()));
    clock.advance_to(5_000);
    assert_eq!(receive(&mut front, in_turn), Received::Frames);
    assert_eq!((front.pass_on(), front.sent()), (Ok(()), &[2, 1][..]));
    port_step(&mut ports[0], &clock, 5_000, &[(100, 7_000, 0), (102, 12_000, 2)]);
    port_step(&mut ports[1], &clock, 5_000, &[(101, 8_000, 1)]);
    clock.advance_to(6_000);
    assert_eq!(receive(&mut front, in_turn), Received::Frames);
    assert_eq!(receive(&mut front, in_turn), Received::End);
    assert_eq!(ports[0].receive(&mut Vec::new(), 8), Received::Idle, "the front may pass on more");
    assert_eq!(front.pass_on(), Ok(()));
    front.close();
    port_step(&mut ports[1], &clock, 6_000, &[(103, 13_000, 0)]);
    for (port, received) in ports.iter_mut().zip([2, 2]) {
        assert_eq!(port.receive(&mut Vec::new(), 8), Received::End);
        assert_eq!((port.received(), port.consumed(), port.dropped()), (received, received, 0));
    }
}

/// Nothing is lost behind the card: the front waits, and its own queue fills.
#[test]
fn a_front_waits_for_a_core_without_room() {
    let (mut front, mut ports, clock) = in_front(Pace::even(1e9), 100);
    let to_first = |_| 0;
    for now_ns in 0..3 {
        clock.advance_to(now_ns);
        assert_eq!(receive(&mut front, to_first), Received::Frames);
        let full = Full { core: 0, is_gone: false };
        assert_eq!(front.pass_on(), if now_ns < 2 { Ok(()) } else { Err(full) });
    }
    assert_eq!((front.received(), front.dropped()), (3, 0));
    // All that come meanwhile find two descriptors.
    clock.advance_to(9);
    port_step(&mut ports[0], &clock, 9, &[(100, 7_000, 0), (101, 7_001, 1)]);
    assert_eq!(front.pass_on(), Ok(()));
    assert_eq!(receive(&mut front, to_first), Received::Frames);
    assert_eq!((front.received(), front.dropped()), (5, 5));
    drop(ports);
    assert_eq!(front.pass_on(), Err(Full { core: 0, is_gone: true }));
}

/// A card that steers sends 1, 3 and 5 to the front, and the others to the first core, which has two queues. Each has the number of its
/// arrival.
#[test]
fn a_card_that_steers_sends_some_past_the_front() {
    let (offer, clock) = (offer(Pace::even(1e6)), VirtualClock::default());
    let (mut front, mut behind) = steered_front(offer.clone(), vec![1, 3, 5], 2, (1, 2), clock.clone());
    let mut port = NicPort::new(offer, vec![0, 2, 4], 2, 8, clock.clone()).beside(behind.remove(0));
    assert_eq!(
        (front.attended(), front.next_arrival_ns()),
        (Stamp { seq: 101, time_ns: 7_000 }, Some(1_000))
    );
    clock.advance_to(1_000);
    let mut frames = Vec::new();
    assert_eq!(front.receive(&mut frames, 8), Received::Frames);
    assert_eq!((frames[0].stamp, frames[0].entry), (Stamp { seq: 101, time_ns: 8_000 }, 11));
    assert_eq!(front.attended(), Stamp { seq: 103, time_ns: 8_000 });
    front.stage(0, frames.remove(0));
    assert_eq!(front.pass_on(), Ok(()));
    // The queue of the card first, and the other by itself.
    let received = |port: &mut NicPort<VirtualClock>, is_beside: bool| {
        let mut frames = Vec::new();
        let received = match is_beside {
            true => port.receive_beside(&mut frames, 8),
            false => port.receive(&mut frames, 8),
        };
        let seqs: Vec<u64> = frames.iter().map(|frame| frame.stamp.seq).collect();
        let fates = vec![Fate::Forward; frames.len()];
        port.send(&mut frames, &fates).expect("open");
        (received, seqs)
    };
    assert_eq!((port.next_arrival_ns(), port.is_waiting(), port.has_beside()), (Some(0), true, true));
    assert_eq!(received(&mut port, false), (Received::Frames, vec![100]));
    assert_eq!((port.consumed(), port.received_beside()), (1, 0), "of the card's queue");
    assert_eq!(received(&mut port, true), (Received::Frames, vec![101]));
    assert_eq!((port.consumed(), port.received_beside(), port.received()), (1, 1, 2));
    assert_eq!(received(&mut port, true), (Received::Idle, vec![]));
    clock.advance_to(5_000);
    assert_eq!(front.receive(&mut frames, 8), Received::Frames);
    assert_eq!(front.attended().seq, u64::MAX, "nothing comes any more");
    front.close();
    assert_eq!(received(&mut port, true), (Received::End, vec![]), "they were not passed on");
    assert_eq!(received(&mut port, false), (Received::Frames, vec![102, 104]));
    assert_eq!(received(&mut port, false), (Received::End, vec![]));
    assert!(!port.has_beside());
}

/// A core whose clock is behind the front's does not see what was passed on later.
#[test]
fn nothing_is_seen_before_it_was_passed_on() {
    let (offer, early, late) = (offer(Pace::AtOnce), VirtualClock::default(), VirtualClock::default());
    let (mut front, mut behind) = front(offer.clone(), 1, 2, (1, 2), late.clone());
    let mut port = NicPort::behind(offer, behind.remove(0), 8, early.clone());
    late.advance_to(500);
    assert_eq!(receive(&mut front, |_| 0), Received::Frames);
    late.advance_to(600);
    assert_eq!(front.pass_on(), Ok(()));
    front.close();
    early.advance_to(599);
    assert_eq!(port.receive(&mut Vec::new(), 8), Received::Idle);
    assert_eq!((port.next_arrival_ns(), port.is_waiting()), (Some(600), false));
    early.advance_to(600);
    assert!(port.is_waiting());
    let mut frames = Vec::new();
    assert_eq!(port.receive(&mut frames, 8), Received::Frames);
    assert_eq!(port.receive(&mut frames, 8), Received::End);
}

/// Two queues of one card, whose clock says that all packets have arrived.
struct Pair([NicPort<VirtualClock>; 2]);

impl Lab for Pair {
    fn port(&mut self, number: usize) -> &mut dyn Port {
        &mut self.0[number]
    }

    fn arrive(&mut self, _: usize, _: usize) {}

    fn left(&mut self) -> u64 {
        let sent = |latency: &Latency| latency.histogram.len() + latency.sent_ns.len() as u64;
        self.0.iter().map(|port| port.latency.as_ref().map_or(0, sent)).sum()
    }

    fn counts_drops(&self) -> bool {
        true
    }

    fn frames(&self) -> usize {
        8
    }
}

#[test]
fn a_queue_keeps_the_contract() {
    port_contract(|| {
        let clock = VirtualClock::default();
        clock.advance_to(1_000_000_000);
        let pools = <[Pool; 2]>::try_from(Pool::shared(2, 8, 200)).map_err(drop).expect("two pools");
        Pair(pools.map(|pool| {
            let arrivals: Vec<u32> = (0..1_000).collect();
            NicPort::in_pool(offer(Pace::even(1e6)), arrivals, 1_000, pool, clock.clone()).with_latency(0)
        }))
    });
}

/// Number, time and entry of each packet that a port received, and what the port says: received, dropped, consumed.
type Look = (Vec<(u64, u64, u16)>, [u64; 3]);

/// Each of the ports receives.
fn looked_at(ports: &mut [NicPort<VirtualClock>], max: usize) -> Vec<Look> {
    let look = |port: &mut NicPort<VirtualClock>| {
        let mut frames = Vec::new();
        port.arrive();
        let _ = port.receive(&mut frames, max);
        let seen = frames.iter().map(|frame| (frame.stamp.seq, frame.stamp.time_ns, frame.entry)).collect();
        let fates = vec![Fate::Forward; frames.len()];
        port.send(&mut frames, &fates).expect("open");
        (seen, [port.received(), port.dropped(), port.consumed()])
    };
    ports.iter_mut().map(look).collect()
}

proptest! {
    /// A card that deals packets as they arrive, and may be far ahead of the cores, is the card that knows all arrivals ahead: each core gets
    /// the same packets at the same time, and each queue drops the same.
    #[test]
    fn a_card_that_deals_drops_what_one_drops_that_knows_all_arrivals(
        cores in proptest::collection::vec(0usize..3, 1..300),
        descriptors in 1usize..12,
        looks in proptest::collection::vec((0u64..30, 0u64..40, 0usize..9), 1..60),
    ) {
        let (offer, clock, ahead) = (offer(Pace::even(1e9)), VirtualClock::default(), VirtualClock::default());
        let to = |core| (0..cores.len() as u32).filter(|number| cores[*number as usize] == core).collect();
        let mut known: Vec<_> = (0..3)
            .map(|core| NicPort::new(offer.clone(), to(core), descriptors, 64, clock.clone()))
            .collect();
        let count = cores.len() as u32;
        let (mut card, queues) = dealing(offer.clone(), count, descriptors, 3, ahead.clone());
        let pool = || Pool::for_packets(&offer.packets, 64);
        let mut dealt: Vec<_> = queues
            .into_iter()
            .map(|queue| NicPort::dealt(offer.clone(), queue, pool(), clock.clone()))
            .collect();
        let mut now_ns = 0;
        for (later_ns, ahead_ns, max) in looks.into_iter().chain([(10_000, 0, 64); 2]) {
            now_ns += later_ns;
            clock.advance_to(now_ns);
            ahead.advance_to(now_ns + ahead_ns);
            while receive(&mut card, |seq| cores[(seq - 100) as usize]) == Received::Frames {
                prop_assert_eq!(card.pass_on(), Ok(()));
            }
            prop_assert_eq!(looked_at(&mut dealt, max), looked_at(&mut known, max));
        }
        card.close();
        for port in &mut dealt {
            prop_assert_eq!(port.receive(&mut Vec::new(), 8), Received::End);
        }
        let all: u64 = dealt.iter().map(|port| port.received() + port.dropped()).sum();
        prop_assert_eq!((card.dropped(), all), (0, u64::from(count)));
    }
}
