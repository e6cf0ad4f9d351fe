//! Random programs on the pipelines, beside an interpreter of their syntax trees. The reference that `emulate --check`
//! asks has the front end in common with what it checks; this one has nothing.

use std::sync::atomic::AtomicBool;

use p4::interpret::Output;
use paceline_pipeline::compiled::{Watcher, emulate_p4};
use paceline_pipeline::{Consistency, Model, Options, WhenFull};

use crate::support::*;
use crate::tree::Tree;
use crate::tree::random::random;

/// Programs, each of which its seed names.
const PROGRAMS: u64 = 300;

/// What leaves for each packet.
#[derive(Debug, Default)]
struct Sent(Vec<Vec<(u16, Vec<u8>)>>);

impl Watcher for Sent {
    fn wants_outputs(&self) -> bool {
        true
    }

    fn departed(&mut self, number: u64, outputs: Vec<Output>, _: &dyn Fn(usize) -> Option<u64>) {
        self.0[number as usize] = outputs.into_iter().map(|out| (out.port, out.bytes)).collect();
    }
}

fn sent(subject: &Subject, model: &Model, frames: &[Frame]) -> Sent {
    let options = Options { when_full: WhenFull::Stall, ..every_cycle() };
    let mut sent = Sent(vec![Vec::new(); frames.len()]);
    let stop = AtomicBool::new(false);
    emulate_p4(&subject.image, model, &options, &inputs(frames), &mut sent, &stop).expect("a run");
    sent
}

#[test]
fn random_programs_are_what_their_trees_are() {
    let models = [rapid(Consistency::Strict), Model::named("blocking").expect("a model")];
    let mut ran = 0;
    for seed in 0..PROGRAMS {
        let random = random(seed);
        let program = lowered_text("random.p4", &random.source);
        // What no pipeline can do is refused, and is none of this test's business.
        let Ok(subject) = Subject::new(program, &random.test_file()) else { continue };
        let mut tree = Tree::new(&random.source);
        random.entries.iter().for_each(|(table, entry)| tree.add(table, entry.clone()));
        let expected: Vec<_> = random.packets.iter().map(|(port, bytes)| tree.packet(*port, bytes)).collect();
        let frame = |(port, bytes): &(u16, Vec<u8>)| Frame { port: *port, bytes: bytes.clone(), time_ns: 0 };
        let frames: Vec<Frame> = random.packets.iter().map(frame).collect();
        for model in &models {
            let found = sent(&subject, model, &frames).0;
            let (test, source) = (random.test_file(), &random.source);
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let packet = &random.packets[at];
                let what = format!("seed {seed}, {}, packet {at} {packet:02x?}", model.name());
                assert_eq!(found, expected, "{what}\n{test}\n{source}");
            }
        }
        ran += 1;
    }
    assert!(ran > 100, "{ran} programs ran");
}
