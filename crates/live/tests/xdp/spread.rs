//! The core that the XDP program picks for a frame is the engine's, frame by frame, whatever is in the frame.

use std::collections::HashSet;
use std::path::Path;

use io::capture::CaptureReader;
use nf::{Connection, DstAddr, FiveTuple, FlowKey, SrcAddr};
use paceline_live::xdp::{Spread, Steering, XdpProgram};
use paceline_live::{Interface, rights};
use strategy::{Assign, FunctionShape, HashFields, INDIRECTION_SIZES, Rss, SYMMETRIC_KEY, Toeplitz};
use wire::{Fields, LinkType, Marks, parse};

use crate::frames::made_up;
use crate::lab::Namespace;

const CORES: usize = 3;
/// Frames of each capture that are tried.
const OF_CAPTURE: usize = 4_000;
/// Frames that are made up, for each set of fields.
const MADE_UP: usize = 20_000;
/// The longest frame that the kernel takes for a try, with room to spare.
const LONGEST: usize = 3_000;

pub fn fields<K: FlowKey>() -> HashFields {
    let shape = FunctionShape { name: "f", sharding: K::SHARDING, edits: Fields::empty(), has_sides: false };
    HashFields::derive(&[shape]).expect("a key alone can be hashed")
}

pub fn spread(rss: &Rss, fields: HashFields, key: &[u8; 40]) -> Spread {
    // A key of another period has no such table: the first word's then stands for all.
    let hash = Toeplitz::new(key).by_word().expect("a period of 16 bits");
    let cores = 1 + rss.indirection().iter().copied().max().map_or(0, usize::from);
    Spread { cores, fields: fields.fields(), hash, sides: None, owners: rss.indirection().to_vec() }
}

fn program(namespace: &Namespace, spread: Spread) -> XdpProgram {
    let steering = Steering { spread: Some(spread), ..Steering::default() };
    let program = namespace.inside(|| XdpProgram::attach(&Interface::open("a0")?, &steering));
    program.unwrap_or_else(|error| panic!("{error}"))
}

/// Frames for which the program picks another entry than the engine, or another core for it.
fn differing<'a>(
    program: &mut XdpProgram,
    rss: &mut Rss,
    frames: impl Iterator<Item = &'a Vec<u8>>,
) -> Vec<&'a Vec<u8>> {
    let is_other = |frame: &&Vec<u8>| {
        let headers = parse(LinkType::Ethernet, frame, frame.len() as u32);
        let entry = rss.entry(&headers);
        let picked = program.pick(frame).unwrap_or_else(|error| panic!("{error}"));
        picked != (entry, rss.core(entry) as u16)
    };
    frames.filter(is_other).collect()
}

/// Frames of the captures that there are, evenly out of their beginnings.
pub fn captured() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["captures", "../shared/captures"].map(|folder| root.join(folder));
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let mut frames = Vec::new();
    for file in files.map(|file| file.path()).filter(|path| path.to_string_lossy().contains(".pcap")) {
        let mut reader = CaptureReader::open(&file).unwrap_or_else(|error| panic!("{error}"));
        let mut taken = 0;
        while taken < OF_CAPTURE
            && let Some(record) = reader.next().unwrap_or_else(|error| panic!("{error}"))
        {
            taken += 1;
            if record.link == LinkType::Ethernet && (14..LONGEST).contains(&record.data.len()) {
                frames.push(record.data.to_vec());
            }
        }
        println!("{}: {taken} frames", file.display());
    }
    frames
}

/// Golden, and the planted faults: a wrong byte of the key, and an entry of the table that is stale.
#[test]
fn the_program_picks_the_core_that_the_engine_picks() {
    let Some(mut lab) = crate::lab("spread") else { return };
    let namespace = lab.namespace("one");
    lab.pair((&namespace, "a0"), (&namespace, "a1"));
    let captured = captured();
    let both = fields::<Connection>();
    let all = [
        ("connection", both),
        ("5-tuple", fields::<FiveTuple>()),
        ("source", fields::<SrcAddr>()),
        ("destination", fields::<DstAddr>()),
        ("source port", fields::<FiveTuple>().port_alone()),
    ];
    for ((name, fields), entries) in all.into_iter().zip(INDIRECTION_SIZES.into_iter().cycle()) {
        let mut rss = Rss::new(fields, CORES, entries);
        let mut program = program(&namespace, spread(&rss, fields, &SYMMETRIC_KEY));
        let made_up = made_up(0x9e37_79b9_7f4a_7c15 ^ entries as u64, MADE_UP);
        let frames = || captured.iter().chain(&made_up).filter(|frame| frame.len() >= 14);
        let headers = || frames().map(|frame| parse(LinkType::Ethernet, frame, frame.len() as u32));
        let shapes: HashSet<_> =
            headers().map(|headers| headers.malformed().map(|reason| reason.name())).collect();
        let ip = headers().filter(|headers| headers.marks.intersects(Marks::IPV4 | Marks::IPV6)).count();
        let used: HashSet<u16> = headers().map(|headers| rss.entry(&headers)).collect();
        println!(
            "{name}: {} frames, {ip} of IP, {} kinds of them malformed, {} entries",
            frames().count(),
            shapes.len() - 1,
            used.len()
        );
        assert!(shapes.len() > 12 && used.len() > entries / 2, "{shapes:?}");
        let other = differing(&mut program, &mut rss, frames());
        let first = other.first().map(|frame| (frame, parse(LinkType::Ethernet, frame, frame.len() as u32)));
        assert!(other.is_empty(), "{name}: {} frames, such as {first:02x?}", other.len());
    }

    let mut rss = Rss::new(both, CORES, INDIRECTION_SIZES[0]);
    let made_up = made_up(7, 2_000);
    let frames = || made_up.iter().filter(|frame| frame.len() >= 14);
    let mut wrong = SYMMETRIC_KEY;
    wrong.iter_mut().skip(1).step_by(2).for_each(|byte| *byte ^= 1);
    let mut planted = program(&namespace, spread(&rss, both, &wrong));
    assert!(!differing(&mut planted, &mut rss, frames()).is_empty(), "planted: a wrong byte of the key");
    drop(planted);
    let mut planted = program(&namespace, spread(&rss, both, &SYMMETRIC_KEY));
    assert!(differing(&mut planted, &mut rss, frames()).is_empty());
    let frame = &made_up[0];
    let entry = rss.entry(&parse(LinkType::Ethernet, frame, frame.len() as u32));
    let owner = rss.core(entry);
    rss.indirection_mut()[usize::from(entry)] = ((owner + 1) % CORES) as u16;
    assert!(!differing(&mut planted, &mut rss, frames()).is_empty(), "planted: a stale entry");
    planted.set_owner(entry.into(), (owner + 1) % CORES).unwrap_or_else(|error| panic!("{error}"));
    assert!(differing(&mut planted, &mut rss, frames()).is_empty(), "told");
}

/// With the rights that a run keeps for interfaces that come back: the kernel checks programs more strictly then.
#[test]
fn the_program_is_taken_with_the_rights_that_a_run_keeps() {
    let Some(mut lab) = crate::lab("spread-rights") else { return };
    let namespace = lab.namespace("one");
    lab.pair((&namespace, "a0"), (&namespace, "a1"));
    let rss = Rss::new(fields::<Connection>(), CORES, INDIRECTION_SIZES[0]);
    for (sides, is_spread) in [(None, true), (Some(Vec::new()), true), (None, false)] {
        let spread = Spread { sides, ..spread(&rss, fields::<Connection>(), &SYMMETRIC_KEY) };
        let spread = is_spread.then_some(spread);
        let steering = Steering { spread, card_flows: 100, ..Steering::default() };
        let attached = namespace.inside(|| {
            rights::keep(&rights::FOR_INTERFACES)?;
            XdpProgram::attach(&Interface::open("a0")?, &steering)
        });
        let attached = attached.unwrap_or_else(|error| panic!("{error}"));
        assert!(attached.asks_for_tags(), "the program that is bound to the interface, too");
    }
}

#[test]
fn what_the_program_cannot_spread_is_refused() {
    let Some(mut lab) = crate::lab("spread-refused") else { return };
    let namespace = lab.namespace("one");
    lab.pair((&namespace, "a0"), (&namespace, "a1"));
    let rss = Rss::new(fields::<Connection>(), CORES, INDIRECTION_SIZES[0]);
    let whole = spread(&rss, fields::<Connection>(), &SYMMETRIC_KEY);
    for (spread, why) in [
        (Spread { cores: 5_000, ..whole.clone() }, "more than 4096 sockets"),
        (Spread { cores: 2, ..whole.clone() }, "a core that there is not"),
        (Spread { owners: vec![0; 100], ..whole.clone() }, "a table of 100 entries"),
        (Spread { owners: vec![0; 1_024], ..whole.clone() }, "a table of 1024 entries"),
    ] {
        let steering = Steering { spread: Some(spread), ..Steering::default() };
        let attached = namespace.inside(|| XdpProgram::attach(&Interface::open("a0")?, &steering));
        let error = attached.err().expect(why).to_string();
        assert!(error.contains(why), "{error}");
    }
}
