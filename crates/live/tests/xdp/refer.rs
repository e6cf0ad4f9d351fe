//! A packet comes with what the program was told of its flow, and with nothing of any other.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use io::{Fate, Frame, Pool, Port, Received, Reference};
use nf::{FiveTuple, FlowKey};
use paceline_live::xdp::{Steering, XdpProgram};
use paceline_live::{CardRules, Interface, LiveError, LivePort, Mode, PortOptions, Sockets};
use wire::{Headers, LinkType, Marks, parse};

use crate::frames::made_up;
use crate::lab::Namespace;
use crate::spread::captured;

const PATIENCE: Duration = Duration::from_secs(60);

fn headers(frame: &[u8]) -> Headers {
    parse(LinkType::Ethernet, frame, frame.len() as u32)
}

fn bytes(flow: FiveTuple) -> [u8; 40] {
    zerocopy::transmute!(flow)
}

fn reversed(flow: FiveTuple) -> FiveTuple {
    FiveTuple { src: flow.dst, dst: flow.src, src_port: flow.dst_port, dst_port: flow.src_port, ..flow }
}

fn program(namespace: &Namespace, card_flows: u32) -> XdpProgram {
    let steering = Steering { card_flows, ..Steering::default() };
    let program = namespace.inside(|| XdpProgram::attach(&Interface::open("a0")?, &steering));
    program.unwrap_or_else(|error| panic!("{error}"))
}

/// Frame by frame: what is told of the flow that the engine sees is found, and nothing else is.
#[test]
fn the_program_looks_up_the_flow_that_the_engine_sees() {
    let Some(mut lab) = crate::lab("look-up") else { return };
    let namespace = lab.namespace("one");
    lab.pair((&namespace, "a0"), (&namespace, "a1"));
    let mut program = program(&namespace, 100);
    let frames = captured().into_iter().chain(made_up(0x2545_f491_4f6c_dd1d, 20_000));
    let (mut found, mut other, mut malformed) = (0, 0, 0);
    for (number, frame) in (1..).zip(frames.filter(|frame| frame.len() >= 14)) {
        let headers = headers(&frame);
        let flow = FiveTuple::of(&headers);
        let mut say = |flow, reference| {
            program
                .set_reference(&bytes(flow), Reference(reference))
                .unwrap_or_else(|error| panic!("{error}"));
            program.look_up(&frame).unwrap_or_else(|error| panic!("{error}"))
        };
        if reversed(flow) != flow {
            assert_eq!(say(reversed(flow), number), 0, "of the other direction: {frame:02x?}");
            say(reversed(flow), 0);
        }
        match say(flow, number) {
            0 if headers.malformed().is_some() => malformed += 1,
            0 if !headers.marks.intersects(Marks::IPV4 | Marks::IPV6) => other += 1,
            reference => {
                assert_eq!(u64::from(reference), number, "{headers:?} of {frame:02x?}");
                found += 1;
            }
        }
        assert_eq!(say(flow, 0), 0, "taken back: {frame:02x?}");
    }
    println!("{found} frames found, {other} of no IP, {malformed} malformed and not found");
    assert!(found > 10_000 && other > 100, "{found} {other}");
}

/// There is room for the flows that packets come of, however many others are told of.
#[test]
fn flows_whose_packets_come_stay() {
    let Some(mut lab) = crate::lab("stay") else { return };
    let namespace = lab.namespace("one");
    lab.pair((&namespace, "a0"), (&namespace, "a1"));
    let mut program = program(&namespace, 1_000);
    let flow = |host: u32| {
        let [a, b, c, d] = host.to_be_bytes();
        let packet =
            [69, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10 + a, b, c, d, 192, 0, 2, 1, 0, 1, 0, 2, 0, 8, 0, 0];
        [&[2; 12][..], &[8, 0], &packet].concat()
    };
    let mut say = |host: u32| {
        let flow = FiveTuple::of(&headers(&flow(host)));
        program
            .set_reference(&bytes(flow), Reference(u64::from(host) + 1))
            .unwrap_or_else(|error| panic!("{error}"));
    };
    (0..20_000).for_each(&mut say);
    let large = 0..20_u32;
    large.clone().for_each(&mut say);
    for host in 20_000..60_000 {
        let flow_of = FiveTuple::of(&headers(&flow(host)));
        program.set_reference(&bytes(flow_of), Reference(1)).unwrap_or_else(|error| panic!("{error}"));
        if host % 20 == 0 {
            for large in large.clone() {
                let found = program.look_up(&flow(large)).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(found, large + 1, "at {host}");
            }
        }
    }
    let known = (0..60_000).filter(|host| program.look_up(&flow(*host)).is_ok_and(|found| found > 0)).count();
    println!("{known} flows known");
    assert!((20..=1_000).contains(&known), "{known}");
}

/// A port on two interfaces, and what says where flows are.
fn bridge(middle: &Namespace, names: [&str; 2], card_flows: u32) -> (LivePort, Option<CardRules>) {
    let steering = Steering { card_flows, ..Steering::default() };
    let options =
        PortOptions { sockets: Sockets::Xdp, steering: vec![steering; 2], ..PortOptions::default() };
    let port = middle.inside(|| {
        let interfaces = [Interface::open(names[0])?, Interface::open(names[1])?];
        let (pool, _) = Pool::chunks(1_024, LivePort::chunk_bytes(1_500), 0);
        LivePort::open(&interfaces, Mode::Bridge, pool, &options)
    });
    let port = port.unwrap_or_else(|error: LiveError| panic!("{error}"));
    let card = port.card();
    (port, card)
}

/// The next packet to this port: its flow, and what was said of it.
fn next(port: &mut LivePort, to: u16) -> (FiveTuple, Reference) {
    let (mut frames, begin): (Vec<Frame>, _) = (Vec::with_capacity(64), Instant::now());
    while begin.elapsed() < PATIENCE {
        if port.receive(&mut frames, 64) != Received::Frames {
            continue;
        }
        let mut references = [Reference(u64::MAX); 64];
        port.references(&frames, &mut references);
        let mut found = None;
        for (frame, reference) in frames.iter().zip(references) {
            let headers = headers(port.bytes(frame));
            if headers.dst_port == to {
                found = Some((FiveTuple::of(&headers), reference));
            }
        }
        let count = frames.len();
        port.send(&mut frames, &[Fate::Forward; 64][..count]).expect("it takes them");
        if let Some(found) = found {
            return found;
        }
    }
    panic!("no packet comes")
}

/// By an interface whose driver runs the program, and by one at which the kernel's stack does.
#[test]
fn packets_come_with_what_was_told_of_their_flow() {
    let Some(mut lab) = crate::lab("refer") else { return };
    let [left, middle, right] = ["left", "middle", "right"].map(|label| lab.namespace(label));
    lab.pair((&left, "l0"), (&middle, "m0"));
    lab.pair((&middle, "m1"), (&right, "r0"));
    for (host, interface, net) in [(&left, "l0", 1), (&right, "r0", 2)] {
        host.ip(&format!("addr add 10.0.{net}.1/24 dev {interface}"));
        host.ip(&format!("addr add 2001:db8:{net}::1/64 dev {interface} nodad"));
        for address in [format!("10.0.{net}.2"), format!("2001:db8:{net}::2")] {
            host.ip(&format!("neigh add {address} dev {interface} lladdr 02:00:00:00:00:02"));
        }
    }
    // A veth whose peer sends frames longer than a page runs no program itself.
    right.ip("link set dev r0 mtu 9000");
    let (mut port, card) = bridge(&middle, ["m0", "m1"], 1_000);
    right.ip("link set dev r0 mtu 1500");
    let card = card.expect("a card");
    let described = port.interfaces().into_iter().map(|(_, socket, _)| socket).collect::<Vec<_>>();
    assert!(described[0].contains("native") && described[1].contains("generic"), "{described:?}");
    for (host, net) in [(&left, 1), (&right, 2)] {
        for (own, to) in [
            (format!("10.0.{net}.1:0"), format!("10.0.{net}.2:700{net}")),
            (format!("[2001:db8:{net}::1]:0"), format!("[2001:db8:{net}::2]:700{net}")),
        ] {
            let senders = [(); 2].map(|()| host.bound(|| UdpSocket::bind(&*own)));
            let mut send = |sender: usize| {
                senders[sender].send_to(b"to whom it concerns", &*to).expect("it is sent");
                next(&mut port, 7_000 + net)
            };
            // Not what an earlier packet left in the same buffer, either: there are some thousand.
            let (one, none) = send(0);
            assert_eq!(none, Reference::NONE, "unknown: {to}");
            for reference in [Reference(0x0123_4567_89ab_cdef), Reference(7)] {
                card.set(&bytes(one), reference);
                assert_eq!(send(0), (one, reference), "told: {to}");
                let (other, of_other) = send(1);
                assert!(other != one && of_other == Reference::NONE, "another flow: {to}");
            }
            (0..1_500).for_each(|_| assert_eq!(send(0), (one, Reference(7)), "each time: {to}"));
            card.set(&bytes(one), Reference::NONE);
            (0..1_500).for_each(|_| assert_eq!(send(0), (one, Reference::NONE), "taken back: {to}"));
            // Planted: what is true of one is said of the other.
            let (other, _) = send(1);
            card.set(&bytes(other), Reference(7));
            assert_eq!((send(1), send(0)), ((other, Reference(7)), (one, Reference::NONE)));
        }
    }
    assert_eq!(card.without_metadata(), None);
}

#[test]
fn nothing_is_said_where_nobody_asks_for_it() {
    let Some(mut lab) = crate::lab("refer-not") else { return };
    let namespace = lab.namespace("one");
    for pair in [("a0", "a1"), ("b0", "b1")] {
        lab.pair((&namespace, pair.0), (&namespace, pair.1));
    }
    let (_port, card) = bridge(&namespace, ["a0", "b0"], 0);
    assert!(card.is_none());
}
