//! Programs of statements in any order, with all that keeps state: what compiles is exact.

use std::collections::BTreeSet;
use std::fmt::Write;

use p4::ir::{Program, Statement, StatementKind};
use p4::passes::{self, allocate, dead, fold};
use p4::uses::{Object, Use, Uses};
use paceline_pipeline::{Model, Options, WhenFull};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::adverse::{Case, Shown, case};
use crate::support::*;

const LOCALS: &str = "
register<bit<8>>(256) r0; register<bit<8>>(3) r1;
counter(256, CounterType.packets) counts;
meter(4, MeterType.packets) rates;
muTable m0 { keys = { hdr.h.a; } values = { bit<8> v; } size = 256; }
muTable m1 { keys = { hdr.h.a; } values = { bit<8> v; } size = 256; }
muTable m2 { keys = { hdr.h.a; hdr.h.b; } values = { bit<8> v; } size = 65536; }
muTable m3 { keys = { meta.k; } values = { bit<8> v; } size = 256; }
muTable m4 { keys = { hdr.h.c; } values = { bit<8> v; } size = 256; }
muTable m5 { keys = { hdr.h.b; } values = { bit<8> v; } type = direct; size = 3; }
action keep() { }
action set0(bit<8> by) { meta.x0 = meta.x0 * 3 + by; }
action set1(bit<8> by) { meta.x1 = meta.x1 * 5 + by; }
action gone() { standard.egress_spec = 7; exit; }
action ask2(bit<8> by) { r0.read(meta.x2, (bit<32>) hdr.h.b); meta.x2 = meta.x2 + by; }
action put3(bit<8> by) { m0.write(hdr, meta.x3 + by); }
action put2(bit<8> by) { r0.write((bit<32>) hdr.h.b, meta.x2 + by); meta.x1 = meta.x1 + by; }
action leave(bit<8> by) { if (meta.x0 == by) { return; } meta.x1 = meta.x1 ^ by; if (hdr.h.d == by) { meta.x3 = 1; } }
action drop_g(bit<8> by) { counts.count((bit<32>) meta.x2); hdr.g.setInvalid(); hdr.h.e = hdr.h.e + by; }
action set2(bit<8> by) { meta.x2 = meta.x2 * 7 + by; hdr.h.e = hdr.h.e ^ meta.x2; }
action set3(bit<8> by) { meta.x3 = meta.x3 * 9 + by; hdr.h.c = meta.x3 & 3; }
action read3(bit<8> by) { meta.x3 = m1.read(hdr); meta.x3 = meta.x3 + by; }
table t0 { key = { meta.x0: ternary; } actions = { set0; keep; }
  const entries = { 1 &&& 3: set0(1); 2 &&& 3: keep(); } const default_action = set0(3); }
table t1 { key = { meta.x1: ternary; } actions = { set1; gone; keep; }
  const entries = { 1 &&& 3: set1(1); 6 &&& 7: gone(); } const default_action = keep(); }
table t2 { key = { meta.x1: ternary; } actions = { ask2; keep; }
  const entries = { 1 &&& 1: ask2(1); } const default_action = keep(); }
table t3 { key = { meta.x3: ternary; } actions = { put3; keep; }
  const entries = { 0 &&& 1: put3(1); 3 &&& 3: keep(); } const default_action = put3(2); }
table t4 { key = { meta.x0: ternary; } actions = { leave; keep; }
  const entries = { 1 &&& 1: leave(1); } const default_action = leave(2); }
table t5 { key = { hdr.h.b: exact; meta.x2: ternary; } actions = { drop_g; keep; }
  const entries = { (1, 0 &&& 1): drop_g(1); (2, _): drop_g(3); } const default_action = keep(); }
table t6 { key = { meta.x2: ternary; } actions = { set2; keep; }
  const entries = { 1 &&& 3: set2(1); 2 &&& 3: keep(); } const default_action = set2(3); }
table t7 { key = { meta.x3: ternary; } actions = { set3; read3; keep; }
  const entries = { 1 &&& 3: set3(1); 2 &&& 3: keep(); } const default_action = set3(3); }
table t8 { key = { hdr.h.d: exact; } actions = { read3; keep; }
  const entries = { 1: read3(1); 2: keep(); } const default_action = keep(); }
table t9 { key = { hdr.h.b: exact; } actions = { put2; keep; }
  const entries = { 1: put2(1); 2: keep(); } const default_action = put2(2); }
";

const ENTRIES: &str = "meter rates 0 1000 2 2000 3\nmeter rates 2 1 1 1 1\nmeter rates 1 1 2 1 4\n";

/// The program with this ingress.
fn source(apply: &str) -> String {
    format!(
        "#include <v1model.p4>
header h_t {{ bit<8> a; bit<8> b; bit<8> c; bit<8> d; bit<8> e; bit<8> f; }}
header g_t {{ bit<8> v; }}
struct headers {{ h_t h; g_t g; }}
struct metadata {{ bit<8> x0; bit<8> x1; bit<8> x2; bit<8> x3; bit<8> y; bit<8> k; }}
parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {{
    state start {{ packet.extract(hdr.h); transition select(hdr.h.f) {{ 0: accept; default: more; }} }}
    state more {{ packet.extract(hdr.g); transition accept; }}
}}
control Nothing(inout headers hdr, inout metadata meta) {{ apply {{ }} }}
control Egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {{ apply {{ }} }}
control Ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {{
{LOCALS}
apply {{
standard.egress_spec = 1;
{apply}
}}
}}
control Deparser(packet_out packet, in headers hdr) {{ apply {{ packet.emit(hdr); }} }}
V1Switch(P(), Nothing(), Ingress(), Egress(), Nothing(), Deparser()) main;
"
    )
}

/// A statement: its kind, and three draws from which it is made.
type Token = (u8, u8, u8, u8);

fn one_of<'a>(texts: &[&'a str], draw: u8) -> &'a str {
    texts[usize::from(draw) % texts.len()]
}

fn operand(draw: u8) -> &'static str {
    let fields =
        ["meta.x0", "meta.x1", "meta.x2", "meta.x3", "hdr.h.b", "hdr.h.c", "hdr.h.d", "hdr.g.v", "8w5"];
    one_of(&fields, draw)
}

fn condition(what: u8, value: u8) -> String {
    match what % 8 {
        0 => "hdr.h.d == 1".into(),
        1 => "hdr.g.isValid()".into(),
        2 => format!("hdr.h.b < {}", value % 3 + 1),
        3 => format!("meta.x{} & 1 == {}", value % 4, value / 4 % 2),
        _ => format!("meta.x{} != {}", value % 4, value / 4 % 4),
    }
}

/// A statement that neither begins nor ends a block.
fn simple((kind, i, j, k): Token) -> String {
    let x = j % 4;
    let key = one_of(&["hdr.h.b", "hdr.h.b", "hdr.h.b", "hdr.h.c", "hdr.h.a"], k);
    let (table, array) = (i % 6, i % 2);
    match kind {
        READ if table == 3 => format!("meta.k = {key}; meta.x{x} = m3.read(hdr);"),
        READ => format!("meta.x{x} = m{table}.read(hdr);"),
        WRITE if table == 3 => format!("meta.k = hdr.h.b; m3.write(hdr, meta.x{x} + 1);"),
        WRITE => format!("m{table}.write(hdr, {} + meta.x{x});", operand(k)),
        APPLY => format!("t{}.apply();", i % 10),
        4 => format!("r{array}.read(meta.x{x}, (bit<32>) {key});"),
        5 => format!("r{array}.write((bit<32>) hdr.h.b, meta.x{x} + {});", k % 4),
        6 => format!("counts.count((bit<32>) {});", operand(k)),
        7 => format!("rates.execute_meter((bit<32>) hdr.h.b, meta.x{x});"),
        8 | 9 => format!("meta.x{x} = {} {} {};", operand(i), one_of(&["+", "^", "-"], k), operand(k / 3)),
        10 => format!("if ({}) {{ {}; }}", condition(i, j), one_of(&["exit", "return", "return"], k)),
        11 => one_of(&["hdr.g.setInvalid();", "hdr.g.setValid();", "hdr.g.v = meta.x1;"], i).into(),
        12 => format!("{} = meta.x{x} & 3;", one_of(&["hdr.h.c", "hdr.h.d", "meta.y"], i)),
        _ => format!("hdr.h.e = hdr.h.e ^ meta.x{x} ^ meta.y;"),
    }
}

const READ: u8 = 0;
const WRITE: u8 = 1;
const APPLY: u8 = 2;
const IF: u8 = 14;
const ELSE: u8 = 15;
const END: u8 = 16;
const KINDS: u8 = 18;

/// The ingress in text. A table is applied once, and blocks are three deep at most.
fn text_of(tokens: &[Token]) -> String {
    let mut text = String::new();
    let mut open: Vec<bool> = Vec::new();
    let mut applied = [false; 10];
    for token in tokens {
        let (kind, i, j, k) = *token;
        let is_apply = kind == APPLY || kind == IF && k % 4 == 0;
        if is_apply && std::mem::replace(&mut applied[usize::from(i) % 10], true) {
            continue;
        }
        let line = match kind {
            IF if open.len() < 3 => {
                open.push(true);
                match is_apply {
                    true => format!("if (t{}.apply().{}) {{", i % 10, one_of(&["hit", "miss"], j)),
                    false => format!("if ({}) {{", condition(i, j)),
                }
            }
            ELSE if open.last() == Some(&true) => {
                open.pop();
                open.push(false);
                "} else {".into()
            }
            END if open.pop().is_some() => "}".into(),
            IF..KINDS => continue,
            _ => simple(*token),
        };
        writeln!(text, "{line}").expect("text");
    }
    text + &"}\n".repeat(open.len()) + "hdr.h.f = meta.x0 ^ meta.x1 ^ meta.x2 ^ meta.x3;"
}

/// A function: reads a state, asks tables, and writes the state, by all packets or by some.
fn function() -> impl Strategy<Value = Vec<Token>> {
    let step = (prop_oneof![Just(APPLY), 2_u8..10], any::<u8>(), any::<u8>(), any::<u8>());
    (0_u8..3, prop::collection::vec(step, 0..3), any::<u8>(), 0_u8..3).prop_map(
        |(at, mut body, draw, shape)| {
            let (table, x) = ([0, 2, 1][usize::from(at)], [0, 2, 3][usize::from(at)]);
            body.insert(0, (APPLY, [0, 6, 7][usize::from(at)], 0, 0));
            let (read, write) = ((READ, table, x, draw), (WRITE, table, x, draw));
            let condition = (IF, draw, draw / 8, 1);
            match shape {
                0 => [vec![read], body, vec![write]].concat(),
                1 => [vec![read], body, vec![condition, write, (END, 0, 0, 0)]].concat(),
                _ => [vec![condition, read], body, vec![write, (END, 0, 0, 0)]].concat(),
            }
        },
    )
}

fn programs() -> impl Strategy<Value = String> {
    let statement = (0..KINDS, any::<u8>(), any::<u8>(), any::<u8>());
    let part = prop_oneof![3 => function(), 2 => prop::collection::vec(statement, 1..6)];
    prop::collection::vec(part, 1..5).prop_map(|parts| text_of(&parts.concat()))
}

/// Fields of the key that no statement changes.
fn key(used: &Use, program: &Program) -> Option<BTreeSet<char>> {
    let Object::MuTable(table) = used.object else { return None };
    let fields = match &*program.mu_tables[table as usize].name {
        "ingress.m0" | "ingress.m1" => "a",
        "ingress.m2" => "ab",
        "ingress.m5" => "b",
        _ => return None,
    };
    Some(fields.chars().collect())
}

fn leaves(program: &Program, body: &[Statement]) -> bool {
    body.iter().any(|statement| match &statement.kind {
        StatementKind::Leave | StatementKind::Exit => true,
        StatementKind::If { then, otherwise, .. } => leaves(program, then) || leaves(program, otherwise),
        StatementKind::Scope { body } => leaves(program, body),
        StatementKind::Apply { table, .. } => {
            let actions = &program.tables[*table as usize].actions;
            actions.iter().any(|action| leaves(program, &program.actions[*action as usize].body))
        }
        _ => false,
    })
}

/// Whether every packet reads the state, in a body that none leaves before.
fn is_always_read(program: &Program, body: &[Statement], object: Object) -> bool {
    let reads = |statement: &Statement| match &statement.kind {
        StatementKind::Scope { body } => is_always_read(program, body, object),
        kind @ StatementKind::MuRead { .. } => Object::of(kind) == Some(object),
        _ => false,
    };
    let stays = |statement: &&Statement| match &statement.kind {
        StatementKind::Scope { .. } => true,
        _ => !leaves(program, std::slice::from_ref(*statement)),
    };
    body.iter().take_while(stays).any(reads)
}

/// Whether what packets share is asked in the order of arrival: by packets of any flows, of which the compiler warns
/// otherwise, and by those with one `a`, not behind a read for which some wait and others do not.
fn in_order(program: &Program) -> (bool, bool) {
    let found = Uses::of(program);
    let (of_any, uses) = (found.overtaken.is_empty(), found.objects);
    let is_shared = |used: &&Use| used.is_written && !matches!(used.object, Object::Counter(_));
    let mut of_one = true;
    for flow in uses.iter().filter(|used| used.is_flow_state()) {
        let is_always = is_always_read(program, &program.ingress, flow.object);
        let is_behind = |used: &&Use| used.object != flow.object && used.reads >= flow.reads;
        for other in uses.iter().filter(is_shared).filter(is_behind) {
            let keys = (key(flow, program), key(other, program));
            let is_finer = matches!(&keys, (Some(flow), Some(other)) if flow.is_subset(other));
            of_one &=
                is_always && (is_finer || keys.0.is_some_and(|key| key.iter().all(|field| *field == 'a')));
        }
    }
    (of_any, of_one)
}

fn frames(packets: &[Shown], is_one_flow: bool) -> Vec<Frame> {
    let frame = |packet: &Shown| {
        let draw = nf::hash_bytes(&packet.tag.to_le_bytes(), 77).to_le_bytes();
        let a = if is_one_flow { 1 } else { packet.key as u8 };
        let bytes = vec![a, draw[0] & 3, draw[1] & 3, draw[2] & 3, 0, draw[3] & 1, draw[4]];
        Frame { port: 0, bytes, time_ns: u64::from(packet.tag) * 400 }
    };
    packets.iter().map(frame).collect()
}

/// What differs, by model; `None` if no pipeline has such a program or packets may be taken in another order.
fn differences(apply: &str, case: &Case, compile: fn(&mut Program)) -> Option<Vec<String>> {
    let program = lowered_text("random.p4", &source(apply));
    let subject = Subject::compiled_by(program, ENTRIES, compile).ok()?;
    let program = subject.image.machine().program();
    let (of_any, of_one) = in_order(program);
    let is_noted = program.layout.as_ref().is_some_and(|layout| !layout.notes.is_empty());
    if is_noted || !of_any && !of_one {
        return None;
    }
    let frames = frames(&case.packets, !of_any);
    // A long program needs long stages, or its signals are too late.
    let stage_cycles = case.options.stage_cycles.max(Some(subject.image.stages() + 8));
    let options = Options { when_full: WhenFull::Stall, stage_cycles, ..case.options.clone() };
    let models = [Model::Rapid(case.model), Model::named("blocking").expect("a model")];
    let found = models.iter().map(|model| (model.name(), run(&subject, model, &options, &frames).1));
    let differs = found.filter(|(_, found)| !found.is_equal() || found.lost > 0);
    Some(differs.map(|(model, found)| format!("{model}: {found:?}")).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn programs_are_the_reference(apply in programs(), case in case()) {
        let found = differences(&apply, &case, passes::compile).unwrap_or_default();
        prop_assert!(found.is_empty(), "{found:?}\n{apply}");
    }
}

/// Enough of them compile, and are such that a missing pass is noticed.
#[test]
fn programs_need_renaming() {
    let without = |program: &mut Program| {
        fold::run(program);
        dead::run(program);
        allocate::run(program);
    };
    let mut runner = TestRunner::deterministic();
    let (mut compared, mut different) = (0, 0);
    for _ in 0..300 {
        let (apply, case) = (programs(), case()).new_tree(&mut runner).expect("a program").current();
        if let Some(found) = differences(&apply, &case, without) {
            compared += 1;
            different += usize::from(!found.is_empty());
        }
    }
    assert!(compared > 60 && different > 5, "{different} of {compared}");
}
