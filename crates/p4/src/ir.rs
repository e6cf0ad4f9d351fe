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

mod layout;
mod object;
mod statement;
mod tables;
mod text;
mod visit;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use layout::{Layout, Memory, MuPlace, Renamed};
pub use object::Object;
pub use statement::{
    Algorithm, Binary, Compute, Constant, FieldId, MAX_WIDTH, Operand, Statement, StatementKind, exits,
    leaves, ones,
};
pub use tables::{
    Action, ActionCall, Column, Consistency, Counter, Entry, KeySet, MatchKind, Matching, Mentions, Meter,
    MuTable, Register, SourcePlace, Table, TableKey, Unit, WrittenPlace, has_priorities,
};
pub use text::Line;
pub use visit::{visit_mut, visit_numbered};

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
    /// Where statements are written. The first place is empty: it stands for what has none.
    #[serde(default)]
    pub places: Vec<WrittenPlace>,
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
