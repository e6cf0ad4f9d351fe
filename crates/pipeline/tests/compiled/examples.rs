//! The programs of examples/p4, on all models, over captures and over packets that exercise them.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use paceline_pipeline::{Consistency, Model, Options, RapidOptions};

use crate::support::*;

/// Packets of a capture that a test takes which is not asked for all.
const SOME: usize = 10_000;

/// Each packet's output, each state and the order of each flow are the reference's.
fn agrees(name: &str, model: &Model, frames: &[Frame]) -> u64 {
    subject_agrees(name, &Subject::example(name), model, frames)
}

fn subject_agrees(name: &str, subject: &Subject, model: &Model, frames: &[Frame]) -> u64 {
    let (report, differences) = run(subject, model, &every_cycle(), frames);
    assert!(differences.is_equal(), "{name} on {}: {differences:?}", model.name());
    assert_eq!((differences.compared, differences.lost), (frames.len() as u64, 0), "{name}");
    report.resubmissions
}

/// The load balancer serves what the packets ask for: entries for where SYNs go, one pool for all.
fn services(name: &str, frames: &[Frame]) -> String {
    let is_syn = |bytes: &[u8]| {
        bytes.len() > 47 && bytes[12..15] == [8, 0, 0x45] && bytes[23] == 6 && bytes[47] & 0x12 == 2
    };
    let asked = frames.iter().map(|frame| &frame.bytes[..]).filter(|bytes| is_syn(bytes) && name == "nat_lb");
    let asked: BTreeSet<([u8; 4], u16)> = asked
        .map(|bytes| ([30, 31, 32, 33].map(|at| bytes[at]), u16::from_be_bytes([bytes[36], bytes[37]])))
        .collect();
    let entry = |(address, port): &([u8; 4], u16)| {
        let address = Ipv4Addr::from(*address);
        format!("\nadd services hdr.ipv4.dst_addr:{address} hdr.tcp.dst_port:{port} use_pool(5)")
    };
    asked.iter().take(200).map(entry).collect()
}

fn models() -> [Model; 2] {
    [rapid(Consistency::Strict), Model::named("blocking").expect("a model")]
}

fn over_captures(most: usize) {
    for (_, trace) in captures() {
        let frames = frames_of(&trace, most);
        for name in EXAMPLES {
            let subject = Subject::new(lowered(name), &(entries(name) + &services(name, &frames)));
            let subject = subject.unwrap_or_else(|error| panic!("{name}: {error}"));
            models().iter().for_each(|model| {
                subject_agrees(name, &subject, model, &frames);
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
    for (name, model) in [("elephant", "banzai"), ("elephant", "flowblaze"), ("mac_learning", "banzai")] {
        let frames = repeated(&stf_frames(name), 40);
        agrees(name, &Model::named(model).expect("a model"), &frames);
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
        let said = refusal(name, "pisa");
        assert!(said.contains("ingress.") && said.contains("is written by packets"), "{said}");
    }
    for model in ["banzai", "flowblaze"] {
        let said = refusal("nat_lb", model);
        assert!(said.contains("muTable ingress.connections (nat_lb.p4:"), "{said}");
        assert!(said.contains("is read in stage 3 and written from stage 4"), "{said}");
    }
}

/// Packets that wait for one flow cannot wait for two.
#[test]
fn a_second_key_is_refused_where_packets_wait() {
    let model = Model::named("flowblaze").expect("a model");
    let said = try_run(&Subject::example("mac_learning"), &model, &every_cycle(), &[]).expect_err("refused");
    let said = said.to_string();
    assert!(said.contains("muTable ingress.stations (mac_learning.p4:"), "{said}");
    assert!(said.contains("is read under two keys by one packet"), "{said}");
}
