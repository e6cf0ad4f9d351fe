//! Several functions of several stages in one program, which the compiler lays one behind the other.

use paceline_pipeline::{BlockingOptions, Consistency, Model, Options, RapidOptions, WhenFull};
use proptest::prelude::*;

use crate::adverse::{ALL, Case, Shown, case, frames, witness};
use crate::support::*;

/// Where tables of several stages are read and written, from 0, by name.
fn spans(subject: &Subject) -> Vec<(&str, usize, usize)> {
    let tables = subject.image.tables().iter().filter(|table| !table.is_atom());
    tables.map(|table| (&*table.name, table.read_stage, table.write_stage)).collect()
}

/// The witness with two more functions under the same key: all are read first, then all compute, then all write.
/// `second` and `third` say what is written to their states, and `shown` is what the packet shows of all.
fn three(second: &str, third: &str, shown: &str) -> Subject {
    let function = |name: &str, value: &str| {
        format!(
            "muTable {name}_states {{ keys = {{ hdr.h.key; }} values = {{ bit<32> v; }} size = 4096; }}
             action {name}_next() {{ meta.{name}_new = {value}; }}
             table {name} {{
                 key = {{ meta.{name}_old: ternary; }} actions = {{ {name}_next; }} default_action = {name}_next();
             }}\n"
        )
    };
    let locals = function("b", second) + &function("c", third) + "action pass()";
    let text = witness(ALL, 2)
        .replacen(
            "struct metadata {",
            "struct metadata { bit<32> b_old; bit<32> b_new; bit<32> c_old; bit<32> c_new;",
            1,
        )
        .replacen("action pass()", &locals, 1)
        .replacen(
            "first.apply();",
            "meta.b_old = b_states.read(hdr); meta.c_old = c_states.read(hdr);
             first.apply(); b.apply(); c.apply();
             if (hdr.h.updates == 0) { b_states.write(hdr, meta.b_new); }
             c_states.write(hdr, meta.c_new);",
            1,
        )
        .replacen("if (hdr.h.updates == 1) {", &format!("{shown} if (hdr.h.updates == 1) {{"), 1);
    Subject::new(lowered_text("three.p4", &text), "").expect("a program that pipelines can run")
}

const SHOWN: &str = "hdr.h.seen = hdr.h.seen ^ meta.b_old ^ meta.c_new;";

fn independent() -> Subject {
    three("meta.b_old * 3 + hdr.h.tag", "meta.c_old * 5 + hdr.h.tag", SHOWN)
}

/// The second waits for the third, and the first for both.
fn turned() -> Subject {
    three(
        "meta.b_old * 3 + hdr.h.tag + meta.c_old",
        "meta.c_old * 5 + hdr.h.tag",
        "meta.next = meta.next ^ meta.b_new;",
    )
}

#[test]
fn functions_are_in_a_row() {
    let in_a_row = [("ingress.flows", 0, 1), ("ingress.b_states", 2, 3), ("ingress.c_states", 4, 5)];
    assert_eq!(spans(&independent()), in_a_row);
    let turned_round = [("ingress.c_states", 0, 1), ("ingress.b_states", 2, 3), ("ingress.flows", 4, 5)];
    assert_eq!(spans(&turned()), turned_round);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn functions_in_a_row_are_the_reference(case in case(), is_turned in any::<bool>()) {
        let Case { model, options, packets, .. } = case;
        let subject = if is_turned { turned() } else { independent() };
        let (_, found) = run(&subject, &Model::Rapid(model), &options, &frames(&packets));
        prop_assert!(found.is_equal(), "{found:?}");
        let blocking = Model::named("blocking").expect("a model");
        let (_, found) = run(&subject, &blocking, &every_cycle(), &frames(&packets));
        prop_assert!(found.is_equal() && found.lost == 0, "{found:?}");
    }
}

/// Packets of one flow in every cycle, which change all states: functions send them back, one after the other.
#[test]
fn a_flow_that_always_updates_is_the_reference() {
    let packets: Vec<Shown> = (1..150).map(|tag| Shown { key: 7, tag, updates: tag % 3 != 0 }).collect();
    for subject in [independent(), turned()] {
        let (report, found) = run(&subject, &rapid(Consistency::Strict), &every_cycle(), &frames(&packets));
        assert!(found.is_equal() && found.lost == 0, "{found:?}");
        assert!(report.resubmissions > 50, "only {} were sent back", report.resubmissions);
    }
}

/// A packet that finds a later buffer full has changed the state of the function before: the reference has that too, and
/// the report says how many there were.
#[test]
fn what_a_lost_packet_has_changed_is_in_the_reference() {
    let packets: Vec<Shown> =
        (1..400).map(|tag| Shown { key: tag % 3, tag, updates: tag % 3 != 0 }).collect();
    let small =
        RapidOptions { phv_buffer: 4, resubmitted_buffer: 1, dirty_table: 2, ..RapidOptions::default() };
    let options = Options { when_full: WhenFull::Drop, ..every_cycle() };
    let blocking = Model::Blocking(BlockingOptions { queues: 1, depth: 2 });
    let mut behind = 0;
    for model in [Model::Rapid(small), blocking] {
        for subject in [independent(), turned()] {
            let (report, found) = run(&subject, &model, &options, &frames(&packets));
            assert!(found.is_equal(), "{}: {found:?}", model.name());
            behind += report.lost_after_write.values().sum::<u64>();
            assert!(report.lost_after_write.values().all(|lost| *lost <= found.lost), "{report:?}");
        }
    }
    assert!(behind > 0, "no packet was lost behind a write");
}

/// Two STRICT tables with unrelated keys: packets of one key in the second pass each other before the first. The compiler
/// warns of it, and only of it.
#[test]
fn unrelated_keys_are_asked_in_another_order() {
    let packet = |tag: u32| {
        let draw = nf::hash_bytes(&tag.to_le_bytes(), 5);
        Shown { key: (draw >> 8) as u32 % 4, tag, updates: draw.is_multiple_of(2) }
    };
    let packets: Vec<Shown> = (1..200).map(packet).collect();
    let differ = |keys: &str| {
        let subject = Subject::new(lowered_text("two.p4", &two_keys(keys)), "").expect("a program that runs");
        let warnings = subject.image.machine().program().layout.as_ref().expect("stages").warnings.len();
        let (_, found) = run(&subject, &rapid(Consistency::Strict), &every_cycle(), &frames(&packets));
        assert_eq!(found.lost, 0);
        (warnings, found.packets)
    };
    let (warnings, packets_differ) = differ("hdr.h.updates;");
    assert!(warnings == 1 && packets_differ > 20, "{warnings} warnings, {packets_differ} packets");
    assert_eq!(differ("hdr.h.updates; hdr.h.key;"), (0, 0));
}

/// The witness, and behind it a function under other keys that shows what it reads.
fn two_keys(keys: &str) -> String {
    witness(ALL, 2)
        .replacen("struct metadata {", "struct metadata { bit<32> b_old; bit<32> b_new;", 1)
        .replacen(
            "action pass()",
            &format!(
                "muTable b_states {{ keys = {{ {keys} }} values = {{ bit<32> v; }} size = 4096; }}
                 action b_next() {{ meta.b_new = meta.b_old * 3 + hdr.h.tag; }}
                 table b {{ key = {{ meta.b_old: ternary; }} actions = {{ b_next; }} default_action = b_next(); }}
                 action pass()"
            ),
            1,
        )
        .replacen(
            "first.apply();",
            "meta.b_old = b_states.read(hdr); first.apply(); b.apply(); b_states.write(hdr, meta.b_new);",
            1,
        )
        .replacen("if (hdr.h.updates == 1) {", "hdr.h.seen = hdr.h.seen ^ meta.b_old; if (hdr.h.updates == 1) {", 1)
}

/// A second function, which updates seldom, and whose span is longer than that of the first.
fn longer() -> Subject {
    let text = witness(ALL, 2)
        .replacen("struct metadata {", "struct metadata { bit<32> old; bit<32> half; bit<32> new;", 1)
        .replacen(
            "action pass()",
            "muTable others { keys = { hdr.h.key; } values = { bit<32> v; } size = 4096; }
             action begin() { meta.half = meta.old * 3 + hdr.h.tag; }
             table third { key = { meta.old: ternary; } actions = { begin; } default_action = begin(); }
             action end() { meta.new = meta.half; }
             table fourth { key = { meta.half: ternary; } actions = { end; } default_action = end(); }
             action pass()",
            1,
        )
        .replacen(
            "if (hdr.h.updates == 1) {",
            "meta.old = others.read(hdr); third.apply(); fourth.apply();
             if (hdr.h.tag[3:0] == 0) { others.write(hdr, meta.new); }
             hdr.h.tag = meta.old;
             if (hdr.h.updates == 1) {",
            1,
        );
    Subject::new(lowered_text("longer.p4", &text), "").expect("a program that pipelines can run")
}

/// The first function falls back to one packet at a time. So far apart they come to the second, which takes longer: the
/// next packet of the flow is there before the state of the one before is written.
#[test]
fn packets_are_alone_in_one_span_only() {
    let packets: Vec<Shown> = (1..150).map(|tag| Shown { key: 7, tag, updates: true }).collect();
    let subject = longer();
    assert_eq!(spans(&subject), [("ingress.flows", 0, 1), ("ingress.others", 2, 4)]);
    let (_, found) = run(&subject, &rapid(Consistency::Strict), &every_cycle(), &frames(&packets));
    assert!(found.is_equal() && found.lost == 0, "{found:?}");
}

/// The firewall with a budget of packets under `key`; with `is_gate` what is over it does not come to the firewall.
fn limited_firewall(key: &str, is_gate: bool) -> Subject {
    let path = root().join("examples/p4/stateful_firewall.p4");
    let text = std::fs::read_to_string(&path).expect("an example");
    let gate = if is_gate { "if (meta.is_over == 1) { exit; }" } else { "" };
    let limited = text
        .replacen(
            "struct metadata_t {",
            "const bit<32> COST = 1024;
             const bit<32> CAPACITY = 4 * COST;
             struct bucket_t { bit<1> used; bit<32> tokens; bit<48> seen; }
             struct metadata_t { bit<32> tokens; bit<48> passed; bit<1> is_over;",
            1,
        )
        .replacen(
            "    action from_inside",
            &format!(
                "muTable buckets {{
                     keys = {{ {key} }} values = {{ bit<1> used; bit<32> tokens; bit<48> seen; }} size = 65536;
                 }}
                 action from_inside"
            ),
            1,
        )
        .replacen(
            "        meta.state = connections.read(hdr);",
            &format!(
                "bucket_t bucket = buckets.read(hdr);
                 meta.passed = standard_metadata.ingress_global_timestamp - bucket.seen;
                 if (bucket.used == 0 || meta.passed > (bit<48>) CAPACITY) {{
                     meta.tokens = CAPACITY;
                 }} else {{
                     meta.tokens = bucket.tokens + meta.passed[31:0];
                 }}
                 if (meta.tokens > CAPACITY) {{
                     meta.tokens = CAPACITY;
                 }}
                 if (meta.tokens < COST) {{
                     meta.is_over = 1;
                     mark_to_drop(standard_metadata);
                 }} else {{
                     meta.tokens = meta.tokens - COST;
                 }}
                 buckets.write(hdr, 1, meta.tokens, standard_metadata.ingress_global_timestamp);
                 {gate}
                 meta.state = connections.read(hdr);"
            ),
            1,
        );
    Subject::new(lowered_text(&path.display().to_string(), &limited), &entries("stateful_firewall"))
        .expect("a program that pipelines can run")
}

/// Packets and states are those of the reference. Packets of a flow keep their order from function to function, so
/// whole flows of one must be of one flow of that before it.
fn budget_agrees(key: &str, is_gate: bool, order: [&str; 2], is_in_order: bool) {
    let subject = limited_firewall(key, is_gate);
    let spans = spans(&subject);
    assert_eq!([spans[0].0, spans[1].0], order);
    assert_eq!(spans[1].1, spans[0].2 + 1, "{spans:?}");
    let mut inputs = vec![repeated(&stf_frames("stateful_firewall"), 40)];
    inputs.extend(captures().iter().map(|(_, trace)| frames_of(trace, 10_000)));
    let mut sent_back = 0;
    for frames in &inputs {
        for model in [rapid(Consistency::Strict), Model::named("blocking").expect("a model")] {
            let (report, found) = run(&subject, &model, &every_cycle(), frames);
            let is_equal = found.packets == 0 && found.state.is_none() && found.lost == 0;
            assert!(is_equal && (found.first.is_none() || !is_in_order), "{}: {found:?}", model.name());
            sent_back += report.resubmissions;
        }
    }
    assert!(sent_back > 1_000, "only {sent_back} packets were ever done over");
}

#[test]
fn a_firewall_and_a_budget_for_each_connection_are_the_reference() {
    let connection = "meta.in_addr; meta.out_addr; meta.in_port; meta.out_port;";
    budget_agrees(connection, false, ["ingress.connections", "ingress.buckets"], true);
}

/// The firewall may send back packets of one connection behind those of another, and so change the order in which
/// those of a host leave; no state sees that.
#[test]
fn a_firewall_behind_a_budget_for_each_host_is_the_reference() {
    budget_agrees("meta.in_addr;", true, ["ingress.buckets", "ingress.connections"], false);
}

/// What cannot be told apart is refused by name.
#[test]
fn functions_that_need_each_other_are_refused() {
    let text = witness(ALL, 2)
        .replacen("struct metadata {", "struct metadata { bit<32> other; bit<32> sum;", 1)
        .replacen(
            "action pass()",
            "muTable others { keys = { hdr.h.key; } values = { bit<32> sum; } size = 4096; }
             action add() { meta.sum = meta.other * 3 + hdr.h.seen; }
             table third { key = { meta.other: ternary; } actions = { add; } default_action = add(); }
             action pass()",
            1,
        )
        .replacen("first.apply();", "meta.other = others.read(hdr); first.apply(); third.apply();", 1)
        .replacen(
            "if (hdr.h.updates == 1) {",
            "others.write(hdr, meta.sum); meta.next = meta.next + meta.other; if (hdr.h.updates == 1) {",
            1,
        );
    let refused = Subject::new(lowered_text("two.p4", &text), "").expect_err("refused").to_string();
    for name in ["muTable ingress.flows", "muTable ingress.others", "both between read and write"] {
        assert!(refused.contains(name), "{refused}");
    }
}
