//! Operations with three addresses, and the values that they work on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The widest container, in bits.
pub const MAX_WIDTH: u32 = 128;

/// Index of a field in `Program::fields`.
pub type FieldId = u32;

/// A value with its bits. Written `0x1f:8`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Constant {
    /// The value, below 2^width.
    pub value: u128,
    /// Its bits.
    pub width: u32,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operand {
    /// A container.
    Field(FieldId),
    /// A constant.
    Constant(Constant),
}

impl Constant {
    /// A value cut to its bits.
    pub fn new(value: u128, width: u32) -> Constant {
        Constant { value: value & ones(width), width }
    }
}

/// A number of this many ones.
pub fn ones(width: u32) -> u128 {
    match width {
        0 => 0,
        _ => u128::MAX >> (128 - width.min(128)),
    }
}

/// A statement, and its stage from 1; 0 where there are no stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Statement {
    /// In which stage of the pipeline it is done. An `if` has none: it stands for the condition of what is in it.
    #[serde(default)]
    pub stage: u16,
    /// Whether it is done before that stage's look-ups.
    #[serde(default)]
    pub before: bool,
    /// Where it is written: an index in [`Program::places`](super::Program::places).
    #[serde(default)]
    pub place: u32,
    /// What it does.
    #[serde(flatten)]
    pub kind: StatementKind,
}

impl From<StatementKind> for Statement {
    fn from(kind: StatementKind) -> Statement {
        Statement { stage: 0, before: false, place: 0, kind }
    }
}

impl Statement {
    /// Which half of which stage: that before the look-ups of stage `s` is `2s`, that with them and behind them
    /// `2s + 1`.
    pub fn half(&self) -> u16 {
        2 * self.stage + u16::from(!self.before)
    }
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum StatementKind {
    /// `to = op(operands)`
    Compute {
        /// Where the result goes.
        to: FieldId,
        /// What is computed.
        #[serde(flatten)]
        value: Compute,
    },
    /// One of two bodies, by a field of one bit.
    If {
        /// Which.
        condition: Operand,
        /// Where it is 1.
        then: Vec<Statement>,
        /// Where it is 0.
        otherwise: Vec<Statement>,
    },
    /// What `leave` leaves.
    Scope {
        /// What is in it.
        body: Vec<Statement>,
    },
    /// Goes on behind the innermost scope, or ends the action of a table.
    Leave,
    /// Ends the whole block.
    Exit,
    /// Looks a table up and does what it says.
    Apply {
        /// Which table.
        table: u32,
        /// Gets 1 where an entry matched.
        hit: Option<FieldId>,
        /// Gets the place of the action in the table's list.
        action_run: Option<FieldId>,
    },
    /// Reads an entry of a muTable; all values are 0 where there is none.
    MuRead {
        /// Which muTable.
        table: u32,
        /// A value for each key.
        keys: Vec<Operand>,
        /// Where each value goes.
        to: Vec<FieldId>,
    },
    /// Writes an entry of a muTable.
    MuWrite {
        /// Which muTable.
        table: u32,
        /// A value for each key.
        keys: Vec<Operand>,
        /// A value for each value.
        values: Vec<Operand>,
    },
    /// Reads a register; 0 past its end.
    RegisterRead {
        /// Which register.
        register: u32,
        /// Where in it.
        index: Operand,
        /// Where the value goes.
        to: FieldId,
    },
    /// Writes a register; nothing past its end.
    RegisterWrite {
        /// Which register.
        register: u32,
        /// Where in it.
        index: Operand,
        /// What.
        value: Operand,
    },
    /// Counts the packet.
    Count {
        /// Which counter.
        counter: u32,
        /// Where in it.
        index: Operand,
    },
    /// Marks the packet: 0 green, 1 yellow, 2 red.
    ExecuteMeter {
        /// Which meter.
        meter: u32,
        /// Where in it.
        index: Operand,
        /// Where the colour goes.
        to: FieldId,
    },
    /// `to = base + hash(data) % max`, or `base` where `max` is 0.
    Hash {
        /// How.
        algorithm: Algorithm,
        /// The least result.
        base: Operand,
        /// How many results.
        max: Operand,
        /// What is hashed, most significant bit first.
        data: Vec<Operand>,
        /// Where the result goes.
        to: FieldId,
    },
    /// A checksum over `data`, and over the payload if so.
    Checksum {
        /// How.
        algorithm: Algorithm,
        /// What it covers.
        data: Vec<Operand>,
        /// Whether it covers the payload.
        with_payload: bool,
        /// Where it goes.
        to: FieldId,
    },
    /// `low` to `high`, drawn from the packet's number.
    Random {
        /// The least.
        low: Operand,
        /// The greatest.
        high: Operand,
        /// Where it goes.
        to: FieldId,
    },
    /// Takes a header off the packet. Parser only, as the next four.
    Extract {
        /// Index in `Program::headers`.
        header: u32,
    },
    /// Takes the next header of a stack off the packet.
    ExtractNext {
        /// Index in `Program::stacks`.
        stack: u32,
    },
    /// Reads ahead without taking anything.
    Lookahead {
        /// Where each part goes, in order.
        to: Vec<FieldId>,
    },
    /// Skips bits.
    Advance {
        /// How many.
        bits: Operand,
    },
    /// Rejects the packet where the condition is 0.
    Verify {
        /// What must hold.
        condition: Operand,
        /// The error's number.
        error: Operand,
    },
    /// Writes a header, if it is valid. Deparser only.
    Emit {
        /// Index in `Program::headers`.
        header: u32,
    },
}

/// What is computed. Operands of `binary` have one width, but for `shift`s and `concat`; results of comparisons
/// have one bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Compute {
    /// The value itself.
    Copy {
        /// What.
        from: Operand,
    },
    /// To another width: cut off, or filled up with zeros or the sign.
    Resize {
        /// What.
        from: Operand,
        /// Whether it is filled up with the sign.
        signed: bool,
    },
    /// All bits inverted.
    Not {
        /// What.
        from: Operand,
    },
    /// Two's complement.
    Negate {
        /// What.
        from: Operand,
    },
    /// Bits `high` to `low`.
    Slice {
        /// What the bits are taken from.
        from: Operand,
        /// The highest bit.
        high: u32,
        /// The lowest bit.
        low: u32,
    },
    /// `into` with bits `high` to `low` replaced.
    Insert {
        /// What is kept.
        into: Operand,
        /// What is put there.
        from: Operand,
        /// The highest bit.
        high: u32,
        /// The lowest bit.
        low: u32,
    },
    /// Two operands.
    Binary {
        /// How.
        by: Binary,
        /// The left one.
        a: Operand,
        /// The right one.
        b: Operand,
    },
    /// `then` where the condition is 1.
    Select {
        /// Which.
        condition: Operand,
        /// Where it is 1.
        then: Operand,
        /// Where it is 0.
        otherwise: Operand,
    },
}

/// Operations of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Binary {
    /// Wraps.
    Add,
    /// Wraps.
    Subtract,
    /// Wraps.
    Multiply,
    /// Up to 2^w - 1.
    SaturatingAdd,
    /// Down to 0.
    SaturatingSubtract,
    /// Within -2^(w-1) to 2^(w-1) - 1.
    SignedSaturatingAdd,
    /// Within -2^(w-1) to 2^(w-1) - 1.
    SignedSaturatingSubtract,
    /// Bit by bit.
    And,
    /// Bit by bit.
    Or,
    /// Bit by bit.
    Xor,
    /// By any number of bits.
    ShiftLeft,
    /// Zeros come in.
    ShiftRight,
    /// The sign comes in.
    SignedShiftRight,
    /// The left one in the high bits.
    Concat,
    /// One bit.
    Equal,
    /// One bit.
    NotEqual,
    /// One bit.
    Less,
    /// One bit.
    LessEqual,
    /// One bit, of numbers with a sign.
    SignedLess,
    /// One bit, of numbers with a sign.
    SignedLessEqual,
}

/// Hashes and checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// CRC-32 as Ethernet has it.
    Crc32,
    /// CRC-16/ARC.
    Crc16,
    /// The Internet checksum (RFC 1071).
    Csum16,
    /// Exclusive or of 16-bit words.
    Xor16,
    /// The data itself.
    Identity,
}

/// Whether a `leave` in these statements leaves them.
pub fn leaves(body: &[Statement]) -> bool {
    body.iter().any(|statement| match &statement.kind {
        StatementKind::Leave => true,
        StatementKind::If { then, otherwise, .. } => leaves(then) || leaves(otherwise),
        _ => false,
    })
}

/// Whether an `exit` in these statements ends the block.
pub fn exits(body: &[Statement]) -> bool {
    body.iter().any(|statement| match &statement.kind {
        StatementKind::Exit => true,
        StatementKind::If { then, otherwise, .. } => exits(then) || exits(otherwise),
        StatementKind::Scope { body } => exits(body),
        _ => false,
    })
}
