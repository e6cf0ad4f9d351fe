//! What is outside of the subset is refused with its place, and what is just inside is not.

use p4::{Options, lower};
use paceline_xdp::{Strategy, compile};

use crate::common::{example, lowered};

/// A program of one header with these parts in its ingress and its parser.
fn program(locals: &str, apply: &str, parsing: &str) -> String {
    format!(
        "#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<8> kind; bit<8> n; bit<128> wide; }}
struct headers_t {{ h_t h; h_t g; }}
struct metadata_t {{ bit<8> m; bit<128> w; }}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {{
    state start {{ packet.extract(hdr.h); {parsing} }}
    state more {{ packet.extract(hdr.g); transition accept; }}
}}
control V(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {{
{locals}
    apply {{
        {apply}
    }}
}}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {{ apply {{ }} }}
control C(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control D(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"
    )
}

/// What is said of a program: each refusal's line and message.
fn said(locals: &str, apply: &str, parsing: &str) -> Vec<(u32, String)> {
    let lowered = lowered("x.p4", &program(locals, apply, parsing));
    match compile(&lowered, Strategy::Scr) {
        Ok(_) => Vec::new(),
        Err(refusals) => refusals.into_iter().map(|refusal| (refusal.place.line, refusal.message)).collect(),
    }
}

const ACCEPT: &str = "transition accept;";

#[test]
fn constructs_are_refused_where_they_stand() {
    assert_eq!(said("", "hdr.h.n = hdr.h.n + 1;", ACCEPT), []);
    // The ingress begins in line 11, what it does is in line 14.
    let cases = [
        ("", "hdr.g.setValid();", ACCEPT, 14, "a header is added or removed"),
        ("", "random(meta.m, 8w0, 8w9);", ACCEPT, 14, "`random`"),
        ("", "meta.w = hdr.h.wide;", ACCEPT, 14, "has 128 bits"),
        ("", "standard_metadata.mcast_grp = 1;", ACCEPT, 14, "a multicast group"),
        ("    meter(4, MeterType.packets) m;", "m.execute_meter(32w0, meta.m);", ACCEPT, 14, "meters"),
        ("", "", "packet.advance(8); transition accept;", 7, "`advance`"),
        ("", "", "meta.m = packet.lookahead<bit<8>>(); transition accept;", 7, "`lookahead`"),
        (
            "",
            "",
            "transition select(hdr.h.n) { 1: start; default: accept; }",
            7,
            "comes back to state `start`",
        ),
        (
            "    muTable t { keys = { hdr.h.n; } values = { bit<8> v; } type = ternary; size = 4; }",
            "meta.m = t.read(hdr);",
            ACCEPT,
            12,
            "ternary and lpm muTables",
        ),
        (
            "    muTable t { keys = { hdr.h.n; } values = { bit<64> v; } size = 4000000; }",
            "t.write(hdr, 1);",
            ACCEPT,
            12,
            "bytes of state",
        ),
    ];
    for (locals, apply, parsing, line, what) in cases {
        let said = said(locals, apply, parsing);
        assert!(
            said.iter().any(|(at, message)| *at == line && message.contains(what)),
            "{locals} {apply} {parsing}: {said:?}"
        );
    }
}

/// Packets that share state have to share a core: keys and indices need a field in common that is known before.
#[test]
fn state_under_keys_with_nothing_in_common_is_not_sharded() {
    let said = |locals: &str, apply: &str| {
        let lowered = lowered("x.p4", &program(locals, apply, ACCEPT));
        compile(&lowered, Strategy::Sharded).err().unwrap_or_default()
    };
    let (r, q) = ("    register<bit<8>>(256) r;", " register<bit<8>>(256) q;");
    let by_n = "r.write((bit<32>)hdr.h.n, 1);";
    assert_eq!(said(r, by_n), []);
    // Read and written in one step: each use has a temporary of its own.
    assert_eq!(said(r, "bit<8> v; r.read(v, (bit<32>)hdr.h.n); r.write((bit<32>)hdr.h.n, v + 1);"), []);
    let half = "bit<8> v; r.read(v, (bit<32>)hdr.h.n[7:4]); r.write((bit<32>)hdr.h.n[7:4], v + 1);";
    assert_eq!(said(r, half), []);
    // In a variable that nothing changes once state is used.
    let kept = "meta.m = hdr.h.n + 1; r.write((bit<32>)meta.m, 1); r.write((bit<32>)meta.m, 2);";
    assert_eq!(said(r, kept), []);
    // Computed before, the same for both.
    let hashed = "bit<32> at; hash(at, HashAlgorithm.crc32, 32w0, { hdr.h.n }, 32w256); r.write(at, 1); q.write(at, 2);";
    assert_eq!(said(&format!("{r}{q}"), hashed), []);
    let refused = [
        (
            r,
            "r.write((bit<32>)hdr.h.n[7:4], 1); r.write((bit<32>)hdr.h.n[3:0], 1);",
            "register ingress.r",
            "known",
        ),
        (
            r,
            "r.write((bit<32>)hdr.h.n, 1); hdr.h.n = 3; r.write((bit<32>)hdr.h.n, 1);",
            "register ingress.r",
            "known",
        ),
        (
            r,
            "meta.m = hdr.h.n; r.write((bit<32>)meta.m, 1); meta.m = 3; r.write((bit<32>)meta.m, 1);",
            "register ingress.r",
            "known",
        ),
        (r, "r.write(32w0, 1);", "register ingress.r", "by no field that is known before"),
        (
            r,
            "bit<8> at; r.read(at, (bit<32>)hdr.h.n); r.write((bit<32>)at, 1);",
            "register ingress.r",
            "known before",
        ),
    ];
    for (locals, apply, what, why) in refused {
        let said = said(locals, apply);
        assert!(said.len() == 1 && said[0].place.line == 12, "{said:?}");
        assert!(said[0].message.contains(what) && said[0].message.contains(why), "{said:?}");
    }
    let two = said(&format!("{r}{q}"), "r.write((bit<32>)hdr.h.n, 1); q.write((bit<32>)hdr.h.kind, 1);");
    assert!(two[0].message.contains("ingress.q") && two[0].message.contains("ingress.r (x.p4:12"), "{two:?}");
    for name in ["syn_cookie", "nat_lb"] {
        let said = compile(&example(name), Strategy::Sharded).expect_err(name);
        assert!(said[0].place.line > 0 && said[0].message.contains("by no field that both have"), "{said:?}");
    }
}

/// The sequencer runs what comes before the ingress, and has no state: the language allows none there.
#[test]
fn before_the_ingress_there_is_no_state() {
    let start = "state start { packet.extract(hdr.h);";
    let verify = "control V(inout headers_t hdr, inout metadata_t meta) { apply {";
    for block in [start, verify] {
        for statement in ["r.read(meta.m, 32w0);", "r.write(32w0, 1);", "c.count(32w0);"] {
            let text = program("", "", ACCEPT);
            assert!(text.contains(block));
            let text = text.replace(block, &format!("{block} {statement}"));
            let objects = "register<bit<8>>(4) r; counter(4, CounterType.packets) c;\nparser P(";
            let text = text.replace("parser P(", objects);
            let refused = lower("x.p4", &text, &Options::default()).expect_err(statement);
            let refused = format!("{refused:?}");
            assert!(refused.contains("has no place in a"), "{block} {statement}: {refused}");
        }
    }
}

/// Each program that is not in the subset is refused by name, and none of them panics.
#[test]
fn examples_are_compiled_or_refused() {
    for name in ["syn_cookie", "nat_lb", "mac_learning", "port_knocking"] {
        for strategy in [Strategy::Sharded, Strategy::Shared, Strategy::Scr] {
            match compile(&example(name), strategy) {
                Ok(compiled) => println!("{name} {strategy}: {} bytes an item", compiled.item.bytes),
                Err(refusals) => {
                    assert!(refusals.iter().all(|refusal| refusal.place.line > 0), "{refusals:?}");
                    refusals.iter().for_each(|refusal| println!("{name} {strategy}: {refusal}"));
                }
            }
        }
    }
}
