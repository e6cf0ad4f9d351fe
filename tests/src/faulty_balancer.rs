//! A balancer that can be told to go wrong where cores take turns of their own, to see that `verify` finds it.

use std::sync::atomic::{AtomicBool, Ordering};

use nf::{
    About, Cx, Extras, FiveTuple, FullTable, Guarantees, NetworkFunction, OptionError, Pooled, Verdict,
};
use nfs::LoadBalancer;
use nfs::load_balancer::{Meta, Options, State};
use wire::{Addr, Fields, Headers};

/// The stock balancer, with one fault in runs where several have turns.
pub struct FaultyBalancer<const FAULT: u8> {
    balancer: LoadBalancer,
    is_many: AtomicBool,
}

/// No fault.
pub const WELL: u8 = 0;
/// Some packets of a flow go to another backend.
pub const CHANGES: u8 = 1;
/// Some packets go to a backend that takes no new flows.
pub const DRAINED: u8 = 2;
/// Some packets go on as they came.
pub const UNTRANSLATED: u8 = 3;
/// All flows go to one backend.
pub const UNEVEN: u8 = 4;

/// The first backend, another, and one that takes no new flows.
pub const BACKENDS: [[u8; 4]; 3] = [[10, 9, 0, 1], [10, 9, 0, 2], [10, 9, 0, 3]];

type Stock = LoadBalancer;

impl<const FAULT: u8> NetworkFunction for FaultyBalancer<FAULT> {
    const ABOUT: About = Stock::ABOUT;
    const READS: Fields = Stock::READS;
    const EDITS: Fields = Stock::EDITS;
    const EXTRAS: Extras<Self> = Extras {
        pool: Pooled {
            make: |faulty| {
                faulty.is_many.store(false, Ordering::Relaxed);
                (Stock::EXTRAS.pool.make)(&faulty.balancer)
            },
            divide: |faulty, cores, core_of| {
                faulty.is_many.store(cores > 1, Ordering::Relaxed);
                (Stock::EXTRAS.pool.divide)(&faulty.balancer, cores, core_of)
            },
            steps_in_order: |faulty| (Stock::EXTRAS.pool.steps_in_order)(&faulty.balancer),
            allocates: |faulty| (Stock::EXTRAS.pool.allocates)(&faulty.balancer),
            judge: Some(|faulty, hearing| {
                Stock::EXTRAS.pool.judge.expect("it has one")(&faulty.balancer, hearing)
            }),
            without_allocation: Some(|faulty, state| {
                Stock::EXTRAS.pool.without_allocation.expect("it has one")(&faulty.balancer, state)
            }),
            allocation_events: |faulty| (Stock::EXTRAS.pool.allocation_events)(&faulty.balancer),
            ..Pooled::NONE
        },
        full_table: FullTable {
            rejected: |faulty, state, meta, cx| {
                (Stock::EXTRAS.full_table.rejected)(&faulty.balancer, state, meta, cx)
            },
            refuses_eviction: |faulty| (Stock::EXTRAS.full_table.refuses_eviction)(&faulty.balancer),
        },
        guarantees: Guarantees::NONE,
        ..Extras::NONE
    };
    type Key = FiveTuple;
    type Meta = Meta;
    type State = State;
    type Pool = <Stock as NetworkFunction>::Pool;
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        Ok(FaultyBalancer { balancer: Stock::new(options)?, is_many: AtomicBool::new(false) })
    }

    fn project(headers: &Headers) -> Option<Meta> {
        Stock::project(headers)
    }

    fn key(meta: &Meta) -> FiveTuple {
        Stock::key(meta)
    }

    fn step(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, Self::Pool>) -> Verdict {
        let was_known = flow.is_some();
        let verdict = self.balancer.step(flow, meta, cx);
        if !self.is_many.load(Ordering::Relaxed) || !cx.edits.fields().contains(Fields::DST_ADDR) {
            return verdict;
        }
        let is_hit = cx.stamp.seq % 8 < 3;
        let mut to = Headers::default();
        cx.edits.apply_to_headers(&mut to);
        match FAULT {
            CHANGES if was_known && is_hit => {
                let is_first = to.dst == Addr::v4(BACKENDS[0]);
                cx.edits.set_dst(Addr::v4(BACKENDS[usize::from(is_first)]));
            }
            DRAINED if is_hit => cx.edits.set_dst(Addr::v4(BACKENDS[2])),
            UNTRANSLATED if is_hit => cx.edits.clear(),
            UNEVEN => cx.edits.set_dst(Addr::v4(BACKENDS[0])),
            _ => {}
        }
        verdict
    }

    fn idle_timeout_ns(&self, state: &State) -> u64 {
        self.balancer.idle_timeout_ns(state)
    }
}
