//! Tables of flow states are read late: behind what flows share, and no earlier than what is made of the state needs.

use super::common;

use common::{agrees, lowered, program};
use paceline_p4::ir::{MuPlace, Program};
use paceline_p4::passes;

const FIELDS: &str = "bit<8> a; bit<8> b; bit<8> c; bit<8> d;";
const METADATA: &str = "bit<8> x; bit<8> y; bit<8> z;";
const LOCALS: &str = "
muTable flows { keys = { hdr.h.a; } values = { bit<8> v; } size = 256; }
register<bit<8>>(256) sums;
counter(256, CounterType.packets) counts;
action step_to(bit<8> by) { meta.x = meta.x * 3 + by; }
table step { key = { meta.x: ternary; } actions = { step_to; } const default_action = step_to(1); }
action late_to(bit<8> by) { meta.y = meta.y + by; }
table late { key = { meta.y: ternary; } actions = { late_to; } const default_action = late_to(5); }
action later_to(bit<8> by) { meta.y = meta.y ^ by; }
table later { key = { meta.y: ternary; } actions = { later_to; } const default_action = later_to(7); }
";

/// A register that counts under a field of the packet, and what it says to the packet.
const SHARED: &str = "sums.read(meta.z, (bit<32>) hdr.h.b); sums.write((bit<32>) hdr.h.b, meta.z + 1);
                      hdr.h.d = meta.z;";

fn compiled(apply: &str) -> Program {
    let whole = lowered(&program(FIELDS, METADATA, LOCALS, apply));
    let mut compiled = whole.clone();
    passes::compile(&mut compiled);
    assert_eq!(compiled.layout.as_ref().expect("stages").notes[..], [""; 0], "{apply}");
    agrees(&whole, &compiled);
    compiled
}

/// Where the states and the register are read and written.
fn places(apply: &str) -> ((u16, u16), (u16, u16)) {
    let program = compiled(apply);
    let layout = program.layout.expect("stages");
    let place = |place: &MuPlace| (place.reads, place.writes);
    (place(&layout.mu_tables[0]), place(&layout.registers[0]))
}

const FLOWS: &str = "meta.x = flows.read(hdr); step.apply(); flows.write(hdr, meta.x); hdr.h.c = meta.x;";

#[test]
fn what_flows_share_goes_first() {
    assert_eq!(places(&format!("{SHARED} {FLOWS}")), ((2, 3), (1, 1)));
    assert_eq!(places(&format!("{FLOWS} {SHARED}")), ((2, 3), (1, 1)));
    // The last who writes it decides what it holds.
    let unread = "sums.write((bit<32>) hdr.h.b, 7);";
    assert_eq!(places(&format!("{FLOWS} {unread}")), ((2, 3), (0, 1)));
    // Asked late for a reason of its own, it still does.
    let late = format!("meta.y = hdr.h.c; late.apply(); hdr.h.b = meta.y; {SHARED} {FLOWS}");
    assert_eq!(places(&late), ((3, 4), (2, 2)));
}

/// What depends on the state cannot go before it.
#[test]
fn what_depends_on_the_state_stays_behind() {
    let behind = format!("{FLOWS} hdr.h.b = meta.x; {SHARED}");
    assert_eq!(places(&behind), ((1, 2), (3, 3)));
}

/// It would be asked in the last stage of the span; by a packet that is done over it would have been asked twice.
#[test]
fn what_depends_on_the_state_is_asked_behind_its_write() {
    let on_condition = format!("{FLOWS} if (meta.x == 4) {{ {SHARED} }}");
    assert_eq!(places(&on_condition), ((1, 2), (3, 3)));
    let by_value = format!("{FLOWS} sums.write((bit<32>) hdr.h.b, meta.x);");
    assert_eq!(places(&by_value), ((1, 2), (0, 3)));
    let at_once = "meta.x = flows.read(hdr); if (meta.x == 3) { counts.count((bit<32>) hdr.h.b); }
                   step.apply(); flows.write(hdr, meta.x); hdr.h.c = meta.x;";
    let counted = compiled(at_once).layout.expect("stages");
    assert_eq!((counted.mu_tables[0].writes, counted.stages), (2, 3));
}

/// What the write needs stays, and is noted.
#[test]
fn what_the_write_needs_stays_before_it() {
    let apply = "meta.x = flows.read(hdr); if (meta.x == 3) { sums.read(meta.z, (bit<32>) hdr.h.b);
                 sums.write((bit<32>) hdr.h.b, meta.z + 1); meta.x = meta.x + meta.z; }
                 step.apply(); flows.write(hdr, meta.x);";
    let mut program = lowered(&program(FIELDS, METADATA, LOCALS, apply));
    passes::compile(&mut program);
    let notes = &program.layout.expect("stages").notes;
    assert!(notes.len() == 1 && notes[0].contains("lies between the read and the write"), "{notes:?}");
}

/// What nobody writes is the same at any time.
#[test]
fn what_is_only_read_does_not_matter() {
    let read = "sums.read(meta.z, (bit<32>) hdr.h.b); hdr.h.d = meta.z;";
    assert_eq!(places(&format!("{read} {FLOWS}")), ((1, 2), (1, 0)));
}

/// Who counts first makes no difference, so a counter takes no stage.
#[test]
fn counters_do_not_matter() {
    let counted = compiled(&format!("counts.count((bit<32>) hdr.h.b); {FLOWS}"));
    assert_eq!(counted.layout.expect("stages").stages, 2);
}

/// The state is needed behind two tables that do not depend on it: its span ends there and begins as late as it can.
#[test]
fn spans_are_short() {
    let short =
        "meta.x = flows.read(hdr); meta.y = hdr.h.c; late.apply(); later.apply(); meta.x = meta.x + meta.y;
                 step.apply(); flows.write(hdr, meta.x); hdr.h.c = meta.x;";
    let layout = compiled(short).layout.expect("stages");
    assert_eq!((layout.mu_tables[0].reads, layout.mu_tables[0].writes, layout.stages), (2, 3, 3));
    // Nothing but the write needs it: read where it is written it is a register.
    let register = "meta.x = flows.read(hdr); meta.y = hdr.h.c; late.apply(); later.apply();
                    flows.write(hdr, meta.x + meta.y); hdr.h.c = meta.x;";
    let layout = compiled(register).layout.expect("stages");
    assert_eq!((layout.mu_tables[0].reads, layout.mu_tables[0].writes), (2, 2));
}

/// A pipeline has 16 stages: a register is not put first if that takes more.
#[test]
fn a_pipeline_is_not_made_too_long() {
    // With so many tables in a row behind the state.
    let in_a_row = |tables: usize| {
        let declared: String = (0..tables)
            .map(|at| {
                format!(
                    "action a{at}(bit<8> by) {{ meta.x = meta.x * 3 + by; }}
                     table t{at} {{ key = {{ meta.x: ternary; }} actions = {{ a{at}; }} const default_action = a{at}({at}); }}\n"
                )
            })
            .collect();
        let applied: String = (0..tables).map(|at| format!("t{at}.apply(); ")).collect();
        let apply = format!("{SHARED} meta.x = flows.read(hdr); {applied} flows.write(hdr, meta.x);");
        let mut program = lowered(&program(FIELDS, METADATA, &format!("{LOCALS}{declared}"), &apply));
        passes::compile(&mut program);
        let layout = program.layout.expect("stages");
        (layout.mu_tables[0].reads, layout.stages)
    };
    assert_eq!(in_a_row(14), (2, 16));
    assert_eq!(in_a_row(15), (1, 16));
}
