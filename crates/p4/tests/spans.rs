//! Functions of several stages in one program are laid one behind the other, wherever that can be.

use super::common;

use std::fmt::Write;

use common::{agrees, lowered, program, spans};
use paceline_p4::ir::{MuPlace, Program};
use paceline_p4::passes;
use paceline_p4::uses::{Fault, Uses};
use proptest::prelude::*;

const TABLES: usize = 4;

const FIELDS: &str = "bit<8> a; bit<8> b; bit<8> c; bit<8> d;";
const METADATA: &str = "bit<8> x0; bit<8> x1; bit<8> x2; bit<8> x3; bit<8> y; bit<8> z;";

/// A muTable `state0` to `state3` under each field, and for each three tables, `step0_0` to `step3_2`, that are asked
/// for its `meta.x0` to `meta.x3` and change it; `late0` to `late2` are asked for `meta.y`.
fn locals() -> String {
    let mut text =
        "register<bit<8>>(256) sums;\ncounter(256, CounterType.packets) counts;\naction keep() { }\n"
            .to_owned();
    for (at, key) in ["a", "b", "c", "d"].into_iter().enumerate() {
        writeln!(
            text,
            "muTable state{at} {{ keys = {{ hdr.h.{key}; }} values = {{ bit<8> v; }} size = 256; }}"
        )
        .expect("text");
        (0..3).for_each(|step| text += &table(&format!("step{at}_{step}"), &format!("x{at}"), step + 2));
    }
    (0..3).for_each(|step| text += &table(&format!("late{step}"), "y", step + 5));
    text
}

fn table(name: &str, field: &str, times: usize) -> String {
    format!(
        "action {name}_to(bit<8> by) {{ meta.{field} = meta.{field} * {times} + by; }}
table {name} {{
    key = {{ meta.{field}: ternary; }} actions = {{ {name}_to; keep; }}
    const entries = {{ 1 &&& 3: {name}_to(1); 2 &&& 3: keep(); }} const default_action = {name}_to(3);
}}
"
    )
}

fn compiled(apply: &str) -> (Program, Program) {
    let whole = lowered(&program(FIELDS, METADATA, &locals(), apply));
    let mut compiled = whole.clone();
    passes::compile(&mut compiled);
    (whole, compiled)
}

/// Compiles without a note, does what it did, and has these spans.
fn laid_out(apply: &str, expected: &[(u16, u16)]) {
    let (whole, compiled) = compiled(apply);
    let notes = &compiled.layout.as_ref().expect("stages").notes;
    assert_eq!((&spans(&compiled)[..], &notes[..]), (expected, &[][..]), "{apply}");
    agrees(&whole, &compiled);
}

#[test]
fn two_that_do_not_meet_stay() {
    laid_out(
        "meta.x0 = state0.read(hdr); step0_0.apply(); state0.write(hdr, meta.x0); meta.x1 = meta.x0;
         step1_0.apply(); hdr.h.b = meta.x1; meta.x2 = state1.read(hdr); step2_0.apply(); state1.write(hdr, meta.x2);",
        &[(1, 2), (4, 5)],
    );
}

#[test]
fn two_that_do_not_depend_on_each_other_go_in_a_row() {
    laid_out(
        "meta.x0 = state0.read(hdr); meta.x1 = state1.read(hdr); step0_0.apply(); step1_0.apply();
         state0.write(hdr, meta.x0); state1.write(hdr, meta.x1); hdr.h.d = meta.x0 ^ meta.x1;",
        &[(1, 2), (3, 4)],
    );
}

#[test]
fn what_depends_on_the_other_comes_second() {
    laid_out(
        "meta.x0 = state0.read(hdr); step0_0.apply(); state0.write(hdr, meta.x0);
         meta.x1 = state1.read(hdr); meta.x1 = meta.x1 + meta.x0; step1_0.apply();
         state1.write(hdr, meta.x1); hdr.h.d = meta.x1;",
        &[(1, 2), (3, 4)],
    );
    // By a condition, by which the second is not even read by all.
    laid_out(
        "meta.x0 = state0.read(hdr);
         if (meta.x0 != 2) { meta.x1 = state1.read(hdr); step1_0.apply(); state1.write(hdr, meta.x1); }
         step0_0.apply(); step0_1.apply(); state0.write(hdr, meta.x0); hdr.h.d = meta.x1;",
        &[(1, 3), (4, 5)],
    );
}

/// What is written first here needs what is read second.
#[test]
fn what_the_other_depends_on_comes_first() {
    laid_out(
        "meta.x0 = state0.read(hdr); meta.x1 = state1.read(hdr); step0_0.apply(); step1_0.apply();
         state0.write(hdr, meta.x0 + meta.x1); state1.write(hdr, meta.x1); hdr.h.d = meta.x0;",
        &[(3, 4), (1, 2)],
    );
    // By a table that both ask, which is in one stage.
    laid_out(
        "meta.x0 = state0.read(hdr); meta.x1 = state1.read(hdr); step0_0.apply(); step1_0.apply();
         if (hdr.h.d == 0) { meta.y = meta.x1; } else { meta.y = 2; } late0.apply();
         if (hdr.h.d == 1) { meta.x0 = meta.y; }
         state0.write(hdr, meta.x0); state1.write(hdr, meta.x1);",
        &[(3, 4), (1, 2)],
    );
}

/// The state is read in the first stage and is not needed before the last: its read moves, its write need not; it may
/// even become a register.
#[test]
fn one_that_is_read_early_for_no_reason_is_read_later() {
    laid_out(
        "meta.x0 = state0.read(hdr); meta.y = hdr.h.c; late0.apply(); late1.apply(); late2.apply();
         meta.x1 = state1.read(hdr); step1_0.apply(); state1.write(hdr, meta.x1);
         state0.write(hdr, meta.x0 + meta.y);",
        &[(1, 2)],
    );
    // The other one's key is known late.
    laid_out(
        "meta.x0 = state0.read(hdr); meta.y = hdr.h.c; late0.apply(); hdr.h.b = meta.y;
         meta.x1 = state1.read(hdr); step1_0.apply(); state1.write(hdr, meta.x1);
         late1.apply(); late2.apply(); meta.x2 = meta.y; step2_0.apply(); step2_1.apply();
         state0.write(hdr, meta.x0 + meta.x2);",
        &[(2, 3)],
    );
}

#[test]
fn one_that_is_long_for_a_reason_goes_as_it_is_read() {
    laid_out(
        "meta.x0 = state0.read(hdr); step0_0.apply(); step0_1.apply(); step0_2.apply(); state0.write(hdr, meta.x0);
         meta.y = hdr.h.c; late0.apply(); hdr.h.b = meta.y;
         meta.x1 = state1.read(hdr); step1_0.apply(); state1.write(hdr, meta.x1);",
        &[(1, 4), (5, 6)],
    );
}

#[test]
fn three_go_in_a_row() {
    let in_a_row = "meta.x0 = state0.read(hdr); meta.x1 = state1.read(hdr); meta.x2 = state2.read(hdr);
         step0_0.apply(); step1_0.apply(); step2_0.apply();
         state0.write(hdr, meta.x0); state1.write(hdr, meta.x1); state2.write(hdr, meta.x2);
         hdr.h.d = meta.x0 + meta.x1 + meta.x2;";
    laid_out(in_a_row, &[(1, 2), (3, 4), (5, 6)]);
    // The last is needed by the first, and the second by the last.
    let turned = in_a_row
        .replace("state0.write(hdr, meta.x0)", "state0.write(hdr, meta.x0 + meta.x2)")
        .replace("state2.write(hdr, meta.x2)", "state2.write(hdr, meta.x2 ^ meta.x1)");
    laid_out(&turned, &[(5, 6), (1, 2), (3, 4)]);
}

/// What is in one stage stays in one, though what it is written with has moved.
#[test]
fn registers_move_as_a_whole() {
    let (whole, compiled) = compiled(
        "meta.x0 = state0.read(hdr); meta.x1 = state1.read(hdr); meta.y = meta.x1; step0_0.apply(); step1_0.apply();
         state0.write(hdr, meta.x0); state1.write(hdr, meta.x1);
         sums.read(meta.z, (bit<32>) hdr.h.d); sums.write((bit<32>) hdr.h.d, meta.z + meta.y);
         meta.x2 = state2.read(hdr); state2.write(hdr, meta.x2 + hdr.h.d);
         meta.x3 = state3.read(hdr); state3.write(hdr, meta.x3 + meta.y);",
    );
    let layout = compiled.layout.as_ref().expect("stages");
    let place = |place: &MuPlace| (place.reads, place.writes);
    let tables: Vec<_> = layout.mu_tables.iter().map(place).collect();
    // The third does not depend on the others, and goes before them; what depends on the second goes behind its write.
    assert_eq!(tables, [(2, 3), (4, 5), (1, 1), (6, 6)]);
    assert_eq!(place(&layout.registers[0]), (6, 6));
    agrees(&whole, &compiled);
}

/// The last of two writes that one packet does counts, though its value is there before
/// that of the other.
#[test]
fn writes_keep_their_order() {
    let read = "meta.x0 = state0.read(hdr); step0_0.apply(); state0.write(hdr, meta.x0);";
    laid_out(&format!("{read} if (hdr.h.d == 1) {{ state0.write(hdr, 7); }}"), &[(1, 2)]);
    laid_out(&format!("{read} hdr.h.c = meta.x0; late0.apply(); state0.write(hdr, meta.y);"), &[(1, 2)]);
    // Nor does a register that nobody reads become one of two stages.
    let (whole, compiled) = compiled(
        "meta.x0 = hdr.h.b; step0_0.apply(); sums.write((bit<32>) hdr.h.a, meta.x0);
         if (hdr.h.d == 1) { sums.write((bit<32>) hdr.h.a, 7); } hdr.h.c = meta.x0;",
    );
    let layout = compiled.layout.as_ref().expect("stages");
    assert_eq!((layout.registers[0].writes, &layout.notes[..]), (1, &[][..]));
    agrees(&whole, &compiled);
}

fn meets(apply: &str) -> bool {
    let (_, compiled) = compiled(apply);
    Uses::of(&compiled).faults.iter().any(|fault| matches!(fault, Fault::SpansMeet { .. }))
}

#[test]
fn those_that_need_each_other_are_refused() {
    let interleaved =
        "meta.x0 = state0.read(hdr); meta.x1 = state1.read(hdr); step0_0.apply(); step1_0.apply();
         state0.write(hdr, meta.x0 + meta.x1); state1.write(hdr, meta.x1 + meta.x0);";
    let (_, stays) = compiled(interleaved);
    assert_eq!(spans(&stays), [(1, 2), (1, 2)], "as early as can be");
    assert_eq!(Uses::of(&stays).faults.len(), 1);
    let notes = &stays.layout.as_ref().expect("stages").notes;
    assert_eq!(
        notes[..],
        [
            "muTable ingress.state0 (test.p4:14:9) and muTable ingress.state1 (test.p4:30:9) are both between read and write in stage 1, and a packet \
          that is done over for one would write the other twice; read the second behind the write of the first, or \
          make one of both"
        ]
    );
    // Three in a circle, of which no two need each other.
    let circle = "meta.x0 = state0.read(hdr); meta.x1 = state1.read(hdr); meta.x2 = state2.read(hdr);
         step0_0.apply(); step1_0.apply(); step2_0.apply();
         state0.write(hdr, meta.x0 + meta.x1); state1.write(hdr, meta.x1 + meta.x2);
         state2.write(hdr, meta.x2 + meta.x0);";
    assert!(meets(circle));
    assert!(!meets(&circle.replace("meta.x2 + meta.x0", "meta.x2")));
}

/// A large program with a function of several stages at its end and one at its beginning.
#[test]
fn large_programs_are_laid_out() {
    let source = common::large(160)
        .replacen("bit<8> x;", "bit<8> x; bit<8> y; bit<8> z;", 1)
        .replacen(
            "action set_0",
            "muTable first { keys = { hdr.h.a; } values = { bit<8> v; } }
             muTable second { keys = { hdr.h.a; } values = { bit<8> v; } }
             action set_0",
            1,
        )
        .replacen(
            "apply {\nif",
            "apply {\nmeta.y = first.read(hdr); meta.z = second.read(hdr); meta.x = meta.y;\nif",
            1,
        )
        .replacen(
            "t_159.apply(); }",
            "t_159.apply(); } first.write(hdr, meta.x ^ meta.y); second.write(hdr, meta.x ^ meta.z);",
            1,
        );
    let mut program = lowered(&source);
    passes::compile(&mut program);
    let places = &program.layout.as_ref().expect("stages").mu_tables;
    assert_eq!(spans(&program), [(1, 161)]);
    assert_eq!((places[1].reads, places[1].writes), (162, 162));
}

/// Functions that are written one behind the other, each of which may use what those before it found.
fn functions() -> impl Strategy<Value = String> {
    let function = (0..4_usize, prop::collection::vec(0..TABLES, 0..3), 0..5_usize, any::<bool>());
    let order = Just([0, 1, 2, 3]).prop_shuffle();
    (order, prop::collection::vec(function, 2..=TABLES)).prop_map(|(order, functions)| {
        let mut text = String::new();
        for (table, (steps, mixed, condition, is_inside)) in order.into_iter().zip(functions) {
            let read = format!("meta.x{table} = state{table}.read(hdr); ");
            let mut body: String =
                (0..steps.min(3)).map(|step| format!("step{table}_{step}.apply(); ")).collect();
            body += &mixed
                .iter()
                .map(|from| format!("meta.x{table} = meta.x{table} + meta.x{from}; "))
                .collect::<String>();
            let write = format!("state{table}.write(hdr, meta.x{table}); ");
            let condition =
                if condition < TABLES { format!("meta.x{condition} != 1") } else { "hdr.h.d != 1".into() };
            text += &match is_inside {
                true => format!("if ({condition}) {{ {read}{body}{write}}}\n"),
                false => format!("{read}{body}if ({condition}) {{ {write}}}\n"),
            };
        }
        text + "hdr.h.c = meta.x0 ^ meta.x1 ^ meta.x2 ^ meta.x3;"
    })
}

/// Statements in any order.
fn soup() -> impl Strategy<Value = String> {
    let statement =
        (0..7_usize, 0..TABLES, 0..TABLES, 0..3_usize).prop_map(|(what, table, other, step)| match what {
            0 => format!("meta.x{table} = state{table}.read(hdr);\n"),
            1 => format!("state{table}.write(hdr, meta.x{other} + {step});\n"),
            2 => format!("step{table}_{step}.apply();\n"),
            3 => format!("meta.x{table} = meta.x{table} ^ meta.x{other};\n"),
            4 => format!("if (meta.x{other} == {step}) {{ meta.x{table} = state{table}.read(hdr); }}\n"),
            5 => format!("if (meta.x{other} > {step}) {{ state{table}.write(hdr, meta.x{table}); }}\n"),
            _ => format!("if (meta.x{table} == {step}) {{ late{step}.apply(); }} meta.x{other} = meta.y;\n"),
        });
    prop::collection::vec(statement, 1..24).prop_map(|statements| {
        let reads: String =
            (0..TABLES).map(|table| format!("meta.x{table} = state{table}.read(hdr);\n")).collect();
        reads + &statements.concat() + "hdr.h.c = meta.x0 ^ meta.x1 ^ meta.x2 ^ meta.x3;"
    })
}

/// Whether it has no note; if so, it does what it did.
fn survives(apply: &str) -> bool {
    let (whole, compiled) = compiled(apply);
    let is_exact = compiled.layout.as_ref().expect("stages").notes.is_empty();
    if is_exact {
        agrees(&whole, &compiled);
    }
    is_exact
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn functions_in_a_row_never_meet(apply in functions()) {
        prop_assert!(!meets(&apply));
        survives(&apply);
    }

    #[test]
    fn statements_in_any_order_end(apply in soup()) {
        survives(&apply);
    }
}
