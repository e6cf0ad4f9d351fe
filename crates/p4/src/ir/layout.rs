//! Where a pipeline has what a program does: what [stage allocation](crate::passes::allocate) found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::statement::FieldId;

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
    /// The half that begins with the copy: see [`Statement::half`](super::Statement::half).
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
