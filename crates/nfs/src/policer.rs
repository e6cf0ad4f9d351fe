//! `policer`, `destination-policer`: hold each flow, or the traffic to each address, to a rate with a
//! token bucket.
//!
//! | function | key | written from |
//! |---|---|---|
//! | `policer` | 5-tuple | SCR (NSDI'25) Table 1, "Token bucket policer" |
//! | `policer`, `by = "host"` | host inside, and the direction | the same, for each host behind a gateway |
//! | `destination-policer` | destination address | FAJITA (CoNEXT'24) App. A.1, "Policer": the download rate of each server |
//!
//! State is the tokens and the time of the last packet. The bucket and what it counts are those of
//! RFC 2697, colour-blind and with one bucket (excess burst 0): bytes of IP packets with their headers,
//! a packet conforms if the bucket holds all of its bytes, and a packet that does not takes none. The
//! arithmetic is exact: see [`TokenBucket`].
//!
//! | option | unit | default | |
//! |---|---|---|---|
//! | `rate_bytes_per_s` | bytes/s | 1250000 | how fast the bucket fills (10 Mbit/s) |
//! | `burst_bytes` | bytes | 125000 | how much it holds; a new flow finds it full |
//! | `action` | | `"drop"` | what happens to packets over the rate: `"drop"` or `"mark"` |
//! | `mark_dscp` | DSCP | 1 | what `"mark"` writes; ECN bits stay (RFC 3168) |
//! | `when_full` | | `"pass"` | packets of new flows while the table is full |
//! | `by` | | `"flow"` | `policer` alone: whose bucket a packet takes from, `"flow"` or `"host"` |
//! | `hosts` | prefixes | `[]` | with `by = "host"`: the hosts that are policed; empty is all inside |
//!
//! With `by = "host"` each host inside has a bucket for what it sends and one for what it is sent, whatever number of flows it
//! opens. The chain must have an inside: the host is the source of a packet from inside, and the destination of one from outside.
//! A packet between two hosts inside takes from the bucket of the one that sends it.
//!
//! A packet longer than `burst_bytes` never conforms: give at least the largest packet's length.
//! DSCP 1 is Lower Effort (RFC 8622). Routers may queue it apart, and so reorder the flow; traffic
//! that has to stay in order wants a drop precedence of its own class, such as 14, AF13 (RFC 2597).
//! Each direction is a flow. Later fragments have no ports, so for `policer` they are flows of their
//! own, with ports 0; to `destination-policer` they are like any other packet. What is not IP passes.
//!
//! # Drops, events, expiry, full table
//!
//! - `over-rate`: with `action = "drop"`, a packet that does not conform. `table-full`: see below.
//! - Events: `packets-over-rate`, dropped or marked.
//! - A flow is forgotten once its bucket is full again (but kept 10 ms at least, so that fast
//!   flows are not made anew with each packet). A full bucket is a new flow's, so expiry changes no
//!   verdict.
//! - When the table is full a new flow is not policed; its packets pass, or with
//!   `when_full = "drop"` are dropped as `table-full`.
//! - Where cores share the buckets, which packets are over the rate may differ from run to run; what
//!   passes to one address is never above rate and burst, and a packet that its bucket has room for passes.

use core::marker::PhantomData;

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use nf::prefix::PrefixSet;
use nf::{
    About, Cx, DstAddr, EndedOf, Extras, FiveTuple, Flows, FullTable, FunctionReport, Guarantees, InPlace,
    Leap, NetworkFunction, OptionDoc, OptionError, Reload, Reports, StateValue, TwoSided, Verdict,
    WhenShared,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use wire::{Addr, Edits, Fields, Headers, Stamp};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

use crate::common::{CompactKey, Metered, PassOrDrop, decimal_text};
use crate::inside_host::InsideHost;
use crate::token_bucket::{BURST_MAX, Debt, TokenBucket};

const OVER_RATE: u8 = 0;
const TABLE_FULL: u8 = 1;

const PACKETS_OVER_RATE: usize = 0;

const DSCP_MAX: u8 = 63;
/// ECN is the low two bits of the type of service, DSCP the others (RFC 3168 §5).
const ECN_MASK: u8 = 0b11;

/// `policer`, or for another key another: see the [module's page](self).
#[derive(Clone, Debug)]
pub struct Policer<K: Policed = FiveTuple> {
    bucket: TokenBucket,
    action: Action,
    mark_dscp: u8,
    when_full: PassOrDrop,
    /// By host, those that are policed; empty is all.
    hosts: PrefixSet,
    key: PhantomData<fn() -> K>,
}

/// `destination-policer`: see the [module's page](self).
pub type DestinationPolicer = Policer<DstAddr>;

/// `policer` with `by = "host"`: see the [module's page](self).
pub type HostPolicer = Policer<InsideHost>;

/// A key by which traffic is policed.
pub trait Policed: CompactKey {
    /// The function's name.
    const NAME: &'static str;
    /// What it does, in one line.
    const SUMMARY: &'static str;
    /// What it is written from.
    const SPEC: &'static str;
    /// What reports call the key.
    const COLUMN: &'static str;
    /// What a chain file may say.
    type Options: DeserializeOwned + Into<Options>;
    /// That, for people.
    const OPTIONS: &'static [OptionDoc];
    /// The host inside that the key is of, where it is of one.
    fn host(&self) -> Option<Addr> {
        None
    }
    /// Whether it is of a host inside.
    const IS_OF_HOST: bool = false;
}

impl Policed for FiveTuple {
    const NAME: &'static str = "policer";
    const SUMMARY: &'static str = "holds each flow to a rate with a token bucket";
    const SPEC: &'static str = "SCR (NSDI'25) Table 1: token bucket policer; RFC 2697";
    const COLUMN: &'static str = "flow";
    type Options = Options;
    const OPTIONS: &'static [OptionDoc] = &OPTIONS;
}

impl Policed for DstAddr {
    const NAME: &'static str = "destination-policer";
    const SUMMARY: &'static str = "holds the traffic to each address to a rate with a token bucket";
    const SPEC: &'static str = "FAJITA (CoNEXT'24) App. A.1: policer; RFC 2697";
    const COLUMN: &'static str = "destination";
    type Options = DestinationOptions;
    const OPTIONS: &'static [OptionDoc] = OPTIONS.first_chunk::<OF_ALL>().unwrap();
}

impl Policed for InsideHost {
    const NAME: &'static str = FiveTuple::NAME;
    const SUMMARY: &'static str = FiveTuple::SUMMARY;
    const SPEC: &'static str = FiveTuple::SPEC;
    const COLUMN: &'static str = "host";
    type Options = Options;
    const OPTIONS: &'static [OptionDoc] = &OPTIONS;
    const IS_OF_HOST: bool = true;

    #[inline]
    fn host(&self) -> Option<Addr> {
        Some(self.addr)
    }
}

/// So many of the options are those of every policer.
const OF_ALL: usize = 5;

const OPTIONS: [OptionDoc; OF_ALL + 2] = [
    OptionDoc { name: "rate_bytes_per_s", default: "1250000", help: "how fast a flow's bucket fills" },
    OptionDoc { name: "burst_bytes", default: "125000", help: "how much a bucket holds" },
    OptionDoc { name: "action", default: "\"drop\"", help: "packets over the rate: \"drop\" or \"mark\"" },
    OptionDoc { name: "mark_dscp", default: "1", help: "the DSCP that \"mark\" writes, 0 to 63" },
    OptionDoc {
        name: "when_full",
        default: "\"pass\"",
        help: "packets of new flows while the table is full: \"pass\" or \"drop\"",
    },
    OptionDoc {
        name: "by",
        default: "\"flow\"",
        help: "whose bucket a packet takes from: that of its \"flow\", or of its \"host\" inside, which has one for each direction",
    },
    OptionDoc {
        name: "hosts",
        default: "[]",
        help: "with by = \"host\", prefixes of the hosts that are policed; empty is all inside",
    },
];

/// The header fields that a policer reads: what it meters, and what it may mark.
#[derive(Clone, Copy, Debug, PartialEq, IntoBytes, Immutable, TryFromBytes)]
#[repr(C, packed)]
pub struct Markable<K: CompactKey = FiveTuple> {
    /// What it meters.
    pub metered: Metered<K>,
    /// Type of service, or traffic class.
    pub tos: u8,
}

impl<K: CompactKey> Markable<K> {
    /// The fields of an IP packet; `None` for others.
    #[inline]
    pub fn of(headers: &Headers) -> Option<Markable<K>> {
        Metered::of(headers).map(|metered| Markable { metered, tos: headers.tos })
    }
}

/// What happens to packets over the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// They are dropped.
    Drop,
    /// They pass with another DSCP.
    Mark,
}

/// Whose bucket a packet takes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// That of its flow.
    Flow,
    /// That of its host inside and its direction.
    Host,
}

/// Options of [`Policer`]: see the [module's page](self).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// How fast the bucket fills, bytes/s.
    pub rate_bytes_per_s: u64,
    /// How much the bucket holds.
    pub burst_bytes: u64,
    /// What happens to packets over the rate.
    pub action: Action,
    /// The DSCP that [`Action::Mark`] writes.
    pub mark_dscp: u8,
    /// What happens to packets of new flows while the table is full.
    pub when_full: PassOrDrop,
    /// Whose bucket a packet takes from.
    pub by: By,
    /// By host, prefixes of those that are policed; empty is all.
    pub hosts: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            rate_bytes_per_s: 1_250_000,
            burst_bytes: 125_000,
            action: Action::Drop,
            mark_dscp: 1,
            when_full: PassOrDrop::Pass,
            by: By::Flow,
            hosts: Vec::new(),
        }
    }
}

/// Options of [`DestinationPolicer`]: those of [`Options`] that are no [`By`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DestinationOptions {
    /// How fast the bucket fills, bytes/s.
    pub rate_bytes_per_s: u64,
    /// How much the bucket holds.
    pub burst_bytes: u64,
    /// What happens to packets over the rate.
    pub action: Action,
    /// The DSCP that [`Action::Mark`] writes.
    pub mark_dscp: u8,
    /// What happens to packets of new destinations while the table is full.
    pub when_full: PassOrDrop,
}

impl Default for DestinationOptions {
    fn default() -> Self {
        let Options { rate_bytes_per_s, burst_bytes, action, mark_dscp, when_full, .. } = Options::default();
        DestinationOptions { rate_bytes_per_s, burst_bytes, action, mark_dscp, when_full }
    }
}

impl From<DestinationOptions> for Options {
    fn from(options: DestinationOptions) -> Options {
        let DestinationOptions { rate_bytes_per_s, burst_bytes, action, mark_dscp, when_full } = options;
        Options { rate_bytes_per_s, burst_bytes, action, mark_dscp, when_full, ..Options::default() }
    }
}

impl<K: Policed> NetworkFunction for Policer<K> {
    const ABOUT: About = About {
        name: K::NAME,
        summary: K::SUMMARY,
        spec: K::SPEC,
        options: K::OPTIONS,
        drop_reasons: &["over-rate", "table-full"],
        events: &["packets-over-rate"],
    };
    const READS: Fields = Metered::<K>::READS.union(Fields::TOS);
    const EDITS: Fields = Fields::TOS;
    const EXTRAS: Extras<Self> = Extras {
        filled_by: "a packet of a new flow, or to a new address",
        full_table: FullTable { rejected: Self::rejected, ..FullTable::NONE },
        guarantees: Guarantees {
            when_shared: Some(WhenShared::Bound { over: Some(PACKETS_OVER_RATE) }),
            amount: Self::amount,
            bound: Self::bound,
            is_bound: Self::is_policed,
            ..Guarantees::NONE
        },
        reports: Reports { report: Self::report, state: Self::state, ..Reports::NONE },
        sides: TwoSided { wants: Self::wants_sides, is_by_host: K::IS_OF_HOST, ..TwoSided::NONE },
        in_place: InPlace::Flow(Self::in_place),
        leap: Some(Self::leap),
        reload: Reload::ANY,
        ..Extras::NONE
    };

    type Key = K;
    type Meta = Markable<K>;
    type State = Debt;
    type Pool = ();
    type Options = K::Options;

    fn new(options: K::Options) -> Result<Self, OptionError> {
        let options: Options = options.into();
        let error = |option, message: String| Err(OptionError { option, message });
        if options.rate_bytes_per_s == 0 {
            return error("rate_bytes_per_s", "must be at least 1".into());
        }
        if !(1..=BURST_MAX).contains(&options.burst_bytes) {
            let message = format!("must be from 1 to {BURST_MAX}, and at least the largest packet");
            return error("burst_bytes", message);
        }
        if options.mark_dscp > DSCP_MAX {
            return error("mark_dscp", format!("must be from 0 to {DSCP_MAX}"));
        }
        if !K::IS_OF_HOST && !options.hosts.is_empty() {
            return error("hosts", "goes with `by = \"host\"`".into());
        }
        Ok(Policer {
            bucket: TokenBucket::new(options.rate_bytes_per_s, options.burst_bytes),
            action: options.action,
            mark_dscp: options.mark_dscp,
            when_full: options.when_full,
            hosts: PrefixSet::parse("hosts", &options.hosts)?,
            key: PhantomData,
        })
    }

    #[inline]
    fn project(headers: &Headers) -> Option<Markable<K>> {
        Markable::of(headers)
    }

    #[inline]
    fn key(meta: &Markable<K>) -> K {
        { meta.metered }.flow()
    }

    #[inline]
    fn step(&self, flow: &mut Option<Debt>, meta: &Markable<K>, cx: &mut Cx<'_, ()>) -> Verdict {
        if K::IS_OF_HOST && !self.is_policed(&{ meta.metered }.flow()) {
            return Verdict::Forward;
        }
        if self.bucket.take(flow, meta.metered.l3_len.into(), cx.stamp.time_ns) {
            return Verdict::Forward;
        }
        cx.count(PACKETS_OVER_RATE);
        match self.action {
            Action::Drop => Verdict::Drop(OVER_RATE),
            Action::Mark => {
                cx.edits.set_tos((self.mark_dscp << 2) | (meta.tos & ECN_MASK));
                Verdict::Forward
            }
        }
    }

    #[inline]
    fn idle_timeout_ns(&self, state: &Debt) -> u64 {
        self.bucket.idle_timeout_ns(state)
    }
}

impl<K: Policed> Policer<K> {
    /// Whether what has this key is policed: a host inside may not be.
    #[inline]
    fn is_policed(&self, key: &K) -> bool {
        self.hosts.is_empty() || key.host().is_none_or(|host| self.hosts.contains(host))
    }

    fn wants_sides(&self) -> Option<&'static str> {
        K::IS_OF_HOST.then_some("by = \"host\"")
    }

    /// A packet within the rate.
    #[inline(always)]
    fn in_place(&self, state: &mut Debt, meta: &Markable<K>, stamp: Stamp, _: &mut Edits) -> bool {
        self.bucket.take_in_place(state, meta.metered.l3_len.into(), stamp.time_ns)
    }

    fn state(&self, debt: &Debt) -> Vec<(&'static str, StateValue)> {
        vec![("debt_bytes", decimal_text(debt.nanotokens).into()), ("last", StateValue::TimeNs(debt.last_ns))]
    }

    #[inline]
    fn leap(&self, flow: &mut Option<Debt>, meta: &Markable<K>, times_ns: &[u64]) -> Leap {
        self.bucket.take_each(flow, meta.metered.l3_len.into(), times_ns)
    }

    fn rejected(&self, _: &Debt, _: &Markable<K>, _: &mut Cx<'_, ()>) -> Verdict {
        self.when_full.verdict(TABLE_FULL)
    }

    #[inline]
    fn amount(meta: &Markable<K>) -> u64 {
        meta.metered.l3_len.into()
    }

    fn bound(&self, elapsed_ns: u64) -> u128 {
        self.bucket.most(elapsed_ns)
    }

    fn report(&self, flows: Flows<'_, '_, Self>, _: &EndedOf<Self>, now: Stamp) -> Vec<FunctionReport> {
        self.bucket.report([K::COLUMN, "left_bytes"], flows, now.time_ns)
    }
}

#[cfg(test)]
mod tests;
