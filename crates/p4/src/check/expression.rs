//! Expressions: their values and types.

use std::rc::Rc;

use names::nearest;
use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive};

use crate::ast::{Expr, ExprKind, Name, TypeExpr};
use crate::diagnostic::Checked;
use crate::ir::{Binary, Compute, Constant, MAX_WIDTH, Operand, StatementKind, ones};
use crate::semantics;
use crate::source::Span;

use super::types::{Access, ERROR_WIDTH, Entity, Place, StructType, Target, Ty, Value};
use super::{Checker, Where};

/// Bits of a number without a width, at most.
const MAX_INTEGER_BITS: u64 = 4096;

impl Checker<'_> {
    pub(super) fn expression(&mut self, expr: &Expr) -> Checked<Value> {
        let value = self.evaluate(expr)?;
        Ok(if self.in_order { self.kept(value) } else { value })
    }

    /// Evaluates an expression without a copy of its value: what it gives may be a variable, which can change.
    pub(super) fn evaluate(&mut self, expr: &Expr) -> Checked<Value> {
        match &expr.kind {
            ExprKind::Number { value, width } => self.number(value, *width, expr.span),
            ExprKind::Bool(value) => Ok(scalar(u128::from(*value), Ty::Bool)),
            ExprKind::Text => self.sink.refuse(expr.span, "a text as a value is").refused(),
            ExprKind::Name(name) => self.name_value(name),
            ExprKind::ErrorType => {
                self.sink.error(expr.span, "a type is no value").help("write `error.` and a name").refused()
            }
            ExprKind::Member(of, name) => self.member(of, name),
            ExprKind::Index(of, index) => whole_or_scalar(self.element(of, index)?),
            ExprKind::Slice(of, high, low) => self.slice(of, high, low),
            ExprKind::Unary(op, of) => self.unary(*op, of, expr.span),
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, expr.span),
            ExprKind::Choice(condition, then, otherwise) => {
                self.choice(condition, then, otherwise, expr.span)
            }
            ExprKind::Cast(ty, of) => self.cast(ty, of, expr.span),
            ExprKind::Call(callee, types, arguments) => self.call(callee, types, arguments, expr.span),
            ExprKind::List(items) => {
                // All of them, so that one run finds the mistakes of all.
                let items: Vec<_> = items.iter().map(|item| self.expression(item)).collect();
                Ok(Value::List(items.into_iter().collect::<Checked<_>>()?))
            }
            ExprKind::Fields(fields) => {
                let values: Vec<_> = fields.iter().map(|(_, value)| self.expression(value)).collect();
                let values = values.into_iter().collect::<Checked<Vec<_>>>()?;
                Ok(Value::Fields(fields.iter().map(|(name, _)| name.clone()).zip(values).collect()))
            }
            ExprKind::Invalid => Ok(Value::Invalid(None)),
            ExprKind::Mask(..) | ExprKind::Range(..) | ExprKind::Any => self
                .sink
                .error(expr.span, "a set of values has no place here")
                .label("belongs to a key")
                .refused(),
        }
    }

    /// Makes a value of this type. A number without a width gets it, a list becomes the struct or header, an
    /// enumeration with a type becomes a number of it.
    pub(super) fn coerced(&mut self, value: Value, ty: &Ty, span: Span) -> Checked<Value> {
        let found = match (value, ty) {
            (_, Ty::Unknown(reported)) => return Err(*reported),
            (Value::Integer(number), Ty::Bit(_) | Ty::Int(_)) => return self.sized(&number, ty, span),
            (value @ (Value::List(_) | Value::Fields(_)), Ty::Struct(of)) => {
                return self.made(value, of, span);
            }
            (Value::Invalid(None), Ty::Struct(of)) if of.is_header => {
                return Ok(Value::Invalid(Some(Rc::clone(of))));
            }
            (Value::Whole(from), Ty::Struct(of)) if is_read_into(&from, of) => return Ok(Value::Whole(from)),
            (Value::Scalar(operand, from @ Ty::Enum(_)), Ty::Bit(_) | Ty::Int(_))
                if from.clone().underlying().is(ty) =>
            {
                return Ok(Value::Scalar(operand, ty.clone()));
            }
            (other, _) if other.ty().is(ty) => return Ok(other),
            (other, _) => other.ty(),
        };
        let error = self.sink.error(span, format!("expected {ty}, found {found}"));
        error.label(format!("is {found}"));
        error.help = match (&found, ty) {
            (Ty::Bit(1), Ty::Bool) => Some("compare it: `== 1`".to_owned()),
            (Ty::Bit(_) | Ty::Int(_), Ty::Bit(_) | Ty::Int(_)) | (Ty::Bool, Ty::Bit(1)) => {
                Some(format!("convert it: `({ty})`"))
            }
            _ => None,
        };
        error.refused()
    }

    /// A struct or a header of a list (P4-16, "Structure-valued expressions"): each field has a value of its type.
    fn made(&mut self, value: Value, of: &Rc<StructType>, span: Span) -> Checked<Value> {
        let items = match value {
            Value::List(items) if items.len() == of.fields.len() => items,
            Value::List(items) => {
                let message = format!("{} has {} fields, the list {}", of.name, of.fields.len(), items.len());
                return self.sink.error(span, message).refused();
            }
            Value::Fields(fields) => self.by_name(fields, of, span)?,
            other => return Err(self.sink.internal(span, &format!("a list that is {}", other.ty()))),
        };
        let made = items.into_iter().zip(&of.fields).map(|(item, (_, ty))| self.coerced(item, ty, span));
        // All of them, so that one run finds the mistakes of all.
        let made: Vec<_> = made.collect();
        Ok(Value::Made(Rc::clone(of), made.into_iter().collect::<Checked<_>>()?))
    }

    /// Values that are given by name, in the order in which the fields are declared.
    fn by_name(
        &mut self,
        fields: Vec<(Name, Value)>,
        of: &Rc<StructType>,
        span: Span,
    ) -> Checked<Vec<Value>> {
        let mut found: Vec<Option<Value>> = vec![None; of.fields.len()];
        for (name, value) in fields {
            let Some(at) = of.fields.iter().position(|(field, _)| *field == name.text) else {
                let known: Vec<&str> = of.fields.iter().map(|(field, _)| &**field).collect();
                return self.no_field(&Ty::Struct(Rc::clone(of)), &name, &known);
            };
            if found[at].replace(value).is_some() {
                return self.sink.error(name.span, format!("`{}` is given twice", name.text)).refused();
            }
        }
        let missing = found.iter().position(Option::is_none);
        match missing {
            None => Ok(found.into_iter().flatten().collect()),
            Some(at) => {
                let message = format!("the field `{}` of {} is not given", of.fields[at].0, of.name);
                self.sink.error(span, message).refused()
            }
        }
    }

    /// The operand for a value of this type; if it is of another, that is an error.
    pub(super) fn operand(&mut self, expr: &Expr, ty: &Ty) -> Checked<Operand> {
        let value = self.expression(expr)?;
        match self.coerced(value, ty, expr.span)? {
            Value::Scalar(operand, _) => Ok(operand),
            other => {
                let message = format!("this has to be a number or a truth value, and is {}", other.ty());
                self.sink.error(expr.span, message).refused()
            }
        }
    }

    /// The operand and type of something that fits in a container.
    pub(super) fn scalar_operand(&mut self, expr: &Expr, what: &str) -> Checked<(Operand, Ty)> {
        match self.expression(expr)? {
            Value::Scalar(operand, ty) => Ok((operand, ty)),
            Value::Integer(_) => self
                .sink
                .error(expr.span, format!("{what} needs a width"))
                .help("write it with one, as in `8w5`")
                .refused(),
            other => self.sink.error(expr.span, format!("{what} cannot be of type {}", other.ty())).refused(),
        }
    }

    fn number(&mut self, value: &BigInt, width: Option<(u32, bool)>, span: Span) -> Checked<Value> {
        let Some((width, is_signed)) = width else { return Ok(Value::Integer(value.clone())) };
        if !(1..=MAX_WIDTH).contains(&width) {
            return self.sink.error(span, format!("a width is 1 to {MAX_WIDTH}, not {width}")).refused();
        }
        self.sized(value, &if is_signed { Ty::Int(width) } else { Ty::Bit(width) }, span)
    }

    /// A number with a width: what does not fit is cut off, with a warning.
    fn sized(&mut self, value: &BigInt, ty: &Ty, span: Span) -> Checked<Value> {
        let (Ty::Bit(width) | Ty::Int(width)) = *ty else {
            return Err(self.sink.internal(span, &format!("a number of type {ty}")));
        };
        let limit = BigInt::from(1) << width;
        let fits = match ty.is_signed() {
            true => {
                let half: BigInt = &limit >> 1;
                -&half <= *value && *value < half
            }
            false => !value.is_negative() && *value < limit,
        };
        let wrapped = wrapped(value, width);
        if !fits {
            let kept = if ty.is_signed() {
                semantics::signed(wrapped, width).to_string()
            } else {
                wrapped.to_string()
            };
            self.sink.warn(span, format!("{value} does not fit in {ty}"), format!("becomes {kept}"));
        }
        Ok(scalar_of(Constant::new(wrapped, width), ty.clone()))
    }

    fn name_value(&mut self, name: &Name) -> Checked<Value> {
        match self.lookup(name, "variable")? {
            Entity::Constant(value) => Ok(value),
            Entity::Place(place, _) => whole_or_scalar(place),
            Entity::Wrong(reported) => Err(reported),
            _ => self.sink.error(name.span, format!("`{}` is no value", name.text)).refused(),
        }
    }

    fn member(&mut self, of: &Expr, name: &Name) -> Checked<Value> {
        if let ExprKind::ErrorType = of.kind {
            return self.error_value(name);
        }
        if let ExprKind::Name(enumeration) = &of.kind
            && let Some(Entity::Type(ty)) = self.find(&enumeration.text).cloned()
        {
            return self.enum_value(&ty, name);
        }
        if let ExprKind::Member(stack, last) = &of.kind
            && &*last.text == "last"
            && let Some(place) = self.stack_of(stack)
        {
            return self.last(&place, name);
        }
        if let Some(value) = self.result_of_apply(of, name) {
            return value;
        }
        let place = match self.evaluate(of)? {
            Value::Whole(place) => place,
            Value::Made(made, values) => {
                let at = self.field_at(&made, name)?;
                return Ok(values[at].clone());
            }
            other => {
                let ty = other.ty();
                return self.sink.error(name.span, format!("a value of type {ty} has no fields")).refused();
            }
        };
        match &*place {
            Place::Struct(..) | Place::Header(..) => whole_or_scalar(self.field_of(&place, name)?),
            Place::Stack(id, _, places) => match &*name.text {
                "size" => Ok(Value::Integer(places.len().into())),
                "lastIndex" => {
                    let next = self.program.stacks[*id as usize].next;
                    let next =
                        self.compute(Compute::Resize { from: Operand::Field(next), signed: false }, 32);
                    let one = Operand::Constant(Constant::new(1, 32));
                    let index = Compute::Binary { by: Binary::Subtract, a: next, b: one };
                    Ok(Value::Scalar(self.compute(index, 32), Ty::Bit(32)))
                }
                "next" | "last" => {
                    let message =
                        format!("`{}` of a stack is used for extracting it or reading its fields", name.text);
                    self.sink.error(name.span, message).refused()
                }
                _ => self.no_field(&place.ty(), name, &["next", "last", "lastIndex", "size"]),
            },
            Place::Unknown(reported) => Err(*reported),
            Place::Scalar(..) => Err(self.sink.internal(name.span, "a number that is a whole")),
        }
    }

    /// The place, if it is a stack, without a word if it is none.
    fn stack_of(&mut self, expr: &Expr) -> Option<Rc<Place>> {
        self.quiet_place(expr).filter(|place| matches!(**place, Place::Stack(..)))
    }

    /// The place that a path of names leads to, if it does.
    pub(super) fn quiet_place(&self, expr: &Expr) -> Option<Rc<Place>> {
        match &expr.kind {
            ExprKind::Name(name) => match self.find(&name.text) {
                Some(Entity::Place(place, _)) => Some(Rc::clone(place)),
                _ => None,
            },
            ExprKind::Member(of, name) => match &*self.quiet_place(of)? {
                Place::Struct(of, places) | Place::Header(_, of, places) => {
                    let at = of.fields.iter().position(|(field, _)| *field == name.text)?;
                    places.get(at).cloned()
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// A field of the header of a stack that was extracted last.
    fn last(&mut self, stack: &Rc<Place>, name: &Name) -> Checked<Value> {
        let (Place::Stack(id, of, places), Some(first)) = (&**stack, stack.parts().first().cloned()) else {
            return Err(self.sink.internal(name.span, "a stack that is none"));
        };
        let at = self.field_at(of, name)?;
        let (field, ty) = match whole_or_scalar(self.field_of(&first, name)?)? {
            Value::Scalar(Operand::Field(field), ty) => (field, ty),
            other => {
                return Err(self.sink.internal(name.span, &format!("a header that holds {}", other.ty())));
            }
        };
        let next = Operand::Field(self.program.stacks[*id as usize].next);
        // Nothing was extracted yet: the parser rejects (P4-16, "Operations on header stacks").
        if self.place == Where::Parser
            && let Some(error) = self.program.errors.iter().position(|error| error == "StackOutOfBounds")
        {
            let zero = Operand::Constant(Constant::new(0, 16));
            let condition = self.truth(Binary::NotEqual, next, zero);
            let error = Operand::Constant(Constant::new(error as u128, ERROR_WIDTH));
            self.emit(StatementKind::Verify { condition, error });
        }
        let mut value = Operand::Field(field);
        for (number, place) in places.iter().enumerate().skip(1) {
            let Some(Place::Scalar(field, _)) = place.parts().get(at).map(|place| &**place) else {
                return Err(self.sink.internal(name.span, "headers of a stack that differ"));
            };
            let b = Operand::Constant(Constant::new(number as u128 + 1, 16));
            let condition = self.compute(Compute::Binary { by: Binary::Equal, a: next, b }, 1);
            let width = ty.width().unwrap_or(1);
            value = self.compute(
                Compute::Select { condition, then: Operand::Field(*field), otherwise: value },
                width,
            );
        }
        Ok(Value::Scalar(value, ty))
    }

    fn field_of(&mut self, place: &Rc<Place>, name: &Name) -> Checked<Rc<Place>> {
        let (Place::Struct(of, places) | Place::Header(_, of, places)) = &**place else {
            return Err(self.sink.internal(name.span, "a field of what has none"));
        };
        let at = self.field_at(of, name)?;
        Ok(Rc::clone(&places[at]))
    }

    fn field_at(&mut self, of: &Rc<StructType>, name: &Name) -> Checked<usize> {
        match of.fields.iter().position(|(field, _)| *field == name.text) {
            Some(at) => Ok(at),
            None => {
                let known: Vec<&str> = of.fields.iter().map(|(field, _)| &**field).collect();
                self.no_field(&Ty::Struct(Rc::clone(of)), name, &known)
            }
        }
    }

    fn no_field<T>(&mut self, ty: &Ty, name: &Name, known: &[&str]) -> Checked<T> {
        let help = match nearest(&name.text, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are: {}", known.join(", ")),
        };
        self.sink
            .error(name.span, format!("{ty} has no field `{}`", name.text))
            .label("no such field")
            .help(help)
            .refused()
    }

    fn error_value(&mut self, name: &Name) -> Checked<Value> {
        match self.program.errors.iter().position(|error| **error == *name.text) {
            Some(number) => Ok(scalar_of(Constant::new(number as u128, ERROR_WIDTH), Ty::Error)),
            None => {
                let known: Vec<String> = self.program.errors.clone();
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                self.no_field(&Ty::Error, name, &known)
            }
        }
    }

    fn enum_value(&mut self, ty: &Ty, name: &Name) -> Checked<Value> {
        let of = match ty {
            Ty::Enum(of) => of,
            Ty::Unknown(reported) => return Err(*reported),
            _ => return self.sink.error(name.span, format!("the type {ty} has no members")).refused(),
        };
        match of.members.iter().find(|(member, _)| *member == name.text) {
            Some((_, value)) => Ok(scalar_of(Constant::new(*value, of.width), ty.clone())),
            None => {
                let known: Vec<&str> = of.members.iter().map(|(member, _)| &**member).collect();
                self.no_field(ty, name, &known)
            }
        }
    }

    /// A header of a stack.
    fn element(&mut self, of: &Expr, index: &Expr) -> Checked<Rc<Place>> {
        let place = match self.evaluate(of)? {
            Value::Whole(place) => place,
            other => {
                let ty = other.ty();
                return self
                    .sink
                    .error(of.span, format!("{ty} has no elements"))
                    .help("bits are taken with `[high:low]`")
                    .refused();
            }
        };
        let Place::Stack(_, _, places) = &*place else {
            return self.sink.error(of.span, format!("{} has no elements", place.ty())).refused();
        };
        match self.captured(|checker| checker.expression(index)).0? {
            Value::Integer(_) | Value::Scalar(Operand::Constant(_), _) => {
                let last = places.len() as u32 - 1;
                let at = self.bounded(index, 0, last, "the index of this stack")?;
                Ok(Rc::clone(&places[at as usize]))
            }
            _ => self.sink.refuse(index.span, "an index that changes at run time is").refused(),
        }
    }

    fn bounds(&mut self, width: u32, high: &Expr, low: &Expr) -> Checked<(u32, u32)> {
        let top = self.bounded(high, 0, width - 1, "the highest bit of this slice")?;
        let bottom = self.bounded(low, 0, width - 1, "the lowest bit of this slice")?;
        if top < bottom {
            let message = format!("a slice is [high:low], and {top} is below {bottom}");
            let error = self.sink.error(high.span.to(low.span), message);
            return error.help(format!("write [{bottom}:{top}]")).refused();
        }
        Ok((top, bottom))
    }

    fn slice(&mut self, of: &Expr, high: &Expr, low: &Expr) -> Checked<Value> {
        let (from, ty) = self.scalar_operand(of, "what is sliced")?;
        let (Ty::Bit(width) | Ty::Int(width)) = ty.clone().underlying() else {
            let message = format!("bits are taken from bit<W> and int<W>, not from {ty}");
            return self.sink.error(of.span, message).refused();
        };
        let (high, low) = self.bounds(width, high, low)?;
        let ty = Ty::Bit(high - low + 1);
        if let Operand::Constant(constant) = from {
            return Ok(scalar(constant.value >> low & ones(high - low + 1), ty));
        }
        Ok(Value::Scalar(self.compute(Compute::Slice { from, high, low }, high - low + 1), ty))
    }

    fn choice(&mut self, condition: &Expr, then: &Expr, otherwise: &Expr, span: Span) -> Checked<Value> {
        let condition = self.operand(condition, &Ty::Bool);
        let (a, b) = self.conditionally(|checker| (checker.expression(then), checker.expression(otherwise)));
        // A number without a width has that of the other.
        let (a, b) = match (a?, b?) {
            (Value::Integer(_), Value::Integer(_)) => {
                return self
                    .sink
                    .error(span, "both results have no width")
                    .help("give one of them a width, as in `8w5`")
                    .refused();
            }
            (a @ Value::Integer(_), b) => (self.coerced(a, &b.ty(), then.span)?, b),
            (a, b) => {
                let ty = a.ty();
                (a, self.coerced(b, &ty, otherwise.span)?)
            }
        };
        match (condition?, a, b) {
            (Operand::Constant(known), a, b) => Ok(if known.value == 1 { a } else { b }),
            (condition, Value::Scalar(then, ty), Value::Scalar(otherwise, _)) => {
                let width = ty.width().unwrap_or(1);
                Ok(Value::Scalar(self.compute(Compute::Select { condition, then, otherwise }, width), ty))
            }
            _ => self.sink.refuse(span, "a choice between structs or headers is").help("use `if`").refused(),
        }
    }

    fn cast(&mut self, to: &TypeExpr, of: &Expr, span: Span) -> Checked<Value> {
        let to = self.ty(to);
        let value = self.expression(of)?;
        let (operand, from) = match (value, &to) {
            (_, Ty::Unknown(reported)) => return Err(*reported),
            (Value::Integer(number), Ty::Integer) => return Ok(Value::Integer(number)),
            (Value::Integer(number), Ty::Bit(bits) | Ty::Int(bits)) => {
                // A cast is there to cut off: no warning.
                return Ok(scalar_of(Constant::new(wrapped(&number, *bits), *bits), to));
            }
            (Value::Integer(number), Ty::Enum(of)) => {
                let Some(base) = of.base.clone() else { return self.no_cast(&Ty::Integer, &to, span) };
                return match self.sized(&number, &base, span)? {
                    Value::Scalar(operand, _) => Ok(Value::Scalar(operand, to)),
                    other => Ok(other),
                };
            }
            (Value::Scalar(operand, ty), _) => (operand, ty),
            (list @ (Value::List(_) | Value::Fields(_) | Value::Invalid(None)), Ty::Struct(_)) => {
                return self.coerced(list, &to, span);
            }
            (other @ (Value::Whole(_) | Value::Made(..) | Value::Invalid(_)), to) if other.ty().is(to) => {
                return Ok(other);
            }
            (other, to) => return self.no_cast(&other.ty(), to, span),
        };
        // An enumeration with a type is what its type is.
        let from = if from.is(&to) { from } else { from.underlying() };
        let is_allowed = match (&from, &to.clone().underlying()) {
            (Ty::Bit(_), Ty::Bit(_)) | (Ty::Int(_), Ty::Int(_)) if !matches!(to, Ty::Enum(_)) => true,
            (Ty::Bit(a), Ty::Int(b)) | (Ty::Int(a), Ty::Bit(b)) if !matches!(to, Ty::Enum(_)) => a == b,
            (Ty::Bool, Ty::Bit(1)) | (Ty::Bit(1), Ty::Bool) if !matches!(to, Ty::Enum(_)) => true,
            (a, b) => a.is(&to) || a.is(b),
        };
        let (true, Some(old), Some(new)) = (is_allowed, from.width(), to.width()) else {
            return self.no_cast(&from, &to, span);
        };
        let signed = from.is_signed();
        let operand = match operand {
            _ if old == new => operand,
            Operand::Constant(constant) => {
                Operand::Constant(Constant::new(semantics::resize(constant.value, old, new, signed), new))
            }
            from => self.compute(Compute::Resize { from, signed }, new),
        };
        Ok(Value::Scalar(operand, to))
    }

    fn no_cast(&mut self, from: &Ty, to: &Ty, span: Span) -> Checked<Value> {
        let error = self.sink.error(span, format!("{from} cannot be converted to {to}"));
        error.help = match (from, to) {
            (Ty::Bit(_), Ty::Int(b)) => Some(format!("first change the width, with (bit<{b}>)")),
            (Ty::Int(a), Ty::Bit(b)) if a != b => Some(format!("first change the width, with (int<{b}>)")),
            (Ty::Bit(_), Ty::Bool) => Some("compare it with `!= 0`".to_owned()),
            _ => None,
        };
        error.refused()
    }

    /// What stands on the left of `=`, or is given for `out`.
    pub(super) fn target(&mut self, expr: &Expr) -> Checked<Target> {
        match &expr.kind {
            ExprKind::Name(name) => match self.lookup(name, "variable")? {
                Entity::Place(place, Access::ReadWrite) => Ok(Target::Place(place)),
                Entity::Place(_, Access::ReadOnly) => self
                    .sink
                    .error(expr.span, format!("`{}` cannot be written", name.text))
                    .label("is given `in`")
                    .refused(),
                Entity::Wrong(reported) => Err(reported),
                _ => self.not_writable(expr.span),
            },
            ExprKind::Member(of, name) => {
                let Target::Place(place) = self.target(of)? else { return self.not_writable(expr.span) };
                match &*place {
                    Place::Struct(..) | Place::Header(..) => self.field_of(&place, name).map(Target::Place),
                    Place::Stack(..) => self
                        .sink
                        .refuse(expr.span, &format!("writing to `{}` of a stack is", name.text))
                        .help("name the header by its number")
                        .refused(),
                    Place::Unknown(reported) => Err(*reported),
                    Place::Scalar(_, ty) => {
                        self.sink.error(name.span, format!("a value of type {ty} has no fields")).refused()
                    }
                }
            }
            ExprKind::Index(of, index) => {
                // Whether it may be written is asked of what holds it.
                self.target(of)?;
                self.element(of, index).map(Target::Place)
            }
            ExprKind::Slice(of, high, low) => {
                let Target::Place(place) = self.target(of)? else {
                    return self.sink.refuse(expr.span, "writing to a slice of a slice is").refused();
                };
                let width = match place.ty() {
                    Ty::Bit(width) | Ty::Int(width) => width,
                    Ty::Unknown(reported) => return Err(reported),
                    ty => {
                        let message = format!("bits are taken from bit<W> and int<W>, not from {ty}");
                        return self.sink.error(of.span, message).refused();
                    }
                };
                let (high, low) = self.bounds(width, high, low)?;
                Ok(Target::Slice { place, high, low })
            }
            _ => self.not_writable(expr.span),
        }
    }

    fn not_writable<T>(&mut self, span: Span) -> Checked<T> {
        self.sink.error(span, "this cannot be written").label("not a variable or a field").refused()
    }

    /// Runs `inner`, which P4 evaluates under a condition only: what has effects has no place there.
    pub(super) fn conditionally<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.conditions += 1;
        let result = inner(self);
        self.conditions -= 1;
        result
    }

    /// The one place of a kind that some calls are about.
    pub(super) fn in_place(&mut self, allowed: &[Where], what: &str, span: Span) -> Checked<()> {
        if allowed.contains(&self.place) {
            return Ok(());
        }
        let here = match self.place {
            Where::Parser => "a parser",
            Where::Control => "a control",
            Where::Action => "an action",
            Where::Checksum => "a control for checksums",
            Where::Deparser => "a deparser",
        };
        self.sink.error(span, format!("{what} has no place in {here}")).refused()
    }
}

/// What a muTable gives fits in a struct that has fields of the same types in the same order.
fn is_read_into(from: &Place, to: &StructType) -> bool {
    let Place::Struct(of, from) = from else { return false };
    &*of.name == super::object::VALUES
        && !to.is_header
        && from.len() == to.fields.len()
        && from.iter().zip(&to.fields).all(|(from, (_, to))| to.width().is_some() && from.ty().is(to))
}

/// The low bits of a number.
fn wrapped(number: &BigInt, bits: u32) -> u128 {
    let limit = BigInt::from(1) << bits;
    let low = ((number % &limit) + &limit) % &limit;
    low.to_u128().unwrap_or_default()
}

pub(super) fn whole_or_scalar(place: Rc<Place>) -> Checked<Value> {
    match &*place {
        Place::Unknown(reported) => Err(*reported),
        Place::Scalar(id, ty) => Ok(Value::Scalar(Operand::Field(*id), ty.clone())),
        _ => Ok(Value::Whole(place)),
    }
}

pub(super) fn scalar(value: u128, ty: Ty) -> Value {
    let width = ty.width().unwrap_or(1);
    scalar_of(Constant::new(value, width), ty)
}

fn scalar_of(constant: Constant, ty: Ty) -> Value {
    Value::Scalar(Operand::Constant(constant), ty)
}

/// Whether a number without a width is small enough to compute with.
pub(super) fn is_moderate(value: &BigInt) -> bool {
    value.bits() <= MAX_INTEGER_BITS
}
