//! The flows with the highest rates: all flows are looked through again and again, slowly, while a browser has the list open.
//!
//! ```text
//!  look 1     all flows ──► packets of each, at which time      no rates yet: those with the most packets are shown
//!  look 2     all flows ──► packets of each, less those of look 1, by the time between  ──►  the fastest
//! ```
//!
//! A look pauses so that it takes [`BUDGET`] of a core's time, what cores do for it and what this thread does together: with many
//! flows it takes long, and its cost stays.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::thread;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use crate::inspect::{Flow, Inspect, Portion};
use crate::view::{FlowView, FlowsView, tenths};

/// The share of a core that looks may take.
const BUDGET: f64 = 0.01;

/// A look begins so long after the one before at the earliest.
const PERIOD: Duration = Duration::from_secs(1);

/// How long a pause lasts before it is looked whether anyone still listens.
const NAP: Duration = Duration::from_millis(50);

/// Flows whose counters are kept from look to look: those with the most packets. A flow that is not among them counts as new.
const FOLLOWED: usize = 1 << 16;

/// Flows that are shown, by packets and by bytes each.
pub(crate) const SHOWN: usize = 20;

/// Looks through a run's flows until nobody listens, and tells what each look found. `seconds` is the run's time.
pub(crate) fn follow(
    inspect: &dyn Inspect,
    seconds: &dyn Fn() -> f64,
    is_wanted: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(FlowsView),
) {
    let mut top = Top::default();
    // Once they are not wanted it is over: who wants them later has another thread look.
    let is_over = Cell::new(false);
    let is_wanted = || {
        is_over.set(is_over.get() || !is_wanted());
        !is_over.get()
    };
    let is_wanted: &dyn Fn() -> bool = &is_wanted;
    while is_wanted() {
        let begin = Instant::now();
        let cost = Cost::begin();
        let mut look = Look::default();
        let mut worked = Duration::ZERO;
        let told = inspect.flows(&mut |portion: Portion| {
            worked = portion.worked;
            look.take(&mut top, portion.flows, seconds());
            rest_until(begin + cost.so_far(worked).div_f64(BUDGET), is_wanted)
        });
        if is_over.get() {
            break;
        }
        let seen = look.seen;
        let took = begin.elapsed().as_secs_f64();
        let (flows, has_rates) = look.end(&mut top);
        let cost = cost.so_far(worked);
        // Where a look is short, the next one begins later.
        let period = PERIOD.max(cost.div_f64(BUDGET)).max(begin.elapsed());
        tell(FlowsView {
            seconds: tenths(seconds()),
            took_seconds: tenths(took),
            core_percent: tenths(100.0 * cost.as_secs_f64() / period.as_secs_f64()),
            seen,
            has_rates,
            flows,
            error: told.err(),
        });
        rest_until(begin + period, is_wanted);
    }
}

/// Waits, and says whether anyone still listens.
fn rest_until(end: Instant, is_wanted: &dyn Fn() -> bool) -> bool {
    loop {
        if !is_wanted() {
            return false;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(NAP));
    }
}

/// The processor time that a look has taken.
struct Cost(Duration);

impl Cost {
    fn begin() -> Cost {
        Cost(own_time())
    }

    fn so_far(&self, worked_by_cores: Duration) -> Duration {
        own_time().saturating_sub(self.0) + worked_by_cores
    }
}

/// The processor time of this thread so far.
fn own_time() -> Duration {
    // Linux has this clock for each thread that asks for its own.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// What is known from the look before.
#[derive(Default)]
struct Top {
    /// Keyed by chance, so that no sender can have two flows be one.
    hasher: RandomState,
    before: HashMap<u64, Counted>,
    /// Whether there was a look.
    has_looked: bool,
    /// When it began, in the run's seconds.
    began: f64,
}

/// What a flow had counted at a time.
#[derive(Clone, Copy)]
struct Counted {
    hash: u64,
    packets: u64,
    bytes: u64,
    seconds: f64,
}

/// A look at all flows.
#[derive(Default)]
struct Look {
    seen: u64,
    began: Option<f64>,
    now: Vec<Counted>,
    fastest: Vec<FlowView>,
}

impl Look {
    fn take(&mut self, top: &mut Top, flows: Vec<Flow>, seconds: f64) {
        self.began.get_or_insert(seconds);
        for Flow { function, key, core, packets, bytes } in flows {
            self.seen += 1;
            let hash = top.hasher.hash_one((&function, &key));
            let before = top.before.get(&hash);
            // A flow that ended and began anew has counted less than before; all of it is new.
            let before = before.filter(|before| before.packets <= packets);
            let since = before.map_or(top.began, |before| before.seconds);
            let (known_packets, known_bytes) = before.map_or((0, 0), |before| (before.packets, before.bytes));
            let time = top.has_looked.then_some(seconds - since).filter(|time| *time > 0.0);
            let per_s = |now: u64, before: u64| time.map(|time| now.saturating_sub(before) as f64 / time);
            self.fastest.push(FlowView {
                packets_per_s: per_s(packets, known_packets).map(tenths),
                bits_per_s: bytes
                    .and_then(|bytes| per_s(bytes, known_bytes))
                    .map(|per_s| tenths(8.0 * per_s)),
                function,
                key,
                core,
                packets,
                bytes,
            });
            self.now.push(Counted { hash, packets, bytes: bytes.unwrap_or(0), seconds });
        }
        if self.fastest.len() >= 32 * SHOWN {
            keep_fastest(&mut self.fastest);
        }
        if self.now.len() >= 2 * FOLLOWED {
            self.keep_largest();
        }
    }

    fn keep_largest(&mut self) {
        if self.now.len() > FOLLOWED {
            self.now.select_nth_unstable_by_key(FOLLOWED, |counted| std::cmp::Reverse(counted.packets));
            self.now.truncate(FOLLOWED);
        }
    }

    /// The fastest, and whether they are those of a time between two looks.
    fn end(mut self, top: &mut Top) -> (Vec<FlowView>, bool) {
        let had_looked = top.has_looked;
        keep_fastest(&mut self.fastest);
        self.keep_largest();
        top.before = self.now.into_iter().map(|counted| (counted.hash, counted)).collect();
        if let Some(began) = self.began {
            (top.began, top.has_looked) = (began, true);
        }
        (self.fastest, had_looked)
    }
}

/// By packets in a second, then in all.
fn by_packets(flow: &FlowView) -> (f64, u64) {
    (flow.packets_per_s.unwrap_or(0.0), flow.packets)
}

/// By bits in a second, then bytes in all.
fn by_bytes(flow: &FlowView) -> (f64, u64) {
    (flow.bits_per_s.unwrap_or(0.0), flow.bytes.unwrap_or(0))
}

/// Keeps the first ones by packets and the first ones by bytes, in the order of packets.
fn keep_fastest(flows: &mut Vec<FlowView>) {
    let sort = |flows: &mut [FlowView], of: fn(&FlowView) -> (f64, u64)| {
        flows.sort_by(|a, b| {
            let ((a_rate, a_all), (b_rate, b_all)) = (of(a), of(b));
            b_rate.total_cmp(&a_rate).then(b_all.cmp(&a_all)).then_with(|| a.key.cmp(&b.key))
        });
    };
    if flows.len() > SHOWN {
        sort(flows, by_packets);
        let mut rest = flows.split_off(SHOWN);
        sort(&mut rest, by_bytes);
        rest.truncate(SHOWN);
        flows.append(&mut rest);
    }
    sort(flows, by_packets);
}

#[cfg(test)]
mod tests;
