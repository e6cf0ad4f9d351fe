//! A program as it is written.

use std::rc::Rc;

use num_bigint::BigInt;

use crate::source::Span;

/// A name, and where it stands.
#[derive(Clone, Debug)]
pub struct Name {
    /// Its letters.
    pub text: Rc<str>,
    /// Where.
    pub span: Span,
}

/// A type as it is written.
#[derive(Clone, Debug)]
pub struct TypeExpr {
    /// Which.
    pub kind: TypeKind,
    /// Where.
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum TypeKind {
    Bit(Box<Expr>),
    Int(Box<Expr>),
    Integer,
    Bool,
    Error,
    Void,
    Named(Name),
    Stack(Box<TypeExpr>, Box<Expr>),
    /// `register<bit<8>>`
    Generic(Name, Vec<TypeExpr>),
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Which.
    pub kind: ExprKind,
    /// Where.
    pub span: Span,
    /// How deep it nests: bounded, because it is walked by recursion.
    pub depth: u16,
}

impl Expr {
    /// Whether both are written alike, spaces and places aside.
    pub fn is_like(&self, other: &Expr) -> bool {
        use ExprKind as Kind;
        let all = |a: &[Expr], b: &[Expr]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_like(b));
        match (&self.kind, &other.kind) {
            (Kind::Number { value: a, width: v }, Kind::Number { value: b, width: w }) => a == b && v == w,
            (Kind::Bool(a), Kind::Bool(b)) => a == b,
            (Kind::Name(a), Kind::Name(b)) => a.text == b.text,
            (Kind::ErrorType, Kind::ErrorType) | (Kind::Any, Kind::Any) | (Kind::Invalid, Kind::Invalid) => {
                true
            }
            (Kind::Member(a, name), Kind::Member(b, other)) => name.text == other.text && a.is_like(b),
            (Kind::Index(a, at), Kind::Index(b, other)) => a.is_like(b) && at.is_like(other),
            (Kind::Slice(a, high, low), Kind::Slice(b, top, bottom)) => {
                a.is_like(b) && high.is_like(top) && low.is_like(bottom)
            }
            (Kind::Unary(op, a), Kind::Unary(other, b)) => op == other && a.is_like(b),
            (Kind::Binary(op, a, c), Kind::Binary(other, b, d)) => {
                op == other && a.is_like(b) && c.is_like(d)
            }
            (Kind::List(a), Kind::List(b)) => all(a, b),
            (Kind::Cast(ty, a), Kind::Cast(other, b)) => ty.is_like(other) && a.is_like(b),
            _ => false,
        }
    }
}

impl TypeExpr {
    /// Whether both are written alike.
    fn is_like(&self, other: &TypeExpr) -> bool {
        use TypeKind as Kind;
        match (&self.kind, &other.kind) {
            (Kind::Bit(a), Kind::Bit(b)) | (Kind::Int(a), Kind::Int(b)) => a.is_like(b),
            (Kind::Named(a), Kind::Named(b)) => a.text == b.text,
            (Kind::Integer, Kind::Integer) | (Kind::Bool, Kind::Bool) => true,
            _ => false,
        }
    }
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    Number {
        value: BigInt,
        width: Option<(u32, bool)>,
    },
    Bool(bool),
    Text,
    Name(Name),
    /// `error`, before `.Name`
    ErrorType,
    Member(Box<Expr>, Name),
    Index(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, Box<Expr>, Box<Expr>),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
    Cast(TypeExpr, Box<Expr>),
    Call(Box<Expr>, Vec<TypeExpr>, Vec<Expr>),
    List(Vec<Expr>),
    /// `{ x = a, y = b }`
    Fields(Vec<(Name, Expr)>),
    /// `{#}`: a header that is not valid.
    Invalid,
    /// `value &&& mask`
    Mask(Box<Expr>, Box<Expr>),
    /// `low .. high`
    Range(Box<Expr>, Box<Expr>),
    /// `_`, `default`
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    Negate,
    Plus,
    Complement,
    Not,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    Multiply,
    Divide,
    Modulo,
    Add,
    Subtract,
    SaturatingAdd,
    SaturatingSubtract,
    ShiftLeft,
    ShiftRight,
    And,
    Xor,
    Or,
    Concat,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    LogicalAnd,
    LogicalOr,
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// Which.
    pub kind: StmtKind,
    /// Where.
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum StmtKind {
    Empty,
    Block(Vec<Stmt>),
    Assign(Expr, Expr),
    Call(Expr),
    If(Expr, Box<Stmt>, Option<Box<Stmt>>),
    Switch(Expr, Vec<SwitchCase>),
    Variable(Variable),
    Return,
    Exit,
}

/// `label:` with what it does; `None` falls through to the next.
#[derive(Clone, Debug)]
pub struct SwitchCase {
    /// `None` is `default`.
    pub label: Option<Expr>,
    /// Where.
    pub span: Span,
    /// What it does.
    pub body: Option<Stmt>,
}

/// A variable or a constant.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Whether it never changes.
    pub is_const: bool,
    /// Its type.
    pub ty: TypeExpr,
    /// Its name.
    pub name: Name,
    /// What it begins with; a constant has one.
    pub value: Option<Expr>,
}

/// A type and a name.
#[derive(Clone, Debug)]
pub struct FieldDecl {
    /// Its type.
    pub ty: TypeExpr,
    /// Its name.
    pub name: Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    None,
    In,
    Out,
    InOut,
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Which way values go.
    pub direction: Direction,
    /// Its type.
    pub ty: TypeExpr,
    /// Its name.
    pub name: Name,
}

#[derive(Clone, Debug)]
pub enum Declaration {
    Const(Variable),
    Typedef(FieldDecl),
    Enum { name: Name, base: Option<TypeExpr>, members: Vec<(Name, Option<Expr>)> },
    Struct { name: Name, fields: Vec<FieldDecl>, is_header: bool },
    Errors(Vec<Name>),
    MatchKinds(Vec<Name>),
    Parser(Rc<ParserDecl>),
    Control(Rc<ControlDecl>),
    Action(Rc<ActionDecl>),
    Instance(Instance),
}

/// `type(arguments) name;`
#[derive(Clone, Debug)]
pub struct Instance {
    /// The type that it is an instance of.
    pub ty: TypeExpr,
    /// With what.
    pub arguments: Vec<Expr>,
    /// Its name.
    pub name: Name,
}

/// A parser.
#[derive(Clone, Debug)]
pub struct ParserDecl {
    /// Its name.
    pub name: Name,
    /// What it is given.
    pub parameters: Vec<Parameter>,
    /// Its variables and constants.
    pub locals: Vec<Variable>,
    /// Its states.
    pub states: Vec<State>,
}

/// A parser's state.
#[derive(Clone, Debug)]
pub struct State {
    /// Its name.
    pub name: Name,
    /// What it does.
    pub body: Vec<Stmt>,
    /// Where it goes; nowhere is `reject`.
    pub transition: Option<Transition>,
}

#[derive(Clone, Debug)]
pub enum Transition {
    Go(Name),
    Select { keys: Vec<Expr>, cases: Vec<(Expr, Name)>, span: Span },
}

/// A control.
#[derive(Clone, Debug)]
pub struct ControlDecl {
    /// Its name.
    pub name: Name,
    /// What it is given.
    pub parameters: Vec<Parameter>,
    /// What it declares, in order.
    pub locals: Vec<Local>,
    /// What it does.
    pub apply: Vec<Stmt>,
}

#[derive(Clone, Debug)]
pub enum Local {
    Variable(Variable),
    Action(Rc<ActionDecl>),
    Table(Rc<TableDecl>),
    MuTable(Rc<MuTableDecl>),
    Instance(Instance),
}

/// An action.
#[derive(Clone, Debug)]
pub struct ActionDecl {
    /// Its name.
    pub name: Name,
    /// What it is given; those without a direction come from the table's entry.
    pub parameters: Vec<Parameter>,
    /// What it does.
    pub body: Vec<Stmt>,
}

/// A table.
#[derive(Clone, Debug)]
pub struct TableDecl {
    /// Its name.
    pub name: Name,
    /// Expressions, and how each is matched.
    pub keys: Vec<(Expr, Name)>,
    /// Names, or calls with some of the arguments.
    pub actions: Vec<Expr>,
    /// What is done where nothing matches, and whether that never changes.
    pub default_action: Option<(Expr, bool)>,
    /// Entries that it begins with, and whether there are never others.
    pub entries: Option<(Vec<EntryDecl>, bool)>,
    /// Entries at most.
    pub size: Option<Expr>,
}

/// `keys : action(arguments);`
#[derive(Clone, Debug)]
pub struct EntryDecl {
    /// What matches.
    pub keys: Vec<Expr>,
    /// What is done.
    pub action: Expr,
    /// Where.
    pub span: Span,
}

/// A table that the data plane writes (RAPID §5.1).
#[derive(Clone, Debug)]
pub struct MuTableDecl {
    /// Its name.
    pub name: Name,
    /// What selects an entry.
    pub keys: Vec<Expr>,
    /// What an entry holds.
    pub values: Vec<FieldDecl>,
    /// `exact`, `ternary`, `lpm` or `direct`.
    pub kind: Option<Name>,
    /// `STRICT`, `WEAK`, or `BS` with its bound.
    pub consistency: Option<(Name, Option<Expr>)>,
    /// Entries at most.
    pub size: Option<Expr>,
}
