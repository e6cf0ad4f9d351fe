//! A function that can be told to go wrong, to see that `verify` finds it.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use nf::{
    About, Cx, Extras, FiveTuple, FlowKey, Guarantees, NetworkFunction, OptionError, Records, Verdict,
    WhenShared,
};
use wire::{Fields, Headers};

/// A bucket of bytes for each destination, or, behind it, a counter of each flow's packets, that can be told
/// to go wrong in the run that shares.
pub struct Faulty<K, const FAULT: u8> {
    /// Steps so far, on all cores of both runs: the run that shares comes first.
    steps: AtomicU64,
    key: PhantomData<fn() -> K>,
}

/// No fault: a bucket.
pub const WELL: u8 = 0;
/// The bucket fills as if a second had passed before each packet.
pub const TIME_RUNS_BACK: u8 = 1;
/// Some packets leave no trace.
pub const LOSES_A_COUNT: u8 = 2;
/// Some packets are two.
pub const COUNTS_TWICE: u8 = 3;
/// The flow's counter loses one.
pub const DRIFTS: u8 = 4;
/// One packet of a flow is dropped.
pub const DROPS: u8 = 5;
/// Every packet is over the rate.
pub const REFUSES_ALL: u8 = 6;
/// Every other packet is over the rate.
pub const REFUSES_HALF: u8 = 7;

const RATE_BYTES_PER_S: u64 = 20_000;
const BURST_BYTES: u64 = 5_000;

/// What is kept of a key.
#[derive(Clone, Copy, zerocopy::IntoBytes, zerocopy::Immutable)]
#[repr(C)]
pub struct Bucket {
    packets: u64,
    bytes: u64,
    full_at_ns: u64,
}

/// What is read of a packet.
#[derive(Clone, Copy, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::TryFromBytes)]
#[repr(C)]
pub struct Meta {
    flow: FiveTuple,
    bytes: u32,
}

/// Nothing may be said of it.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoOptions {}

impl<K: FlowKey, const FAULT: u8> NetworkFunction for Faulty<K, FAULT> {
    const ABOUT: About = About {
        name: if Self::IS_SHARED { "faulty-shared" } else { "faulty-flow" },
        drop_reasons: &["over-rate", "fault"],
        events: &["over"],
        ..About::NONE
    };
    const READS: Fields = Fields::FIVE_TUPLE.union(Fields::L3_LEN).union(Fields::MARKS);
    const EXTRAS: Extras<Self> = Extras {
        records: Records { totals: Self::totals, ..Records::NONE },
        guarantees: Guarantees {
            when_shared: match FAULT {
                WELL | TIME_RUNS_BACK | REFUSES_ALL | REFUSES_HALF => {
                    Some(WhenShared::Bound { over: Some(0) })
                }
                _ => Some(WhenShared::Totals),
            },
            amount: Self::amount,
            bound: Self::bound,
            ..Guarantees::NONE
        },
        ..Extras::NONE
    };
    type Key = K;
    type Meta = Meta;
    type State = Bucket;
    type Pool = ();
    type Options = NoOptions;

    fn new(_: NoOptions) -> Result<Self, OptionError> {
        Ok(Faulty { steps: AtomicU64::new(0), key: PhantomData })
    }

    fn project(headers: &Headers) -> Option<Meta> {
        headers.is_ip().then(|| Meta { flow: FiveTuple::of(headers), bytes: headers.l3_len.into() })
    }

    fn key(meta: &Meta) -> K {
        let FiveTuple { src, dst, src_port, dst_port, protocol, .. } = meta.flow;
        K::of(&Headers { src, dst, src_port, dst_port, protocol, ..Headers::default() })
    }

    fn step(&self, flow: &mut Option<Bucket>, meta: &Meta, cx: &mut Cx<'_, ()>) -> Verdict {
        let now_ns = cx.stamp.time_ns;
        let step = self.steps.fetch_add(1, Ordering::Relaxed);
        let is_hit = step == 500;
        // Not one alone: a record whose second packet leaves no trace, and is as long as the first, adds up as if it
        // had ended and begun anew, which it may. Which packet comes when depends on the threads.
        let is_hit_shared = (500..508).contains(&step) && Self::IS_SHARED;
        let bucket = flow.get_or_insert(Bucket { packets: 0, bytes: 0, full_at_ns: 0 });
        let counts = match FAULT {
            LOSES_A_COUNT if is_hit_shared => 0,
            COUNTS_TWICE if is_hit_shared => 2,
            DRIFTS if is_hit && !Self::IS_SHARED => 0,
            _ => 1,
        };
        bucket.packets += counts;
        bucket.bytes += counts * u64::from(meta.bytes);
        if !Self::IS_SHARED {
            return if FAULT == DROPS && is_hit { Verdict::Drop(1) } else { Verdict::Forward };
        }
        if !matches!(Self::EXTRAS.guarantees.when_shared, Some(WhenShared::Bound { .. })) {
            return Verdict::Forward;
        }
        if FAULT == TIME_RUNS_BACK {
            bucket.full_at_ns = bucket.full_at_ns.saturating_sub(1_000_000_000);
        }
        if FAULT == REFUSES_ALL || FAULT == REFUSES_HALF && step.is_multiple_of(2) {
            cx.count(0);
            return Verdict::Drop(0);
        }
        let full_at_ns =
            bucket.full_at_ns.max(now_ns) + u64::from(meta.bytes) * 1_000_000_000 / RATE_BYTES_PER_S;
        if full_at_ns - now_ns > BURST_BYTES * 1_000_000_000 / RATE_BYTES_PER_S {
            cx.count(0);
            return Verdict::Drop(0);
        }
        bucket.full_at_ns = full_at_ns;
        Verdict::Forward
    }

    fn idle_timeout_ns(&self, _: &Bucket) -> u64 {
        1_000_000_000
    }
}

impl<K: FlowKey, const FAULT: u8> Faulty<K, FAULT> {
    fn totals(&self, state: &Bucket) -> [u64; 2] {
        [state.packets, state.bytes]
    }

    fn amount(meta: &Meta) -> u64 {
        meta.bytes.into()
    }

    fn bound(&self, elapsed_ns: u64) -> u128 {
        u128::from(BURST_BYTES) + u128::from(RATE_BYTES_PER_S) * u128::from(elapsed_ns) / 1_000_000_000
    }

    const IS_SHARED: bool = !K::SHARDING.fields.contains(Fields::SRC_PORT);
}
