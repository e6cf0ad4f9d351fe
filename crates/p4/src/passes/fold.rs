//! Constant folding: a field that is known where it is read is a constant there. A copy of another field is that
//! field, as long as that one is not written.

use std::collections::HashMap;

use crate::ir::{Compute, Constant, FieldId, Operand, Program, Statement, StatementKind, leaves, ones};
use crate::semantics;

/// Runs the pass.
pub fn run(program: &mut Program) {
    // Bodies ask what the tables that they apply may write.
    let before = program.clone();
    for body in program.all_bodies_mut() {
        *body = Folder { program: &before }.body(std::mem::take(body), &mut Known::default());
    }
}

/// What fields hold: constants, or what other fields hold.
#[derive(Clone, Default)]
struct Known {
    held: HashMap<FieldId, Operand>,
    /// For each field, those that hold what it holds.
    copies: HashMap<FieldId, Vec<FieldId>>,
}

impl Known {
    fn set(&mut self, field: FieldId, held: Operand) {
        self.forget(field);
        if held == Operand::Field(field) {
            return;
        }
        self.held.insert(field, held);
        if let Operand::Field(from) = held {
            self.copies.entry(from).or_default().push(field);
        }
    }

    /// The field was written.
    fn forget(&mut self, field: FieldId) {
        self.held.remove(&field);
        for copy in self.copies.remove(&field).unwrap_or_default() {
            if self.held.get(&copy) == Some(&Operand::Field(field)) {
                self.held.remove(&copy);
            }
        }
    }
}

struct Folder<'a> {
    program: &'a Program,
}

impl Folder<'_> {
    fn body(&self, body: Vec<Statement>, known: &mut Known) -> Vec<Statement> {
        let mut folded = Vec::with_capacity(body.len());
        for mut statement in body {
            // A condition stays what it is while its bodies run; what it was copied from may not.
            let is_condition = matches!(statement.kind, StatementKind::If { .. });
            statement.kind.operands_mut(&mut |operand| {
                if let Operand::Field(field) = operand
                    && let Some(held) = known.held.get(field)
                    && (!is_condition || matches!(held, Operand::Constant(_)))
                {
                    *operand = *held;
                }
            });
            let is_end = matches!(statement.kind, StatementKind::Exit | StatementKind::Leave);
            self.statement(statement, known, &mut folded);
            // Nothing behind it is ever reached.
            if is_end {
                break;
            }
        }
        folded
    }

    fn statement(&self, statement: Statement, known: &mut Known, folded: &mut Vec<Statement>) {
        let (stage, before, place) = (statement.stage, statement.before, statement.place);
        match statement.kind {
            StatementKind::Compute { to, value } => {
                let computed = self.computed(to, &value).map(Operand::Constant);
                let value = computed.map_or(value, |from| Compute::Copy { from });
                match value {
                    Compute::Copy { from } if from == Operand::Field(to) => return,
                    Compute::Copy { from } => known.set(to, from),
                    _ => known.forget(to),
                }
                let kind = StatementKind::Compute { to, value };
                folded.push(Statement { stage, before, place, kind });
            }
            StatementKind::If { condition: Operand::Constant(constant), then, otherwise } => {
                let taken = if constant.value == 1 { then } else { otherwise };
                folded.extend(self.body(taken, known));
            }
            StatementKind::If { condition, then, otherwise } => {
                let branch = |body, value| {
                    let mut inside = known.clone();
                    if let Operand::Field(field) = condition {
                        inside.set(field, Operand::Constant(Constant::new(value, 1)));
                    }
                    let body = self.body(body, &mut inside);
                    (body, inside)
                };
                let (then, after_then) = branch(then, 1);
                let (otherwise, after_otherwise) = branch(otherwise, 0);
                *known = after_then;
                known.held.retain(|field, held| after_otherwise.held.get(field) == Some(held));
                if !then.is_empty() || !otherwise.is_empty() {
                    folded.push(Statement {
                        stage,
                        before,
                        place,
                        kind: StatementKind::If { condition, then, otherwise },
                    });
                }
            }
            StatementKind::Scope { body } => {
                let body = self.body(body, known);
                if leaves(&body) {
                    // It may have been left anywhere.
                    self.program.visit_writes(&body, &mut |field| {
                        known.forget(field);
                    });
                    folded.push(Statement { stage, before, place, kind: StatementKind::Scope { body } });
                } else {
                    folded.extend(body);
                }
            }
            kind => {
                let statement = Statement { stage, before, place, kind };
                self.program.visit_writes(std::slice::from_ref(&statement), &mut |field| {
                    known.forget(field);
                });
                if let StatementKind::Apply { table, .. } = statement.kind {
                    let actions = self.program.tables[table as usize].actions.iter();
                    for action in actions.map(|action| &self.program.actions[*action as usize]) {
                        action.parameters.iter().for_each(|field| known.forget(*field));
                    }
                }
                folded.push(statement);
            }
        }
    }

    /// The result, if all operands are known.
    fn computed(&self, to: FieldId, value: &Compute) -> Option<Constant> {
        let known = |operand: Operand| match operand {
            Operand::Constant(constant) => Some(constant),
            Operand::Field(_) => None,
        };
        let width = self.program.fields[to as usize].width;
        let result = match *value {
            Compute::Copy { from } => known(from)?.value,
            Compute::Resize { from, signed } => {
                let from = known(from)?;
                semantics::resize(from.value, from.width, width, signed)
            }
            Compute::Not { from } => !known(from)?.value,
            Compute::Negate { from } => known(from)?.value.wrapping_neg(),
            Compute::Slice { from, high, low } => known(from)?.value >> low & ones(high - low + 1),
            Compute::Insert { into, from, high, low } => {
                semantics::insert(known(into)?.value, known(from)?.value, high, low)
            }
            Compute::Binary { by, a, b } => {
                let (a, b) = (known(a)?, known(b)?);
                semantics::binary(by, a.value, b.value, a.width, b.width)
            }
            Compute::Select { condition, then, otherwise } => match known(condition)?.value {
                0 => known(otherwise)?.value,
                _ => known(then)?.value,
            },
        };
        Some(Constant::new(result, width))
    }
}
