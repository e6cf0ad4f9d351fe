//! A balancer that can be told to go wrong where cores take turns of their own, to see that `verify` finds it.

use std::sync::atomic::{AtomicBool, Ordering};

use nf::{
    About, Cx, Extras, FiveTuple, FlowKey, FullTable, Guarantees, NetworkFunction, OptionError, Pooled,
    Verdict,
};
use nfs::LoadBalancer;
use nfs::load_balancer::{Followed, Options, State};
use wire::{Addr, Fields, Headers, IcmpPorts, Marks, protocol};

/// The stock balancer, with one fault in runs where several have turns. `K` is a `Connection` with `rewrite_answers`.
pub struct FaultyBalancer<const FAULT: u8, K = FiveTuple> {
    balancer: LoadBalancer<K>,
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
/// Some answers leave as the backend sent them.
pub const NOT_REWRITTEN: u8 = 5;
/// Some answers leave as those of another port of the service's address.
pub const OTHER_SERVICE: u8 = 6;
/// Some answers of direct connections leave as the service's.
pub const DIRECT_REWRITTEN: u8 = 7;
/// Some ICMP errors of clients go to another backend than their flow's.
pub const ERROR_ELSEWHERE: u8 = 8;

/// The first backend, another, and one that takes no new flows.
pub const BACKENDS: [[u8; 4]; 3] = [[10, 9, 0, 1], [10, 9, 0, 2], [10, 9, 0, 3]];

/// The address of the service that [`DIRECT_REWRITTEN`] takes for the sender's.
pub const VIP: [u8; 4] = [192, 0, 2, 80];

type Stock<K> = LoadBalancer<K>;

/// What is read of a packet.
#[derive(Clone, Copy, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::TryFromBytes)]
#[repr(C)]
pub struct Meta {
    balancer: nfs::load_balancer::Meta,
    flow: FiveTuple,
    /// 1 for an ICMP error, 2 for one that comes from where the packet that it quotes went, else 0.
    error: u32,
}

impl<const FAULT: u8, K: Followed> NetworkFunction for FaultyBalancer<FAULT, K> {
    const ABOUT: About = Stock::<K>::ABOUT;
    const READS: Fields = Stock::<K>::READS;
    const EDITS: Fields = Stock::<K>::EDITS;
    const EXTRAS: Extras<Self> = Extras {
        pool: Pooled {
            make: |faulty| {
                faulty.is_many.store(false, Ordering::Relaxed);
                (Stock::<K>::EXTRAS.pool.make)(&faulty.balancer)
            },
            divide: |faulty, cores, core_of| {
                faulty.is_many.store(cores > 1, Ordering::Relaxed);
                (Stock::<K>::EXTRAS.pool.divide)(&faulty.balancer, cores, core_of)
            },
            steps_in_order: |faulty| (Stock::<K>::EXTRAS.pool.steps_in_order)(&faulty.balancer),
            allocates: |faulty| (Stock::<K>::EXTRAS.pool.allocates)(&faulty.balancer),
            judge: Some(|faulty, hearing| {
                Stock::<K>::EXTRAS.pool.judge.expect("it has one")(&faulty.balancer, hearing)
            }),
            role: if K::BOTH_WAYS {
                Some(|faulty, headers| {
                    Stock::<K>::EXTRAS.pool.role.expect("it has one")(&faulty.balancer, headers)
                })
            } else {
                None
            },
            without_allocation: Some(|faulty, state| {
                Stock::<K>::EXTRAS.pool.without_allocation.expect("it has one")(&faulty.balancer, state)
            }),
            allocation_events: |faulty| (Stock::<K>::EXTRAS.pool.allocation_events)(&faulty.balancer),
            ..Pooled::NONE
        },
        full_table: FullTable {
            rejected: |faulty, state, meta, cx| {
                (Stock::<K>::EXTRAS.full_table.rejected)(&faulty.balancer, state, &meta.balancer, cx)
            },
            refuses_eviction: |faulty| (Stock::<K>::EXTRAS.full_table.refuses_eviction)(&faulty.balancer),
        },
        guarantees: Guarantees::NONE,
        ..Extras::NONE
    };
    type Key = K;
    type Meta = Meta;
    type State = State;
    type Pool = <Stock<K> as NetworkFunction>::Pool;
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        Ok(FaultyBalancer { balancer: Stock::<K>::new(options)?, is_many: AtomicBool::new(false) })
    }

    fn project(headers: &Headers) -> Option<Meta> {
        let error = match headers.icmp_ports() {
            Some(IcmpPorts::Error { is_from_destination, .. }) => 1 + u32::from(is_from_destination),
            _ => 0,
        };
        Some(Meta { balancer: Stock::<K>::project(headers)?, flow: FiveTuple::of(headers), error })
    }

    fn key(meta: &Meta) -> K {
        Stock::<K>::key(&meta.balancer)
    }

    fn step(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, Self::Pool>) -> Verdict {
        let was_known = flow.is_some();
        let verdict = self.balancer.step(flow, &meta.balancer, cx);
        if self.is_many.load(Ordering::Relaxed) && verdict == Verdict::Forward {
            spoil::<FAULT, _>(was_known, meta, cx);
        }
        verdict
    }

    fn idle_timeout_ns(&self, state: &State) -> u64 {
        self.balancer.idle_timeout_ns(state)
    }
}

/// What becomes of the right answer.
fn spoil<const FAULT: u8, P>(was_known: bool, meta: &Meta, cx: &mut Cx<'_, P>) {
    let edited = cx.edits.fields();
    let (goes_there, comes_back) = (edited.contains(Fields::DST_ADDR), edited.contains(Fields::SRC_ADDR));
    let is_hit = cx.stamp.seq % 8 < 3;
    let is_from_backend = BACKENDS.contains(&meta.flow.src.to_v4().unwrap_or_default());
    let mut answer = Headers { marks: Marks::IPV4, protocol: protocol::UDP, ..Headers::default() };
    cx.edits.apply_to_headers(&mut answer);
    let other = Addr::v4(BACKENDS[usize::from(answer.dst == Addr::v4(BACKENDS[0]))]);
    match FAULT {
        CHANGES if goes_there && was_known && is_hit => cx.edits.set_dst(other),
        DRAINED if goes_there && is_hit => cx.edits.set_dst(Addr::v4(BACKENDS[2])),
        UNTRANSLATED if goes_there && is_hit => cx.edits.clear(),
        UNEVEN if goes_there => cx.edits.set_dst(Addr::v4(BACKENDS[0])),
        NOT_REWRITTEN if comes_back && is_hit => cx.edits.clear(),
        OTHER_SERVICE if comes_back && is_hit => cx.edits.set_src_port(81),
        DIRECT_REWRITTEN if edited.is_empty() && is_from_backend && meta.error == 0 && is_hit => {
            cx.edits.set_src(Addr::v4(VIP));
            cx.edits.set_src_port(80);
        }
        ERROR_ELSEWHERE if goes_there && meta.error == 2 && was_known && is_hit => cx.edits.set_dst(other),
        _ => {}
    }
}
