//! A stage's memory that is read under two keys, and one that no packet writes.

use p4::ir::Program as IrProgram;
use p4::passes;
use paceline_pipeline::compiled::{Compiled, State};
use paceline_pipeline::{Consistency, Model, Options, Program, RapidOptions, TableSpec, WhenFull};
use proptest::prelude::*;

use crate::adverse::{ALL, Case, Shown, case, frames, witness};
use crate::planted::{early, unasked};
use crate::support::*;

/// A frame between two of few stations, by one of four ports.
fn frame((from, to, port): (u8, u8, u16)) -> Frame {
    let mut bytes = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5];
    bytes.resize(60, 0);
    Frame { port, bytes, time_ns: 0 }
}

fn talk() -> impl Strategy<Value = Vec<Frame>> {
    let packets = prop::collection::vec((0_u8..5, 0_u8..5, 0_u16..4), 1..200);
    packets.prop_map(|packets| packets.into_iter().map(frame).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Stations that speak to each other and to themselves, and that move, in every cycle: all in one cycle is learned
    /// by the next.
    #[test]
    fn stations_are_learned_from_packet_to_packet(frames in talk()) {
        let subject = Subject::example("mac_learning");
        for model in ["rapid", "blocking", "banzai"] {
            let (_, found) = run(&subject, &Model::named(model).expect("a model"), &every_cycle(), &frames);
            prop_assert!(found.is_equal(), "{model}: {found:?}");
        }
    }
}

/// A register that counts under one key and shows what another key has, both of which the packet names; behind a
/// statement of the witness.
fn two_keys(behind: &str, second: &str, then: &str, compile: fn(&mut IrProgram)) -> Subject {
    let asked = format!(
        "{behind}
         sums.read(meta.other, {second});
         sums.read(meta.own, (bit<32>) hdr.h.tag[2:0]);
         if (hdr.h.updates == 1) {{ sums.write((bit<32>) hdr.h.tag[2:0], meta.own + meta.other + 1); }}
         hdr.h.tag = meta.other;
         {then}"
    );
    let text = witness(ALL, 3)
        .replacen("muTable flows", "register<bit<32>>(8) sums; muTable flows", 1)
        .replacen("struct metadata {", "struct metadata { bit<32> own; bit<32> other;", 1)
        .replacen(behind, &asked, 1);
    Subject::compiled_by(lowered_text("keys.p4", &text), "", compile).expect("a program")
}

const BEFORE: &str = "standard.egress_spec = 1;";

fn shown(packets: &[(u32, u32)]) -> Vec<Frame> {
    frames(
        &packets
            .iter()
            .map(|(key, tag)| Shown { key: *key, tag: *tag, updates: tag % 3 != 0 })
            .collect::<Vec<_>>(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Flows share the registers, and some packets wait for their flow: the registers are asked before that, in the
    /// order of arrival.
    #[test]
    fn what_flows_share_is_asked_in_order_of_arrival(case in case()) {
        let Case { model, options, packets, .. } = case;
        let options = Options { when_full: WhenFull::Stall, ..options };
        let subject = two_keys(BEFORE, "(bit<32>) hdr.h.tag[5:3]", "", passes::compile);
        for model in [Model::Rapid(model), Model::named("blocking").expect("a model")] {
            let (_, found) = run(&subject, &model, &options, &frames(&packets));
            prop_assert!(found.is_equal() && found.lost == 0, "{}: {found:?}", model.name());
        }
    }
}

/// A counter and a register that are asked where the flow's state says so.
fn counted(compile: fn(&mut IrProgram)) -> Subject {
    let asked = "hdr.h.seen = flows.read(hdr);
         if (hdr.h.seen[1:0] == 1) {
             counts.count((bit<32>) hdr.h.key[1:0]);
             sums.read(meta.sum, (bit<32>) hdr.h.key[2:0]);
             sums.write((bit<32>) hdr.h.key[2:0], meta.sum + 1);
         }";
    let objects = "counter(4, CounterType.packets) counts; register<bit<32>>(8) sums; muTable flows";
    let text = witness(ALL, 2)
        .replacen("muTable flows", objects, 1)
        .replacen("struct metadata {", "struct metadata { bit<32> sum;", 1)
        .replacen("hdr.h.seen = flows.read(hdr);", asked, 1);
    Subject::compiled_by(lowered_text("counted.p4", &text), "", compile).expect("a program")
}

/// In the span it is refused by RAPID, which would ask for a stale state's packets twice; behind it it is exact.
#[test]
fn what_depends_on_a_state_waits_for_its_write() {
    let error =
        try_run(&counted(early), &rapid(Consistency::Strict), &every_cycle(), &[]).expect_err("refused");
    assert!(
        error.to_string().contains("lies between the read and the write of muTable ingress.flows"),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn what_depends_on_a_state_is_asked_once(case in case()) {
        let Case { model, options, packets, .. } = case;
        let subject = counted(passes::compile);
        let (_, found) = run(&subject, &Model::Rapid(model), &options, &frames(&packets));
        prop_assert!(found.is_equal(), "{found:?}");
    }
}

/// A packet that is done over keeps what its second key gave when it came by, as it keeps what the first gave.
#[test]
fn a_second_key_within_a_span_is_asked_once() {
    let subject = two_keys(BEFORE, "(bit<32>) hdr.h.tag[2:0] ^ 1", "", early);
    // One flow, so that all but the first are done over.
    let packets: Vec<(u32, u32)> = (1..40).map(|tag| (7, tag)).collect();
    let (report, found) = run(&subject, &rapid(Consistency::Strict), &every_cycle(), &shown(&packets));
    assert!(report.resubmissions > 0);
    assert!(found.is_equal(), "{found:?}");
}

/// A second key that depends on the state of a flow, and that the write waits for, is refused as a first one is.
#[test]
fn a_second_key_that_follows_the_state_is_refused() {
    let subject = two_keys(
        "first.apply();",
        "meta.first & 7",
        "meta.first = meta.first + meta.other;",
        passes::compile,
    );
    let said = try_run(&subject, &rapid(Consistency::Strict), &every_cycle(), &[]).expect_err("refused");
    assert!(said.to_string().contains("register ingress.sums"), "{said}");
}

/// A second port that reads what the first key has.
struct Crossed<'a>(Compiled<'a, 128>);

impl Program for Crossed<'_> {
    type Phv = [u64; 128];
    type State = State;

    fn name(&self) -> &str {
        self.0.name()
    }

    fn stages(&self) -> usize {
        self.0.stages()
    }

    fn tables(&self) -> &[TableSpec] {
        self.0.tables()
    }

    fn key(&self, table: usize, phv: &[u64; 128]) -> Option<u64> {
        self.0.key(self.tables()[table].port_of.unwrap_or(table), phv)
    }

    fn read(&self, table: usize, state: &State, phv: &mut [u64; 128]) {
        self.0.read(table, state, phv);
    }

    fn step(&self, stage: usize, phv: &mut [u64; 128]) {
        self.0.step(stage, phv);
    }

    fn write(&self, table: usize, phv: &[u64; 128]) -> Option<State> {
        self.0.write(table, phv)
    }

    fn output(&self, phv: &[u64; 128]) -> u64 {
        self.0.output(phv)
    }
}

#[test]
fn a_port_that_reads_under_the_wrong_key_is_found() {
    let subject = Subject::example("mac_learning");
    let frames = repeated(&stf_frames("mac_learning"), 3);
    let program = Compiled::<128>::new(&subject.image);
    let found = unasked(&subject, &program, &program, &frames);
    assert!(found.is_equal(), "{found:?}");
    let found = unasked(&subject, &program, &Crossed(Compiled::new(&subject.image)), &frames);
    assert!(found.packets > 0, "{found:?}");
}

/// What no packet writes is read anew by a packet that is done over, under the key that it has by then.
#[test]
fn what_no_packet_writes_is_read_again() {
    let text = witness(ALL, 3)
        .replacen(
            "muTable flows",
            "muTable known { keys = { meta.first; } values = { bit<32> name; } type = direct; size = 64; }
             muTable flows",
            1,
        )
        .replacen("struct metadata {", "struct metadata { bit<32> name;", 1)
        .replacen("second.apply();", "meta.name = known.read(hdr); hdr.h.tag = meta.name; second.apply();", 1)
        .replacen(ALL, "(hdr.h.seen + 1) & 63", 1);
    let entries: String = (0..64).map(|at| format!("add known meta.first:{at} = {}\n", at * 3 + 1)).collect();
    let subject = Subject::new(lowered_text("known.p4", &text), &entries).expect("a program");
    let packets = shown(&(1..40).map(|tag| (7, tag)).collect::<Vec<_>>());
    let model = RapidOptions { consistency: Some(Consistency::Strict), ..RapidOptions::default() };
    let (report, found) = run(&subject, &Model::Rapid(model), &every_cycle(), &packets);
    assert!(report.resubmissions > 0);
    assert!(found.is_equal(), "{found:?}");
}
