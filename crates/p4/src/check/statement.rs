//! Statements.

use std::collections::HashSet;
use std::rc::Rc;

use crate::ast::{Expr, ExprKind, Name, Stmt, StmtKind, SwitchCase};
use crate::diagnostic::nearest;
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
            if self.sink.is_full() || self.statements > MAX_STATEMENTS {
                return;
            }
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        match &statement.kind {
            StmtKind::Empty => {}
            StmtKind::Block(statements) => self.statements(statements),
            StmtKind::Assign(target, value) => {
                self.ordered(&[value], |checker| checker.assignment(target, value));
            }
            StmtKind::Call(call) => self.ordered(&[call], |checker| {
                checker.expression(call);
            }),
            StmtKind::If(condition, then, otherwise) => {
                self.conditional(condition, then, otherwise.as_deref())
            }
            StmtKind::Switch(subject, cases) => self.switch(subject, cases, statement.span),
            StmtKind::Variable(variable) => {
                let value: Vec<&Expr> = variable.value.iter().collect();
                self.ordered(&value, |checker| checker.variable(variable));
            }
            StmtKind::Return => {
                let is_outermost = self.calls == 0 && self.place != Where::Action;
                let leaves = if is_outermost { StatementKind::Exit } else { StatementKind::Leave };
                if self.in_place(
                    &[Where::Control, Where::Action, Where::Checksum, Where::Deparser],
                    "`return`",
                    statement.span,
                ) {
                    self.emit(leaves);
                }
            }
            StmtKind::Exit => {
                if self.in_place(&[Where::Control, Where::Action], "`exit`", statement.span) {
                    self.exit();
                }
            }
        }
    }

    /// Runs `inner` for a statement's own expressions.
    fn ordered(&mut self, exprs: &[&Expr], inner: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.in_order, exprs.iter().any(|expr| applies(expr)));
        inner(self);
        self.in_order = outer;
    }

    fn assignment(&mut self, target: &Expr, value: &Expr) {
        let Some(target) = self.target(target) else {
            // For the mistakes on the right.
            self.expression(value);
            return;
        };
        match &target {
            Target::Place(place) => self.assign_expression(place, value),
            Target::Slice { high, low, .. } => {
                if let Some(from) = self.operand(value, &Ty::Bit(high - low + 1)) {
                    self.store(&target, from);
                }
            }
        }
    }

    pub(super) fn assign_expression(&mut self, place: &Rc<Place>, expr: &Expr) {
        let value = self.expression(expr);
        // A list may name what it overwrites.
        let value = match value {
            Value::List(items) => Value::List(self.apart(items, place)),
            other => other,
        };
        self.assign(place, value, expr.span);
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

    pub(super) fn assign(&mut self, place: &Rc<Place>, value: Value, span: Span) {
        match (&**place, value) {
            (_, Value::Unknown) => {}
            (Place::Scalar(id, ty), value) => {
                if let Value::Scalar(from, _) = self.coerced(value, ty, span) {
                    self.copy(*id, from);
                }
            }
            (Place::Struct(of, places) | Place::Header(_, of, places), Value::List(items)) => {
                if items.len() != places.len() {
                    let message =
                        format!("{} has {} fields, the list {}", of.name, places.len(), items.len());
                    self.sink.error(span, message);
                    return;
                }
                if let Place::Header(id, ..) = **place {
                    let valid = self.program.headers[id as usize].valid;
                    self.copy(valid, Operand::Constant(Constant::new(1, 1)));
                }
                for (place, item) in places.iter().zip(items) {
                    self.assign(place, item, span);
                }
            }
            (_, Value::Whole(from)) if from.ty().is(&place.ty()) || is_read_into(&from, place) => {
                self.copy_place(place, &from);
            }
            (_, value) => {
                let ty = place.ty();
                self.coerced(value, &ty, span);
            }
        }
    }

    pub(super) fn copy_place(&mut self, to: &Place, from: &Place) {
        match (to, from) {
            (Place::Scalar(to, _), Place::Scalar(from, _)) => self.copy(*to, Operand::Field(*from)),
            (Place::Struct(_, to), Place::Struct(_, from)) => self.copy_places(to, from),
            (Place::Header(to_id, _, to), Place::Header(from_id, _, from)) => {
                let valid = |checker: &Self, id: u32| checker.program.headers[id as usize].valid;
                let (to_valid, from_valid) = (valid(self, *to_id), valid(self, *from_id));
                self.copy(to_valid, Operand::Field(from_valid));
                self.copy_places(to, from);
            }
            (Place::Stack(to_id, _, to), Place::Stack(from_id, _, from)) => {
                let next = |checker: &Self, id: u32| checker.program.stacks[id as usize].next;
                let (to_next, from_next) = (next(self, *to_id), next(self, *from_id));
                self.copy(to_next, Operand::Field(from_next));
                self.copy_places(to, from);
            }
            _ => {}
        }
    }

    fn copy_places(&mut self, to: &[Rc<Place>], from: &[Rc<Place>]) {
        for (to, from) in to.iter().zip(from) {
            self.copy_place(to, from);
        }
    }

    fn conditional(&mut self, condition: &Expr, then: &Stmt, otherwise: Option<&Stmt>) {
        let mut known = None;
        self.ordered(&[condition], |checker| known = checker.operand(condition, &Ty::Bool));
        let condition = known;
        let ((), then) = self.captured(|checker| checker.statements(std::slice::from_ref(then)));
        let ((), otherwise) = self.captured(|checker| {
            if let Some(otherwise) = otherwise {
                checker.statements(std::slice::from_ref(otherwise));
            }
        });
        if let Some(condition) = condition {
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

    fn switch(&mut self, subject: &Expr, cases: &[SwitchCase], span: Span) {
        if let ExprKind::Member(of, name) = &subject.kind
            && &*name.text == "action_run"
            && let Some(table) = self.applied(of)
        {
            let to = self.temporary(ACTION_WIDTH);
            if self.apply_table(&table, None, Some(to), span) {
                self.cases(Operand::Field(to), cases, &|checker, label| checker.action_label(&table, label));
            }
            return;
        }
        let mut found = None;
        self.ordered(&[subject], |checker| found = checker.scalar_operand(subject, "what is switched on"));
        let Some((subject, ty)) = found else { return };
        self.cases(subject, cases, &|checker, label| checker.known(label, &ty));
    }

    fn action_label(&mut self, table: &TableEntity, label: &Expr) -> Option<Constant> {
        let ExprKind::Name(name) = &label.kind else {
            self.sink.error(label.span, "this is the name of an action of the table");
            return None;
        };
        match table.actions.iter().position(|action| *action == name.text) {
            Some(number) => Some(Constant::new(number as u128, ACTION_WIDTH)),
            None => {
                let near = nearest(&name.text, table.actions.iter().map(|action| &**action));
                let help = near.map(|near| format!("did you mean `{near}`?"));
                let message = format!("`{}` is none of the table's actions", name.text);
                self.sink.error(name.span, message).help = help;
                None
            }
        }
    }

    fn cases(
        &mut self,
        subject: Operand,
        cases: &[SwitchCase],
        constant: &dyn Fn(&mut Self, &Expr) -> Option<Constant>,
    ) {
        let mut labels: Vec<Constant> = Vec::new();
        let mut has_default = false;
        let mut groups: Vec<(Option<Operand>, Vec<Statement>)> = Vec::new();
        let mut default_body = Vec::new();
        let mut pending: Option<Operand> = None;
        let mut is_default_pending = false;
        for case in cases {
            if has_default {
                self.sink.error(case.span, "`default` is the last case");
                return;
            }
            match &case.label {
                None => (has_default, is_default_pending) = (true, true),
                Some(label) => {
                    let Some(value) = constant(self, label) else { continue };
                    if labels.contains(&value) {
                        self.sink.error(label.span, "this case is there already").label("never reached");
                        continue;
                    }
                    labels.push(value);
                    let is_it = self.result(Binary::Equal, subject, Operand::Constant(value), Ty::Bool);
                    let Value::Scalar(is_it, _) = is_it else { continue };
                    pending = Some(match pending {
                        None => is_it,
                        Some(before) => match self.result(Binary::Or, before, is_it, Ty::Bool) {
                            Value::Scalar(either, _) => either,
                            _ => is_it,
                        },
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
            let Some(condition) = condition else { continue };
            let ((), inner) = self.captured(|checker| checker.branch(condition, then, otherwise));
            otherwise = inner;
        }
        self.body.extend(otherwise);
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
    pub(super) fn result_of_apply(&mut self, of: &Expr, name: &Name) -> Option<Value> {
        let table = self.applied(of)?;
        let is_miss = match &*name.text {
            "hit" => false,
            "miss" => true,
            "action_run" => {
                self.sink
                    .error(name.span, "`action_run` is what a `switch` is about")
                    .help("write `switch (table.apply().action_run)`");
                return Some(Value::Unknown);
            }
            _ => {
                let help = nearest(&name.text, ["hit", "miss", "action_run"])
                    .map(|near| format!("did you mean `{near}`?"));
                let message = format!("what a table gives has no field `{}`", name.text);
                self.sink.error(name.span, message).help = help;
                return Some(Value::Unknown);
            }
        };
        let hit = self.temporary(1);
        if !self.apply_table(&table, Some(hit), None, of.span) {
            return Some(Value::Unknown);
        }
        let hit = Operand::Field(hit);
        Some(if is_miss { self.inverted(hit, Ty::Bool) } else { Value::Scalar(hit, Ty::Bool) })
    }

    pub(super) fn apply_table(
        &mut self,
        table: &TableEntity,
        hit: Option<FieldId>,
        action_run: Option<FieldId>,
        span: Span,
    ) -> bool {
        let is_here =
            self.in_place(&[Where::Control], "applying a table", span) && self.is_unconditional(span);
        if is_here {
            for statement in &table.prelude {
                self.emit(statement.kind.clone());
            }
            self.emit(StatementKind::Apply { table: table.id, hit, action_run });
        }
        is_here
    }
}

/// What a muTable gives fits in a struct that has fields of the same types in the same order.
fn is_read_into(from: &Place, to: &Place) -> bool {
    let (Place::Struct(of, from), Place::Struct(_, to)) = (from, to) else { return false };
    &*of.name == super::object::VALUES
        && from.len() == to.len()
        && from.iter().zip(to).all(|(from, to)| matches!(**to, Place::Scalar(..)) && from.ty().is(&to.ty()))
}
