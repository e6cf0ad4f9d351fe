//! The sequencer of a program for a switch, as P4 for v1model (SCR, section 3.3.1): registers hold the history, one for each field of
//! each slot, so that a packet has each of them once.

use std::collections::BTreeSet;
use std::fmt::Write;

use p4::ir::{
    Binary, Case, Compute, FieldId, FieldKind, KeySet, Operand, Program, Standard, Statement, StatementKind,
    Target,
};

use crate::compile::Compiled;
use crate::names::Names;
use crate::subset::{Refusal, emitted};

/// How a switch is set up.
#[derive(Clone, Copy, Debug)]
pub struct Switch {
    /// Cores that get packets.
    pub cores: usize,
    /// Whether an Ethernet header is before the history.
    pub has_ethernet: bool,
    /// The port of core 0; the others are behind it.
    pub first_port: u16,
    /// What is added to the switch's clock, in ns.
    pub base_ns: u64,
}

/// The sequencer of a program that is compiled with [`Strategy::Scr`](crate::Strategy::Scr).
///
/// # Errors
/// What its parser does and is not written as P4, with its place.
pub fn sequencer(compiled: &Compiled, switch: Switch) -> Result<String, Vec<Refusal>> {
    let program = &compiled.program;
    let names = &Names::of(program);
    let mut out =
        Text { compiled, program, names, switch, text: String::new(), refused: Vec::new(), place: 0 };
    out.all();
    if out.refused.is_empty() { Ok(out.text) } else { Err(out.refused) }
}

struct Text<'a> {
    compiled: &'a Compiled,
    program: &'a Program,
    names: &'a Names,
    switch: Switch,
    text: String,
    refused: Vec<Refusal>,
    /// The place of the statement that is looked at.
    place: u32,
}

impl Text<'_> {
    fn line(&mut self, indent: usize, line: impl AsRef<str>) {
        let spaces = " ".repeat(4 * indent);
        writeln!(self.text, "{spaces}{}", line.as_ref()).expect("a string takes all");
    }

    fn refuse(&mut self, message: &str) {
        let written = self.program.places.get(self.place as usize).cloned().unwrap_or_default();
        let message = format!("{message} is not written for a switch yet");
        self.refused.push(Refusal { place: written.place, text: written.text, message });
    }

    /// Slots of the ring.
    fn slots(&self) -> usize {
        self.switch.cores - 1
    }

    fn all(&mut self) {
        let Switch { cores, has_ethernet, first_port, base_ns } = self.switch;
        let item = &self.compiled.item;
        let (name, layout, number) = (&self.program.name, item.layout(), item.number());
        self.line(0, format!("// The sequencer of {name} for {cores} cores, history of version 3 (docs/history-format.md): written by"));
        self.line(0, "// `paceline p4 sequencer`. Registers hold the items of the last packets; each packet has each register once.");
        self.line(0, format!("// Items: {}", if layout.is_empty() { "a packet came" } else { &layout }));
        self.line(0, "#include <core.p4>");
        self.line(0, "#include <v1model.p4>");
        self.line(0, "");
        self.line(0, format!("const bit<64> LAYOUT = {number:#x};"));
        self.line(0, format!("const bit<64> BASE_NS = {base_ns};"));
        self.line(0, format!("const bit<16> LAST_CORE = {};", cores - 1));
        self.line(0, format!("const bit<16> SLOTS = {};", self.slots()));
        self.line(0, format!("const bit<9> FIRST_PORT = {first_port};"));
        self.line(0, "");
        if has_ethernet {
            self.line(0, "header outer_h { bit<48> destination; bit<48> source; bit<16> kind; }");
        }
        self.line(0, "header history_h {");
        self.line(1, "bit<32> magic; bit<8> version; bit<8> flags; bit<16> link; bit<64> seq; bit<64> time_ns; bit<64> layout;");
        self.line(1, "bit<16> item_len; bit<16> ring_items; bit<16> count; bit<16> oldest; bit<16> core; bit<16> port; bit<32> turn;");
        self.line(0, "}");
        let fields: String =
            self.parts().iter().map(|(name, bits, _)| format!("bit<{bits}> {name}; ")).collect();
        self.line(0, format!("header item_h {{ {fields}}}"));
        self.headers();
        self.parser();
        self.line(0, "control Verify(inout headers_t hdr, inout metadata_t meta) { apply { } }");
        self.ingress();
        self.line(0, "control Egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply { } }");
        self.line(0, "control Compute(inout headers_t hdr, inout metadata_t meta) { apply { } }");
        self.line(0, "control Deparser(packet_out packet, in headers_t hdr) {");
        self.line(1, "apply {");
        let outer = if has_ethernet { vec!["outer".to_owned()] } else { Vec::new() };
        let items = (0..self.slots()).map(|slot| format!("item{slot}"));
        let program = self.program;
        let own: Vec<String> =
            emitted(program).map(|header| self.names.headers[header as usize].clone()).collect();
        for header in outer.into_iter().chain(["history".to_owned()]).chain(items).chain(own) {
            self.line(2, format!("packet.emit(hdr.{header});"));
        }
        self.line(1, "}");
        self.line(0, "}");
        self.line(0, "V1Switch(Parser(), Verify(), Sequencer(), Egress(), Compute(), Deparser()) main;");
    }

    /// Name, bits in an item, and value of each field of an item.
    fn parts(&mut self) -> Vec<(String, usize, String)> {
        let parts = self.compiled.item.parts.clone();
        if parts.is_empty() {
            return vec![("came".to_owned(), 8, "8w0".to_owned())];
        }
        let mut all = Vec::new();
        for part in parts {
            let bits = part.bytes * 8;
            let standard = self.program.standard;
            let declared = &self.program.fields[part.field as usize];
            let value = match declared.kind {
                // A field of a header that is not there is 0.
                FieldKind::Header => {
                    let header =
                        self.program.headers.iter().position(|header| header.fields.contains(&part.field));
                    let header = &self.names.headers[header.unwrap_or_default()];
                    format!("hdr.{header}.isValid() ? {} : 0", self.field(part.field))
                }
                _ if part.field == standard.ingress_global_timestamp => "now".to_owned(),
                _ => self.field(part.field),
            };
            all.push((self.names.field(part.field).to_owned(), bits, format!("(bit<{bits}>) ({value})")));
        }
        all
    }

    /// A field as it is written.
    fn field(&mut self, field: FieldId) -> String {
        let declared = &self.program.fields[field as usize];
        let name = self.names.field(field);
        let Standard { ingress_port, packet_length, ingress_global_timestamp, .. } = self.program.standard;
        match declared.kind {
            FieldKind::Header => {
                let at = self.program.headers.iter().position(|header| header.fields.contains(&field));
                format!("hdr.{}.{name}", self.names.headers[at.unwrap_or_default()])
            }
            FieldKind::Validity => {
                let at = self.program.headers.iter().position(|header| header.valid == field);
                format!("(hdr.{}.isValid() ? 1w1 : 1w0)", self.names.headers[at.unwrap_or_default()])
            }
            FieldKind::Standard if field == ingress_port => "standard.ingress_port".to_owned(),
            FieldKind::Standard if field == packet_length => "standard.packet_length".to_owned(),
            FieldKind::Standard if field == ingress_global_timestamp => {
                "standard.ingress_global_timestamp".to_owned()
            }
            FieldKind::Standard => {
                let message = format!("`{}`, on which state or the parser depends,", declared.name);
                self.refuse(&message);
                String::new()
            }
            _ => format!("meta.{name}"),
        }
    }

    fn operand(&mut self, operand: Operand) -> String {
        match operand {
            Operand::Field(field) => self.field(field),
            Operand::Constant(constant) => format!("{}w{:#x}", constant.width, constant.value),
        }
    }

    fn headers(&mut self) {
        let program = self.program;
        let mut structure = String::new();
        if self.switch.has_ethernet {
            structure += "    outer_h outer;\n";
        }
        structure += "    history_h history;\n";
        for slot in 0..self.slots() {
            writeln!(structure, "    item_h item{slot};").expect("a string takes all");
        }
        for (header, name) in program.headers.iter().zip(&self.names.headers) {
            let field = |field: &FieldId| {
                format!("bit<{}> {}; ", program.fields[*field as usize].width, self.names.field(*field))
            };
            let fields: String = header.fields.iter().map(field).collect();
            writeln!(self.text, "header {name}_h {{ {fields}}}").expect("a string takes all");
            writeln!(structure, "    {name}_h {name};").expect("a string takes all");
        }
        self.line(0, "struct headers_t {");
        self.text += &structure;
        self.line(0, "}");
        self.line(0, "struct metadata_t {");
        for field in self.metadata() {
            let width = self.program.fields[field as usize].width;
            self.line(1, format!("bit<{width}> {};", self.names.field(field)));
        }
        self.line(0, "}");
    }

    /// What the parser keeps beside headers.
    fn metadata(&self) -> BTreeSet<FieldId> {
        let program = self.program;
        let mut used: BTreeSet<FieldId> = self.compiled.item.parts.iter().map(|part| part.field).collect();
        for statement in program.parser.iter().flat_map(|state| &state.body) {
            statement.kind.writes(program, &mut |field| _ = used.insert(field));
            statement.kind.reads(program, &mut |field| _ = used.insert(field));
        }
        let is_kept = |field: &FieldId| {
            let kind = program.fields[*field as usize].kind;
            matches!(kind, FieldKind::Metadata | FieldKind::Temporary)
        };
        used.into_iter().filter(is_kept).collect()
    }

    fn parser(&mut self) {
        let program = self.program;
        self.line(0, "parser Parser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {");
        if let Some(statement) = program.verify_checksum.first() {
            self.place = statement.place;
            self.refuse("a checksum that is verified");
        }
        for (at, state) in program.parser.iter().enumerate() {
            let name = self.state(at as u32);
            self.line(1, format!("state {name} {{"));
            for statement in &state.body {
                self.statement(statement);
            }
            let keys: Vec<String> = state.select.iter().map(|operand| self.operand(*operand)).collect();
            self.transition(&keys, &state.cases);
            self.line(1, "}");
        }
        self.line(0, "}");
    }

    fn state(&self, at: u32) -> String {
        // The first state has to be called so, and no other may.
        if at == 0 { "start".to_owned() } else { format!("state_{}", self.names.states[at as usize]) }
    }

    fn statement(&mut self, statement: &Statement) {
        if statement.place != 0 {
            self.place = statement.place;
        }
        let line = match &statement.kind {
            StatementKind::Extract { header } => {
                format!("packet.extract(hdr.{});", self.names.headers[*header as usize])
            }
            StatementKind::Verify { condition, error: Operand::Constant(error) } => {
                let condition = self.operand(*condition);
                let error = self.program.errors.get(error.value as usize).cloned().unwrap_or_default();
                format!("verify({condition} == 1, error.{error});")
            }
            StatementKind::Compute { to, value } => {
                let value = self.computed(*to, value);
                format!("{} = {value};", self.field(*to))
            }
            _ => return self.refuse("what the parser does here"),
        };
        self.line(2, line);
    }

    fn computed(&mut self, to: FieldId, value: &Compute) -> String {
        let width = self.program.fields[to as usize].width;
        let mut of = |operand: Operand| self.operand(operand);
        match *value {
            Compute::Copy { from } | Compute::Resize { from, signed: false } => {
                format!("(bit<{width}>) {}", of(from))
            }
            Compute::Slice { from: from @ Operand::Field(_), high, low } => {
                format!("(bit<{width}>) {}[{high}:{low}]", of(from))
            }
            Compute::Not { from } => format!("~{}", of(from)),
            Compute::Select { condition, then, otherwise } => {
                format!("({} == 1 ? {} : {})", of(condition), of(then), of(otherwise))
            }
            Compute::Binary { by, a, b } => {
                let (a, b) = (of(a), of(b));
                let sign = match by {
                    Binary::Add => "+",
                    Binary::Subtract => "-",
                    Binary::Multiply => "*",
                    Binary::And => "&",
                    Binary::Or => "|",
                    Binary::Xor => "^",
                    Binary::ShiftLeft => "<<",
                    Binary::ShiftRight => ">>",
                    Binary::Concat => "++",
                    Binary::SaturatingAdd => "|+|",
                    Binary::SaturatingSubtract => "|-|",
                    Binary::Equal | Binary::NotEqual | Binary::Less | Binary::LessEqual => {
                        let sign = match by {
                            Binary::Equal => "==",
                            Binary::NotEqual => "!=",
                            Binary::Less => "<",
                            _ => "<=",
                        };
                        return format!("({a} {sign} {b} ? 1w1 : 1w0)");
                    }
                    _ => {
                        self.refuse("an operation with signs in a parser");
                        return String::new();
                    }
                };
                format!("({a} {sign} {b})")
            }
            _ => {
                self.refuse("what the parser computes here");
                String::new()
            }
        }
    }

    fn transition(&mut self, keys: &[String], cases: &[Case]) {
        let goal = |target: Target| match target {
            Target::State(state) => self.state(state),
            Target::Accept => "accept".to_owned(),
            Target::Reject => "reject".to_owned(),
        };
        let is_open = |case: &&Case| case.keys.iter().all(Option::is_none);
        if let Some(first) = cases.first().filter(is_open) {
            let line = format!("transition {};", goal(first.target));
            return self.line(2, line);
        }
        let set = |key: &Option<KeySet>| match key {
            None => "_".to_owned(),
            Some(KeySet::Range { low, high }) => format!("{:#x} .. {:#x}", low.value, high.value),
            Some(KeySet::Masked { value, mask }) => format!("{:#x} &&& {:#x}", value.value, mask.value),
        };
        let lines: Vec<String> = cases
            .iter()
            .map(|case| {
                let sets: Vec<String> = case.keys.iter().map(set).collect();
                match is_open(&case) {
                    true => format!("default: {};", goal(case.target)),
                    false => format!("({}): {};", sets.join(", "), goal(case.target)),
                }
            })
            .collect();
        self.line(2, format!("transition select({}) {{", keys.join(", ")));
        lines.into_iter().for_each(|line| self.line(3, line));
        self.line(2, "}");
    }

    fn ingress(&mut self) {
        let (parts, slots) = (self.parts(), self.slots());
        let item_len = self.compiled.item.bytes;
        self.line(0, "control Sequencer(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {");
        self.line(1, "register<bit<64>>(1) next_seq;");
        self.line(1, "register<bit<48>>(1) last_time; // microseconds");
        self.line(1, "register<bit<16>>(1) next_core;");
        self.line(1, "register<bit<32>>(1) turns;");
        if slots > 0 {
            self.line(1, "register<bit<16>>(1) next_slot;");
            self.line(1, "register<bit<16>>(1) counts;");
        }
        for slot in 0..slots {
            for (name, bits, _) in &parts {
                self.line(1, format!("register<bit<{bits}>>(1) item{slot}_{name};"));
            }
        }
        self.line(1, "apply {");
        for line in [
            "bit<64> seq;",
            "next_seq.read(seq, 0);",
            "next_seq.write(0, seq + 1);",
            "// Time never runs back.",
            "bit<48> last;",
            "last_time.read(last, 0);",
            "bit<48> now = standard.ingress_global_timestamp;",
            "if (now < last) {",
            "    now = last;",
            "}",
            "last_time.write(0, now);",
            "bit<16> core;",
            "next_core.read(core, 0);",
            "bit<32> turn;",
            "turns.read(turn, 0);",
            "if (core == LAST_CORE) {",
            "    next_core.write(0, 0);",
            "    turns.write(0, turn + 1);",
            "} else {",
            "    next_core.write(0, core + 1);",
            "}",
            "bit<16> slot = 0;",
            "bit<16> count = 0;",
        ] {
            self.line(2, line);
        }
        if slots > 0 {
            for line in [
                "next_slot.read(slot, 0);",
                "if (slot == SLOTS - 1) {",
                "    next_slot.write(0, 0);",
                "} else {",
                "    next_slot.write(0, slot + 1);",
                "}",
                "counts.read(count, 0);",
                "if (count < SLOTS) {",
                "    counts.write(0, count + 1);",
                "}",
            ] {
                self.line(2, line);
            }
            for (name, bits, value) in &parts {
                self.line(2, format!("bit<{bits}> own_{name} = {value};"));
            }
        }
        self.line(2, "// The history before this packet; then its item is in the place of the oldest.");
        for slot in 0..slots {
            self.line(2, format!("hdr.item{slot}.setValid();"));
            for (name, ..) in &parts {
                self.line(2, format!("item{slot}_{name}.read(hdr.item{slot}.{name}, 0);"));
                self.line(2, format!("if (slot == {slot}) {{"));
                self.line(3, format!("item{slot}_{name}.write(0, own_{name});"));
                self.line(2, "}");
            }
        }
        self.line(2, "hdr.history.setValid();");
        for (field, value) in [
            ("magic", "0x504c4849".to_owned()),
            ("version", "3".to_owned()),
            ("flags", "0".to_owned()),
            ("link", "1".to_owned()),
            ("seq", "seq".to_owned()),
            (
                "time_ns",
                "((bit<64>) now << 10) - ((bit<64>) now << 4) - ((bit<64>) now << 3) + BASE_NS".to_owned(),
            ),
            ("layout", "LAYOUT".to_owned()),
            ("item_len", item_len.to_string()),
            ("ring_items", "SLOTS".to_owned()),
            ("count", "count".to_owned()),
            ("oldest", "count < SLOTS ? 0 : slot".to_owned()),
            ("core", "core".to_owned()),
            ("port", "(bit<16>) standard.ingress_port".to_owned()),
            ("turn", "turn".to_owned()),
        ] {
            self.line(2, format!("hdr.history.{field} = {value};"));
        }
        if self.switch.has_ethernet {
            self.line(2, "hdr.outer.setValid();");
            self.line(2, "hdr.outer.destination = 0x020000000000 + (bit<48>) core;");
            self.line(2, "hdr.outer.source = 0x02000000ffff;");
            self.line(2, "hdr.outer.kind = 0x88b5;");
        }
        self.line(2, "standard.egress_spec = FIRST_PORT + (bit<9>) core;");
        self.line(1, "}");
        self.line(0, "}");
    }
}
