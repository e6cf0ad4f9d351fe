//! Stage allocation.
//!
//! A stage looks keys up once, in all its tables at a time, between two runs of operations:
//!
//! ```text
//! | up to 4 dependent operations | tables, muTables, registers, counters, meters | up to 8 dependent operations |
//! ```
//!
//! So a key that depends on what a table gave is looked up in a later stage, and so is what stands under a condition
//! that does. Every statement goes as early as that allows. An object is in one stage, the latest in which a
//! statement needs it: a table, a register; a muTable is read in one stage, and may be written from any later one
//! (RAPID §5.1): written in the stage that reads it, it is a register, else a table of flow states. Two of these
//! whose stages meet are laid one behind the other, and each is read as late as takes no more stages.
//!
//! Statements of one stage are done in the order of the program. So running the stages one after the other, each
//! with the statements that it has, gives what the program gives.

use crate::ir::{
    Compute, Field, FieldId, FieldKind, Layout, Memory, MuPlace, Operand, Program, Statement, StatementKind,
    exits, visit_mut,
};
use crate::uses::Object;

mod late;
mod spans;

use spans::Order;

/// Dependent operations before a stage looks keys up: those of a gateway.
pub const OPERATIONS_BEFORE: u32 = 4;

/// Dependent operations behind that: those of an action.
pub const OPERATIONS_AFTER: u32 = 8;

/// Rounds in which objects find their stage, at most.
const MAX_ROUNDS: usize = 256;

/// Objects that are named if they do not.
const MAX_NAMED: usize = 3;

/// Stages of a layout, at most.
pub const MAX_LAYOUT_STAGES: u32 = 16_383;

const MATCH: u32 = OPERATIONS_BEFORE + 1;
const SLOTS: u32 = MATCH + OPERATIONS_AFTER + 1;

/// Runs the pass.
pub fn run(program: &mut Program) {
    own_actions(program);
    own_conditions(program);
    settle(program, true);
}

/// The same with all reads as early as they can be: what tests compare with.
pub fn run_early(program: &mut Program) {
    own_actions(program);
    own_conditions(program);
    settle(program, false);
}

/// Gives stages, the earliest that there are; later ones only for tables of flow states.
fn settle(program: &mut Program, reads_late: bool) {
    let mut stages = Stages::new(program);
    let is_settled = stages.settle(program, &Order::default(), MAX_LAYOUT_STAGES);
    if is_settled {
        let apart = spans::apart(program, &stages);
        let (apart, order) = apart.unwrap_or_else(|| (stages.clone(), Order::of(&stages)));
        stages = if reads_late { late::around_spans(program, apart, order) } else { apart };
    }
    write_stages(program, &stages);
    let mut layout = stages.layout();
    if !is_settled {
        layout.unsettled = unsettled(program, &stages);
        layout.stages = layout.stages.max(MAX_LAYOUT_STAGES as u16 + 1);
    }
    program.layout = Some(layout);
}

/// What keeps moving, that in the first stages only: the rest waits for it.
fn unsettled(program: &Program, stages: &Stages) -> Vec<String> {
    let mut next = stages.clone();
    next.round(program, &Order::default());
    let tables = stages.tables.iter().zip(&next.tables).zip(&program.tables);
    let tables = tables.map(|((now, next), table)| (*now, *next, format!("table {}", table.name)));
    let objects = stages.objects().zip(next.objects());
    let last = |(reads, writes): (u32, u32)| reads.max(writes);
    let objects = objects.map(|((object, now), (_, next))| (last(now), last(next), object.describe(program)));
    let mut moving: Vec<(u32, u32, String)> =
        tables.chain(objects).filter(|(now, next, _)| now != next).collect();
    moving.sort();
    moving.into_iter().take(MAX_NAMED).map(|(_, _, name)| name).collect()
}

/// Gives each table actions of its own: in another table's stage an action is another.
fn own_actions(program: &mut Program) {
    let mut owner: Vec<Option<usize>> = vec![None; program.actions.len()];
    for table in 0..program.tables.len() {
        for at in 0..program.tables[table].actions.len() {
            let action = program.tables[table].actions[at];
            let is_free = owner[action as usize].is_none_or(|owner| owner == table);
            if is_free || program.actions[action as usize].body.is_empty() {
                owner[action as usize] = Some(table);
                continue;
            }
            let copy = copied(program, action);
            owner.push(Some(table));
            let declared = &mut program.tables[table];
            declared.actions[at] = copy;
            let calls =
                declared.entries.iter_mut().map(|entry| &mut entry.call).chain([&mut declared.default]);
            calls.filter(|call| call.action == action).for_each(|call| call.action = copy);
        }
    }
}

fn copied(program: &mut Program, action: u32) -> u32 {
    let mut copy = program.actions[action as usize].clone();
    let mut renamed = Vec::new();
    for parameter in &mut copy.parameters {
        let field = Field { kind: FieldKind::Parameter, ..program.fields[*parameter as usize].clone() };
        program.fields.push(field);
        renamed.push((*parameter, program.fields.len() as FieldId - 1));
        *parameter = program.fields.len() as FieldId - 1;
    }
    visit_mut(&mut copy.body, &mut |statement| {
        statement.kind.operands_mut(&mut |operand| {
            for (from, to) in &renamed {
                if *operand == Operand::Field(*from) {
                    *operand = Operand::Field(*to);
                }
            }
        });
    });
    program.actions.push(copy);
    program.actions.len() as u32 - 1
}

/// Gives each `if` a condition that is written once: stages read it one by one, when it may have changed.
fn own_conditions(program: &mut Program) {
    let mut writes = vec![0_u32; program.fields.len()];
    for body in program.bodies() {
        count_writes(program, body, &mut writes);
    }
    let mut fields = std::mem::take(&mut program.fields);
    let is_own = |id: FieldId, field: &Field| match field.kind {
        FieldKind::Temporary => writes[id as usize] <= 1,
        FieldKind::Parameter => false,
        _ => writes[id as usize] == 0,
    };
    let mut copied = |condition: &mut Operand, before: &mut Vec<Statement>| {
        let Operand::Field(id) = *condition else { return };
        if is_own(id, &fields[id as usize]) {
            return;
        }
        let to = fields.len() as FieldId;
        fields.push(Field { name: format!("%{to}"), width: 1, kind: FieldKind::Temporary });
        let value = Compute::Copy { from: Operand::Field(id) };
        before.push(StatementKind::Compute { to, value }.into());
        *condition = Operand::Field(to);
    };
    for body in bodies_mut(program) {
        with_conditions(body, &mut copied);
    }
    program.fields = fields;
}

fn count_writes(program: &Program, body: &[Statement], writes: &mut [u32]) {
    for statement in body {
        match &statement.kind {
            StatementKind::If { then, otherwise, .. } => {
                count_writes(program, then, writes);
                count_writes(program, otherwise, writes);
            }
            StatementKind::Scope { body } => count_writes(program, body, writes),
            kind => kind.writes(program, &mut |field| writes[field as usize] += 1),
        }
    }
}

/// Shows each condition, and takes statements to put before its `if`.
fn with_conditions(body: &mut Vec<Statement>, with: &mut dyn FnMut(&mut Operand, &mut Vec<Statement>)) {
    let mut out = Vec::with_capacity(body.len());
    for mut statement in std::mem::take(body) {
        match &mut statement.kind {
            StatementKind::If { condition, then, otherwise } => {
                with(condition, &mut out);
                with_conditions(then, with);
                with_conditions(otherwise, with);
            }
            StatementKind::Scope { body } => with_conditions(body, with),
            _ => {}
        }
        out.push(statement);
    }
    *body = out;
}

fn bodies_mut(program: &mut Program) -> impl Iterator<Item = &mut Vec<Statement>> {
    [&mut program.ingress, &mut program.egress]
        .into_iter()
        .chain(program.actions.iter_mut().map(|action| &mut action.body))
}

/// In which stages things are, as far as is known.
#[derive(Clone, PartialEq)]
struct Stages {
    tables: Vec<u32>,
    mu_reads: Vec<u32>,
    mu_writes: Vec<u32>,
    register_reads: Vec<u32>,
    register_writes: Vec<u32>,
    counters: Vec<u32>,
    meters: Vec<u32>,
    /// The last stage of the ingress, and that of all.
    ingress: u32,
    all: u32,
    /// Half of every statement, in the order in which they are walked; 0 where it has none yet.
    statements: Vec<u32>,
}

impl Stages {
    fn new(program: &Program) -> Stages {
        Stages {
            tables: vec![0; program.tables.len()],
            mu_reads: vec![0; program.mu_tables.len()],
            mu_writes: vec![0; program.mu_tables.len()],
            register_reads: vec![0; program.registers.len()],
            register_writes: vec![0; program.registers.len()],
            counters: vec![0; program.counters.len()],
            meters: vec![0; program.meters.len()],
            ingress: 0,
            all: 0,
            statements: vec![0; program.bodies().map(|body| count(body)).sum()],
        }
    }

    /// Walks until nothing moves any more; whether that was so in time, and with so many stages at most.
    fn settle(&mut self, program: &Program, order: &Order, most: u32) -> bool {
        for _ in 0..MAX_ROUNDS {
            let before = self.clone();
            self.round(program, order);
            if *self == before || self.all > most {
                return self.all <= most;
            }
        }
        false
    }

    /// The same with so many objects moved, each behind what there is without it: more stages than that are no end.
    fn settle_moved(&mut self, program: &Program, order: &Order, moved: usize) -> bool {
        let most = (moved as u32 + 1) * (self.all + 1);
        self.settle(program, order, most)
    }

    /// What keeps state, and where it is read and written; 0 where it is not.
    fn objects(&self) -> impl Iterator<Item = (Object, (u32, u32))> {
        let both = |(reads, writes): (&u32, &u32)| (*reads, *writes);
        let one = |stage: &u32| (*stage, *stage);
        let mu_tables = (0..).map(Object::MuTable).zip(self.mu_reads.iter().zip(&self.mu_writes).map(both));
        let registers = self.register_reads.iter().zip(&self.register_writes).map(both);
        let registers = (0..).map(Object::Register).zip(registers);
        let counters = (0..).map(Object::Counter).zip(self.counters.iter().map(one));
        let meters = (0..).map(Object::Meter).zip(self.meters.iter().map(one));
        mu_tables.chain(registers).chain(counters).chain(meters)
    }

    /// Walks ingress and egress once.
    fn round(&mut self, program: &Program, order: &Order) {
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

    fn layout(&self) -> Layout {
        let place = |reads: u32, writes: u32| {
            let is_single = writes == 0 || reads == 0 || reads == writes;
            let memory = if is_single { Memory::Register } else { Memory::FlowState };
            MuPlace { reads: narrow(reads), writes: narrow(writes), memory }
        };
        let places = |reads: &[u32], writes: &[u32]| {
            reads.iter().zip(writes).map(|(reads, writes)| place(*reads, *writes)).collect::<Vec<_>>()
        };
        let mu_tables = places(&self.mu_reads, &self.mu_writes);
        let registers = places(&self.register_reads, &self.register_writes);
        let first = mu_tables.iter().map(|place| place.reads).filter(|stage| *stage > 0).min();
        let last = mu_tables.iter().map(|place| place.writes).max().unwrap_or_default();
        let span = first.map_or(0, |first| if last == 0 { 0 } else { (last + 1).saturating_sub(first) });
        Layout {
            stages: narrow(self.all),
            egress_from: narrow(self.ingress).saturating_add(1),
            tables: self.tables.iter().map(|stage| narrow(*stage)).collect(),
            notes: Vec::new(),
            warnings: Vec::new(),
            mu_tables,
            registers,
            span,
            renamed: Vec::new(),
            unsettled: Vec::new(),
        }
    }
}

/// A number of a stage or a half; past [`MAX_LAYOUT_STAGES`] they mean nothing.
fn narrow(stage: u32) -> u16 {
    u16::try_from(stage).unwrap_or(u16::MAX)
}

/// How many statements there are, those that others hold included.
fn count(body: &[Statement]) -> usize {
    let inside = |statement: &Statement| match &statement.kind {
        StatementKind::If { then, otherwise, .. } => count(then) + count(otherwise),
        StatementKind::Scope { body } => count(body),
        _ => 0,
    };
    body.iter().map(|statement| 1 + inside(statement)).sum()
}

/// Writes stages to statements.
fn write_stages(program: &mut Program, stages: &Stages) {
    fn write(body: &mut [Statement], halves: &mut impl Iterator<Item = u32>) {
        for statement in body {
            let half = narrow(halves.next().unwrap_or_default());
            (statement.stage, statement.before) = (half / 2, half > 0 && half.is_multiple_of(2));
            match &mut statement.kind {
                StatementKind::If { then, otherwise, .. } => {
                    write(then, halves);
                    write(otherwise, halves);
                }
                StatementKind::Scope { body } => write(body, halves),
                _ => {}
            }
        }
    }
    let mut halves = stages.statements.iter().copied();
    bodies_mut(program).for_each(|body| write(body, &mut halves));
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

    /// The same for a write to state: behind the look-ups of its stage, since one of them may read what it writes.
    fn write(ready: u32, from: u32) -> u32 {
        let time = Self::operation(ready, from);
        let start = time - time % SLOTS;
        time.max(start + MATCH + 1)
    }

    /// The same where the packet may have written before: the last write counts, so it is not done earlier.
    fn write_behind(&mut self, last: usize, ready: u32, from: u32) -> u32 {
        let time = Self::write(ready, from.max(self.written[last]));
        self.written[last] = time;
        time
    }

    /// The same for a look-up.
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
