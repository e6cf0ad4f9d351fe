//! Arguments are copied in where a call begins, and copied out where it ends (P4-16 §6.8).
//!
//! All calls go through [`Checker::called`]: actions that are called, actions with arguments in a table's list, controls
//! that a control applies. Arguments are evaluated from left to right, and then copied to places of their own. What is
//! given for `out` begins invalid, all its fields 0. When the call ends, by its last statement, `return` or `exit`, what
//! is given for `out` and `inout` is copied back from left to right.
//!
//! A control sees its parameters and what it declares, and nothing else of its caller. So it may work on the argument
//! itself where no other argument of the call names a part of it that one of the two writes: nobody can tell the
//! difference. An action sees the variables of its control as well, and always gets copies; the passes take out those
//! that make no difference.

use std::collections::HashSet;
use std::rc::Rc;

use crate::ast::{Direction, Expr, Parameter};
use crate::diagnostic::{Checked, Reported};
use crate::ir::{Constant, FieldId, FieldKind, Operand, Statement, StatementKind};

use crate::source::Span;

use super::Checker;
use super::types::{Access, Entity, Frame, Place, Target, Ty, Value};

/// What is called.
pub(super) struct Call<'c> {
    /// Those parameters for which arguments are given.
    pub parameters: Vec<&'c Parameter>,
    /// Where.
    pub span: Span,
    /// How many scopes the types of its parameters see.
    pub scope: usize,
    /// What names of its fields begin with.
    pub path: String,
    /// Whether it sees variables of the caller.
    pub sees_caller: bool,
}

/// An argument, evaluated.
enum Argument {
    In(Value),
    /// What is written, and with `inout` what it holds.
    Out(Target, Option<Value>),
    Wrong(Reported),
}

impl Argument {
    fn is_written(&self) -> bool {
        matches!(self, Argument::Out(..))
    }

    /// All containers that it names.
    fn fields(&self, checker: &Checker<'_>) -> HashSet<FieldId> {
        let mut fields = HashSet::new();
        match self {
            Argument::In(value) => checker.fields_of_value(value, &mut fields),
            Argument::Out(Target::Place(place) | Target::Slice { place, .. }, _) => {
                checker.fields_of(place, &mut fields);
            }
            Argument::Wrong(_) => {}
        }
        fields
    }
}

impl Checker<'_> {
    /// Writes a call out here. `body` declares the parameters, as the entities that it is given, and what is done.
    pub(super) fn called(
        &mut self,
        call: &Call<'_>,
        arguments: &[Expr],
        body: impl FnOnce(&mut Self, Vec<Entity>) -> Checked<()>,
    ) -> Checked<()> {
        let (bound, out) = self.bind(call, arguments);
        self.last_frame += 1;
        self.frames.push(Frame { id: self.last_frame, span: call.span, out });
        let in_order = std::mem::take(&mut self.in_order);
        let (done, statements) = self.captured(|checker| body(checker, bound));
        self.in_order = in_order;
        self.inline(statements);
        if let Some(frame) = self.frames.pop() {
            self.copy_out(&frame)?;
        }
        done
    }

    /// `exit` ends all calls, the innermost first, and each copies out.
    pub(super) fn exit(&mut self) -> Checked<()> {
        let frames = std::mem::take(&mut self.frames);
        let copied = frames.iter().rev().try_for_each(|frame| self.copy_out(frame));
        self.frames = frames;
        self.emit(StatementKind::Exit);
        copied
    }

    /// Names the calls that an `exit` here would end with something to copy out; 0 if there are none.
    pub(super) fn pending(&self) -> u32 {
        self.frames.iter().rev().find(|frame| !frame.out.is_empty()).map_or(0, |frame| frame.id)
    }

    fn copy_out(&mut self, frame: &Frame) -> Checked<()> {
        for (target, from) in &frame.out {
            match (target, &**from) {
                (Target::Place(to), from) => self.copy_place(to, from, frame.span)?,
                (slice, Place::Scalar(from, _)) => self.store(slice, Operand::Field(*from), frame.span)?,
                (_, Place::Unknown(reported)) => return Err(*reported),
                (_, from) => {
                    return Err(self.sink.internal(frame.span, &format!("bits of a {}", from.ty())));
                }
            }
        }
        Ok(())
    }

    /// Statements of what was called; `leave` in them leaves them only.
    fn inline(&mut self, body: Vec<Statement>) {
        if crate::ir::leaves(&body) {
            self.emit(StatementKind::Scope { body });
        } else {
            self.body.extend(body);
        }
    }

    /// What each parameter stands for, and what is to be copied out.
    fn bind(&mut self, call: &Call<'_>, arguments: &[Expr]) -> (Vec<Entity>, Vec<(Target, Rc<Place>)>) {
        let pairs = || call.parameters.iter().zip(arguments);
        let types: Vec<Ty> = pairs()
            .map(|(parameter, _)| self.at_scope(call.scope, |checker| checker.ty(&parameter.ty)))
            .collect();
        let mut given: Vec<Argument> = Vec::new();
        for ((parameter, argument), ty) in pairs().zip(&types) {
            given.push(self.evaluated(parameter.direction, ty, argument));
        }
        let is_copied = |checker: &Self| -> Vec<bool> {
            let fields: Vec<_> = given.iter().map(|argument| argument.fields(checker)).collect();
            let meet = |a: usize, b: usize| {
                a != b
                    && (given[a].is_written() || given[b].is_written())
                    && !fields[a].is_disjoint(&fields[b])
            };
            (0..given.len()).map(|a| (0..given.len()).any(|b| meet(a, b))).collect()
        };
        let is_copied = match call.sees_caller || self.in_order {
            true => vec![true; given.len()],
            false => is_copied(self),
        };
        let mut out = Vec::new();
        let mut bound = Vec::new();
        for (at, (((parameter, argument), ty), given)) in pairs().zip(&types).zip(given).enumerate() {
            let path = format!("{}.{}", call.path, parameter.name.text);
            let local = |checker: &mut Self| checker.place(ty, &path, FieldKind::Metadata, argument.span);
            bound.push(match given {
                Argument::Wrong(reported) => Entity::Wrong(reported),
                Argument::In(value @ Value::Scalar(Operand::Constant(_), _)) => Entity::Constant(value),
                Argument::In(Value::Whole(place)) if !is_copied[at] && place.ty().is(ty) => {
                    Entity::Place(place, Access::ReadOnly)
                }
                Argument::In(value) => {
                    let local = local(self);
                    match self.assign(&local, value, argument.span) {
                        Ok(()) => Entity::Place(local, Access::ReadOnly),
                        Err(reported) => Entity::Wrong(reported),
                    }
                }
                Argument::Out(Target::Place(place), value) if !is_copied[at] => {
                    if value.is_none() {
                        self.reset(&place);
                    }
                    Entity::Place(place, Access::ReadWrite)
                }
                Argument::Out(target, value) => {
                    let local = local(self);
                    let done = match value {
                        Some(value) => self.assign(&local, value, argument.span),
                        None => {
                            self.reset(&local);
                            Ok(())
                        }
                    };
                    out.push((target, Rc::clone(&local)));
                    match done {
                        Ok(()) => Entity::Place(local, Access::ReadWrite),
                        Err(reported) => Entity::Wrong(reported),
                    }
                }
            });
        }
        (bound, out)
    }

    fn evaluated(&mut self, direction: Direction, ty: &Ty, argument: &Expr) -> Argument {
        let evaluated = match direction {
            Direction::None | Direction::In => self.given_in(ty, argument),
            Direction::Out | Direction::InOut => self.given_out(direction, ty, argument),
        };
        evaluated.unwrap_or_else(Argument::Wrong)
    }

    fn given_in(&mut self, ty: &Ty, argument: &Expr) -> Checked<Argument> {
        let value = self.expression(argument)?;
        self.coerced(value, ty, argument.span).map(Argument::In)
    }

    fn given_out(&mut self, direction: Direction, ty: &Ty, argument: &Expr) -> Checked<Argument> {
        let target = self.target(argument)?;
        let found = match &target {
            Target::Place(place) => place.ty(),
            Target::Slice { high, low, .. } => Ty::Bit(high - low + 1),
        };
        if let Ty::Unknown(reported) = found {
            return Err(reported);
        }
        if let Ty::Unknown(reported) = ty {
            return Err(*reported);
        }
        if !found.is(ty) {
            return self.sink.error(argument.span, format!("expected {ty}, found {found}")).refused();
        }
        let value = match direction {
            Direction::InOut => Some(self.expression(argument)?),
            _ => None,
        };
        Ok(Argument::Out(target, value))
    }

    /// Makes a value as it is before anything was written: headers invalid, fields 0.
    pub(super) fn reset(&mut self, place: &Place) {
        let mut fields = HashSet::new();
        self.fields_of(place, &mut fields);
        let mut fields: Vec<FieldId> = fields.into_iter().collect();
        fields.sort_unstable();
        for field in fields {
            let width = self.program.fields[field as usize].width;
            self.copy(field, Operand::Constant(Constant::new(0, width)));
        }
    }

    /// All containers of a place: its fields, and what says whether headers are valid.
    pub(super) fn fields_of(&self, place: &Place, to: &mut HashSet<FieldId>) {
        match place {
            Place::Scalar(id, _) => {
                to.insert(*id);
            }
            Place::Header(id, ..) => {
                to.insert(self.program.headers[*id as usize].valid);
            }
            Place::Stack(id, ..) => {
                to.insert(self.program.stacks[*id as usize].next);
            }
            Place::Struct(..) | Place::Unknown(_) => {}
        }
        place.parts().iter().for_each(|place| self.fields_of(place, to));
    }

    pub(super) fn fields_of_value(&self, value: &Value, to: &mut HashSet<FieldId>) {
        match value {
            Value::Scalar(Operand::Field(field), _) => {
                to.insert(*field);
            }
            Value::Whole(place) => self.fields_of(place, to),
            Value::List(items) | Value::Made(_, items) => {
                items.iter().for_each(|item| self.fields_of_value(item, to));
            }
            Value::Fields(fields) => fields.iter().for_each(|(_, item)| self.fields_of_value(item, to)),
            Value::Scalar(Operand::Constant(_), _) | Value::Integer(_) | Value::Invalid(_) | Value::Void => {}
        }
    }

    /// A value that stays what it is, whatever is written to what it was read from.
    pub(super) fn kept(&mut self, value: Value) -> Value {
        match value {
            Value::Scalar(from @ Operand::Field(field), ty)
                if self.program.fields[field as usize].kind != FieldKind::Temporary =>
            {
                let width = ty.width().unwrap_or(1);
                Value::Scalar(self.compute(crate::ir::Compute::Copy { from }, width), ty)
            }
            Value::Whole(from) => {
                let path = format!("%{}", self.program.fields.len());
                let to = self.place(&from.ty(), &path, FieldKind::Temporary, Span::default());
                match self.copy_place(&to, &from, Span::default()) {
                    Ok(()) => Value::Whole(to),
                    Err(reported) => Value::Whole(Rc::new(Place::Unknown(reported))),
                }
            }
            Value::List(items) => Value::List(items.into_iter().map(|item| self.kept(item)).collect()),
            Value::Made(of, items) => {
                Value::Made(of, items.into_iter().map(|item| self.kept(item)).collect())
            }
            Value::Fields(fields) => {
                let kept = fields.into_iter().map(|(name, item)| (name, self.kept(item)));
                Value::Fields(kept.collect())
            }
            other => other,
        }
    }
}

/// Whether an expression applies a table, which may change what it reads elsewhere.
pub(super) fn applies(expr: &Expr) -> bool {
    use crate::ast::ExprKind as Kind;
    match &expr.kind {
        Kind::Member(of, _) => {
            let is_apply =
                |callee: &Expr| matches!(&callee.kind, Kind::Member(_, name) if &*name.text == "apply");
            matches!(&of.kind, Kind::Call(callee, ..) if is_apply(callee)) || applies(of)
        }
        Kind::Index(a, b) | Kind::Binary(_, a, b) | Kind::Mask(a, b) | Kind::Range(a, b) => {
            applies(a) || applies(b)
        }
        Kind::Slice(a, b, c) | Kind::Choice(a, b, c) => applies(a) || applies(b) || applies(c),
        Kind::Unary(_, of) | Kind::Cast(_, of) => applies(of),
        Kind::Call(callee, _, arguments) => applies(callee) || arguments.iter().any(applies),
        Kind::List(items) => items.iter().any(applies),
        Kind::Fields(fields) => fields.iter().any(|(_, value)| applies(value)),
        Kind::Number { .. }
        | Kind::Bool(_)
        | Kind::Text
        | Kind::Name(_)
        | Kind::ErrorType
        | Kind::Invalid
        | Kind::Any => false,
    }
}
