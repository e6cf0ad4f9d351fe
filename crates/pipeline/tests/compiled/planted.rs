//! What the comparison is there to find, planted.

use p4::ir::Program as IrProgram;
use p4::passes::{allocate, dead, fold, rename};
use paceline_pipeline::compiled::{Check, Compiled, Differences, State, Watcher};
use paceline_pipeline::{Consistency, Model, Observer, Packet, Program, emulate};

use crate::adverse::{ALL, Shown, frames, witness};
use crate::support::*;

/// Packets of one flow, all of which update it.
fn updates() -> Vec<Frame> {
    frames(&(1..20).map(|tag| Shown { key: 7, tag, updates: true }).collect::<Vec<_>>())
}

/// A packet that is done over finds its own edits, and hops twice.
#[test]
fn without_renaming_a_difference_is_found() {
    let program = || lowered_text("witness.p4", &witness(ALL, 2));
    let without = |program: &mut _| {
        fold::run(program);
        dead::run(program);
        allocate::run(program);
    };
    let model = rapid(Consistency::Strict);
    let broken = Subject::compiled_by(program(), "", without).expect("a program");
    let (_, found) = run(&broken, &model, &every_cycle(), &updates());
    assert!(found.packets > 0 && found.first.is_some(), "{found:?}");
    let sound = Subject::new(program(), "").expect("a program");
    assert!(run(&sound, &model, &every_cycle(), &updates()).1.is_equal());
}

/// Stale packets that pass are differences too.
#[test]
fn stale_packets_are_found() {
    let subject = Subject::new(lowered_text("witness.p4", &witness(ALL, 2)), "").expect("a program");
    for consistency in [Consistency::Weak, Consistency::BoundedStaleness(2)] {
        let (_, found) = run(&subject, &rapid(consistency), &every_cycle(), &updates());
        assert!(found.packets > 0 && found.state.is_some(), "{found:?}");
    }
}

/// All passes, with states read as early as can be.
pub fn early(program: &mut IrProgram) {
    fold::run(program);
    dead::run(program);
    allocate::run_early(program);
    rename::run(program);
}

/// Read early, a state makes packets wait before they come to what flows share.
#[test]
fn what_flows_share_behind_a_read_is_found() {
    let text = witness(ALL, 2)
        .replacen("muTable flows", "register<bit<32>>(1) shared; muTable flows", 1)
        .replacen("struct metadata {", "struct metadata { bit<32> count;", 1)
        .replacen(
            "standard.egress_spec = 1;",
            "standard.egress_spec = 1; shared.read(meta.count, 0); shared.write(0, meta.count + 1);
             hdr.h.tag = hdr.h.tag + meta.count;",
            1,
        );
    let flows = (0..60).map(|tag| Shown { key: tag % 7 / 3, tag, updates: tag % 3 != 0 });
    let frames = frames(&flows.collect::<Vec<_>>());
    let program = || lowered_text("shared.p4", &text);
    for model in [rapid(Consistency::Strict), Model::named("blocking").expect("a model")] {
        let broken = Subject::compiled_by(program(), "", early).expect("a program");
        let (_, found) = run(&broken, &model, &every_cycle(), &frames);
        assert!(found.packets > 0, "{}: {found:?}", model.name());
        let sound = Subject::new(program(), "").expect("a program");
        assert!(run(&sound, &model, &every_cycle(), &frames).1.is_equal(), "{}", model.name());
    }
}

/// Shows a run to a check without asking whether the model can do it.
struct Unasked<'a> {
    program: &'a Compiled<'a, 128>,
    subject: &'a Subject,
    frames: &'a [Frame],
    check: Check,
}

impl Observer<[u64; 128], State> for Unasked<'_> {
    fn departed(&mut self, packet: &Packet<[u64; 128], State>, _: u64) {
        let mut machine = self.subject.image.machine().clone();
        let input = self.frames[packet.number as usize].input();
        let outputs = self.program.outputs(&mut machine, packet.number, &input, &packet.phv);
        self.check.departed(packet.number, outputs, &|_| None);
    }
}

/// Runs what pretends to be the program on RAPID with strict consistency, and compares.
pub fn unasked<P: Program<Phv = [u64; 128], State = State>>(
    subject: &Subject,
    program: &Compiled<'_, 128>,
    pretender: &P,
    frames: &[Frame],
) -> Differences {
    let mut machine = subject.image.machine().clone();
    let packets = inputs(frames);
    let arrivals: Vec<_> =
        (0..).zip(&packets).map(|(number, packet)| program.arrival(&mut machine, number, packet)).collect();
    let check = Check::new(&subject.image);
    let mut unasked = Unasked { program, subject, frames, check };
    let model = rapid(Consistency::Strict);
    let outcome = emulate(pretender, &model, &every_cycle(), arrivals, &mut unasked).expect("a run");
    unasked.check.finish(&subject.image, subject.reference.clone(), &packets, &outcome)
}

/// A load that counts connections which the state does not know: a packet that is done over has counted one that
/// it knows by then. The model is told not to run it; if it does, it is found.
#[test]
fn a_register_that_follows_the_state_is_refused_with_reason() {
    let path = root().join("examples/p4/nat_lb.p4");
    let text = std::fs::read_to_string(&path).expect("an example");
    let depends = text
        .replacen("if (meta.is_service) {", "if (connection.known == 0 && meta.is_service) {", 1)
        .replacen("if (hdr.tcp.flags & (TCP_SYN | TCP_ACK) == TCP_SYN) {", "if (true) {", 1);
    let program = lowered_text(&path.display().to_string(), &depends);
    let subject = Subject::new(program, &entries("nat_lb")).expect("a program");
    // A connection's packets in a row: the first alone counts.
    let one = &stf_frames("nat_lb")[..1];
    let frames = repeated(one, 8);
    let model = rapid(Consistency::Strict);
    let refusal = try_run(&subject, &model, &every_cycle(), &frames).expect_err("refused").to_string();
    assert!(
        refusal.contains("register ingress.loads") && refusal.contains("muTable ingress.connections"),
        "{refusal}"
    );
    // Packets that are never done over may ask what they like.
    let blocking = Model::named("blocking").expect("a model");
    assert!(run(&subject, &blocking, &every_cycle(), &frames).1.is_equal());

    let program = Compiled::<128>::new(&subject.image);
    let found = unasked(&subject, &program, &program, &frames);
    assert!(found.state.is_some_and(|state| state.contains("loads")), "{:?}", found.first);
}

/// WEAK sends nothing back: there the same program is exact in what the register is asked.
#[test]
fn a_model_that_does_nothing_over_takes_it() {
    let path = root().join("examples/p4/nat_lb.p4");
    let text = std::fs::read_to_string(&path).expect("an example");
    let depends =
        text.replacen("if (meta.is_service) {", "if (connection.known == 0 && meta.is_service) {", 1);
    let program = lowered_text(&path.display().to_string(), &depends);
    let subject = Subject::new(program, &entries("nat_lb")).expect("a program");
    assert!(try_run(&subject, &rapid(Consistency::Weak), &every_cycle(), &[]).is_ok());
    assert!(try_run(&subject, &rapid(Consistency::BoundedStaleness(1)), &every_cycle(), &[]).is_err());
}
