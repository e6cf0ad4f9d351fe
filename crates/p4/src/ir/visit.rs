//! What statements read and write.

use super::{Compute, FieldId, Operand, Program, Statement, StatementKind};

impl Compute {
    /// All operands.
    pub fn operands(&self) -> impl Iterator<Item = Operand> {
        let (first, second, third) = match *self {
            Compute::Copy { from }
            | Compute::Resize { from, .. }
            | Compute::Not { from }
            | Compute::Negate { from }
            | Compute::Slice { from, .. } => (from, None, None),
            Compute::Insert { into, from, .. } => (into, Some(from), None),
            Compute::Binary { a, b, .. } => (a, Some(b), None),
            Compute::Select { condition, then, otherwise } => (condition, Some(then), Some(otherwise)),
        };
        std::iter::once(first).chain(second).chain(third)
    }

    fn operands_mut(&mut self, with: &mut dyn FnMut(&mut Operand)) {
        match self {
            Compute::Copy { from }
            | Compute::Resize { from, .. }
            | Compute::Not { from }
            | Compute::Negate { from }
            | Compute::Slice { from, .. } => with(from),
            Compute::Insert { into, from, .. } => [into, from].into_iter().for_each(with),
            Compute::Binary { a, b, .. } => [a, b].into_iter().for_each(with),
            Compute::Select { condition, then, otherwise } => {
                [condition, then, otherwise].into_iter().for_each(with)
            }
        }
    }
}

impl StatementKind {
    /// What it looks state up by, to read it, write it or count; empty if it uses none.
    pub fn state_keys(&self) -> &[Operand] {
        match self {
            StatementKind::MuRead { keys, .. } | StatementKind::MuWrite { keys, .. } => keys,
            StatementKind::RegisterRead { index, .. }
            | StatementKind::RegisterWrite { index, .. }
            | StatementKind::Count { index, .. }
            | StatementKind::ExecuteMeter { index, .. } => std::slice::from_ref(index),
            _ => &[],
        }
    }

    /// Whether it writes a muTable or a register.
    pub fn writes_state(&self) -> bool {
        matches!(self, StatementKind::MuWrite { .. } | StatementKind::RegisterWrite { .. })
    }

    /// Shows every operand of the statement itself, not of what it holds.
    pub fn operands_mut(&mut self, with: &mut dyn FnMut(&mut Operand)) {
        match self {
            StatementKind::Compute { value, .. } => value.operands_mut(with),
            StatementKind::If { condition, .. } => with(condition),
            StatementKind::MuRead { keys, .. } => keys.iter_mut().for_each(with),
            StatementKind::MuWrite { keys, values, .. } => keys.iter_mut().chain(values).for_each(with),
            StatementKind::RegisterRead { index, .. }
            | StatementKind::Count { index, .. }
            | StatementKind::ExecuteMeter { index, .. } => with(index),
            StatementKind::RegisterWrite { index, value, .. } => [index, value].into_iter().for_each(with),
            StatementKind::Hash { base, max, data, .. } => {
                with(base);
                with(max);
                data.iter_mut().for_each(with);
            }
            StatementKind::Checksum { data, .. } => data.iter_mut().for_each(with),
            StatementKind::Random { low, high, .. } => [low, high].into_iter().for_each(with),
            StatementKind::Advance { bits } => with(bits),
            StatementKind::Verify { condition, error } => [condition, error].into_iter().for_each(with),
            StatementKind::Scope { .. }
            | StatementKind::Leave
            | StatementKind::Exit
            | StatementKind::Apply { .. }
            | StatementKind::Extract { .. }
            | StatementKind::ExtractNext { .. }
            | StatementKind::Lookahead { .. }
            | StatementKind::Emit { .. } => {}
        }
    }

    /// Shows every field that the statement itself names as the place of a result.
    pub fn targets_mut(&mut self, with: &mut dyn FnMut(&mut FieldId)) {
        match self {
            StatementKind::Compute { to, .. }
            | StatementKind::RegisterRead { to, .. }
            | StatementKind::ExecuteMeter { to, .. }
            | StatementKind::Hash { to, .. }
            | StatementKind::Checksum { to, .. }
            | StatementKind::Random { to, .. } => with(to),
            StatementKind::MuRead { to, .. } | StatementKind::Lookahead { to } => {
                to.iter_mut().for_each(with)
            }
            StatementKind::Apply { hit, action_run, .. } => hit.iter_mut().chain(action_run).for_each(with),
            _ => {}
        }
    }

    /// Fields that the statement itself reads, not those of what it holds or of a table's actions.
    pub fn reads(&self, program: &Program, with: &mut dyn FnMut(FieldId)) {
        let mut one = |operand: &Operand| {
            if let Operand::Field(field) = operand {
                with(*field);
            }
        };
        match self {
            StatementKind::Compute { value, .. } => value.operands().for_each(|operand| one(&operand)),
            StatementKind::If { condition, .. } => one(condition),
            StatementKind::Apply { table, .. } => {
                program.tables[*table as usize].keys.iter().for_each(|key| one(&key.value));
            }
            StatementKind::MuRead { keys, .. } => keys.iter().for_each(one),
            StatementKind::MuWrite { keys, values, .. } => keys.iter().chain(values).for_each(one),
            StatementKind::RegisterRead { index, .. }
            | StatementKind::Count { index, .. }
            | StatementKind::ExecuteMeter { index, .. } => one(index),
            StatementKind::RegisterWrite { index, value, .. } => [index, value].into_iter().for_each(one),
            StatementKind::Hash { base, max, data, .. } => [base, max].into_iter().chain(data).for_each(one),
            StatementKind::Checksum { data, .. } => data.iter().for_each(one),
            StatementKind::Random { low, high, .. } => [low, high].into_iter().for_each(one),
            StatementKind::Advance { bits } => one(bits),
            StatementKind::Verify { condition, error } => [condition, error].into_iter().for_each(one),
            StatementKind::ExtractNext { stack } => with(program.stacks[*stack as usize].next),
            StatementKind::Emit { header } => {
                let header = &program.headers[*header as usize];
                with(header.valid);
                header.fields.iter().for_each(|field| with(*field));
            }
            StatementKind::Scope { .. }
            | StatementKind::Leave
            | StatementKind::Exit
            | StatementKind::Extract { .. }
            | StatementKind::Lookahead { .. } => {}
        }
    }

    /// Fields that the statement itself writes, not those of what it holds or of a table's actions.
    pub fn writes(&self, program: &Program, with: &mut dyn FnMut(FieldId)) {
        match self {
            StatementKind::Compute { to, .. }
            | StatementKind::RegisterRead { to, .. }
            | StatementKind::ExecuteMeter { to, .. }
            | StatementKind::Hash { to, .. }
            | StatementKind::Checksum { to, .. }
            | StatementKind::Random { to, .. } => with(*to),
            StatementKind::MuRead { to, .. } | StatementKind::Lookahead { to } => {
                to.iter().for_each(|field| with(*field));
            }
            StatementKind::Apply { hit, action_run, .. } => {
                hit.iter().chain(action_run).for_each(|id| with(*id))
            }
            StatementKind::Verify { .. } => with(program.standard.parser_error),
            StatementKind::Extract { header } => program.extracted(*header, with),
            StatementKind::ExtractNext { stack } => {
                let stack = &program.stacks[*stack as usize];
                with(stack.next);
                stack.headers.iter().for_each(|header| program.extracted(*header, with));
            }
            _ => {}
        }
    }
}

impl Program {
    fn extracted(&self, header: u32, with: &mut dyn FnMut(FieldId)) {
        let header = &self.headers[header as usize];
        with(header.valid);
        header.fields.iter().for_each(|field| with(*field));
    }

    /// Fields that these statements, and actions of tables that they apply, may write.
    pub fn visit_writes(&self, body: &[Statement], with: &mut dyn FnMut(FieldId)) {
        self.visit(body, &mut |kind| kind.writes(self, with));
    }

    /// Shows every statement in these, and in actions of tables that they apply.
    pub fn visit(&self, body: &[Statement], with: &mut dyn FnMut(&StatementKind)) {
        for statement in body {
            with(&statement.kind);
            match &statement.kind {
                StatementKind::If { then, otherwise, .. } => {
                    self.visit(then, with);
                    self.visit(otherwise, with);
                }
                StatementKind::Scope { body } => self.visit(body, with),
                StatementKind::Apply { table, .. } => {
                    for action in &self.tables[*table as usize].actions {
                        self.visit(&self.actions[*action as usize].body, with);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Shows every statement in these bodies with its number, from 0: those that hold others before what they hold. It does not go
/// into the actions of tables that they apply.
pub fn visit_numbered<'a>(
    bodies: impl IntoIterator<Item = &'a Vec<Statement>>,
    with: &mut dyn FnMut(u32, &'a Statement),
) {
    fn walk<'a>(body: &'a [Statement], number: &mut u32, with: &mut dyn FnMut(u32, &'a Statement)) {
        for statement in body {
            with(*number, statement);
            *number += 1;
            match &statement.kind {
                StatementKind::If { then, otherwise, .. } => {
                    walk(then, number, with);
                    walk(otherwise, number, with);
                }
                StatementKind::Scope { body } => walk(body, number, with),
                _ => {}
            }
        }
    }
    let mut number = 0;
    bodies.into_iter().for_each(|body| walk(body, &mut number, with));
}

/// Shows every statement in these, those that hold others after what they hold.
pub fn visit_mut(body: &mut [Statement], with: &mut dyn FnMut(&mut Statement)) {
    for statement in body {
        match &mut statement.kind {
            StatementKind::If { then, otherwise, .. } => {
                visit_mut(then, with);
                visit_mut(otherwise, with);
            }
            StatementKind::Scope { body } => visit_mut(body, with),
            _ => {}
        }
        with(statement);
    }
}
