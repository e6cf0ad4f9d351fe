//! Strategy `shared` without a lock: steps that are one addition, beside those that are not, and none is lost on two CPUs.

use paceline_xdp::Strategy;

use crate::common::{compiled, difference, example, loaded, lowered, object, random_packets};
use crate::live::outcome_of;

/// A program whose ingress does this to packets with IPv4, over a register `r` of so many bits and a register `q`.
pub fn program(width: u32, apply: &str) -> p4::ir::Program {
    let text = format!(
        "#include \"headers.p4\"
struct metadata_t {{ bit<{width}> m; bit<{width}> n; }}
EXAMPLE_PARSER(metadata_t)
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    register<bit<{width}>>(100) r;
    register<bit<{width}>>(100) q;
    counter(4, CounterType.packets_and_bytes) c;
    muTable t {{ keys = {{ hdr.ipv4.src_addr; }} values = {{ bit<8> v; }} size = 64; }}
    apply {{
        standard.egress_spec = 1;
        if (hdr.ipv4.isValid()) {{
            {apply}
        }}
    }}
}}
V1Switch(ExampleParser(), ExampleVerify(), I(), ExampleEgress(), ExampleCompute(), ExampleDeparser()) main;
"
    );
    lowered("x.p4", &text)
}

const INDEX: &str = "(bit<32>) hdr.ipv4.src_addr[7:0]";

/// A read, what is written as the new value of it, and what is done behind that.
fn step(register: &str, value: &str, behind: &str) -> String {
    format!("{register}.read(meta.m, {INDEX}); {register}.write({INDEX}, {value}); {behind}")
}

#[test]
fn steps_that_are_one_addition_take_no_lock() {
    let show = "hdr.ipv4.tos = (bit<8>) meta.m;";
    let free = [
        "c.count((bit<32>) hdr.ipv4.ttl);".to_owned(),
        step("r", "meta.m + 1", ""),
        step("r", "meta.m + 1", show),
        step("r", "(bit<W>) hdr.ipv4.total_len + meta.m", show),
        // Two without a result, and one with.
        step("r", "meta.m + 1", "") + &step("q", "meta.m + 3", show).replace("meta.m", "meta.n"),
        format!(
            "r.read(meta.m, {INDEX}); meta.m = meta.m + 5; r.write({INDEX}, meta.m); if (meta.m == 7) {{ {show} }}"
        ),
    ];
    let locked = [
        step("r", "meta.m - 1", show),
        step("r", "meta.m |+| 1", show),
        step("r", "meta.m + meta.m", show),
        // Under another index, and under the same one that is another by then.
        format!("r.read(meta.m, {INDEX}); r.write(32w3, meta.m + 1);"),
        "r.read(meta.m, (bit<32>) meta.n); meta.n = 1; r.write((bit<32>) meta.n, meta.m + 1);".to_owned(),
        // On some ways alone, and twice.
        format!("r.read(meta.m, {INDEX}); if (hdr.ipv4.ttl == 1) {{ r.write({INDEX}, meta.m + 1); }}"),
        step("r", "meta.m + 1", "") + &step("r", "meta.m + 1", ""),
        // What packets see of two registers may be of two orders.
        step("r", "meta.m + 1", "meta.n = meta.m;")
            + &step("q", "meta.m + 1", "hdr.ipv4.tos = (bit<8>) (meta.m + meta.n);"),
        "c.count(32w1); bit<8> v = t.read(hdr); t.write(hdr, v + 1);".to_owned(),
    ];
    let packets = random_packets(5, 600);
    for (is_locked, texts) in [(false, &free[..]), (true, &locked[..])] {
        for (number, text) in texts.iter().enumerate() {
            for width in [9, 32, 48] {
                let text = text.replace("(bit<W>)", &format!("(bit<{width}>)"));
                let program = program(width, &text);
                let compiled = compiled(&program, Strategy::Shared);
                assert_eq!(compiled.is_locked, is_locked, "{text}");
                assert_eq!(compiled.c.contains("lock(&s->turns"), is_locked, "{text}");
                // One width of each is tried.
                if number % 3 != [9, 32, 48].iter().position(|other| *other == width).unwrap_or_default() {
                    continue;
                }
                let Some(object) = object(&compiled, "additions") else { return };
                let Some(loaded) = loaded(&compiled, &object, 3) else { return };
                let found = difference(&program, &compiled, &loaded, 3, &packets, &|_, _| ());
                assert_eq!(found, None, "{text}");
            }
        }
    }
}

/// Two CPUs add to the same places. The order in which packets leave is that of what they were given.
#[test]
fn two_cpus_without_a_lock_lose_no_addition() {
    assert!(!compiled(&example("sampler"), Strategy::Shared).is_locked);
    let Some(outcome) = outcome_of(Strategy::Shared, "additions", "sampler", (2, 2048, false), &|c| c) else {
        return;
    };
    assert!(outcome.verdict.is_equal(), "{}", outcome.verdict);
}

#[test]
fn an_addition_in_the_wrong_place_is_found() {
    let program = example("sampler");
    let mut compiled = compiled(&program, Strategy::Shared);
    let from = "__sync_fetch_and_add(&s->ingress_bytes->values[at]";
    assert!(compiled.c.contains(from), "{}", compiled.c);
    compiled.c = compiled.c.replace(from, "__sync_fetch_and_add(&s->ingress_bytes->values[at & 1]");
    let Some(object) = object(&compiled, "additions-fault") else { return };
    let Some(loaded) = loaded(&compiled, &object, 2) else { return };
    let found = difference(&program, &compiled, &loaded, 2, &random_packets(5, 600), &|_, _| ());
    assert!(found.is_some());
}
