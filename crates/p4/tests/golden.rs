//! What each pass makes of a small program, as text. `UPDATE_GOLDEN=1` writes the files anew.

use super::common;

use std::path::Path;
use std::{env, fs};

use paceline_p4::ir::Program;
use paceline_p4::passes::{self, allocate, dead, fold};
use paceline_p4::{Options, lower};

fn check(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, text).expect("a golden file");
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == text, "{name} differs; this is what came out:\n{text}");
}

fn ingress(program: &Program) -> String {
    let text = program.to_text();
    text[text.find("\naction").or(text.find("\ningress")).unwrap_or_default()..].to_owned()
}

#[test]
fn fold_computes_what_is_known() {
    let source = common::program(
        "bit<8> a; bit<8> b;",
        "bit<8> x; bit<8> y;",
        "const bit<8> LIMIT = 3 * 5; action set(bit<8> v) { meta.x = v; } table t { key = { meta.x: exact; } actions = { set; } }",
        "meta.x = LIMIT + 1;
         meta.y = meta.x << 1;
         if (meta.y == 32) { hdr.h.a = meta.y; } else { hdr.h.a = 0; }
         if (hdr.h.b == 1) { meta.x = 7; } else { meta.x = 7; meta.y = 8; }
         hdr.h.a = hdr.h.a + meta.x + meta.y;
         t.apply();
         hdr.h.b = meta.x;",
    );
    let mut program = common::lowered(&source);
    fold::run(&mut program);
    check("fold.txt", &ingress(&program));
}

#[test]
fn dead_leaves_out_what_nobody_reads() {
    let source = common::program(
        "bit<8> a; bit<8> b;",
        "bit<8> x; bit<8> y; bit<8> z;",
        "register<bit<8>>(4) r;",
        "meta.x = hdr.h.a + 1;
         meta.y = meta.x + 1;
         r.read(meta.z, 32w1);
         if (hdr.h.b == 2) { meta.y = 3; }
         hdr.h.b = meta.x;
         r.write(32w1, 5);",
    );
    let mut program = common::lowered(&source);
    dead::run(&mut program);
    check("dead.txt", &ingress(&program));
}

const FLOW: &str =
    "muTable flows { keys = { hdr.h.k; } values = { bit<8> state; } consistency = BS(3); size = 16; }
    action next(bit<8> state) { meta.next = state; hdr.h.ttl = hdr.h.ttl - 1; }
    table fsm { key = { meta.state: exact; hdr.h.b: exact; } actions = { next; NoAction; } }";

fn stateful() -> Program {
    let apply = "meta.state = flows.read(hdr);
        fsm.apply();
        hdr.h.b = hdr.h.b + meta.next;
        flows.write(hdr, meta.next);
        standard.egress_spec = 1;";
    let fields = "bit<8> k; bit<8> b; bit<8> ttl;";
    let mut program = common::lowered(&common::program(fields, "bit<8> state; bit<8> next;", FLOW, apply));
    fold::run(&mut program);
    dead::run(&mut program);
    program
}

#[test]
fn allocate_gives_stages() {
    let mut program = stateful();
    allocate::run(&mut program);
    let layout = program.layout.clone().expect("stages");
    assert_eq!((layout.mu_tables[0].reads, layout.mu_tables[0].writes, layout.span), (1, 2, 2));
    check("allocate.txt", &ingress(&program));
}

#[test]
fn rename_keeps_edits_from_what_is_done_over() {
    let mut program = stateful();
    passes::compile(&mut program);
    let renamed = &program.layout.as_ref().expect("stages").renamed;
    let names: Vec<_> = renamed.iter().map(|renamed| &*program.fields[renamed.field as usize].name).collect();
    // Not egress_spec and meta.state, which every packet writes before anyone reads them; meta.next not all do.
    assert_eq!(names, ["hdr.h.b", "hdr.h.ttl", "meta.next"]);
    check("rename.txt", &ingress(&program));
}

#[test]
fn port_knocking_takes_two_stages() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4/port_knocking.p4");
    let text = fs::read_to_string(&path).expect("an example");
    let (mut program, _) =
        lower(&path.display().to_string(), &text, &Options::default()).expect("no mistakes in it");
    check("port_knocking.ir.txt", &program.to_text());
    passes::compile(&mut program);
    let layout = program.layout.clone().expect("stages");
    assert_eq!((layout.mu_tables[0].reads, layout.mu_tables[0].writes), (1, 2));
    check("port_knocking.compiled.txt", &program.to_text());
    // JSON holds all of it.
    let json = serde_json::to_string(&program).expect("JSON");
    assert_eq!(serde_json::from_str::<Program>(&json).expect("the same"), program);
}

/// A function whose read and write go into one stage is a register; one with a table between is not.
#[test]
fn single_stage_functions_are_registers() {
    let count = "muTable counts { keys = { hdr.h.k; } values = { bit<8> n; } type = direct; size = 256; }";
    let apply = "bit<8> n = counts.read(hdr); counts.write(hdr, n + 1);";
    let mut program = common::lowered(&common::program("bit<8> k;", "", count, apply));
    passes::compile(&mut program);
    let layout = program.layout.expect("stages");
    assert_eq!((layout.span, layout.mu_tables[0].reads, layout.mu_tables[0].writes), (1, 1, 1));
    assert_eq!(layout.mu_tables[0].memory, paceline_p4::ir::Memory::Register);
}

/// What a register cannot be is said.
#[test]
fn registers_written_from_a_later_stage_are_noted() {
    let locals = "register<bit<8>>(4) r;
        action next(bit<8> v) { meta.x = v; }
        table t { key = { meta.x: exact; } actions = { next; } default_action = next(0); }";
    let apply = "r.read(meta.x, 32w1); t.apply(); r.write(32w1, meta.x); hdr.h.a = meta.x;";
    let mut program = common::lowered(&common::program("bit<8> a;", "bit<8> x;", locals, apply));
    passes::compile(&mut program);
    let notes = program.layout.expect("stages").notes;
    assert!(notes.len() == 1 && notes[0].contains("declare a muTable"), "{notes:?}");
}

/// Two thousand lines, each table behind the one before.
#[test]
fn large_programs_compile() {
    let source = common::large(160);
    assert!(source.lines().count() > 2000);
    let mut program = common::lowered(&source);
    passes::compile(&mut program);
    assert_eq!(program.layout.expect("stages").stages, 160);
}
