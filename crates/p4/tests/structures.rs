//! Lists that become structs and headers (P4-16, "Structure-valued expressions"), and what looks ahead: what leaves, and what is refused.

use super::common;

use paceline_p4::interpret::Machine;
use paceline_p4::passes;

/// Two headers, of which the packet has the first.
fn source(types: &str, locals: &str, apply: &str) -> String {
    let apply = format!("standard.egress_spec = 1; {apply}");
    common::program("bit<8> a; bit<8> b;", "bit<8> x; w_t w;", locals, &apply)
        .replacen(
            "struct headers { h_t h; }",
            "struct w_t { h_t p; h_t q; } struct headers { h_t h; h_t m; }",
            1,
        )
        .replacen("packet.emit(hdr.h);", "packet.emit(hdr);", 1)
        .replacen("struct metadata", &format!("{types} struct metadata"), 1)
}

/// What leaves for the bytes 0, 5, 0xaa, of the program as it is written and as it is compiled.
#[track_caller]
fn leaves_with(types: &str, locals: &str, apply: &str, expected: &[u8]) {
    let whole = common::lowered(&source(types, locals, apply));
    let mut compiled = whole.clone();
    passes::compile(&mut compiled);
    for (what, program) in [("written", whole), ("compiled", compiled)] {
        let out = Machine::new(program).packet(0, &[0, 5, 0xaa], 0);
        assert_eq!(out.first().map(|out| &out.bytes[..]), Some(expected), "{what}: {apply}");
    }
}

#[track_caller]
fn leaves(apply: &str, expected: &[u8]) {
    leaves_with("", "", apply, expected);
}

fn said(source: &str) -> Vec<String> {
    let text = |line: String| line.split_once(' ').map_or(line.clone(), |(_, text)| text.to_owned());
    common::findings(source).into_iter().map(text).collect()
}

#[test]
fn a_cast_list_is_a_header() {
    leaves("hdr.m = (h_t){ 2, 1 };", &[0, 5, 2, 1, 0xaa]);
    leaves("h_t t = (h_t){ 2, 1 }; hdr.m = t;", &[0, 5, 2, 1, 0xaa]);
    leaves("hdr.m = { 2, hdr.h.b };", &[0, 5, 2, 5, 0xaa]);
    leaves("hdr.h = (h_t){ hdr.h.b, hdr.h.a };", &[5, 0, 0xaa]);
    leaves("hdr.h.a = ((h_t){ 7, 8 }).b;", &[8, 5, 0xaa]);
    leaves(
        "h_t t = (h_t){ 7, 8 }; hdr.m = t; if (hdr.m.isValid()) { mark_to_drop(standard); standard.egress_spec = 1; hdr.h.a = 1; }",
        &[1, 5, 7, 8, 0xaa],
    );
    leaves("if (((h_t){ 7, 8 }).isValid()) { hdr.h.a = 1; }", &[1, 5, 0xaa]);
    leaves("hdr.m = (h_t) hdr.h;", &[0, 5, 0, 5, 0xaa]);
}

#[test]
fn fields_are_given_by_name() {
    leaves("hdr.m = { b = 1, a = 2 };", &[0, 5, 2, 1, 0xaa]);
    leaves("hdr.m = (h_t){ b = hdr.h.b, a = 2 };", &[0, 5, 2, 5, 0xaa]);
    leaves("hdr.h = { a = hdr.h.b, b = hdr.h.a };", &[5, 0, 0xaa]);
    leaves(
        "meta.w = { q = { 3, 4 }, p = { b = 1, a = 2 } }; hdr.m = meta.w.q; hdr.h.a = meta.w.p.b;",
        &[1, 5, 3, 4, 0xaa],
    );
    leaves(
        "meta.w = (w_t){ hdr.h, (h_t){ 3, 4 } }; hdr.m = meta.w.q; hdr.h.a = meta.w.p.b;",
        &[5, 5, 3, 4, 0xaa],
    );
    leaves("hdr = { { 1, 2 }, { 3, 4 } };", &[1, 2, 3, 4, 0xaa]);
    leaves("hdr.m = (h_t){ 2, 1 }; hdr.m = {#};", &[0, 5, 0xaa]);
    leaves("hdr = { m = (h_t){#}, h = { 8, 9 } };", &[8, 9, 0xaa]);
}

#[test]
fn calls_take_lists() {
    let action = "action f(in h_t x, inout bit<8> y) { hdr.m = x; y = x.b; }";
    leaves_with("", action, "f((h_t){ 2, 1 }, hdr.h.a);", &[1, 5, 2, 1, 0xaa]);
    leaves_with("", action, "f({ b = 1, a = hdr.h.b }, hdr.h.a);", &[1, 5, 5, 1, 0xaa]);
    let one = "action f(in s_t x) { hdr.h.a = x.v; hdr.h.b = x.v; }";
    leaves_with("struct s_t { bit<8> v; }", one, "f((s_t){ hdr.h.b + 1 });", &[6, 6, 0xaa]);
    let constant = "const h_t C = { 2, 1 }; const w_t D = { q = C, p = { 3, 4 } };";
    leaves_with("", constant, "hdr.m = D.q; hdr.h.a = C.a; hdr.h.b = D.p.a;", &[2, 3, 2, 1, 0xaa]);
    let hashed = "hash(hdr.h.a, HashAlgorithm.identity, 8w0, (h_t){ 1, 2 }, 16w0xffff);";
    leaves(hashed, &[2, 5, 0xaa]);
}

/// None of these statements may go without a word.
#[test]
fn lists_that_are_no_values_are_refused() {
    let cases = [
        (
            "hdr.h.a = { 1, 2 } + 1;",
            "an operation on whole structs, headers or lists is not in the subset of P4 that is compiled here (name the fields)",
        ),
        ("hdr.h.a = -{ 1, 2 };", "`-` takes bit<W> or int<W>, not a list"),
        ("hdr.h.a = (bit<8>){ 1 };", "a list cannot be converted to bit<8>"),
        ("hdr.h.a = { 1 };", "expected bit<8>, found a list"),
        ("hdr.h.a = { 1, 2 }[3:0];", "what is sliced cannot be of type a list"),
        ("hdr.m = (w_t){ { 1, 2 }, { 3, 4 } };", "expected h_t, found w_t"),
        ("hdr.m = (h_t){ 1 };", "h_t has 2 fields, the list 1"),
        ("hdr.m = { a = 1, c = 2 };", "h_t has no field `c` (there are: a, b)"),
        ("hdr.m = { a = 1, a = 2 };", "`a` is given twice"),
        ("hdr.m = { a = 1 };", "the field `b` of h_t is not given"),
        ("hdr.m = (h_t) 5;", "int cannot be converted to h_t"),
        ("meta.x = (h_t){ 1, 2 };", "expected bit<8>, found h_t"),
        ("meta.w = {#};", "expected w_t, found a list"),
        (
            "hdr.m = hdr.h.a == 1 ? { 1, 2 } : { 3, 4 };",
            "a choice between structs or headers is not in the subset of P4 that is compiled here (use `if`)",
        ),
        ("if ({ 1, 2 }) { }", "expected bool, found a list"),
        ("switch ({ 1, 2 }) { default: { } }", "what is switched on cannot be of type a list"),
        ("{ 1, 2 }.isValid();", "this is neither a call nor an assignment"),
        ("hdr.m = { 1, { 2 } };", "expected bit<8>, found a list"),
        ("hdr.m = { 1, true };", "expected bit<8>, found bool"),
        ("hdr.h.a = {#}.a;", "a value of type a list has no fields"),
    ];
    for (apply, expected) in cases {
        let found = said(&source("", "", apply));
        let is_there =
            found.iter().any(|line| line == expected) || apply.starts_with('{') && !found.is_empty();
        assert!(is_there, "{apply}: {found:?}");
    }
    let constants = [
        ("const h_t C = { 1, hdr.h.a };", "a constant's value is known when the program is compiled"),
        ("const bit<8> C = { 1, 2 };", "expected bit<8>, found a list"),
    ];
    for (locals, expected) in constants {
        let found = said(&source("", locals, ""));
        assert_eq!(found, [expected], "{locals}");
    }
    // What names the constant says nothing more, and what emits a number is refused.
    let found = said(&source("", "const h_t C = { 1 };", "hdr.m = C;"));
    assert_eq!(found, ["h_t has 2 fields, the list 1"]);
    let emits = source("", "", "").replacen("packet.emit(hdr);", "packet.emit(hdr); packet.emit(8w5);", 1);
    assert_eq!(said(&emits), ["headers are emitted, not bit<8>"]);
}

/// P4-16, "Packet lookahead".
#[test]
fn a_header_that_is_looked_ahead_at_is_valid() {
    let parser = |state: &str| {
        let source = source("", "", "");
        source.replacen("packet.extract(hdr.h);", &format!("packet.extract(hdr.h); {state}"), 1)
    };
    let sent = |state: &str| {
        let program = common::lowered(&parser(state));
        let out = Machine::new(program).packet(0, &[0, 5, 0xaa, 0xbb], 0);
        out.first().map(|out| out.bytes.clone()).unwrap_or_default()
    };
    assert_eq!(sent("hdr.m = packet.lookahead<h_t>();"), [0, 5, 0xaa, 0xbb, 0xaa, 0xbb]);
    assert_eq!(sent("h_t t = packet.lookahead<h_t>(); hdr.h = t;"), [0xaa, 0xbb, 0xaa, 0xbb]);
    let valid = "if (packet.lookahead<h_t>().isValid()) { hdr.h.a = packet.lookahead<h_t>().b; }";
    assert_eq!(sent(valid), [0xbb, 5, 0xaa, 0xbb]);
    let nested = "meta.w.p = { 1, 2 }; packet.advance(16); meta.w.q = meta.w.p; hdr.m = meta.w.q;";
    assert_eq!(sent(nested), [0, 5, 1, 2]);
    // What the packet does not hold is not valid.
    assert_eq!(sent("packet.advance(8); hdr.m = packet.lookahead<h_t>();"), [0, 5, 0xbb]);
}

/// Serialisable enumerations are what their type is (P4-16, "Implicit casts").
#[test]
fn enumerations_with_a_type_are_numbers() {
    let types = "enum bit<8> E { one = 1, top = 0x81 } enum bit<8> F { two = 2 } enum N { x, y }";
    let run = |apply: &str, expected: &[u8]| leaves_with(types, "", apply, expected);
    run("hdr.h.a = E.top;", &[0x81, 5, 0xaa]);
    run("hdr.h.a = E.one + hdr.h.b;", &[6, 5, 0xaa]);
    run("hdr.h.a = (bit<8>) (bit<16>) E.top;", &[0x81, 5, 0xaa]);
    run("hdr.h.a = (bit<8>) (int<8>) (int<16>) (int<8>) E.top;", &[0x81, 5, 0xaa]);
    run("E e = (E) hdr.h.b; hdr.h.a = (bit<8>) e;", &[5, 5, 0xaa]);
    run("E e = (E) F.two; hdr.h.a = e;", &[2, 5, 0xaa]);
    run("E e = (E) 1; if (e == E.one) { hdr.h.a = 9; }", &[9, 5, 0xaa]);
    run("E e = (E) hdr.h.b; if (e == 5) { hdr.h.a = e << E.one; }", &[10, 5, 0xaa]);
    run("hdr.h.a = E.top[7:4] ++ E.one[3:0];", &[0x81, 5, 0xaa]);
    run("hdr.h.a = ~E.one;", &[0xfe, 5, 0xaa]);
    let refused = [
        ("E e = hdr.h.b;", "expected E, found bit<8>"),
        ("E e = F.two;", "expected E, found F"),
        ("hdr.h.a = (bit<8>) N.y;", "N cannot be converted to bit<8>"),
        ("E e = (E) 16w1;", "bit<16> cannot be converted to E"),
        ("hdr.h.a = N.y + 1;", "expected N, found int"),
    ];
    for (apply, expected) in refused {
        assert_eq!(said(&source(types, "", apply)), [expected], "{apply}");
    }
}

/// P4-16, "Operations on header stacks": a parser that reads `last` before it has extracted anything rejects.
#[test]
fn the_last_header_of_an_empty_stack_is_out_of_bounds() {
    let source = |state: &str| {
        source("", "", "if (standard.parser_error == error.StackOutOfBounds) { hdr.h.b = 0xee; }")
            .replacen("h_t m; }", "h_t m; h_t[2] st; }", 1)
            .replacen("packet.extract(hdr.h);", &format!("packet.extract(hdr.h); {state}"), 1)
    };
    let sent = |state: &str| {
        let program = common::lowered(&source(state));
        Machine::new(program).packet(0, &[0, 5, 7, 8], 0)[0].bytes.clone()
    };
    assert_eq!(sent("hdr.h.a = hdr.st.last.a;"), [0, 0xee, 7, 8]);
    assert_eq!(
        sent("transition select(hdr.st.last.b) { 9: reject; default: accept; } } state other {"),
        [0, 0xee, 7, 8]
    );
    assert_eq!(sent("packet.extract(hdr.st.next); hdr.h.a = hdr.st.last.b;"), [8, 5, 7, 8]);
}

/// A control keeps what it counts once.
#[test]
fn a_control_that_counts_is_applied_once() {
    let control = "control C(inout h_t x) { counter(4, CounterType.packets) n; apply { n.count(32w1); } } control Ingress";
    let source =
        source("", "C() c;", "c.apply(hdr.h); c.apply(hdr.h);").replacen("control Ingress", control, 1);
    let found = said(&source);
    assert!(found.len() == 1 && found[0].starts_with("applying `c` a second time is"), "{found:?}");
}
