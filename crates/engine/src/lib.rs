//! Paceline's engine: chains of network functions over batches of packets, on many cores.
//!
//! The code is in seven rooms. Each uses those before it in this list, and none behind it.
//!
//! | room | what it holds |
//! |---|---|
//! | `path` | a packet's way on one core: [`run`], [`turn`], [`Batch`], [`Intake`] |
//! | `store` | where states are: tables on each core, tables and states that cores share |
//! | `chain` | what a chain file says: [`Chain`], [`Registry`] |
//! | [`strategies`] | a folder for each strategy: who gets a packet, and what goes on beside its way |
//! | `executor` | one way to run cores: [`replay_capture`], [`replay_external()`], packets as they leave |
//! | `verify` | the oracle: [`verify()`] compares a strategy with one core, packet by packet |
//! | [`report`] | what people and programs are told |

mod chain;
mod executor;
mod path;
pub mod report;
mod store;
pub mod strategies;
mod verify;

pub use chain::checksums::{ChecksumSample, Checksums, DecidedBy};
pub use chain::config::ConfigError;
pub use chain::interfaces::others as hosts_of_other_sides;
pub use chain::quantity::{parse as parse_quantity, without_unit};
pub use chain::registry::{Function, FunctionInfo, ListedState, Registry};
pub use chain::undeclared::UndeclaredError;
pub use chain::{Chain, ChainInterface, Classes, FunctionSpec, MalformedPolicy, Slo, SpoofedPolicy};
pub use control::{Order, Placement, SolverKind};
pub use executor::capture::{replay_capture, replay_reloading};
pub use executor::cores::pin;
pub use executor::input::{Input, Progress};
pub use executor::leaving::{EgressOutcome, Watch};
pub use executor::listing::{Flows, ListError, ListedFlow, Listing, RuleCount};
pub use executor::live::{guests, run_live, run_live_each};
pub use executor::oddities::Oddities;
pub use executor::outcome::{HistoryOutcome, RunError, RunOutcome};
pub use executor::outside::{ExternalInput, ExternalPackets, SequencedAs, replay_external};
pub use executor::pace::{Speed, SpeedError};
pub use executor::publish::Publisher;
pub use executor::reload::{Reload, Reloaded, would_keep};
pub use executor::reloads::{CoresError, Doomed, MoveError, ReloadError, Reloads};
pub use executor::reordering::{MAX_N, Reordered, Reordering};
pub use executor::seen::Seen;
pub use names::nearest;
pub use path::batch::Batch;
pub use path::checks::Fragments;
pub use path::core::ChainCore;
pub use path::counters::{CoreCounters, FlowCounters, StageCounters, Undeclared};
pub use path::group::{Stage, StageSpec};
pub use path::laps::{Lap, Laps};
pub use path::look::TracedFlow;
pub use path::moves::{Counter, Moves, OwnCounters};
pub use path::packets::BATCH_PACKETS;
pub use path::parcel::{CorePools, Pool};
pub use path::portion::Portion;
pub use path::receive::{Forgotten, HistoryCounters, Intake, IntakeCounters, IntakeEnd};
pub use path::run::{Observer, Turn, run, turn};
pub use path::sides::Sides;
pub use path::traced::{Traced, TracedEdit, TracedNames, TracedStep, TracedVerdict};
pub use path::tracing::{Busy, Traces, Tracing};
pub use report::words as text;
pub use store::build::{GroupBuilder, GroupSize, Shared, SharedOn};
pub use store::follow::End;
pub use store::history::NewColumn;
pub use store::striped::StripedBuilder;
pub use strategies::account::{
    Account, CandidateTold, ChoosingTold, Decision, Moved, MovedValue, NotPromoted, ObjectiveTally,
    ObjectiveTold, Place, PriorityTold, Promoted, PromotionTold, RatioChange, Told, Why,
};
pub use strategies::egress::Egress;
pub use strategies::fragments::FragmentTracker;
pub use strategies::limits::{MAX_CORES, free_bytes};
pub use strategies::plan::Plan;
pub use strategies::refusal::{NoMove, NoOwnPorts, NoParking, PlanError};
pub use strategies::rsspp::mover::Mover;
pub use strategies::rsspp::updates::{UpdateTimes, Updates};
pub use strategies::scr::log::{HistoryWriter, history};
pub use strategies::scr::outside::arrivals::InputError;
pub use strategies::scr::outside::files::{core_file, core_files};
pub use strategies::scr::outside::intake::External;
pub use strategies::scr::outside::loss::{Loss, LossShare, LossShareError};
pub use strategies::scr::outside::on_loss::Recovery;
pub use strategies::scr::outside::sequencing::{Sequenced, Sequencing, SequencingError};
pub use verify::{
    Agreement, AllocationEvent, Answer, Answered, Beside, Broken, HistoryCheck, Judged, Mismatch,
    SharedCheck, Uncompared, UpTo, Verified, VerifyError, Wrong, verify, verify_answered, verify_external,
    verify_reloading,
};
