//! What the figures of a comparison say, in whole sentences. No sentence is printed that the figures beside it contradict:
//! each is a value that can be held against a table, and tests draw tables at random.

use std::fmt;

use crate::comparison::{Clock, Comparison, Point, SequencerLoad};
use crate::disturbance::{self, decimal, range};

/// Rates closer than this are alike: a search's width and the noise.
const ALIKE: f64 = 0.03;

/// A core's share of the packets of a trial may be this much below that of the whole trace: trials end in the middle of it.
const TRIAL_SHARE: f64 = 0.005;

/// One sentence about a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// Packets that sharding has on one core at a time, however many there are.
    Unsplittable {
        /// What they have in common: `connection`, `entry of the indirection table`.
        what: String,
        /// Their share of the trace, 0 to 1.
        share: f64,
    },
    /// The most that sharding reaches if no packet costs more than another: an estimate.
    EndOfSharding {
        /// Over the rate of one core.
        times: f64,
        /// Share of the packets that may be lost, 0 to 1.
        loss_limit: f64,
    },
    /// The strategy with the highest rate on so many cores of one clock.
    Fastest {
        /// Where.
        place: Place,
        /// Who.
        best: Rate,
        /// Whether others were measured there.
        has_others: bool,
        /// Over `single`, on the same clock.
        over_single: Option<f64>,
        /// Over `rss` on as many cores of the same clock.
        over_rss: Option<f64>,
    },
    /// The highest rate on so many cores of one clock, and those which searches cannot tell from it. Two at least, the
    /// highest first.
    Alike {
        /// Where.
        place: Place,
        /// Who.
        rates: Vec<Rate>,
    },
    /// The sequencer had no time left: another core behind it does not help.
    SequencerBounds {
        /// Where.
        place: Place,
        /// Who.
        rate: Rate,
        /// Its time for a packet, ns.
        packet_ns: f64,
        /// Share of the time in which it worked, 0 to 1.
        busy: f64,
        /// Share of the time in which the busiest core behind it worked, 0 to 1.
        busiest_core: f64,
    },
    /// A rate that is not to be relied on, and is in no other finding.
    Disturbed {
        /// Where.
        place: Place,
        /// Which.
        rate: Rate,
        /// Why.
        note: String,
    },
    /// All cores are virtual.
    AllVirtual,
    /// Some cores are virtual and some are not.
    TwoClocks,
}

/// A number of cores of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// How many.
    pub cores: usize,
    /// Whose time it is.
    pub clock: Clock,
}

/// A strategy's rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// The strategy's name.
    pub strategy: String,
    /// Million packets per second.
    pub mpps: f64,
}

/// Draws notes and findings anew from the figures: those of a saved comparison may be of an older version, or changed by
/// hand.
pub fn draw_conclusions(comparison: &mut Comparison) {
    for point in comparison.series.iter_mut().flat_map(|series| &mut series.points) {
        point.notes = disturbance::notes(point);
    }
    comparison.findings = findings(comparison).iter().map(ToString::to_string).collect();
}

/// In order of weight; none where nothing was measured.
pub fn findings(comparison: &Comparison) -> Vec<Finding> {
    let mut findings = sharding(comparison);
    let mut places: Vec<Place> = comparison.points().map(|(_, point)| Place::of(point)).collect();
    places.sort_unstable_by_key(|place| (place.cores, place.clock == Clock::Virtual));
    places.dedup();
    findings
        .extend(places.iter().filter(|place| place.cores > 1).filter_map(|place| best(comparison, *place)));
    findings.extend(comparison.points().filter_map(|(name, point)| sequencer(name, point)));
    findings.extend(clocks(comparison));
    let disturbed = |(name, point): (&str, &Point)| {
        let (place, rate) = (Place::of(point), Rate::of(name, point));
        let of = move |note: &String| Finding::Disturbed { place, rate: rate.clone(), note: note.clone() };
        point.notes.iter().map(of).collect::<Vec<_>>()
    };
    findings.extend(comparison.points().flat_map(disturbed));
    findings
}

impl Place {
    fn of(point: &Point) -> Place {
        Place { cores: point.cores, clock: point.clock }
    }
}

impl Rate {
    fn of(strategy: &str, point: &Point) -> Rate {
        Rate { strategy: strategy.to_owned(), mpps: point.mpps }
    }
}

fn is_sharding(strategy: &str) -> bool {
    matches!(strategy, "rss" | "rsspp")
}

/// Points that nothing disturbed.
fn reliable(comparison: &Comparison, place: Place) -> impl Iterator<Item = (&str, &Point)> {
    comparison.points().filter(move |(_, point)| Place::of(point) == place && point.notes.is_empty())
}

/// What keeps sharding from gaining by all cores, if anything does, and how much it may gain.
fn sharding(comparison: &Comparison) -> Vec<Finding> {
    let sharded = comparison.points().filter(|(name, _)| is_sharding(name));
    let Some(most_cores) = sharded.map(|(_, point)| point.cores).max() else { return Vec::new() };
    let (trace, even) = (&comparison.trace, 1.0 / most_cores as f64);
    let key = trace.top_key.as_ref().map(|key| (key.what.clone(), key.share));
    let entry = Some(("entry of the indirection table".to_owned(), trace.top_entry_share));
    let heaviest = key.filter(|(_, share)| *share > even).or(entry).filter(|(_, share)| *share > even);
    let Some((what, share)) = heaviest else { return Vec::new() };
    let loss_limit = comparison.loss_limit;
    // All that may be lost is lost on the core with the heaviest, and evenly on one core.
    let times = (1.0 - loss_limit) / (share - loss_limit);
    let mut findings = vec![Finding::Unsplittable { what, share }];
    if share > loss_limit && times < most_cores as f64 {
        findings.push(Finding::EndOfSharding { times, loss_limit });
    }
    // Trials may see another part of the trace than its whole, and packets do not all cost the same.
    findings.retain(|finding| !finding.contradicted_by(comparison));
    findings
}

/// The fastest strategy there, and its rate beside those of strategies that everyone knows.
fn best(comparison: &Comparison, place: Place) -> Option<Finding> {
    let mut there: Vec<_> = reliable(comparison, place).collect();
    there.sort_by(|(_, a), (_, b)| b.mpps.total_cmp(&a.mpps));
    let ((name, best), others) = there.split_first()?;
    let alike: Vec<_> = others.iter().filter(|(_, point)| are_alike(best, point)).collect();
    if !alike.is_empty() {
        let others = alike.into_iter().map(|(name, point)| Rate::of(name, point));
        return Some(Finding::Alike {
            place,
            rates: [Rate::of(name, best)].into_iter().chain(others).collect(),
        });
    }
    let is_reliable = |name: &str, cores| {
        let place = Place { cores, ..place };
        reliable(comparison, place).any(|(other, _)| other == name)
    };
    Some(Finding::Fastest {
        place,
        best: Rate::of(name, best),
        has_others: !others.is_empty(),
        over_single: comparison.over_single(best).filter(|_| is_reliable("single", 1)),
        over_rss: comparison.over_rss(best).filter(|_| *name != "rss" && is_reliable("rss", place.cores)),
    })
}

/// Whether searches cannot tell two points apart: their medians are close, or what they found overlaps.
fn are_alike(a: &Point, b: &Point) -> bool {
    let span = |point: &Point| range(&point.found_mpps).unwrap_or((point.mpps, point.mpps));
    let ((a_least, a_most), (b_least, b_most)) = (span(a), span(b));
    let is_close = a.mpps.min(b.mpps) >= a.mpps.max(b.mpps) * (1.0 - ALIKE);
    is_close || (a_least <= b_most && b_least <= a_most)
}

/// Whether the core in front is what bounds a rate.
fn sequencer(strategy: &str, point: &Point) -> Option<Finding> {
    let sequencer = point.sequencer?;
    let busiest_core = point.loads.iter().map(|load| load.busy).reduce(f64::max)?;
    let SequencerLoad { busy, packet_ns, .. } = sequencer;
    let (place, rate) = (Place::of(point), Rate::of(strategy, point));
    let bounds = point.is_bound_by_sequencer() && point.notes.is_empty();
    bounds.then_some(Finding::SequencerBounds { place, rate, packet_ns, busy, busiest_core })
}

fn clocks(comparison: &Comparison) -> Option<Finding> {
    let has = |clock| comparison.points().any(|(_, point)| point.clock == clock);
    match (has(Clock::Measured), has(Clock::Virtual)) {
        (false, true) => Some(Finding::AllVirtual),
        (true, true) => Some(Finding::TwoClocks),
        (_, false) => None,
    }
}

impl Finding {
    /// Whether figures of the comparison say otherwise, as they are printed.
    pub fn contradicted_by(&self, comparison: &Comparison) -> bool {
        let has = |place: &Place, rate: &Rate, is: fn(&Point) -> bool| {
            comparison.points().any(|(name, point)| {
                (name, Place::of(point), point.mpps) == (&rate.strategy, *place, rate.mpps) && is(point)
            })
        };
        let is_reliable = |point: &Point| point.notes.is_empty();
        let has_clock = |clock| comparison.points().any(|(_, point)| point.clock == clock);
        match self {
            Finding::Unsplittable { share, .. } => comparison.points().any(|(name, point)| {
                let busiest = point.loads.iter().map(|load| load.share).reduce(f64::max);
                name == "rss" && busiest.is_some_and(|busiest| busiest < share - TRIAL_SHARE)
            }),
            Finding::EndOfSharding { times, .. } => comparison.points().any(|(name, point)| {
                let own = comparison.points().find(|(other, one)| {
                    *other == name && (one.cores, one.clock) == (1, point.clock) && one.mpps > 0.0
                });
                let over_own = own.map(|(_, one)| point.mpps / one.mpps);
                let ratios = [comparison.over_single(point), over_own];
                is_sharding(name) && ratios.iter().flatten().any(|ratio| ratio > times)
            }),
            Finding::Fastest { place, best, has_others, over_single, over_rss } => {
                let others = || reliable(comparison, *place).filter(|(name, _)| *name != best.strategy);
                let point = reliable(comparison, *place).find(|(name, _)| *name == best.strategy);
                let is_other =
                    |claimed: &Option<f64>, found: Option<f64>| claimed.is_some() && *claimed != found;
                !has(place, best, is_reliable)
                    || others().any(|(_, point)| point.mpps > best.mpps)
                    || *has_others != others().next().is_some()
                    || point.is_none_or(|(_, point)| {
                        is_other(over_single, comparison.over_single(point))
                            || is_other(over_rss, comparison.over_rss(point))
                            || others().any(|(_, other)| are_alike(point, other))
                    })
            }
            Finding::Alike { place, rates } => {
                let of = |rate: &Rate| {
                    let mut there = reliable(comparison, *place);
                    there.find(|(name, _)| *name == rate.strategy).map(|(_, point)| point)
                };
                let Some(first) = rates.first().and_then(of) else { return true };
                !rates.iter().all(|rate| has(place, rate, is_reliable))
                    || !rates.iter().filter_map(of).all(|other| are_alike(first, other))
                    || reliable(comparison, *place).any(|(_, point)| point.mpps > first.mpps)
            }
            Finding::SequencerBounds { place, rate, .. } => {
                let is_found = |(name, point): (&str, &Point)| {
                    Place::of(point) == *place && sequencer(name, point).as_ref() == Some(self)
                };
                !has(place, rate, is_reliable) || !comparison.points().any(is_found)
            }
            Finding::Disturbed { place, rate, .. } => !has(place, rate, |point| !point.notes.is_empty()),
            Finding::AllVirtual => has_clock(Clock::Measured) || !has_clock(Clock::Virtual),
            Finding::TwoClocks => !has_clock(Clock::Measured) || !has_clock(Clock::Virtual),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Unsplittable { what, share } => {
                let percent = share * 100.0;
                write!(f, "One {what} carries {percent:.0}% of the packets, which sharding has on one core at a time.")
            }
            Finding::EndOfSharding { times, loss_limit } => {
                let times = decimal(*times);
                write!(f, "If all packets cost the same, sharding ends at {times} times one core")?;
                match *loss_limit > 0.0 {
                    true => write!(f, ", losses of {}% included.", decimal(loss_limit * 100.0)),
                    false => write!(f, "."),
                }
            }
            Finding::Fastest { place, best: Rate { strategy, mpps }, has_others, over_single, over_rss } => {
                let verb = if *has_others { "is the fastest, with" } else { "reaches" };
                write!(f, "On {place} `{strategy}` {verb} {} Mpps", decimal(*mpps))?;
                let ratios = [("single", over_single), ("rss", over_rss)];
                let ratios = ratios.into_iter().filter_map(|(name, ratio)| Some((name, (*ratio)?)));
                for (at, (name, ratio)) in ratios.enumerate() {
                    write!(f, "{} {} times `{name}`", if at == 0 { ":" } else { "," }, decimal(ratio))?;
                }
                f.write_str(".")
            }
            Finding::Alike { place, rates } => {
                let rate = |rate: &Rate| format!("`{}` ({} Mpps)", rate.strategy, decimal(rate.mpps));
                let rates: Vec<String> = rates.iter().map(rate).collect();
                let (first, others) = rates.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
                write!(f, "On {place} the searches do not tell {first} from {}.", others.join(" and "))
            }
            Finding::Disturbed { place, rate, note } => {
                let Rate { strategy, mpps } = rate;
                write!(f, "Do not rely on `{strategy}` on {place}, {} Mpps: {note}.", decimal(*mpps))
            }
            Finding::SequencerBounds { place, rate, packet_ns, busy, busiest_core } => {
                let [busy, core] = [busy, busiest_core].map(|share| share * 100.0);
                write!(
                    f,
                    "The sequencer bounds `{}` on {place}, {} Mpps: it takes {} ns for each packet and worked for {busy:.0}% \
                     of the time, the busiest core behind it for {core:.0}%.",
                    rate.strategy,
                    decimal(rate.mpps),
                    decimal(*packet_ns)
                )
            }
            Finding::AllVirtual => {
                f.write_str("All cores are virtual: they do not compete for caches and memory, and real ones do.")
            }
            Finding::TwoClocks => f.write_str(
                "Virtual cores do not compete for caches and memory, and real ones do: their rates are not compared \
                 with each other.",
            ),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, plural) = match self.clock {
            Clock::Measured => ("core", if self.cores == 1 { "" } else { "s" }),
            Clock::Virtual => ("virtual core", if self.cores == 1 { "" } else { "s" }),
        };
        write!(f, "{} {what}{plural}", self.cores)
    }
}

#[cfg(test)]
mod tests;
