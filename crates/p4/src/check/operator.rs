//! Operators.

use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive, Zero};

use crate::ast::{BinaryOp, Expr, UnaryOp};
use crate::diagnostic::Checked;
use crate::ir::{Binary, Compute, Constant, MAX_WIDTH, Operand, ones};
use crate::semantics;
use crate::source::Span;

use super::Checker;
use super::expression::{is_moderate, scalar};
use super::types::{Ty, Value};

impl Checker<'_> {
    pub(super) fn unary(&mut self, op: UnaryOp, of: &Expr, span: Span) -> Checked<Value> {
        if op == UnaryOp::Not {
            let from = self.operand(of, &Ty::Bool)?;
            return Ok(self.inverted(from, Ty::Bool));
        }
        match number(self.expression(of)?) {
            Value::Integer(number) => match op {
                UnaryOp::Negate => Ok(Value::Integer(-number)),
                UnaryOp::Plus => Ok(Value::Integer(number)),
                _ => self
                    .sink
                    .error(span, "`~` needs a width")
                    .help("write the number with one, as in `~8w5`")
                    .refused(),
            },
            Value::Scalar(from, ty @ (Ty::Bit(_) | Ty::Int(_))) => Ok(match (op, from) {
                (UnaryOp::Plus, from) => Value::Scalar(from, ty),
                (UnaryOp::Complement, from) => self.inverted(from, ty),
                (_, Operand::Constant(constant)) => scalar(constant.value.wrapping_neg(), ty),
                (_, from) => {
                    let width = ty.width().unwrap_or(1);
                    Value::Scalar(self.compute(Compute::Negate { from }, width), ty)
                }
            }),
            other => {
                let sign = match op {
                    UnaryOp::Complement => "~",
                    UnaryOp::Plus => "+",
                    _ => "-",
                };
                let message = format!("`{sign}` takes bit<W> or int<W>, not {}", other.ty());
                self.sink.error(span, message).refused()
            }
        }
    }

    pub(super) fn inverted(&mut self, from: Operand, ty: Ty) -> Value {
        match from {
            Operand::Constant(constant) => scalar(!constant.value, ty),
            from => {
                let width = ty.width().unwrap_or(1);
                Value::Scalar(self.compute(Compute::Not { from }, width), ty)
            }
        }
    }

    pub(super) fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr, span: Span) -> Checked<Value> {
        match op {
            BinaryOp::LogicalAnd | BinaryOp::LogicalOr => self.logical(op, a, b),
            BinaryOp::ShiftLeft | BinaryOp::ShiftRight => self.shift(op, a, b, span),
            BinaryOp::Concat => self.concat(a, b, span),
            _ => self.balanced(op, a, b, span),
        }
    }

    /// Both sides are computed: neither has effects, and no operation fails.
    fn logical(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Checked<Value> {
        let left = self.operand(a, &Ty::Bool);
        let right = self.conditionally(|checker| checker.operand(b, &Ty::Bool));
        let by = if op == BinaryOp::LogicalAnd { Binary::And } else { Binary::Or };
        Ok(self.result(by, left?, right?, Ty::Bool))
    }

    fn shift(&mut self, op: BinaryOp, a: &Expr, b: &Expr, span: Span) -> Checked<Value> {
        let (left, right) = (self.expression(a), self.expression(b));
        let (left, right) = (number(left?), number(right?));
        let distance = match right {
            Value::Integer(number) if number.is_negative() => {
                return self.sink.error(b.span, "a shift goes by 0 or more").label("is negative").refused();
            }
            Value::Integer(number) => {
                if let Value::Integer(value) = &left {
                    let bits = number.to_u64().filter(|bits| *bits <= 4096);
                    let shifted = bits.map(|bits| match op {
                        BinaryOp::ShiftLeft => value << bits,
                        _ => value >> bits,
                    });
                    return self.integer(shifted, span);
                }
                Operand::Constant(Constant::new(number.to_u128().unwrap_or(u128::MAX).min(ones(32)), 32))
            }
            Value::Scalar(operand, Ty::Bit(_)) => operand,
            other => {
                let message = format!("a shift goes by bit<W> or a number, not by {}", other.ty());
                return self.sink.error(b.span, message).refused();
            }
        };
        match left {
            Value::Scalar(left, ty @ (Ty::Bit(_) | Ty::Int(_))) => {
                let by = match op {
                    BinaryOp::ShiftLeft => Binary::ShiftLeft,
                    _ if ty.is_signed() => Binary::SignedShiftRight,
                    _ => Binary::ShiftRight,
                };
                Ok(self.result(by, left, distance, ty))
            }
            Value::Integer(_) => self
                .sink
                .error(a.span, "what is shifted at run time needs a width")
                .help("write it with one, as in `8w1`")
                .refused(),
            other => {
                let message = format!("bit<W> and int<W> are shifted, not {}", other.ty());
                self.sink.error(a.span, message).refused()
            }
        }
    }

    fn concat(&mut self, a: &Expr, b: &Expr, span: Span) -> Checked<Value> {
        let left = self.scalar_operand(a, "what is concatenated");
        let right = self.scalar_operand(b, "what is concatenated");
        let ((left, ty), (right, right_ty)) = (left?, right?);
        let (ty, right_ty) = (ty.underlying(), right_ty.underlying());
        let (Ty::Bit(high) | Ty::Int(high), Ty::Bit(low) | Ty::Int(low)) = (&ty, &right_ty) else {
            let message = format!("bit<W> and int<W> are concatenated, not {ty} and {right_ty}");
            return self.sink.error(span, message).refused();
        };
        let width = high + low;
        if width > MAX_WIDTH {
            let message = format!("this has {width} bits, and values have {MAX_WIDTH} at most");
            let error = self.sink.error(span, message);
            return error.help("a hash or a checksum takes a list: `{ a, b }`").refused();
        }
        let ty = if ty.is_signed() { Ty::Int(width) } else { Ty::Bit(width) };
        Ok(self.result(Binary::Concat, left, right, ty))
    }

    /// Operators whose operands have one type.
    fn balanced(&mut self, op: BinaryOp, a: &Expr, b: &Expr, span: Span) -> Checked<Value> {
        let (left, right) = (self.expression(a), self.expression(b));
        // Two values of one enumeration are compared as such, and are numbers for all else.
        let (left, right) = match (left?, right?) {
            (Value::Scalar(a, ty), Value::Scalar(b, other))
                if ty.is(&other) && matches!(op, BinaryOp::Equal | BinaryOp::NotEqual) =>
            {
                return self.typed(op, a, b, ty, span);
            }
            (left, right) => (number(left), number(right)),
        };
        let (left, right) = match (left, right) {
            (Value::Integer(a), Value::Integer(b)) => return self.integers(op, &a, &b, span),
            (left @ Value::Integer(_), right @ Value::Scalar(..)) => {
                (self.coerced(left, &right.ty(), a.span)?, right)
            }
            (left @ Value::Scalar(..), right @ Value::Integer(_)) => {
                let ty = left.ty();
                (left, self.coerced(right, &ty, b.span)?)
            }
            both => both,
        };
        let (Value::Scalar(left, ty), Value::Scalar(right, right_ty)) = (&left, &right) else {
            let error = self.sink.refuse(span, "an operation on whole structs, headers or lists is");
            return error.help("name the fields").refused();
        };
        if !ty.is(right_ty) {
            let message = format!("{ty} and {right_ty} do not go together");
            let help = match (ty, right_ty) {
                (Ty::Bit(_) | Ty::Int(_), Ty::Bit(_) | Ty::Int(_)) => {
                    Some(format!("convert one of them: `({ty})`"))
                }
                (Ty::Bit(1), Ty::Bool) | (Ty::Bool, Ty::Bit(1)) => {
                    Some("convert one of them: `(bit<1>)`".to_owned())
                }
                _ => None,
            };
            let error = self.sink.error(span, message);
            error.label(format!("{ty} on the left, {right_ty} on the right")).help = help;
            return error.refused();
        }
        self.typed(op, *left, *right, ty.clone(), span)
    }

    fn typed(&mut self, op: BinaryOp, left: Operand, right: Operand, ty: Ty, span: Span) -> Checked<Value> {
        let is_number = matches!(ty, Ty::Bit(_) | Ty::Int(_));
        let signed = ty.is_signed();
        let pick = |unsigned: Binary, with_sign: Binary| if signed { with_sign } else { unsigned };
        let (by, result, swap) = match op {
            BinaryOp::Equal => (Binary::Equal, Ty::Bool, false),
            BinaryOp::NotEqual => (Binary::NotEqual, Ty::Bool, false),
            BinaryOp::Divide | BinaryOp::Modulo if is_number => {
                return self
                    .sink
                    .error(span, "P4 divides only numbers that are known when the program is compiled")
                    .help("shift by a number of bits, or take the low bits with `&`")
                    .refused();
            }
            _ if !is_number => {
                let message = format!("this operator takes bit<W> or int<W>, not {ty}");
                return self.sink.error(span, message).refused();
            }
            BinaryOp::Less => (pick(Binary::Less, Binary::SignedLess), Ty::Bool, false),
            BinaryOp::LessEqual => (pick(Binary::LessEqual, Binary::SignedLessEqual), Ty::Bool, false),
            BinaryOp::Greater => (pick(Binary::Less, Binary::SignedLess), Ty::Bool, true),
            BinaryOp::GreaterEqual => (pick(Binary::LessEqual, Binary::SignedLessEqual), Ty::Bool, true),
            BinaryOp::Add => (Binary::Add, ty, false),
            BinaryOp::Subtract => (Binary::Subtract, ty, false),
            BinaryOp::Multiply => (Binary::Multiply, ty, false),
            BinaryOp::SaturatingAdd => (pick(Binary::SaturatingAdd, Binary::SignedSaturatingAdd), ty, false),
            BinaryOp::SaturatingSubtract => {
                (pick(Binary::SaturatingSubtract, Binary::SignedSaturatingSubtract), ty, false)
            }
            BinaryOp::And => (Binary::And, ty, false),
            BinaryOp::Or => (Binary::Or, ty, false),
            _ => (Binary::Xor, ty, false),
        };
        Ok(match swap {
            false => self.result(by, left, right, result),
            true => self.result(by, right, left, result),
        })
    }

    /// The operation, computed here if both sides are known.
    pub(super) fn result(&mut self, by: Binary, a: Operand, b: Operand, ty: Ty) -> Value {
        let width = ty.width().unwrap_or(1);
        Value::Scalar(self.operation(by, a, b, width), ty)
    }

    /// Whether the comparison holds, or both or either of two conditions.
    pub(super) fn truth(&mut self, by: Binary, a: Operand, b: Operand) -> Operand {
        self.operation(by, a, b, 1)
    }

    fn operation(&mut self, by: Binary, a: Operand, b: Operand, width: u32) -> Operand {
        if let (Operand::Constant(a), Operand::Constant(b)) = (a, b) {
            let value = semantics::binary(by, a.value, b.value, a.width, b.width);
            return Operand::Constant(Constant::new(value, width));
        }
        self.compute(Compute::Binary { by, a, b }, width)
    }

    fn integers(&mut self, op: BinaryOp, a: &BigInt, b: &BigInt, span: Span) -> Checked<Value> {
        let truth = |value: bool| Ok(scalar(u128::from(value), Ty::Bool));
        let number = match op {
            BinaryOp::Add => Some(a + b),
            BinaryOp::Subtract => Some(a - b),
            BinaryOp::Multiply => Some(a * b),
            BinaryOp::Divide | BinaryOp::Modulo => {
                if b.is_zero() || a.is_negative() || b.is_negative() {
                    let why = if b.is_zero() { "is division by zero" } else { "a side is negative" };
                    return self.sink.error(span, "this cannot be divided").label(why).refused();
                }
                Some(if op == BinaryOp::Divide { a / b } else { a % b })
            }
            BinaryOp::Equal => return truth(a == b),
            BinaryOp::NotEqual => return truth(a != b),
            BinaryOp::Less => return truth(a < b),
            BinaryOp::LessEqual => return truth(a <= b),
            BinaryOp::Greater => return truth(a > b),
            BinaryOp::GreaterEqual => return truth(a >= b),
            _ => {
                return self
                    .sink
                    .error(span, "this operator needs a width")
                    .help("write one of the numbers with it, as in `8w5`")
                    .refused();
            }
        };
        self.integer(number, span)
    }

    fn integer(&mut self, number: Option<BigInt>, span: Span) -> Checked<Value> {
        match number.filter(is_moderate) {
            Some(number) => Ok(Value::Integer(number)),
            None => self.sink.error(span, "this number is too large").refused(),
        }
    }
}

/// An enumeration with a type is a number to operators (P4-16, "Implicit casts").
fn number(value: Value) -> Value {
    match value {
        Value::Scalar(operand, ty) => Value::Scalar(operand, ty.underlying()),
        other => other,
    }
}
