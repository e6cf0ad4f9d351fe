//! Chains: what a chain file says, and the functions, tables and pools that it comes to. No packets here.
//!
//! | file | what it is |
//! |---|---|
//! | `config` | the chain file, and what is wrong with it |
//! | `classes` | which packets have priority |
//! | `interfaces` | which network interfaces it is for, and their sides |
//! | `registry` | the functions that a chain file may name |
//! | `layout`, `striped`, `keeping` | which functions share a table, and what each core gets |
//! | `reads` | which header fields a packet's history must hold |
//! | `directions`, `sides` | inside and outside: both orders of the functions |
//! | `checksums` | whether packets with wrong checksums are dropped |
//! | `inherit` | which functions of a chain go on with the flows of those in the chain before |
//! | `undeclared` | functions that count what they do not declare |

use std::sync::Arc;

use serde::Deserialize;
use strategy::FunctionShape;
use table::{MAX_FLOWS, WhenFull};
use wire::{Fields, Headers, LinkType, Stamp};

use crate::chain::checksums::Checksums;
use crate::chain::registry::{Function, FunctionInfo};
use crate::path::checks::{self, Checks, Fragments};
use crate::path::core::ChainCore;
use crate::path::sides::Sides;
use crate::path::traced::TracedNames;
use crate::path::tracing::Tracing;

pub use classes::Classes;
pub use interfaces::ChainInterface;

pub(crate) mod checksums;
pub(crate) mod classes;
pub(crate) mod config;
mod directions;
pub(crate) mod inherit;
pub(crate) mod interfaces;
pub(crate) mod keeping;
mod layout;
pub(crate) mod quantity;
mod reads;
pub(crate) mod registry;
pub(crate) mod sides;
mod striped;
pub(crate) mod undeclared;

/// A chain of functions as its file states it: what to run, not yet running.
#[derive(Clone)]
pub struct Chain {
    /// The chain's name, for reports.
    pub name: String,
    /// What its file says.
    pub text: Arc<str>,
    /// What becomes of malformed packets.
    pub malformed: MalformedPolicy,
    /// Whether packets with wrong checksums count as malformed.
    pub checksums: Checksums,
    /// Which fragments count as malformed.
    pub fragments: Fragments,
    /// What becomes of packets whose source address is of the other side than their interface.
    pub spoofed: SpoofedPolicy,
    /// Seed of everything that functions draw. All cores share it.
    pub seed: u64,
    /// Whether that was drawn when the chain was read, since its file gives none: then nobody outside can tell what functions
    /// draw.
    pub seed_is_drawn: bool,
    /// Seed of the tables' hashes, drawn anew when the chain is read, so that nobody can choose flows
    /// that collide. All cores share it.
    pub table_seed: u64,
    /// What is inside and what is outside, if the chain has two directions.
    pub sides: Option<Arc<Sides>>,
    /// How long packets may wait, for strategies that use as few cores as keep that: `dyssect`.
    pub slo: Option<Slo>,
    /// Which packets have priority, for the same.
    pub classes: Classes,
    /// The network interfaces that it is for, if its file names some.
    pub interfaces: Arc<[ChainInterface]>,
    /// The functions, in the order in which packets meet them: those from outside, if the chain has sides, in
    /// reverse.
    pub functions: Vec<FunctionSpec>,
}

/// A service-level objective: `[slo]` of a chain file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slo {
    /// How long 99 in 100 packets may wait for their core at most, µs; where there are classes, of those with priority.
    pub p99_us: f64,
}

/// What becomes of malformed packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MalformedPolicy {
    /// Dropped.
    #[default]
    Drop,
    /// Forwarded; no function sees them.
    Pass,
}

/// What becomes of packets whose source address is of the other side than the interface by which they came, in a chain with
/// two sides, where interfaces have sides: on two network interfaces, and in captures of which one is said to be inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpoofedPolicy {
    /// Dropped (RFC 2827, RFC 3704).
    #[default]
    Drop,
    /// They come from the side of their source address, as all packets do then, whatever their interface: for networks whose
    /// routes are asymmetric.
    Pass,
}

/// One function of a chain.
#[derive(Clone)]
pub struct FunctionSpec {
    /// What reports call it: the function's name, with `#2`, `#3` if the chain has it again.
    pub name: String,
    /// The function with its options.
    pub function: Arc<dyn Function>,
    /// Its own options as the chain file says them. Chains are cloned while packets wait, and a set may have a million members.
    pub(crate) options: Arc<toml::Table>,
    /// Flows that each core's table holds.
    pub flows: usize,
    /// What happens when there are more.
    pub when_full: WhenFull,
}

impl Chain {
    /// This chain with tables of one size: `flows` on each core, and `when_full` for what becomes of more.
    ///
    /// # Panics
    /// If `flows` is not from 1 to [`table::MAX_FLOWS`].
    pub fn with_flows(mut self, flows: usize, when_full: WhenFull) -> Chain {
        assert!((1..=MAX_FLOWS).contains(&flows), "a table for {flows} flows");
        self.functions.iter_mut().for_each(|spec| (spec.flows, spec.when_full) = (flows, when_full));
        self
    }

    /// Has functions draw from this seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Chain {
        Chain { seed, seed_is_drawn: false, ..self }
    }

    /// The chain as it runs behind `before`: its tables hash as those did, so that it can go on with their flows, and where its
    /// own file gives no seed its functions go on drawing from that of `before`.
    #[must_use]
    pub fn behind(self, before: &Chain) -> Chain {
        let Chain { seed, seed_is_drawn, table_seed, .. } = *before;
        match self.seed_is_drawn {
            true => Chain { seed, seed_is_drawn, table_seed, ..self },
            false => Chain { table_seed, ..self },
        }
    }

    /// The functions that draw from the seed, by their names.
    pub fn drawing(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().filter(|spec| spec.function.draws()).map(|spec| spec.name.as_str())
    }

    /// Whether a function reports a table whose title begins so.
    pub fn reports(&self, title: &str) -> bool {
        let tables = |spec: &FunctionSpec| spec.function.report(&[], Stamp::default());
        self.functions.iter().flat_map(tables).any(|table| table.title.starts_with(title))
    }

    /// The headers of a packet as every core of this chain sees them, if there is nothing wrong with its checksums or
    /// fragments: parsed, and marked with the side that the packet comes from, if the chain has sides.
    pub fn headers(&self, link: LinkType, frame: &[u8], wire_len: u32) -> Headers {
        let mut headers = Headers::default();
        checks::parse_into(self.sides.as_deref(), link, frame, wire_len, &mut headers);
        headers
    }

    /// The chain as it runs on interfaces: `checksums = "auto"` ignores, since cards and kernels verify, and functions are
    /// what they are there ([`nf::Extras::live`]).
    pub fn on_interfaces(&self) -> Chain {
        let verifies = self.checksums == Checksums::Verify;
        let checksums = if verifies { Checksums::Verify } else { Checksums::Ignore };
        let mut chain = Chain { checksums, ..self.clone() };
        for spec in &mut chain.functions {
            if let Some(function) = spec.function.live() {
                spec.function = function;
            }
        }
        chain
    }

    /// This chain with `fragments = "follow"`: functions are what they are where later fragments come with what their first said
    /// ([`nf::Extras::following_fragments`]).
    #[must_use]
    pub fn following_fragments(self) -> Chain {
        let mut chain = Chain { fragments: Fragments::Follow, ..self };
        for spec in &mut chain.functions {
            if let Some(function) = spec.function.following_fragments() {
                spec.function = function;
            }
        }
        chain
    }

    /// What is checked of each packet.
    pub(crate) fn checks(&self) -> Checks {
        Checks {
            sides: self.sides.clone(),
            goes_by_interface: self.spoofed == SpoofedPolicy::Drop,
            verifies_checksums: self.checksums == Checksums::Verify,
            fragments: self.fragments,
        }
    }

    /// Has cores of this chain trace the packets that `tracing` asks for.
    pub(crate) fn trace_on(&self, cores: &mut [ChainCore], tracing: &Arc<Tracing>) {
        let function = |spec: &FunctionSpec| {
            let FunctionInfo { about, edits, .. } = spec.function.info();
            (spec.name.clone(), about, edits)
        };
        let names = Arc::new(TracedNames { functions: self.functions.iter().map(function).collect() });
        cores.iter_mut().enumerate().for_each(|(number, core)| core.trace(tracing, number, &names));
    }

    /// What sharding needs to know of the functions.
    pub fn shapes(&self) -> Vec<FunctionShape<'_>> {
        let shape = |spec: &'_ FunctionSpec| {
            let FunctionInfo { mut sharding, edits, is_by_host, .. } = spec.function.info();
            if is_by_host {
                // Nothing of it can be hashed.
                sharding.fields.remove(Fields::FIVE_TUPLE);
            }
            FunctionShape { name: "", sharding, edits, has_sides: spec.function.sides().is_some() }
        };
        self.functions.iter().map(|spec| FunctionShape { name: &spec.name, ..shape(spec) }).collect()
    }
}
