//! Statements.

use std::collections::HashSet;
use std::rc::Rc;

use names::nearest;

use crate::ast::{Expr, ExprKind, Name, Stmt, StmtKind, SwitchCase};
use crate::diagnostic::Checked;
use crate::ir::{Binary, Compute, Constant, FieldId, FieldKind, Operand, Statement, StatementKind};
use crate::source::Span;

use super::arguments::applies;
use super::types::{Entity, Place, TableEntity, Target, Ty, Value};
use super::{Checker, MAX_STATEMENTS, Where};

/// Bits of the place of an action in a table's list.
const ACTION_WIDTH: u32 = 16;

impl Checker<'_> {
    pub(super) fn statements(&mut self, statements: &[Stmt]) {
        self.scoped(|checker| checker.statements_here(statements));
    }

    /// In the scope that is open: what they declare is seen behind them.
    pub(super) fn statements_here(&mut self, statements: &[Stmt]) {
        for statement in statements {
            if self.statements > MAX_STATEMENTS {
                self.too_many_statements();
            }
            if self.sink.is_full() || self.too_many.is_some() {
                return;
            }
            self.written_at(statement.span, |checker| checker.statement(statement));
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        match &statement.kind {
            StmtKind::Empty => {}
            StmtKind::Block(statements) => self.statements(statements),
            // A mistake was reported, and the statement is left out.
            StmtKind::Assign(target, value) => {
                self.ordered(&[value], |checker| checker.assignment(target, value).ok());
            }
            StmtKind::Call(call) => {
                self.ordered(&[call], |checker| checker.expression(call).ok());
            }
            StmtKind::If(condition, then, otherwise) => {
                self.conditional(condition, then, otherwise.as_deref())
            }
            StmtKind::Switch(subject, cases) => {
                let _ = self.switch(subject, cases, statement.span);
            }
            StmtKind::Variable(variable) => {
                let value: Vec<&Expr> = variable.value.iter().collect();
                self.ordered(&value, |checker| checker.variable(variable));
            }
            StmtKind::Return => {
                let is_outermost = self.calls == 0 && self.place != Where::Action;
                let leaves = if is_outermost { StatementKind::Exit } else { StatementKind::Leave };
                let places = [Where::Control, Where::Action, Where::Checksum, Where::Deparser];
                if self.in_place(&places, "`return`", statement.span).is_ok() {
                    self.emit(leaves);
                }
            }
            StmtKind::Exit => {
                if self.in_place(&[Where::Control, Where::Action], "`exit`", statement.span).is_ok() {
                    // What cannot be copied out was reported.
                    let _ = self.exit();
                }
            }
        }
    }

    /// Runs `inner` for a statement's own expressions.
    fn ordered<T>(&mut self, exprs: &[&Expr], inner: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.in_order, exprs.iter().any(|expr| applies(expr)));
        let result = inner(self);
        self.in_order = outer;
        result
    }

    fn assignment(&mut self, target: &Expr, value: &Expr) -> Checked<()> {
        let target = match self.target(target) {
            Ok(target) => target,
            Err(reported) => {
                // For the mistakes on the right.
                self.expression(value)?;
                return Err(reported);
            }
        };
        match &target {
            Target::Place(place) => self.assign_expression(place, value),
            Target::Slice { high, low, .. } => {
                let from = self.operand(value, &Ty::Bit(high - low + 1))?;
                self.store(&target, from, value.span)
            }
        }
    }

    pub(super) fn assign_expression(&mut self, place: &Rc<Place>, expr: &Expr) -> Checked<()> {
        let value = self.expression(expr)?;
        let value = self.coerced(value, &place.ty(), expr.span)?;
        // A list may name what it overwrites.
        let value = match value {
            Value::Made(of, items) => Value::Made(of, self.apart(items, place)),
            other => other,
        };
        self.assign(place, value, expr.span)
    }

    /// The values of a list, copied where writing the place would change them.
    fn apart(&mut self, items: Vec<Value>, place: &Rc<Place>) -> Vec<Value> {
        let mut written = HashSet::new();
        self.fields_of(place, &mut written);
        let keep = |checker: &mut Self, item| {
            let mut read = HashSet::new();
            checker.fields_of_value(&item, &mut read);
            if read.is_disjoint(&written) { item } else { checker.kept(item) }
        };
        items.into_iter().map(|item| keep(self, item)).collect()
    }

    pub(super) fn assign(&mut self, place: &Rc<Place>, value: Value, span: Span) -> Checked<()> {
        let value = self.coerced(value, &place.ty(), span)?;
        match (&**place, value) {
            (Place::Unknown(reported), _) => return Err(*reported),
            (Place::Scalar(id, _), Value::Scalar(from, _)) => self.copy(*id, from),
            (Place::Struct(_, places) | Place::Header(_, _, places), Value::Made(_, items)) => {
                self.set_valid(place, true);
                for (place, item) in places.iter().zip(items) {
                    self.assign(place, item, span)?;
                }
            }
            (Place::Header(..), Value::Invalid(_)) => self.set_valid(place, false),
            (to, Value::Whole(from)) => return self.copy_place(to, &from, span),
            (to, other) => {
                let what = format!("a value of type {} for a place of type {}", other.ty(), to.ty());
                return Err(self.sink.internal(span, &what));
            }
        }
        Ok(())
    }

    /// Sets whether a header is valid; what is no header stays as it is.
    pub(super) fn set_valid(&mut self, place: &Place, is_valid: bool) {
        if let Place::Header(id, ..) = place {
            let valid = self.program.headers[*id as usize].valid;
            self.copy(valid, Operand::Constant(Constant::new(u128::from(is_valid), 1)));
        }
    }

    pub(super) fn copy_place(&mut self, to: &Place, from: &Place, span: Span) -> Checked<()> {
        match (to, from) {
            (Place::Scalar(to, _), Place::Scalar(from, _)) => self.copy(*to, Operand::Field(*from)),
            (Place::Struct(..), Place::Struct(..)) => {}
            (Place::Header(to_id, ..), Place::Header(from_id, ..)) => {
                let valid = |checker: &Self, id: u32| checker.program.headers[id as usize].valid;
                let (to_valid, from_valid) = (valid(self, *to_id), valid(self, *from_id));
                self.copy(to_valid, Operand::Field(from_valid));
            }
            (Place::Stack(to_id, ..), Place::Stack(from_id, ..)) => {
                let next = |checker: &Self, id: u32| checker.program.stacks[id as usize].next;
                let (to_next, from_next) = (next(self, *to_id), next(self, *from_id));
                self.copy(to_next, Operand::Field(from_next));
            }
            (Place::Unknown(reported), _) | (_, Place::Unknown(reported)) => return Err(*reported),
            _ => {
                let what = format!("a copy from {} to {}", from.ty(), to.ty());
                return Err(self.sink.internal(span, &what));
            }
        }
        for (to, from) in to.parts().iter().zip(from.parts()) {
            self.copy_place(to, from, span)?;
        }
        Ok(())
    }

    fn conditional(&mut self, condition: &Expr, then: &Stmt, otherwise: Option<&Stmt>) {
        let condition = self.ordered(&[condition], |checker| checker.operand(condition, &Ty::Bool));
        let ((), then) = self.captured(|checker| checker.statements(std::slice::from_ref(then)));
        let ((), otherwise) = self.captured(|checker| {
            if let Some(otherwise) = otherwise {
                checker.statements(std::slice::from_ref(otherwise));
            }
        });
        if let Ok(condition) = condition {
            self.branch(condition, then, otherwise);
        }
    }

    /// An `if` whose condition stays what it is while its bodies run: stages of a pipeline read it one by one.
    fn branch(&mut self, condition: Operand, then: Vec<Statement>, otherwise: Vec<Statement>) {
        let condition = match condition {
            Operand::Field(field) if self.is_written(field, &then) || self.is_written(field, &otherwise) => {
                self.compute(Compute::Copy { from: condition }, 1)
            }
            other => other,
        };
        self.emit(StatementKind::If { condition, then, otherwise });
    }

    fn is_written(&self, field: FieldId, body: &[Statement]) -> bool {
        let is_variable =
            self.program.fields.get(field as usize).is_some_and(|field| field.kind != FieldKind::Temporary);
        let mut is_written = false;
        if is_variable {
            self.program.visit_writes(body, &mut |written| is_written |= written == field);
        }
        is_written
    }

    fn switch(&mut self, subject: &Expr, cases: &[SwitchCase], span: Span) -> Checked<()> {
        if let ExprKind::Member(of, name) = &subject.kind
            && &*name.text == "action_run"
            && let Some(table) = self.applied(of)
        {
            let to = self.temporary(ACTION_WIDTH);
            self.apply_table(&table, None, Some(to), span)?;
            return self
                .cases(Operand::Field(to), cases, &|checker, label| checker.action_label(&table, label));
        }
        let (subject, ty) =
            self.ordered(&[subject], |checker| checker.scalar_operand(subject, "what is switched on"))?;
        self.cases(subject, cases, &|checker, label| checker.known(label, &ty))
    }

    fn action_label(&mut self, table: &TableEntity, label: &Expr) -> Checked<Constant> {
        let ExprKind::Name(name) = &label.kind else {
            return self.sink.error(label.span, "this is the name of an action of the table").refused();
        };
        match table.actions.iter().position(|action| action.name == name.text) {
            Some(number) => Ok(Constant::new(number as u128, ACTION_WIDTH)),
            None => {
                let near = nearest(&name.text, table.actions.iter().map(|action| &*action.name));
                let help = near.map(|near| format!("did you mean `{near}`?"));
                let message = format!("`{}` is none of the table's actions", name.text);
                let error = self.sink.error(name.span, message);
                error.help = help;
                error.refused()
            }
        }
    }

    fn cases(
        &mut self,
        subject: Operand,
        cases: &[SwitchCase],
        constant: &dyn Fn(&mut Self, &Expr) -> Checked<Constant>,
    ) -> Checked<()> {
        let mut labels: Vec<Constant> = Vec::new();
        let mut has_default = false;
        let mut groups: Vec<(Option<Operand>, Vec<Statement>)> = Vec::new();
        let mut default_body = Vec::new();
        let mut pending: Option<Operand> = None;
        let mut is_default_pending = false;
        for case in cases {
            if has_default {
                return self.sink.error(case.span, "`default` is the last case").refused();
            }
            match &case.label {
                None => (has_default, is_default_pending) = (true, true),
                Some(label) => {
                    let Ok(value) = constant(self, label) else { continue };
                    if labels.contains(&value) {
                        self.sink.error(label.span, "this case is there already").label("never reached");
                        continue;
                    }
                    labels.push(value);
                    let is_it = self.truth(Binary::Equal, subject, Operand::Constant(value));
                    pending = Some(match pending {
                        None => is_it,
                        Some(before) => self.truth(Binary::Or, before, is_it),
                    });
                }
            }
            let Some(body) = &case.body else { continue };
            let ((), body) = self.captured(|checker| checker.statements(std::slice::from_ref(body)));
            if is_default_pending {
                default_body = body;
            } else {
                groups.push((pending.take(), body));
            }
        }
        let mut otherwise = default_body;
        for (condition, then) in groups.into_iter().rev() {
            // A group all of whose labels have mistakes has no condition.
            let Some(condition) = condition else { continue };
            let ((), inner) = self.captured(|checker| checker.branch(condition, then, otherwise));
            otherwise = inner;
        }
        self.body.extend(otherwise);
        Ok(())
    }

    /// The table of `table.apply()`.
    fn applied(&self, expr: &Expr) -> Option<Rc<TableEntity>> {
        let ExprKind::Call(callee, _, arguments) = &expr.kind else { return None };
        let ExprKind::Member(of, method) = &callee.kind else { return None };
        let ExprKind::Name(name) = &of.kind else { return None };
        match self.find(&name.text) {
            Some(Entity::Table(table)) if &*method.text == "apply" && arguments.is_empty() => {
                Some(Rc::clone(table))
            }
            _ => None,
        }
    }

    /// `table.apply().hit` or `.miss`, if it is that.
    pub(super) fn result_of_apply(&mut self, of: &Expr, name: &Name) -> Option<Checked<Value>> {
        let table = self.applied(of)?;
        Some(self.result_of_table(&table, of.span, name))
    }

    fn result_of_table(&mut self, table: &TableEntity, span: Span, name: &Name) -> Checked<Value> {
        let is_miss = match &*name.text {
            "hit" => false,
            "miss" => true,
            "action_run" => {
                return self
                    .sink
                    .error(name.span, "`action_run` is what a `switch` is about")
                    .help("write `switch (table.apply().action_run)`")
                    .refused();
            }
            _ => {
                let help = nearest(&name.text, ["hit", "miss", "action_run"])
                    .map(|near| format!("did you mean `{near}`?"));
                let message = format!("what a table gives has no field `{}`", name.text);
                let error = self.sink.error(name.span, message);
                error.help = help;
                return error.refused();
            }
        };
        let hit = self.temporary(1);
        self.apply_table(table, Some(hit), None, span)?;
        let hit = Operand::Field(hit);
        Ok(if is_miss { self.inverted(hit, Ty::Bool) } else { Value::Scalar(hit, Ty::Bool) })
    }

    pub(super) fn apply_table(
        &mut self,
        table: &TableEntity,
        hit: Option<FieldId>,
        action_run: Option<FieldId>,
        span: Span,
    ) -> Checked<()> {
        self.in_place(&[Where::Control], "applying a table", span)?;
        self.is_unconditional(span)?;
        for statement in &table.prelude {
            self.emit(statement.kind.clone());
        }
        self.emit(StatementKind::Apply { table: table.id, hit, action_run });
        Ok(())
    }
}
