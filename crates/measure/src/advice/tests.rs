use super::*;
use crate::forecast::RefusedStrategy;
use crate::{Check, CoreTime, Costs, MeasuredCosts, Spread, TopKey, TraceSummary};

/// The paper's port-knocking firewall (Table 4): t 128 ns, 7.8 Mpps on one core.
const FIREWALL: Costs = Costs { dispatch_ns: 101.0, compute_ns: 27.0, replay_ns: 15.0, carry_ns: 0.0 };

/// The same where dispatch costs little: t 40 ns.
const CHEAP_DISPATCH: Costs = Costs { dispatch_ns: 13.0, compute_ns: 27.0, replay_ns: 15.0, carry_ns: 0.0 };

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
        packet_ns: vec![CoreTime { cores: 1, is_fitted: true, ns: spread(costs.packet_ns()) }],
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
        advice: Advice::default(),
    }
}

/// All on one core.
fn one_flow(costs: Costs, max_cores: usize) -> Forecast {
    let mut forecast = forecast(costs, max_cores, 1.0, |_| (1.0, 1.0));
    forecast.trace.top1_share = 1.0;
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
        "One flow carries 100% of the packets, which sharding cannot split: one core has all the work, however many \
         there are.",
        "`scr` is ahead of `rss` or alike on 2 to 32 cores.",
        "However many cores, `scr` stays below 66.7 Mpps, since each steps every packet for 15.0 ns; from 9 on, a core \
         more adds less than 5%.",
        "From 22 cores on the copies of the state, 3.0 MiB each at most, outgrow the last-level cache of 64.0 MiB: \
         replay may then cost more than was measured.",
        "From 10 cores on a packet's history, 301 bytes there, is longer than the mean packet of 300 bytes: a link or \
         PCIe may end `scr` sooner where the sequencer is outside of this machine.",
        "Under `scr` up to 7 virtual cores were measured, and the prediction is off by 2% at most, on 4 cores; beyond \
         that it is extrapolated.",
    ];
    assert_eq!(advice.sentences, expected);
}

#[test]
fn many_small_flows_are_sharded_and_replication_loses() {
    let advice = advise(&many_flows(CHEAP_DISPATCH, 8));
    assert_eq!((advice.strategy.as_str(), advice.cores), ("rsspp", 8));
    let [headline, duel, ..] = advice.sentences.as_slice() else { panic!("{advice:?}") };
    assert_eq!(
        headline,
        "Use `rsspp` on 8 cores: 200.0 Mpps predicted, 8.0 times one core and 1.1 times `rss` on as many."
    );
    assert_eq!(
        duel,
        "`scr` loses to `rss` on all of 2 to 8 cores: packets spread well enough, and under `scr` each core spends \
         15.0 ns on every packet of the others, beside 40.0 ns on its own."
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
        dear.sentences[1],
        "One flow carries 36% of the packets, which sharding cannot split: it ends at 2.5 times one core, 19.5 Mpps, \
         however many there are."
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
        advice.sentences[..2],
        [
            "Use `scr` on 7 cores: 32.1 Mpps predicted, 4.1 times one core.",
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
    assert_eq!(
        advice.sentences[1],
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
    assert_eq!(advice.sentences[1..], ["`scr` cannot run this chain: `scanner` looks into payloads."]);
    ["rss", "rsspp"].iter().for_each(|strategy| refuse(&mut forecast, strategy, "no hash"));
    let advice = advise(&forecast);
    assert_eq!((advice.strategy.as_str(), advice.cores), ("single", 1));
    assert_eq!(
        advice.sentences[1],
        "Only one core can run this chain: no hash; `scanner` looks into payloads."
    );
}

/// Replay that costs as much as all of a packet, and one flow: nothing helps.
#[test]
fn sometimes_one_core_is_best() {
    let advice = advise(&one_flow(Costs { replay_ns: 120.0, ..FIREWALL }, 16));
    assert_eq!((advice.strategy.as_str(), advice.cores), ("single", 1));
    assert_eq!(
        advice.sentences[0],
        "Stay on one core: 7.8 Mpps predicted, and no strategy makes much more of up to 16 cores."
    );
    let expected = "However many cores, `scr` stays below 8.3 Mpps, since each steps every packet for 120.0 ns; more \
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
        "Under `scr` up to 7 virtual cores were measured, and the prediction is off by 25% at most, on 2 cores: measure \
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

/// The same figures, with the words wrong way round, must not pass: `scr` is ahead exactly where its rate is.
#[test]
fn the_duel_follows_the_figures() {
    for cores in 2..=8 {
        let mut forecast = many_flows(FIREWALL, 8);
        forecast.points[cores - 1].rss_mpps = Some(0.5 * FIREWALL.scr_mpps(cores));
        let duel = duel(&forecast).expect("both can run");
        assert!(duel.starts_with(&format!("`scr` is ahead of `rss` on {cores} cores, and loses")), "{duel}");
    }
}
