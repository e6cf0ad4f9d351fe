//! A walk through the program in its order, which gives every statement the earliest time that its operands, its
//! conditions and the [`Order`] allow. Repeated until nothing moves.

use crate::ir::{FieldId, Operand, Program, Statement, StatementKind, exits};
use crate::uses::Object;

use super::order::Order;
use super::stages::{Stages, count};

/// Dependent operations before a stage looks keys up: those of a gateway.
pub const OPERATIONS_BEFORE: u32 = 4;

/// Dependent operations behind that: those of an action.
pub const OPERATIONS_AFTER: u32 = 8;

/// Rounds in which objects find their stage, at most.
const MAX_ROUNDS: usize = 256;

const MATCH: u32 = OPERATIONS_BEFORE + 1;
const SLOTS: u32 = MATCH + OPERATIONS_AFTER + 1;

impl Stages {
    /// Walks until nothing moves any more; whether that was so in time, and with so many stages at most.
    pub(super) fn settle(&mut self, program: &Program, order: &Order, most: u32) -> bool {
        for _ in 0..MAX_ROUNDS {
            let before = self.clone();
            self.round(program, order);
            if *self == before || self.all > most {
                return self.all <= most;
            }
        }
        false
    }

    /// Settles with so many objects moved, each behind what there is without it: more stages than that are no end.
    pub(super) fn settle_moved(&mut self, program: &Program, order: &Order, moved: usize) -> bool {
        let most = (moved as u32 + 1) * (self.all + 1);
        self.settle(program, order, most)
    }

    /// Walks ingress and egress once.
    pub(super) fn round(&mut self, program: &Program, order: &Order) {
        // Where the statements of each action begin in the list of all.
        let mut starts = Vec::new();
        let mut at = count(&program.ingress) + count(&program.egress);
        for action in &program.actions {
            starts.push(at);
            at += count(&action.body);
        }
        let mut walk = Walk {
            program,
            order,
            stages: self,
            starts,
            written: vec![0; program.fields.len() + program.mu_tables.len() + program.registers.len()],
            read: vec![0; program.fields.len()],
            control: 0,
            last: 0,
        };
        walk.body(&program.ingress, 0);
        let ingress = walk.last.div_ceil(SLOTS);
        // The egress begins behind the ingress.
        let base = ingress * SLOTS;
        (walk.control, walk.last) = (base, base);
        walk.written.iter_mut().for_each(|time| *time = (*time).max(base));
        walk.body(&program.egress, count(&program.ingress));
        let all = walk.last.div_ceil(SLOTS);
        (self.ingress, self.all) = (ingress, all);
    }
}

/// A walk in the order of the program. Times count slots of all stages; a statement's is that in which it is done.
struct Walk<'a> {
    program: &'a Program,
    order: &'a Order,
    stages: &'a mut Stages,
    starts: Vec<usize>,
    /// When a field was written last; behind all fields, when a muTable was, and a register.
    written: Vec<u32>,
    /// When it was read last: it must not be written earlier.
    read: Vec<u32>,
    /// When all conditions are known under which statements stand here.
    control: u32,
    last: u32,
}

/// The stage of a time, from 1.
fn stage_of(time: u32) -> u32 {
    time / SLOTS + 1
}

/// The half of a time.
fn half_of(time: u32) -> u32 {
    2 * stage_of(time) + u32::from(time % SLOTS >= MATCH)
}

/// The first time in a stage.
fn start_of(stage: u32) -> u32 {
    stage.saturating_sub(1) * SLOTS + u32::from(stage > 0)
}

/// The first time for an operation in a half; 0 if that is none.
fn start_of_half(half: u32) -> u32 {
    match half {
        0 => 0,
        half if half.is_multiple_of(2) => start_of(half / 2),
        half => start_of(half / 2) + MATCH,
    }
}

impl Walk<'_> {
    /// Walks statements, of which the first has number `at`; gives the number behind them, and when it is known
    /// whether one of them leaves.
    fn body(&mut self, body: &[Statement], at: usize) -> (usize, u32) {
        let outer = self.control;
        let (mut at, mut left) = (at, 0);
        for statement in body {
            let number = at;
            at += 1;
            let known = match &statement.kind {
                StatementKind::If { condition, then, otherwise } => {
                    let ready = self.operand(*condition);
                    let control = self.control;
                    let before = (self.written.clone(), self.read.clone());
                    self.control = control.max(ready);
                    let (next, leaves_then) = self.body(then, at);
                    let after = (
                        std::mem::replace(&mut self.written, before.0),
                        std::mem::replace(&mut self.read, before.1),
                    );
                    self.control = control.max(ready);
                    let (next, leaves_otherwise) = self.body(otherwise, next);
                    self.control = control;
                    later(&mut self.written, &after.0);
                    later(&mut self.read, &after.1);
                    at = next;
                    leaves_then.max(leaves_otherwise)
                }
                StatementKind::Scope { body } => {
                    let (next, left) = self.body(body, at);
                    at = next;
                    left
                }
                StatementKind::Leave | StatementKind::Exit => self.control.max(1),
                StatementKind::Apply { table, hit, action_run } => {
                    self.apply(*table, [*hit, *action_run], number)
                }
                kind => {
                    self.simple(kind, number);
                    0
                }
            };
            left = left.max(known);
            // What follows stands under the condition that nothing left before.
            self.control = self.control.max(known);
        }
        self.control = outer;
        (at, left)
    }

    fn operand(&self, operand: Operand) -> u32 {
        match operand {
            Operand::Field(field) => self.written[field as usize],
            Operand::Constant(_) => 0,
        }
    }

    /// When what the statement reads is there, and what it writes may be written.
    fn ready(&self, kind: &StatementKind) -> u32 {
        let mut ready = self.control;
        kind.reads(self.program, &mut |field| ready = ready.max(self.written[field as usize]));
        kind.writes(self.program, &mut |field| {
            ready = ready.max(self.written[field as usize]).max(self.read[field as usize].saturating_sub(1));
        });
        ready
    }

    fn note(&mut self, kind: &StatementKind, number: usize, time: u32) {
        kind.reads(self.program, &mut |field| {
            self.read[field as usize] = self.read[field as usize].max(time)
        });
        kind.writes(self.program, &mut |field| self.written[field as usize] = time);
        self.stages.statements[number] = self.stages.statements[number].max(half_of(time));
        self.last = self.last.max(time);
    }

    /// The first time behind `ready`, not before `from`, at which an operation is done.
    fn operation(ready: u32, from: u32) -> u32 {
        let time = (ready + 1).max(from);
        match time % SLOTS {
            0 | MATCH => time + 1,
            _ => time,
        }
    }

    /// The first time at which a write to state is done: behind the look-ups of its stage, since one of them may
    /// read what it writes.
    fn write(ready: u32, from: u32) -> u32 {
        let time = Self::operation(ready, from);
        let start = time - time % SLOTS;
        time.max(start + MATCH + 1)
    }

    /// The first time at which a write is done where the packet may have written before: the last write counts, so
    /// it is not done earlier.
    fn write_behind(&mut self, last: usize, ready: u32, from: u32) -> u32 {
        let time = Self::write(ready, from.max(self.written[last]));
        self.written[last] = time;
        time
    }

    /// The first time at which a look-up is done.
    fn look_up(ready: u32, stage: u32) -> u32 {
        let time = (ready + 1).max(start_of(stage));
        let start = time - time % SLOTS;
        if time % SLOTS <= MATCH { start + MATCH } else { start + SLOTS + MATCH }
    }

    fn simple(&mut self, kind: &StatementKind, number: usize) {
        let ready = self.ready(kind);
        let pinned = self.stages.statements[number];
        let time = match kind {
            StatementKind::MuRead { table, .. } => {
                let from = self.order.mu_read(*table, self.stages);
                let stage = &mut self.stages.mu_reads[*table as usize];
                let time = Self::look_up(ready, (pinned / 2).max(*stage).max(from));
                *stage = (*stage).max(stage_of(time));
                time
            }
            StatementKind::RegisterRead { register, .. } => {
                let from = self.order.register_read(*register, self.stages);
                let stage = &mut self.stages.register_reads[*register as usize];
                let time = Self::look_up(ready, (pinned / 2).max(*stage).max(from));
                *stage = (*stage).max(stage_of(time));
                time
            }
            StatementKind::ExecuteMeter { meter, .. } => {
                let from = self.order.first(Object::Meter(*meter), self.stages);
                let stage = &mut self.stages.meters[*meter as usize];
                let time = Self::look_up(ready, (pinned / 2).max(*stage).max(from));
                *stage = (*stage).max(stage_of(time));
                time
            }
            StatementKind::MuWrite { table, .. } => {
                // Not before it is read: state goes back in a pipeline, not on.
                let first = self.order.first(Object::MuTable(*table), self.stages);
                let first = first.max(self.stages.mu_reads[*table as usize]);
                let last = self.program.fields.len() + *table as usize;
                let time = self.write_behind(last, ready, start_of_half(pinned).max(start_of(first)));
                let stage = &mut self.stages.mu_writes[*table as usize];
                *stage = (*stage).max(stage_of(time));
                time
            }
            StatementKind::RegisterWrite { register, .. } => {
                let first = self.order.first(Object::Register(*register), self.stages);
                let first = first.max(self.stages.register_reads[*register as usize]);
                let last = self.program.fields.len() + self.program.mu_tables.len() + *register as usize;
                let time = self.write_behind(last, ready, start_of_half(pinned).max(start_of(first)));
                let stage = &mut self.stages.register_writes[*register as usize];
                *stage = (*stage).max(stage_of(time));
                time
            }
            StatementKind::Count { counter, .. } => {
                let from = self.order.first(Object::Counter(*counter), self.stages);
                let stage = &mut self.stages.counters[*counter as usize];
                let time = Self::look_up(ready, (pinned / 2).max(*stage).max(from));
                *stage = (*stage).max(stage_of(time));
                time
            }
            _ => Self::operation(ready, start_of_half(pinned)),
        };
        self.note(kind, number, time);
    }

    /// A table and its actions; gives when it is known whether one of them exits.
    fn apply(&mut self, table: u32, results: [Option<FieldId>; 2], number: usize) -> u32 {
        let program = self.program;
        let [hit, action_run] = results;
        let kind = StatementKind::Apply { table, hit, action_run };
        let ready = self.ready(&kind);
        let pinned = self.stages.statements[number];
        // A table that is spread gives its result in the last of its stages, and has its keys in the first.
        let ready = ready + self.order.spread(table) * SLOTS;
        let stage = &mut self.stages.tables[table as usize];
        let time = Self::look_up(ready, (pinned / 2).max(*stage));
        *stage = (*stage).max(stage_of(time));
        self.note(&kind, number, time);
        let control = std::mem::replace(&mut self.control, time);
        let before = (self.written.clone(), self.read.clone());
        let mut after = before.clone();
        let mut left = 0;
        for action in &program.tables[table as usize].actions {
            let declared = &program.actions[*action as usize];
            self.written.clone_from(&before.0);
            self.read.clone_from(&before.1);
            for parameter in &declared.parameters {
                self.written[*parameter as usize] = time;
            }
            let (_, known) = self.body(&declared.body, self.starts[*action as usize]);
            // Leaving an action is no leaving of the block.
            if exits(&declared.body) {
                left = left.max(known);
            }
            later(&mut after.0, &self.written);
            later(&mut after.1, &self.read);
        }
        (self.written, self.read) = after;
        self.control = control;
        left
    }
}

fn later(times: &mut [u32], others: &[u32]) {
    times.iter_mut().zip(others).for_each(|(time, other)| *time = (*time).max(*other));
}
