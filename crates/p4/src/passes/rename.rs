//! Field renaming (RAPID §5.2), as registers are renamed for instructions.
//!
//! A packet that has read a stale state is submitted anew to the stage that reads it, as it is: with what stages
//! behind that one have written into it. So a field that these write, and that is read there or later before it is
//! written for sure, is copied where the stage looks up; from there on the copy is written and read, and takes the
//! field's place where the block ends. Done over, the copy is made over, from the field as it was.
//!
//! A packet that comes to the stage has its key by then. So what is done over begins with the look-ups of the stage
//! that reads, and ends before those of the stage behind the one that writes.

use std::ops::RangeInclusive;

use crate::ir::{
    Field, FieldId, FieldKind, Memory, Operand, Program, Renamed, Statement, StatementKind, visit_mut,
};

use super::liveness::{Live, Liveness};

/// Runs the pass.
pub fn run(program: &mut Program) {
    let Some(layout) = &program.layout else { return };
    let flows = layout.mu_tables.iter().filter(|place| place.memory == Memory::FlowState);
    let mut places: Vec<(u16, u16)> = flows.map(|place| (place.reads, place.writes)).collect();
    places.sort_unstable();
    for (reads, writes) in places {
        for field in changed(program, &region(reads, writes)) {
            rename(program, field, reads);
        }
    }
}

/// Halves of stages ([`Statement::half`]) that are done over for a state that is read and written in these stages.
pub fn region(reads: u16, writes: u16) -> RangeInclusive<u16> {
    2 * reads + 1..=2 * writes + 2
}

/// Fields that are written in these halves, and that are read there or later before they are written.
fn changed(program: &Program, region: &RangeInclusive<u16>) -> Vec<FieldId> {
    let mut live = live_at_end(program);
    let whole = |from_half, at_end: &Live| Liveness { program, from_half, at_end: at_end.clone() };
    for body in [&program.deparser, &program.compute_checksum] {
        let end = live.clone();
        whole(0, &end).body(body, &mut live, &end);
    }
    for body in [&program.egress, &program.ingress] {
        let end = live.clone();
        whole(*region.start(), &end).body(body, &mut live, &end);
    }
    for renamed in program.layout.iter().flat_map(|layout| layout.renamed.iter().rev()) {
        if renamed.half() >= *region.start() && std::mem::take(&mut live[renamed.to as usize]) {
            live[renamed.field as usize] = true;
        }
    }
    let mut written = vec![false; program.fields.len()];
    for body in program.bodies() {
        mark_written(program, body, region, &mut written);
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

fn mark_written(program: &Program, body: &[Statement], region: &RangeInclusive<u16>, written: &mut [bool]) {
    for statement in body {
        match &statement.kind {
            StatementKind::If { then, otherwise, .. } => {
                mark_written(program, then, region, written);
                mark_written(program, otherwise, region, written);
            }
            StatementKind::Scope { body } => mark_written(program, body, region, written),
            kind if region.contains(&statement.half()) => {
                kind.writes(program, &mut |field| written[field as usize] = true);
            }
            _ => {}
        }
    }
}

/// Gives the field a copy, made where this stage looks up, which all that is done from there on uses.
fn rename(program: &mut Program, field: FieldId, stage: u16) {
    let declared = &program.fields[field as usize];
    let copy = Field { name: format!("{}'", declared.name), width: declared.width, kind: FieldKind::Renamed };
    program.fields.push(copy);
    let to = program.fields.len() as FieldId - 1;
    let in_egress = program.layout.as_ref().is_some_and(|layout| stage >= layout.egress_from);
    let renamed = Renamed { field, to, stage, in_egress };

    let mut body = std::mem::take(if in_egress { &mut program.egress } else { &mut program.ingress });
    let mut tables = Vec::new();
    let mut look_ups = body.clone();
    visit_mut(&mut look_ups, &mut |statement| {
        if let StatementKind::Apply { table, .. } = statement.kind
            && !tables.contains(&(table, statement.half()))
        {
            tables.push((table, statement.half()));
        }
    });
    replace(&mut body, &renamed);
    for (table, half) in tables {
        let declared = &mut program.tables[table as usize];
        if half >= renamed.half() {
            declared.keys.iter_mut().for_each(|key| replace_operand(&mut key.value, &renamed));
        }
        for action in declared.actions.clone() {
            replace(&mut program.actions[action as usize].body, &renamed);
        }
    }
    *if in_egress { &mut program.egress } else { &mut program.ingress } = body;
    if let Some(layout) = &mut program.layout {
        layout.renamed.push(renamed);
    }
}

fn replace(body: &mut [Statement], renamed: &Renamed) {
    visit_mut(body, &mut |statement| {
        // What holds others has no half, and its condition is written once, before them all.
        let is_holder = matches!(statement.kind, StatementKind::If { .. } | StatementKind::Scope { .. });
        if is_holder || statement.half() < renamed.half() {
            return;
        }
        statement.kind.operands_mut(&mut |operand| replace_operand(operand, renamed));
        statement.kind.targets_mut(&mut |target| {
            if *target == renamed.field {
                *target = renamed.to;
            }
        });
    });
}

fn replace_operand(operand: &mut Operand, renamed: &Renamed) {
    if *operand == Operand::Field(renamed.field) {
        *operand = Operand::Field(renamed.to);
    }
}
