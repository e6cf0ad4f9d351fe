//! `port-scan`: finds sources that try many ports.
//!
//! FAJITA (CoNEXT'24) App. A.1, "Port Scan Detector": key source IP, state the destination ports that
//! the source has tried. A list of them would grow with the scan, so the state is a sketch of fixed
//! size: a bitmap, by which one counts what is distinct.
//!
//! | option | unit | default | |
//! |---|---|---|---|
//! | `threshold_ports` | ports | 20 | a source that tries more than this in a window is a scanner; at most 1000 |
//! | `window_ms` | ms | 60000 | length of the window |
//! | `count` | | `"ports"` | what is distinct: `"ports"`, or `"services"`, which are address and port |
//! | `udp` | | false | whether UDP packets are tries as well |
//! | `action` | | `"pass"` | what happens to packets of scanners: `"pass"` or `"drop"` |
//! | `block_ms` | ms | 300000 | how long a source stays a scanner |
//! | `allow` | prefixes | none | sources that are never scanners |
//! | `seed` | | 0 | of the hash: a number of your own that nobody else knows |
//!
//! - A *try* is the first packet of a TCP handshake: SYN without ACK. One that is sent again counts
//!   once. Scans with other packets (FIN, ACK, none of the flags) are not seen; `conntrack` drops
//!   them.
//! - UDP has no handshake, and the answers of a busy server go to as many ports as it has clients:
//!   set `udp` where only packets of one direction come by, or name the servers in `allow`.
//! - `"ports"` finds who tries many ports, on one host or on many; `"services"` also who tries one port
//!   on many hosts, but then a browser is not far from a scanner.
//! - The *window* of a source begins with its first try, and the next one with the first try after its
//!   end. So a source that tries at most `threshold_ports` in any interval as long as the window is
//!   no scanner, and one that tries more than twice as many in some such interval is one: both by what is
//!   estimated, see below. Who was quiet for a window has it begin with the scan, and is found at the threshold.
//! - Once a source is a scanner its window goes on, and so do the tries counted, until `block_ms` after
//!   the try that made it one; it then begins anew, as one never seen.
//! - With `action = "drop"` all IP packets of a scanner are dropped, from that very try on.
//! - Sources can be forged: a scan from a thousand addresses is a thousand sources.
//!
//! # How exact it is
//!
//! Each port sets the bit that its hash picks, one of 512. After *b* bits the estimate is how many
//! distinct ports it takes to set that many, on average: 512/512 + 512/511 + ... + 512/(513 - *b*). That
//! is linear counting (Whang, Vander-Zanden and Taylor, ACM TODS 15(2), 1990; Estan, Varghese and Fisk,
//! IMC 2003) without a logarithm. Its standard error is theirs, √(512 (eᵗ - *t* - 1)) / *n* for *n*
//! ports and *t* = *n*/512:
//!
//! | ports | 20 | 100 | 256 | 500 | 1000 |
//! |---|---|---|---|---|---|
//! | standard error | 3.1 % | 3.2 % | 3.4 % | 3.7 % | 4.6 % |
//!
//! So a source may be taken for a scanner a little below the threshold, or not until a little above it. The soonest is one whose
//! ports share no bit: with a threshold of 64 at its 61st port, with 20 at its 21st.
//!
//! Past that it grows fast, and all bits are set after some 3,490 ports; the report then says so. Who knows `seed` can choose ports
//! that share bits.
//!
//! # What it costs
//!
//! A state is 88 bytes, and with key and header two cache lines to the byte. The second one is the
//! bitmap, and only tries touch it.
//!
//! # Drops, events, expiry, full table
//!
//! - `scanner`: with `action = "drop"`, a packet of a scanner.
//! - Events: `scanners-found`; `tries` counts tries of sources not in `allow`.
//! - A source is forgotten after a window without a packet, a scanner after `block_ms` without one: by
//!   then nothing that is known of it matters, so expiry changes no verdict. With different time-outs,
//!   `table_full = "evict-oldest"` lets go of others before scanners.
//! - When the table is full a new source is not watched, and passes.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use nf::{
    About, Cx, EndedOf, Extras, FlowKey, Flows, FunctionReport, NetworkFunction, OptionDoc, OptionError,
    Reload, Reports, SrcAddr, StateValue, Verdict, hash_bytes,
};
use serde::Deserialize;
use wire::{Addr, Fields, Headers, Stamp, protocol, tcp_flags};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

use crate::common::{PassOrDrop, REPORT_ROWS, keep_top, ms_text, ns_from_ms};
use crate::prefix::PrefixSet;

const SCANNER: u8 = 0;

const SCANNERS_FOUND: usize = 0;
const TRIES: usize = 1;

/// Past this many ports the standard error grows fast.
const THRESHOLD_PORTS_MAX: u32 = 1_000;
const BITMAP_BITS: u32 = 512;
const BITMAP_WORDS: usize = (BITMAP_BITS / u64::BITS) as usize;

/// Finds sources that try many ports: see the [module's page](self).
#[derive(Clone, Debug)]
pub struct PortScan {
    /// A source with so many bits set is a scanner.
    threshold_bits: u32,
    window_ns: u64,
    count: Count,
    udp: bool,
    action: PassOrDrop,
    block_ns: u64,
    allow: PrefixSet,
    seed: u64,
}

/// What is counted as distinct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Count {
    /// Destination protocols and ports.
    Ports,
    /// Destination addresses, protocols and ports.
    Services,
}

/// Options of [`PortScan`]: see the [module's page](self).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// A source that tries more ports than this in a window is a scanner.
    pub threshold_ports: u32,
    /// Length of the window, ms.
    pub window_ms: u64,
    /// What is counted as distinct.
    pub count: Count,
    /// Whether UDP packets are tries as well.
    pub udp: bool,
    /// What happens to packets of scanners.
    pub action: PassOrDrop,
    /// How long a source stays a scanner, ms.
    pub block_ms: u64,
    /// Prefixes of sources that are never scanners.
    pub allow: Vec<String>,
    /// Seed of the hash that picks bits.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            threshold_ports: 20,
            window_ms: 60_000,
            count: Count::Ports,
            udp: false,
            action: PassOrDrop::Pass,
            block_ms: 300_000,
            allow: Vec::new(),
            seed: 0,
        }
    }
}

/// The header fields that a try consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable, TryFromBytes)]
#[repr(C)]
pub struct Meta {
    src: SrcAddr,
    dst: Addr,
    dst_port: u16,
    /// What the packet may be a try of: TCP, UDP, or 0 if it is none.
    protocol: u8,
    zero: u8,
}

/// What is known of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct State {
    /// When its window began, ns.
    pub start_ns: u64,
    /// Until when it is a scanner, ns; 0 if it is none.
    pub scanner_until_ns: u64,
    /// Its tries in the window, the same ones again included.
    pub tries: u64,
    /// What they tried.
    pub bitmap: [u64; BITMAP_WORDS],
}

impl NetworkFunction for PortScan {
    const ABOUT: About = About {
        name: "port-scan",
        summary: "finds sources that try many ports",
        spec: "FAJITA (CoNEXT'24) App. A.1: port scan detector; Whang et al. 1990",
        options: &[
            OptionDoc {
                name: "threshold_ports",
                default: "20",
                help: "a source that tries more ports than this in a window is a scanner",
            },
            OptionDoc { name: "window_ms", default: "60000", help: "length of the window" },
            OptionDoc {
                name: "count",
                default: "\"ports\"",
                help: "what is distinct: \"ports\", or \"services\", which are address and port",
            },
            OptionDoc { name: "udp", default: "false", help: "whether UDP packets are tries as well" },
            OptionDoc {
                name: "action",
                default: "\"pass\"",
                help: "packets of scanners: \"pass\" or \"drop\"",
            },
            OptionDoc { name: "block_ms", default: "300000", help: "how long a source stays a scanner" },
            OptionDoc {
                name: "allow",
                default: "[]",
                help: "prefixes of sources that are never scanners, such as [\"10.0.0.0/8\"]",
            },
            OptionDoc {
                name: "seed",
                default: "0",
                help: "of the hash: a number of your own that nobody else knows",
            },
        ],
        drop_reasons: &["scanner"],
        events: &["scanners-found", "tries"],
    };
    const READS: Fields = Fields::ADDRS
        .union(Fields::DST_PORT)
        .union(Fields::PROTOCOL)
        .union(Fields::TCP_FLAGS)
        .union(Fields::MARKS);
    const EXTRAS: Extras<Self> = Extras {
        filled_by: "a try (SYN) of a new source",
        reports: Reports { report: Self::report, state: Self::state, ..Reports::NONE },
        reload: Reload { keeps_flows: Self::keeps_flows, ..Reload::NONE },
        ..Extras::NONE
    };

    type Key = SrcAddr;
    type Meta = Meta;
    type State = State;
    type Pool = ();
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        if !(1..=THRESHOLD_PORTS_MAX).contains(&options.threshold_ports) {
            let message = format!("must be from 1 to {THRESHOLD_PORTS_MAX}");
            return Err(OptionError { option: "threshold_ports", message });
        }
        for (option, value) in [("window_ms", options.window_ms), ("block_ms", options.block_ms)] {
            if value == 0 {
                return Err(OptionError { option, message: "must be at least 1".into() });
            }
        }
        Ok(PortScan {
            threshold_bits: bits_over(options.threshold_ports),
            window_ns: ns_from_ms(options.window_ms),
            count: options.count,
            udp: options.udp,
            action: options.action,
            block_ns: ns_from_ms(options.block_ms),
            allow: PrefixSet::parse("allow", &options.allow)?,
            // The hash multiplies by seeds as they are: one of 0 would be bad.
            seed: hash_bytes(options.seed.as_bytes(), u64::MAX),
        })
    }

    #[inline]
    fn project(headers: &Headers) -> Option<Meta> {
        headers.is_ip().then(|| Meta {
            src: SrcAddr::of(headers),
            dst: headers.dst,
            dst_port: headers.dst_port,
            protocol: tried_protocol(headers),
            zero: 0,
        })
    }

    #[inline]
    fn key(meta: &Meta) -> SrcAddr {
        meta.src
    }

    #[inline]
    fn step(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, ()>) -> Verdict {
        let now_ns = cx.stamp.time_ns;
        if flow.as_ref().is_some_and(|state| self.end_ns(state) <= now_ns) {
            *flow = None;
        }
        if self.is_try(meta) && (flow.is_some() || !self.allow.contains(meta.src.0)) {
            cx.count(TRIES);
            let state = flow.get_or_insert(State::starting_at(now_ns));
            let bits = state.try_bit(self.bit(meta));
            if !state.is_scanner() && bits.is_some_and(|bits| bits >= self.threshold_bits) {
                state.scanner_until_ns = now_ns.saturating_add(self.block_ns);
                cx.count(SCANNERS_FOUND);
            }
        }
        match flow {
            Some(state) if state.is_scanner() => self.action.verdict(SCANNER),
            _ => Verdict::Forward,
        }
    }

    #[inline]
    fn idle_timeout_ns(&self, state: &State) -> u64 {
        if state.is_scanner() { self.block_ns } else { self.window_ns }
    }
}

impl PortScan {
    fn state(&self, state: &State) -> Vec<(&'static str, StateValue)> {
        let State { start_ns, scanner_until_ns, tries, bitmap } = state;
        let bits: u32 = bitmap.iter().map(|word| word.count_ones()).sum();
        let mut values: Vec<(&'static str, StateValue)> = vec![
            ("tries", (*tries).into()),
            ("bits_set", bits.into()),
            ("window_began", StateValue::TimeNs(*start_ns)),
        ];
        if *scanner_until_ns > 0 {
            values.push(("scanner_until", StateValue::TimeNs(*scanner_until_ns)));
        }
        values
    }

    fn keeps_flows(&self, old: &Self) -> Result<(), &'static str> {
        match (self.count, self.seed) == (old.count, old.seed) {
            true => Ok(()),
            false => Err("it counts otherwise (`count`, `seed`), and cannot tell what was counted before"),
        }
    }

    fn report(&self, flows: Flows<'_, '_, Self>, _: &EndedOf<Self>, now: Stamp) -> Vec<FunctionReport> {
        let mut scanners: Vec<_> = flows.filter(|(_, state)| state.scanner_until_ns > now.time_ns).collect();
        let total = scanners.len();
        keep_top(&mut scanners, REPORT_ROWS, |state| state.bits().into());
        let row = |(source, state): &(&SrcAddr, &State)| {
            let left_ns = state.scanner_until_ns - now.time_ns;
            vec![source.to_string(), ports_text(state.bits()), state.tries.to_string(), ms_text(left_ns)]
        };
        let counted = match self.count {
            Count::Ports => "ports_estimated",
            Count::Services => "services_estimated",
        };
        vec![FunctionReport {
            title: format!("Scanners now: {total}, those that tried most first"),
            columns: vec!["source", counted, "tries", "left_ms"],
            rows: scanners.iter().map(row).collect(),
        }]
    }

    /// When what is known of the source no longer matters.
    #[inline]
    fn end_ns(&self, state: &State) -> u64 {
        match state.is_scanner() {
            true => state.scanner_until_ns,
            false => state.start_ns.saturating_add(self.window_ns),
        }
    }

    #[inline]
    fn is_try(&self, meta: &Meta) -> bool {
        match meta.protocol {
            protocol::TCP => true,
            protocol::UDP => self.udp,
            _ => false,
        }
    }

    /// The bit that stands for what the packet tries.
    #[inline]
    fn bit(&self, meta: &Meta) -> u32 {
        // Eight bytes: fewer are hashed less well, and estimates suffer.
        let port = u64::from(meta.protocol) << 32 | u64::from(meta.dst_port);
        let port = hash_bytes(port.as_bytes(), self.seed);
        let hash = match self.count {
            Count::Ports => port,
            Count::Services => hash_bytes(&meta.dst.0, port),
        };
        hash as u32 % BITMAP_BITS
    }
}

impl State {
    fn starting_at(now_ns: u64) -> State {
        State { start_ns: now_ns, scanner_until_ns: 0, tries: 0, bitmap: [0; BITMAP_WORDS] }
    }

    /// Counts a try; where its bit is new, says how many are set now.
    #[inline]
    fn try_bit(&mut self, bit: u32) -> Option<u32> {
        self.tries = self.tries.saturating_add(1);
        let word = &mut self.bitmap[(bit / u64::BITS) as usize];
        let mask = 1 << (bit % u64::BITS);
        let is_new = *word & mask == 0;
        *word |= mask;
        is_new.then(|| self.bits())
    }

    #[inline]
    fn bits(&self) -> u32 {
        self.bitmap.iter().map(|word| word.count_ones()).sum()
    }

    #[inline]
    fn is_scanner(&self) -> bool {
        self.scanner_until_ns != 0
    }
}

/// The protocol of which the packet may be a try, 0 for none.
#[inline]
fn tried_protocol(headers: &Headers) -> u8 {
    const HANDSHAKE: u8 = tcp_flags::SYN | tcp_flags::ACK;
    let may_be_try = headers.has_transport()
        && match headers.protocol {
            protocol::TCP => headers.tcp_flags & HANDSHAKE == tcp_flags::SYN,
            protocol::UDP => true,
            _ => false,
        };
    if may_be_try { headers.protocol } else { 0 }
}

/// How many distinct ports it takes on average to set so many bits.
fn ports_estimated(bits: u32) -> u32 {
    let all = f64::from(BITMAP_BITS);
    let ports: f64 = (0..bits).map(|set| all / (all - f64::from(set))).sum();
    (ports + 0.5) as u32
}

fn ports_text(bits: u32) -> String {
    let ports = ports_estimated(bits);
    if bits == BITMAP_BITS { format!("{ports} or more") } else { ports.to_string() }
}

/// The fewest bits whose estimate is more than `threshold_ports`.
fn bits_over(threshold_ports: u32) -> u32 {
    let is_over = |bits: &u32| ports_estimated(*bits) > threshold_ports;
    (1..BITMAP_BITS).find(is_over).unwrap_or(BITMAP_BITS)
}

#[cfg(test)]
mod tests;
