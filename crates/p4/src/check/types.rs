//! Types, values, places: what names stand for.

use std::fmt;
use std::rc::Rc;

use num_bigint::BigInt;

use crate::ast::{ActionDecl, ControlDecl, Expr, MuTableDecl, Name, ParserDecl};
use crate::diagnostic::Reported;
use crate::ir::{FieldId, Operand, Standard, Statement};
use crate::source::Span;

/// A type.
#[derive(Clone, Debug)]
pub enum Ty {
    Bit(u32),
    Int(u32),
    Bool,
    /// `int`: known when the program is compiled, of any size.
    Integer,
    Enum(Rc<EnumType>),
    Error,
    Struct(Rc<StructType>),
    Stack(Rc<StructType>, u32),
    Void,
    PacketIn,
    PacketOut,
    /// `{ a, b }`, which has the type of what it is given to.
    List,
    /// The type of something that has a mistake.
    Unknown(Reported),
}

/// An enumeration.
#[derive(Debug)]
pub struct EnumType {
    pub name: Rc<str>,
    pub members: Vec<(Rc<str>, u128)>,
    pub width: u32,
    /// `bit<W>` or `int<W>` where it has one.
    pub base: Option<Ty>,
}

/// A struct or a header.
#[derive(Debug)]
pub struct StructType {
    pub name: Rc<str>,
    pub is_header: bool,
    pub fields: Vec<(Rc<str>, Ty)>,
}

impl Ty {
    /// Bits, for what fits in one container.
    pub fn width(&self) -> Option<u32> {
        match self {
            Ty::Bit(width) | Ty::Int(width) => Some(*width),
            Ty::Bool => Some(1),
            Ty::Enum(of) => Some(of.width),
            Ty::Error => Some(ERROR_WIDTH),
            _ => None,
        }
    }

    /// Whether values of both are the same. What is unknown is like anything.
    pub fn is(&self, other: &Ty) -> bool {
        match (self, other) {
            (Ty::Bit(a), Ty::Bit(b)) | (Ty::Int(a), Ty::Int(b)) => a == b,
            (Ty::Enum(a), Ty::Enum(b)) => Rc::ptr_eq(a, b),
            (Ty::Struct(a), Ty::Struct(b)) => Rc::ptr_eq(a, b),
            (Ty::Stack(a, n), Ty::Stack(b, m)) => Rc::ptr_eq(a, b) && n == m,
            (Ty::Unknown(_), _) | (_, Ty::Unknown(_)) => true,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    pub fn is_unknown(&self) -> bool {
        matches!(self, Ty::Unknown(_))
    }

    /// The type that an enumeration with one is converted to wherever a number is expected (P4-16, "Implicit casts").
    #[must_use]
    pub fn underlying(self) -> Ty {
        match &self {
            Ty::Enum(of) => of.base.clone().unwrap_or(self),
            _ => self,
        }
    }

    pub fn is_signed(&self) -> bool {
        matches!(self, Ty::Int(_))
    }
}

/// Bits of a value of type `error`.
pub const ERROR_WIDTH: u32 = 8;

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ty::Bit(width) => write!(f, "bit<{width}>"),
            Ty::Int(width) => write!(f, "int<{width}>"),
            Ty::Bool => f.write_str("bool"),
            Ty::Integer => f.write_str("int"),
            Ty::Enum(of) => f.write_str(&of.name),
            Ty::Error => f.write_str("error"),
            Ty::Struct(of) => f.write_str(&of.name),
            Ty::Stack(of, size) => write!(f, "{}[{size}]", of.name),
            Ty::Void => f.write_str("void"),
            Ty::PacketIn => f.write_str("packet_in"),
            Ty::PacketOut => f.write_str("packet_out"),
            Ty::List => f.write_str("a list"),
            Ty::Unknown(_) => f.write_str("?"),
        }
    }
}

/// Where something is kept.
#[derive(Debug)]
pub enum Place {
    Scalar(FieldId, Ty),
    Struct(Rc<StructType>, Vec<Rc<Place>>),
    Header(u32, Rc<StructType>, Vec<Rc<Place>>),
    Stack(u32, Rc<StructType>, Vec<Rc<Place>>),
    /// The place of something that has a mistake.
    Unknown(Reported),
}

impl Place {
    pub fn ty(&self) -> Ty {
        match self {
            Place::Scalar(_, ty) => ty.clone(),
            Place::Struct(of, _) | Place::Header(_, of, _) => Ty::Struct(Rc::clone(of)),
            Place::Stack(_, of, places) => Ty::Stack(Rc::clone(of), places.len() as u32),
            Place::Unknown(reported) => Ty::Unknown(*reported),
        }
    }
}

impl Place {
    /// The fields of a struct or a header, the headers of a stack.
    pub fn parts(&self) -> &[Rc<Place>] {
        match self {
            Place::Struct(_, places) | Place::Header(_, _, places) | Place::Stack(_, _, places) => places,
            Place::Scalar(..) | Place::Unknown(_) => &[],
        }
    }
}

/// What an expression gives.
#[derive(Clone, Debug)]
pub enum Value {
    Scalar(Operand, Ty),
    Integer(BigInt),
    /// A struct, a header, a stack.
    Whole(Rc<Place>),
    /// `{ a, b }`
    List(Vec<Value>),
    /// `{ x = a, y = b }`
    Fields(Vec<(Name, Value)>),
    /// A list that has become a struct or a valid header: a value for each field, of the field's type.
    Made(Rc<StructType>, Vec<Value>),
    /// `{#}`, and of which type once that is known.
    Invalid(Option<Rc<StructType>>),
    /// The value of a call that gives nothing.
    Void,
}

impl Value {
    pub fn ty(&self) -> Ty {
        match self {
            Value::Scalar(_, ty) => ty.clone(),
            Value::Integer(_) => Ty::Integer,
            Value::Whole(place) => place.ty(),
            Value::Made(of, _) | Value::Invalid(Some(of)) => Ty::Struct(Rc::clone(of)),
            Value::Void => Ty::Void,
            Value::List(_) | Value::Fields(_) | Value::Invalid(None) => Ty::List,
        }
    }
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub enum Entity {
    Type(Ty),
    Constant(Value),
    Place(Rc<Place>, Access),
    Action(Rc<ActionEntity>),
    Table(Rc<TableEntity>),
    MuTable(Rc<MuTableEntity>),
    Register(u32, Ty),
    Counter(u32),
    Meter(u32),
    Control(Rc<ControlDecl>),
    /// A control that another one may apply, by this name.
    Instance(Rc<ControlDecl>, Rc<str>),
    Parser(Rc<ParserDecl>),
    PacketIn,
    PacketOut,
    /// Something that has a mistake.
    Wrong(Reported),
}

/// Whether a place may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    ReadWrite,
    ReadOnly,
}

/// An action, and how many scopes it sees.
#[derive(Debug)]
pub struct ActionEntity {
    pub declared: Rc<ActionDecl>,
    pub scope: usize,
    pub path: String,
}

/// A table, and what computes its keys before it is applied.
#[derive(Debug)]
pub struct TableEntity {
    pub id: u32,
    pub prelude: Vec<Statement>,
    /// Its actions, as in its list.
    pub actions: Vec<Listed>,
}

/// An action in a table's list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its name.
    pub name: Rc<str>,
    /// Index in `Program::actions`.
    pub id: u32,
    /// The arguments that the list gives it.
    pub given: Vec<Expr>,
}

/// A muTable, and how many scopes its keys see.
#[derive(Debug)]
pub struct MuTableEntity {
    pub id: u32,
    pub declared: Rc<MuTableDecl>,
    pub scope: usize,
    pub keys: Vec<Ty>,
    pub values: Rc<StructType>,
}

/// What an assignment writes.
pub enum Target {
    Place(Rc<Place>),
    Slice { place: Rc<Place>, high: u32, low: u32 },
}

/// A call that has begun.
pub struct Frame {
    /// Tells calls apart.
    pub id: u32,
    /// Where the call is.
    pub span: Span,
    /// What is copied out where it ends, from left to right.
    pub out: Vec<(Target, Rc<Place>)>,
}

pub fn flatten_place(place: &Place, to: &mut Vec<Operand>) {
    match place {
        Place::Unknown(_) => {}
        Place::Scalar(id, _) => to.push(Operand::Field(*id)),
        Place::Struct(_, places) | Place::Header(_, _, places) | Place::Stack(_, _, places) => {
            places.iter().for_each(|place| flatten_place(place, to));
        }
    }
}

/// The fields of the architecture's metadata, or of a copy of it.
pub fn standard_fields(place: &Place) -> Standard {
    let field = |name: &str| match place {
        Place::Struct(of, places) => {
            let at = of.fields.iter().position(|(field, ty)| &**field == name && !ty.is_unknown());
            match at.and_then(|at| places.get(at)).map(|place| &**place) {
                Some(Place::Scalar(id, _)) => *id,
                _ => 0,
            }
        }
        _ => 0,
    };
    Standard {
        ingress_port: field("ingress_port"),
        egress_spec: field("egress_spec"),
        egress_port: field("egress_port"),
        packet_length: field("packet_length"),
        ingress_global_timestamp: field("ingress_global_timestamp"),
        egress_global_timestamp: field("egress_global_timestamp"),
        mcast_grp: field("mcast_grp"),
        egress_rid: field("egress_rid"),
        instance_type: field("instance_type"),
        checksum_error: field("checksum_error"),
        parser_error: field("parser_error"),
    }
}
