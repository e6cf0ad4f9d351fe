//! Stages, one after the other, do what the program does; and a packet that is done over finds none of its edits.

use super::common;

use std::fs;
use std::path::Path;

use common::staged;
use paceline_p4::interpret::Machine;
use paceline_p4::ir::{Memory, Program};
use paceline_p4::passes::{self, allocate};
use paceline_p4::{Options, lower, stf};

fn example(name: &str) -> Program {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4").join(name);
    let text = fs::read_to_string(&path).expect("an example");
    match lower(&path.display().to_string(), &text, &Options::default()) {
        Ok((program, _)) => program,
        Err(errors) => panic!("{:?}", miette::Report::new(errors)),
    }
}

/// A machine with the entries of an example's test file.
fn machine(name: &str, program: Program) -> Machine {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4").join(name);
    let text = fs::read_to_string(path.with_extension("stf")).expect("a test file");
    let is_entry =
        |line: &&str| ["add ", "setdefault ", "multicast "].iter().any(|word| line.starts_with(word));
    let entries = text.lines().filter(is_entry).collect::<Vec<_>>().join("\n");
    let mut machine = Machine::new(program);
    stf::run(&mut machine, &entries).expect("entries");
    machine
}

/// Packets of an example's test file.
fn packets(name: &str) -> Vec<(u16, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4").join(name);
    let text = fs::read_to_string(path.with_extension("stf")).expect("a test file");
    let packet = |line: &str| {
        let mut words = line.strip_prefix("packet ")?.split_whitespace();
        let port = words.next()?.parse().ok()?;
        Some((port, stf::from_hex(&words.collect::<String>())?))
    };
    text.lines().filter_map(packet).collect()
}

fn examples() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4");
    let names = fs::read_dir(folder).expect("examples").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.retain(|name| name.ends_with(".stf"));
    names.iter().map(|name| name.replace(".stf", ".p4")).collect()
}

#[test]
fn stages_give_what_the_program_gives() {
    for name in examples() {
        let program = example(&name);
        let mut compiled = program.clone();
        passes::compile(&mut compiled);
        let (mut whole, mut staged_machine) = (machine(&name, program), machine(&name, compiled));
        for (number, (port, bytes)) in packets(&name).into_iter().enumerate() {
            let expected = whole.packet(port, &bytes, 0);
            assert_eq!(staged(&mut staged_machine, port, &bytes, None), expected, "{name}, packet {number}");
        }
        let dump = |machine: &Machine| machine.state().dump(machine.program());
        assert_eq!(dump(&whole), dump(&staged_machine), "{name}");
    }
}

/// Each packet goes through the stages of each muTable twice, and must come out as if it had gone once.
fn agrees_when_done_over(name: &str, renames: bool) -> bool {
    let program = example(name);
    let mut compiled = program.clone();
    match renames {
        true => passes::compile(&mut compiled),
        false => allocate::run(&mut compiled),
    }
    let flows = compiled.layout.clone().expect("stages").mu_tables;
    let flows = flows.into_iter().filter(|place| place.memory == Memory::FlowState);
    let regions: Vec<(u16, u16)> = flows.map(|place| (place.reads, place.writes)).collect();
    regions.into_iter().all(|region| {
        let (mut whole, mut twice) = (machine(name, program.clone()), machine(name, compiled.clone()));
        let agrees = packets(name).into_iter().all(|(port, bytes)| {
            whole.packet(port, &bytes, 0) == staged(&mut twice, port, &bytes, Some(region))
        });
        // Packets may agree where state is written under a key that was edited.
        agrees && whole.state().dump(whole.program()) == twice.state().dump(twice.program())
    })
}

#[test]
fn a_packet_that_is_done_over_finds_none_of_its_edits() {
    for name in examples() {
        assert!(agrees_when_done_over(&name, true), "{name}");
    }
}

/// Without renaming, an example that edits what it reads gives another packet: the test above can fail.
#[test]
fn without_renaming_edits_are_found() {
    let broken: Vec<String> =
        examples().into_iter().filter(|name| !agrees_when_done_over(name, false)).collect();
    assert!(broken.contains(&"nat_lb.p4".to_owned()), "only {broken:?}");
}

#[test]
fn spans_are_known() {
    let spans = [("port_knocking.p4", 2), ("syn_cookie.p4", 2), ("nat_lb.p4", 2), ("elephant.p4", 1)];
    for (name, span) in spans {
        let mut program = example(name);
        passes::compile(&mut program);
        let layout = program.layout.expect("stages");
        assert_eq!(layout.span, span, "{name}: {layout:#?}");
        assert!(
            !layout.notes.iter().any(|note| note.contains("declare a muTable")),
            "{name}: {:?}",
            layout.notes
        );
    }
}

/// A server's load that is asked for only where the state does not know the connection: a packet that is done over
/// would ask for it twice.
#[test]
fn what_depends_on_a_state_within_its_span_is_noted() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4/nat_lb.p4");
    let text = fs::read_to_string(&path).expect("an example");
    let notes = |text: &str| {
        let (mut program, _) =
            lower(&path.display().to_string(), text, &Options::default()).expect("no mistakes");
        passes::compile(&mut program);
        program.layout.expect("stages").notes
    };
    assert_eq!(notes(&text), Vec::<String>::new());
    let condition = "if (meta.is_service) {";
    let depends = text.replacen(condition, "if (connection.known == 0 && meta.is_service) {", 1);
    assert_ne!(depends, text);
    let notes = notes(&depends);
    assert!(notes.iter().any(|note| note.contains("register ingress.loads")), "{notes:?}");
}

/// Small programs, each with something that stages could put in another order than it is written in.
#[test]
fn stages_keep_the_order_of_what_depends_on_it() {
    let fields = "bit<8> a; bit<8> b; bit<8> c; bit<8> d;";
    let locals = "
register<bit<8>>(4) sums;
action to(bit<8> value) { hdr.h.b = value; meta.flag = 1; }
table first { key = { hdr.h.a: ternary; } actions = { to; NoAction; } const entries = { 1: to(3); 2: to(1); } }
table second { key = { hdr.h.b: ternary; } actions = { to; NoAction; } const entries = { 3: to(9); } }
";
    let programs = [
        // A constant that is written behind a read is there early.
        "sums.read(hdr.h.b, 1); sums.write(1, 7); sums.read(hdr.h.c, 1);",
        // A condition that is written again before a later stage reads it.
        "if (hdr.h.a == 1) { meta.flag = 1; } if (meta.flag == 1) { first.apply(); second.apply(); } meta.flag = 0;
         if (meta.flag == 1) { hdr.h.d = 5; }",
        // A condition that a table gives.
        "first.apply(); if (meta.flag == 1) { second.apply(); hdr.h.d = hdr.h.b; } else { hdr.h.d = 1; }",
        "if (hdr.h.a == 2) { hdr.h.c = 8; exit; } first.apply(); if (hdr.h.b == 3) { return; } second.apply(); hdr.h.d = 6;",
    ];
    for apply in programs {
        let source = common::program(fields, "bit<1> flag;", locals, apply);
        let program = common::lowered(&source);
        let mut compiled = program.clone();
        passes::compile(&mut compiled);
        let (mut whole, mut staged_machine) = (Machine::new(program), Machine::new(compiled));
        for number in 0..64 {
            let bytes = [number % 4, number / 4 % 4, number / 16, 0];
            let expected = whole.packet(1, &bytes, 0);
            assert_eq!(staged(&mut staged_machine, 1, &bytes, None), expected, "{apply}: {bytes:?}");
        }
    }
}
