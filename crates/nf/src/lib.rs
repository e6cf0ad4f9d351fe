//! The contract of a network function.
//!
//! A function states three things and nothing else: which header fields it reads
//! ([`NetworkFunction::project`]), which key selects its state ([`NetworkFunction::key`]), and how
//! one packet steps that state ([`NetworkFunction::step`]). These suffice to shard it, lock it, replicate it,
//! migrate it, batch and prefetch it.
//!
//! A step sees no packet bytes, no clock, no random generator and no thread: the same sequence of
//! metas and stamps gives the same states and verdicts on every core, however batches were cut.
//!
//! ```
//! # use paceline_nf as nf;
//! use nf::{About, Cx, FlowKey, NetworkFunction, OptionError, SrcAddr, Verdict};
//! use wire::{Fields, Headers};
//!
//! /// Lets each source send one packet in a second.
//! struct OneASecond;
//!
//! #[derive(Clone, Copy, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::TryFromBytes)]
//! #[repr(C)]
//! struct Meta { src: SrcAddr }
//!
//! #[derive(serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Options {}
//!
//! impl NetworkFunction for OneASecond {
//!     const ABOUT: About =
//!         About { name: "one-a-second", summary: "one packet a second", drop_reasons: &["too-soon"], ..About::NONE };
//!     const READS: Fields = Fields::SRC_ADDR.union(Fields::MARKS);
//!
//!     type Key = SrcAddr;
//!     type Meta = Meta;
//!     type State = u64; // when the source may send again, ns
//!     type Pool = ();
//!     type Options = Options;
//!
//!     fn new(_: Options) -> Result<Self, OptionError> { Ok(OneASecond) }
//!     fn project(headers: &Headers) -> Option<Meta> {
//!         headers.is_ip().then(|| Meta { src: SrcAddr::of(headers) })
//!     }
//!     fn key(meta: &Meta) -> SrcAddr { meta.src }
//!     fn step(&self, flow: &mut Option<u64>, _: &Meta, cx: &mut Cx<'_, ()>) -> Verdict {
//!         let now = cx.stamp.time_ns;
//!         if flow.is_some_and(|ready| now < ready) {
//!             return Verdict::Drop(0);
//!         }
//!         *flow = Some(now + 1_000_000_000);
//!         Verdict::Forward
//!     }
//!     fn idle_timeout_ns(&self, _: &u64) -> u64 { 1_000_000_000 }
//! }
//!
//! // For its tests: it reads what READS says, no more and no less.
//! let samples: Vec<Headers> = nf::sample_headers(1).take(4_000).collect();
//! assert_eq!(nf::check_reads::<OneASecond>(&samples), Ok(()));
//! ```
//!
//! What only some functions have is in a constant that is empty by default, [`NetworkFunction::EXTRAS`]: state that no
//! key owns, a report, an inside and an outside, and the like. [`Extras`] lists it by theme.
#![no_std]

extern crate alloc;

mod backends;
mod cx;
mod ended;
mod fixed_ends;
mod function;
mod hash;
mod in_place;
mod judge;
mod key;
mod leaps;
mod options;
pub mod prefix;
mod reads;
mod report;
mod rig;
mod samples;
mod sides;
mod trial;
mod verdict;

pub use backends::{Backend, Check, HttpCheck};
pub use cx::{Cx, undeclared_event};
pub use ended::{Ended, SizeClass, began_anew};
pub use fixed_ends::{Counterpart, End, FixedEnd, FixedEnds};
pub use function::{
    About, EndedOf, Extras, Flows, FullTable, Guarantees, InPlace, Leap, LeapSteps, NetworkFunction, Pooled,
    Records, Reload, Reports, StepInPlace, TwoSided, Undivided, WhenShared,
};
pub use hash::{Hasher, drawn, hash_bytes, hash_u128};
pub use in_place::{InPlaceError, check_in_place};
pub use judge::{Counted, Hearing, Judge, Left, Passage, Role, Ruling};
pub use key::{
    AddrPair, Connection, DstAddr, FiveTuple, FlowKey, KeyParts, Sharding, Short, SrcAddr, SrcEndpoint,
    Stateless,
};
pub use leaps::{LeapError, check_leaps};
pub use options::{OptionDoc, OptionError};
pub use reads::{ReadsError, assert_reads_key, check_reads, fields_read};
pub use report::{FunctionReport, StateValue};
pub use rig::Rig;
pub use samples::sample_headers;
pub use sides::Sides;
pub use verdict::Verdict;
