//! Which fields are read behind a place before they are written.

use crate::ir::{FieldId, Operand, Program, Statement, StatementKind};

/// A bit for each field.
pub type Live = Vec<bool>;

/// Walks backwards through the statements of some halves of stages.
pub struct Liveness<'a> {
    /// The program.
    pub program: &'a Program,
    /// Statements of earlier halves are as if they were not there.
    pub from_half: u16,
    /// What is live where the block ends.
    pub at_end: Live,
}

impl Liveness<'_> {
    /// Makes of what is live behind the statements what is live before them; `at_leave` is live behind the scope.
    pub fn body(&self, body: &[Statement], live: &mut Live, at_leave: &Live) {
        for statement in body.iter().rev() {
            self.statement(statement, live, at_leave);
        }
    }

    fn statement(&self, statement: &Statement, live: &mut Live, at_leave: &Live) {
        match &statement.kind {
            StatementKind::If { condition, then, otherwise } => {
                let mut other = live.clone();
                self.body(then, live, at_leave);
                self.body(otherwise, &mut other, at_leave);
                join(live, &other);
                if let Operand::Field(field) = condition {
                    live[*field as usize] = true;
                }
            }
            StatementKind::Scope { body } => {
                let at_leave = live.clone();
                self.body(body, live, &at_leave);
            }
            StatementKind::Leave => live.clone_from(at_leave),
            StatementKind::Exit => live.clone_from(&self.at_end),
            StatementKind::Apply { table, .. } => {
                let behind = live.clone();
                live.iter_mut().for_each(|live| *live = false);
                for action in &self.program.tables[*table as usize].actions {
                    let mut before = behind.clone();
                    self.body(&self.program.actions[*action as usize].body, &mut before, &behind);
                    join(live, &before);
                }
                self.own(statement, live);
            }
            _ => self.own(statement, live),
        }
    }

    fn own(&self, statement: &Statement, live: &mut Live) {
        if statement.half() < self.from_half {
            return;
        }
        statement.kind.writes(self.program, &mut |field: FieldId| live[field as usize] = false);
        statement.kind.reads(self.program, &mut |field| live[field as usize] = true);
    }
}

fn join(live: &mut Live, other: &Live) {
    live.iter_mut().zip(other).for_each(|(live, other)| *live |= *other);
}
