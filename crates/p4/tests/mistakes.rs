//! Mistakes: what is said, where, and what to do about it.

use super::common;

use common::findings;

/// In a control with a header of two bytes, some of each kind of declaration, and this apply.
fn in_apply(apply: &str) -> Vec<String> {
    let locals = "action set(bit<8> value) { hdr.h.a = value; }
        table forward { key = { hdr.h.a: exact; } actions = { set; NoAction; } }
        muTable flows { keys = { hdr.h.a; } values = { bit<8> state; } }
        register<bit<8>>(16) counts;";
    findings(&common::program("bit<8> a; bit<8> b;", "bit<8> x; int<8> i; bool flag;", locals, apply))
}

/// Mistakes without their place.
fn said(found: Vec<String>) -> Vec<String> {
    found
        .into_iter()
        .map(|line| line.split_once(' ').map_or(line.clone(), |(_, text)| text.to_owned()))
        .collect()
}

#[test]
fn types_are_checked() {
    let cases = [
        ("meta.x = hdr.h.a ++ hdr.h.b;", "expected bit<8>, found bit<16> (convert it: `(bit<8>)`)"),
        ("meta.x = meta.i;", "expected bit<8>, found int<8> (convert it: `(bit<8>)`)"),
        ("meta.flag = hdr.h.a[0:0];", "expected bool, found bit<1> (compare it: `== 1`)"),
        ("if (hdr.h.a) { }", "expected bool, found bit<8>"),
        (
            "meta.x = hdr.h.a + meta.i;",
            "bit<8> and int<8> do not go together (convert one of them: `(bit<8>)`)",
        ),
        (
            "meta.x = hdr.h.a / 2;",
            "P4 divides only numbers that are known when the program is compiled (shift by a number of bits, or take the low bits with `&`)",
        ),
        ("meta.x = hdr.h.a[8:1];", "the highest bit of this slice is 0 to 7, not 8"),
        ("meta.x = hdr.h.a[1:4] ++ hdr.h.a[3:0];", "a slice is [high:low], and 1 is below 4 (write [4:1])"),
        ("meta.x = hdr.h.a >> meta.i;", "a shift goes by bit<W> or a number, not by int<8>"),
        ("meta.x = 300;", "300 does not fit in bit<8>"),
        ("meta.x = 8w300;", "300 does not fit in bit<8>"),
        (
            "meta.i = (int<8>) hdr.h.a[3:0];",
            "bit<4> cannot be converted to int<8> (first change the width, with (bit<8>))",
        ),
        ("meta.x = forward.apply();", "expected bit<8>, found void"),
        ("hdr.h = { 1 };", "h_t has 2 fields, the list 1"),
    ];
    for (apply, expected) in cases {
        assert_eq!(said(in_apply(apply)), [expected], "{apply}");
    }
}

#[test]
fn near_names_are_suggested() {
    let cases = [
        ("hdr.h.c = 1;", "h_t has no field `c` (there are: a, b)"),
        ("meta.flga = true;", "metadata has no field `flga` (did you mean `flag`?)"),
        ("forwrad.apply();", "there is no variable `forwrad` (did you mean `forward`?)"),
        ("forward.aply();", "`forward` has no method `aply` (did you mean `apply`?)"),
        ("flows.wirte(hdr, 1);", "`flows` has no method `wirte` (did you mean `write`?)"),
        (
            "mark_to_dorp(standard);",
            "there is no action or function `mark_to_dorp` (did you mean `mark_to_drop`?)",
        ),
        ("hdr.h.isvalid();", "h_t has no method `isvalid` (did you mean `isValid`?)"),
    ];
    for (apply, expected) in cases {
        assert_eq!(said(in_apply(apply)), [expected], "{apply}");
    }
}

/// What is outside of the subset is refused by its name.
#[test]
fn other_constructs_are_refused() {
    const TAIL: &str = "not in the subset of P4 that is compiled here";
    let in_apply_cases = [
        ("clone(CloneType.I2E, 1);", "`clone` is"),
        ("digest(1, hdr);", "`digest` is"),
        ("for (int i = 0; i < 3; i = i + 1) { }", "`for` is"),
        ("log_msg(\"x\");", "`log_msg` is"),
        (
            "if (meta.flag && forward.apply().hit) { }",
            "a call with effects on the right of `&&`, `||` or in a choice is",
        ),
    ];
    for (apply, construct) in in_apply_cases {
        let found = said(in_apply(apply));
        assert!(found[0].starts_with(&format!("{construct} {TAIL}")), "{apply}: {found:?}");
    }
    let declarations = [
        ("header_union u { }", "`header_union` is"),
        ("extern void f();", "an `extern` of one's own is"),
        ("package P();", "a `package` of one's own is"),
        ("bit<8> f(in bit<8> x) { return x; }", "a function is"),
        ("header v { varbit<32> x; }", "`varbit` is"),
        ("type bit<8> t;", "`type` is"),
    ];
    for (declaration, construct) in declarations {
        let found = said(findings(&format!("#include <v1model.p4>\n{declaration}\n")));
        assert!(
            found.iter().any(|line| line.starts_with(&format!("{construct} {TAIL}"))),
            "{declaration}: {found:?}"
        );
    }
}

/// Keys are evaluated wherever the table is used: one that read its own table would never end.
#[test]
fn a_key_cannot_use_a_mu_table() {
    let locals = "muTable other { keys = { hdr.h.a; } values = { bit<8> s; } }
        muTable m { keys = { m.read(hdr); other.read(hdr); } values = { bit<8> s; } }";
    let found = said(findings(&common::program("bit<8> a;", "", locals, "hdr.h.a = m.read(hdr);")));
    let expected = "a key of a muTable cannot use a muTable (read it into metadata first)";
    assert!(found.contains(&expected.to_owned()), "{found:?}");
}

#[test]
fn mu_tables_are_checked() {
    let declare = |body: &str| {
        said(findings(&common::program("bit<8> a;", "", &format!("muTable m {{ {body} }}"), "")))
    };
    let cases = [
        ("keys = { hdr.h.a; }", "the muTable `m` has no values (add `values = { ... }`)"),
        ("values = { bit<8> s; }", "the muTable `m` has no keys (add `keys = { ... }`)"),
        (
            "keys = { hdr.h.a; } values = { bit<8> s; } type = exakt;",
            "there is no type `exakt` of muTables (did you mean `exact`?)",
        ),
        (
            "keys = { hdr.h.a; } values = { bit<8> s; } consistency = BS;",
            "there is no consistency `BS` (there are: STRICT, WEAK, BS(K))",
        ),
        (
            "keys = { hdr.h.a; } values = { bit<8> s; } consistency = BS(0);",
            "the bound of packets that may see an old state is 1 to 1048576, not 0",
        ),
        (
            "keys = { hdr.h.a; hdr.h.a; } values = { bit<8> s; } type = direct;",
            "a muTable of type `direct` has one key: the entry's number",
        ),
        (
            "keys = { hdr.h.a; } valeus = { bit<8> s; }",
            "there is no property of a muTable `valeus` (did you mean `values`?)",
        ),
    ];
    for (body, expected) in cases {
        let found = declare(body);
        assert!(found.iter().any(|line| line == expected), "{body}: {found:?}");
    }
}

/// Several in one run, each at its place in the file, behind a macro as well.
#[test]
fn several_mistakes_have_places() {
    let source = "#include <v1model.p4>
#define WIDE 300
header h_t {
    bit<8> a
    bit<8> b;
}
const bit<8> x = 8w0 + unknown;
const bit<8> y = WIDE;
struct s { nothing z; }
control C(inout s v) { apply { v.q = 1; ; 5; } }
";
    let found = findings(source);
    let places: Vec<&str> =
        found.iter().map(|line| line.split_once(' ').map_or("", |(place, _)| place)).collect();
    // The missing `main` has no place of its own.
    assert_eq!(places, ["1:1", "4:12", "7:24", "8:18", "9:12", "10:43"], "{found:#?}");
}

#[test]
fn preprocessing() {
    let ok = "#define A(x) (x + B)\n#define B 2\n#if defined(A) && !defined C && B >= 2\nconst bit<8> x = A(8w3);\n#else\n!!!\n#endif\n#ifdef C\n#error no\n#elif B == 2\n#else\n$\n#endif\n";
    let found = said(findings(ok));
    assert_eq!(found.len(), 1, "only `main` is missing: {found:?}");
    let joined = "#define JOIN(a, b) a##b
#define NAME(a) f_ ## a ## _t
#define EMPTY(a, b) a ## b 8w1
#define TWICE(x) JOIN(x, JOIN_2)
const bit<16> JOIN(ab, cd) = JOIN(16, w18);
const bit<8> NAME(x) = EMPTY(, );
const bit<8> y = f_x_t + EMPTY(, );
const bit<16> z = abcd;";
    let found = said(findings(joined));
    assert_eq!(found.len(), 1, "only `main` is missing: {found:?}");
    let texts = "@note(\"over\nlines \\\" of // /* it\")\nconst int x = 1;\n#if 0\ndon't \"open\n#endif\nconst bit<8> y = x;";
    let found = said(findings(texts));
    assert_eq!(found.len(), 2, "`main` is missing, and the annotation has no effect: {found:?}");
    let guards = "#include <core.p4>\n#ifndef _CORE_P4_\n!!!\n#endif\n#include <v1model.p4>\n#include <core.p4>\n#ifndef _V1_MODEL_P4_\n!!!\n#endif";
    assert_eq!(said(findings(guards)).len(), 1);
    let cases = [
        ("#inclued <core.p4>", "there is no directive `#inclued` (did you mean `#include`?)"),
        ("#include <v1modle.p4>", "there is no file `v1modle.p4` to include (did you mean <v1model.p4>?)"),
        ("#if 1", "this `#if` is never closed (add `#endif`)"),
        ("#endif", "`#endif` without `#if`"),
        ("#define F(x) x\nconst int y = F(1, 2);", "`F` takes 1 arguments, not 2"),
        ("const int y = \"open;", "this text is not closed (end it with `\"`)"),
        ("#define JOIN(a) a ##\nconst int y = 1;", "`##` stands between two tokens"),
        ("#define JOIN(a, b) a ## b\nconst int y = JOIN(1, +);", "`##` makes `1+`, which is not one token"),
        ("const int y = 1 ## 2;", "`##` has no place here (it joins two tokens in what `#define` says)"),
    ];
    for (text, expected) in cases {
        let found = said(findings(text));
        assert!(found.iter().any(|line| line == expected), "{text}: {found:?}");
    }
}
