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

mod chain;
mod executor;
mod path;
pub mod report;
mod store;
pub mod strategies;
mod verify;

pub use chain::checksums::{ChecksumSample, Checksums};
pub use chain::config::ConfigError;
pub use chain::registry::{Function, FunctionInfo, Registry};
pub use chain::undeclared::UndeclaredError;
pub use chain::{Chain, FunctionSpec, MalformedPolicy};
pub use control::Order;
pub use executor::capture::replay_capture;
pub use executor::input::{Input, Progress};
pub use executor::leaving::{EgressOutcome, Watch};
pub use executor::oddities::Oddities;
pub use executor::outcome::{HistoryOutcome, RunError, RunOutcome};
pub use executor::outside::{ExternalInput, ExternalPackets, replay_external};
pub use executor::pace::{Speed, SpeedError};
pub use executor::publish::Publisher;
pub use executor::reordering::{MAX_N, Reordered, Reordering};
pub use executor::seen::Seen;
pub use executor::threads::pin;
pub use path::batch::Batch;
pub use path::checks::Fragments;
pub use path::core::ChainCore;
pub use path::counters::{CoreCounters, FlowCounters, StageCounters, Undeclared};
pub use path::group::{Stage, StageSpec};
pub use path::laps::{Lap, Laps};
pub use path::packets::BATCH_PACKETS;
pub use path::parcel::{CorePools, Pool};
pub use path::receive::{Forgotten, HistoryCounters, Intake, IntakeCounters, IntakeEnd, Moves};
pub use path::run::{Observer, Turn, run, turn};
pub use path::sides::Sides;
pub use report::words as text;
pub use store::build::{GroupBuilder, GroupSize, Shared, SharedOn};
pub use store::follow::End;
pub use store::striped::StripedBuilder;
pub use strategies::egress::Egress;
pub use strategies::fragments::FragmentTracker;
pub use strategies::limits::{MAX_CORES, free_bytes};
pub use strategies::plan::Plan;
pub use strategies::refusal::PlanError;
pub use strategies::rsspp::mover::Mover;
pub use strategies::scr::outside::arrivals::InputError;
pub use strategies::scr::outside::files::{core_file, core_files};
pub use strategies::scr::outside::intake::External;
pub use strategies::scr::outside::loss::{Loss, LossShare, LossShareError};
pub use strategies::scr::outside::on_loss::Recovery;
pub use strategies::scr::outside::sequencing::{Sequenced, Sequencing};
pub use strategies::scr::replicator::{Past, Recalled, Replicator};
pub use verify::{
    Answer, Broken, HistoryCheck, Mismatch, SharedCheck, Verified, VerifyError, verify, verify_external,
};
