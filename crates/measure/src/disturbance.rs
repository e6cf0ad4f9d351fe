//! What else the system ran while something was measured, and when a rate is therefore not to be relied on.
//!
//! Every benchmark notes this beside its rates. A core of a benchmark polls and never sleeps, so its thread should have a
//! processor all the time; each time that it has none, the simulated card goes on receiving, and drops.

use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::search::median_index;
use crate::{Clock, Conditions, Point};
use nix::time::{ClockId, clock_gettime};

/// Measurements of one thing that differ by more than this share of their median were disturbed: the width of a search is
/// 1%, and on a quiet machine they differ by 3% or so.
const SPREAD_MAX: f64 = 0.1;

/// The most that real cores may be without a processor. One pause of 4 ms overflows 256 descriptors many times over, and in
/// a trial of 50 ms that is more than the 4% that may be lost.
const OFF_MEASURED_MAX: f64 = 0.01;

/// The most that virtual cores may be without a processor. Their clocks do not count pauses: what remains is that
/// others used the caches.
const OFF_VIRTUAL_MAX: f64 = 0.1;

/// The most that other machines may have.
const STEAL_MAX: f64 = 0.01;

impl Conditions {
    /// Why a rate measured under these conditions is not to be relied on, a sentence for each reason; none if it is.
    pub fn notes(&self, clock: Clock) -> Vec<String> {
        let off_max = match clock {
            Clock::Measured => OFF_MEASURED_MAX,
            Clock::Virtual => OFF_VIRTUAL_MAX,
        };
        let above = |share: Option<f64>, most: f64| share.filter(|share| *share > most);
        let off = above(self.off_processor_share, off_max).map(|share| {
            let percent = share * 100.0;
            format!(
                "the measuring threads had no processor for {percent:.1}% of the time, the system ran others"
            )
        });
        let steal = above(self.steal_share, STEAL_MAX).map(|share| {
            format!("the hypervisor gave {:.1}% of the processors' time to other machines", share * 100.0)
        });
        off.into_iter().chain(steal).collect()
    }
}

/// Why a point's rate is not to be relied on, a sentence for each reason; none if it is.
pub(crate) fn notes(point: &Point) -> Vec<String> {
    let spread = spread_note("searches for the same rate found", &point.found_mpps, "Mpps");
    let conditions = point.conditions.map(|conditions| conditions.notes(point.clock)).unwrap_or_default();
    spread.into_iter().chain(conditions).collect()
}

/// That measurements of one thing are further apart than on a quiet machine: `what`, the least and the most with their
/// unit. `None` if they are not.
pub fn spread_note(what: &str, values: &[f64], unit: &str) -> Option<String> {
    let (least, most) = range(values)?;
    let is_far = most - least > SPREAD_MAX * values[median_index(values)];
    is_far.then(|| format!("{what} {} to {} {unit}", decimal(least), decimal(most)))
}

/// The least and the most; `None` of nothing.
pub(crate) fn range(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().reduce(f64::min)?;
    Some((least, values.iter().copied().fold(least, f64::max)))
}

/// A rate, a ratio or a time with two places, or as many as a small one needs: as tables, sentences and charts write it.
pub fn decimal(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => "-".to_owned(),
        // Nothing that is measured is so little.
        size if size < 1e-9 => "0".to_owned(),
        size if size >= 999_999.5 => format!("{value:.2e}"),
        size if size >= 1e4 && value > 0.0 => {
            let whole = value.round() as u64;
            format!("{},{:03}", whole / 1000, whole % 1000)
        }
        size if size >= 0.095 => format!("{value:.2}"),
        size if size >= 0.000_95 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

/// Why threads that all want a processor at the same time will not all have one; `None` if there are enough.
pub fn crowded(threads: usize) -> Option<String> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    (threads > processors)
        .then(|| format!("{threads} threads that never sleep shared {processors} processors, in turns"))
}

/// Time of threads, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// By the clock on the wall.
    pub wall: Duration,
    /// In which they had a processor; `None` where the system does not say.
    pub processor: Option<Duration>,
}

impl ThreadTime {
    /// The times of both.
    #[must_use]
    pub fn and(self, other: ThreadTime) -> ThreadTime {
        let both = |(one, other): (Duration, Duration)| one + other;
        ThreadTime { wall: self.wall + other.wall, processor: self.processor.zip(other.processor).map(both) }
    }

    /// Share of the time without a processor, 0 to 1; `None` where the system does not say.
    pub fn off_processor_share(&self) -> Option<f64> {
        let off = self.wall.saturating_sub(self.processor?);
        Some(off.as_secs_f64() / self.wall.as_secs_f64().max(1e-9))
    }
}

/// Takes the time of the thread that started it.
#[derive(Clone, Copy, Debug)]
pub struct ThreadClock {
    wall: Instant,
    processor: Option<Duration>,
}

impl ThreadClock {
    /// From now on.
    pub fn start() -> ThreadClock {
        ThreadClock { wall: Instant::now(), processor: processor_time() }
    }

    /// Until now, on the same thread.
    pub fn stop(&self) -> ThreadTime {
        let processor = processor_time().zip(self.processor).map(|(now, then)| now.saturating_sub(then));
        ThreadTime { wall: self.wall.elapsed(), processor }
    }
}

/// How long this thread has had a processor since it began.
fn processor_time() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok().map(Duration::from)
}

/// What a hypervisor takes from now on.
#[derive(Clone, Copy, Debug)]
pub struct StealClock {
    before: Option<Ticks>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    steal: u64,
    all: u64,
}

impl StealClock {
    /// From now on.
    pub fn start() -> StealClock {
        StealClock { before: ticks() }
    }

    /// Share of all processors' time since then, 0 to 1; `None` where the system does not say.
    pub fn share(&self) -> Option<f64> {
        let (before, now) = (self.before?, ticks()?);
        let all = now.all.saturating_sub(before.all);
        Some(now.steal.saturating_sub(before.steal) as f64 / all.max(1) as f64)
    }
}

fn ticks() -> Option<Ticks> {
    ticks_of(&fs::read_to_string("/proc/stat").ok()?)
}

/// `cpu user nice system idle iowait irq softirq steal guest guest_nice`, in ticks; both guests are in user and nice
/// already (proc(5)).
fn ticks_of(stat: &str) -> Option<Ticks> {
    let mut words = stat.lines().next()?.split_whitespace();
    let ticks: Vec<u64> =
        (words.next()? == "cpu").then(|| words.map_while(|word| word.parse().ok()).collect())?;
    Some(Ticks { steal: *ticks.get(7)?, all: ticks[..8].iter().sum() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_number() {
        let stat = "cpu  10 20 30 40 50 60 70 80 5 6\ncpu0 1 2 3\n";
        assert_eq!(ticks_of(stat), Some(Ticks { steal: 80, all: 360 }));
        assert_eq!([ticks_of("cpu 1 2 3"), ticks_of(""), ticks_of("intr 1 2 3 4 5 6 7 8")], [None; 3]);
    }

    /// A thread that sleeps has no processor meanwhile, and one that works has.
    #[test]
    fn time_without_a_processor_is_seen() {
        let clock = ThreadClock::start();
        thread::sleep(Duration::from_millis(50));
        let slept = clock.stop();
        assert!(slept.off_processor_share().is_none_or(|share| share > 0.9), "{slept:?}");
        let both = slept.and(ThreadTime { wall: slept.wall, processor: Some(slept.wall) });
        assert!(both.off_processor_share().is_none_or(|share| (0.4..=0.5).contains(&share)), "{both:?}");
        assert_eq!(slept.and(ThreadTime { processor: None, ..slept }).off_processor_share(), None);
    }

    #[test]
    fn notes_tell_what_is_beyond_the_usual() {
        let quiet = Conditions { off_processor_share: Some(0.005), steal_share: Some(0.0), slow_batches: 3 };
        assert_eq!(quiet.notes(Clock::Measured), Vec::<String>::new());
        let busy = Conditions { off_processor_share: Some(0.05), steal_share: Some(0.02), ..quiet };
        assert_eq!(
            busy.notes(Clock::Measured),
            [
                "the measuring threads had no processor for 5.0% of the time, the system ran others",
                "the hypervisor gave 2.0% of the processors' time to other machines",
            ]
        );
        assert_eq!(busy.notes(Clock::Virtual).len(), 1, "pauses are not in virtual time");
        let found = [0.0108, 0.0695, 0.07, 9.84];
        let note = spread_note("searches found", &found, "Mpps").expect("a rate that is no rate");
        assert_eq!(note, "searches found 0.0108 to 9.84 Mpps");
        assert_eq!((spread_note("", &[9.7, 9.9, 10.0], ""), spread_note("", &[], "")), (None, None));
    }

    #[test]
    fn numbers_have_the_places_they_need() {
        let figures =
            [0.0, 12.345, 9_999.5, 123_456.7, 0.0123, 0.000_001, 4e12, 1e-12, f64::NAN].map(decimal);
        assert_eq!(figures, ["0", "12.35", "9999.50", "123,457", "0.0123", "1.00e-6", "4.00e12", "0", "-"]);
    }
}
