//! Arguments are copied in when a call begins and copied out when it ends (P4-16 §6.8), whatever ends it.

use super::common;

use paceline_p4::interpret::Machine;
use paceline_p4::ir::Program;
use paceline_p4::passes;

/// A header of four bytes in the packet, another in the metadata, and whole programs of these parts.
fn source(controls: &str, locals: &str, apply: &str) -> String {
    let metadata = "h_t k; bit<8> x; bit<8> y; bool flag;";
    let apply = format!("standard.egress_spec = 1; {apply}");
    let source = common::program("bit<8> a; bit<8> b; bit<8> c; bit<8> d;", metadata, locals, &apply);
    source.replacen("control Ingress", &format!("{controls}\ncontrol Ingress"), 1)
}

/// What leaves for the bytes 1, 2, 3, 4: of the program as it is written, and of what the passes make of it.
#[track_caller]
fn leaves(what: &str, controls: &str, locals: &str, apply: &str, expected: &[u8]) {
    let whole = common::lowered(&source(controls, locals, apply));
    let mut compiled = whole.clone();
    passes::compile(&mut compiled);
    let sent = |program: Program| {
        let out = Machine::new(program).packet(0, &[1, 2, 3, 4], 0);
        out.first().map(|out| out.bytes.clone()).unwrap_or_default()
    };
    assert_eq!(sent(whole), expected, "{what}");
    assert_eq!(sent(compiled), expected, "{what}, compiled");
}

#[test]
fn actions_get_copies() {
    let call = |what, action: &str, apply, expected: &[u8]| leaves(what, "", action, apply, expected);
    call(
        "a header that is read does not follow the variable",
        "action f(in h_t x) { hdr.h.a = 9; hdr.h.b = x.a; }",
        "f(hdr.h);",
        &[9, 1, 3, 4],
    );
    call(
        "a number that is read does not follow the variable",
        "action f(in bit<8> x) { hdr.h.a = 9; hdr.h.b = x; }",
        "f(hdr.h.a);",
        &[9, 1, 3, 4],
    );
    call(
        "a header that is written is written when the action ends",
        "action f(inout h_t x) { hdr.h.a = 9; x.b = hdr.h.a; x.a = x.a + 1; }",
        "f(hdr.h);",
        &[2, 9, 3, 4],
    );
    call(
        "a header that is given twice: the last one stays",
        "action f(inout h_t x, inout h_t y) { x.a = 10; y.b = x.a + 10; }",
        "f(hdr.h, hdr.h);",
        &[1, 20, 3, 4],
    );
    call(
        "a header and a part of it: copied out from left to right",
        "action f(inout h_t x, inout bit<8> y) { x.a = 10; y = y + 20; }",
        "f(hdr.h, hdr.h.a);",
        &[21, 2, 3, 4],
    );
    call(
        "the part first",
        "action f(inout bit<8> y, inout h_t x) { x.a = 10; y = y + 20; }",
        "f(hdr.h.a, hdr.h);",
        &[10, 2, 3, 4],
    );
    call(
        "bits of one field, twice",
        "action f(inout bit<4> x, inout bit<4> y) { x = 5; y = x + y; }",
        "f(hdr.h.a[7:4], hdr.h.a[3:0]);",
        &[0x56, 2, 3, 4],
    );
    call(
        "an action in an action has copies of copies",
        "action g(inout h_t x) { hdr.h.c = 30; x.a = x.a + 1; }
         action f(inout h_t x) { g(x); x.b = x.a; hdr.h.a = 50; }",
        "f(hdr.h);",
        &[2, 2, 3, 4],
    );
    call(
        "`return` ends the action, and what it gave goes out",
        "action f(inout h_t x, out bit<8> y) { x.a = 10; y = 20; if (x.b == 2) { return; } x.a = 0; y = 0; }",
        "f(hdr.h, hdr.h.d);",
        &[10, 2, 3, 20],
    );
}

#[test]
fn what_goes_out_begins_without_a_value() {
    let is_valid = "action f(out h_t x, inout bit<8> seen) { if (x.isValid()) { seen = 9; } x.a = 7; }";
    leaves("a header is not valid", "", is_valid, "meta.k = hdr.h; f(meta.k, hdr.h.b);", &[1, 2, 3, 4]);
    let apply = "f(hdr.h, meta.x);";
    leaves("and stays so", "", is_valid, apply, &[]);
    let set = "action f(out h_t x) { x.setValid(); x.a = 7; }";
    leaves("its fields are 0", "", set, "f(hdr.h);", &[7, 0, 0, 0]);
    let control = "control C(out h_t x, out bit<8> y) { apply { x.setValid(); x.b = 7; y = y + 5; } }";
    leaves("in a control too", control, "C() c;", "c.apply(hdr.h, hdr.h.c);", &[0, 7, 5, 0]);
    let apply = "meta.k = hdr.h; meta.x = 9; c.apply(meta.k, meta.x); hdr.h = meta.k; hdr.h.d = meta.x;";
    leaves("where they do not meet", control, "C() c;", apply, &[0, 7, 0, 5]);
}

#[test]
fn controls_get_copies_where_arguments_meet() {
    let call = |what, control: &str, apply, expected: &[u8]| leaves(what, control, "C() c;", apply, expected);
    let two = "control C(inout bit<8> x, inout bit<8> y) { apply { x = x + 1; y = y + x; } }";
    call("one variable for two parameters", two, "c.apply(hdr.h.a, hdr.h.a);", &[3, 2, 3, 4]);
    call("two variables", two, "c.apply(hdr.h.a, hdr.h.b);", &[2, 4, 3, 4]);
    call(
        "a header that is read, and a field of it that is written",
        "control C(in h_t x, inout bit<8> y) { apply { y = 7; y = x.a + y; } }",
        "c.apply(hdr.h, hdr.h.a);",
        &[8, 2, 3, 4],
    );
    call(
        "all headers, and one of them",
        "control C(inout headers x, inout h_t y) { apply { x.h.a = 10; y.b = x.h.a; } }",
        "c.apply(hdr, hdr.h);",
        &[1, 10, 3, 4],
    );
    call(
        "bits of a field",
        "control C(inout bit<4> x, out bit<4> y) { apply { x = x + 1; y = 15; } }",
        "c.apply(hdr.h.a[3:0], hdr.h.a[7:4]);",
        &[0xf2, 2, 3, 4],
    );
    call(
        "`return` ends the control, and what it gave goes out",
        "control C(inout h_t x, inout bit<8> y) { apply { x.a = 10; y = 20; if (x.b == 2) { return; } y = 0; } }",
        "c.apply(hdr.h, hdr.h.a);",
        &[20, 2, 3, 4],
    );
    call(
        "a control in a control",
        "control D(inout h_t x, inout h_t y) { apply { x.a = x.a + 1; y.b = x.a + y.a; } }
         control C(inout h_t x, in bit<8> y) { D() d; apply { d.apply(x, x); x.c = y; } }",
        "c.apply(hdr.h, hdr.h.b);",
        &[1, 3, 2, 4],
    );
    call(
        "an action of a control sees its copies",
        "control C(inout h_t x, inout bit<8> y) { action f(inout bit<8> z) { x.a = 10; z = z + 1; } apply { f(x.a); f(y); } }",
        "c.apply(hdr.h, hdr.h.d);",
        &[10, 2, 3, 5],
    );
}

#[test]
fn exit_copies_out() {
    leaves(
        "of an action",
        "",
        "action f(inout bit<8> x, out h_t y) { x = 7; y.setValid(); y.b = 8; exit; }",
        "f(meta.x, hdr.h); hdr.h.a = 99;",
        &[0, 8, 0, 0],
    );
    leaves(
        "of actions in actions, the inner one first",
        "",
        "action g(inout bit<8> x) { x = x + 1; if (x == 2) { exit; } x = 99; }
         action f(inout bit<8> x, inout bit<8> y) { y = 20; g(x); x = 99; }",
        "f(hdr.h.a, hdr.h.b); hdr.h.c = 99;",
        &[2, 20, 3, 4],
    );
    leaves(
        "of a control, and of the control around it",
        "control D(inout h_t x, inout bit<8> y) { apply { x.a = 10; y = 20; exit; } }
         control C(inout h_t x, inout bit<8> y) { D() d; apply { y = 30; d.apply(x, x.a); y = 99; } }",
        "C() c;",
        "c.apply(hdr.h, hdr.h.b); hdr.h.c = 99;",
        &[20, 30, 3, 4],
    );
    leaves(
        "of a control whose table's action exits",
        "action stop() { exit; }
         control C(inout h_t x, inout bit<8> y) {
             action mine(bit<8> z) { y = z; exit; }
             table t { key = { x.b: exact; } actions = { stop; mine; } const entries = { 2: mine(8); } default_action = stop(); }
             apply { x.a = 10; t.apply(); x.a = 99; }
         }",
        "C() c;",
        "c.apply(hdr.h, hdr.h.d); hdr.h.c = 99;",
        &[10, 2, 3, 8],
    );
    leaves(
        "also where the action is declared outside",
        "action stop() { exit; }
         control C(inout h_t x, inout bit<8> y) {
             table t { actions = { stop; } default_action = stop(); }
             apply { x.a = 10; y = 20; t.apply(); x.a = 99; }
         }",
        "C() c;",
        "c.apply(hdr.h, hdr.h.d); hdr.h.c = 99;",
        &[10, 2, 3, 20],
    );
    leaves(
        "that is not reached",
        "control C(inout h_t x, inout bit<8> y) { apply { x.a = 10; if (x.b == 9) { exit; } y = 20; } }",
        "C() c;",
        "c.apply(hdr.h, hdr.h.d); hdr.h.c = 30;",
        &[10, 2, 30, 20],
    );
}

#[test]
fn actions_of_tables_get_copies_of_what_is_bound() {
    let table = |action: &str, bound: &str| {
        format!("{action} table t {{ actions = {{ {bound}; }} default_action = f(5); }}")
    };
    let call = |what, action: &str, bound: &str, apply, expected: &[u8]| {
        leaves(what, "", &table(action, bound), apply, expected);
    };
    call(
        "in",
        "action f(in bit<8> x, bit<8> z) { hdr.h.a = 9; hdr.h.b = x; hdr.h.c = z; }",
        "f(hdr.h.a)",
        "t.apply();",
        &[9, 1, 5, 4],
    );
    call(
        "in, a header",
        "action f(in h_t x, bit<8> z) { hdr.h.a = 9; hdr.h.b = x.a; hdr.h.c = z; }",
        "f(hdr.h)",
        "t.apply();",
        &[9, 1, 5, 4],
    );
    call(
        "inout, twice the same",
        "action f(inout bit<8> x, inout bit<8> y, bit<8> z) { x = x + z; y = y + x; }",
        "f(hdr.h.a, hdr.h.a)",
        "t.apply();",
        &[7, 2, 3, 4],
    );
    call(
        "out, bits, and a return",
        "action f(out bit<4> x, inout h_t y, bit<8> z) { x = 15; y.b = z; if (y.a == 1) { return; } x = 0; }",
        "f(hdr.h.a[7:4], hdr.h)",
        "t.apply();",
        &[1, 5, 3, 4],
    );
    call(
        "an exit",
        "action f(inout bit<8> x, bit<8> z) { x = x + z; exit; }",
        "f(hdr.h.a)",
        "t.apply(); hdr.h.d = 99;",
        &[6, 2, 3, 4],
    );
}

/// P4-16 §8: operands are evaluated from left to right, and a table that is applied on the right changes them.
#[test]
fn operands_are_evaluated_from_left_to_right() {
    let table = "action f() { hdr.h.a = 9; } table t { key = { hdr.h.b: exact; } actions = { f; } const entries = { 2: f(); } }";
    let run = |what, apply, expected: &[u8]| leaves(what, "", table, apply, expected);
    run("of an operator", "hdr.h.b = hdr.h.a + (t.apply().hit ? 8w20 : 40);", &[9, 21, 3, 4]);
    run("of a comparison", "if (hdr.h.a == 1 == t.apply().hit) { hdr.h.b = 7; }", &[9, 7, 3, 4]);
    run("of a list", "hdr.h = { hdr.h.a, hdr.h.a, t.apply().hit ? 8w20 : 40, hdr.h.a };", &[1, 1, 20, 9]);
    let action = format!("{table} action g(in bit<8> x, in bit<8> y) {{ hdr.h.c = x; hdr.h.d = y; }}");
    leaves("of a call", "", &action, "g(hdr.h.a, t.apply().hit ? 8w20 : 40);", &[9, 2, 1, 20]);
    let control = "control C(in bit<8> x, in bit<8> y, inout h_t z) { apply { z.c = x; z.d = y; } }";
    let locals = format!("{table} C() c;");
    let apply = "c.apply(hdr.h.a, t.apply().hit ? 8w20 : 40, hdr.h);";
    leaves("of a control", control, &locals, apply, &[9, 2, 1, 20]);
}

#[test]
fn a_list_may_hold_what_it_overwrites() {
    let run = |what, metadata: &str, apply: &str, expected: &[u8]| {
        let source = source("", "", apply);
        let source = source.replacen(
            "struct metadata {",
            &format!("struct pair {{ h_t p; h_t q; }} struct metadata {{ {metadata}"),
            1,
        );
        let out = Machine::new(common::lowered(&source)).packet(0, &[1, 2, 3, 4], 0);
        assert_eq!(out[0].bytes, expected, "{what}");
    };
    let swap = "meta.w.p = hdr.h; meta.w.q = { 5, 6, 7, 8 }; meta.w = { meta.w.q, meta.w.p }; hdr.h = meta.w.q; hdr.h.d = meta.w.p.d;";
    run("headers change places", "pair w;", swap, &[1, 2, 3, 8]);
    let valid = "meta.f = { meta.f.isValid(), 0 }; hdr.h.d = meta.f.was ? 8w1 : 2;";
    let header = "f_t f;";
    let source = source("", "", valid).replacen(
        "struct metadata {",
        &format!("header f_t {{ bool was; bit<7> rest; }} struct metadata {{ {header}"),
        1,
    );
    let out = Machine::new(common::lowered(&source)).packet(0, &[1, 2, 3, 4], 0);
    assert_eq!(out[0].bytes, [1, 2, 3, 2], "whether a header was valid");
}

#[test]
fn stacks_are_copied_whole() {
    let stack = "control C(inout h_t[3] x, in h_t[3] y) { apply { x.push_front(1); x[0].setValid(); x[0].a = y[0].b; x[2] = y[1]; } }";
    let apply = "meta.s[0] = hdr.h; meta.s[1] = { 5, 6, 7, 8 }; c.apply(meta.s, meta.s);
                 hdr.h = { meta.s[0].a, meta.s[1].a, meta.s[2].a, meta.s[2].b };";
    let source =
        source(stack, "C() c;", apply).replacen("struct metadata {", "struct metadata { h_t[3] s;", 1);
    let out = Machine::new(common::lowered(&source)).packet(0, &[1, 2, 3, 4], 0);
    assert_eq!(out[0].bytes, [2, 1, 5, 6]);
}

/// The architecture's metadata may be given to a control as a copy, which is what is marked then.
#[test]
fn dropping_marks_what_is_given() {
    let control = "control C(inout standard_metadata_t x, in standard_metadata_t y) { apply { mark_to_drop(x); x.egress_spec = y.egress_spec; } }";
    leaves("not dropped", control, "C() c;", "c.apply(standard, standard);", &[1, 2, 3, 4]);
    let control =
        "control C(inout standard_metadata_t x, inout standard_metadata_t y) { apply { mark_to_drop(x); } }";
    leaves("the second copy stays", control, "C() c;", "c.apply(standard, standard);", &[1, 2, 3, 4]);
    let control = "control C(in standard_metadata_t x) { apply { mark_to_drop(x); } }";
    let found = common::findings(&source(control, "C() c;", "c.apply(standard);"));
    assert!(found.iter().any(|found| found.contains("`x` cannot be written")), "{found:?}");
}
