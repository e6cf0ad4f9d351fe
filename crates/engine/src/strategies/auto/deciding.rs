//! What the dispatcher of a phase and those between phases share: what was measured, and what is decided.

use std::sync::Arc;
use std::time::Duration;

use control::{Choice, Chooser, Decision, Epoch, Span, Work};
use telemetry::Telemetry;

use crate::strategies::account::{Account, CandidateTold};
use crate::strategies::auto::candidates::Candidates;

/// Measures, and decides at the end of each epoch.
pub(super) struct Deciding {
    chooser: Chooser,
    telemetry: Option<Arc<Telemetry>>,
    /// What was done when the epoch began.
    before: SoFar,
    /// What is to change.
    decision: Option<Decision>,
    /// The rate in the first epoch of the phase, million packets per second.
    measured_mpps: Option<f64>,
    account: Arc<Account>,
}

impl Deciding {
    pub(super) fn new(
        candidates: &Candidates,
        first: Choice,
        entries: usize,
        account: Arc<Account>,
    ) -> Deciding {
        let chooser = Chooser::new(candidates.all.clone(), first, entries);
        Deciding {
            chooser: chooser.guessing(candidates.replay_sixteenths),
            telemetry: None,
            before: SoFar::default(),
            decision: None,
            measured_mpps: None,
            account,
        }
    }

    /// Where the cores publish what they count.
    pub(super) fn observe(&mut self, telemetry: &Arc<Telemetry>) {
        self.telemetry = Some(Arc::clone(telemetry));
    }

    /// A phase begins: says why, if something has changed.
    pub(super) fn begin(&mut self) -> Option<Decision> {
        self.measured_mpps = None;
        self.decision.take()
    }

    /// Its packets come: what was lost while flows went to their cores is nobody's.
    pub(super) fn resume(&mut self) {
        self.before = self.so_far();
    }

    /// An epoch ends that had so many packets by entry; says whether the phase does, too.
    pub(super) fn end_epoch(&mut self, loads: &[u64]) -> bool {
        let so_far = self.so_far();
        let (work, span) = so_far.since(&self.before);
        let cores = self.chooser.now().cores.min(work.len());
        let epoch = self.chooser.end_epoch(loads, &work[..cores], span);
        self.before = so_far;
        self.measured_mpps = self.measured_mpps.or(epoch.measured_mpps);
        self.decision = epoch.decision;
        self.tell(&epoch);
        epoch.decision.is_some()
    }

    /// Tells the account what choices are predicted to do.
    fn tell(&self, epoch: &Epoch) {
        let candidate = |choice: &Choice| CandidateTold {
            strategy: choice.model.name.to_owned(),
            cores: choice.cores,
            predicted_mpps: self.chooser.predict(*choice),
        };
        let is_measured = self.chooser.measured_ns().0.is_some();
        let choices = self.chooser.choices().iter().filter(|_| is_measured);
        let candidates = choices.map(candidate).filter(|told| told.predicted_mpps.is_finite()).collect();
        let ahead = self.chooser.ahead().map(|(model, epochs)| (model.name.to_owned(), epochs));
        let (packet_ns, replay_ns) = self.chooser.measured_ns();
        self.account.tell(|told| {
            told.looks += 1;
            told.epoch(epoch);
            let choosing = told.choosing.get_or_insert_default();
            (choosing.candidates, choosing.ahead) = (candidates, ahead);
            (choosing.packet_ns, choosing.replay_ns) = (packet_ns, replay_ns);
            choosing.hysteresis = Chooser::HYSTERESIS;
        });
    }

    /// The rate in the first epoch of the phase that ended, million packets per second.
    pub(super) fn measured_mpps(&self) -> Option<f64> {
        self.measured_mpps
    }

    /// What has been done so far.
    fn so_far(&self) -> SoFar {
        let Some(telemetry) = &self.telemetry else { return SoFar::default() };
        let snapshot = telemetry.snapshot();
        let lost = snapshot.overflowed();
        let work = |core: telemetry::CoreSnapshot| Work {
            packets: core.counts.packets,
            busy_ns: core.counts.busy_ns,
        };
        SoFar { elapsed: snapshot.elapsed, cores: snapshot.cores.into_iter().map(work).collect(), lost }
    }
}

/// What was done up to some time.
#[derive(Default)]
struct SoFar {
    elapsed: Duration,
    cores: Vec<Work>,
    /// Packets that found no room where they were to wait for the cores.
    lost: u64,
}

impl SoFar {
    fn since(&self, before: &SoFar) -> (Vec<Work>, Span) {
        let of_core = |(now, before): (&Work, &Work)| Work {
            packets: now.packets.saturating_sub(before.packets),
            busy_ns: now.busy_ns.saturating_sub(before.busy_ns),
        };
        let span = Span {
            elapsed_ns: self.elapsed.saturating_sub(before.elapsed).as_nanos() as u64,
            lost: self.lost.saturating_sub(before.lost),
        };
        (self.cores.iter().zip(&before.cores).map(of_core).collect(), span)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use control::rates::RSS;
    use telemetry::{CoreCounts, InterfaceSnapshot, Layout};

    use super::*;

    /// What has been read at the end of an epoch: the work of the cores, how long it was, and what was lost.
    #[test]
    fn what_is_lost_in_a_pause_is_of_no_epoch() {
        let telemetry = Arc::new(Telemetry::new(Layout::default(), 1));
        let lost = Arc::new(AtomicU64::new(5));
        let told = Arc::clone(&lost);
        telemetry.tell_interfaces(move || {
            vec![InterfaceSnapshot {
                overflowed: told.load(Ordering::Relaxed),
                ..InterfaceSnapshot::default()
            }]
        });
        let mut writer = telemetry.writer(0).expect("the first who asks");
        let mut work =
            |packets, busy_ns| writer.core(&CoreCounts { packets, busy_ns, ..CoreCounts::default() });
        let first = Choice { model: &RSS, cores: 1 };
        let (all, left_out, strategies) = (vec![first], Vec::new(), Vec::new());
        let candidates = Candidates { all, left_out, replay_sixteenths: 2, strategies };
        let mut deciding = Deciding::new(&candidates, first, 128, Arc::default());
        deciding.observe(&telemetry);
        telemetry.begin();
        work(1_000, 70_000);
        assert!(deciding.begin().is_none());
        lost.store(900, Ordering::Relaxed);
        deciding.resume();
        work(1_500, 90_000);
        lost.store(910, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(2));
        let (work, span) = deciding.so_far().since(&deciding.before);
        assert_eq!((work, span.lost), (vec![Work { packets: 500, busy_ns: 20_000 }], 10));
        assert!((2_000_000..10_000_000_000).contains(&span.elapsed_ns), "{span:?}");
    }
}
