//! The representation as text, for people and for golden tests.

use std::fmt::{self, Write};

use super::{
    ActionCall, Binary, Column, Compute, Consistency, Constant, FieldId, KeySet, MatchKind, Matching, Memory,
    Operand, Program, State, Statement, StatementKind, Table, Target,
};

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}:{}", self.value, self.width)
    }
}

impl From<Constant> for String {
    fn from(constant: Constant) -> String {
        constant.to_string()
    }
}

impl TryFrom<String> for Constant {
    type Error = String;

    fn try_from(text: String) -> Result<Constant, String> {
        let wrong = || format!("`{text}` is no constant such as 0x1f:8");
        let (value, width) = text.split_once(':').ok_or_else(wrong)?;
        let value = value.strip_prefix("0x").and_then(|digits| u128::from_str_radix(digits, 16).ok());
        let width = width.parse().ok().filter(|width| (1..=super::MAX_WIDTH).contains(width));
        match (value, width) {
            (Some(value), Some(width)) if value <= super::ones(width) => Ok(Constant { value, width }),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySet::Masked { value, mask } if mask.value == super::ones(mask.width) => value.fmt(f),
            KeySet::Masked { mask, .. } if mask.value == 0 => f.write_str("_"),
            KeySet::Masked { value, mask } => write!(f, "{value} &&& {mask}"),
            KeySet::Range { low, high } => write!(f, "{low} .. {high}"),
        }
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Consistency::Strict => f.write_str("STRICT"),
            Consistency::Weak => f.write_str("WEAK"),
            Consistency::BoundedStaleness(bound) => write!(f, "BS({bound})"),
        }
    }
}

impl Program {
    /// All of it, as `paceline p4 ir` shows it.
    pub fn to_text(&self) -> String {
        let mut text = format!("program {}\n", self.name);
        self.write_objects(&mut text);
        for (number, state) in self.parser.iter().enumerate() {
            text += &format!("\nparser state {number} {}\n", state.name);
            self.write_body(&mut text, &state.body, 1);
            self.write_transition(&mut text, state);
        }
        for action in &self.actions {
            let parameters: Vec<_> = action.parameters.iter().map(|id| self.declared(*id)).collect();
            text += &format!("\naction {}({})\n", action.name, parameters.join(", "));
            self.write_body(&mut text, &action.body, 1);
        }
        for table in &self.tables {
            self.write_table(&mut text, table);
        }
        let blocks = [
            ("verify_checksum", &self.verify_checksum),
            ("ingress", &self.ingress),
            ("egress", &self.egress),
            ("compute_checksum", &self.compute_checksum),
            ("deparser", &self.deparser),
        ];
        for (name, body) in blocks.into_iter().filter(|(_, body)| !body.is_empty()) {
            text += &format!("\n{name}\n");
            self.write_body(&mut text, body, 1);
        }
        self.write_layout(&mut text);
        text
    }

    fn declared(&self, id: FieldId) -> String {
        let field = &self.fields[id as usize];
        format!("{}:{}", field.name, field.width)
    }

    fn write_objects(&self, text: &mut String) {
        for header in &self.headers {
            let fields: Vec<_> = header.fields.iter().map(|id| self.declared(*id)).collect();
            let _ = writeln!(text, "header {} {{ {} }}", header.name, fields.join(", "));
        }
        for stack in &self.stacks {
            let _ = writeln!(text, "stack {} of {}", stack.name, stack.headers.len());
        }
        for register in &self.registers {
            let _ =
                writeln!(text, "register {} [{}] of {} bits", register.name, register.size, register.width);
        }
        for counter in &self.counters {
            let _ = writeln!(text, "counter {} [{}]", counter.name, counter.size);
        }
        for meter in &self.meters {
            let _ = writeln!(text, "meter {} [{}]", meter.name, meter.size);
        }
        for table in &self.mu_tables {
            let matching = match table.matching {
                Matching::Exact => "exact",
                Matching::Ternary => "ternary",
                Matching::Lpm => "lpm",
                Matching::Direct => "direct",
            };
            let (keys, values) = (columns(&table.keys), columns(&table.values));
            let (name, size, consistency) = (&table.name, table.size, table.consistency);
            let _ = writeln!(text, "muTable {name} [{size}] {matching} {consistency}: {keys} -> {values}");
        }
    }

    fn write_transition(&self, text: &mut String, state: &State) {
        let target = |target| match target {
            Target::State(number) => format!("state {number} {}", self.parser[number as usize].name),
            Target::Accept => "accept".to_owned(),
            Target::Reject => "reject".to_owned(),
        };
        if !state.select.is_empty() {
            let _ = writeln!(text, "  select {}", self.operands(&state.select));
        }
        for case in &state.cases {
            let keys = case.keys.iter().map(|key| key.map_or_else(|| "_".to_owned(), |key| key.to_string()));
            let keys: Vec<_> = keys.collect();
            let on = if keys.is_empty() { String::new() } else { format!("{} ", keys.join(", ")) };
            let _ = writeln!(text, "  {on}-> {}", target(case.target));
        }
    }

    fn write_table(&self, text: &mut String, table: &Table) {
        let _ = writeln!(text, "\ntable {} [{}]", table.name, table.size);
        for key in &table.keys {
            let kind = match key.kind {
                MatchKind::Exact => "exact",
                MatchKind::Lpm => "lpm",
                MatchKind::Ternary => "ternary",
                MatchKind::Range => "range",
                MatchKind::Optional => "optional",
            };
            let _ = writeln!(text, "  key {} {kind}", self.operand(key.value));
        }
        let call = |call: &ActionCall| {
            let arguments: Vec<_> = call.arguments.iter().map(Constant::to_string).collect();
            format!("{}({})", self.actions[call.action as usize].name, arguments.join(", "))
        };
        for entry in &table.entries {
            let keys: Vec<_> = entry.keys.iter().map(KeySet::to_string).collect();
            let _ = writeln!(text, "  entry {} : {}", keys.join(", "), call(&entry.call));
        }
        let names: Vec<_> =
            table.actions.iter().map(|action| &*self.actions[*action as usize].name).collect();
        let _ = writeln!(text, "  actions {}", names.join(", "));
        let _ = writeln!(text, "  default {}", call(&table.default));
    }

    fn write_body(&self, text: &mut String, body: &[Statement], depth: usize) {
        let indent = "  ".repeat(depth);
        for statement in body {
            text.push_str(&indent);
            if statement.stage > 0 {
                let mark = if statement.before { "<" } else { "" };
                let _ = write!(text, "{mark}{}| ", statement.stage);
            }
            match &statement.kind {
                StatementKind::If { condition, then, otherwise } => {
                    let _ = writeln!(text, "if {}", self.operand(*condition));
                    self.write_body(text, then, depth + 1);
                    if !otherwise.is_empty() {
                        let _ = writeln!(text, "{indent}else");
                        self.write_body(text, otherwise, depth + 1);
                    }
                }
                StatementKind::Scope { body } => {
                    text.push_str("scope\n");
                    self.write_body(text, body, depth + 1);
                }
                kind => {
                    let _ = writeln!(text, "{}", Line(self, kind));
                }
            }
        }
    }

    fn write_layout(&self, text: &mut String) {
        let Some(layout) = &self.layout else { return };
        let _ = writeln!(text, "\nstages {}, span {}", layout.stages, layout.span);
        for (table, stage) in self.tables.iter().zip(&layout.tables) {
            let _ = writeln!(text, "  table {} in {stage}", table.name);
        }
        let registers = self.registers.iter().zip(&layout.registers);
        let registers = registers.map(|(register, place)| ("register", &register.name, place));
        let mu_tables = self.mu_tables.iter().zip(&layout.mu_tables);
        let mu_tables = mu_tables.map(|(table, place)| ("muTable", &table.name, place));
        for (what, name, place) in registers.chain(mu_tables) {
            let memory = match place.memory {
                Memory::Register => "register",
                Memory::FlowState => "flow state",
            };
            let (reads, writes) = (place.reads, place.writes);
            let _ = writeln!(text, "  {what} {name}: read in {reads}, written in {writes}: {memory}");
        }
        for renamed in &layout.renamed {
            let (field, to) = (self.field(renamed.field), self.field(renamed.to));
            let _ = writeln!(text, "  renamed {field} to {to} in {}", renamed.stage);
        }
        for note in &layout.notes {
            let _ = writeln!(text, "  note: {note}");
        }
        for warning in &layout.warnings {
            let _ = writeln!(text, "  warning: {warning}");
        }
    }

    fn field(&self, id: FieldId) -> &str {
        &self.fields[id as usize].name
    }

    /// A field's name, or a constant.
    pub fn operand(&self, operand: Operand) -> String {
        match operand {
            Operand::Field(id) => self.field(id).to_owned(),
            Operand::Constant(constant) => constant.to_string(),
        }
    }

    fn operands(&self, operands: &[Operand]) -> String {
        operands.iter().map(|operand| self.operand(*operand)).collect::<Vec<_>>().join(", ")
    }

    fn targets(&self, ids: &[FieldId]) -> String {
        ids.iter().map(|id| self.field(*id)).collect::<Vec<_>>().join(", ")
    }
}

fn columns(columns: &[Column]) -> String {
    columns.iter().map(|column| format!("{}:{}", column.name, column.width)).collect::<Vec<_>>().join(", ")
}

/// A statement that holds no others, in a line.
pub struct Line<'a>(pub &'a Program, pub &'a StatementKind);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line(program, kind) = self;
        let of = |operand: &Operand| program.operand(*operand);
        match kind {
            StatementKind::Compute { to, value } => {
                write!(f, "{} = {}", program.field(*to), computed(program, value))
            }
            StatementKind::If { condition, .. } => write!(f, "if {}", of(condition)),
            StatementKind::Scope { .. } => f.write_str("scope"),
            StatementKind::Leave => f.write_str("leave"),
            StatementKind::Exit => f.write_str("exit"),
            StatementKind::Apply { table, hit, action_run } => {
                write!(f, "apply {}", program.tables[*table as usize].name)?;
                hit.map_or(Ok(()), |id| write!(f, ", hit to {}", program.field(id)))?;
                action_run.map_or(Ok(()), |id| write!(f, ", action to {}", program.field(id)))
            }
            StatementKind::MuRead { table, keys, to } => {
                let name = &program.mu_tables[*table as usize].name;
                write!(f, "{} = read {name}[{}]", program.targets(to), program.operands(keys))
            }
            StatementKind::MuWrite { table, keys, values } => {
                let name = &program.mu_tables[*table as usize].name;
                write!(f, "write {name}[{}] = {}", program.operands(keys), program.operands(values))
            }
            StatementKind::RegisterRead { register, index, to } => {
                let name = &program.registers[*register as usize].name;
                write!(f, "{} = read {name}[{}]", program.field(*to), of(index))
            }
            StatementKind::RegisterWrite { register, index, value } => {
                let name = &program.registers[*register as usize].name;
                write!(f, "write {name}[{}] = {}", of(index), of(value))
            }
            StatementKind::Count { counter, index } => {
                write!(f, "count {}[{}]", program.counters[*counter as usize].name, of(index))
            }
            StatementKind::ExecuteMeter { meter, index, to } => {
                let name = &program.meters[*meter as usize].name;
                write!(f, "{} = meter {name}[{}]", program.field(*to), of(index))
            }
            StatementKind::Hash { algorithm, base, max, data, to } => {
                let (to, data) = (program.field(*to), program.operands(data));
                write!(f, "{to} = {} + {algorithm:?}({data}) % {}", of(base), of(max))
            }
            StatementKind::Checksum { algorithm, data, with_payload, to } => {
                let payload = if *with_payload { ", payload" } else { "" };
                let data = program.operands(data);
                write!(f, "{} = {algorithm:?}({data}{payload})", program.field(*to))
            }
            StatementKind::Random { low, high, to } => {
                write!(f, "{} = random {} .. {}", program.field(*to), of(low), of(high))
            }
            StatementKind::Extract { header } => {
                write!(f, "extract {}", program.headers[*header as usize].name)
            }
            StatementKind::ExtractNext { stack } => {
                write!(f, "extract next of {}", program.stacks[*stack as usize].name)
            }
            StatementKind::Lookahead { to } => write!(f, "{} = lookahead", program.targets(to)),
            StatementKind::Advance { bits } => write!(f, "advance {}", of(bits)),
            StatementKind::Verify { condition, error } => {
                write!(f, "verify {} else error {}", of(condition), of(error))
            }
            StatementKind::Emit { header } => write!(f, "emit {}", program.headers[*header as usize].name),
        }
    }
}

fn computed(program: &Program, value: &Compute) -> String {
    let of = |operand: Operand| program.operand(operand);
    match *value {
        Compute::Copy { from } => of(from),
        Compute::Resize { from, signed: false } => format!("resize {}", of(from)),
        Compute::Resize { from, signed: true } => format!("resize signed {}", of(from)),
        Compute::Not { from } => format!("~{}", of(from)),
        Compute::Negate { from } => format!("-{}", of(from)),
        Compute::Slice { from, high, low } => format!("{}[{high}:{low}]", of(from)),
        Compute::Insert { into, from, high, low } => {
            format!("{} with [{high}:{low}] = {}", of(into), of(from))
        }
        Compute::Binary { by, a, b } => format!("{} {} {}", of(a), sign(by), of(b)),
        Compute::Select { condition, then, otherwise } => {
            format!("{} ? {} : {}", of(condition), of(then), of(otherwise))
        }
    }
}

fn sign(op: Binary) -> &'static str {
    match op {
        Binary::Add => "+",
        Binary::Subtract => "-",
        Binary::Multiply => "*",
        Binary::SaturatingAdd => "|+|",
        Binary::SaturatingSubtract => "|-|",
        Binary::SignedSaturatingAdd => "|+|s",
        Binary::SignedSaturatingSubtract => "|-|s",
        Binary::And => "&",
        Binary::Or => "|",
        Binary::Xor => "^",
        Binary::ShiftLeft => "<<",
        Binary::ShiftRight => ">>",
        Binary::SignedShiftRight => ">>s",
        Binary::Concat => "++",
        Binary::Equal => "==",
        Binary::NotEqual => "!=",
        Binary::Less => "<",
        Binary::LessEqual => "<=",
        Binary::SignedLess => "<s",
        Binary::SignedLessEqual => "<=s",
    }
}
