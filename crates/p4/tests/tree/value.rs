//! Values as a program has them: numbers with their widths, structs with the names of their fields.

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `bit<W>` or `int<W>`: the number itself, within the bounds of its type.
    Number {
        value: i128,
        width: u32,
        signed: bool,
    },
    /// Without a width.
    Integer(i128),
    Bool(bool),
    /// The type, and the number of an enumeration that has one.
    Enum(String, i128, u32),
    Error(String),
    Header {
        ty: String,
        valid: bool,
        fields: Vec<(String, Value)>,
    },
    Struct {
        ty: String,
        fields: Vec<(String, Value)>,
    },
    Stack {
        next: usize,
        items: Vec<Value>,
    },
    List(Vec<Value>),
    Fields(Vec<(String, Value)>),
    /// `{#}`
    Invalid,
    Void,
}

/// A number brought into the bounds of its type by as many times 2^W as it takes.
pub fn number(value: i128, width: u32, signed: bool) -> Value {
    let limit = 1i128 << width;
    let low = value.rem_euclid(limit);
    let value = if signed && low >= limit / 2 { low - limit } else { low };
    Value::Number { value, width, signed }
}

impl Value {
    pub fn bool(&self) -> bool {
        match self {
            Value::Bool(value) => *value,
            other => panic!("{other:?} is no truth value"),
        }
    }

    /// The number, of whatever type.
    pub fn int(&self) -> i128 {
        match self {
            Value::Number { value, .. } | Value::Integer(value) | Value::Enum(_, value, _) => *value,
            Value::Bool(value) => i128::from(*value),
            other => panic!("{other:?} is no number"),
        }
    }

    /// Its bits, as on the wire.
    pub fn bits(&self, to: &mut Vec<bool>) {
        match self {
            Value::Number { value, width, .. } | Value::Enum(_, value, width) => {
                to.extend((0..*width).rev().map(|bit| value >> bit & 1 == 1));
            }
            Value::Bool(value) => to.push(*value),
            Value::Header { fields, .. } | Value::Struct { fields, .. } => {
                fields.iter().for_each(|(_, field)| field.bits(to));
            }
            other => panic!("{other:?} has no bits"),
        }
    }

    /// This value with its bits read from `source`, in order; `None` where they do not suffice.
    pub fn filled(&self, source: &mut impl Iterator<Item = bool>) -> Option<Value> {
        Some(match self {
            Value::Number { width, signed, .. } => {
                let mut value = 0;
                for _ in 0..*width {
                    value = value << 1 | i128::from(source.next()?);
                }
                number(value, *width, *signed)
            }
            Value::Header { ty, fields, .. } => {
                Value::Header { ty: ty.clone(), valid: true, fields: filled(fields, source)? }
            }
            Value::Struct { ty, fields } => Value::Struct { ty: ty.clone(), fields: filled(fields, source)? },
            other => panic!("{other:?} is not on the wire"),
        })
    }

    pub fn field(&self, name: &str) -> &Value {
        let (Value::Header { fields, .. } | Value::Struct { fields, .. }) = self else {
            panic!("{self:?} has no fields");
        };
        &fields.iter().find(|(field, _)| field == name).unwrap_or_else(|| panic!("no field {name}")).1
    }

    pub fn field_mut(&mut self, name: &str) -> &mut Value {
        let (Value::Header { fields, .. } | Value::Struct { fields, .. }) = self else {
            panic!("{self:?} has no fields");
        };
        &mut fields.iter_mut().find(|(field, _)| field == name).expect("a field").1
    }
}

fn filled(
    fields: &[(String, Value)],
    source: &mut impl Iterator<Item = bool>,
) -> Option<Vec<(String, Value)>> {
    fields.iter().map(|(name, field)| Some((name.clone(), field.filled(source)?))).collect()
}

/// A step on the way to a part of a variable.
#[derive(Clone, Debug)]
pub enum Step {
    Field(String),
    Item(usize),
    Bits(u32, u32),
}

impl Value {
    pub fn part(&self, steps: &[Step]) -> Value {
        let Some((first, rest)) = steps.split_first() else { return self.clone() };
        match (first, self) {
            (Step::Field(name), _) => self.field(name).part(rest),
            (Step::Item(at), Value::Stack { items, .. }) => items[*at].part(rest),
            (Step::Bits(high, low), Value::Number { value, width, .. }) => {
                number(value.rem_euclid(1 << width) >> low, high - low + 1, false)
            }
            (step, of) => panic!("{step:?} of {of:?}"),
        }
    }

    pub fn set_part(&mut self, steps: &[Step], new: Value) {
        let Some((first, rest)) = steps.split_first() else {
            *self = new;
            return;
        };
        match (first, &mut *self) {
            (Step::Field(name), _) => self.field_mut(name).set_part(rest, new),
            (Step::Item(at), Value::Stack { items, .. }) => items[*at].set_part(rest, new),
            (Step::Bits(high, low), Value::Number { value, width, signed }) => {
                let mask = ((1i128 << (high - low + 1)) - 1) << low;
                let old = value.rem_euclid(1 << *width);
                *self = number(old & !mask | new.int() << low & mask, *width, *signed);
            }
            (step, of) => panic!("{step:?} of {of:?}"),
        }
    }
}
