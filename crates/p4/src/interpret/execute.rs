//! Statements, one by one.

use crate::ir::{
    Compute, Constant, FieldId, KeySet, Object, Operand, Program, Statement, StatementKind, Unit, ones,
};
use crate::semantics;

use super::bits::{self, Writer};
use super::hash as hashes;
use super::hash::hash;
use super::phv::Phv;
use super::state::State;

/// Why the parser ended.
#[derive(Clone, Copy)]
pub enum Failure {
    TooShort,
    OutOfBounds,
    Verify(u128),
}

/// How a body ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Leave,
    Exit,
}

/// A packet in a block.
pub struct Run<'a> {
    program: &'a Program,
    state: &'a mut State,
    phv: &'a mut Phv,
    /// What the parser reads.
    input: &'a [u8],
    at: usize,
    failure: Option<Failure>,
    output: Writer,
    /// The half of a stage whose statements are done; all of them without one.
    half: Option<u16>,
    /// Which objects of the state may change; all of them without one.
    changes: Option<&'a dyn Fn(Object) -> bool>,
}

impl<'a> Run<'a> {
    pub fn new(
        program: &'a Program,
        state: &'a mut State,
        phv: &'a mut Phv,
        input: &'a [u8],
        half: Option<u16>,
    ) -> Run<'a> {
        Run {
            program,
            state,
            phv,
            input,
            at: 0,
            failure: None,
            output: Writer::default(),
            half,
            changes: None,
        }
    }

    /// Leaves as it is what is not named.
    pub fn changing_only(mut self, changes: &'a dyn Fn(Object) -> bool) -> Run<'a> {
        self.changes = Some(changes);
        self
    }

    pub fn position_bits(&self) -> usize {
        self.at
    }

    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output).finish()
    }

    pub fn block(&mut self, body: &[Statement]) {
        self.body(body);
    }

    /// Whether the operands are in these sets.
    pub fn matches(&self, operands: &[Operand], keys: &[Option<KeySet>]) -> bool {
        operands
            .iter()
            .zip(keys)
            .all(|(operand, key)| key.is_none_or(|key| key.contains(self.value(*operand))))
    }

    fn value(&self, operand: Operand) -> u128 {
        match operand {
            Operand::Field(field) => self.phv.values[field as usize],
            Operand::Constant(Constant { value, .. }) => value,
        }
    }

    fn values(&self, operands: &[Operand]) -> Vec<u128> {
        operands.iter().map(|operand| self.value(*operand)).collect()
    }

    fn set(&mut self, field: FieldId, value: u128) {
        self.phv.values[field as usize] = value & ones(self.program.fields[field as usize].width);
    }

    fn is_due(&self, statement: &Statement) -> bool {
        self.half.is_none_or(|half| half == statement.half())
    }

    fn body(&mut self, body: &[Statement]) -> Flow {
        for statement in body {
            let flow = match &statement.kind {
                StatementKind::If { condition, then, otherwise } => match self.value(*condition) {
                    0 => self.body(otherwise),
                    _ => self.body(then),
                },
                StatementKind::Scope { body } => match self.body(body) {
                    Flow::Leave => Flow::Next,
                    other => other,
                },
                StatementKind::Leave => Flow::Leave,
                StatementKind::Exit => Flow::Exit,
                StatementKind::Apply { table, hit, action_run } => {
                    if self.is_due(statement) {
                        self.look_up(*table, *hit, *action_run);
                    }
                    self.act(*table)
                }
                kind => {
                    if self.is_due(statement) {
                        self.simple(kind);
                    }
                    if self.failure.is_some() { Flow::Exit } else { Flow::Next }
                }
            };
            if flow != Flow::Next {
                return flow;
            }
        }
        Flow::Next
    }

    fn look_up(&mut self, table: u32, hit: Option<FieldId>, action_run: Option<FieldId>) {
        let program = self.program;
        let declared = &program.tables[table as usize];
        let keys: Vec<u128> = declared.keys.iter().map(|key| self.value(key.value)).collect();
        let (is_hit, call) = self.state.look_up(table, &keys);
        let action = call.action;
        for (field, argument) in program.actions[action as usize].parameters.iter().zip(&call.arguments) {
            self.phv.values[*field as usize] = argument.value;
        }
        self.phv.chosen[table as usize] = Some(action);
        if let Some(hit) = hit {
            self.set(hit, u128::from(is_hit));
        }
        if let Some(to) = action_run {
            let at = declared.actions.iter().position(|listed| *listed == action).unwrap_or_default();
            self.set(to, at as u128);
        }
    }

    fn act(&mut self, table: u32) -> Flow {
        let Some(action) = self.phv.chosen[table as usize] else { return Flow::Next };
        let program = self.program;
        match self.body(&program.actions[action as usize].body) {
            Flow::Exit => Flow::Exit,
            _ => Flow::Next,
        }
    }

    /// Whether the statement would change what has to stay.
    fn is_kept_from(&self, kind: &StatementKind) -> bool {
        let Some(changes) = self.changes else { return false };
        let is_change = kind.writes_state()
            || matches!(kind, StatementKind::Count { .. } | StatementKind::ExecuteMeter { .. });
        is_change && Object::of(kind).is_some_and(|object| !changes(object))
    }

    fn simple(&mut self, kind: &StatementKind) {
        let program = self.program;
        if self.is_kept_from(kind) {
            return;
        }
        match kind {
            StatementKind::Compute { to, value } => {
                let value = self.computed(*to, value);
                self.set(*to, value);
            }
            StatementKind::MuRead { table, keys, to } => {
                let keys = self.values(keys);
                let found = self.state.read_mu(program, *table, &keys).unwrap_or_default();
                for (at, field) in to.iter().enumerate() {
                    self.set(*field, found.get(at).copied().unwrap_or_default());
                }
            }
            StatementKind::MuWrite { table, keys, values } => {
                let (keys, values) = (self.values(keys), self.values(values));
                let declared = &program.mu_tables[*table as usize];
                self.state.mu_tables[*table as usize].write(declared, &keys, values);
            }
            StatementKind::RegisterRead { register, index, to } => {
                let index = usize::try_from(self.value(*index)).unwrap_or(usize::MAX);
                let value = self.state.registers[*register as usize].get(index).copied().unwrap_or_default();
                self.set(*to, value);
            }
            StatementKind::RegisterWrite { register, index, value } => {
                let (index, value) = (self.value(*index), self.value(*value));
                if index < u128::from(program.registers[*register as usize].size) {
                    let values = &mut self.state.registers[*register as usize];
                    let index = index as usize;
                    if index >= values.len() {
                        values.resize(index + 1, 0);
                    }
                    values[index] = value;
                }
            }
            StatementKind::Count { counter, index } => {
                let index = self.value(*index);
                if index < u128::from(program.counters[*counter as usize].size) {
                    let bytes = self.phv.values[program.standard.packet_length as usize] as u64;
                    let count = self.state.counters[*counter as usize].entry(index as u32).or_default();
                    *count = (count.0 + 1, count.1 + bytes);
                }
            }
            StatementKind::ExecuteMeter { meter, index, to } => {
                let declared = &program.meters[*meter as usize];
                let bytes = self.phv.values[program.standard.packet_length as usize] as u64;
                let units = if declared.unit == Unit::Bytes { bytes } else { 1 };
                let index = u32::try_from(self.value(*index)).unwrap_or(u32::MAX);
                let time_ns = self.phv.time_ns;
                let marker = self.state.meters[*meter as usize].get_mut(&index);
                let colour = marker.map_or(0, |marker| marker.mark(units, time_ns));
                self.set(*to, colour);
            }
            StatementKind::Hash { algorithm, base, max, data, to } => {
                let bytes = self.joined(data).finish();
                let (base, max) = (self.value(*base), self.value(*max));
                let offset = hash(*algorithm, &bytes).checked_rem(max).unwrap_or_default();
                self.set(*to, base.wrapping_add(offset));
            }
            StatementKind::Checksum { algorithm, data, with_payload, to } => {
                let mut bytes = self.joined(data).finish();
                if *with_payload {
                    bytes.extend_from_slice(&self.phv.payload);
                }
                self.set(*to, hashes::hash(*algorithm, &bytes));
            }
            StatementKind::Random { low, high, to } => {
                let (low, high) = (self.value(*low), self.value(*high));
                let drawn = self.draw();
                let span = high.saturating_sub(low).saturating_add(1);
                self.set(*to, low.wrapping_add(drawn % span));
            }
            parsing => self.parsing(parsing),
        }
    }

    fn parsing(&mut self, kind: &StatementKind) {
        let program = self.program;
        match kind {
            StatementKind::Extract { header } => self.extract(*header),
            StatementKind::ExtractNext { stack } => {
                let stack = &program.stacks[*stack as usize];
                let next = self.phv.values[stack.next as usize];
                match stack.headers.get(usize::try_from(next).unwrap_or(usize::MAX)) {
                    Some(header) => {
                        self.extract(*header);
                        if self.failure.is_none() {
                            self.set(stack.next, next + 1);
                        }
                    }
                    None => self.failure = Some(Failure::OutOfBounds),
                }
            }
            StatementKind::Lookahead { to } => {
                let mut at = self.at;
                for field in to {
                    let width = program.fields[*field as usize].width;
                    let Some(value) = bits::read(self.input, at, width) else {
                        self.failure = Some(Failure::TooShort);
                        return;
                    };
                    self.set(*field, value);
                    at += width as usize;
                }
            }
            StatementKind::Advance { bits } => {
                let bits = usize::try_from(self.value(*bits)).unwrap_or(usize::MAX);
                match self.at.checked_add(bits).filter(|end| *end <= self.input.len() * 8) {
                    Some(end) => self.at = end,
                    None => self.failure = Some(Failure::TooShort),
                }
            }
            StatementKind::Verify { condition, error } if self.value(*condition) == 0 => {
                self.failure = Some(Failure::Verify(self.value(*error)));
            }
            StatementKind::Emit { header } => {
                let header = &program.headers[*header as usize];
                if self.phv.values[header.valid as usize] == 1 {
                    for field in &header.fields {
                        let value = self.phv.values[*field as usize];
                        self.output.write(value, program.fields[*field as usize].width);
                    }
                }
            }
            _ => {}
        }
    }

    fn extract(&mut self, header: u32) {
        let program = self.program;
        let header = &program.headers[header as usize];
        let width = |field: &FieldId| program.fields[*field as usize].width;
        let whole: usize = header.fields.iter().map(|field| width(field) as usize).sum();
        // Nothing of a header that is cut short is taken.
        if self.at + whole > self.input.len() * 8 {
            self.failure = Some(Failure::TooShort);
            return;
        }
        for field in &header.fields {
            let value = bits::read(self.input, self.at, width(field)).unwrap_or_default();
            self.set(*field, value);
            self.at += width(field) as usize;
        }
        self.set(header.valid, 1);
    }

    fn computed(&self, to: FieldId, value: &Compute) -> u128 {
        let program = self.program;
        match *value {
            Compute::Copy { from } => self.value(from),
            Compute::Resize { from, signed } => {
                let (old, new) = (program.width(from), program.fields[to as usize].width);
                semantics::resize(self.value(from), old, new, signed)
            }
            Compute::Not { from } => !self.value(from),
            Compute::Negate { from } => self.value(from).wrapping_neg(),
            Compute::Slice { from, high, low } => self.value(from) >> low & ones(high - low + 1),
            Compute::Insert { into, from, high, low } => {
                semantics::insert(self.value(into), self.value(from), high, low)
            }
            Compute::Binary { by, a, b } => {
                semantics::binary(by, self.value(a), self.value(b), program.width(a), program.width(b))
            }
            Compute::Select { condition, then, otherwise } => match self.value(condition) {
                0 => self.value(otherwise),
                _ => self.value(then),
            },
        }
    }

    fn joined(&self, data: &[Operand]) -> Writer {
        let mut writer = Writer::default();
        for operand in data {
            writer.write(self.value(*operand), self.program.width(*operand));
        }
        writer
    }

    fn draw(&mut self) -> u128 {
        self.phv.draws += 1;
        drawn(self.phv.number, self.phv.draws)
    }
}

/// What is drawn for a packet, by its number and how many were drawn for it so far: the same in every run.
pub fn drawn(number: u64, draws: u64) -> u128 {
    let half = |salt: u64| {
        let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ draws << 32 ^ salt;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        u128::from(x ^ x >> 31)
    };
    half(1) << 64 | half(2)
}
