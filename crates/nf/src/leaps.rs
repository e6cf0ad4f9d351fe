//! Whether a function leaps to where it would have stepped: a check for its tests.

use alloc::vec::Vec;
use core::fmt;

use wire::Headers;

use crate::trial::{Timed, Trial, is_same, metas};
use crate::{Leap, NetworkFunction};

/// Holds [`Extras::leap`](crate::Extras::leap) to [`NetworkFunction::step`], by trial: flows that come out of steps with
/// `samples`, at times that lie close together, far apart, and about as far as the flow lives. Says how many packets
/// the leaps took.
///
/// # Errors
/// [`LeapError`] says what was wrong.
pub fn check_leaps<F: NetworkFunction>(function: &F, samples: &[Headers]) -> Result<u64, LeapError> {
    let metas = metas::<F>(samples);
    let mut trial = Trial::new(function);
    let mut leapt = 0;
    for number in 0..4 * metas.len() {
        let meta = &metas[number % metas.len()];
        let flow = trial.flow(meta, &metas);
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
    /// A packet is said to pass of whose step something else comes.
    Passes,
}

impl fmt::Display for LeapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeapError::TooFar => "leaps over more packets than there are",
            LeapError::Expired => "leaps over a packet that comes when the flow has expired",
            LeapError::Turned => "leaps over a packet that begins or ends the flow",
            LeapError::Differs => "leaps to another state than steps lead to",
            LeapError::Passes => {
                "says that a packet passes that is not forwarded as it is, or counted as an event"
            }
        })
    }
}

impl core::error::Error for LeapError {}

impl<F: NetworkFunction> Trial<'_, F> {
    /// Leaps, and steps the packets that the leap took, to compare.
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
        let Leap { steps, passes } =
            F::EXTRAS.leap.map_or(Leap::NONE, |leap| leap(self.function, &mut landed, meta, &times_ns));
        let Some(leapt) = times_ns.get(..steps) else { return Err(LeapError::TooFar) };
        for time_ns in leapt {
            if self.is_over(&flow, *time_ns) {
                return Err(LeapError::Expired);
            }
            let had_one = flow.state.is_some();
            let outcome = self.step_at(*time_ns, &mut flow, meta);
            if passes && !outcome.is_none() {
                return Err(LeapError::Passes);
            }
            if flow.state.is_some() != had_one {
                return Err(LeapError::Turned);
            }
        }
        if is_same(&landed, &flow.state) { Ok(steps as u64) } else { Err(LeapError::Differs) }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::string::ToString;

    use wire::Fields;

    use super::*;
    use crate::{About, Cx, Extras, OptionError, SrcAddr, Verdict};

    /// Packets of a flow, which ends with the tenth and after a second; with a fault in its leaps.
    struct Ten(Option<LeapError>);

    const IDLE_NS: u64 = 1_000_000_000;
    const FIFTH: usize = 0;

    impl NetworkFunction for Ten {
        const ABOUT: About = About { name: "ten", events: &["fifth_packets"], ..About::NONE };
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
            if count == 5 {
                cx.count(FIFTH);
            }
            Verdict::Forward
        }

        fn idle_timeout_ns(&self, _: &[u64; 2]) -> u64 {
            IDLE_NS
        }
    }

    impl Ten {
        fn leap(&self, flow: &mut Option<[u64; 2]>, _: &SrcAddr, times_ns: &[u64]) -> Leap {
            let Some([count, last_ns]) = flow else { return Leap::NONE };
            let (first_ns, mut leapt) = (*last_ns, 0);
            for time_ns in times_ns {
                let is_over = *time_ns - *last_ns >= IDLE_NS && self.0 != Some(LeapError::Expired);
                if is_over || *count == 9 && self.0 != Some(LeapError::Turned) {
                    break;
                }
                (*count, *last_ns, leapt) = (*count + 1, *time_ns, leapt + 1);
            }
            match self.0 {
                Some(LeapError::TooFar) => leapt = times_ns.len() + 1,
                Some(LeapError::Differs) => *last_ns = first_ns,
                _ => {}
            }
            // Of the fifth packet an event comes.
            let passes = *count < 5 || self.0 == Some(LeapError::Passes);
            Leap { steps: leapt, passes }
        }
    }

    #[test]
    fn each_fault_is_found() {
        let samples: Vec<Headers> = crate::sample_headers(1).take(500).collect();
        // Nothing is left to chance: the leaps take as many packets each time.
        assert_eq!(check_leaps(&Ten(None), &samples), Ok(5933));
        let mut texts = BTreeSet::new();
        let faults =
            [LeapError::TooFar, LeapError::Expired, LeapError::Turned, LeapError::Differs, LeapError::Passes];
        for fault in faults {
            assert_eq!(check_leaps(&Ten(Some(fault)), &samples), Err(fault));
            texts.insert(fault.to_string());
        }
        assert_eq!(texts.len(), 5, "{texts:?}");
    }
}
