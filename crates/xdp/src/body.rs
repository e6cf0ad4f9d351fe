//! Statements as C: blocks, actions and tables become functions of their names. A function gives 1 where the program says
//! `exit`.

use p4::ir::{
    ActionCall, Algorithm, Entry, KeySet, MatchKind, Operand, Program, Statement, StatementKind, Table,
    TableKey, has_priorities, leaves, ones,
};

use crate::addition::Additions;
use crate::expression::{Expressions, masked, number};
use crate::hint::Hints;
use crate::history::Slice;
use crate::names::Names;
use crate::strategy::Strategy;
use crate::sums::Sums;
use crate::table::{ControlTable, is_open};
use crate::writer::Writer;

/// What every function gets.
pub const PARAMETERS: &str = "struct packet *p, struct state *s";

/// Writes the functions of a block.
pub struct Bodies<'a> {
    /// The program.
    pub program: &'a Program,
    /// Its names.
    pub names: &'a Names,
    /// Which entries are remembered.
    pub hints: &'a Hints,
    /// What the parser sums for checksums.
    pub sums: &'a Sums,
    /// How state is divided among cores.
    pub strategy: Strategy,
    /// Which registers are added to without a lock.
    pub additions: &'a Additions,
    /// The tables whose entries come from outside.
    pub controls: &'a [ControlTable],
    /// The part that is written; all of the program without one.
    pub slice: Option<&'a Slice>,
    /// What the names of that part's functions begin with.
    pub prefix: &'static str,
    /// Numbers of labels.
    pub labels: u32,
}

impl<'a> Bodies<'a> {
    fn of(&self) -> Expressions<'a> {
        Expressions { program: self.program, names: self.names }
    }

    fn keeps(&self, statement: &Statement) -> bool {
        self.slice.is_none_or(|slice| slice.keeps(self.program, statement))
    }

    /// Writes the actions and tables that a block uses, then the block.
    pub fn block(&mut self, name: &str, body: &[Statement], out: &mut Writer<'_>) {
        let name = format!("{}{name}", self.prefix);
        out.line(format!("INLINE int {name}({PARAMETERS}) {{"));
        self.body(body, None, out);
        out.line("return 0;");
        out.end();
    }

    /// Writes all tables that these blocks apply, with their actions.
    pub fn tables(&mut self, blocks: &[&[Statement]], out: &mut Writer<'_>) {
        let mut used = Vec::new();
        for body in blocks {
            self.applied(body, &mut used);
        }
        let program = self.program;
        let called = |table: &u32| {
            let table = &program.tables[*table as usize];
            match is_open(table) {
                true => table.actions.clone(),
                false => {
                    let calls = in_order(table).into_iter().map(|entry| &entry.call).chain([&table.default]);
                    calls.map(|call| call.action).collect()
                }
            }
        };
        let mut actions: Vec<u32> = used.iter().flat_map(called).collect();
        actions.sort_unstable();
        actions.dedup();
        for action in actions {
            let name = format!("{}action_{}", self.prefix, self.names.actions[action as usize]);
            out.line(format!("INLINE int {name}({PARAMETERS}) {{"));
            self.body(&program.actions[action as usize].body, None, out);
            out.line("return 0;");
            out.end();
        }
        used.into_iter().for_each(|table| self.table(table, out));
    }

    /// The tables that statements apply, those of this slice alone.
    fn applied(&self, body: &[Statement], used: &mut Vec<u32>) {
        for statement in body.iter().filter(|statement| self.keeps(statement)) {
            match &statement.kind {
                StatementKind::If { then, otherwise, .. } => {
                    self.applied(then, used);
                    self.applied(otherwise, used);
                }
                StatementKind::Scope { body } => self.applied(body, used),
                StatementKind::Apply { table, .. } if !used.contains(table) => used.push(*table),
                _ => {}
            }
        }
    }

    fn table(&mut self, at: u32, out: &mut Writer<'_>) {
        let program = self.program;
        let table = &program.tables[at as usize];
        let name = format!("{}table_{}", self.prefix, self.names.tables[at as usize]);
        out.line(format!("// table {}", table.name));
        out.line(format!("INLINE int {name}({PARAMETERS}, u64 *hit, u64 *action_run) {{"));
        if let Some(control) = self.controls.iter().find(|control| control.table == at) {
            control.apply(program, self.names, self.prefix, out);
            return out.end();
        }
        for entry in in_order(table) {
            let conditions: Vec<_> = table
                .keys
                .iter()
                .zip(&entry.keys)
                .filter_map(|(key, set)| self.matches(key.value, set))
                .collect();
            match conditions.is_empty() {
                true => out.line("{"),
                false => out.line(format!("if ({}) {{", conditions.join(" && "))),
            }
            out.line("*hit = 1;");
            self.call(table, &entry.call, out);
            out.line("}");
        }
        out.line("*hit = 0;");
        self.call(table, &table.default, out);
        out.end();
    }

    fn call(&self, table: &Table, call: &ActionCall, out: &mut Writer<'_>) {
        let at = table.actions.iter().position(|listed| *listed == call.action).unwrap_or_default();
        out.line(format!("*action_run = {at};"));
        let action = &self.program.actions[call.action as usize];
        for (field, argument) in action.parameters.iter().zip(&call.arguments) {
            out.line(format!("p->{} = {};", self.names.field(*field), number(argument.value)));
        }
        let name = &self.names.actions[call.action as usize];
        out.line(format!("return {}action_{name}(p, s);", self.prefix));
    }

    /// The condition that a value is in a set; nothing if it always is.
    pub fn matches(&self, value: Operand, set: &KeySet) -> Option<String> {
        let of = self.of().operand(value);
        match set {
            KeySet::Masked { mask, .. } if mask.value == 0 => None,
            KeySet::Masked { value, mask } if mask.value == ones(mask.width) => {
                Some(format!("{of} == {}", number(value.value)))
            }
            KeySet::Masked { value, mask } => {
                Some(format!("({of} & {}) == {}", number(mask.value), number(value.value & mask.value)))
            }
            KeySet::Range { low, high } => {
                Some(format!("{of} >= {} && {of} <= {}", number(low.value), number(high.value)))
            }
        }
    }

    /// `leave` goes to a label, or ends the function.
    fn body(&mut self, body: &[Statement], leave: Option<u32>, out: &mut Writer<'_>) {
        for statement in body {
            if self.keeps(statement) {
                self.statement(statement, leave, out);
            }
        }
    }

    fn statement(&mut self, statement: &Statement, leave: Option<u32>, out: &mut Writer<'_>) {
        out.source(statement.place);
        let of = self.of();
        match &statement.kind {
            StatementKind::If { condition, then, otherwise } => {
                out.line(format!("if ({}) {{", of.operand(*condition)));
                self.body(then, leave, out);
                if otherwise.iter().any(|statement| self.keeps(statement)) {
                    out.line("} else {");
                    self.body(otherwise, leave, out);
                }
                out.line("}");
            }
            StatementKind::Scope { body } => {
                self.labels += 1;
                let label = self.labels;
                self.body(body, Some(label), out);
                if leaves(body) {
                    out.line(format!("leave_{label}:;"));
                }
            }
            StatementKind::Leave => match leave {
                Some(label) => out.line(format!("goto leave_{label};")),
                None => out.line("return 0;"),
            },
            StatementKind::Exit => out.line("return 1;"),
            StatementKind::Apply { table, hit, action_run } => {
                let name = format!("{}table_{}", self.prefix, self.names.tables[*table as usize]);
                let place = |field: &Option<u32>| match field {
                    Some(field) => format!("&p->{}", self.names.field(*field)),
                    None => "&p->unused".to_owned(),
                };
                out.line(format!("if ({name}(p, s, {}, {}))", place(hit), place(action_run)));
                out.line("    return 1;");
            }
            kind => self.simple(kind, out),
        }
    }

    /// A statement without others in it.
    pub fn simple(&self, kind: &StatementKind, out: &mut Writer<'_>) {
        let of = self.of();
        let names = self.names;
        let list =
            |operands: &[Operand]| operands.iter().map(|one| of.operand(*one)).collect::<Vec<_>>().join(", ");
        let field = |id: &u32| format!("p->{}", names.field(*id));
        match kind {
            StatementKind::Compute { to, value } => {
                out.line(format!("{} = {};", field(to), of.computed(*to, value)));
                for table in self.hints.forgotten_by(*to) {
                    out.line(format!("p->{}_read = 0;", names.mu_tables[table]));
                }
            }
            StatementKind::MuRead { table, keys, to } => {
                let layout = crate::state::TableLayout::of(
                    &self.program.mu_tables[*table as usize],
                    &names.mu_tables[*table as usize],
                );
                let name = &layout.name;
                out.line("{");
                out.line(format!("u64 slot = {name}_find(s->{name}, {});", list(keys)));
                out.line(format!("struct {name}_entry *entry = {name}_at(s->{name}, slot);"));
                if self.hints.remembers(*table) {
                    out.line(format!("p->{name}_read = slot + 1;"));
                }
                out.line(format!("u64 found = entry && entry->{};", layout.used.name));
                for (field_to, value) in to.iter().zip(&layout.values) {
                    out.line(format!("{} = found ? entry->{} : 0;", field(field_to), value.name));
                }
                out.line("}");
            }
            StatementKind::MuWrite { table, keys, values } => {
                let name = &names.mu_tables[*table as usize];
                let read =
                    if self.hints.remembers(*table) { format!("p->{name}_read") } else { "0".to_owned() };
                out.line(format!("{name}_write(s->{name}, {read}, {}, {});", list(keys), list(values)));
            }
            StatementKind::RegisterRead { register, index, to } => {
                let name = &names.registers[*register as usize];
                let declared = &self.program.registers[*register as usize];
                within(&of.operand(*index), declared.size, out);
                match self.additions.added.get(register) {
                    Some(added) => {
                        let add =
                            format!("__sync_fetch_and_add(&s->{name}->values[at], {})", of.operand(*added));
                        out.line(format!("{} = {};", field(to), masked(&add, declared.width)));
                        if self.additions.ordered == Some(*register) {
                            out.line(format!("p->turn = {};", field(to)));
                        }
                    }
                    None => out.line(format!("{} = s->{name}->values[at];", field(to))),
                }
                out.line("} else {");
                out.line(format!("{} = 0;", field(to)));
                out.line("}");
            }
            StatementKind::RegisterWrite { register, index, value } => {
                let name = &names.registers[*register as usize];
                within(&of.operand(*index), self.program.registers[*register as usize].size, out);
                out.line(format!("s->{name}->values[at] = {};", of.operand(*value)));
                out.line("}");
            }
            StatementKind::Count { counter, index } => {
                let name = &names.counters[*counter as usize];
                within(&of.operand(*index), self.program.counters[*counter as usize].size, out);
                let length = format!("p->{}", names.field(self.program.standard.packet_length));
                for (member, more) in [("packets", "1"), ("bytes", &*length)] {
                    let count = format!("s->{name}->counts[at].{member}");
                    out.line(match self.strategy {
                        // The egress counts, too, and has no lock.
                        Strategy::Shared => format!("__sync_fetch_and_add(&{count}, {more});"),
                        Strategy::Sharded | Strategy::Scr => format!("{count} += {more};"),
                    });
                }
                out.line("}");
            }
            StatementKind::Hash { algorithm, base, max, data, to } => {
                let width = self.program.fields[*to as usize].width;
                let max = of.operand(*max);
                out.line("{");
                let hash = self.hash(*algorithm, data, out);
                let sum = format!("{} + ({max} ? {hash} % {max} : 0)", of.operand(*base));
                out.line(format!("{} = {};", field(to), masked(&sum, width)));
                out.line("}");
            }
            StatementKind::Checksum { algorithm, data, to, .. } => {
                out.line("{");
                let hash = match algorithm {
                    Algorithm::Csum16 => self.checksum(data, out),
                    _ => self.hash(*algorithm, data, out),
                };
                out.line(format!(
                    "{} = {};",
                    field(to),
                    masked(&hash, self.program.fields[*to as usize].width)
                ));
                out.line("}");
            }
            _ => {}
        }
    }

    /// Writes what an Internet checksum needs, and gives its value. No checksum is replayed, so the packet has gone through the parser.
    fn checksum(&self, data: &[Operand], out: &mut Writer<'_>) -> String {
        let (runs, rest) = self.sums.split(self.program, data);
        let lie: Vec<_> = runs.into_iter().map(|run| format!("p->{}", run.name(self.names))).collect();
        let mut words: Vec<_> = rest.into_iter().flat_map(|part| joined(self.of(), part, 16)).collect();
        if !lie.is_empty() {
            words.push(format!("turned({})", lie.join(" + ")));
        }
        let sum = if words.is_empty() { "0".to_owned() } else { words.join(" + ") };
        out.line(format!("u64 sum = {sum};"));
        match words.len() {
            1 if !lie.is_empty() => "(~sum & 0xffff)".to_owned(),
            _ => "internet_checksum(sum)".to_owned(),
        }
    }

    /// Writes what a hash needs, and gives its value.
    fn hash(&self, algorithm: Algorithm, data: &[Operand], out: &mut Writer<'_>) -> String {
        let words = |bits| joined(self.of(), data, bits);
        match algorithm {
            Algorithm::Csum16 => {
                let words = words(16);
                let sum = if words.is_empty() { "0".to_owned() } else { words.join(" + ") };
                out.line(format!("u64 sum = {sum};"));
                "internet_checksum(sum)".to_owned()
            }
            Algorithm::Xor16 => {
                let words = words(16);
                let sum = if words.is_empty() { "0".to_owned() } else { words.join(" ^ ") };
                out.line(format!("u64 sum = {sum};"));
                "sum".to_owned()
            }
            Algorithm::Identity => {
                let bytes = words(8);
                out.line("u64 sum = 0;");
                bytes.iter().for_each(|byte| out.line(format!("sum = sum << 8 | {byte};")));
                "sum".to_owned()
            }
            Algorithm::Crc32 | Algorithm::Crc16 => {
                let (start, step, last) = match algorithm {
                    Algorithm::Crc32 => ("0xffffffffull", "crc32", "~sum & 0xffffffffull"),
                    _ => ("0", "crc16", "sum"),
                };
                out.line(format!("u64 sum = {start};"));
                words(8).iter().for_each(|byte| out.line(format!("sum = {step}(sum, {byte});")));
                format!("({last})")
            }
        }
    }
}

/// Begins a block for an index `at` that an array has.
fn within(index: &str, size: u32, out: &mut Writer<'_>) {
    out.line(format!("if ({index} < {size}) {{"));
    out.line(format!("u64 at = {index};"));
    out.line(format!("BOUNDED(at, {:#x});", crate::state::places(size) - 1));
}

/// A table's entries in the order in which they match: where a prefix decides, the longest first.
fn in_order(table: &Table) -> Vec<&Entry> {
    let mut entries: Vec<&Entry> = table.entries.iter().collect();
    let is_lpm = |key: &TableKey| key.kind == MatchKind::Lpm;
    if let Some(at) = table.keys.iter().position(is_lpm).filter(|_| !has_priorities(&table.keys)) {
        let bits = |entry: &&Entry| match entry.keys.get(at) {
            Some(KeySet::Masked { mask, .. }) => mask.value.count_ones(),
            _ => 0,
        };
        entries.sort_by_key(|entry| std::cmp::Reverse(bits(entry)));
    }
    // Without keys nothing matches.
    if table.keys.is_empty() { Vec::new() } else { entries }
}

/// Values one behind the other, most significant bit first, as words of so many bits; the last is filled up with zeros.
fn joined(of: Expressions<'_>, data: &[Operand], word_bits: u32) -> Vec<String> {
    let mut words: Vec<Vec<String>> = Vec::new();
    let mut used = word_bits;
    for operand in data {
        let width = of.program.width(*operand);
        let mut left = width;
        while left > 0 {
            if used == word_bits {
                words.push(Vec::new());
                used = 0;
            }
            let taken = left.min(word_bits - used);
            let mut part = of.operand(*operand);
            if left > taken {
                part = format!("{part} >> {}", left - taken);
            }
            if left < width || left > taken {
                part = masked(&part, taken);
            }
            let up = word_bits - used - taken;
            if let Some(word) = words.last_mut() {
                word.push(if up > 0 { format!("{part} << {up}") } else { part });
            }
            used += taken;
            left -= taken;
        }
    }
    words.into_iter().map(|parts| format!("({})", parts.join(" | "))).collect()
}
