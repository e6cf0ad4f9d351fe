//! Which parts of P4 are compiled to XDP, and which are refused, with their place in the source.

use std::fmt;

use p4::ir::{
    Algorithm, Constant, FieldId, FieldKind, Matching, Object, Operand, Program, SourcePlace, Statement,
    StatementKind, Target,
};

use crate::strategy::Strategy;
use crate::table::is_open;

/// Bits of a value in a register of the machine.
const MAX_WIDTH: u32 = 64;

/// Entries of a table, which are compared one after the other.
const MAX_ENTRIES: usize = 64;

/// Bytes of an object's state in one replica.
pub const MAX_STATE_BYTES: u64 = 64 << 20;

/// A construct that is not compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Where it stands; line 0 if nowhere.
    pub place: SourcePlace,
    /// The line there.
    pub text: String,
    /// What it is, and what to do.
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.line > 0 {
            write!(f, "{}: ", self.place)?;
        }
        write!(f, "{}", self.message)?;
        if self.text.is_empty() { Ok(()) } else { write!(f, "\n    {}", self.text) }
    }
}

/// All that a program has and that is not compiled; nothing if it can be.
pub fn refusals(program: &Program, strategy: Strategy) -> Vec<Refusal> {
    let mut check = Check { program, strategy, found: Vec::new(), place: 0 };
    for state in &program.parser {
        check.body(&state.body, Block::Parser);
        state.select.iter().for_each(|operand| check.operand(*operand));
    }
    check.loops(0, &mut vec![Seen::No; program.parser.len()]);
    if check.found.is_empty() {
        check.emitted_as_extracted();
    }
    let actions = |body: &[Statement]| used_actions(program, body);
    let (ingress, egress) = (actions(&program.ingress), actions(&program.egress));
    check.body(&program.verify_checksum, Block::Control);
    check.body(&program.ingress, Block::Control);
    check.body(&program.egress, Block::Egress);
    check.body(&program.compute_checksum, Block::Control);
    check.body(&program.deparser, Block::Deparser);
    for action in ingress {
        check.body(&program.actions[action as usize].body, Block::Control);
    }
    for action in egress {
        check.body(&program.actions[action as usize].body, Block::Egress);
    }
    check.objects();
    let mut found = check.found;
    found.dedup();
    found
}

/// The actions of the tables that a body applies.
fn used_actions(program: &Program, body: &[Statement]) -> Vec<u32> {
    let mut used = Vec::new();
    program.visit(body, &mut |kind| {
        if let StatementKind::Apply { table, .. } = kind {
            used.extend(&program.tables[*table as usize].actions);
        }
    });
    used.sort_unstable();
    used.dedup();
    used
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Parser,
    Control,
    Egress,
    Deparser,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    No,
    OnTheWay,
    Done,
}

struct Check<'a> {
    program: &'a Program,
    strategy: Strategy,
    found: Vec<Refusal>,
    /// The place of the statement that is looked at.
    place: u32,
}

impl Check<'_> {
    fn refuse(&mut self, message: impl Into<String>) {
        let written = self.program.places.get(self.place as usize).cloned().unwrap_or_default();
        self.found.push(Refusal { place: written.place, text: written.text, message: message.into() });
    }

    fn refuse_object(&mut self, object: Object, message: &str) {
        let place = object.mentions(self.program).declared.clone();
        let message = format!("{}: {message}", object.describe(self.program));
        self.found.push(Refusal { place, text: String::new(), message });
    }

    fn body(&mut self, body: &[Statement], block: Block) {
        for statement in body {
            if statement.place != 0 {
                self.place = statement.place;
            }
            self.statement(&statement.kind, block);
            match &statement.kind {
                StatementKind::If { then, otherwise, .. } => {
                    self.body(then, block);
                    self.body(otherwise, block);
                }
                StatementKind::Scope { body } => self.body(body, block),
                _ => {}
            }
        }
    }

    fn statement(&mut self, kind: &StatementKind, block: Block) {
        let program = self.program;
        if !matches!(kind, StatementKind::Emit { .. } | StatementKind::Extract { .. }) {
            let mut fields = Vec::new();
            kind.reads(program, &mut |field| fields.push(field));
            kind.writes(program, &mut |field| fields.push(field));
            fields.into_iter().for_each(|field| self.field(field));
        }
        match kind {
            StatementKind::Compute { to, value } => {
                value.operands().for_each(|operand| self.operand(operand));
                let is_zero = value
                    .operands()
                    .all(|operand| matches!(operand, Operand::Constant(Constant { value: 0, .. })));
                if program.fields[*to as usize].kind == FieldKind::Validity {
                    self.refuse(
                        "a header is added or removed, and headers stay where they are in XDP so far",
                    );
                } else if *to == program.standard.mcast_grp && !is_zero {
                    self.refuse("a multicast group: XDP sends a packet to one port");
                }
            }
            StatementKind::If { .. } if block == Block::Parser => {
                self.refuse("`if` in a parser is not compiled to XDP yet");
            }
            StatementKind::ExtractNext { .. } => self.refuse("header stacks are not compiled to XDP yet"),
            StatementKind::Lookahead { .. } => self.refuse("`lookahead` is not compiled to XDP yet"),
            StatementKind::Advance { .. } => {
                self.refuse("`advance` removes bytes, and bytes stay where they are in XDP so far");
            }
            StatementKind::Random { .. } => {
                self.refuse("`random` is not compiled to XDP: replicas would differ")
            }
            StatementKind::ExecuteMeter { .. } => self.refuse("meters are not compiled to XDP yet"),
            StatementKind::Checksum { with_payload: true, .. } => {
                self.refuse("a checksum over the payload is not compiled to XDP: it has no bound");
            }
            StatementKind::Hash { algorithm: Algorithm::Identity, data, .. }
            | StatementKind::Checksum { algorithm: Algorithm::Identity, data, .. }
                if data.iter().map(|operand| program.width(*operand)).sum::<u32>() > MAX_WIDTH =>
            {
                self.refuse("`identity` of more than 64 bits is not compiled to XDP yet");
            }
            StatementKind::Apply { table, .. } => {
                let table = &program.tables[*table as usize];
                if !is_open(table) && table.entries.len() > MAX_ENTRIES {
                    let entries = table.entries.len();
                    let message = format!(
                        "table {} has {entries} entries, and {MAX_ENTRIES} are compiled to XDP at most so far",
                        table.name
                    );
                    self.refuse(message);
                }
                table.keys.iter().for_each(|key| self.operand(key.value));
                table.actions.iter().for_each(|action| {
                    program.actions[*action as usize].parameters.iter().for_each(|field| self.field(*field));
                });
            }
            kind if block == Block::Deparser && !matches!(kind, StatementKind::Emit { .. }) => {
                self.refuse("a deparser that does anything but emit headers is not compiled to XDP yet");
            }
            kind if block == Block::Egress && kind.writes_state() => match self.strategy {
                Strategy::Sharded => {}
                Strategy::Shared => {
                    self.refuse("state in the egress is not under the lock: keep it in the ingress")
                }
                Strategy::Scr => self.refuse("state in the egress is not replicated: keep it in the ingress"),
            },
            _ => {}
        }
    }

    fn operand(&mut self, operand: Operand) {
        match operand {
            Operand::Field(field) => self.field(field),
            Operand::Constant(constant) if constant.width > MAX_WIDTH => {
                self.wide("a constant", constant.width)
            }
            Operand::Constant(_) => {}
        }
    }

    fn field(&mut self, field: FieldId) {
        let field = &self.program.fields[field as usize];
        if field.width > MAX_WIDTH {
            self.wide(&format!("`{}`", field.name), field.width);
        }
    }

    fn wide(&mut self, what: &str, width: u32) {
        self.refuse(format!(
            "{what} has {width} bits, and values of {MAX_WIDTH} bits at most are compiled to XDP so far"
        ));
    }

    /// A parser that comes back to a state has no bound that the verifier sees.
    fn loops(&mut self, state: u32, seen: &mut [Seen]) {
        let Some(declared) = self.program.parser.get(state as usize) else { return };
        match std::mem::replace(&mut seen[state as usize], Seen::OnTheWay) {
            Seen::OnTheWay => {
                self.place = declared.body.first().map_or(0, |statement| statement.place);
                return self.refuse(format!("the parser comes back to state `{}`", declared.name));
            }
            Seen::Done => {}
            Seen::No => {
                for case in &declared.cases {
                    if let Target::State(next) = case.target {
                        self.loops(next, seen);
                    }
                }
            }
        }
        seen[state as usize] = Seen::Done;
    }

    /// Bytes that the parser takes leave as they are only if the deparser emits their headers in the same order.
    fn emitted_as_extracted(&mut self) {
        let emitted: Vec<u32> = emitted(self.program).collect();
        let mut visited = vec![vec![false; emitted.len() + 1]; self.program.parser.len()];
        self.path(0, 0, &emitted, &mut visited);
    }

    /// Goes on in a state where headers from number `from` on may still be emitted.
    fn path(&mut self, state: u32, mut from: usize, emitted: &[u32], visited: &mut [Vec<bool>]) {
        let Some(declared) = self.program.parser.get(state as usize) else { return };
        if std::mem::replace(&mut visited[state as usize][from], true) {
            return;
        }
        for statement in extracts(&declared.body) {
            let StatementKind::Extract { header } = statement.kind else { continue };
            match emitted[from..].iter().position(|other| *other == header) {
                Some(at) => from += at + 1,
                None => {
                    self.place = statement.place;
                    let name = &self.program.headers[header as usize].name;
                    self.refuse(format!(
                        "header `{name}` is extracted here and not emitted in that order: bytes stay where they are in XDP so far"
                    ));
                    return;
                }
            }
        }
        for case in &declared.cases {
            if let Target::State(next) = case.target {
                self.path(next, from, emitted, visited);
            }
        }
    }

    fn objects(&mut self) {
        for (at, table) in (0..).zip(&self.program.mu_tables) {
            let object = Object::MuTable(at);
            if !matches!(table.matching, Matching::Exact | Matching::Direct) {
                self.refuse_object(object, "ternary and lpm muTables are not compiled to XDP");
            }
            if let Some(column) =
                table.keys.iter().chain(&table.values).find(|column| column.width > MAX_WIDTH)
            {
                let message =
                    format!("`{}` has {} bits, and 64 are compiled at most", column.name, column.width);
                self.refuse_object(object, &message);
            }
        }
        for (at, table) in (0..).zip(&self.program.tables).filter(|(_, table)| is_open(table)) {
            let wide = table.keys.iter().any(|key| self.program.width(key.value) > MAX_WIDTH);
            let bytes = if wide { 0 } else { crate::table::bytes(self.program, at) };
            if bytes > MAX_STATE_BYTES {
                let message = format!(
                    "table {} takes {bytes} bytes for its {} entries, and {MAX_STATE_BYTES} are the most: give it a smaller `size`",
                    table.name, table.size
                );
                self.found.push(Refusal { place: SourcePlace::default(), text: String::new(), message });
            }
        }
        let states = crate::state::bytes(self.program);
        for (object, bytes) in states.into_iter().filter(|(_, bytes)| *bytes > MAX_STATE_BYTES) {
            let message = format!("{bytes} bytes of state in a replica, and {MAX_STATE_BYTES} are the most");
            self.refuse_object(object, &message);
        }
        for (at, register) in (0..).zip(&self.program.registers) {
            if register.width > MAX_WIDTH {
                self.refuse_object(
                    Object::Register(at),
                    "values of more than 64 bits are not compiled to XDP",
                );
            }
        }
    }
}

/// The headers that the deparser emits, in order.
pub fn emitted(program: &Program) -> impl Iterator<Item = u32> {
    program.deparser.iter().filter_map(|statement| match statement.kind {
        StatementKind::Emit { header } => Some(header),
        _ => None,
    })
}

/// The extractions in a state; none is in an `if`, which is refused there.
fn extracts(body: &[Statement]) -> impl Iterator<Item = &Statement> {
    body.iter().filter(|statement| matches!(statement.kind, StatementKind::Extract { .. }))
}
