//! Tests of findings: which sentences the figures of a comparison give.

use proptest::prelude::*;

use super::*;
use crate::{Conditions, CoreLoad, Series, TopKey, TraceSummary};

fn point((cores, clock, mpps): (usize, Clock, f64)) -> Point {
    Point {
        cores,
        clock,
        mpps,
        found_mpps: vec![mpps],
        loss: 0.0,
        moves: 0,
        loads: Vec::new(),
        sequencer: None,
        latency: Vec::new(),
        conditions: None,
        notes: Vec::new(),
    }
}

fn comparison(key_share: f64, top_entry_share: f64, series: Vec<(&str, Vec<Point>)>) -> Comparison {
    let series =
        series.into_iter().map(|(strategy, points)| Series { strategy: strategy.to_owned(), points });
    Comparison {
        paceline: String::new(),
        command: String::new(),
        machine: String::new(),
        chain: String::new(),
        functions: Vec::new(),
        trace: TraceSummary {
            source: String::new(),
            packets: 1,
            flows: 1,
            mean_bytes: 60.0,
            top1_share: key_share / 2.0,
            top10_share: key_share,
            top_entry_share,
            top_key: Some(TopKey { what: "connection".to_owned(), share: key_share }),
            digest: String::new(),
        },
        loss_limit: 0.04,
        descriptors: 256,
        searches: 1,
        series: series.collect(),
        refused: Vec::new(),
        findings: Vec::new(),
        complete: true,
    }
}

/// On 1 and 2 cores measured, beyond that virtual.
fn points(rates: &[(usize, f64)]) -> Vec<Point> {
    let clock = |cores| if cores > 2 { Clock::Virtual } else { Clock::Measured };
    rates.iter().map(|(cores, mpps)| point((*cores, clock(*cores), *mpps))).collect()
}

fn sentences(comparison: &Comparison) -> Vec<String> {
    let mut comparison = comparison.clone();
    draw_conclusions(&mut comparison);
    comparison.findings
}

const CLOCKS: &str = "Virtual cores do not compete for caches and memory, and real ones do: their rates are not compared \
                      with each other.";

#[test]
fn one_connection_ends_sharding() {
    let series = vec![("single", points(&[(1, 10.0)])), ("rss", points(&[(1, 10.0), (2, 9.9), (4, 10.1)]))];
    let expected = [
        "One connection carries 100% of the packets, which sharding has on one core at a time.",
        "If all packets cost the same, sharding ends at 1.00 times one core, losses of 4.00% included.",
        "On 2 cores `rss` reaches 9.90 Mpps: 0.99 times `single`.",
        "On 4 virtual cores `rss` reaches 10.10 Mpps.",
        CLOCKS,
    ];
    assert_eq!(sentences(&comparison(1.0, 1.0, series)), expected);
}

/// Half of the packets, which cost less than the others: 2.3 times one core is measured, and nobody says that it cannot be.
#[test]
fn an_end_that_was_passed_is_none() {
    let with = |mpps| vec![("single", points(&[(1, 10.0)])), ("rss", points(&[(2, 15.0)])), ("rsspp", mpps)];
    let virtually = |mpps| vec![point((1, Clock::Virtual, 10.0)), point((4, Clock::Virtual, mpps))];
    let ends =
        |sentences: &[String]| sentences.iter().any(|sentence| sentence.contains("sharding ends at 2.09"));
    assert!(ends(&sentences(&comparison(0.5, 0.5, with(virtually(20.0))))));
    assert!(!ends(&sentences(&comparison(0.5, 0.5, with(virtually(23.0))))));
}

#[test]
fn the_fastest_is_named_beside_the_known() {
    let series = vec![
        ("single", points(&[(1, 10.0)])),
        ("shared", points(&[(2, 8.0)])),
        ("rss", points(&[(2, 12.0)])),
        ("rsspp", points(&[(2, 18.0)])),
    ];
    let expected = [
        "One entry of the indirection table carries 80% of the packets, which sharding has on one core at a time.",
        "On 2 cores `rsspp` is the fastest, with 18.00 Mpps: 1.80 times `single`, 1.50 times `rss`.",
    ];
    let findings = sentences(&comparison(0.1, 0.8, series));
    assert_eq!([&findings[0], &findings[1]], [expected[0], expected[1]], "1.8 times one core is above 1.26");
    let alike = vec![("rss", points(&[(2, 12.0)])), ("rsspp", points(&[(2, 11.9)]))];
    let expected = "On 2 cores the searches do not tell `rss` (12.00 Mpps) from `rsspp` (11.90 Mpps).";
    assert_eq!(sentences(&comparison(0.1, 0.2, alike)), [expected]);
    assert!(sentences(&comparison(0.1, 0.2, Vec::new())).is_empty());
}

/// Searches that overlap do not tell two strategies apart, however far their medians are.
#[test]
fn searches_that_overlap_name_no_fastest() {
    let with =
        |mpps, found: [f64; 3]| Point { found_mpps: found.into(), ..point((2, Clock::Measured, mpps)) };
    let series = |least| {
        vec![("rss", vec![with(20.0, [19.5, 20.0, least])]), ("rsspp", vec![with(19.0, [18.6, 19.0, 19.2])])]
    };
    assert!(sentences(&comparison(0.1, 0.1, series(19.1)))[0].contains("do not tell"));
    assert!(sentences(&comparison(0.1, 0.1, series(19.3)))[0].contains("is the fastest"));
}

/// What four searches for one rate found within minutes, once.
#[test]
fn a_disturbed_rate_is_no_one_elses_measure() {
    let found = vec![0.0108, 0.0695, 0.07, 9.84];
    let disturbed = Point { found_mpps: found, ..point((2, Clock::Measured, 0.0695)) };
    let series =
        vec![("single", points(&[(1, 10.0)])), ("rss", vec![disturbed]), ("scr", points(&[(2, 15.0)]))];
    let expected = [
        "On 2 cores `scr` reaches 15.00 Mpps: 1.50 times `single`.",
        "Do not rely on `rss` on 2 cores, 0.0695 Mpps: searches for the same rate found 0.0108 to 9.84 Mpps.",
    ];
    assert_eq!(sentences(&comparison(0.1, 0.1, series)), expected);
}

/// A sequencer without time left is named, however busy cores behind it are; one that is idle now and then is not.
#[test]
fn a_sequencer_that_bounds_the_rate_is_named() {
    let with = |busy, busiest| {
        let loads = [0.5, busiest].map(|busy| CoreLoad { share: 0.5, busy, loss: 0.0 }).into();
        let sequencer = Some(SequencerLoad { busy, loss: 0.02, packet_ns: 40.0 });
        let point = Point { loads, sequencer, ..point((2, Clock::Virtual, 24.0)) };
        sentences(&comparison(0.1, 0.1, vec![("scr", vec![point])]))
    };
    let expected = "The sequencer bounds `scr` on 2 virtual cores, 24.00 Mpps: it takes 40.00 ns for each packet and worked for \
                    99% of the time, the busiest core behind it for 70%.";
    assert_eq!(with(0.99, 0.7)[1], expected);
    assert!(with(0.95, 0.99)[1].contains("95% of the time, the busiest core behind it for 99%"));
    for (busy, busiest) in [(0.8, 0.99), (0.8, 0.7)] {
        let sentences = with(busy, busiest);
        assert!(sentences.iter().all(|sentence| !sentence.contains("sequencer")), "{sentences:?}");
    }
}

fn any_clock() -> impl Strategy<Value = Clock> {
    prop_oneof![Just(Clock::Measured), Just(Clock::Virtual)]
}

fn any_share() -> impl Strategy<Value = f64> {
    prop_oneof![0.0..=1.0_f64, Just(0.5), Just(1.0)]
}

prop_compose! {
    /// Rates that are often alike, ratios that are often those of the bound, searches that often overlap.
    fn any_point()(
        cores in prop::sample::select(vec![1_usize, 2, 4, 8]),
        clock in any_clock(),
        mpps in prop_oneof![1e-3..40.0_f64, prop::sample::select(vec![10.0, 10.1, 20.0, 20.9, 23.0])],
        wide in prop::collection::vec(0.9..1.3_f64, 0..4),
        loads in prop::collection::vec(any_share(), 0..4),
        off in prop::option::of(0.0..0.03_f64),
        busy in prop::sample::select(vec![0.5, 0.95, 1.0]),
        sequencer in prop::option::of(any_share()),
    ) -> Point {
        let load = |share| CoreLoad { share, busy, loss: 0.0 };
        let conditions = Conditions { off_processor_share: off, steal_share: None, slow_batches: 0 };
        let mut point = point((cores, clock, mpps));
        point.found_mpps = wide.into_iter().map(|times| times * mpps).chain([mpps]).collect();
        point.loads = loads.into_iter().map(load).collect();
        point.sequencer = sequencer.map(|busy| SequencerLoad { busy, loss: 0.01, packet_ns: 40.0 });
        point.conditions = Some(conditions);
        point
    }
}

prop_compose! {
    fn any_comparison()(
        key_share in any_share(),
        more in 0.0..0.2_f64,
        loss_limit in prop_oneof![Just(0.0), Just(0.04), 0.0..0.9_f64],
        all in prop::collection::vec(prop::collection::vec(any_point(), 0..6), 5),
    ) -> Comparison {
        let names = ["single", "rss", "rsspp", "shared", "scr"];
        let points = |mut points: Vec<Point>| {
            points.sort_by_key(|point| (point.cores, point.clock == Clock::Virtual));
            points.dedup_by_key(|point| (point.cores, point.clock));
            points
        };
        let series = names.into_iter().zip(all.into_iter().map(points)).collect();
        let mut comparison = comparison(key_share, (key_share + more).min(1.0), series);
        comparison.loss_limit = loss_limit;
        comparison
    }
}

/// What a reader who has nothing but the printed table says of a sentence: nothing, if it can be.
fn objection(comparison: &Comparison, sentence: &str) -> Option<String> {
    let words: Vec<&str> = sentence.split(' ').collect();
    let cores: usize = sentence.strip_prefix("On ").and_then(|_| words[1].parse().ok())?;
    let clock = if words[2] == "virtual" { Clock::Virtual } else { Clock::Measured };
    let row = |name: &str, cores: usize| {
        let is_it =
            |(other, point): &(&str, &Point)| (*other, point.cores, point.clock) == (name, cores, clock);
        comparison.points().find(is_it).map(|(_, point)| point)
    };
    // `name` beside a number of Mpps, or behind `number times`.
    let unquoted = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let named: Vec<(usize, String)> =
        (0..words.len()).filter(|at| words[*at].contains('`')).map(|at| (at, unquoted(words[at]))).collect();
    let (_, first) = &named[0];
    let best = row(first, cores)?;
    for (at, name) in &named {
        let is_ratio = words[at - 1] == "times";
        let other = row(name, if is_ratio && name == "single" { 1 } else { cores });
        let Some(other) = other else { return Some(format!("{name} is in no row of this clock")) };
        match is_ratio {
            true => {
                let printed = decimal(best.mpps / other.mpps);
                if words[at - 2] != printed {
                    return Some(format!("{printed} times {name}"));
                }
            }
            false => {
                let rate =
                    words[at + 1..].iter().zip(&words[at + 2..]).find(|(_, unit)| unit.starts_with("Mpps"));
                let rate = rate.map(|(number, _)| number.trim_start_matches('(').to_owned());
                if rate != Some(decimal(other.mpps)) {
                    return Some(format!("{name} has {} Mpps, not {rate:?}", decimal(other.mpps)));
                }
            }
        }
        if !other.notes.is_empty() {
            return Some(format!("{name} was disturbed"));
        }
    }
    let faster = comparison.points().find(|(_, point)| {
        Place::of(point) == Place { cores, clock } && point.notes.is_empty() && point.mpps > best.mpps
    });
    faster.map(|(name, _)| format!("{name} is faster"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_table_contradicts_its_findings(mut comparison in any_comparison()) {
        draw_conclusions(&mut comparison);
        for finding in findings(&comparison) {
            prop_assert!(!finding.contradicted_by(&comparison), "{finding} {comparison:#?}");
        }
        for sentence in &comparison.findings {
            prop_assert_eq!(objection(&comparison, sentence), None, "{} {:#?}", sentence, comparison);
        }
    }

    /// Findings of one table held against another: whatever is about a rate that is gone is contradicted, by the value and
    /// by the reader of the sentence.
    #[test]
    fn findings_of_another_table_are_contradicted(mut comparison in any_comparison(), times in 1.1..3.0_f64) {
        draw_conclusions(&mut comparison);
        let before = findings(&comparison);
        for point in comparison.series.iter_mut().flat_map(|series| &mut series.points) {
            point.mpps *= times;
        }
        for finding in before {
            let is_of_rates = matches!(
                finding,
                Finding::Fastest { .. }
                    | Finding::Alike { .. }
                    | Finding::Disturbed { .. }
                    | Finding::SequencerBounds { .. }
            );
            prop_assert_eq!(finding.contradicted_by(&comparison), is_of_rates || finding.contradicted_by(&comparison));
            prop_assert!(!is_of_rates || finding.contradicted_by(&comparison), "{}", finding);
            let is_read = matches!(finding, Finding::Fastest { .. } | Finding::Alike { .. });
            prop_assert!(!is_read || objection(&comparison, &finding.to_string()).is_some(), "{}", finding);
        }
    }
}

/// The bound that was printed before held for packets of one price and no loss, and was told as if it always did.
#[test]
fn what_is_above_the_end_contradicts_it() {
    let end = Finding::EndOfSharding { times: 2.0, loss_limit: 0.0 };
    let table = |mpps| {
        let points = vec![point((1, Clock::Virtual, 10.0)), point((4, Clock::Virtual, mpps))];
        comparison(0.5, 0.5, vec![("rsspp", points)])
    };
    assert!(end.contradicted_by(&table(23.0)) && !end.contradicted_by(&table(20.0)));
    let whole = Finding::Unsplittable { what: "connection".to_owned(), share: 0.5 };
    let mut spread = comparison(0.5, 0.5, vec![("rss", points(&[(2, 10.0)]))]);
    assert!(!whole.contradicted_by(&spread));
    spread.series[0].points[0].loads =
        [0.4, 0.3, 0.3].map(|share| CoreLoad { share, busy: 1.0, loss: 0.0 }).into();
    assert!(whole.contradicted_by(&spread), "no core has half of the packets");
}
