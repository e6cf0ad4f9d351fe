//! Paceline's data path: chains of network functions over batches of packets, on many cores.
//!
//! | module | what it is |
//! |---|---|
//! | [`run`](mod@run) | the way of a packet, on one page: start reading here |
//! | [`Batch`], [`Stage`] | a batch of packets, and one function of a chain on one core |
//! | [`Chain`], [`Registry`] | a chain as its TOML file states it, and the functions it may name |
//! | [`replay_capture`] | a chain over a capture with real threads |
//! | [`Sequencing`] | history put before the packets of a capture, for cores that get it from outside |
//! | [`replay_external()`] | a chain on cores that get their history from outside, losses included |
//! | [`verify()`] | the same under two strategies, compared packet by packet |
//! | [`Egress`], [`Reordering`] | in which order packets leave, and how far that is from the one they came in |
//! | [`Publisher`] | a core's counters, told while it works |
//! | [`report`] | what a run has to tell, as data |

mod batch;
mod chain;
mod checksums;
mod clocks;
mod config;
mod egress;
mod external;
mod follow;
mod fragments;
mod group;
mod group_builder;
mod history;
mod ingress;
mod mask;
mod member;
mod moving;
mod oddities;
mod pace;
mod passed;
mod plan;
mod publish;
mod registry;
mod reordering;
mod replicate;
pub mod report;
pub mod run;
mod runner;
mod runs;
mod session;
mod shared;
mod shared_member;
mod sides;
mod stage;
mod stateless;
mod striped;
pub mod text;
mod undeclared;
mod verify;
mod walk;
mod watched_member;

pub use batch::{BATCH_PACKETS, Batch};
pub use chain::{Chain, ChainCore, FunctionSpec, MalformedPolicy};
pub use checksums::{ChecksumSample, Checksums};
pub use config::ConfigError;
pub use control::Order;
pub use egress::{Egress, EgressOutcome, Watch};
pub use external::{
    External, ExternalInput, ExternalPackets, HistoryCheck, HistoryCounters, HistoryOutcome, InputError,
    Loss, LossShare, LossShareError, Recovery, Sequenced, Sequencing, core_file, core_files, replay_external,
    verify_external,
};
pub use follow::End;
pub use fragments::{FragmentTracker, Fragments};
pub use group_builder::{CorePools, GroupBuilder, GroupSize, Pool, Shared, SharedOn};
pub use moving::Mover;
pub use oddities::Oddities;
pub use pace::{Speed, SpeedError};
pub use plan::{MAX_CORES, Plan, PlanError, free_bytes};
pub use publish::Publisher;
pub use registry::{Function, FunctionInfo, Registry};
pub use reordering::{MAX_N, Reordered, Reordering};
pub use replicate::{Forgotten, Past, Recalled, Replicator};
pub use session::{Input, Progress, RunError, RunOutcome, Seen, pin, replay_capture};
pub use sides::Sides;
pub use stage::{FlowCounters, Stage, StageCounters, StageSpec, Undeclared};
pub use striped::StripedBuilder;
pub use undeclared::UndeclaredError;
pub use verify::{Answer, Broken, Mismatch, SharedCheck, Verified, VerifyError, verify};
