//! Expressions: their values and types.

use std::rc::Rc;

use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive};

use crate::ast::{Expr, ExprKind, Name, TypeExpr};
use crate::diagnostic::nearest;
use crate::ir::{Binary, Compute, Constant, MAX_WIDTH, Operand, ones};
use crate::semantics;
use crate::source::Span;

use super::types::{Access, ERROR_WIDTH, Entity, Place, Target, Ty, Value};
use super::{Checker, Where};

/// Bits of a number without a width, at most.
const MAX_INTEGER_BITS: u64 = 4096;

impl Checker<'_> {
    pub(super) fn expression(&mut self, expr: &Expr) -> Value {
        let value = self.evaluate(expr);
        if self.in_order { self.kept(value) } else { value }
    }

    /// The same, where it is only looked for what it holds: what it gives may be a variable, which can change.
    pub(super) fn evaluate(&mut self, expr: &Expr) -> Value {
        match &expr.kind {
            ExprKind::Number { value, width } => self.number(value, *width, expr.span),
            ExprKind::Bool(value) => scalar(u128::from(*value), Ty::Bool),
            ExprKind::Text => {
                self.sink.refuse(expr.span, "a text as a value is");
                Value::Unknown
            }
            ExprKind::Name(name) => self.name_value(name),
            ExprKind::ErrorType => {
                self.sink.error(expr.span, "a type is no value").help("write `error.` and a name");
                Value::Unknown
            }
            ExprKind::Member(of, name) => self.member(of, name),
            ExprKind::Index(of, index) => match self.element(of, index) {
                Some(place) => whole_or_scalar(place),
                None => Value::Unknown,
            },
            ExprKind::Slice(of, high, low) => self.slice(of, high, low),
            ExprKind::Unary(op, of) => self.unary(*op, of, expr.span),
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, expr.span),
            ExprKind::Choice(condition, then, otherwise) => {
                self.choice(condition, then, otherwise, expr.span)
            }
            ExprKind::Cast(ty, of) => self.cast(ty, of, expr.span),
            ExprKind::Call(callee, types, arguments) => self.call(callee, types, arguments, expr.span),
            ExprKind::List(items) => Value::List(items.iter().map(|item| self.expression(item)).collect()),
            ExprKind::Mask(..) | ExprKind::Range(..) | ExprKind::Any => {
                self.sink.error(expr.span, "a set of values has no place here").label("belongs to a key");
                Value::Unknown
            }
        }
    }

    /// Of this type; a number without a width gets it.
    pub(super) fn coerced(&mut self, value: Value, ty: &Ty, span: Span) -> Value {
        let found = match (&value, ty) {
            (Value::Unknown, _) | (_, Ty::Unknown) => return Value::Unknown,
            (Value::Integer(number), Ty::Bit(_) | Ty::Int(_)) => {
                return self.sized(&number.clone(), ty, span);
            }
            (Value::List(items), Ty::Struct(_)) => format!("a list of {}", items.len()),
            (Value::List(_), _) => "a list".to_owned(),
            (other, _) if other.ty().is(ty) => return value,
            (other, _) => other.ty().to_string(),
        };
        let error = self.sink.error(span, format!("expected {ty}, found {found}"));
        error.label(format!("is {found}"));
        error.help = match (&value.ty(), ty) {
            (Ty::Bit(1), Ty::Bool) => Some("compare it: `== 1`".to_owned()),
            (Ty::Bit(_) | Ty::Int(_), Ty::Bit(_) | Ty::Int(_)) | (Ty::Bool, Ty::Bit(1)) => {
                Some(format!("convert it: `({ty})`"))
            }
            _ => None,
        };
        Value::Unknown
    }

    /// The operand for a value of this type; if it is of another, that is an error.
    pub(super) fn operand(&mut self, expr: &Expr, ty: &Ty) -> Option<Operand> {
        let value = self.expression(expr);
        match self.coerced(value, ty, expr.span) {
            Value::Scalar(operand, _) => Some(operand),
            _ => None,
        }
    }

    /// The operand and type of something that fits in a container.
    pub(super) fn scalar_operand(&mut self, expr: &Expr, what: &str) -> Option<(Operand, Ty)> {
        match self.expression(expr) {
            Value::Scalar(operand, ty) => Some((operand, ty)),
            Value::Unknown => None,
            Value::Integer(_) => {
                self.sink
                    .error(expr.span, format!("{what} needs a width"))
                    .help("write it with one, as in `8w5`");
                None
            }
            other => {
                self.sink.error(expr.span, format!("{what} cannot be of type {}", other.ty()));
                None
            }
        }
    }

    fn number(&mut self, value: &BigInt, width: Option<(u32, bool)>, span: Span) -> Value {
        let Some((width, is_signed)) = width else { return Value::Integer(value.clone()) };
        if !(1..=MAX_WIDTH).contains(&width) {
            self.sink.error(span, format!("a width is 1 to {MAX_WIDTH}, not {width}"));
            return Value::Unknown;
        }
        self.sized(value, &if is_signed { Ty::Int(width) } else { Ty::Bit(width) }, span)
    }

    /// A number with a width: what does not fit is cut off, with a warning.
    fn sized(&mut self, value: &BigInt, ty: &Ty, span: Span) -> Value {
        let (Ty::Bit(width) | Ty::Int(width)) = *ty else { return Value::Unknown };
        let limit = BigInt::from(1) << width;
        let fits = match ty.is_signed() {
            true => {
                let half: BigInt = &limit >> 1;
                -&half <= *value && *value < half
            }
            false => !value.is_negative() && *value < limit,
        };
        let wrapped = ((value % &limit) + &limit) % &limit;
        let wrapped = wrapped.to_u128().unwrap_or_default();
        if !fits {
            let kept = if ty.is_signed() {
                semantics::signed(wrapped, width).to_string()
            } else {
                wrapped.to_string()
            };
            self.sink.warn(span, format!("{value} does not fit in {ty}")).label(format!("becomes {kept}"));
        }
        scalar_of(Constant::new(wrapped, width), ty.clone())
    }

    fn name_value(&mut self, name: &Name) -> Value {
        match self.lookup(name, "variable") {
            Some(Entity::Constant(value)) => value,
            Some(Entity::Place(place, _)) => whole_or_scalar(place),
            Some(_) => {
                self.sink.error(name.span, format!("`{}` is no value", name.text));
                Value::Unknown
            }
            None => Value::Unknown,
        }
    }

    fn member(&mut self, of: &Expr, name: &Name) -> Value {
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
            && let Some(Value::Whole(place)) = self.stack_of(stack)
        {
            return self.last(&place, name);
        }
        if let Some(value) = self.result_of_apply(of, name) {
            return value;
        }
        let value = self.evaluate(of);
        match &value {
            Value::Whole(place) => match &**place {
                Place::Struct(..) | Place::Header(..) => {
                    self.field_of(place, name).map_or(Value::Unknown, whole_or_scalar)
                }
                Place::Stack(id, _, places) => match &*name.text {
                    "size" => Value::Integer(places.len().into()),
                    "lastIndex" => {
                        let next = self.program.stacks[*id as usize].next;
                        let next =
                            self.compute(Compute::Resize { from: Operand::Field(next), signed: false }, 32);
                        let one = Operand::Constant(Constant::new(1, 32));
                        Value::Scalar(
                            self.compute(Compute::Binary { by: Binary::Subtract, a: next, b: one }, 32),
                            Ty::Bit(32),
                        )
                    }
                    "next" | "last" => {
                        let message = format!(
                            "`{}` of a stack is used for extracting it or reading its fields",
                            name.text
                        );
                        self.sink.error(name.span, message);
                        Value::Unknown
                    }
                    _ => self.no_field(&place.ty(), name, &["next", "last", "lastIndex", "size"]),
                },
                Place::Scalar(..) => Value::Unknown,
            },
            Value::Unknown => Value::Unknown,
            other => {
                let ty = other.ty();
                self.sink.error(name.span, format!("a value of type {ty} has no fields"));
                Value::Unknown
            }
        }
    }

    /// The value, if it is a stack, without a word if it is none.
    fn stack_of(&mut self, expr: &Expr) -> Option<Value> {
        let is_stack = |place: &Rc<Place>| matches!(**place, Place::Stack(..));
        match self.quiet_place(expr)? {
            place if is_stack(&place) => Some(Value::Whole(place)),
            _ => None,
        }
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
    fn last(&mut self, stack: &Rc<Place>, name: &Name) -> Value {
        let Place::Stack(id, of, places) = &**stack else { return Value::Unknown };
        let Some(first) = places.first().cloned() else { return Value::Unknown };
        let Some(place) = self.field_of(&first, name) else { return Value::Unknown };
        let Place::Scalar(field, ty) = &*place else { return Value::Unknown };
        let at = of.fields.iter().position(|(field, _)| *field == name.text).unwrap_or_default();
        let next = Operand::Field(self.program.stacks[*id as usize].next);
        let mut value = Operand::Field(*field);
        for (number, place) in places.iter().enumerate().skip(1) {
            let Place::Header(_, _, fields) = &**place else { continue };
            let Some(Place::Scalar(field, _)) = fields.get(at).map(|place| &**place) else { continue };
            let b = Operand::Constant(Constant::new(number as u128 + 1, 16));
            let condition = self.compute(Compute::Binary { by: Binary::Equal, a: next, b }, 1);
            let width = ty.width().unwrap_or(1);
            value = self.compute(
                Compute::Select { condition, then: Operand::Field(*field), otherwise: value },
                width,
            );
        }
        Value::Scalar(value, ty.clone())
    }

    fn field_of(&mut self, place: &Rc<Place>, name: &Name) -> Option<Rc<Place>> {
        let (Place::Struct(of, places) | Place::Header(_, of, places)) = &**place else { return None };
        match of.fields.iter().position(|(field, _)| *field == name.text) {
            Some(at) => places.get(at).cloned(),
            None => {
                let known: Vec<&str> = of.fields.iter().map(|(field, _)| &**field).collect();
                self.no_field(&place.ty(), name, &known);
                None
            }
        }
    }

    fn no_field(&mut self, ty: &Ty, name: &Name, known: &[&str]) -> Value {
        let help = match nearest(&name.text, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are: {}", known.join(", ")),
        };
        self.sink
            .error(name.span, format!("{ty} has no field `{}`", name.text))
            .label("no such field")
            .help(help);
        Value::Unknown
    }

    fn error_value(&mut self, name: &Name) -> Value {
        match self.program.errors.iter().position(|error| **error == *name.text) {
            Some(number) => scalar_of(Constant::new(number as u128, ERROR_WIDTH), Ty::Error),
            None => {
                let known: Vec<String> = self.program.errors.clone();
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                self.no_field(&Ty::Error, name, &known)
            }
        }
    }

    fn enum_value(&mut self, ty: &Ty, name: &Name) -> Value {
        let Ty::Enum(of) = ty else {
            if !ty.is_unknown() {
                self.sink.error(name.span, format!("the type {ty} has no members"));
            }
            return Value::Unknown;
        };
        match of.members.iter().find(|(member, _)| *member == name.text) {
            Some((_, value)) => scalar_of(Constant::new(*value, of.width), ty.clone()),
            None => {
                let known: Vec<&str> = of.members.iter().map(|(member, _)| &**member).collect();
                self.no_field(ty, name, &known)
            }
        }
    }

    /// A header of a stack.
    fn element(&mut self, of: &Expr, index: &Expr) -> Option<Rc<Place>> {
        let value = self.evaluate(of);
        let Value::Whole(place) = &value else {
            if !matches!(value, Value::Unknown) {
                let ty = value.ty();
                self.sink
                    .error(of.span, format!("{ty} has no elements"))
                    .help("bits are taken with `[high:low]`");
            }
            return None;
        };
        let Place::Stack(_, _, places) = &**place else {
            self.sink.error(of.span, format!("{} has no elements", place.ty()));
            return None;
        };
        match self.captured(|checker| checker.expression(index)).0 {
            Value::Integer(_) | Value::Scalar(Operand::Constant(_), _) => {
                let last = places.len() as u32 - 1;
                let at = self.bounded(index, 0, last, "the index of this stack")?;
                places.get(at as usize).cloned()
            }
            Value::Unknown => None,
            _ => {
                self.sink.refuse(index.span, "an index that changes at run time is");
                None
            }
        }
    }

    fn bounds(&mut self, width: u32, high: &Expr, low: &Expr) -> Option<(u32, u32)> {
        let top = self.bounded(high, 0, width - 1, "the highest bit of this slice")?;
        let bottom = self.bounded(low, 0, width - 1, "the lowest bit of this slice")?;
        if top < bottom {
            let message = format!("a slice is [high:low], and {top} is below {bottom}");
            self.sink.error(high.span.to(low.span), message).help(format!("write [{bottom}:{top}]"));
            return None;
        }
        Some((top, bottom))
    }

    fn slice(&mut self, of: &Expr, high: &Expr, low: &Expr) -> Value {
        let Some((from, ty)) = self.scalar_operand(of, "what is sliced") else { return Value::Unknown };
        let (Ty::Bit(width) | Ty::Int(width)) = ty else {
            self.sink.error(of.span, format!("bits are taken from bit<W> and int<W>, not from {ty}"));
            return Value::Unknown;
        };
        let Some((high, low)) = self.bounds(width, high, low) else { return Value::Unknown };
        let ty = Ty::Bit(high - low + 1);
        if let Operand::Constant(constant) = from {
            return scalar(constant.value >> low & ones(high - low + 1), ty);
        }
        Value::Scalar(self.compute(Compute::Slice { from, high, low }, high - low + 1), ty)
    }

    fn choice(&mut self, condition: &Expr, then: &Expr, otherwise: &Expr, span: Span) -> Value {
        let condition = self.operand(condition, &Ty::Bool);
        let (a, b) = self.conditionally(|checker| (checker.expression(then), checker.expression(otherwise)));
        // A number without a width has that of the other.
        let (a, b) = match (a, b) {
            (Value::Integer(_), Value::Integer(_)) => {
                self.sink
                    .error(span, "both results have no width")
                    .help("give one of them a width, as in `8w5`");
                return Value::Unknown;
            }
            (a @ Value::Integer(_), b) => (self.coerced(a, &b.ty(), then.span), b),
            (a, b) => {
                let ty = a.ty();
                let b = self.coerced(b, &ty, otherwise.span);
                (a, b)
            }
        };
        match (condition, a, b) {
            (Some(Operand::Constant(known)), a, b) => {
                if known.value == 1 {
                    a
                } else {
                    b
                }
            }
            (Some(condition), Value::Scalar(then, ty), Value::Scalar(otherwise, _)) => {
                let width = ty.width().unwrap_or(1);
                Value::Scalar(self.compute(Compute::Select { condition, then, otherwise }, width), ty)
            }
            (Some(_), Value::Whole(_), _) => {
                self.sink.refuse(span, "a choice between structs or headers is").help("use `if`");
                Value::Unknown
            }
            _ => Value::Unknown,
        }
    }

    fn cast(&mut self, to: &TypeExpr, of: &Expr, span: Span) -> Value {
        let to = self.ty(to);
        let value = self.expression(of);
        let (operand, from) = match value {
            Value::Unknown => return Value::Unknown,
            Value::Integer(number) => {
                return match &to {
                    Ty::Integer => Value::Integer(number),
                    Ty::Bit(_) | Ty::Int(_) => {
                        // A cast is there to cut off: no warning.
                        let bits = to.width().unwrap_or(1);
                        let limit = BigInt::from(1) << bits;
                        let wrapped = ((number % &limit) + &limit) % &limit;
                        scalar_of(Constant::new(wrapped.to_u128().unwrap_or_default(), bits), to)
                    }
                    Ty::Enum(of) if of.base.is_some() => {
                        let base = of.base.clone().unwrap_or(Ty::Unknown);
                        match self.sized(&number, &base, span) {
                            Value::Scalar(operand, _) => Value::Scalar(operand, to),
                            other => other,
                        }
                    }
                    _ => self.no_cast(&Ty::Integer, &to, span),
                };
            }
            Value::Scalar(operand, ty) => (operand, ty),
            other => return self.no_cast(&other.ty(), &to, span),
        };
        let is_allowed = match (&from, &to) {
            (Ty::Bit(_), Ty::Bit(_)) | (Ty::Int(_), Ty::Int(_)) => true,
            (Ty::Bit(a), Ty::Int(b)) | (Ty::Int(a), Ty::Bit(b)) => a == b,
            (Ty::Bool, Ty::Bit(1)) | (Ty::Bit(1), Ty::Bool) => true,
            (Ty::Enum(of), other) | (other, Ty::Enum(of))
                if of.base.as_ref().is_some_and(|base| base.is(other)) =>
            {
                true
            }
            (a, b) => a.is(b),
        };
        if to.is_unknown() {
            return Value::Unknown;
        }
        if !is_allowed {
            return self.no_cast(&from, &to, span);
        }
        let (Some(old), Some(new)) = (from.width(), to.width()) else { return Value::Unknown };
        let signed = from.is_signed();
        let operand = match operand {
            _ if old == new => operand,
            Operand::Constant(constant) => {
                Operand::Constant(Constant::new(semantics::resize(constant.value, old, new, signed), new))
            }
            from => self.compute(Compute::Resize { from, signed }, new),
        };
        Value::Scalar(operand, to)
    }

    fn no_cast(&mut self, from: &Ty, to: &Ty, span: Span) -> Value {
        if !to.is_unknown() && !from.is_unknown() {
            let error = self.sink.error(span, format!("{from} cannot be converted to {to}"));
            error.help = match (from, to) {
                (Ty::Bit(_), Ty::Int(b)) => Some(format!("first change the width, with (bit<{b}>)")),
                (Ty::Int(a), Ty::Bit(b)) if a != b => {
                    Some(format!("first change the width, with (int<{b}>)"))
                }
                (Ty::Bit(_), Ty::Bool) => Some("compare it with `!= 0`".to_owned()),
                _ => None,
            };
        }
        Value::Unknown
    }

    /// What stands on the left of `=`, or is given for `out`.
    pub(super) fn target(&mut self, expr: &Expr) -> Option<Target> {
        match &expr.kind {
            ExprKind::Name(name) => match self.lookup(name, "variable")? {
                Entity::Place(place, Access::ReadWrite) => Some(Target::Place(place)),
                Entity::Place(_, Access::ReadOnly) => {
                    self.sink
                        .error(expr.span, format!("`{}` cannot be written", name.text))
                        .label("is given `in`");
                    None
                }
                _ => self.not_writable(expr.span),
            },
            ExprKind::Member(of, name) => {
                let Target::Place(place) = self.target(of)? else { return self.not_writable(expr.span) };
                match &*place {
                    Place::Struct(..) | Place::Header(..) => self.field_of(&place, name).map(Target::Place),
                    Place::Stack(..) => {
                        self.sink
                            .refuse(expr.span, &format!("writing to `{}` of a stack is", name.text))
                            .help("name the header by its number");
                        None
                    }
                    Place::Scalar(_, Ty::Unknown) => None,
                    Place::Scalar(_, ty) => {
                        self.sink.error(name.span, format!("a value of type {ty} has no fields"));
                        None
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
                    self.sink.refuse(expr.span, "writing to a slice of a slice is");
                    return None;
                };
                let ty = place.ty();
                let (Ty::Bit(width) | Ty::Int(width)) = ty else {
                    self.sink.error(of.span, format!("bits are taken from bit<W> and int<W>, not from {ty}"));
                    return None;
                };
                let (high, low) = self.bounds(width, high, low)?;
                Some(Target::Slice { place, high, low })
            }
            _ => self.not_writable(expr.span),
        }
    }

    fn not_writable<T>(&mut self, span: Span) -> Option<T> {
        self.sink.error(span, "this cannot be written").label("not a variable or a field");
        None
    }

    /// Runs `inner`, which P4 evaluates under a condition only: what has effects has no place there.
    pub(super) fn conditionally<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.conditions += 1;
        let result = inner(self);
        self.conditions -= 1;
        result
    }

    /// The one place of a kind that some calls are about.
    pub(super) fn in_place(&mut self, allowed: &[Where], what: &str, span: Span) -> bool {
        let is_allowed = allowed.contains(&self.place);
        if !is_allowed {
            let here = match self.place {
                Where::Parser => "a parser",
                Where::Control => "a control",
                Where::Action => "an action",
                Where::Checksum => "a control for checksums",
                Where::Deparser => "a deparser",
            };
            self.sink.error(span, format!("{what} has no place in {here}"));
        }
        is_allowed
    }
}

pub(super) fn whole_or_scalar(place: Rc<Place>) -> Value {
    match &*place {
        Place::Scalar(_, Ty::Unknown) => Value::Unknown,
        Place::Scalar(id, ty) => Value::Scalar(Operand::Field(*id), ty.clone()),
        _ => Value::Whole(place),
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
