//! Small whole programs around what a test is about.
#![allow(dead_code, reason = "each test uses some of it")]

use std::ops::RangeInclusive;

use paceline_p4::interpret::{Machine, Output, Phv};
use paceline_p4::ir::{Memory, Program};
use paceline_p4::passes::rename;
use paceline_p4::{Options, lower};

/// A program whose only header is `h`, with these fields, and whose ingress is this.
pub fn program(fields: &str, metadata: &str, locals: &str, apply: &str) -> String {
    format!(
        "#include <v1model.p4>
header h_t {{ {fields} }}
struct headers {{ h_t h; }}
struct metadata {{ {metadata} }}
parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {{
    state start {{ packet.extract(hdr.h); transition accept; }}
}}
control Nothing(inout headers hdr, inout metadata meta) {{ apply {{ }} }}
control Egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {{ apply {{ }} }}
control Ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {{
{locals}
apply {{
{apply}
}}
}}
control Deparser(packet_out packet, in headers hdr) {{ apply {{ packet.emit(hdr); }} }}
V1Switch(P(), Nothing(), Ingress(), Egress(), Nothing(), Deparser()) main;
"
    )
}

/// The program, which has no mistakes.
pub fn lowered(source: &str) -> Program {
    match lower("test.p4", source, &Options { no_files: true, ..Options::default() }) {
        Ok((program, _)) => program,
        Err(errors) => panic!("{source}\n{:?}", miette::Report::new(errors)),
    }
}

/// Mistakes and warnings as `line:column message`.
pub fn findings(source: &str) -> Vec<String> {
    let options = Options { no_files: true, ..Options::default() };
    let found = match lower("test.p4", source, &options) {
        Ok((_, warnings)) => warnings,
        Err(errors) => errors,
    };
    let line = |finding: &paceline_p4::diagnostic::Finding| {
        let (_, line, column) = &finding.place;
        let help = finding.diagnostic.help.as_ref().map_or(String::new(), |help| format!(" ({help})"));
        format!("{line}:{column} {}{help}", finding.diagnostic.message)
    };
    found.findings().iter().map(line).collect()
}

/// A program with so many tables of 13 lines each, every one of which is looked up by what the one before gave.
pub fn large(tables: usize) -> String {
    let mut locals = String::new();
    let mut apply = String::new();
    for at in 0..tables {
        locals += &format!(
            "action set_{at}(bit<8> value) {{
    meta.x = meta.x + value;
    hdr.h.b = hdr.h.b ^ meta.x;
}}
table t_{at} {{
    key = {{
        hdr.h.a: exact;
        meta.x: ternary;
    }}
    actions = {{ set_{at}; NoAction; }}
    size = 64;
}}
"
        );
        apply += &format!("if (hdr.h.a != {at}) {{ t_{at}.apply(); }}\n");
    }
    program("bit<8> a; bit<8> b;", "bit<8> x;", &locals, &apply)
}

fn halves(machine: &mut Machine, phv: &mut Phv, range: RangeInclusive<u16>) {
    for half in range {
        machine.ingress(phv, Some(half));
    }
}

/// A packet, stage by stage; those of `again` are first done once without keeping what they write to state.
pub fn staged(machine: &mut Machine, port: u16, bytes: &[u8], again: Option<(u16, u16)>) -> Vec<Output> {
    let layout = machine.program().layout.clone().expect("stages");
    let last = 2 * layout.stages + 1;
    let mut phv = machine.parse(port, bytes, 0);
    match again {
        None => halves(machine, &mut phv, 0..=last),
        Some((reads, writes)) => {
            let region = rename::region(reads, writes);
            halves(machine, &mut phv, 0..=region.start() - 1);
            let mut discarded = machine.clone();
            halves(&mut discarded, &mut phv, region.clone());
            halves(machine, &mut phv, *region.start()..=last);
        }
    }
    machine.leave(&phv)
}

/// Where each muTable of several stages is read and written.
pub fn spans(program: &Program) -> Vec<(u16, u16)> {
    let places = &program.layout.as_ref().expect("stages").mu_tables;
    let flows = places.iter().filter(|place| place.memory == Memory::FlowState);
    flows.map(|place| (place.reads, place.writes)).collect()
}

/// Packets of few flows, which go through the stages of each muTable twice.
pub fn agrees(whole: &Program, compiled: &Program) {
    for again in std::iter::once(None).chain(spans(compiled).into_iter().map(Some)) {
        let (mut reference, mut pipeline) = (Machine::new(whole.clone()), Machine::new(compiled.clone()));
        for number in 0..96_u8 {
            let bytes = [number % 3, number / 3 % 4, number % 2, number / 7 % 3];
            let expected = reference.packet(1, &bytes, 0);
            assert_eq!(staged(&mut pipeline, 1, &bytes, again), expected, "{bytes:?}, {again:?}");
        }
        assert_eq!(reference.state().dump(whole), pipeline.state().dump(compiled), "{again:?}");
    }
}
