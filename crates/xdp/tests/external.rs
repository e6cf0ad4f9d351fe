//! Packets that come with their history, from a sequencer outside: they go where they belong, all is the interpreter's, and what is wrong
//! is dropped for its reason.

use p4::interpret::Machine;
use paceline_xdp::live::LiveError;
use paceline_xdp::load::{LoadError, Loaded, Received};
use paceline_xdp::sequencing::Sequencing;
use paceline_xdp::{Compiled, Strategy, verdict};
use sequencer::ETHERNET_LEN;

use crate::common::{EXAMPLES, compiled, example, object, random_packets};
use crate::rig::{Outcome, PACED, Rig};

/// A program that takes packets with history, for so many cores; nothing, with a word why, where this process has no rights.
fn receiving<'a>(compiled: &'a Compiled, object: &[u8], cores: u16) -> Option<Loaded<'a>> {
    match paceline_xdp::trial::load_receiving(compiled, object, cores) {
        Ok(loaded) => Some(loaded),
        Err(LoadError::NoRights(why)) => {
            eprintln!("skipped: no rights to load BPF programs: {why}");
            None
        }
        Err(error) => panic!("{}: {error}", compiled.name),
    }
}

#[test]
fn packets_with_history_equal_the_interpreter() {
    all_equal("external", [("scr/token_bucket", 3, true), ("scr/ddos", 2, false), ("scr/ddos", 1, true)]);
}

#[test]
fn examples_with_history_equal_the_interpreter() {
    let many = [("port_knocking", 16, false), ("scr/token_bucket", 16, true)];
    all_equal("external-examples", EXAMPLES.map(|name| (name, 3, true)).into_iter().chain(many));
}

fn all_equal(label: &str, programs: impl IntoIterator<Item = (&'static str, u16, bool)>) {
    for (name, cores, has_ethernet) in programs {
        let program = example(name);
        let compiled = compiled(&program, Strategy::Scr);
        let Some(object) = object(&compiled, label) else { return };
        let Some(loaded) = receiving(&compiled, &object, cores) else { return };
        let mut sequencing = Sequencing::new(&compiled, cores.into(), has_ethernet).expect("few cores");
        let mut machine = Machine::new(program.clone());
        let outer = if has_ethernet { ETHERNET_LEN } else { 0 };
        for (number, packet) in random_packets(29, 800).into_iter().enumerate() {
            let (_, frame) = sequencing.next(packet.port, &packet.bytes, packet.time_ns);
            let Received::Packet(taken) = loaded.receive(frame).expect("the map") else {
                panic!("{name}, {number}")
            };
            assert_eq!(taken, frame[outer..], "{name}, {number}: the outer header is gone, and nothing else");
            let out = loaded.packet(&taken, 1).expect("it is taken").out;
            let expected = machine.packet(packet.port, &packet.bytes, packet.time_ns).into_iter().next();
            assert_eq!(out, expected.map(|output| (output.port, output.bytes)), "{name}, {number}");
        }
        for core in 0..cores {
            let (_, flush) = sequencing.flush(core.into());
            let flush = flush.to_vec();
            assert_eq!(loaded.receive(&flush).expect("the map"), Received::Flush, "{name}");
            loaded.flush(&flush[outer..], 1).expect("it is stepped");
            let differs = verdict::state_differs(&machine, &loaded, core.into()).expect("the maps");
            assert_eq!(differs, None, "{name}, core {core}");
        }
    }
}

#[test]
fn what_is_wrong_is_dropped_for_its_reason() {
    let program = example("scr/port_knocking");
    let compiled = compiled(&program, Strategy::Scr);
    let Some(object) = object(&compiled, "external-wrong") else { return };
    let Some(loaded) = receiving(&compiled, &object, 3) else { return };
    let mut sequencing = Sequencing::new(&compiled, 3, false).expect("few cores");
    let packets = random_packets(31, 8);
    let frames: Vec<Vec<u8>> = packets
        .iter()
        .map(|packet| sequencing.next(packet.port, &packet.bytes, packet.time_ns).1.to_vec())
        .collect();
    let said = |bytes: &[u8]| loaded.receive(bytes).expect("the map");
    let changed = |at: usize, value: u8| {
        let mut bytes = frames[7].clone();
        bytes[at] = value;
        said(&bytes)
    };
    for (at, value, why) in [
        (0, b'p', "not-history"),
        (4, 2, "version"),
        (5, 2, "flags"),
        (5, 1, "link-type"),
        (31, 0x55, "other-layout"),
        (33, 0x55, "item-length"),
        (35, 3, "other-ring"),
        (35, 64, "other-ring"),
        (37, 3, "count-beyond-ring"),
        (15, 1, "count-beyond-ring"),
        (39, 2, "oldest-misplaced"),
        (41, 3, "other-core"),
        (41, 255, "other-core"),
    ] {
        assert_eq!(changed(at, value), Received::Rejected(why), "byte {at}");
    }
    assert_eq!(said(&frames[7][..47]), Received::Rejected("header-truncated"));
    assert_eq!(said(&frames[7][..48 + 13]), Received::Rejected("ring-truncated"));
    assert_eq!(said(&packets[0].bytes), Received::Rejected("not-history"));
    assert!(matches!(said(&frames[4]), Received::Packet(_)));
    assert_eq!(said(&frames[4]), Received::Rejected("sequence-goes-back"));
    assert_eq!(said(&frames[1]), Received::Rejected("sequence-goes-back"));
    // Those of other cores are behind nothing.
    assert!(matches!(said(&frames[3]), Received::Packet(_)));
    let counted: u64 = loaded.outside().expect("the map").rejected.iter().sum();
    assert_eq!(counted, 18);
}

/// Sends packets with their history through a program between namespaces, after a change of its C; each packet of `twice` twice.
fn outcome(label: &str, twice: u64, change: &dyn Fn(String) -> String) -> Option<Outcome> {
    let program = example("scr/token_bucket");
    let mut compiled = compiled(&program, Strategy::Scr);
    compiled.c = change(compiled.c);
    let object = object(&compiled, &format!("live-{label}"))?;
    let rig = Rig::new(label)?;
    let mut sequencing = Sequencing::new(&compiled, 2, true).expect("few cores");
    let mut frames: Vec<Vec<u8>> = Vec::new();
    let packets = random_packets(37, 3000);
    for (number, packet) in (0..).zip(&packets) {
        let frame = sequencing.next(0, &packet.bytes, packet.time_ns).1.to_vec();
        let times = if number % 100 < twice { 2 } else { 1 };
        frames.extend(std::iter::repeat_n(frame, times));
    }
    frames.extend((0..2).map(|core| sequencing.flush(core).1.to_vec()));
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32).min(2);
    let cpus: Vec<u32> = (0..2).map(|replica| replica % cpus).collect();
    let mut live = match rig.start_sequenced(&compiled, &object, &cpus, 2048, packets.len() as u32) {
        Err(LiveError::Load(LoadError::NoRights(why))) => {
            eprintln!("skipped: no rights to load BPF programs: {why}");
            return None;
        }
        started => started.unwrap_or_else(|error| panic!("{error}")),
    };
    let outcome = rig.run(&program, &mut live, &frames, &PACED).expect("the maps");
    println!("{:?} {:?}\n{}", outcome.sequenced, outcome.counts.outside, outcome.verdict);
    Some(outcome)
}

#[test]
fn packets_with_history_between_namespaces_equal_the_interpreter() {
    let Some(outcome) = outcome("outside", 3, &|c| c) else { return };
    assert!(outcome.verdict.is_equal(), "{}", outcome.verdict);
    assert_eq!((outcome.sequenced.packets, outcome.counts.outside.flushes), (3000, 2));
    let reasons: Vec<_> = outcome.counts.outside.reasons().collect();
    assert_eq!(reasons, [("sequence-goes-back", 90)], "what comes twice is taken once");
    assert!(outcome.progress.iter().all(|progress| progress.next == 3000 && progress.missed == 0));
}

#[test]
fn packets_that_are_taken_twice_are_found() {
    let plant = |c: String| {
        let check = "h.sequence < o->behind[replica]";
        assert!(c.contains(check));
        c.replace(check, "0")
    };
    let Some(outcome) = outcome("outside-twice", 30, &plant) else { return };
    assert!(!outcome.verdict.is_equal(), "{}", outcome.verdict);
}
