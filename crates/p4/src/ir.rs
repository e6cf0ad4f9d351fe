//! The intermediate representation: what a program does, without structure that hardware does not have.
//!
//! - **Fields** are numbered containers of 1 to 128 bits: header fields, metadata, temporaries, one bit for each
//!   header that says whether it is valid. Structs are gone.
//! - **Statements** are operations with three addresses, in order, under structured `if`s. Expressions are gone;
//!   controls that a control applies, and actions that it calls, are written out where they are applied.
//! - **Tables**, **muTables**, registers, counters and meters are numbered too, and named as in the program:
//!   `control.name`.
//! - Every statement has a stage: 0 until [stage allocation](crate::passes) has put it into one.
//!
//! A field is 0 when a packet arrives. All operations are total: there is no input on which one fails.

mod object;
mod tables;
mod text;
mod visit;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use object::Object;
pub use tables::{
    Action, ActionCall, Column, Consistency, Counter, Entry, KeySet, MatchKind, Matching, Mentions, Meter,
    MuTable, Register, SourcePlace, Table, TableKey, Unit,
};
pub use text::Line;
pub use visit::visit_mut;

/// The widest container, in bits.
pub const MAX_WIDTH: u32 = 128;

/// Index of a field in [`Program::fields`].
pub type FieldId = u32;

/// A whole program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    /// The source file's name, without its folder.
    pub name: String,
    /// All containers.
    pub fields: Vec<Field>,
    /// Header instances.
    pub headers: Vec<Header>,
    /// Header stacks.
    pub stacks: Vec<Stack>,
    /// Names of errors; their numbers are their places.
    pub errors: Vec<String>,
    /// The architecture's metadata.
    pub standard: Standard,
    /// Registers.
    pub registers: Vec<Register>,
    /// Counters.
    pub counters: Vec<Counter>,
    /// Meters.
    pub meters: Vec<Meter>,
    /// Tables that the data plane writes.
    pub mu_tables: Vec<MuTable>,
    /// Actions of tables.
    pub actions: Vec<Action>,
    /// Tables.
    pub tables: Vec<Table>,
    /// States of the parser; it begins with the first.
    pub parser: Vec<State>,
    /// What checks checksums, after the parser.
    pub verify_checksum: Vec<Statement>,
    /// The ingress.
    pub ingress: Vec<Statement>,
    /// The egress.
    pub egress: Vec<Statement>,
    /// What computes checksums.
    pub compute_checksum: Vec<Statement>,
    /// What puts the packet together again.
    pub deparser: Vec<Statement>,
    /// Where things are, once stages are allocated.
    pub layout: Option<Layout>,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Field {
    /// Its path in the program, such as `hdr.ipv4.ttl`; `%3` for a temporary.
    pub name: String,
    /// Its bits, 1 to 128.
    pub width: u32,
    /// What it belongs to.
    pub kind: FieldKind,
}

/// What a field belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    /// A field of a header, on the wire.
    Header,
    /// Whether a header is valid.
    Validity,
    /// Metadata and variables of the program.
    Metadata,
    /// Metadata of the architecture.
    Standard,
    /// What an action is given by an entry.
    Parameter,
    /// A value that lowering needed.
    Temporary,
    /// What field renaming added.
    Renamed,
}

/// A header instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// Its path.
    pub name: String,
    /// Its fields in the order on the wire, most significant bit first. Together whole bytes.
    pub fields: Vec<FieldId>,
    /// Says whether it is valid.
    pub valid: FieldId,
}

/// A header stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Its path.
    pub name: String,
    /// Its headers, as indices of [`Program::headers`].
    pub headers: Vec<u32>,
    /// Which comes next: how many were extracted.
    pub next: FieldId,
}

/// Fields of the architecture's metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Standard {
    /// Where the packet came in.
    pub ingress_port: FieldId,
    /// Where it is to go; 511 drops it.
    pub egress_spec: FieldId,
    /// Where it goes, in the egress.
    pub egress_port: FieldId,
    /// Its bytes.
    pub packet_length: FieldId,
    /// When it came, in microseconds.
    pub ingress_global_timestamp: FieldId,
    /// When the egress has it, in microseconds.
    pub egress_global_timestamp: FieldId,
    /// The group of ports that it is to go to; 0 is none.
    pub mcast_grp: FieldId,
    /// Which copy this is.
    pub egress_rid: FieldId,
    /// 0 for a packet, 5 for a copy for a group.
    pub instance_type: FieldId,
    /// Whether a checksum was wrong.
    pub checksum_error: FieldId,
    /// What went wrong in the parser.
    pub parser_error: FieldId,
}

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

/// A statement, and its stage from 1; 0 where there are no stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Statement {
    /// In which stage of the pipeline it is done. An `if` has none: it stands for the condition of what is in it.
    #[serde(default)]
    pub stage: u16,
    /// Whether it is done before that stage's look-ups.
    #[serde(default)]
    pub before: bool,
    /// What it does.
    #[serde(flatten)]
    pub kind: StatementKind,
}

impl From<StatementKind> for Statement {
    fn from(kind: StatementKind) -> Statement {
        Statement { stage: 0, before: false, kind }
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
        /// Index in [`Program::headers`].
        header: u32,
    },
    /// Takes the next header of a stack off the packet.
    ExtractNext {
        /// Index in [`Program::stacks`].
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
        /// Index in [`Program::headers`].
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
        /// Of what.
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
    /// The same.
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

/// A state of the parser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct State {
    /// Its name.
    pub name: String,
    /// What it does.
    pub body: Vec<Statement>,
    /// Fields that decide where it goes.
    pub select: Vec<Operand>,
    /// The first that matches decides; if none does, the packet is rejected.
    pub cases: Vec<Case>,
}

/// Where a state goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Case {
    /// What each of the state's fields is held against; `null` is anything. Empty matches always.
    pub keys: Vec<Option<KeySet>>,
    /// Where to.
    pub target: Target,
}

/// Where a transition leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Index in [`Program::parser`].
    State(u32),
    /// The ingress.
    Accept,
    /// The ingress too, with an error.
    Reject,
}

/// Where things are in the pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layout {
    /// Stages of ingress and egress together.
    pub stages: u16,
    /// The first stage of the egress.
    pub egress_from: u16,
    /// For each table, where it is.
    pub tables: Vec<u16>,
    /// For each muTable, where it is read and written.
    pub mu_tables: Vec<MuPlace>,
    /// For each register, where it is; `writes` past `reads` is what a register cannot do.
    pub registers: Vec<MuPlace>,
    /// Stages from the first that reads a muTable to the last that writes one, both of them counted: RAPID's m. 0
    /// where none is written.
    pub span: u16,
    /// Fields that are copied so that a packet which is done over does not find its own edits.
    pub renamed: Vec<Renamed>,
    /// Tables and states that are used in orders for which there are no stages: they have none, then.
    #[serde(default)]
    pub unsettled: Vec<String>,
    /// What does not fit a pipeline.
    pub notes: Vec<String>,
    /// What a pipeline may do in another order than that in which packets arrive.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// A field and the copy that stands for it from where it is made, before a stage's look-ups, to the end of the block.
/// There the copy goes back into the field; of several for one field, the last one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Renamed {
    /// The field.
    pub field: FieldId,
    /// Its copy.
    pub to: FieldId,
    /// The stage whose look-ups find the copy made.
    pub stage: u16,
    /// Whether that is in the egress.
    pub in_egress: bool,
}

impl Renamed {
    /// The half that begins with the copy: see [`Statement::half`].
    pub fn half(&self) -> u16 {
        2 * self.stage + 1
    }
}

/// Where state is read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MuPlace {
    /// The stage that holds and reads it; 0 if nothing uses it.
    pub reads: u16,
    /// The last stage that writes it; 0 if none does.
    pub writes: u16,
    /// `register` if both are one stage, else `flow_state`.
    pub memory: Memory,
}

/// What holds a muTable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// Read and written in one stage at once.
    #[default]
    Register,
    /// Written from a later stage, over the ring.
    FlowState,
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

impl Program {
    /// The bits of an operand.
    pub fn width(&self, operand: Operand) -> u32 {
        match operand {
            Operand::Field(field) => self.fields[field as usize].width,
            Operand::Constant(constant) => constant.width,
        }
    }

    /// All bodies: of states, actions and blocks.
    pub fn all_bodies_mut(&mut self) -> impl Iterator<Item = &mut Vec<Statement>> {
        let states = self.parser.iter_mut().map(|state| &mut state.body);
        let actions = self.actions.iter_mut().map(|action| &mut action.body);
        let blocks = [
            &mut self.verify_checksum,
            &mut self.ingress,
            &mut self.egress,
            &mut self.compute_checksum,
            &mut self.deparser,
        ];
        states.chain(actions).chain(blocks)
    }

    /// The bodies of ingress and egress and of all actions, in this order.
    pub fn bodies(&self) -> impl Iterator<Item = &Vec<Statement>> {
        [&self.ingress, &self.egress].into_iter().chain(self.actions.iter().map(|action| &action.body))
    }
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
