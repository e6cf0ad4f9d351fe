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

use crate::ir::{Compute, Field, FieldId, FieldKind, Operand, Program, Statement, StatementKind, visit_mut};

pub mod fit;
mod late;
mod order;
mod spans;
mod stages;
mod walk;

use order::Order;
use stages::{Stages, narrow};

pub use walk::{OPERATIONS_AFTER, OPERATIONS_BEFORE};

/// Objects that are named if they do not.
const MAX_NAMED: usize = 3;

/// Stages of a layout, at most.
pub const MAX_LAYOUT_STAGES: u32 = 16_383;

/// Runs the pass.
pub fn run(program: &mut Program) {
    own_actions(program);
    own_conditions(program);
    settle(program, true);
}

/// Runs the pass with all reads as early as they can be: what tests compare with.
pub fn run_early(program: &mut Program) {
    own_actions(program);
    own_conditions(program);
    settle(program, false);
}

/// Gives stages, the earliest that there are; later ones only for tables of flow states.
fn settle(program: &mut Program, reads_late: bool) {
    let (stages, order) = found(program, reads_late);
    write(program, &stages, order.is_some());
}

/// Stages, and the order that they are in; none if they do not settle.
fn found(program: &Program, reads_late: bool) -> (Stages, Option<Order>) {
    let mut stages = Stages::new(program);
    if !stages.settle(program, &Order::default(), MAX_LAYOUT_STAGES) {
        return (stages, None);
    }
    let apart = spans::apart(program, &stages);
    let (apart, order) = apart.unwrap_or_else(|| (stages.clone(), Order::of(&stages)));
    let (stages, order) = if reads_late { late::around_spans(program, apart, order) } else { (apart, order) };
    (stages, Some(order))
}

/// Writes stages into the program.
fn write(program: &mut Program, stages: &Stages, is_settled: bool) {
    write_stages(program, stages);
    let mut layout = stages.layout();
    if !is_settled {
        layout.unsettled = unsettled(program, stages);
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
