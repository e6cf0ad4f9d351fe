//! Whether a function does in place what its step would have done: a check for its tests.

use core::fmt;

use wire::Headers;
use zerocopy::IntoBytes;

use crate::trial::{Outcome, Timed, Trial, metas};
use crate::{InPlace, NetworkFunction, Verdict, began_anew};

/// Holds [`Extras::in_place`](crate::Extras::in_place) to [`NetworkFunction::step`], by trial: flows that come out of steps
/// with `samples`, at times that lie close together, far apart, and about as far as the flow lives. Says how many packets
/// were stepped in place.
///
/// # Errors
/// [`InPlaceError`] says what was wrong.
pub fn check_in_place<F: NetworkFunction>(function: &F, samples: &[Headers]) -> Result<u64, InPlaceError> {
    let metas = metas::<F>(samples);
    let mut trial = Trial::with_twin(function);
    let mut stepped = 0;
    for number in 0..4 * metas.len() {
        let meta = &metas[number % metas.len()];
        let flow = trial.flow(meta, &metas);
        if trial.twins_differ {
            return Err(InPlaceError::Pool);
        }
        stepped += u64::from(trial.step_in_place(flow, meta)?);
    }
    Ok(stepped)
}

/// What is wrong with a step in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlaceError {
    /// It was left to [`NetworkFunction::step`], and yet the state changed, edits were made, or events counted.
    Began,
    /// The step does not let the packet pass.
    Verdict,
    /// The step ends the flow, or its record.
    Ended,
    /// The state is not what the step leaves.
    State,
    /// The edits are not what the step makes.
    Edits,
    /// The events are not what the step counts.
    Events,
    /// Later steps come out otherwise than with the pool as the step leaves it.
    Pool,
}

impl fmt::Display for InPlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InPlaceError::Began => "changes something in place that it then leaves to a step",
            InPlaceError::Verdict => "does in place a step that does not let the packet pass",
            InPlaceError::Ended => "does in place a step that ends the flow or its record",
            InPlaceError::State => "leaves another state in place than a step",
            InPlaceError::Edits => "makes other edits in place than a step",
            InPlaceError::Events => "counts other events in place than a step",
            InPlaceError::Pool => "leaves another pool in place than a step",
        })
    }
}

impl core::error::Error for InPlaceError {}

impl<F: NetworkFunction> Trial<'_, F> {
    /// The packet in place, and as a step.
    fn step_in_place(&mut self, mut flow: Timed<F::State>, meta: &F::Meta) -> Result<bool, InPlaceError> {
        let time_ns = self.later_ns(&flow);
        let Some(before) = flow.state else { return Ok(false) };
        if self.is_over(&flow, time_ns) {
            return Ok(false);
        }
        let (stamp, mut state, mut is_done) = (self.stamp(time_ns), before, false);
        let Some(twin) = &mut self.twin else { return Ok(false) };
        let Outcome { edits, events, .. } = Outcome::of::<F>(stamp, twin, |cx| {
            is_done = match F::EXTRAS.in_place {
                InPlace::Never => false,
                InPlace::Flow(step) => step(self.function, &mut state, meta, cx.stamp, cx.edits),
                InPlace::Whole(step) => step(self.function, &mut state, meta, cx),
            };
            Verdict::Forward
        });
        if !is_done {
            let is_untouched = state.as_bytes() == before.as_bytes()
                && edits.is_empty()
                && events.iter().all(|count| *count == 0);
            return if is_untouched { Ok(false) } else { Err(InPlaceError::Began) };
        }
        let outcome = self.step_alone(time_ns, &mut flow, meta);
        if outcome.verdict != Verdict::Forward {
            return Err(InPlaceError::Verdict);
        }
        let totals = |state: &F::State| (F::EXTRAS.records.totals)(self.function, state);
        match flow.state {
            None => Err(InPlaceError::Ended),
            Some(after) if F::EXTRAS.records.begin_anew && began_anew(totals(&before), totals(&after)) => {
                Err(InPlaceError::Ended)
            }
            Some(after) if after.as_bytes() != state.as_bytes() => Err(InPlaceError::State),
            Some(_) if outcome.edits != edits => Err(InPlaceError::Edits),
            Some(_) if outcome.events != events => Err(InPlaceError::Events),
            Some(_) => Ok(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use wire::Fields;

    use super::*;
    use crate::{About, Cx, Extras, OptionError, Records, SrcAddr};

    /// Counts packets of a source up to 3, drops the next one, and goes on from 1; and counts those of all sources. With a fault
    /// in its steps in place.
    struct Three(Option<InPlaceError>);

    impl NetworkFunction for Three {
        const ABOUT: About = About {
            name: "three",
            drop_reasons: &["fourth"],
            events: &["fourths", "packets"],
            ..About::NONE
        };
        const READS: Fields = Fields::SRC_ADDR;
        const EDITS: Fields = Fields::TTL.union(Fields::TOS);
        const EXTRAS: Extras<Self> = Extras {
            records: Records { totals: |_, state| [u64::from(*state), 0], begin_anew: true, ..Records::NONE },
            in_place: InPlace::Whole(Self::in_place),
            ..Extras::NONE
        };
        type Key = SrcAddr;
        type Meta = SrcAddr;
        type State = u8;
        type Pool = u8;
        type Options = ();

        fn new((): ()) -> Result<Self, OptionError> {
            Ok(Three(None))
        }

        fn project(headers: &Headers) -> Option<SrcAddr> {
            Some(SrcAddr(headers.src))
        }

        fn key(meta: &SrcAddr) -> SrcAddr {
            *meta
        }

        fn step(&self, flow: &mut Option<u8>, _: &SrcAddr, cx: &mut Cx<'_, u8>) -> Verdict {
            let count = flow.get_or_insert(0);
            *count += 1;
            cx.edits.set_ttl(*count);
            cx.edits.set_tos(*cx.pool);
            *cx.pool = cx.pool.wrapping_add(1);
            cx.count(1);
            match (*count, self.0) {
                (4, Some(InPlaceError::Ended)) => *count = 1,
                (4, _) => {
                    *count = 1;
                    cx.count(0);
                    return Verdict::Drop(0);
                }
                _ => {}
            }
            Verdict::Forward
        }

        fn idle_timeout_ns(&self, _: &u8) -> u64 {
            1_000_000_000
        }
    }

    impl Three {
        fn in_place(&self, count: &mut u8, _: &SrcAddr, cx: &mut Cx<'_, u8>) -> bool {
            let takes_all = matches!(self.0, Some(InPlaceError::Verdict | InPlaceError::Ended));
            if *count == 3 && !takes_all {
                *count += u8::from(self.0 == Some(InPlaceError::Began));
                return false;
            }
            *count += if self.0 == Some(InPlaceError::State) { 2 } else { 1 };
            cx.edits.set_ttl(if self.0 == Some(InPlaceError::Edits) { 64 } else { *count });
            cx.edits.set_tos(*cx.pool);
            *cx.pool = cx.pool.wrapping_add(u8::from(self.0 != Some(InPlaceError::Pool)));
            cx.count(if self.0 == Some(InPlaceError::Events) { 0 } else { 1 });
            true
        }
    }

    #[test]
    fn each_fault_is_found() {
        let samples: Vec<Headers> = crate::sample_headers(1).take(500).collect();
        // Nothing is left to chance: as many are stepped each time.
        assert_eq!(check_in_place(&Three(None), &samples), Ok(1146));
        let mut texts = BTreeSet::new();
        for fault in [
            InPlaceError::Began,
            InPlaceError::Verdict,
            InPlaceError::Ended,
            InPlaceError::State,
            InPlaceError::Edits,
            InPlaceError::Events,
            InPlaceError::Pool,
        ] {
            assert_eq!(check_in_place(&Three(Some(fault)), &samples), Err(fault));
            texts.insert(fault.to_string());
        }
        assert_eq!(texts.len(), 7, "{texts:?}");
    }
}
