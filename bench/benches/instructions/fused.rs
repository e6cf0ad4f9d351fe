//! What a chain of two would cost if its functions were one: a bound for what compiling a chain can give.

use nf::{About, Cx, Extras, FiveTuple, InPlace, NetworkFunction, OptionError, Verdict};
use nfs::FlowStatistics;
use wire::{Edits, Fields, Headers, Stamp};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

type LoadBalancer = nfs::LoadBalancer;

/// Statistics, then the balancer, in one step.
pub(crate) struct Fused {
    statistics: FlowStatistics,
    balancer: LoadBalancer,
}

#[derive(Clone, Copy, IntoBytes, Immutable, TryFromBytes)]
#[repr(C, packed)]
pub(crate) struct Meta {
    statistics: <FlowStatistics as NetworkFunction>::Meta,
    balancer: <LoadBalancer as NetworkFunction>::Meta,
}

#[derive(Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct State {
    statistics: <FlowStatistics as NetworkFunction>::State,
    balancer: <LoadBalancer as NetworkFunction>::State,
}

/// Those of the balancer.
#[derive(serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct Options(<LoadBalancer as NetworkFunction>::Options);

impl NetworkFunction for Fused {
    const ABOUT: About = About { name: "fused", ..About::NONE };
    const READS: Fields = FlowStatistics::READS.union(LoadBalancer::READS);
    const EDITS: Fields = LoadBalancer::EDITS;
    const EXTRAS: Extras<Self> = Extras { in_place: InPlace::Flow(Self::in_place), ..Extras::NONE };

    type Key = FiveTuple;
    type Meta = Meta;
    type State = State;
    type Pool = ();
    type Options = Options;

    fn new(options: Options) -> Result<Fused, OptionError> {
        Ok(Fused {
            statistics: FlowStatistics::new(Default::default())?,
            balancer: LoadBalancer::new(options.0)?,
        })
    }

    #[inline]
    fn project(headers: &Headers) -> Option<Meta> {
        Some(Meta {
            statistics: FlowStatistics::project(headers)?,
            balancer: LoadBalancer::project(headers)?,
        })
    }

    #[inline]
    fn key(meta: &Meta) -> FiveTuple {
        LoadBalancer::key(&{ meta.balancer })
    }

    fn step(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, ()>) -> Verdict {
        let (mut events, mut pool) = ([0; 16], Default::default());
        let mut statistics = flow.map(|state| state.statistics);
        let mut balancer = flow.map(|state| state.balancer);
        self.statistics.step(&mut statistics, &{ meta.statistics }, cx);
        let mut of_balancer = Cx::new(cx.stamp, cx.edits, &mut pool, &mut events, 7);
        let verdict = self.balancer.step(&mut balancer, &{ meta.balancer }, &mut of_balancer);
        *flow = statistics.zip(balancer).map(|(statistics, balancer)| State { statistics, balancer });
        verdict
    }

    #[inline]
    fn idle_timeout_ns(&self, state: &State) -> u64 {
        self.statistics.idle_timeout_ns(&state.statistics).max(self.balancer.idle_timeout_ns(&state.balancer))
    }
}

impl Fused {
    #[inline(always)]
    fn in_place(&self, state: &mut State, meta: &Meta, stamp: Stamp, edits: &mut Edits) -> bool {
        let (InPlace::Flow(statistics), InPlace::Flow(balancer)) =
            (const { FlowStatistics::EXTRAS.in_place }, const { LoadBalancer::EXTRAS.in_place })
        else {
            return false;
        };
        statistics(&self.statistics, &mut state.statistics, &{ meta.statistics }, stamp, edits)
            && balancer(&self.balancer, &mut state.balancer, &{ meta.balancer }, stamp, edits)
    }
}
