//! Which strategy to use, on how many cores, and why, in whole sentences: figures in, words out.

use crate::disturbance::spread_note;
use crate::forecast::{Advice, Fastest, Forecast, ForecastPoint};
use control::Costs;

/// Rates closer than this, a share of the higher, are alike; and a core that adds less to `scr` is of no use there.
const ALIKE: f64 = 0.05;

/// A core is worth having that adds this much of what one does alone.
const WORTH: f64 = 0.2;

/// Predictions further off than this, a share of what was measured, are not to be relied on.
const DOUBTFUL: f64 = 0.1;

type Rate = fn(&ForecastPoint) -> Option<f64>;

/// The strategies on several cores that tables have a column for, the plainest first; after them [`Forecast::beyond`].
const RATES: [(&str, Rate); 3] =
    [("rss", |point| point.rss_mpps), ("rsspp", |point| point.rsspp_mpps), ("scr", |point| point.scr_mpps)];

/// What one strategy does on the cores that are worth having under it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Advised<'a> {
    strategy: &'a str,
    cores: usize,
    mpps: f64,
}

/// In order: what to use and why, who is ahead where, what bounds `scr`, how far to trust all this.
pub(crate) fn advise(forecast: &Forecast) -> Advice {
    let choice = choose(forecast);
    let fastest = fastest(forecast);
    let mut sentences = vec![headline(forecast, choice)];
    sentences.extend(fastest.as_ref().map(|fastest| fastest_of_all(forecast, fastest)));
    sentences.extend(exactness(forecast));
    sentences.extend(sharding(forecast));
    sentences.extend(duel(forecast));
    sentences.extend(levelling(forecast));
    sentences.extend(caches(forecast));
    sentences.extend(history(forecast));
    let caveats: Vec<String> = trust(forecast).into_iter().chain(unsteady(forecast)).collect();
    sentences.extend_from_slice(&caveats);
    Advice {
        reason: reason(forecast, choice),
        caveats,
        strategy: choice.strategy.to_owned(),
        cores: choice.cores,
        mpps: choice.mpps,
        fastest,
        sentences,
    }
}

/// On the most cores asked about; of rates alike to the last digit shown the plainest strategy's.
fn fastest(forecast: &Forecast) -> Option<Fastest> {
    let point = forecast.points.last().filter(|point| point.cores > 1)?;
    let rates = RATES.iter().filter_map(|(strategy, rate)| Some((*strategy, rate(point)?)));
    let beyond = forecast.beyond().into_iter();
    let beyond = beyond.filter_map(|strategy| Some((strategy, forecast.rate(strategy, point.cores)?)));
    let rates = rates.chain(beyond);
    let (strategy, mpps) =
        rates.reduce(|best, next| if shown(next.1) > shown(best.1) { next } else { best })?;
    Some(Fastest { strategy: strategy.to_owned(), cores: point.cores, mpps })
}

/// A rate as tables show it, in tenths.
fn shown(mpps: f64) -> f64 {
    (mpps * 10.0).round()
}

fn fastest_of_all(forecast: &Forecast, Fastest { strategy, cores, mpps }: &Fastest) -> String {
    let is_exact = strategy == "scr" || forecast.beyond().contains(&strategy.as_str());
    let but = match !is_exact && !forecast.shared.is_empty() {
        true => ", whose answers are not those of one core",
        false => "",
    };
    format!("Fastest on {cores} cores: `{strategy}`, {mpps:.1} Mpps predicted{but}.")
}

/// The highest rate; of those alike the one with the fewest cores, then the plainest. Strategies under which a chain's
/// answers are not those of one core are not chosen.
fn choose(forecast: &Forecast) -> Advised<'_> {
    let one = forecast.costs.single_mpps();
    let mut choices = vec![Advised { strategy: "single", cores: 1, mpps: one }];
    for (strategy, rate) in RATES {
        if strategy == "scr" || forecast.shared.is_empty() {
            let rates = forecast.points.iter().map_while(|point| Some((point.cores, rate(point)?)));
            choices.extend(worth(forecast, rates.collect()).map(|(cores, mpps)| Advised {
                strategy,
                cores,
                mpps,
            }));
        }
    }
    for strategy in forecast.beyond() {
        let rate = |point: &ForecastPoint| match point.cores {
            1 => Some(one),
            cores => forecast.rate(strategy, cores),
        };
        let rates = forecast.points.iter().map_while(|point| Some((point.cores, rate(point)?)));
        choices.extend(worth(forecast, rates.collect()).map(|(cores, mpps)| Advised {
            strategy,
            cores,
            mpps,
        }));
    }
    let most = choices.iter().map(|choice| choice.mpps).fold(one, f64::max);
    let alike = choices.into_iter().filter(|choice| choice.mpps >= most * (1.0 - ALIKE));
    alike.min_by_key(|choice| choice.cores).unwrap_or(Advised { strategy: "single", cores: 1, mpps: one })
}

/// The fewest cores to which no more add [`WORTH`] each, and the rate there; `None` where that is one, or none.
fn worth(forecast: &Forecast, rates: Vec<(usize, f64)>) -> Option<(usize, f64)> {
    let least = WORTH * forecast.costs.single_mpps();
    let is_enough = |(cores, mpps): &(usize, f64)| {
        rates.iter().all(|(others, most)| others <= cores || most - mpps < (others - cores) as f64 * least)
    };
    rates.iter().copied().find(is_enough).filter(|(cores, _)| *cores > 1)
}

fn headline(forecast: &Forecast, choice: Advised<'_>) -> String {
    let Advised { strategy, cores, mpps } = choice;
    if cores == 1 {
        let most = forecast.points.last().map_or(1, |point| point.cores);
        return match most {
            1 => format!("One core was asked about: {mpps:.1} Mpps predicted."),
            _ => format!(
                "Stay on one core: {mpps:.1} Mpps predicted. Under every strategy that gives the same answers, each further \
                 core, up to {most}, adds less than a fifth of that."
            ),
        };
    }
    let times = mpps / forecast.costs.single_mpps();
    let mut text =
        format!("Use `{strategy}` on {cores} cores: {mpps:.1} Mpps predicted, {times:.1} times one core");
    let here = forecast.points.iter().find(|point| point.cores == cores);
    let rss = here.and_then(|point| point.rss_mpps).filter(|_| strategy != "rss");
    if let Some(rss) = rss {
        text += &format!(" and {:.1} times `rss` on as many", mpps / rss);
    }
    text + "."
}

/// Why this strategy and no other; nothing where the headline says it.
fn reason(forecast: &Forecast, Advised { strategy, cores, .. }: Advised<'_>) -> Option<String> {
    if cores == 1 {
        return None;
    }
    let is_only = !forecast.refused.is_empty() || !forecast.shared.is_empty();
    match (strategy, busiest_share(forecast, cores)) {
        ("scr" | "scr-turns", _) if is_only => exactness(forecast),
        (_, None) => exactness(forecast),
        ("rss", Some(share)) => Some(format!(
            "the busiest of {cores} cores has {:.0}% of the packets, and no flow has to go from core to core.",
            share * 100.0
        )),
        ("scr" | "scr-turns", Some(_)) => Some(format!(
            "each core has an equal share of the packets, and steps those of the others for {:.1} ns beside {:.1} ns{}.",
            forecast.costs.replay_ns,
            forecast.costs.packet_ns(),
            busiest(forecast, &[cores])
        )),
        (_, Some(_)) => Some(format!(
            "it keeps the cores alike by what goes from loaded ones to others{}.",
            busiest(forecast, &[cores])
        )),
    }
}

/// Where sharding does not give the answers of one core, or cannot run at all.
fn exactness(forecast: &Forecast) -> Option<String> {
    let reason = |strategy: &str| {
        let refused = forecast.refused.iter().find(|refused| refused.strategy == strategy);
        refused.map(|refused| refused.reason.trim_end_matches('.'))
    };
    match (reason("rss"), reason("scr")) {
        (Some(rss), None) if forecast.choices.iter().any(|choice| choice.strategy == "scr-turns") => {
            Some(format!(
                "`scr` and `scr-turns` alone give the answers of one core on several: sharding refuses this chain ({rss})."
            ))
        }
        (Some(rss), None) => Some(format!(
            "`scr` is the only strategy that gives the answers of one core on several: sharding refuses this chain \
             ({rss})."
        )),
        (None, Some(scr)) => Some(format!("`scr` cannot run this chain: {scr}.")),
        (Some(rss), Some(scr)) => Some(format!("Only one core can run this chain: {rss}; {scr}.")),
        (None, None) if !forecast.shared.is_empty() => Some(format!(
            "Under `rss` all cores share the states of `{}`, for which it promises less than the answers of one core \
             and whose locks are not in its prediction; `scr` gives exactly these answers.",
            forecast.shared.join("` and `")
        )),
        (None, None) => None,
    }
}

/// What keeps sharding from gaining by all cores, if anything does.
fn sharding(forecast: &Forecast) -> Option<String> {
    let share = forecast.trace.top_entry_share;
    let most = forecast.points.last().map_or(1, |point| point.cores);
    if forecast.points.iter().all(|point| point.rss_mpps.is_none()) || share * most as f64 <= 1.0 {
        return None;
    }
    let whose = match forecast.trace.top_key.as_ref().filter(|key| key.share > 0.5 * share) {
        Some(key) => format!("One {} carries {:.0}% of the packets", key.what, key.share * 100.0),
        None => format!("One entry of the indirection table carries {:.0}% of the packets", share * 100.0),
    };
    Some(match share > 0.995 {
        true => format!(
            "{whose}, which sharding cannot split: one core has all the work, however many there are."
        ),
        false => format!(
            "{whose}, which sharding cannot split: its prediction ends at {:.1} times one core, {:.1} Mpps, however many \
             there are.",
            1.0 / share,
            forecast.costs.sharded_mpps(share)
        ),
    })
}

/// On which numbers of cores `scr` is ahead of `rss`, and where it loses.
fn duel(forecast: &Forecast) -> Option<String> {
    let both = |point: &ForecastPoint| Some((point.cores, point.scr_mpps?, point.rss_mpps?));
    let duels: Vec<_> = forecast.points.iter().filter(|point| point.cores > 1).filter_map(both).collect();
    let (Some((first, ..)), Some((last, ..))) = (duels.first(), duels.last()) else { return None };
    let cores = |is: fn(f64, f64) -> bool| {
        let chosen = duels.iter().filter(|(_, scr, rss)| is(*scr, *rss)).map(|(cores, ..)| *cores);
        chosen.collect::<Vec<_>>()
    };
    let wins = cores(|scr, rss| scr > rss * (1.0 + ALIKE));
    let loses = cores(|scr, rss| scr < rss * (1.0 - ALIKE));
    let range = if first == last { format!("{first} cores") } else { format!("{first} to {last} cores") };
    let costs = forecast.costs;
    Some(match (wins.is_empty(), loses.is_empty()) {
        (true, true) => format!("`scr` and `rss` are alike on {range}."),
        (false, true) => format!("`scr` is ahead of `rss` or alike on {range}."),
        (true, false) if is_behind_sequencer(forecast, &loses) => format!(
            "`scr` loses to `rss` on {}, where the sequencer passes on {:.1} Mpps at most{}.",
            if loses.len() == duels.len() { format!("all of {range}") } else { ranges(&loses) },
            1e3 / costs.sequencer_ns,
            busiest(forecast, &loses)
        ),
        (true, false) => format!(
            "`scr` loses to `rss` on {}: under `scr` each core spends {:.1} ns on every packet of the others, beside \
             {:.1} ns on its own{}.",
            if loses.len() == duels.len() { format!("all of {range}") } else { ranges(&loses) },
            costs.replay_ns,
            costs.packet_ns(),
            busiest(forecast, &loses)
        ),
        (false, false) => {
            format!("`scr` is ahead of `rss` on {}, and loses to it on {}.", ranges(&wins), ranges(&loses))
        }
    })
}

/// Whether the sequencer bounds `scr` on each of these numbers of cores.
fn is_behind_sequencer(forecast: &Forecast, cores: &[usize]) -> bool {
    let without = Costs { sequencer_ns: 0.0, ..forecast.costs };
    cores.iter().all(|cores| forecast.costs.scr_mpps(*cores) < without.scr_mpps(*cores))
}

/// The share of the packets that makes the rate of `rss` what it is, on the last of these numbers of cores.
fn busiest(forecast: &Forecast, cores: &[usize]) -> String {
    let share = cores.last().and_then(|last| Some((last, busiest_share(forecast, *last)?)));
    share.map_or_else(String::new, |(cores, share)| {
        format!(", and under `rss` the busiest of {cores} cores has {:.0}% of the packets", share * 100.0)
    })
}

/// The busiest core's share of the packets under `rss`, which makes its rate; `None` where it cannot run.
fn busiest_share(forecast: &Forecast, cores: usize) -> Option<f64> {
    let point = forecast.points.iter().find(|point| point.cores == cores)?;
    Some(forecast.costs.single_mpps() / point.rss_mpps?)
}

/// `2 to 5, 7 and 9 to 32 cores`.
fn ranges(cores: &[usize]) -> String {
    let runs = cores.chunk_by(|a, b| a + 1 == *b);
    let text = |run: &[usize]| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first} to {last}"),
        [] => String::new(),
    };
    let mut runs: Vec<String> = runs.map(text).collect();
    let last = runs.pop().unwrap_or_default();
    match runs.is_empty() {
        true => format!("{last} cores"),
        false => format!("{} and {last} cores", runs.join(", ")),
    }
}

/// Where a core more is of no use to `scr`, since all of them step all packets (SCR §3.1, principle 3).
fn levelling(forecast: &Forecast) -> Option<String> {
    let rates: Vec<_> =
        forecast.points.iter().filter_map(|point| Some((point.cores, point.scr_mpps?))).collect();
    let (most, _) = *rates.last()?;
    let costs = &forecast.costs;
    let limit = costs.scr_limit_mpps();
    // Then the rates fall towards the limit, from above it.
    if limit.is_some_and(|limit| rates.iter().any(|(_, mpps)| *mpps > limit)) {
        return Some(format!(
            "No core more is of use to `scr`: another core's packet costs {:.1} ns, no less than one of its own.",
            costs.replay_ns
        ));
    }
    let sequencer = costs.sequencer_mpps().filter(|mpps| limit.is_none_or(|limit| *mpps < limit));
    let (most_mpps, because) = match (sequencer, limit) {
        (Some(mpps), _) => (
            mpps,
            format!(
                "all packets go through the sequencer, one core that takes {:.1} ns for each",
                costs.sequencer_ns
            ),
        ),
        (None, Some(limit)) => (limit, format!("each steps every packet for {:.1} ns", costs.replay_ns)),
        (None, None) => {
            return Some("Replay costs too little to be measured: `scr` gains by every core.".to_owned());
        }
    };
    let mut text = format!("However many cores, `scr` does not pass {most_mpps:.1} Mpps, since {because}");
    let gain = |pair: &[(usize, f64)]| pair[1].1 / pair[0].1 - 1.0;
    let last_worth = rates.windows(2).rposition(|pair| gain(pair) >= ALIKE);
    text += &match (last_worth, rates.windows(2).next_back()) {
        (_, None) => String::new(),
        (None, _) => "; more cores add less than 5% each".to_owned(),
        (Some(at), Some(last)) if at + 2 == rates.len() => {
            format!("; of {most} cores the last still adds {:.0}%", gain(last) * 100.0)
        }
        (Some(at), _) => format!("; from {} on, a core more adds less than 5%", rates[at + 1].0),
    };
    Some(text + ".")
}

/// Where the copies of the state fall out of the cache.
fn caches(forecast: &Forecast) -> Option<String> {
    let cache_bytes = forecast.cache_bytes.filter(|bytes| *bytes > 0)?;
    let replicated = || forecast.points.iter().filter(|point| point.scr_mpps.is_some() && point.cores > 1);
    let last = replicated().next_back()?;
    Some(match replicated().find(|point| point.replica_bytes > cache_bytes) {
        Some(point) => format!(
            "From {} cores on the copies of the state, {} each at most, outgrow the last-level cache of {}: replay \
             may then cost more than was measured.",
            point.cores,
            binary(forecast.state_bytes),
            binary(cache_bytes)
        ),
        None => format!(
            "The copies of the state stay within the last-level cache: {} of {} on {} cores at most.",
            binary(last.replica_bytes),
            binary(cache_bytes),
            last.cores
        ),
    })
}

/// Where a packet's history is longer than the packet.
fn history(forecast: &Forecast) -> Option<String> {
    let replicated = |point: &&ForecastPoint| point.scr_mpps.is_some() && point.cores > 1;
    let mean_bytes = forecast.trace.mean_bytes;
    let longer = |point: &&ForecastPoint| point.history_bytes as f64 > mean_bytes;
    let point = forecast.points.iter().filter(replicated).find(longer)?;
    Some(format!(
        "From {} cores on a packet's history, {} bytes there, is longer than the mean packet of {mean_bytes:.0} bytes: a \
         link or PCIe may end `scr` sooner where the sequencer is outside of this machine.",
        point.cores, point.history_bytes
    ))
}

/// Where the model was seen to be off, or was not seen at all.
fn trust(forecast: &Forecast) -> Option<String> {
    let last = forecast.checks.iter().map(|check| check.cores).max().filter(|cores| *cores > 1)?;
    let off = |check: &crate::Check| check.predicted_mpps / check.measured_mpps - 1.0;
    let worst = forecast.checks.iter().max_by(|a, b| off(a).abs().total_cmp(&off(b).abs()))?;
    let most = forecast.points.last().map_or(1, |point| point.cores);
    let mut text = format!(
        "Under `scr` up to {last} virtual cores were measured, and the prediction is off by {:.1}% at most, on {}",
        off(worst).abs() * 100.0,
        cores_of(worst.cores)
    );
    if off(worst).abs() > DOUBTFUL {
        text += ": measure again on a quiet machine, with more --rounds";
    } else if most > last {
        text += "; beyond that it is extrapolated";
    }
    Some(text + ".")
}

/// Whether rounds of the same measurement were so far apart that the system must have disturbed them.
fn unsteady(forecast: &Forecast) -> Option<String> {
    let note = |time: &crate::CoreTime| {
        let what = format!("rounds on {} took", cores_of(time.cores));
        spread_note(&what, &[time.ns.lowest, time.ns.median, time.ns.highest], "ns for a packet")
    };
    let notes: Vec<String> = forecast.measured.packet_ns.iter().filter_map(note).collect();
    let all = notes.join(", ");
    (!notes.is_empty())
        .then(|| format!("Rely on the rates no further than on what they are predicted from: {all}."))
}

fn cores_of(cores: usize) -> String {
    format!("{cores} {}", if cores == 1 { "core" } else { "cores" })
}

/// `1.5 MiB`.
fn binary(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes.div_ceil(1 << 10)),
        _ => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    }
}

#[cfg(test)]
mod tests;
