//! One run, packet by packet; what two of them differ in; and the whole answers where they do.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use io::Fate;
use io::capture::{CaptureError, CaptureReader};
use memory::on_demand;
use nf::{FiveTuple, FlowKey, Ruling};
use wire::{Edits, Fields};

use crate::chain::Chain;
use crate::executor::capture::{Generation, replay_generations};
use crate::executor::input::{Progress, Source};
use crate::executor::outcome::{RunError, RunOutcome};
use crate::executor::seen::Seen;
use crate::strategies::plan::Plan;
use crate::verify::answering::{Answered, Asking, Came};
use crate::verify::compare::{answer, fingerprint};
use crate::verify::judged::{Docket, Heard, Named, Reached, Tally};
use crate::verify::verified::{Answer, VerifyError};

/// How runs over a capture are compared.
pub(super) struct Comparing<'a> {
    /// The chain that runs first.
    pub(super) chain: &'a Chain,
    pub(super) docket: &'a Docket,
    /// Header fields that are left out.
    pub(super) mask: Fields,
    pub(super) open: &'a dyn Fn() -> Result<CaptureReader, CaptureError>,
    /// Where each run is answered in its own endpoints.
    pub(super) asking: Option<Arc<Asking>>,
    pub(super) progress: &'a Progress,
}

/// A run that is possible: its chains, and the plan of the first of them.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) generations: &'a [Generation<'a>],
    pub(super) plan: &'a Plan,
}

/// What a run made of each packet, what its judge had to say, and what it is left with.
pub(super) struct Ran {
    /// By packet.
    answers: Vec<u64>,
    /// By packet, where a function is judged.
    named: Vec<Named>,
    pub(super) heard: Heard,
    /// What it differs in from the run beside it, as far as both have come.
    pub(super) found: Found,
    pub(super) answered: Option<Answered>,
    pub(super) outcome: RunOutcome,
}

/// What a run differs in from the one beside it.
#[derive(Default)]
pub(super) struct Found {
    /// Packets.
    pub(super) different: u64,
    /// The first of them.
    pub(super) first: Option<Unlike>,
    pub(super) tally: Tally,
    reached: Reached,
}

/// A packet whose answer is another than in the run beside this one.
pub(super) struct Unlike {
    /// Its number, from 0.
    pub(super) seq: u64,
    /// The answer as this run gave it: a run that is not simulated need not give it again.
    pub(super) answer: Answer,
}

impl Comparing<'_> {
    /// Does a run, beside one that is done. Each packet is shown to `see`, too.
    pub(super) fn run(
        &self,
        run: Run<'_>,
        beside: Option<&Ran>,
        see: &mut dyn FnMut(&Seen<'_>),
    ) -> Result<Ran, VerifyError> {
        let mut trial = self.docket.trial(self.chain, run.plan);
        let came = trial.is_some().then(self.open).transpose()?;
        let (input, mut came) = self.input(came)?;
        let empty = self.empty();
        let (mut answers, mut named): (Vec<u64>, Vec<Named>) = (Vec::new(), Vec::new());
        let mut found = Found { reached: self.docket.reached(), ..Found::default() };
        let mut see = |seen: &Seen<'_>| {
            let mut rename = Edits::NONE;
            let record = came.as_mut().and_then(Came::next);
            if let Some(trial) = &mut trial {
                let ruling = trial.see(seen, record.as_ref());
                named.push(Named::new(&ruling, seen, empty));
                rename = self.renamed(&ruling);
            }
            let own = (fingerprint(seen, self.mask, &rename), named.last().copied());
            if let Some(other) = beside.and_then(|ran| ran.packet(answers.len()))
                && !is_same(other, own, &mut found)
            {
                let (seq, answer) = (seen.stamp.seq, || answer(seen, self.mask, &rename));
                found.different += 1;
                found.first.get_or_insert_with(|| Unlike { seq, answer: answer() });
            }
            answers.push(own.0);
            see(seen);
            if let Some(came) = &mut came {
                came.answer(seen);
            }
            Ok(())
        };
        // Nobody measures this run, and it may be one of thousands, over few packets each.
        let outcome = on_demand(|| replay_generations(run.generations, input, self.progress, &mut see))
            .map_err(VerifyError::Run)?;
        let heard = trial.map(|trial| trial.end(&outcome)).unwrap_or_default();
        let answered = came.and_then(|came| came.answered());
        Ok(Ran { answers, named, heard, found, answered, outcome })
    }

    /// A packet's flow, and its whole answer in a run that is done once more up to there. `None` if that is stopped.
    pub(super) fn explain(
        &self,
        seq: u64,
        run: Run<'_>,
    ) -> Result<Option<(Option<FiveTuple>, Answer)>, VerifyError> {
        let mut trial = self.docket.trial(self.chain, run.plan);
        let came = (self.open)()?;
        if self.is_stopped() {
            return Ok(None);
        }
        let (input, mut came) = self.input(Some(came))?;
        let mut found = None;
        let mut see = |seen: &Seen<'_>| {
            let record = came.as_mut().and_then(Came::next);
            let ruling = trial.as_mut().map(|trial| trial.see(seen, record.as_ref()));
            if seen.stamp.seq == seq {
                let rename = ruling.map_or(Edits::NONE, |ruling| self.renamed(&ruling));
                let headers = record.map(|record| wire::parse(record.link, record.data, record.wire_len));
                let headers = headers.filter(|headers| headers.is_ip() && headers.is_well_formed());
                found =
                    Some((headers.map(|headers| FiveTuple::of(&headers)), answer(seen, self.mask, &rename)));
            }
            if seen.stamp.seq < seq {
                came.iter_mut().for_each(|came| came.answer(seen));
                return Ok(());
            }
            // No more answers are told: the thread that waits for one gives up.
            came = None;
            Err(())
        };
        let again = replay_generations(run.generations, input, self.progress, &mut see);
        if let Err(RunError::OutOfMemory { cores, bytes }) = again {
            return Err(VerifyError::Run(RunError::OutOfMemory { cores, bytes }));
        }
        if found.is_none() && !self.is_stopped() {
            return Err(VerifyError::Packets { strategy: "the same again", single: seq + 1, other: seq });
        }
        Ok(found)
    }

    /// What a run takes in; and its packets as they come to it, which `came` reads, if they have to be known.
    fn input(&self, came: Option<CaptureReader>) -> Result<(Source, Option<Came>), VerifyError> {
        let input = (self.open)()?;
        Ok(match (&self.asking, came) {
            (Some(asking), Some(came)) => {
                let (source, came) = asking.run(input, came);
                (source, Some(came))
            }
            (_, came) => (input.into(), came.map(Came::of)),
        })
    }

    /// The edits that rename a packet before it is compared.
    fn renamed(&self, ruling: &Ruling) -> Edits {
        if self.docket.renames { ruling.rename } else { Edits::NONE }
    }

    /// What becomes of a packet for which the pool of the judged function has nothing.
    fn empty(&self) -> Option<Fate> {
        let index = self.docket.judged?;
        let reason = self.chain.functions[index].function.info().pool_empty?;
        Some(Fate::DropBy { function: index as u8, reason })
    }

    fn is_stopped(&self) -> bool {
        self.progress.stop.load(Ordering::Relaxed)
    }
}

impl Ran {
    /// What it made of a packet.
    fn packet(&self, at: usize) -> Option<(u64, Option<Named>)> {
        Some((*self.answers.get(at)?, self.named.get(at).copied()))
    }
}

/// Whether two runs made the same of a packet, as far as they have to.
fn is_same(one: (u64, Option<Named>), other: (u64, Option<Named>), found: &mut Found) -> bool {
    let is_same = one.0 == other.0;
    match (one.1, other.1) {
        (Some(one), Some(other)) => found.tally.is_same(&mut found.reached, [one, other], is_same),
        _ => is_same,
    }
}

#[cfg(test)]
mod tests;
