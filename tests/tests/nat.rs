//! The NAT on several cores, as sharding with the real hash spreads its packets: its ports divided, its
//! answers on the core that asked, its mappings never shared.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nf::{Cx, FlowKey, NetworkFunction, SrcEndpoint, Verdict};
use nfs::Nat;
use nfs::nat::{Options, Pool, PortChoice, State};
use proptest::prelude::*;
use strategy::{Assign, FunctionShape, HashFields, Rss};
use wire::{Addr, Edits, Headers, Marks, Stamp, protocol, tcp_flags};
use zerocopy::IntoBytes;

const PORTS: [u16; 2] = [1024, 5119];
const EXTERNAL: [[u8; 4]; 2] = [[203, 0, 113, 1], [203, 0, 113, 2]];

/// What goes wrong on purpose, to see that it is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Each core believes that all ports are its own.
    NotDivided,
    /// The ports are divided, and otherwise than packets come.
    DividedOtherwise,
    /// The pool is told that mappings are gone which live.
    GoneEarly,
    /// Nobody says that a mapping is gone. No fault: it is dead all the same.
    NeverGone,
}

struct Core {
    flows: BTreeMap<Vec<u8>, (SrcEndpoint, State, u64)>,
    pool: Pool,
}

/// A NAT on several cores, in plain code.
struct Cores {
    nat: Nat,
    spread: RefCell<Rss>,
    cores: Vec<Core>,
    seq: u64,
    fault: Fault,
}

/// What became of a packet: where, and how it left, if it did.
#[derive(Clone, Copy, Debug)]
struct Answer {
    core: usize,
    sent: Result<Headers, &'static str>,
}

impl Cores {
    fn new(cores: usize, ports: [u16; 2], external: &[[u8; 4]], fault: Fault) -> Cores {
        let options = Options {
            inside: vec!["10.0.0.0/8".into()],
            external: external.iter().map(|addr| std::net::Ipv4Addr::from(*addr).to_string()).collect(),
            ports: ports.to_vec(),
            port_choice: PortChoice::Random,
            ..Options::default()
        };
        let nat = Nat::new(options).expect("good options");
        let shape = FunctionShape {
            name: "nat",
            sharding: SrcEndpoint::SHARDING,
            edits: Nat::EDITS,
            has_sides: true,
        };
        let fields = HashFields::derive(&[shape]).expect("shardable");
        let spread = RefCell::new(Rss::new(fields, cores, 128));
        let divide = Nat::EXTRAS.pool.divide;
        let pools = match fault {
            Fault::NotDivided => (0..cores).map(|_| (Nat::EXTRAS.pool.make)(&nat)).collect(),
            Fault::DividedOtherwise => divide(&nat, cores, &|headers| usize::from(headers.dst_port) % cores),
            _ => divide(&nat, cores, &|headers| core_of(&nat, &spread, headers)),
        };
        assert_eq!(pools.len(), cores);
        let cores = pools.into_iter().map(|pool| Core { flows: BTreeMap::new(), pool }).collect();
        Cores { nat, spread, cores, seq: 0, fault }
    }

    /// Nothing expires but in [`Cores::expire`].
    fn packet(&mut self, time_ns: u64, headers: &Headers) -> Answer {
        let at = core_of(&self.nat, &self.spread, headers);
        let core = &mut self.cores[at];
        self.seq += 1;
        let (mut edits, mut events) = (Edits::NONE, [0; Nat::ABOUT.events.len()]);
        let meta = Nat::project(headers).expect("IPv4");
        let key = Nat::key(&meta);
        assert_eq!(key, SrcEndpoint::of(headers));
        let mut flow = core.flows.get(key.as_bytes()).map(|(_, state, _)| *state);
        let stamp = Stamp { seq: self.seq, time_ns };
        let verdict =
            self.nat.step(&mut flow, &meta, &mut Cx::new(stamp, &mut edits, &mut core.pool, &mut events, 7));
        if let Some(state) = flow {
            let deadline_ns = time_ns + self.nat.idle_timeout_ns(&state);
            core.flows.insert(key.as_bytes().to_vec(), (key, state, deadline_ns));
        }
        let mut sent = *headers;
        edits.apply_to_headers(&mut sent);
        let sent = match verdict {
            Verdict::Drop(reason) => Err(Nat::ABOUT.drop_reasons[usize::from(reason)]),
            _ => Ok(sent),
        };
        Answer { core: at, sent }
    }

    fn expire(&mut self, now_ns: u64) {
        for core in &mut self.cores {
            let (nat, pool, fault) = (&self.nat, &mut core.pool, self.fault);
            core.flows.retain(|_, (key, state, deadline_ns)| {
                let live = *deadline_ns > now_ns;
                if !live && fault != Fault::NeverGone || fault == Fault::GoneEarly {
                    (Nat::EXTRAS.pool.gone)(nat, key, state, pool);
                }
                live
            });
        }
    }

    fn invariant(&self) -> Result<(), String> {
        let flows = self.cores.iter().flat_map(|core| core.flows.values());
        (Nat::EXTRAS.guarantees.invariant)(&self.nat, &mut flows.map(|(key, state, _)| (key, state)))
    }

    fn is_live(&self, key: &SrcEndpoint) -> bool {
        self.cores.iter().any(|core| core.flows.contains_key(key.as_bytes()))
    }
}

/// As the contract has it: from outside, the packet's mirror is hashed. Nothing here goes from outside to outside.
fn core_of(nat: &Nat, spread: &RefCell<Rss>, headers: &Headers) -> usize {
    let mut hashed = *headers;
    if !(Nat::EXTRAS.sides.sides)(nat).is_some_and(|sides| sides.inside.contains(headers.src)) {
        (hashed.src, hashed.src_port) = (headers.dst, headers.dst_port);
        (hashed.dst, hashed.dst_port) = (headers.src, headers.src_port);
    }
    let mut spread = spread.borrow_mut();
    let entry = spread.entry(&hashed);
    spread.core(entry)
}

fn packet(protocol: u8, src: (Addr, u16), dst: (Addr, u16)) -> Headers {
    let tcp_flags = if protocol == protocol::TCP { tcp_flags::SYN } else { 0 };
    let (mut src_port, mut dst_port, mut tcp_shape) = (src.1, dst.1, 0);
    if protocol == protocol::ICMP {
        // The peer answers queries, and makes none.
        let port = if src == PEER { &mut src_port } else { &mut dst_port };
        *port = 0;
        tcp_shape = if src == PEER { Headers::ICMP_REPLY } else { 1 };
    }
    Headers {
        src: src.0,
        dst: dst.0,
        src_port,
        dst_port,
        protocol,
        tcp_flags,
        tcp_shape,
        marks: Marks::IPV4,
        ..Headers::default()
    }
}

/// A router's error about a packet that left with this external endpoint, as [`wire::IcmpPorts`] has it.
fn error_about(protocol: u8, external: (Addr, u16)) -> Headers {
    let (src_port, quoted) = match protocol {
        protocol::TCP => (PEER.1, 0),
        protocol::UDP => (PEER.1, 1),
        _ => (0, 2),
    };
    Headers {
        src: Addr::v4([198, 51, 100, 1]),
        dst: external.0,
        src_port,
        dst_port: external.1,
        protocol: protocol::ICMP,
        tcp_shape: 8 | 4 | quoted,
        marks: Marks::IPV4,
        ..Headers::default()
    }
}

const PEER: (Addr, u16) = (Addr::v4([192, 0, 2, 1]), 443);

/// An inside endpoint of its own for each number.
fn host(number: u32) -> (Addr, u16) {
    let [_, b, c, d] = (number / 4).to_be_bytes();
    (Addr::v4([10, b, c, d]), (number.wrapping_mul(40_503) >> 3) as u16 | 1 << 15)
}

/// Maps endpoints until no port is left: every one must be given once, and its answers must come to the
/// core that gave it.
fn exhaust(cores: usize, ports: [u16; 2], external: &[[u8; 4]], fault: Fault) -> Result<(), String> {
    let mut nat = Cores::new(cores, ports, external, fault);
    let all = external.len() * (usize::from(ports[1] - ports[0]) + 1);
    for protocol in [protocol::UDP, protocol::TCP, protocol::ICMP] {
        let mut given = BTreeSet::new();
        let mut shares = vec![[0; 2]; cores];
        for number in 0..4 * all as u32 {
            let inside = host(number);
            let out = nat.packet(0, &packet(protocol, inside, PEER));
            let Ok(sent) = out.sent else { continue };
            let external = (sent.src, sent.src_port);
            if !given.insert(external) {
                return Err(format!("{external:?} was given twice"));
            }
            shares[out.core][usize::from(external.1 % 2)] += 1;
            let back = nat.packet(0, &packet(protocol, PEER, external));
            let to = back.sent.map(|sent| (sent.dst, sent.dst_port));
            if (back.core, to) != (out.core, Ok(inside)) {
                return Err(format!("{inside:?} of core {} is answered at {back:?}", out.core));
            }
            let error = nat.packet(0, &error_about(protocol, external));
            let to = error.sent.map(|sent| (sent.dst, sent.dst_port));
            if (error.core, to) != (out.core, Ok(inside)) {
                return Err(format!("{inside:?} of core {} hears of an error at {error:?}", out.core));
            }
        }
        if given.len() != all {
            return Err(format!("{} of {all} ports were given", given.len()));
        }
        // Each core has its share, of either parity, to within a factor of two.
        let fair = all / cores / 2;
        if shares.iter().flatten().any(|share| *share < fair / 2 || *share > fair * 2) {
            return Err(format!("unfair: {shares:?}"));
        }
    }
    nat.invariant()
}

#[test]
fn every_port_is_one_core_s_and_its_answers_come_there() {
    for cores in [1, 2, 3, 4, 8] {
        assert_eq!(exhaust(cores, PORTS, &EXTERNAL, Fault::None), Ok(()), "{cores} cores");
    }
    assert_eq!(exhaust(8, [1, 65_535], &EXTERNAL[..1], Fault::None), Ok(()));
}

#[test]
fn ports_that_are_divided_wrongly_are_seen() {
    for fault in [Fault::NotDivided, Fault::DividedOtherwise] {
        assert!(exhaust(1, PORTS, &EXTERNAL, fault).is_ok(), "one core has all");
        for cores in [2, 4, 8] {
            assert!(exhaust(cores, PORTS, &EXTERNAL, fault).is_err(), "{fault:?}, {cores} cores");
        }
    }
}

/// Where addresses alone are hashed, an external address is one core's, and hosts take those of theirs.
#[test]
fn hosts_take_an_address_of_their_core() {
    let options = Options {
        external: (1..=64).map(|last| format!("203.0.113.{last}")).collect(),
        ports: [1024, 1055].to_vec(),
        ..Options::default()
    };
    let nat = Nat::new(options).expect("good options");
    let by_source = FunctionShape {
        name: "f",
        sharding: nf::SrcAddr::SHARDING,
        edits: wire::Fields::empty(),
        has_sides: false,
    };
    let spread = RefCell::new(Rss::new(HashFields::derive(&[by_source]).expect("shardable"), 4, 128));
    let mut pools = (Nat::EXTRAS.pool.divide)(&nat, 4, &|headers| core_of(&nat, &spread, headers));
    for number in 0..400 {
        let (out, mut edits) = (packet(protocol::UDP, host(number), PEER), Edits::NONE);
        let core = core_of(&nat, &spread, &out);
        let mut events = [0; Nat::ABOUT.events.len()];
        let meta = Nat::project(&out).expect("IPv4");
        let mut cx = Cx::new(Stamp::default(), &mut edits, &mut pools[core], &mut events, 0);
        assert_eq!(nat.step(&mut None, &meta, &mut cx), Verdict::Forward, "{number}");
        let mut sent = out;
        edits.apply_to_headers(&mut sent);
        assert_eq!(core_of(&nat, &spread, &packet(protocol::UDP, PEER, (sent.src, sent.src_port))), core);
    }
}

/// RFC 4787 REQ-9 where the two ends are mapped by different cores.
#[test]
fn hairpinned_packets_find_mappings_of_other_cores() {
    let mut nat = Cores::new(4, PORTS, &EXTERNAL, Fault::None);
    let mut mapped = Vec::new();
    for number in 0..64 {
        let out = nat.packet(0, &packet(protocol::UDP, host(number), PEER));
        let sent = out.sent.expect("a port");
        mapped.push((host(number), (sent.src, sent.src_port), out.core));
    }
    let mut across = 0;
    for (a, a_external, a_core) in &mapped {
        for (b, b_external, b_core) in &mapped {
            let answer = nat.packet(1, &packet(protocol::UDP, *a, *b_external));
            let sent = answer.sent.expect("both are mapped");
            assert_eq!(answer.core, *a_core);
            assert_eq!(((sent.src, sent.src_port), (sent.dst, sent.dst_port)), (*a_external, *b));
            across += usize::from(a_core != b_core);
        }
    }
    assert!(across > 2_000, "{across} of 4,096 went from one core's to another's");
}

/// One core maps and unmaps two endpoints while another looks up: what is read was written so. They go on until many
/// look-ups met a mapping, and the one and then the other.
#[test]
fn an_entry_is_never_read_by_halves() {
    let Cores { nat, mut cores, .. } = Cores::new(2, [1024, 1031], &EXTERNAL[..1], Fault::None);
    let (mut owner, mut reader) = (cores.remove(0).pool, cores.remove(0).pool);
    const READ: u32 = 200_000;
    const TURNS: u32 = 100;
    const AT_MOST: Duration = Duration::from_secs(60);
    let ends = [(Addr::v4([10, 0, 0, 0]), 0x0000), (Addr::v4([10, 255, 255, 255]), 0xffff)];
    let is_over = AtomicBool::new(false);
    let (read, turns) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !is_over.load(Ordering::Relaxed) {
                let (mut edits, mut events) = (Edits::NONE, [0; Nat::ABOUT.events.len()]);
                let stamp = Stamp { seq: round, time_ns: 0 };
                let meta =
                    Nat::project(&packet(protocol::UDP, ends[round as usize % 2], PEER)).expect("IPv4");
                let mut flow = None;
                nat.step(&mut flow, &meta, &mut Cx::new(stamp, &mut edits, &mut owner, &mut events, 0));
                (Nat::EXTRAS.pool.gone)(&nat, &Nat::key(&meta), &flow.expect("a port"), &mut owner);
                round += 1;
            }
        });
        // The owner ends with the reader, also where this panics.
        let _over = Over(&is_over);
        let (mut read, mut turns, mut last) = ([0_u32; 2], 0, None);
        let begin = Instant::now();
        while (turns < TURNS || read.iter().sum::<u32>() < READ) && begin.elapsed() < AT_MOST {
            for port in 1024..1032 {
                let (mut edits, mut events) = (Edits::NONE, [0; Nat::ABOUT.events.len()]);
                let inbound = packet(protocol::UDP, PEER, (Addr::v4(EXTERNAL[0]), port));
                let meta = Nat::project(&inbound).expect("IPv4");
                let mut cx = Cx::new(Stamp::default(), &mut edits, &mut reader, &mut events, 0);
                if nat.step(&mut None, &meta, &mut cx) == Verdict::Forward {
                    let mut sent = inbound;
                    edits.apply_to_headers(&mut sent);
                    let end = ends.iter().position(|end| *end == (sent.dst, sent.dst_port));
                    let end = end.unwrap_or_else(|| panic!("neither end: {sent:?}"));
                    read[end] += 1;
                    turns += u32::from(last.replace(end).is_some_and(|last| last != end));
                }
            }
        }
        (read, turns)
    });
    let is_enough = turns >= TURNS && read.iter().sum::<u32>() >= READ;
    assert!(is_enough, "{read:?} look-ups met a mapping, the other than before {turns} times");
}

/// Sets the flag when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// An inside endpoint sends to the outside.
    Out(u8, u8),
    /// A host outside sends to an external port.
    In(u16),
    /// An inside endpoint sends to an external port.
    Hairpin(u8, u16),
    /// Nothing, for so many minutes.
    Pause(u8),
}

/// Few ports for more endpoints, so that they run out and are taken again.
const FEW: [u16; 2] = [2000, 2015];

fn happening() -> impl proptest::strategy::Strategy<Value = Happening> {
    let port = FEW[0] - 1..=FEW[1] + 1;
    prop_oneof![
        6 => (0..48_u8, 0..4_u8).prop_map(|(from, to)| Happening::Out(from, to)),
        3 => port.clone().prop_map(Happening::In),
        2 => (0..48_u8, port).prop_map(|(from, to)| Happening::Hairpin(from, to)),
        1 => (0..7_u8).prop_map(Happening::Pause),
    ]
}

/// Plays all of it, and says what does not hold.
fn play(cores: usize, happenings: &[Happening], fault: Fault) -> Result<(), String> {
    let mut nat = Cores::new(cores, FEW, &EXTERNAL[..1], fault);
    let external = Addr::v4(EXTERNAL[0]);
    let inside = |number: u8| (Addr::v4([10, 0, 0, number / 2]), 4000 + u16::from(number) * 3);
    // Whose each external port is, as seen from without, and which core made the mapping.
    let mut owners: BTreeMap<u16, (SrcEndpoint, usize)> = BTreeMap::new();
    let mut now_ns = 0;
    for happening in happenings {
        nat.expire(now_ns);
        owners.retain(|_, (key, _)| nat.is_live(key));
        let arrived = match *happening {
            Happening::Pause(minutes) => {
                now_ns += u64::from(minutes) * 60_000_000_000;
                continue;
            }
            Happening::Out(from, to) => packet(protocol::UDP, inside(from), (PEER.0, u16::from(to))),
            Happening::In(port) => packet(protocol::UDP, PEER, (external, port)),
            Happening::Hairpin(from, port) => packet(protocol::UDP, inside(from), (external, port)),
        };
        let Answer { core, sent } = nat.packet(now_ns, &arrived);
        let fail = |what: &str| Err(format!("{happening:?}: {what}: {sent:?}, {owners:?}"));
        if arrived.dst == external {
            let receiver = owners.get(&arrived.dst_port);
            match (receiver, sent) {
                (None, Err("no-mapping")) | (Some(_), Err("no-port")) => {}
                (Some((owner, maker)), Ok(sent))
                    if (owner.addr, owner.port) == (sent.dst, sent.dst_port)
                        && (*maker == core || !matches!(happening, Happening::In(_))) => {}
                _ => return fail("not to the port's owner, or not on its core"),
            }
        }
        if !matches!(happening, Happening::In(_)) {
            let key = SrcEndpoint::of(&arrived);
            let mapped = owners.iter().find(|(_, (owner, _))| *owner == key).map(|(port, _)| *port);
            match (mapped, sent) {
                (Some(port), Ok(sent)) if (sent.src, sent.src_port) == (external, port) => {}
                (Some(_), Err("no-mapping")) | (None, Err(_)) => {}
                (None, Ok(sent)) if sent.src == external && !owners.contains_key(&sent.src_port) => {
                    owners.insert(sent.src_port, (key, core));
                }
                _ => return fail("the sender's mapping is another's, or has changed"),
            }
        }
        nat.invariant()?;
    }
    Ok(())
}

fn happenings() -> impl proptest::strategy::Strategy<Value = Vec<Happening>> {
    proptest::collection::vec(happening(), 1..300)
}

proptest! {
    /// However packets come: no two live mappings share an external endpoint, a mapping stays what it is
    /// while it lives, and what is sent to it goes to its owner, and to nobody when it is dead.
    #[test]
    fn mappings_are_never_shared_or_mixed_up(
        cores in prop_oneof![Just(1_usize), Just(2), Just(3), Just(4), Just(8)], happenings in happenings(),
    ) {
        prop_assert_eq!(play(cores, &happenings, Fault::None), Ok(()));
    }
}

/// A mapping is dead at its deadline, and its port comes back, whether or not anybody says so.
#[test]
fn nobody_has_to_say_that_a_mapping_is_gone() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..100 {
        let happenings = happenings().new_tree(&mut runner).expect("a play").current();
        for cores in [1, 4] {
            assert_eq!(play(cores, &happenings, Fault::NeverGone), Ok(()));
        }
    }
}

/// A check that cannot fail is a defect: each fault is found by some play of a few hundred.
#[test]
fn planted_faults_are_found() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for fault in [Fault::NotDivided, Fault::DividedOtherwise, Fault::GoneEarly] {
        let found = (0..200).any(|_| {
            let happenings = happenings().new_tree(&mut runner).expect("a play").current();
            play(4, &happenings, fault).is_err()
        });
        assert!(found, "{fault:?}");
    }
}
