//! What no pipeline can do is found, by name; what one can is not.

use super::common;

use common::{lowered, program};
use paceline_p4::passes;
use paceline_p4::uses::{Fault, Object, Uses};

const FIELDS: &str = "bit<8> a; bit<8> b; bit<8> c; bit<8> d;";
const METADATA: &str = "bit<8> x; bit<8> y; bit<8> z; bit<8> v; bit<8> w;";
const FLOWS: &str = "
muTable flows { keys = { hdr.h.a; } values = { bit<8> v; } size = 16; }
muTable others { keys = { hdr.h.b; } values = { bit<8> v; } size = 16; }
register<bit<8>>(256) sums;
counter(256, CounterType.packets) counts;
action to(bit<8> value) { meta.y = value; }
table second { key = { meta.x: exact; } actions = { to; NoAction; } }
action on(bit<8> value) { meta.z = value; }
action fourth_to(bit<8> value) { meta.v = value; }
table fourth { key = { meta.w: exact; } actions = { fourth_to; NoAction; } }
table third { key = { meta.y: exact; } actions = { on; NoAction; } }
";

fn uses(apply: &str) -> Uses {
    let mut program = lowered(&program(FIELDS, METADATA, FLOWS, apply));
    passes::compile(&mut program);
    Uses::of(&program)
}

fn faults(apply: &str) -> Vec<Fault> {
    uses(apply).faults
}

const MU: Object = Object::MuTable(0);
const SUMS: Object = Object::Register(0);

#[test]
fn one_entry_for_a_packet_is_found_however_its_key_is_written() {
    let one = "meta.x = flows.read(hdr); second.apply(); bit<8> key = hdr.h.a; hdr.h.a = key;
               flows.write(hdr, meta.y);";
    assert_eq!(faults(one), []);
    // On each path there is one key, and where they meet it is still one.
    let either = "if (hdr.h.c == 1) { hdr.h.a = hdr.h.b; } meta.x = flows.read(hdr); second.apply();
                  if (meta.y == 3) { flows.write(hdr, 1); } else { flows.write(hdr, 2); }";
    assert_eq!(faults(either), []);
    let computed = "sums.read(meta.x, (bit<32>) (hdr.h.a + 1)); meta.y = hdr.h.a + 1;
                    sums.write((bit<32>) meta.y, meta.x |+| 1);";
    assert_eq!(faults(computed), []);
}

#[test]
fn two_keys_are_found() {
    let changed =
        "meta.x = flows.read(hdr); hdr.h.a = hdr.h.a + 1; second.apply(); flows.write(hdr, meta.y);";
    assert_eq!(faults(changed), [Fault::TwoKeys(MU)]);
    let on_one_path = "meta.x = flows.read(hdr); if (hdr.h.c == 1) { hdr.h.a = 0; } second.apply();
                       flows.write(hdr, meta.y);";
    assert_eq!(faults(on_one_path), [Fault::TwoKeys(MU)]);
    let counted = "counts.count((bit<32>) hdr.h.a); counts.count((bit<32>) hdr.h.a);";
    assert_eq!(faults(counted), [Fault::CountedTwice(Object::Counter(0))]);
    // One path counts here, the other there: a packet counts once.
    let once =
        "if (hdr.h.c == 1) { counts.count((bit<32>) hdr.h.a); } else { counts.count((bit<32>) hdr.h.b); }";
    assert_eq!(faults(once), []);
}

/// What is written in the stage that reads it may be read there under a second key, whichever comes first.
#[test]
fn a_second_key_is_for_reads_in_one_stage() {
    let second_keys = |apply: &str| {
        let uses = uses(apply);
        assert_eq!(uses.faults, [], "{apply}");
        let second = uses.objects.iter().filter(|used| used.is_second_key());
        second.map(|used| (used.object, used.second_key.len(), used.is_written_unread)).collect::<Vec<_>>()
    };
    let learns = "hdr.h.c = flows.read(hdr); hdr.h.a = hdr.h.b; hdr.h.d = flows.read(hdr);";
    assert_eq!(second_keys(learns), [(MU, 1, false)]);
    let behind = "sums.read(meta.x, (bit<32>) hdr.h.a); sums.write((bit<32>) hdr.h.b, meta.x);";
    assert_eq!(second_keys(behind), [(SUMS, 1, false)]);
    let first = "sums.read(meta.x, (bit<32>) hdr.h.b); sums.read(meta.y, (bit<32>) hdr.h.a);
                 if (meta.y != 3) { sums.write((bit<32>) hdr.h.b, meta.x |+| 1); }";
    let found = uses(first);
    let names = |used: &&paceline_p4::uses::Use| (used.is_second_key(), used.is_written);
    assert_eq!(
        found.objects.iter().filter(|used| used.object == SUMS).map(|used| names(&used)).collect::<Vec<_>>(),
        [(false, true), (true, true)]
    );
    // The keys of one path are not those of the other.
    let paths = "if (hdr.h.c == 1) { sums.read(meta.x, (bit<32>) hdr.h.a); } else { sums.read(meta.x, (bit<32>) hdr.h.b); }
                 hdr.h.d = meta.x;";
    assert_eq!(second_keys(paths), []);
}

#[test]
fn more_than_two_keys_and_two_writes_are_found() {
    let three = "sums.read(meta.x, (bit<32>) hdr.h.a); sums.read(meta.y, (bit<32>) hdr.h.b);
                 sums.read(meta.z, (bit<32>) hdr.h.c); hdr.h.d = meta.x + meta.y + meta.z;";
    assert_eq!(faults(three), [Fault::Ports(SUMS)]);
    let writes = "sums.write((bit<32>) hdr.h.a, 1); sums.write((bit<32>) hdr.h.b, 1);";
    assert_eq!(faults(writes), [Fault::Ports(SUMS)]);
    // A second port gives what was there before the packet.
    let behind_write = "sums.write((bit<32>) hdr.h.a, 1); sums.read(hdr.h.d, (bit<32>) hdr.h.b);";
    assert_eq!(faults(behind_write), [Fault::ReadBehindWrite(SUMS)]);
}

#[test]
fn reads_and_writes_have_an_order() {
    let unread = "if (hdr.h.c == 1) { meta.x = flows.read(hdr); } second.apply(); flows.write(hdr, meta.y);";
    assert_eq!(faults(unread), [Fault::WrittenUnread(MU)]);
    let behind =
        "meta.x = flows.read(hdr); second.apply(); flows.write(hdr, meta.y); hdr.h.d = flows.read(hdr);";
    assert!(faults(behind).contains(&Fault::ReadBehindWrite(MU)), "{:?}", faults(behind));
    // In one stage what was written is read.
    let at_once = "meta.x = flows.read(hdr); flows.write(hdr, meta.x + 1); hdr.h.d = flows.read(hdr);";
    assert_eq!(faults(at_once), []);
    let late = "sums.read(meta.x, (bit<32>) hdr.h.a); second.apply(); sums.write((bit<32>) hdr.h.a, meta.y);";
    assert_eq!(faults(late), [Fault::NotARegister { object: SUMS, reads: 1, writes: 2 }]);
}

#[test]
fn spans_that_meet_are_found() {
    let meet = "meta.x = flows.read(hdr); second.apply(); meta.z = others.read(hdr); third.apply();
                flows.write(hdr, meta.y + meta.z); others.write(hdr, meta.z + meta.x);";
    let found = faults(meet);
    assert!(matches!(found[..], [Fault::SpansMeet { .. }]), "{found:?}");
    let program = lowered(&program(FIELDS, METADATA, FLOWS, meet));
    let said = found[0].describe(&program);
    assert!(said.contains("muTable ingress.flows") && said.contains("muTable ingress.others"), "{said}");
    // Where the second does not wait for the first, it comes first.
    let apart = meet.replace("meta.z + meta.x", "hdr.h.c");
    assert_eq!(faults(&apart), []);
}

/// What a register in the span is asked must not depend on the state, be it by its key, its value or whether it is
/// asked at all. It is in the span where the write waits for it.
#[test]
fn what_follows_a_state_is_found() {
    let follows = |apply: &str| {
        let uses = uses(apply);
        assert_eq!(uses.faults, [], "{apply}");
        uses.objects.iter().find(|used| used.object == SUMS).expect("it is used").follows.clone()
    };
    let around = |ask: &str| {
        format!("meta.x = flows.read(hdr); {ask} second.apply(); flows.write(hdr, meta.y + hdr.h.d);")
    };
    let independent =
        around("sums.read(hdr.h.d, (bit<32>) hdr.h.b); sums.write((bit<32>) hdr.h.b, hdr.h.d + 1);");
    assert!(follows(&independent).is_empty());
    let by_value = around("sums.read(hdr.h.d, (bit<32>) hdr.h.b); sums.write((bit<32>) hdr.h.b, meta.x);");
    assert_eq!(follows(&by_value), [0]);
    let by_condition = around(
        "if (meta.x == 3) { hdr.h.c = 1; } sums.read(hdr.h.d, (bit<32>) hdr.h.b);
                               if (hdr.h.c == 1) { sums.write((bit<32>) hdr.h.b, 1); }",
    );
    assert_eq!(follows(&by_condition), [0]);
    let by_key =
        "meta.x = flows.read(hdr); second.apply(); sums.read(hdr.h.d, (bit<32>) meta.y); third.apply();
                  flows.write(hdr, meta.z + meta.y);";
    assert!(faults(by_key).is_empty(), "{:?}", faults(by_key));
    assert_eq!(
        follows(
            "meta.x = flows.read(hdr); if (meta.x == 9) { return; } second.apply();
                        sums.read(hdr.h.d, (bit<32>) hdr.h.b); flows.write(hdr, meta.y + hdr.h.d);"
        ),
        [0]
    );
    // Behind the span it may.
    let behind = "meta.x = flows.read(hdr); second.apply(); flows.write(hdr, meta.y); third.apply();
                  sums.read(hdr.h.d, (bit<32>) meta.z);";
    assert!(follows(behind).is_empty());
}

/// Refusals say where an object is declared, and where it is used.
#[test]
fn faults_name_places() {
    let apply = "sums.write((bit<32>) hdr.h.b, 1);\n    sums.read(hdr.h.d, (bit<32>) hdr.h.a);";
    let text = program(FIELDS, METADATA, FLOWS, apply);
    let program = {
        let mut program = lowered(&text);
        passes::compile(&mut program);
        program
    };
    // Line and column of the name in each of these, counted here.
    let place = |around: &str| {
        let at = text.find(around).expect("it is there") + around.find("sums").expect("a name");
        let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        format!("test.p4:{}:{}", text[..at].matches('\n').count() + 1, at - line_start + 1)
    };
    let (declared, read, written) = (place("(256) sums;"), place("sums.read"), place("sums.write"));
    let notes = &program.layout.as_ref().expect("stages").notes;
    let expected = format!(
        "register ingress.sums ({declared}), used at {written}, {read}, is read behind its write; keep what was written \
         in metadata instead"
    );
    assert_eq!(notes[..], [expected]);
}

/// Files that are included do not move what stands behind them; what a macro is given is where it is written.
#[test]
fn places_are_in_their_files() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4");
    let path = folder.join("stateful_firewall.p4");
    let text = std::fs::read_to_string(&path).expect("an example").replacen(
        "meta.state = connections.read(hdr);",
        "LOOK_UP(connections)",
        1,
    );
    let text = format!("#define LOOK_UP(TABLE) meta.state = TABLE.read(hdr);\n{text}");
    let options = paceline_p4::Options::default();
    let (program, _) = paceline_p4::lower(&path.display().to_string(), &text, &options).expect("no mistakes");
    let line_of =
        |part: &str| 1 + text.lines().position(|line| line.contains(part)).expect("it is there") as u32;
    let named = &program.mu_tables[0].mentions;
    let place = |place: &paceline_p4::ir::SourcePlace| (place.file.clone(), place.line, place.column);
    let expected = |line: &str, column: u32| ("stateful_firewall.p4".to_owned(), line_of(line), column);
    assert_eq!(place(&named.declared), expected("muTable connections", 13));
    let used: Vec<_> = named.used.iter().map(place).collect();
    assert_eq!(used, [expected("LOOK_UP(connections)", 17), expected("connections.write", 13)]);
}

/// A table that is applied twice is in one stage; what the second use waits for must not come of the first.
#[test]
fn what_has_no_stage_is_named() {
    let named = |apply: &str| match &faults(apply)[..] {
        [fault @ Fault::Unsettled(_)] => fault.describe(&lowered(&program(FIELDS, METADATA, FLOWS, apply))),
        other => panic!("{apply}: {other:?}"),
    };
    let twice = "meta.x = hdr.h.a; second.apply(); meta.x = meta.y; second.apply(); hdr.h.d = meta.y;";
    assert!(named(twice).starts_with("there are no stages for table ingress.second: "), "{}", named(twice));
    let read_twice =
        "meta.x = flows.read(hdr); if (meta.x == 3) { second.apply(); meta.z = meta.y + flows.read(hdr); }
                      hdr.h.d = meta.z; if (meta.z == 9) { hdr.h.c = flows.read(hdr); }";
    assert!(named(read_twice).contains("muTable ingress.flows (test.p4:"), "{}", named(read_twice));
}

/// What comes behind a state for which packets wait is asked in the order of arrival only if all its packets wait there,
/// with those of their key.
#[test]
fn what_is_asked_in_another_order_is_told() {
    let locals = FLOWS.replace(
        "register<bit<8>>",
        "muTable both { keys = { hdr.h.b; hdr.h.a; } values = { bit<8> v; } } register<bit<8>>",
    );
    let warnings = |first: &str, second: &str| {
        let apply = format!("{first} {second}");
        let mut compiled = lowered(&program(FIELDS, METADATA, &locals, &apply));
        passes::compile(&mut compiled);
        let layout = compiled.layout.expect("stages");
        assert_eq!(layout.notes[..], [""; 0], "{apply}");
        layout.warnings
    };
    let function = |table: &str, x: &str, y: &str, apply: &str| {
        format!("meta.{x} = {table}.read(hdr); {apply}.apply(); {table}.write(hdr, meta.{y} + meta.{x});")
    };
    let flows = function("flows", "x", "y", "second");
    let unrelated =
        warnings(&flows, "meta.w = others.read(hdr); fourth.apply(); others.write(hdr, meta.v + meta.w);");
    assert_eq!(unrelated.len(), 1, "{unrelated:?}");
    assert!(unrelated[0].starts_with("muTable ingress.others (test.p4:"), "{unrelated:?}");
    assert!(
        unrelated[0].contains(", used at test.p4:")
            && unrelated[0].contains("muTable ingress.flows (test.p4:")
    );
    let finer = "meta.w = both.read(hdr); fourth.apply(); both.write(hdr, meta.v + meta.w);";
    assert_eq!(warnings(&flows, finer), [""; 0]);
    // Packets that do not come to the first state pass those that wait there.
    let some = format!("if (hdr.h.c == 1) {{ {flows} }}");
    assert_eq!(warnings(&some, finer).len(), 1);
    assert_eq!(warnings(&format!("if (hdr.h.c == 1) {{ {flows} {finer} }}"), ""), [""; 0]);
    assert_eq!(warnings(&format!("if (hdr.h.c == 1) {{ exit; }} {flows}"), finer), [""; 0]);
    // Nobody waits for a state that may be old, and counts do not depend on the order.
    let weak = locals.replacen("size = 16;", "size = 16; consistency = WEAK;", 1);
    let mut compiled = lowered(&program(
        FIELDS,
        METADATA,
        &weak,
        &format!("{flows} meta.w = others.read(hdr); fourth.apply(); others.write(hdr, meta.v + meta.w);"),
    ));
    passes::compile(&mut compiled);
    assert_eq!(compiled.layout.expect("stages").warnings, [""; 0]);
    assert_eq!(warnings(&flows, "counts.count((bit<32>) meta.y);"), [""; 0]);
    let register = "sums.read(meta.z, (bit<32>) meta.y); sums.write((bit<32>) meta.y, meta.z + 1);";
    assert_eq!(warnings(&flows, register).len(), 1);
}

/// A chain of registers, each of which waits for the stage of the one before: as many rounds as there are registers.
#[test]
fn long_chains_settle() {
    let all = |line: &dyn Fn(usize) -> String| (0..100).map(line).collect::<String>();
    let declared = all(&|at| format!("register<bit<8>>(2) r{at};\n"));
    let metadata = all(&|at| format!("bit<8> x{at}; bit<8> y{at}; "));
    // Written with the last first, so that a round finds the stage of one register.
    let chained = |at: usize| {
        format!("r{at}.read(meta.x{at}, 0); r{}.read(meta.y{at}, (bit<32>) meta.x{at});\n", at + 1)
    };
    let chained: String = (0..99).rev().map(chained).collect();
    let shown = all(&|at| format!("hdr.h.d = hdr.h.d ^ meta.y{at};\n"));
    let mut program = lowered(&program(FIELDS, &metadata, &declared, &format!("{chained}{shown}")));
    passes::compile(&mut program);
    let layout = program.layout.expect("stages");
    assert_eq!((&layout.unsettled[..], layout.registers[99].reads), (&[][..], 100));
}
