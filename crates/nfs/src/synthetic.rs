//! `synthetic`: costs what you tell it to, in memory accesses.
//!
//! FAJITA (CoNEXT'24) App. A.1, "Synthetic NF": a function with a number of memory accesses per packet,
//! to see what a platform makes of functions whose data structures do not fit in a cache. Key 5-tuple.
//!
//! | option | unit | default | |
//! |---|---|---|---|
//! | `accesses` | accesses | 8 | cache lines that each packet reads, one after the other |
//! | `bytes` | bytes | 1048576 | memory of each core that they lie in, a multiple of 64 |
//! | `seed` | | 1 | another one is another order of the lines |
//! | `prefetch` | | true | ask for the first line of each packet of a batch before the first is stepped |
//! | `idle_ms` | ms | 60000 | a flow without packets for so long has ended |
//!
//! The memory is read only, and its lines form one random cycle: each holds the number of the next. A
//! packet goes on from where its flow's last packet came to, `accesses` lines further; a new flow
//! begins at a line that its key picks. No access can begin before the one before it has ended, no
//! prefetcher guesses it, and where a flow has come to shows that all were made.
//!
//! The first of a packet's lines is known with its flow's state, so it can be asked for ahead: with
//! `prefetch` a packet waits for `accesses` - 1 lines. The others cannot, since only the line before says
//! which they are. What it is worth is measured as in FAJITA §4.7: a chain of several of these
//! functions, each with `accesses = 1`, with the option and without. Where a batch has two packets of
//! one flow, the second's line is not known yet, and the first's is asked for twice. A hint changes no
//! answer.
//!
//! FAJITA's accesses are to memory of the flow's own, which is written. Here every core has the same
//! `bytes`, whatever the number of flows, so that caches are studied apart from tables; and as nothing
//! is written, the state depends on the flow's packets alone, under every strategy.
//!
//! Later fragments have no ports, so they are flows of their own, with ports 0. What is not IP passes.
//!
//! # Drops, events, expiry, full table
//!
//! - It drops nothing and counts nothing.
//! - A flow ends after `idle_ms` without a packet; if it goes on, then from its first line.
//! - When the table is full, packets of new flows pass; each makes its accesses from the first line.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use nf::{
    About, Cx, Extras, FiveTuple, FlowKey, NetworkFunction, OptionDoc, OptionError, Pooled, Reload, Reports,
    StateValue, Verdict, hash_bytes,
};
use serde::Deserialize;
use wire::{Fields, Headers};
use zerocopy::{Immutable, IntoBytes};

use crate::common::ns_from_ms;

const ACCESSES_MAX: u32 = 10_000;
const LINE_BYTES: u64 = 64;
const BYTES_MAX: u64 = 1 << 30;

const _: () = assert!(size_of::<Line>() as u64 == LINE_BYTES && BYTES_MAX / LINE_BYTES <= u32::MAX as u64);

/// Costs what you tell it to: see the [module's page](self).
#[derive(Clone, Debug)]
pub struct Synthetic {
    accesses: u32,
    lines: u32,
    seed: u64,
    prefetch: bool,
    idle_ns: u64,
}

/// Options of [`Synthetic`]: see the [module's page](self).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Cache lines that each packet reads.
    pub accesses: u32,
    /// Memory that they lie in, of each core.
    pub bytes: u64,
    /// Picks the order of the lines.
    pub seed: u64,
    /// Whether the first line of each packet is asked for ahead.
    pub prefetch: bool,
    /// A flow without packets for so long has ended, ms.
    pub idle_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { accesses: 8, bytes: 1 << 20, seed: 1, prefetch: true, idle_ms: 60_000 }
    }
}

/// A cache line of the memory.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Line {
    /// The number of the next one.
    next: u32,
}

/// Where a flow has come to. With a 5-tuple of 40 bytes a block is one cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct State {
    /// The number of a line.
    pub line: u32,
}

impl NetworkFunction for Synthetic {
    const ABOUT: About = About {
        name: "synthetic",
        summary: "makes as many dependent memory accesses per packet as it is told",
        spec: "FAJITA (CoNEXT'24) App. A.1: synthetic NF",
        options: &[
            OptionDoc {
                name: "accesses",
                default: "8",
                help: "cache lines that each packet reads, one after the other",
            },
            OptionDoc {
                name: "bytes",
                default: "1048576",
                help: "memory of each core that they lie in, a multiple of 64",
            },
            OptionDoc { name: "seed", default: "1", help: "another one is another order of the lines" },
            OptionDoc {
                name: "prefetch",
                default: "true",
                help: "ask for the first line of each packet of a batch before the first is stepped",
            },
            OptionDoc {
                name: "idle_ms",
                default: "60000",
                help: "a flow without packets for so long has ended",
            },
        ],
        ..About::NONE
    };
    const READS: Fields = Fields::FIVE_TUPLE.union(Fields::MARKS);
    const EXTRAS: Extras<Self> = Extras {
        filled_by: "a packet of a new flow",
        pool: Pooled { make: Self::pool, steps_in_order: Self::steps_in_order, ..Pooled::NONE },
        reload: Reload { keeps_flows: Self::keeps_flows, ..Reload::NONE },
        prefetch: Some(Self::prefetch),
        reports: Reports { state: Self::state, ..Reports::NONE },
        ..Extras::NONE
    };

    type Key = FiveTuple;
    type Meta = FiveTuple;
    type State = State;
    type Pool = Box<[Line]>;
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        let error = |option, message: String| Err(OptionError { option, message });
        if options.accesses > ACCESSES_MAX {
            return error("accesses", format!("must be from 0 to {ACCESSES_MAX}"));
        }
        if !(LINE_BYTES..=BYTES_MAX).contains(&options.bytes) || !options.bytes.is_multiple_of(LINE_BYTES) {
            return error("bytes", format!("must be a multiple of 64 from {LINE_BYTES} to {BYTES_MAX}"));
        }
        if options.idle_ms == 0 {
            return error("idle_ms", "must be at least 1, or flows would end as they begin".into());
        }
        Ok(Synthetic {
            accesses: options.accesses,
            lines: (options.bytes / LINE_BYTES) as u32,
            seed: options.seed,
            prefetch: options.prefetch,
            idle_ns: ns_from_ms(options.idle_ms),
        })
    }

    #[inline]
    fn project(headers: &Headers) -> Option<FiveTuple> {
        headers.is_ip().then(|| FiveTuple::of(headers))
    }

    #[inline]
    fn key(meta: &FiveTuple) -> FiveTuple {
        *meta
    }

    #[inline]
    fn step(&self, flow: &mut Option<State>, meta: &FiveTuple, cx: &mut Cx<'_, Box<[Line]>>) -> Verdict {
        let mut line = self.line(flow.as_ref(), meta);
        for _ in 0..self.accesses {
            line = cx.pool[line as usize].next;
        }
        *flow = Some(State { line });
        Verdict::Forward
    }

    #[inline]
    fn idle_timeout_ns(&self, _: &State) -> u64 {
        self.idle_ns
    }
}

impl Synthetic {
    fn state(&self, state: &State) -> Vec<(&'static str, StateValue)> {
        vec![("line", state.line.into())]
    }

    fn keeps_flows(&self, old: &Self) -> Result<(), &'static str> {
        match (self.lines, self.seed) == (old.lines, old.seed) {
            true => Ok(()),
            false => Err("flows are at places of another memory (`bytes`, `seed`)"),
        }
    }

    /// One cycle through all lines, every such cycle being as likely (Sattolo, 1986).
    fn pool(&self) -> Box<[Line]> {
        let mut lines: Box<[Line]> = (0..self.lines).map(|next| Line { next }).collect();
        for last in (1..self.lines).rev() {
            let other = hash_bytes(last.as_bytes(), self.seed) % u64::from(last);
            lines.swap(last as usize, other as usize);
        }
        lines
    }

    /// Nothing is written there.
    fn steps_in_order(&self) -> bool {
        false
    }

    /// The line at which the step begins.
    #[inline]
    #[expect(clippy::borrowed_box, reason = "the pool as the contract has it")]
    fn prefetch(&self, flow: Option<&State>, meta: &FiveTuple, pool: &Box<[Line]>) -> *const u8 {
        if !self.prefetch || self.accesses == 0 {
            return core::ptr::null();
        }
        let line = self.line(flow, meta);
        pool.get(line as usize).map_or(core::ptr::null(), |line| core::ptr::from_ref(line).cast())
    }

    /// Where a packet of the flow begins.
    #[inline]
    fn line(&self, flow: Option<&State>, meta: &FiveTuple) -> u32 {
        flow.map_or_else(|| self.first_line(meta), |state| state.line)
    }

    #[inline]
    fn first_line(&self, key: &FiveTuple) -> u32 {
        (hash_bytes(key.as_bytes(), self.seed) % u64::from(self.lines)) as u32
    }
}

#[cfg(test)]
mod tests;
