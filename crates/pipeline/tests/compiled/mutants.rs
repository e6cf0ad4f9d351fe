//! Examples with words changed: what compiles does what the reference does.

use std::fs;
use std::sync::atomic::AtomicBool;

use p4::interpret::Machine;
use p4::{passes, stf};
use paceline_pipeline::compiled::{Check, Image, RunError, emulate_p4};
use paceline_pipeline::{Consistency, Model};
use proptest::prelude::*;

use crate::support::*;

/// Those whose state is all in one muTable: packets of different flows do not meet anywhere.
const ONE_TABLE: [&str; 4] = ["port_knocking", "stateful_firewall", "token_bucket", "elephant"];

/// A text with one of its words in the place of another.
fn mutant(text: &str, from: usize, to: usize) -> String {
    let mut words: Vec<&str> = text.split_inclusive(char::is_whitespace).collect();
    let behind = text.find("control").map_or(0, |at| text[..at].split_inclusive(char::is_whitespace).count());
    let count = words.len() - behind;
    words[behind + to % count] = words[behind + from % count];
    words.concat()
}

/// Whether the mutant ran, and was compared.
fn survive(name: &str, from: usize, to: usize) -> Result<bool, String> {
    let path = root().join("examples/p4").join(name).with_extension("p4");
    let text = mutant(&fs::read_to_string(&path).expect("an example"), from, to);
    let lowered = p4::lower(&path.display().to_string(), &text, &p4::Options::default());
    let Ok((program, _)) = lowered else { return Ok(false) };
    let mut compiled = program.clone();
    passes::compile(&mut compiled);
    let machine = |program| {
        let mut machine = Machine::new(program);
        stf::run(&mut machine, &entries(name)).is_ok().then_some(machine)
    };
    let (Some(reference), Some(compiled)) = (machine(program), machine(compiled)) else { return Ok(false) };
    let Ok(image) = Image::new(compiled) else { return Ok(false) };
    let frames = repeated(&stf_frames(name), 6);
    let packets = inputs(&frames);
    for model in [rapid(Consistency::Strict), Model::named("blocking").expect("a model")] {
        let mut check = Check::new(&image);
        let outcome =
            match emulate_p4(&image, &model, &every_cycle(), &packets, &mut check, &AtomicBool::new(false)) {
                Ok(outcome) => outcome,
                Err(RunError::Unsupported { .. }) => return Ok(false),
                Err(error) => return Err(error.to_string()),
            };
        // Where a table is full, it depends on the order who finds room.
        if outcome.report.states_refused.is_empty() {
            let found = check.finish(&image, reference.clone(), &packets, &outcome);
            if !found.is_equal() {
                return Err(format!("{}: {found:?}\n{text}", model.name()));
            }
        }
    }
    Ok(true)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn mutants_agree(example in 0..ONE_TABLE.len(), from in any::<usize>(), to in any::<usize>()) {
        let survived = survive(ONE_TABLE[example], from, to);
        prop_assert!(survived.is_ok(), "{}", survived.unwrap_err());
    }
}

/// Enough of them compile for the above to say something.
#[test]
fn many_mutants_run() {
    let runs = (0..100).filter(|at| survive("stateful_firewall", at * 31, at * 17) == Ok(true)).count();
    assert!(runs > 10, "only {runs} of 100");
}
