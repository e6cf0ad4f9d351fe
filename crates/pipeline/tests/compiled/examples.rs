//! The programs of examples/p4, on all models, over captures and over packets that exercise them.

use paceline_pipeline::{Consistency, Model, Options, RapidOptions};

use crate::support::*;

/// Packets of a capture that a test takes which is not asked for all.
const SOME: usize = 10_000;

/// Each packet's output, each state and the order of each flow are the reference's.
fn agrees(name: &str, model: &Model, frames: &[Frame]) -> u64 {
    let (report, differences) = run(&Subject::example(name), model, &every_cycle(), frames);
    assert!(differences.is_equal(), "{name} on {}: {differences:?}", model.name());
    assert_eq!((differences.compared, differences.lost), (frames.len() as u64, 0), "{name}");
    report.resubmissions
}

fn models() -> [Model; 2] {
    [rapid(Consistency::Strict), Model::named("blocking").expect("a model")]
}

fn over_captures(most: usize) {
    for (_, trace) in captures() {
        let frames = frames_of(&trace, most);
        for name in EXAMPLES {
            models().iter().for_each(|model| {
                agrees(name, model, &frames);
            });
        }
    }
}

#[test]
fn captures_agree() {
    over_captures(SOME);
}

#[test]
#[ignore = "takes a minute"]
fn whole_captures_agree() {
    over_captures(usize::MAX);
}

/// The packets of the test files follow each other in every cycle, so that flows speculate and fail.
#[test]
fn packets_that_exercise_a_program_agree() {
    let mut sent_back = 0;
    for name in EXAMPLES {
        let frames = repeated(&stf_frames(name), 40);
        for model in models() {
            sent_back += agrees(name, &model, &frames);
        }
    }
    assert!(sent_back > 1_000, "only {sent_back} packets were ever done over");
}

/// What is lost is lost before it has changed anything: the rest is the reference's.
#[test]
fn what_is_not_lost_agrees() {
    let small =
        RapidOptions { phv_buffer: 2, resubmitted_buffer: 1, dirty_table: 2, ..RapidOptions::default() };
    let model = Model::Rapid(RapidOptions { consistency: Some(Consistency::Strict), ..small });
    let options = Options { line: every_cycle().line, ..Options::default() };
    for name in ["port_knocking", "stateful_firewall", "token_bucket"] {
        let frames = repeated(&stf_frames(name), 40);
        let (_, differences) = run(&Subject::example(name), &model, &options, &frames);
        assert!(differences.is_equal(), "{name}: {differences:?}");
        assert!(differences.lost > 0, "{name}: nothing was lost");
    }
}

#[test]
fn models_of_one_stage_run_what_has_one() {
    let frames = repeated(&stf_frames("elephant"), 40);
    for model in ["banzai", "flowblaze"] {
        agrees("elephant", &Model::named(model).expect("a model"), &frames);
    }
}

/// What a model cannot do is said by the program's own names.
#[test]
fn what_a_model_cannot_do_is_refused_by_name() {
    let refusal = |name: &str, model: &str| {
        let model = Model::named(model).expect("a model");
        let error = try_run(&Subject::example(name), &model, &every_cycle(), &[]);
        error.expect_err("refused").to_string()
    };
    for name in EXAMPLES {
        assert!(refusal(name, "pisa").contains("muTable ingress."), "{name}");
    }
    for model in ["banzai", "flowblaze"] {
        let said = refusal("nat_lb", model);
        assert!(said.contains("muTable ingress.connections (nat_lb.p4:"), "{said}");
        assert!(said.contains("is read in stage 1 and written from stage 3"), "{said}");
    }
}

/// A switch that learns looks one table up under two addresses.
#[test]
fn two_keys_are_refused_by_name() {
    let error = Subject::new(lowered("mac_learning"), &entries("mac_learning")).expect_err("refused");
    let said = error.to_string();
    assert!(said.starts_with("muTable ingress.stations (mac_learning.p4:"), "{said}");
    assert!(
        said.contains("used at mac_learning.p4:") && said.contains("is used twice by one packet"),
        "{said}"
    );
}
