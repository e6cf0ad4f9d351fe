//! Tests of the advice on strategies and cores, with forecasts by hand.

use proptest::prelude::*;

use super::*;
use crate::forecast::RefusedStrategy;
use crate::{Check, CoreTime, Costs, MeasuredCosts, Spread, TopKey, TraceSummary};

/// The paper's port-knocking firewall (Table 4): t 128 ns, 7.8 Mpps on one core.
const FIREWALL: Costs =
    Costs { dispatch_ns: 101.0, compute_ns: 27.0, replay_ns: 15.0, carry_ns: 0.0, sequencer_ns: 0.0 };

/// The firewall where dispatch costs little: t 40 ns.
const CHEAP_DISPATCH: Costs =
    Costs { dispatch_ns: 13.0, compute_ns: 27.0, replay_ns: 15.0, carry_ns: 0.0, sequencer_ns: 0.0 };

/// A trace whose busiest of k cores has so much of it, under `rss` and `rsspp`, and whose heaviest entry has
/// `heaviest`.
fn forecast(costs: Costs, max_cores: usize, heaviest: f64, shares: impl Fn(usize) -> (f64, f64)) -> Forecast {
    let point = |cores| ForecastPoint {
        cores,
        scr_mpps: Some(costs.scr_mpps(cores)),
        rss_mpps: Some(costs.sharded_mpps(shares(cores).0)),
        rsspp_mpps: Some(costs.sharded_mpps(shares(cores).1)),
        history_bytes: if cores > 1 { 40 + 29 * (cores - 1) } else { 0 },
        replica_bytes: cores as u64 * (3 << 20),
    };
    let spread = |ns| Spread { median: ns, lowest: ns, highest: ns };
    let measured = MeasuredCosts {
        costs,
        dispatch_ns: spread(costs.dispatch_ns),
        compute_ns: spread(costs.compute_ns),
        replay_ns: Some(spread(costs.replay_ns)),
        carry_ns: Some(spread(costs.carry_ns)),
        sequencer_ns: Some(spread(costs.sequencer_ns)),
        packet_ns: vec![CoreTime {
            cores: 1,
            is_fitted: true,
            ns: spread(costs.packet_ns()),
            sequencer_ns: None,
        }],
    };
    let check = |cores| Check {
        cores,
        is_fitted: true,
        predicted_mpps: costs.scr_mpps(cores),
        measured_mpps: costs.scr_mpps(cores) * if cores == 4 { 0.98 } else { 1.0 },
    };
    Forecast {
        paceline: String::new(),
        command: String::new(),
        machine: String::new(),
        chain: "knock".to_owned(),
        functions: vec!["port-knock".to_owned()],
        trace: TraceSummary {
            source: String::new(),
            packets: 1_000,
            flows: 10,
            mean_bytes: 300.0,
            top1_share: heaviest * 0.9,
            top10_share: heaviest,
            top_entry_share: heaviest,
            top_key: Some(TopKey { what: "connection".to_owned(), share: heaviest * 0.9 }),
            digest: String::new(),
        },
        measured,
        added_dispatch_ns: 0.0,
        costs,
        item_bytes: 29,
        state_bytes: 3 << 20,
        cache_bytes: Some(64 << 20),
        refused: Vec::new(),
        shared: Vec::new(),
        points: (1..=max_cores).map(point).collect(),
        checks: [1, 2, 4, 7].map(check).into(),
        auto: None,
        choices: Vec::new(),
        advice: Advice::default(),
    }
}

/// All on one core.
fn one_flow(costs: Costs, max_cores: usize) -> Forecast {
    let mut forecast = forecast(costs, max_cores, 1.0, |_| (1.0, 1.0));
    forecast.trace.top_key = Some(TopKey { what: "connection".to_owned(), share: 1.0 });
    forecast
}

/// As even as can be, but for a tenth more under `rss`.
fn many_flows(costs: Costs, max_cores: usize) -> Forecast {
    let even = |cores: usize| 1.0 / cores as f64;
    forecast(costs, max_cores, 0.01, |cores| ((1.1 * even(cores)).min(1.0), even(cores)))
}

fn refuse(forecast: &mut Forecast, strategy: &str, reason: &str) {
    forecast.refused.push(RefusedStrategy { strategy: strategy.to_owned(), reason: reason.to_owned() });
    for point in &mut forecast.points {
        match strategy {
            "rss" => point.rss_mpps = None,
            "rsspp" => point.rsspp_mpps = None,
            _ => point.scr_mpps = None,
        }
    }
}

/// 1000 k / (113 + 15 k): 10 cores give 38.02 and 11 39.57, which is 1.55 more, just less than a fifth of 7.81.
#[test]
fn one_flow_is_replicated() {
    let advice = advise(&one_flow(FIREWALL, 32));
    assert_eq!((advice.strategy.as_str(), advice.cores), ("scr", 10));
    assert!((advice.mpps - 10_000.0 / 263.0).abs() < 1e-9);
    let expected = [
        "Use `scr` on 10 cores: 38.0 Mpps predicted, 4.9 times one core and 4.9 times `rss` on as many.",
        "Fastest on 32 cores: `scr`, 54.0 Mpps predicted.",
        "One connection carries 100% of the packets, which sharding cannot split: one core has all the work, however many \
         there are.",
        "`scr` is ahead of `rss` or alike on 2 to 32 cores.",
        "However many cores, `scr` does not pass 66.7 Mpps, since each steps every packet for 15.0 ns; from 9 on, a core \
         more adds less than 5%.",
        "From 22 cores on the copies of the state, 3.0 MiB each at most, outgrow the last-level cache of 64.0 MiB: \
         replay may then cost more than was measured.",
        "From 10 cores on a packet's history, 301 bytes there, is longer than the mean packet of 300 bytes: a link or \
         PCIe may end `scr` sooner where the sequencer is outside of this machine.",
        "Under `scr` up to 7 virtual cores were measured, and the prediction is off by 2.0% at most, on 4 cores; beyond \
         that it is extrapolated.",
    ];
    assert_eq!(advice.sentences, expected);
}

#[test]
fn many_small_flows_are_sharded_and_replication_loses() {
    let advice = advise(&many_flows(CHEAP_DISPATCH, 8));
    assert_eq!((advice.strategy.as_str(), advice.cores), ("rsspp", 8));
    let [headline, fastest, duel, ..] = advice.sentences.as_slice() else { panic!("{advice:?}") };
    assert_eq!(
        headline,
        "Use `rsspp` on 8 cores: 200.0 Mpps predicted, 8.0 times one core and 1.1 times `rss` on as many."
    );
    assert_eq!(fastest, "Fastest on 8 cores: `rsspp`, 200.0 Mpps predicted.");
    assert_eq!(
        duel,
        "`scr` loses to `rss` on all of 2 to 8 cores: under `scr` each core spends 15.0 ns on every packet of the \
         others, beside 40.0 ns on its own, and under `rss` the busiest of 8 cores has 14% of the packets."
    );
}

/// Alike, and on as many cores: the plainest is enough.
#[test]
fn balancing_that_gains_nothing_is_not_advised() {
    let even = |cores: usize| (1.0 / cores as f64, 1.0 / cores as f64);
    let advice = advise(&forecast(FIREWALL, 4, 0.01, even));
    assert_eq!((advice.strategy.as_str(), advice.cores), ("rss", 4));
}

/// The heaviest entry has 40%: `scr` passes 2.5 times one core with the third, and sharding never does. With cheap
/// dispatch it does not pass it within 4: 4000 / (40 + 45) = 47.1, 62.5 at 0.4.
#[test]
fn an_elephant_decides_by_the_price_of_dispatch() {
    let elephant = |cores: usize| {
        let share = (1.0 / cores as f64).max(0.4);
        ((share * 1.2).min(1.0), share)
    };
    let dear = advise(&forecast(FIREWALL, 8, 0.4, elephant));
    assert_eq!((dear.strategy.as_str(), dear.cores), ("scr", 8));
    assert_eq!(
        dear.sentences[2],
        "One connection carries 36% of the packets, which sharding cannot split: its prediction ends at 2.5 times one \
         core, 19.5 Mpps, however many there are."
    );
    let cheap = advise(&forecast(CHEAP_DISPATCH, 4, 0.4, elephant));
    assert_eq!((cheap.strategy.as_str(), cheap.cores), ("rsspp", 3));
    assert!((cheap.mpps - 62.5).abs() < 1e-9);
}

#[test]
fn who_is_ahead_where() {
    // 8.7 and then 78 Mpps under `rss`; under `scr` 14.0 on 2 cores and 34.3 on 8.
    let late = |cores: usize| if cores < 6 { (0.9, 0.9) } else { (0.1, 0.1) };
    let advice = advise(&forecast(FIREWALL, 8, 0.1, late));
    assert!(
        advice.sentences.contains(
            &"`scr` is ahead of `rss` on 2 to 5 cores, and loses to it on 6 to 8 cores.".to_owned()
        ),
        "{advice:?}"
    );
    assert_eq!(ranges(&[2, 3, 4, 7, 9, 10]), "2 to 4, 7 and 9 to 10 cores");
    assert_eq!(ranges(&[2]), "2 cores");
}

#[test]
fn chains_that_cannot_be_sharded_have_scr_alone() {
    let mut forecast = many_flows(FIREWALL, 7);
    ["rss", "rsspp"]
        .iter()
        .for_each(|strategy| refuse(&mut forecast, strategy, "no hash serves `a` and `b`."));
    let advice = advise(&forecast);
    assert_eq!((advice.strategy.as_str(), advice.cores), ("scr", 7));
    assert_eq!(
        advice.sentences[..3],
        [
            "Use `scr` on 7 cores: 32.1 Mpps predicted, 4.1 times one core.",
            "Fastest on 7 cores: `scr`, 32.1 Mpps predicted.",
            "`scr` is the only strategy that gives the answers of one core on several: sharding refuses this chain (no \
             hash serves `a` and `b`)."
        ]
    );
}

/// Where sharding has cores share states it is not advised, however fast.
#[test]
fn shared_states_are_not_the_answers_of_one_core() {
    let mut forecast = many_flows(CHEAP_DISPATCH, 7);
    forecast.shared = vec!["source-statistics".to_owned(), "destination-policer".to_owned()];
    let advice = advise(&forecast);
    assert_eq!(advice.strategy, "scr");
    assert!(
        advice.sentences[1].ends_with("predicted, whose answers are not those of one core."),
        "{advice:?}"
    );
    assert_eq!(
        advice.sentences[2],
        "Under `rss` all cores share the states of `source-statistics` and `destination-policer`, for which it promises \
         less than the answers of one core and whose locks are not in its prediction; `scr` gives exactly these \
         answers."
    );
}

#[test]
fn chains_that_cannot_be_replicated_are_sharded() {
    let mut forecast = many_flows(FIREWALL, 4);
    refuse(&mut forecast, "scr", "`scanner` looks into payloads");
    forecast.checks.truncate(1);
    let advice = advise(&forecast);
    assert_eq!(advice.strategy, "rsspp");
    assert_eq!(advice.sentences[2..], ["`scr` cannot run this chain: `scanner` looks into payloads."]);
    ["rss", "rsspp"].iter().for_each(|strategy| refuse(&mut forecast, strategy, "no hash"));
    let advice = advise(&forecast);
    assert_eq!((advice.strategy.as_str(), advice.cores), ("single", 1));
    assert_eq!(
        advice.sentences[1],
        "Only one core can run this chain: no hash; `scanner` looks into payloads."
    );
}

/// An elephant that `hybrid` replicates alone: it is named where it is fastest, and advised where cores are worth it.
#[test]
fn strategies_without_a_column_are_named_where_they_are_fastest() {
    let mut forecast = many_flows(FIREWALL, 4);
    let choice = |cores: usize, mpps| Fastest { strategy: "hybrid".to_owned(), cores, mpps };
    forecast.choices = vec![choice(2, 20.0), choice(3, 30.0), choice(4, 40.0)];
    let advice = advise(&forecast);
    assert_eq!((advice.strategy.as_str(), advice.cores, advice.mpps), ("hybrid", 4, 40.0));
    assert!(
        advice.sentences.contains(&"Fastest on 4 cores: `hybrid`, 40.0 Mpps predicted.".to_owned()),
        "{advice:?}"
    );
    // Alike: the plainer one.
    forecast.choices.iter_mut().for_each(|choice| choice.mpps *= 0.78);
    assert_eq!(advise(&forecast).strategy, "rsspp");
}

/// Replay that costs as much as all of a packet, and one flow: nothing helps.
/// 30 ns for each packet end `scr` at 33.3 Mpps, where replay alone would at 66.7.
#[test]
fn a_sequencer_that_ends_scr_is_named() {
    let sequencer = Costs { sequencer_ns: 30.0, ..CHEAP_DISPATCH };
    let advice = advise(&one_flow(sequencer, 16));
    let sentence = "However many cores, `scr` does not pass 33.3 Mpps, since all packets go through the sequencer, one core that \
                    takes 30.0 ns for each; from 2 on, a core more adds less than 5%.";
    assert!(advice.sentences.iter().any(|said| said == sentence), "{:#?}", advice.sentences);
    let advice = advise(&many_flows(Costs { sequencer_ns: 41.0, ..CHEAP_DISPATCH }, 16));
    let loses = "where the sequencer passes on 24.4 Mpps at most";
    assert!(advice.sentences.iter().any(|said| said.contains(loses)), "{:#?}", advice.sentences);
}

#[test]
fn sometimes_one_core_is_best() {
    let advice = advise(&one_flow(Costs { replay_ns: 120.0, ..FIREWALL }, 16));
    assert_eq!((advice.strategy.as_str(), advice.cores), ("single", 1));
    assert_eq!(
        advice.sentences[0],
        "Stay on one core: 7.8 Mpps predicted. Under every strategy that gives the same answers, each further core, up \
         to 16, adds less than a fifth of that."
    );
    let expected = "However many cores, `scr` does not pass 8.3 Mpps, since each steps every packet for 120.0 ns; more \
                    cores add less than 5% each.";
    assert!(advice.sentences.iter().any(|sentence| sentence == expected), "{advice:?}");
    assert_eq!(advise(&one_flow(FIREWALL, 1)).sentences[0], "One core was asked about: 7.8 Mpps predicted.");
}

#[test]
fn doubts_are_told() {
    let mut forecast = one_flow(FIREWALL, 4);
    forecast.checks[1].measured_mpps *= 0.8;
    let last = advise(&forecast).sentences.pop().expect("sentences");
    assert_eq!(
        last,
        "Under `scr` up to 7 virtual cores were measured, and the prediction is off by 25.0% at most, on 2 cores: measure \
         again on a quiet machine, with more --rounds."
    );
    forecast.costs.replay_ns = 0.0;
    forecast.cache_bytes = None;
    let sentences = advise(&forecast).sentences;
    assert!(
        sentences.contains(&"Replay costs too little to be measured: `scr` gains by every core.".to_owned())
    );
    assert!(!sentences.iter().any(|sentence| sentence.contains("cache")), "{sentences:?}");
}

/// Figures with the words wrong way round must not pass: `scr` is ahead exactly where its rate is.
#[test]
fn the_duel_follows_the_figures() {
    for cores in 2..=8 {
        let mut forecast = many_flows(FIREWALL, 8);
        forecast.points[cores - 1].rss_mpps = Some(0.5 * FIREWALL.scr_mpps(cores));
        let duel = duel(&forecast).expect("both can run");
        assert!(duel.starts_with(&format!("`scr` is ahead of `rss` on {cores} cores, and loses")), "{duel}");
    }
}

/// Number behind a word, in a sentence.
fn number_after(sentence: &str, before: &str) -> Option<f64> {
    let rest = &sentence[sentence.find(before)? + before.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].trim_end_matches('.').parse().ok()
}

/// What a reader of the table beside it says of a sentence: nothing, if it can be. The table has rates in tenths.
fn objection(forecast: &Forecast, sentence: &str) -> Option<String> {
    let tenths = |value: f64| format!("{value:.1}");
    let one = forecast.costs.single_mpps();
    let rates = |point: &ForecastPoint| [point.rss_mpps, point.rsspp_mpps, point.scr_mpps];
    let rate = |cores: f64, strategy: &str| {
        let point = forecast.points.iter().find(|point| point.cores as f64 == cores)?;
        RATES.iter().find(|(name, _)| *name == strategy).and_then(|(_, rate)| rate(point))
    };
    let named = sentence.split('`').nth(1).unwrap_or_default();
    let no = |is: bool, why: &str| (!is).then(|| why.to_owned());
    if sentence.starts_with("Use `") {
        let mpps = rate(number_after(sentence, "` on ")?, named)?;
        let is_so = number_after(sentence, "cores: ").map(tenths) == Some(tenths(mpps))
            && number_after(sentence, "predicted, ").map(tenths) == Some(tenths(mpps / one));
        return no(is_so, "another rate");
    }
    if sentence.starts_with("Fastest on ") {
        let cores = number_after(sentence, "Fastest on ")?;
        let point = forecast.points.iter().find(|point| point.cores as f64 == cores)?;
        let most = rates(point).into_iter().flatten().fold(0.0, f64::max);
        let is_so = number_after(sentence, "`, ").map(tenths) == Some(tenths(most))
            && rate(cores, named).map(tenths) == Some(tenths(most));
        return no(is_so, "another is faster");
    }
    if sentence.starts_with("Stay on one core") {
        let exact = |point: &ForecastPoint| {
            let sharded =
                [point.rss_mpps, point.rsspp_mpps].map(|rate| rate.filter(|_| forecast.shared.is_empty()));
            sharded.into_iter().chain([point.scr_mpps]).flatten().fold(0.0, f64::max)
        };
        let is_so = forecast
            .points
            .iter()
            .all(|point| exact(point) - one <= 0.2 * one * (point.cores as f64 - 1.0) + 1e-9);
        return no(is_so, "each core adds a fifth");
    }
    if let Some(end) = number_after(sentence, "its prediction ends at ") {
        let mpps = number_after(sentence, "times one core, ")?;
        let sharded = forecast.points.iter().flat_map(|point| [point.rss_mpps, point.rsspp_mpps]).flatten();
        let most = sharded.fold(0.0, f64::max);
        return no(shown(most) <= shown(mpps) && most / one <= end + 0.05, "sharding is faster");
    }
    if let Some(limit) = number_after(sentence, "does not pass ") {
        let scr: Vec<f64> = forecast.points.iter().filter_map(|point| point.scr_mpps).collect();
        let adds = |from: usize| (from..scr.len()).all(|core| scr[core] / scr[core - 1] - 1.0 < 0.05);
        let is_so = scr.iter().all(|mpps| shown(*mpps) <= shown(limit));
        let from = match number_after(sentence, "; from ") {
            Some(from) => from as usize,
            None if sentence.contains("more cores add less") => 1,
            None => scr.len(),
        };
        return no(is_so && adds(from), "more cores add more");
    }
    if sentence.starts_with("No core more is of use") {
        let is_so =
            forecast.points.iter().filter_map(|point| point.scr_mpps).all(|mpps| mpps <= one * (1.0 + 1e-9));
        return no(is_so, "several cores are faster than one");
    }
    no(!sentence.contains("spread well"), "one flow carries half")
}

prop_compose! {
    /// What the model makes of any costs, with the carrying that makes two cores slower than one, and any skew.
    fn any_forecast()(
        dispatch_ns in 1.0..200.0_f64,
        compute_ns in 0.0..200.0_f64,
        replay_ns in prop_oneof![Just(0.0), 0.01..200.0_f64],
        carry_ns in prop_oneof![Just(0.0), 0.0..200.0_f64],
        max_cores in 1_usize..40,
        heaviest in 0.005..=1.0_f64,
        uneven in 1.0..2.0_f64,
        refused in prop::option::of(prop::sample::select(vec!["rss", "rsspp", "scr"])),
        shares_states in any::<bool>(),
    ) -> Forecast {
        let costs = Costs { dispatch_ns, compute_ns, replay_ns, carry_ns, sequencer_ns: 0.0 };
        let least = |cores: usize| (1.0 / cores as f64).max(heaviest);
        let mut forecast = forecast(costs, max_cores, heaviest, |cores| ((uneven * least(cores)).min(1.0), least(cores)));
        if let Some(strategy) = refused {
            refuse(&mut forecast, strategy, "no");
        }
        if shares_states {
            forecast.shared = vec!["policer".to_owned()];
        }
        forecast
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_table_contradicts_the_advice(forecast in any_forecast()) {
        let advice = advise(&forecast);
        for sentence in &advice.sentences {
            prop_assert_eq!(objection(&forecast, sentence), None, "{} {:?}", sentence, forecast.points);
        }
        // The reader would notice: all rates are a half more than they were.
        let mut other = forecast.clone();
        for point in &mut other.points {
            for rate in [&mut point.rss_mpps, &mut point.rsspp_mpps, &mut point.scr_mpps] {
                *rate = rate.map(|mpps| 1.5 * mpps + 0.2);
            }
        }
        for sentence in advice.sentences.iter().filter(|sentence| sentence.contains("predicted") && !sentence.starts_with("Under")) {
            prop_assert!(sentence.starts_with("Stay") || sentence.starts_with("One core") || objection(&other, sentence).is_some(), "{}", sentence);
        }
    }
}
