//! `port-knock`: opens to sources that know a secret sequence of ports.
//!
//! SCR (NSDI'25) Table 1, "Port-knocking firewall", §C and Fig. 12: key source IP, state how far the
//! source has come. It stands before the protected side.
//!
//! ```text
//!               ports[0]            ports[1]            ports[2]
//!   CLOSED_1 -------------> CLOSED_2 --------> CLOSED_3 --------> OPEN (forwards, and stays)
//!      ^ ^                     |                  |
//!      | +---- any other port, or step_ms passed -+
//!      +----------------------- open_ms without a packet ----------- OPEN
//! ```
//!
//! | option | unit | default | |
//! |---|---|---|---|
//! | `ports` | ports | `[7000, 8000, 9000]` | the sequence, 1 to 8 destination ports |
//! | `protocol` | | `"tcp"` | what knocks are: `"tcp"` or `"udp"` |
//! | `step_ms` | ms | 10000 | most time between two knocks; 0 = no limit |
//! | `open_ms` | ms | 600000 | how long a source stays open without a packet; 0 = for ever |
//! | `guard` | ports | all | what is closed to sources that did not knock: these and `ports` |
//! | `other` | | `"drop"` | IP packets of other protocols, from sources that are not open |
//! | `allow` | prefixes | none | sources that need not knock, such as the protected side itself |
//!
//! As in the paper:
//! - Any transition not shown leads to CLOSED_1. A wrong knock does, *even one that equals the first
//!   port*: after `7000 7000` the sequence starts with the third packet.
//!   A retransmitted knock is a wrong one: knock with single packets.
//! - Any packet of the protocol is a knock, whatever its flags. The last right knock opens, and is
//!   itself forwarded; those before it are dropped, so the protected side sees none.
//! - What is not of the protocol changes no state.
//!
//! And where the paper leaves it open:
//! - An open source has all of its IP packets forwarded ("all further communication is permitted"),
//!   where the paper's listing forwards TCP only.
//! - With `guard = [22]` the rest of the server stays reachable: packets to other ports pass, and
//!   are wrong knocks all the same. So a scan of all ports in order opens nothing, unless the sequence itself is a single
//!   port, or ports that follow each other in the order of the scan.
//! - With `other = "pass"` only the protocol is guarded: ICMP, say, passes from everyone.
//! - A later fragment has no port, unless the chain file says `fragments = "follow"`: then with `guard` it passes only as its first
//!   does. It is no knock, right or wrong. From a source that is not
//!   open it is dropped if it is of the protocol; with `guard` it passes. It brings nothing in
//!   either way: a datagram is put together from its first fragment on, which has the ports and
//!   shares the fate of a whole packet; later fragments begin behind them (8 bytes at least).
//! - Where both directions pass here, the protected side's own packets have to: name it in `allow`,
//!   and make sure that nobody outside can forge its addresses (RFC 2827).
//! - The time-outs; 0 for both is the paper's program. Only right knocks count for `step_ms`: other
//!   packets do not stretch it.
//! - What is not IP (ARP) is forwarded.
//!
//! Knocks can be overheard and sources forged: this hides a port, and is no authentication.
//!
//! # Drops, events, expiry, full table
//!
//! - `not-open`: of the protocol, guarded, from a source that is not open. `later-fragment`,
//!   `other-protocol`: see above. `table-full`: see below.
//! - Events: `sources-opened`; `sequences-broken` counts wrong knocks after right ones.
//! - A source is forgotten, which is CLOSED_1, when its time-out has passed. The step checks
//!   the same limits, so expiry changes no verdict.
//! - When the table is full, a new source's first knock is dropped as `table-full` and not
//!   remembered: it stays closed.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use nf::{
    About, Cx, EndedOf, Extras, FlowKey, Flows, FullTable, FunctionReport, InPlace, Leap, NetworkFunction,
    OptionDoc, OptionError, Reload, Reports, SrcAddr, StateValue, Verdict,
};
use serde::Deserialize;
use wire::{Edits, Fields, Headers, Stamp, protocol};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

use crate::common::{PassOrDrop, REPORT_ROWS, keep_top, ms_text, ns_from_ms_or_never};
use crate::prefix::PrefixSet;

const NOT_OPEN: u8 = 0;
const LATER_FRAGMENT: u8 = 1;
const OTHER_PROTOCOL: u8 = 2;
const TABLE_FULL: u8 = 3;

const SOURCES_OPENED: usize = 0;
const SEQUENCES_BROKEN: usize = 1;

/// [`Meta::has_port`] of a packet with its transport header.
const HAS_PORT: u8 = 1;
/// [`Meta::has_port`] of a later fragment with the port of its first.
const FOLLOWED: u8 = 2;

const PORTS_MAX: usize = 8;

/// Opens to sources that know a secret sequence of ports: see the [module's page](self).
#[derive(Clone, Debug)]
pub struct PortKnock {
    ports: Vec<u16>,
    protocol: u8,
    step_ns: u64,
    open_ns: u64,
    /// Ascending; empty for all.
    guard: Vec<u16>,
    other: PassOrDrop,
    allow: PrefixSet,
}

/// What knocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KnockProtocol {
    /// TCP packets.
    Tcp,
    /// UDP packets.
    Udp,
}

/// Options of [`PortKnock`]: see the [module's page](self).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The sequence of destination ports.
    pub ports: Vec<u16>,
    /// What knocks are.
    pub protocol: KnockProtocol,
    /// Most time between two knocks, ms; 0 is no limit.
    pub step_ms: u64,
    /// How long a source stays open without a packet, ms; 0 is for ever.
    pub open_ms: u64,
    /// Destination ports that are closed to sources that did not knock; none means all.
    pub guard: Vec<u16>,
    /// What happens to IP packets of other protocols from sources that are not open.
    pub other: PassOrDrop,
    /// Prefixes of sources that need not knock.
    pub allow: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            ports: vec![7000, 8000, 9000],
            protocol: KnockProtocol::Tcp,
            step_ms: 10_000,
            open_ms: 600_000,
            guard: Vec::new(),
            other: PassOrDrop::Drop,
            allow: Vec::new(),
        }
    }
}

/// The header fields that a knock consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable, TryFromBytes)]
#[repr(C)]
pub struct Meta {
    src: SrcAddr,
    dst_port: u16,
    protocol: u8,
    /// [`HAS_PORT`], [`FOLLOWED`], or 0 for a later fragment of which no port is known.
    has_port: u8,
}

/// How far a source has come. CLOSED_1 is no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct State {
    /// How many right knocks in a row: at least 1, and as many as there are ports if it is open.
    pub knocks: u64,
    /// When the last right knock came; once open, the last packet; ns.
    pub last_ns: u64,
}

impl NetworkFunction for PortKnock {
    const ABOUT: About = About {
        name: "port-knock",
        summary: "opens to sources that know a secret sequence of ports",
        spec: "SCR (NSDI'25) Table 1, §C and Fig. 12: port-knocking firewall",
        options: &[
            OptionDoc {
                name: "ports",
                default: "[7000, 8000, 9000]",
                help: "the sequence, 1 to 8 destination ports",
            },
            OptionDoc { name: "protocol", default: "\"tcp\"", help: "what knocks are: \"tcp\" or \"udp\"" },
            OptionDoc {
                name: "step_ms",
                default: "10000",
                help: "most time between two knocks; 0 = no limit",
            },
            OptionDoc {
                name: "open_ms",
                default: "600000",
                help: "how long a source stays open without a packet; 0 = for ever",
            },
            OptionDoc {
                name: "guard",
                default: "[]",
                help: "what is closed to sources that did not knock: these ports and the sequence; [] = all ports",
            },
            OptionDoc {
                name: "other",
                default: "\"drop\"",
                help: "other protocols from sources that are not open: \"drop\" or \"pass\"",
            },
            OptionDoc {
                name: "allow",
                default: "[]",
                help: "prefixes of sources that need not knock, such as the protected side itself",
            },
        ],
        drop_reasons: &["not-open", "later-fragment", "other-protocol", "table-full"],
        events: &["sources-opened", "sequences-broken"],
    };
    const READS: Fields =
        Fields::SRC_ADDR.union(Fields::DST_PORT).union(Fields::PROTOCOL).union(Fields::MARKS);
    const EXTRAS: Extras<Self> = Extras {
        filled_by: "a right first knock",
        full_table: FullTable { rejected: Self::rejected, ..FullTable::NONE },
        reports: Reports { report: Self::report, state: Self::state, ..Reports::NONE },
        reload: Reload { keeps_flows: Self::keeps_flows, ..Reload::NONE },
        in_place: InPlace::Flow(Self::in_place),
        leap: Some(Self::leap),
        ..Extras::NONE
    };

    type Key = SrcAddr;
    type Meta = Meta;
    type State = State;
    type Pool = ();
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        let error = |message: String| Err(OptionError { option: "ports", message });
        if !(1..=PORTS_MAX).contains(&options.ports.len()) {
            return error(format!("must have 1 to {PORTS_MAX} ports; it has {}", options.ports.len()));
        }
        if options.ports.contains(&0) {
            return error("has port 0, which no packet goes to; write ports from 1 to 65535".into());
        }
        let mut guard = options.guard;
        if !guard.is_empty() {
            guard.extend(&options.ports);
            guard.sort_unstable();
            guard.dedup();
        }
        Ok(PortKnock {
            ports: options.ports,
            protocol: match options.protocol {
                KnockProtocol::Tcp => protocol::TCP,
                KnockProtocol::Udp => protocol::UDP,
            },
            step_ns: ns_from_ms_or_never(options.step_ms),
            open_ns: ns_from_ms_or_never(options.open_ms),
            guard,
            other: options.other,
            allow: PrefixSet::parse("allow", &options.allow)?,
        })
    }

    #[inline]
    fn project(headers: &Headers) -> Option<Meta> {
        headers.is_ip().then(|| Meta {
            src: SrcAddr::of(headers),
            dst_port: headers.dst_port,
            protocol: headers.protocol,
            has_port: match headers.is_followed() {
                true => FOLLOWED,
                false => headers.has_transport().into(),
            },
        })
    }

    #[inline]
    fn key(meta: &Meta) -> SrcAddr {
        meta.src
    }

    // Into the engine's loop, where the state need not be written to memory and read back.
    #[inline(always)]
    fn step(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, ()>) -> Verdict {
        let now_ns = cx.stamp.time_ns;
        *flow = flow.filter(|state| self.left_ns(state, now_ns) > 0);
        if let Some(state) = flow
            && self.is_open(state)
        {
            state.last_ns = now_ns;
            return Verdict::Forward;
        }
        if flow.is_none() && self.allow.contains(meta.src.0) {
            return Verdict::Forward;
        }
        if meta.protocol != self.protocol {
            return self.other.verdict(OTHER_PROTOCOL);
        }
        if meta.has_port != HAS_PORT {
            return match self.guard.is_empty() {
                true => Verdict::Drop(LATER_FRAGMENT),
                false if meta.has_port == FOLLOWED && self.guards(meta.dst_port) => Verdict::Drop(NOT_OPEN),
                false => Verdict::Forward,
            };
        }
        self.knock(flow, meta.dst_port, cx)
    }

    #[inline]
    fn idle_timeout_ns(&self, state: &State) -> u64 {
        if self.is_open(state) { self.open_ns } else { self.step_ns }
    }
}

impl PortKnock {
    /// A source that has knocked.
    #[inline(always)]
    fn in_place(&self, state: &mut State, _: &Meta, stamp: Stamp, _: &mut Edits) -> bool {
        let is_open = self.is_open(state) && self.left_ns(state, stamp.time_ns) > 0;
        if is_open {
            state.last_ns = stamp.time_ns;
        }
        is_open
    }

    fn state(&self, state: &State) -> Vec<(&'static str, StateValue)> {
        vec![("knocks", state.knocks.into()), ("last", StateValue::TimeNs(state.last_ns))]
    }

    #[inline]
    fn leap(&self, flow: &mut Option<State>, meta: &Meta, times_ns: &[u64]) -> Leap {
        let Some(&last_ns) = times_ns.last() else { return Leap::NONE };
        let can_leap = match flow {
            Some(state) if self.is_open(state) => {
                let lives_on = self.left_ns(state, last_ns) > 0;
                state.last_ns = if lives_on { last_ns } else { state.last_ns };
                lives_on
            }
            Some(_) => false,
            None => !self.may_knock(meta),
        };
        match can_leap {
            true => Leap { steps: times_ns.len(), passes: flow.is_some() },
            false => Leap::NONE,
        }
    }

    fn keeps_flows(&self, old: &Self) -> Result<(), &'static str> {
        match (&self.ports, self.protocol) == (&old.ports, old.protocol) {
            true => Ok(()),
            false => Err("its sequence is another, of which no source has knocked any"),
        }
    }

    fn rejected(&self, _: &State, _: &Meta, _: &mut Cx<'_, ()>) -> Verdict {
        Verdict::Drop(TABLE_FULL)
    }

    fn report(&self, flows: Flows<'_, '_, Self>, _: &EndedOf<Self>, now: Stamp) -> Vec<FunctionReport> {
        let is_open_now = |state| self.is_open(state) && self.left_ns(state, now.time_ns) > 0;
        let mut open: Vec<_> = flows.filter(|(_, state)| is_open_now(state)).collect();
        let total = open.len();
        keep_top(&mut open, REPORT_ROWS, |state| state.last_ns);
        let row = |(source, state): &(&SrcAddr, &State)| {
            let left = match self.open_ns {
                u64::MAX => "never closes".into(),
                _ => ms_text(self.left_ns(state, now.time_ns)),
            };
            vec![source.to_string(), ms_text(now.time_ns.saturating_sub(state.last_ns)), left]
        };
        vec![FunctionReport {
            title: format!("Sources open now: {total}, latest first"),
            columns: vec!["source", "idle_ms", "left_ms"],
            rows: open.iter().map(row).collect(),
        }]
    }

    /// The transitions of Fig. 12 from a state that is not OPEN.
    #[inline]
    fn knock(&self, flow: &mut Option<State>, port: u16, cx: &mut Cx<'_, ()>) -> Verdict {
        let knocks = flow.map_or(0, |state| state.knocks);
        if self.ports.get(knocks as usize) != Some(&port) {
            if knocks > 0 {
                cx.count(SEQUENCES_BROKEN);
            }
            *flow = None;
            return if self.guards(port) { Verdict::Drop(NOT_OPEN) } else { Verdict::Forward };
        }
        let state = State { knocks: knocks + 1, last_ns: cx.stamp.time_ns };
        *flow = Some(state);
        if self.is_open(&state) {
            cx.count(SOURCES_OPENED);
            return Verdict::Forward;
        }
        Verdict::Drop(NOT_OPEN)
    }

    /// Whether the packet is the first knock of a sequence; no other of a source that has not begun one leaves a state.
    #[inline]
    fn may_knock(&self, meta: &Meta) -> bool {
        self.ports.first() == Some(&meta.dst_port)
            && meta.protocol == self.protocol
            && meta.has_port == HAS_PORT
            && !self.allow.contains(meta.src.0)
    }

    /// Whether packets to `port` are for open sources only.
    #[inline]
    fn guards(&self, port: u16) -> bool {
        self.guard.is_empty() || self.guard.binary_search(&port).is_ok()
    }

    #[inline]
    fn is_open(&self, state: &State) -> bool {
        state.knocks == self.ports.len() as u64
    }

    /// How long the source may still take for its next knock, or next packet.
    #[inline]
    fn left_ns(&self, state: &State, now_ns: u64) -> u64 {
        self.idle_timeout_ns(state).saturating_sub(now_ns.saturating_sub(state.last_ns))
    }
}

#[cfg(test)]
mod tests;
