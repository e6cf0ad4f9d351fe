//! Dead code: what only computes a value that is read nowhere.
//!
//! The architecture's metadata is always read, by the switch. Headers are read where the deparser emits them.

use crate::ir::{FieldId, FieldKind, Operand, Program, Statement, StatementKind};

/// Runs the pass.
pub fn run(program: &mut Program) {
    while sweep(program) {}
}

/// Leaves out what nobody reads; whether that was anything.
fn sweep(program: &mut Program) -> bool {
    let is_read = reads(program);
    let is_dead = |field: FieldId| !is_read[field as usize];
    let mut changed = false;
    for body in program.all_bodies_mut() {
        changed |= prune(body, &is_dead);
    }
    changed
}

fn reads(program: &Program) -> Vec<bool> {
    let always = |kind| kind == FieldKind::Standard;
    let mut is_read: Vec<bool> = program.fields.iter().map(|field| always(field.kind)).collect();
    let mut read = |field: FieldId| is_read[field as usize] = true;
    let blocks = [&program.verify_checksum, &program.compute_checksum, &program.deparser];
    let bodies = program.bodies().chain(blocks).chain(program.parser.iter().map(|state| &state.body));
    for body in bodies {
        program.visit(body, &mut |kind| kind.reads(program, &mut read));
    }
    for operand in program.parser.iter().flat_map(|state| &state.select) {
        if let Operand::Field(field) = operand {
            read(*field);
        }
    }
    is_read
}

fn prune(body: &mut Vec<Statement>, is_dead: &impl Fn(FieldId) -> bool) -> bool {
    let mut changed = false;
    body.retain_mut(|statement| {
        let is_kept = match &mut statement.kind {
            StatementKind::Compute { to, .. }
            | StatementKind::RegisterRead { to, .. }
            | StatementKind::Hash { to, .. }
            | StatementKind::Checksum { to, .. } => !is_dead(*to),
            StatementKind::MuRead { to, .. } => !to.iter().all(|field| is_dead(*field)),
            StatementKind::If { then, otherwise, .. } => {
                changed |= prune(then, is_dead);
                changed |= prune(otherwise, is_dead);
                !then.is_empty() || !otherwise.is_empty()
            }
            StatementKind::Scope { body } => {
                changed |= prune(body, is_dead);
                !body.is_empty()
            }
            StatementKind::Apply { hit, action_run, .. } => {
                for result in [hit, action_run] {
                    if result.is_some_and(is_dead) {
                        *result = None;
                        changed = true;
                    }
                }
                true
            }
            _ => true,
        };
        changed |= !is_kept;
        is_kept
    });
    changed
}
