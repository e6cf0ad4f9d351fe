//! Tables: which entry matches where several do, what entries may not be, and what test files call actions.

use super::common;

use paceline_p4::interpret::Machine;
use paceline_p4::stf;

fn source(locals: &str, apply: &str) -> String {
    let fields = "bit<32> a; bit<8> b; bit<8> c; bit<8> d; bit<8> r;";
    let actions = "action set(bit<8> v) { hdr.h.r = v; }";
    common::program(fields, "", &format!("{actions} {locals}"), &format!("standard.egress_spec = 1; {apply}"))
}

/// The test file holds.
#[track_caller]
fn holds(source: &str, test: &str) {
    let mut machine = Machine::new(common::lowered(source));
    let report = stf::run(&mut machine, test).unwrap_or_else(|error| panic!("{error}\n{test}"));
    assert!(report.failures.is_empty(), "{:#?}\n{source}", report.failures);
    assert!(report.expectations > 0);
}

fn said(source: &str) -> Vec<String> {
    let text = |line: String| line.split_once(' ').map_or(line.clone(), |(_, text)| text.to_owned());
    common::findings(source).into_iter().map(text).collect()
}

/// P4Runtime, "Match Format": the longest prefix decides only where all other keys are exact.
#[test]
fn order_decides_beside_a_prefix() {
    for (kind, any, one) in
        [("ternary", "_", "1 &&& 0xff"), ("range", "0 .. 255", "1"), ("optional", "_", "1")]
    {
        let table = format!(
            "table t {{ key = {{ hdr.h.a: lpm; hdr.h.b: {kind}; }} actions = {{ set; NoAction; }}
               const entries = {{
                 (0x0a000000 &&& 0xff000000, {one}): set(1);
                 (0x0a010000 &&& 0xffff0000, {any}): set(2);
                 (_, {any}): set(3);
               }} }}
             table u {{ key = {{ hdr.h.a: lpm; hdr.h.b: {kind}; }} actions = {{ set; NoAction; }} }}"
        );
        let source = source(&table, "if (hdr.h.c == 0) { t.apply(); } else { u.apply(); }");
        let (any, one) = if kind == "range" { ("0..255", "1..1") } else { ("*", "1") };
        let test = format!(
            "packet 0 0a010203 01 00 00 00\nexpect 1 0a010203 01 00 00 01$
             packet 0 0a010203 02 00 00 00\nexpect 1 0a010203 02 00 00 02$
             packet 0 0b010203 02 00 00 00\nexpect 1 0b010203 02 00 00 03$
             add u 2 hdr.h.a:0x0a010000/16 hdr.h.b:{any} set(v:0x12)
             add u 1 hdr.h.a:0x0a000000/8 hdr.h.b:{one} set(v:0x11)
             packet 0 0a010203 01 01 00 00\nexpect 1 0a010203 01 01 00 11$
             packet 0 0a010203 03 01 00 00\nexpect 1 0a010203 03 01 00 12$"
        );
        holds(&source, &test);
    }
    let exact = "table t { key = { hdr.h.a: lpm; hdr.h.b: exact; } actions = { set; }
        const entries = { (_, 1): set(1); (0x0a000000 &&& 0xff000000, 1): set(2); (0x0a010000 &&& 0xffff0000, 2): set(3); } }";
    let test = "packet 0 0a010203 01 00 00 00\nexpect 1 0a010203 01 00 00 02$
        packet 0 0b010203 01 00 00 00\nexpect 1 0b010203 01 00 00 01$";
    holds(&source(exact, "t.apply();"), test);
}

#[test]
fn an_entry_is_there_once() {
    let table = |key: &str, entries: &str| {
        source(
            &format!("table t {{ key = {{ {key} }} actions = {{ set; }} const entries = {{ {entries} }} }}"),
            "t.apply();",
        )
    };
    let twice = "an entry above has the same keys (remove one of them)";
    let refused = [
        ("hdr.h.b: exact;", "0: set(1); 0: set(2);"),
        ("hdr.h.b: exact; hdr.h.c: exact;", "(1, 2): set(1); (1, 3): set(2); (1, 2): set(1);"),
        ("hdr.h.a: lpm;", "0x0a000000 &&& 0xff000000: set(1); 0x0a000001 &&& 0xff000000: set(2);"),
    ];
    for (key, entries) in refused {
        let found = common::findings(&table(key, entries));
        assert!(found.len() == 1 && found[0].ends_with(twice), "{key}: {found:?}");
    }
    // The column is that of the second one.
    assert_eq!(
        common::findings(&table("hdr.h.b: exact;", "0: set(1); 0: set(2);"))[0],
        format!("11:123 {twice}")
    );
    // An order decides: the first one matches.
    let ordered = table("hdr.h.b: ternary;", "1: set(1); 1: set(2); _: set(3);");
    assert_eq!(said(&ordered), ["an entry above has the same keys"]);
    holds(&ordered, "packet 0 00000000 01 00 00 00\nexpect 1 00000000 01 00 00 01$");
    let open = source(
        "table t { key = { hdr.h.b: exact; } actions = { set; } }
        table u { key = { hdr.h.b: ternary; } actions = { set; } }",
        "t.apply(); u.apply();",
    );
    let mut machine = Machine::new(common::lowered(&open));
    let test = "add t hdr.h.b:1 set(v:1)\nadd u 1 hdr.h.b:1 set(v:1)\nadd u 2 hdr.h.b:1 set(v:1)\nadd t hdr.h.b:1 set(v:2)";
    let error = stf::run(&mut machine, test).expect_err("a second entry");
    assert_eq!(error.to_string(), "line 4: `ingress.t` has an entry with these keys already");
}

/// A range from high to low is empty (P4-16, "Ranges").
#[test]
fn a_range_may_be_empty() {
    let table = "table t { key = { hdr.h.b: range; } actions = { set; NoAction; }
        const entries = { 9 .. 3: set(1); 3 .. 9: set(2); } }";
    let source = source(table, "t.apply();");
    assert_eq!(said(&source), ["this range is empty"]);
    holds(&source, "packet 0 00000000 05 00 00 00\nexpect 1 00000000 05 00 00 02$");
    let select = source.replacen(
        "transition accept;",
        "transition select(hdr.h.c) { 9 .. 3: reject; 4 .. 5: four; default: accept; } } state four { hdr.h.d = 4; transition accept;",
        1,
    );
    holds(
        &select,
        "packet 0 00000000 05 04 00 00\nexpect 1 00000000 05 04 04 02$\npacket 0 00000000 05 06 00 00\nexpect 1 00000000 05 06 00 02$",
    );
}

const PUT: &str = "action put(inout bit<8> where, in bit<8> plus, bit<8> v) { where = where + plus + v; }
    action put_not() { }";

fn with_bound(default: &str, entries: &str) -> String {
    let tables = format!(
        "{PUT}
         table t {{ key = {{ hdr.h.b: exact; }} actions = {{ put_not; put(hdr.h.c, (bit<8>) hdr.h.b[3:0]); NoAction; }}
             {default} {entries} }}
         table u {{ key = {{ hdr.h.b: ternary; }} actions = {{ put(hdr.h.d, 8w1); NoAction; }} }}"
    );
    source(&tables, "t.apply(); u.apply();")
}

#[test]
fn test_files_name_actions_of_several_tables() {
    let test = "add t hdr.h.b:1 put(v:3)
        add u 20 hdr.h.b:0x1* put#2(v:0x10) # a comment#2 (with a number)
        add u 10 hdr.h.b:0x*1 put(v:0x20)# another
        packet 0 00000000 01 10 00 00\nexpect 1 00000000 01 14 21 00$
        packet 0 00000000 12 10 00 00\nexpect 1 00000000 12 10 11 00$
        setdefault t put(0xf0)
        packet 0 00000000 12 10 00 00\nexpect 1 00000000 12 02 11 00$
        setdefault u put#2(v:1)
        packet 0 00000000 22 10 00 00\nexpect 1 00000000 22 02 02 00$";
    holds(&with_bound("", ""), test);
}

/// P4-16, "Default action": a default action may repeat what the list gives it.
#[test]
fn default_actions_repeat_what_the_list_gives() {
    let test = "packet 0 00000000 03 10 00 00\nexpect 1 00000000 03 53 00 00$
        packet 0 00000000 01 10 00 00\nexpect 1 00000000 01 18 00 00$";
    let short = "default_action = put(8w0x40);";
    let long = "default_action = put(hdr.h.c, (bit<8>) hdr.h.b[3:0], 8w0x40);";
    for default in [short, long] {
        for entries in ["1: put(7);", "1: put(hdr.h.c, (bit<8>)hdr.h.b[3:0], 7);"] {
            holds(&with_bound(default, &format!("const entries = {{ {entries} }}")), test);
        }
    }
    let other = "default_action = put(hdr.h.d, (bit<8>) hdr.h.b[3:0], 8w0x40);";
    let expected = "`where` is given this in `actions` (write here what the list has, or leave it out)";
    assert_eq!(said(&with_bound(other, "")), [expected]);
    let count = "default_action = put(hdr.h.c, 8w0x40);";
    assert_eq!(said(&with_bound(count, "")), ["this takes 1 argument, not 2"]);
}

#[test]
fn the_package_may_name_its_types() {
    let with = |of: &str| source("", "").replacen("V1Switch(", &format!("V1Switch<{of}>("), 1);
    assert_eq!(said(&with("headers, metadata")), [""; 0]);
    assert_eq!(said(&with("headers, _")), [""; 0]);
    assert_eq!(said(&with("metadata, metadata")), ["expected headers, found metadata"]);
    let expected = "`V1Switch` has 2 type arguments, not 1 (write `V1Switch<HEADERS, METADATA>(...)`)";
    assert_eq!(said(&with("headers")), [expected]);
}
