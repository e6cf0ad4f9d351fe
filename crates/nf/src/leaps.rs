//! Whether a function leaps to where it would have stepped: a check for its tests.

use alloc::vec::Vec;
use core::fmt;

use wire::{Edits, Headers, Stamp};
use zerocopy::IntoBytes;

use crate::{Cx, NetworkFunction, hash_bytes};

/// Holds [`Extras::leap`](crate::Extras::leap) to [`NetworkFunction::step`], by trial: flows that come out of steps with
/// `samples`, at times that lie close together, far apart, and about as far as the flow lives. Says how many packets
/// were leapt over.
///
/// # Errors
/// [`LeapError`] says what was wrong.
pub fn check_leaps<F: NetworkFunction>(function: &F, samples: &[Headers]) -> Result<u64, LeapError> {
    let metas: Vec<F::Meta> = samples.iter().filter(|h| h.is_well_formed()).filter_map(F::project).collect();
    let mut trial = Trial { function, pool: (F::EXTRAS.pool.make)(function), edits: Edits::NONE, drawn: 0 };
    let mut leapt = 0;
    for number in 0..4 * metas.len() {
        let meta = &metas[number % metas.len()];
        let mut flow = Timed { state: None, time_ns: 1 << 60 };
        for _ in 0..trial.below(6) {
            let other = trial.below(2 * metas.len() as u64) as usize;
            trial.step(&mut flow, metas.get(other).unwrap_or(meta));
        }
        leapt += trial.leap(flow, meta)?;
    }
    Ok(leapt)
}

/// What is wrong with a leap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeapError {
    /// More packets than there were.
    TooFar,
    /// A packet came when the flow had expired.
    Expired,
    /// One of the packets began or ended the flow.
    Turned,
    /// The state is not what the steps leave.
    Differs,
}

impl fmt::Display for LeapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeapError::TooFar => "leaps over more packets than there are",
            LeapError::Expired => "leaps over a packet that comes when the flow has expired",
            LeapError::Turned => "leaps over a packet that begins or ends the flow",
            LeapError::Differs => "leaps to another state than steps lead to",
        })
    }
}

impl core::error::Error for LeapError {}

/// A flow, and when its last packet came.
struct Timed<S> {
    state: Option<S>,
    time_ns: u64,
}

struct Trial<'a, F: NetworkFunction> {
    function: &'a F,
    pool: F::Pool,
    edits: Edits,
    drawn: u64,
}

impl<F: NetworkFunction> Trial<'_, F> {
    fn below(&mut self, end: u64) -> u64 {
        self.drawn += 1;
        hash_bytes(self.drawn.as_bytes(), 7) % end
    }

    /// When the next packet comes.
    fn later_ns(&mut self, flow: &Timed<F::State>) -> u64 {
        let idle_timeout_ns = flow.state.as_ref().map_or(1, |state| self.function.idle_timeout_ns(state));
        let gap_ns = match self.below(8) {
            0 => idle_timeout_ns.min(1 << 50).saturating_sub(self.below(3)),
            1 => idle_timeout_ns.min(1 << 50) / 4,
            2 => 0,
            // Most packets of a flow come in bursts.
            _ => {
                let most = 1 << (10 * self.below(4));
                self.below(most)
            }
        };
        flow.time_ns + gap_ns
    }

    fn is_over(&self, flow: &Timed<F::State>, time_ns: u64) -> bool {
        let ends = |state| time_ns >= flow.time_ns.saturating_add(self.function.idle_timeout_ns(state));
        flow.state.as_ref().is_some_and(ends)
    }

    fn step(&mut self, flow: &mut Timed<F::State>, meta: &F::Meta) {
        let time_ns = self.later_ns(flow);
        if self.is_over(flow, time_ns) {
            flow.state = None;
        }
        self.step_at(time_ns, flow, meta);
    }

    fn step_at(&mut self, time_ns: u64, flow: &mut Timed<F::State>, meta: &F::Meta) {
        let mut events = alloc::vec![0; F::ABOUT.events.len() + 1];
        let stamp = Stamp { seq: self.drawn, time_ns };
        let mut cx = Cx::new(stamp, &mut self.edits, &mut self.pool, &mut events, 0);
        let _ = self.function.step(&mut flow.state, meta, &mut cx);
        self.edits.clear();
        flow.time_ns = time_ns;
    }

    /// Leaps, and steps where it leapt.
    fn leap(&mut self, mut flow: Timed<F::State>, meta: &F::Meta) -> Result<u64, LeapError> {
        let mut times_ns = Vec::new();
        let mut at = Timed { state: flow.state, time_ns: flow.time_ns };
        for _ in 0..=self.below(12) {
            at.time_ns = self.later_ns(&at);
            times_ns.push(at.time_ns);
        }
        if self.is_over(&flow, times_ns[0]) {
            flow.state = None;
        }
        let mut landed = flow.state;
        let count = F::EXTRAS.leap.map_or(0, |leap| leap(self.function, &mut landed, meta, &times_ns));
        let Some(leapt) = times_ns.get(..count) else { return Err(LeapError::TooFar) };
        for time_ns in leapt {
            if self.is_over(&flow, *time_ns) {
                return Err(LeapError::Expired);
            }
            let had_one = flow.state.is_some();
            self.step_at(*time_ns, &mut flow, meta);
            if flow.state.is_some() != had_one {
                return Err(LeapError::Turned);
            }
        }
        let bytes = |state: &Option<F::State>| state.as_ref().map(|state| state.as_bytes().to_vec());
        let is_same = bytes(&landed) == bytes(&flow.state);
        if is_same { Ok(count as u64) } else { Err(LeapError::Differs) }
    }
}

#[cfg(test)]
mod tests {
    use wire::Fields;

    use super::*;
    use crate::{About, Extras, OptionError, SrcAddr, Verdict};

    /// Packets of a flow, which ends with the tenth and after a second; with a fault in its leaps.
    struct Ten(Option<LeapError>);

    const IDLE_NS: u64 = 1_000_000_000;

    impl NetworkFunction for Ten {
        const ABOUT: About = About { name: "ten", ..About::NONE };
        const READS: Fields = Fields::SRC_ADDR;
        const EXTRAS: Extras<Self> = Extras { leap: Some(Self::leap), ..Extras::NONE };
        type Key = SrcAddr;
        type Meta = SrcAddr;
        /// How many, and when the last one came.
        type State = [u64; 2];
        type Pool = ();
        type Options = ();

        fn new((): ()) -> Result<Self, OptionError> {
            Ok(Ten(None))
        }

        fn project(headers: &Headers) -> Option<SrcAddr> {
            Some(SrcAddr(headers.src))
        }

        fn key(meta: &SrcAddr) -> SrcAddr {
            *meta
        }

        fn step(&self, flow: &mut Option<[u64; 2]>, _: &SrcAddr, cx: &mut Cx<'_, ()>) -> Verdict {
            let count = flow.map_or(0, |[count, _]| count) + 1;
            *flow = (count < 10).then_some([count, cx.stamp.time_ns]);
            Verdict::Forward
        }

        fn idle_timeout_ns(&self, _: &[u64; 2]) -> u64 {
            IDLE_NS
        }
    }

    impl Ten {
        fn leap(&self, flow: &mut Option<[u64; 2]>, _: &SrcAddr, times_ns: &[u64]) -> usize {
            let Some([count, last_ns]) = flow else { return 0 };
            let (first_ns, mut leapt) = (*last_ns, 0);
            for time_ns in times_ns {
                let is_over = *time_ns - *last_ns >= IDLE_NS && self.0 != Some(LeapError::Expired);
                if is_over || *count == 9 && self.0 != Some(LeapError::Turned) {
                    break;
                }
                (*count, *last_ns, leapt) = (*count + 1, *time_ns, leapt + 1);
            }
            match self.0 {
                Some(LeapError::TooFar) => return times_ns.len() + 1,
                Some(LeapError::Differs) => *last_ns = first_ns,
                _ => {}
            }
            leapt
        }
    }

    #[test]
    fn each_fault_is_found() {
        let samples: Vec<Headers> = crate::sample_headers(1).take(500).collect();
        assert!(check_leaps(&Ten(None), &samples).is_ok_and(|leapt| leapt > 1_000));
        for fault in [LeapError::TooFar, LeapError::Expired, LeapError::Turned, LeapError::Differs] {
            assert_eq!(check_leaps(&Ten(Some(fault)), &samples), Err(fault));
        }
    }
}
