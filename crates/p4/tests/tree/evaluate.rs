//! Expressions.

use paceline_p4::syntax::{BinaryOp, Expr, ExprKind, TypeExpr, TypeKind, UnaryOp};

use super::{Step, Tree, Value, like, number, width_of};

impl Tree {
    /// What has effects is a statement of its own, or the condition of one.
    pub(super) fn evaluate_pure(&self, expr: &Expr) -> Value {
        match &expr.kind {
            ExprKind::Number { value, width } => {
                let value: i128 = value.to_string().parse().expect("a small number");
                match width {
                    None => Value::Integer(value),
                    Some((width, signed)) => number(value, *width, *signed),
                }
            }
            ExprKind::Bool(value) => Value::Bool(*value),
            ExprKind::Name(name) => self.variable_of(&name.text).clone(),
            ExprKind::Member(of, name) => self.member(of, &name.text),
            ExprKind::Index(..) | ExprKind::Slice(..) => {
                if let ExprKind::Slice(of, high, low) = &expr.kind {
                    let (high, low) = (self.evaluate_pure(high).int(), self.evaluate_pure(low).int());
                    let of = numeric(self.evaluate_pure(of));
                    return of.part(&[Step::Bits(high as u32, low as u32)]);
                }
                let (name, steps) = self.path(expr);
                self.variable_of(&name).part(&steps)
            }
            ExprKind::Unary(op, of) => {
                let of = self.evaluate_pure(of);
                match (op, numeric(of)) {
                    (UnaryOp::Not, of) => Value::Bool(!of.bool()),
                    (UnaryOp::Plus, of) => of,
                    (UnaryOp::Negate, Value::Integer(value)) => Value::Integer(-value),
                    (op, Value::Number { value, width, signed }) => {
                        let value = if *op == UnaryOp::Negate { -value } else { -value - 1 };
                        number(value, width, signed)
                    }
                    (op, of) => panic!("{op:?} {of:?}"),
                }
            }
            ExprKind::Binary(op, a, b) => binary(*op, self.evaluate_pure(a), self.evaluate_pure(b)),
            ExprKind::Choice(condition, then, otherwise) => {
                let is_so = self.evaluate_pure(condition).bool();
                let (then, otherwise) = (self.evaluate_pure(then), self.evaluate_pure(otherwise));
                let (then, otherwise) = (like(then.clone(), &otherwise), like(otherwise, &then));
                if is_so { then } else { otherwise }
            }
            ExprKind::Cast(ty, of) => self.cast(self.evaluate_pure(of), ty),
            ExprKind::List(items) => Value::List(items.iter().map(|item| self.evaluate_pure(item)).collect()),
            ExprKind::Fields(fields) => {
                let field = |(name, value): &(paceline_p4::syntax::Name, Expr)| {
                    (name.text.to_string(), self.evaluate_pure(value))
                };
                Value::Fields(fields.iter().map(field).collect())
            }
            ExprKind::Invalid => Value::Invalid,
            ExprKind::Call(callee, types, _) => {
                let ExprKind::Member(of, method) = &callee.kind else { panic!("{callee:?}") };
                match &*method.text {
                    "isValid" => match self.evaluate_pure(of) {
                        Value::Header { valid, .. } => Value::Bool(valid),
                        other => panic!("{other:?} is no header"),
                    },
                    // Only where `can_evaluate` has looked.
                    "lookahead" => self.ahead(&types[0]).expect("enough bits"),
                    other => panic!("{other} has effects"),
                }
            }
            other => panic!("{other:?} is no value"),
        }
    }

    pub(super) fn ahead(&self, ty: &TypeExpr) -> Option<Value> {
        self.default_of(ty).filled(&mut self.input[self.at..].iter().copied())
    }

    pub(super) fn variable_of(&self, name: &str) -> &Value {
        let local = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        local.or_else(|| self.constants.get(name)).unwrap_or_else(|| panic!("no variable {name}"))
    }

    fn member(&self, of: &Expr, name: &str) -> Value {
        if let ExprKind::ErrorType = of.kind {
            return Value::Error(name.to_owned());
        }
        if let ExprKind::Name(ty) = &of.kind
            && let Some((base, members)) = self.enums.get(&*ty.text)
        {
            let width = base.as_ref().map_or(8, |base| width_of(&self.default_of(base)));
            let value = members.iter().find(|(member, _)| member == name).expect("a member").1;
            return Value::Enum(ty.text.to_string(), value, width);
        }
        if let ExprKind::Member(stack, last) = &of.kind
            && &*last.text == "last"
            && let Value::Stack { next, items } = self.evaluate_pure(stack)
        {
            return items[next.max(1) - 1].field(name).clone();
        }
        match (self.evaluate_pure(of), name) {
            (Value::Stack { items, .. }, "size") => Value::Integer(items.len() as i128),
            (Value::Stack { next, .. }, "lastIndex") => number(next as i128 - 1, 32, false),
            (of, name) => of.field(name).clone(),
        }
    }

    /// A variable and the way to a part of it.
    pub(super) fn path(&self, expr: &Expr) -> (String, Vec<Step>) {
        match &expr.kind {
            ExprKind::Name(name) => (name.text.to_string(), Vec::new()),
            ExprKind::Member(of, name) => self.step(of, Step::Field(name.text.to_string())),
            ExprKind::Index(of, at) => {
                let at = self.evaluate_pure(at).int();
                self.step(of, Step::Item(at as usize))
            }
            ExprKind::Slice(of, high, low) => {
                let (high, low) = (self.evaluate_pure(high).int(), self.evaluate_pure(low).int());
                self.step(of, Step::Bits(high as u32, low as u32))
            }
            other => panic!("{other:?} is no place"),
        }
    }

    fn step(&self, of: &Expr, step: Step) -> (String, Vec<Step>) {
        let (name, mut steps) = self.path(of);
        steps.push(step);
        (name, steps)
    }

    /// As an assignment does it.
    pub(super) fn converted(&self, value: Value, ty: &TypeExpr) -> Value {
        self.like_place(value, &self.default_of(ty))
    }

    /// The value in the form of what it is written to.
    pub(super) fn like_place(&self, value: Value, place: &Value) -> Value {
        match (value, place) {
            (Value::List(items), Value::Header { ty, fields, .. }) => {
                Value::Header { ty: ty.clone(), valid: true, fields: self.in_order(items, fields) }
            }
            (Value::List(items), Value::Struct { ty, fields }) => {
                Value::Struct { ty: ty.clone(), fields: self.in_order(items, fields) }
            }
            (Value::Fields(mut given), Value::Header { fields, .. } | Value::Struct { fields, .. }) => {
                given.sort_by_key(|(name, _)| fields.iter().position(|(field, _)| field == name));
                self.like_place(Value::List(given.into_iter().map(|(_, value)| value).collect()), place)
            }
            (Value::Invalid, Value::Header { ty, fields, .. }) => {
                Value::Header { ty: ty.clone(), valid: false, fields: fields.clone() }
            }
            (Value::Enum(_, value, _), Value::Number { width, signed, .. }) => number(value, *width, *signed),
            (value, place) => like(value, place),
        }
    }

    fn in_order(&self, items: Vec<Value>, fields: &[(String, Value)]) -> Vec<(String, Value)> {
        let pairs = items.into_iter().zip(fields);
        pairs.map(|(item, (name, field))| (name.clone(), self.like_place(item, field))).collect()
    }

    fn cast(&self, value: Value, ty: &TypeExpr) -> Value {
        let to = match &ty.kind {
            TypeKind::Named(name) if self.aliases.contains_key(&*name.text) => {
                return self.cast(value, &self.aliases[&*name.text]);
            }
            _ => self.default_of(ty),
        };
        match (value, to) {
            // The fields stay what they are where it is written to.
            (Value::Invalid, _) => Value::Invalid,
            (Value::Bool(value), Value::Number { width, .. }) => number(value.into(), width, false),
            (value, Value::Bool(_)) => Value::Bool(value.int() == 1),
            (value, Value::Enum(name, _, width)) => Value::Enum(name, value.int(), width),
            // The number of the value is kept, as far as its bits go.
            (
                value @ (Value::Number { .. } | Value::Integer(_) | Value::Enum(..)),
                Value::Number { width, signed, .. },
            ) => number(value.int(), width, signed),
            (value, to) => self.like_place(value, &to),
        }
    }
}

/// An enumeration with a type is a number.
fn numeric(value: Value) -> Value {
    match value {
        Value::Enum(_, value, width) => number(value, width, false),
        other => other,
    }
}

fn binary(op: BinaryOp, a: Value, b: Value) -> Value {
    use BinaryOp as Op;
    match op {
        Op::LogicalAnd => return Value::Bool(a.bool() && b.bool()),
        Op::LogicalOr => return Value::Bool(a.bool() || b.bool()),
        Op::Equal | Op::NotEqual
            if !matches!(numeric(a.clone()), Value::Number { .. } | Value::Integer(_)) =>
        {
            return Value::Bool((a == b) == (op == Op::Equal));
        }
        _ => {}
    }
    let (a, b) = (numeric(a), numeric(b));
    match op {
        Op::Concat => {
            let (Value::Number { width: high, signed, .. }, Value::Number { value: low, width, .. }) =
                (&a, &b)
            else {
                panic!("{a:?} ++ {b:?}");
            };
            return number(a.int() << width | low.rem_euclid(1 << width), high + width, *signed);
        }
        Op::ShiftLeft | Op::ShiftRight => {
            let by = b.int().min(80) as u32;
            // Far enough for a width of 32 either way.
            let shifted = |value: i128| if op == Op::ShiftLeft { value << by } else { value >> by };
            return match a {
                Value::Number { value, width, signed } => number(shifted(value), width, signed),
                other => Value::Integer(shifted(other.int())),
            };
        }
        _ => {}
    }
    let (a, b) = (like(a.clone(), &b), like(b, &a));
    let (x, y) = (a.int(), b.int());
    let compared = match op {
        Op::Equal => Some(x == y),
        Op::NotEqual => Some(x != y),
        Op::Less => Some(x < y),
        Op::LessEqual => Some(x <= y),
        Op::Greater => Some(x > y),
        Op::GreaterEqual => Some(x >= y),
        _ => None,
    };
    if let Some(compared) = compared {
        return Value::Bool(compared);
    }
    let exact = match op {
        Op::Add | Op::SaturatingAdd => x + y,
        Op::Subtract | Op::SaturatingSubtract => x - y,
        Op::Multiply => x * y,
        Op::Divide => x / y,
        Op::Modulo => x % y,
        Op::And => x & y,
        Op::Or => x | y,
        Op::Xor => x ^ y,
        other => panic!("{other:?}"),
    };
    let Value::Number { width, signed, .. } = a else { return Value::Integer(exact) };
    if matches!(op, Op::SaturatingAdd | Op::SaturatingSubtract) {
        let limit = 1i128 << width;
        let (least, most) = if signed { (-limit / 2, limit / 2 - 1) } else { (0, limit - 1) };
        return number(exact.clamp(least, most), width, signed);
    }
    number(exact, width, signed)
}
