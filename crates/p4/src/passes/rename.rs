//! Field renaming (RAPID §5.2), as registers are renamed for instructions.
//!
//! A packet that has read a stale state is submitted anew to the stage that reads it, as it is: with what stages
//! behind that one have written into it. So a field that these write, and that is read there or later before it is
//! written for sure, is copied in the stage that reads the state; from there on the copy is written and read, and
//! takes the field's place where the block ends. Done over, the copy is made over, from the field as it was.

use crate::ir::{
    Compute, Field, FieldId, FieldKind, Memory, Operand, Program, Renamed, Statement, StatementKind,
    visit_mut,
};

use super::allocate::settle;
use super::liveness::{Live, Liveness};

/// Rounds at most: renaming may move what other muTables need.
const MAX_ROUNDS: usize = 16;

/// Runs the pass.
pub fn run(program: &mut Program) {
    for _ in 0..MAX_ROUNDS {
        let Some((stage, fields)) = needed(program) else { return };
        for field in fields {
            rename(program, field, stage);
        }
        settle(program);
    }
}

/// The first stage to which packets are submitted anew, and fields that they must not find changed there.
fn needed(program: &Program) -> Option<(u16, Vec<FieldId>)> {
    let layout = program.layout.as_ref()?;
    let flows = layout.mu_tables.iter().filter(|place| place.memory == Memory::FlowState);
    let mut regions: Vec<(u16, u16)> = flows.map(|place| (place.reads, place.writes)).collect();
    regions.sort_unstable();
    regions.into_iter().find_map(|(reads, writes)| {
        let fields = changed(program, reads, writes);
        (!fields.is_empty()).then_some((reads, fields))
    })
}

/// Fields that stages write which are done over, and that are read there before they are written.
pub(super) fn changed(program: &Program, reads: u16, writes: u16) -> Vec<FieldId> {
    let mut live = live_at_end(program);
    let whole = |from_stage, at_end: &Live| Liveness { program, from_stage, at_end: at_end.clone() };
    for body in [&program.deparser, &program.compute_checksum] {
        let end = live.clone();
        whole(0, &end).body(body, &mut live, &end);
    }
    for body in [&program.egress, &program.ingress] {
        let end = live.clone();
        whole(reads, &end).body(body, &mut live, &end);
    }
    let mut written = vec![false; program.fields.len()];
    for body in program.bodies() {
        mark_written(program, body, reads, writes, &mut written);
    }
    (0..)
        .zip(live.iter().zip(&written))
        .filter(|(_, (live, written))| **live && **written)
        .map(|(id, _)| id)
        .collect()
}

/// What the switch looks at when a packet leaves.
fn live_at_end(program: &Program) -> Live {
    let mut live: Live = program.fields.iter().map(|field| field.kind == FieldKind::Standard).collect();
    for renamed in program.layout.iter().flat_map(|layout| &layout.renamed) {
        // The copy stands for the field behind its block.
        live[renamed.to as usize] = true;
    }
    live
}

fn mark_written(program: &Program, body: &[Statement], reads: u16, writes: u16, written: &mut [bool]) {
    for statement in body {
        match &statement.kind {
            StatementKind::If { then, otherwise, .. } => {
                mark_written(program, then, reads, writes, written);
                mark_written(program, otherwise, reads, writes, written);
            }
            StatementKind::Scope { body } => mark_written(program, body, reads, writes, written),
            kind if (reads..=writes).contains(&statement.stage) => {
                kind.writes(program, &mut |field| written[field as usize] = true);
            }
            _ => {}
        }
    }
}

/// Copies the field before the first statement of its block that writes it from this stage on, and writes the copy
/// from there on.
fn rename(program: &mut Program, field: FieldId, stage: u16) {
    let declared = &program.fields[field as usize];
    let copy = Field { name: format!("{}'", declared.name), width: declared.width, kind: FieldKind::Renamed };
    program.fields.push(copy);
    let to = program.fields.len() as FieldId - 1;
    let egress_from = program.layout.as_ref().map_or(u16::MAX, |layout| layout.egress_from);
    let in_egress = stage >= egress_from;
    let block = if in_egress { &program.egress } else { &program.ingress };
    let at = split(program, block, field);

    let mut body = std::mem::take(if in_egress { &mut program.egress } else { &mut program.ingress });
    let mut tables = Vec::new();
    program.visit(&body[at..], &mut |kind| {
        if let StatementKind::Apply { table, .. } = kind
            && !tables.contains(table)
        {
            tables.push(*table);
        }
    });
    replace(&mut body[at..], field, to);
    for table in tables {
        let declared = &mut program.tables[table as usize];
        declared.keys.iter_mut().for_each(|key| replace_operand(&mut key.value, field, to));
        for action in declared.actions.clone() {
            replace(&mut program.actions[action as usize].body, field, to);
        }
    }
    let value = Compute::Copy { from: Operand::Field(field) };
    body.insert(at, Statement { stage, kind: StatementKind::Compute { to, value } });
    *if in_egress { &mut program.egress } else { &mut program.ingress } = body;
    if let Some(layout) = &mut program.layout {
        layout.renamed.push(Renamed { field, to, in_egress });
    }
}

/// Where in the block the copy goes: before the first statement that writes the field. To the very front if the
/// block may end before, or a table is used on both sides: either would miss the copy.
fn split(program: &Program, block: &[Statement], field: FieldId) -> usize {
    let writes = |statement: &Statement| {
        let mut found = false;
        program.visit_writes(std::slice::from_ref(statement), &mut |written| found |= written == field);
        found
    };
    let at = block.iter().position(writes).unwrap_or_default();
    let tables = |body: &[Statement]| {
        let (mut tables, mut has_exit) = (Vec::new(), false);
        program.visit(body, &mut |kind| match kind {
            StatementKind::Apply { table, .. } => tables.push(*table),
            StatementKind::Exit => has_exit = true,
            _ => {}
        });
        (tables, has_exit)
    };
    let (before, has_exit) = tables(&block[..at]);
    let (after, _) = tables(&block[at..]);
    if has_exit || before.iter().any(|table| after.contains(table)) { 0 } else { at }
}

fn replace(body: &mut [Statement], from: FieldId, to: FieldId) {
    visit_mut(body, &mut |statement| {
        statement.kind.operands_mut(&mut |operand| replace_operand(operand, from, to));
        statement.kind.targets_mut(&mut |target| {
            if *target == from {
                *target = to;
            }
        });
    });
}

fn replace_operand(operand: &mut Operand, from: FieldId, to: FieldId) {
    if *operand == Operand::Field(from) {
        *operand = Operand::Field(to);
    }
}
