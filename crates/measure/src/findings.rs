//! What the figures of a comparison say, in whole sentences.

use crate::{Clock, Comparison, Point};

/// Rates closer than this are alike: a search's width and the noise.
const ALIKE: f64 = 0.03;

/// In order of weight; none where nothing was measured.
pub(crate) fn findings(comparison: &Comparison) -> Vec<String> {
    let mut cores: Vec<usize> = points(comparison).map(|(_, point)| point.cores).collect();
    cores.sort_unstable();
    cores.dedup();
    let Some(most_cores) = cores.last().copied() else { return Vec::new() };
    let mut findings: Vec<String> = bound(comparison, most_cores).into_iter().collect();
    findings.extend(cores.iter().filter(|cores| **cores > 1).filter_map(|cores| best(comparison, *cores)));
    findings.extend(whose_time(comparison));
    findings
}

fn points(comparison: &Comparison) -> impl Iterator<Item = (&str, &Point)> {
    comparison
        .series
        .iter()
        .flat_map(|series| series.points.iter().map(|point| (series.strategy.as_str(), point)))
}

/// What keeps sharding from gaining by all cores, if anything does.
fn bound(comparison: &Comparison, cores: usize) -> Option<String> {
    let trace = &comparison.trace;
    let even = 1.0 / cores as f64;
    let (what, whose, share) = match () {
        () if trace.top1_share > even => ("One flow", "sharding", trace.top1_share),
        () if trace.top_entry_share > even => {
            ("One entry of the indirection table", "RSS", trace.top_entry_share)
        }
        () => return None,
    };
    let carries = format!("{what} carries {:.0}% of the packets", share * 100.0);
    Some(match share > 0.995 {
        true => format!("{carries}; {whose} cannot split it."),
        false => format!(
            "{carries}; {whose} cannot split it, and reaches no more than {:.1} times the rate of one core.",
            1.0 / share
        ),
    })
}

/// Who is fastest on so many cores, and how much that is beside what everyone knows.
fn best(comparison: &Comparison, cores: usize) -> Option<String> {
    let mut there: Vec<_> = points(comparison).filter(|(_, point)| point.cores == cores).collect();
    there.sort_by(|(_, a), (_, b)| b.mpps.total_cmp(&a.mpps));
    let (name, best) = *there.first()?;
    let alike: Vec<_> = there[1..]
        .iter()
        .filter(|(_, point)| point.mpps > best.mpps * (1.0 - ALIKE))
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    let mut text = match alike.is_empty() {
        true => format!("On {cores} cores `{name}` is the fastest"),
        false => format!("On {cores} cores `{name}` and {} are alike", alike.join(" and ")),
    };
    if there.len() == 1 {
        text = format!("On {cores} cores `{name}` reaches");
    } else {
        text += ", with";
    }
    text += &format!(" {:.1} Mpps", best.mpps);
    let rate = |strategy: &str, cores: usize| {
        let mut found = points(comparison).filter(|(name, point)| *name == strategy && point.cores == cores);
        found.next().map(|(_, point)| point.mpps).filter(|mpps| *mpps > 0.0)
    };
    let others = [("single", rate("single", 1)), ("rss", rate("rss", cores))];
    let ratios: Vec<String> = others
        .into_iter()
        .filter(|(other, _)| *other != name)
        .filter_map(|(other, mpps)| Some(format!("{:.1} times `{other}`", best.mpps / mpps?)))
        .collect();
    if !ratios.is_empty() {
        text += &format!(": {}", ratios.join(", "));
    }
    Some(text + ".")
}

/// Where the time of some points is not what a clock on the wall showed.
fn whose_time(comparison: &Comparison) -> Option<String> {
    let virtual_points = points(comparison).filter(|(_, point)| point.clock == Clock::Virtual);
    let least = virtual_points.map(|(_, point)| point.cores).min()?;
    let is_all = points(comparison).all(|(_, point)| point.clock == Clock::Virtual);
    Some(match is_all {
        true => "All figures are of virtual cores, which do not compete for caches and memory.".to_owned(),
        false => format!(
            "Figures of virtual cores, which do not compete for caches and memory, begin at {least} {}.",
            if least == 1 { "core" } else { "cores" }
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Series, TraceSummary};

    fn comparison(top1_share: f64, top_entry_share: f64, series: &[(&str, &[(usize, f64)])]) -> Comparison {
        let point = |(cores, mpps): &(usize, f64)| Point {
            cores: *cores,
            clock: if *cores > 2 { Clock::Virtual } else { Clock::Measured },
            mpps: *mpps,
            found_mpps: vec![*mpps],
            loss: 0.0,
            moves: 0,
            loads: Vec::new(),
            latency: Vec::new(),
        };
        let series = series.iter().map(|(strategy, points)| Series {
            strategy: (*strategy).to_owned(),
            points: points.iter().map(point).collect(),
        });
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
                top1_share,
                top10_share: top1_share,
                top_entry_share,
                digest: String::new(),
            },
            loss_limit: 0.04,
            descriptors: 256,
            searches: 1,
            series: series.collect(),
            refused: Vec::new(),
            findings: Vec::new(),
        }
    }

    #[test]
    fn one_flow_bounds_sharding() {
        let series: &[(&str, &[(usize, f64)])] =
            &[("single", &[(1, 10.0)]), ("rss", &[(1, 10.0), (2, 9.9), (4, 10.1)])];
        let expected = [
            "One flow carries 100% of the packets; sharding cannot split it.",
            "On 2 cores `rss` reaches 9.9 Mpps: 1.0 times `single`.",
            "On 4 cores `rss` reaches 10.1 Mpps: 1.0 times `single`.",
            "Figures of virtual cores, which do not compete for caches and memory, begin at 4 cores.",
        ];
        assert_eq!(findings(&comparison(1.0, 1.0, series)), expected);
    }

    #[test]
    fn the_fastest_is_named_beside_the_known() {
        let series: &[(&str, &[(usize, f64)])] = &[
            ("single", &[(1, 10.0)]),
            ("shared", &[(2, 8.0)]),
            ("rss", &[(2, 12.0)]),
            ("rsspp", &[(2, 18.0)]),
        ];
        let expected = [
            "One entry of the indirection table carries 80% of the packets; RSS cannot split it, and reaches no \
             more than 1.2 times the rate of one core.",
            "On 2 cores `rsspp` is the fastest, with 18.0 Mpps: 1.8 times `single`, 1.5 times `rss`.",
        ];
        assert_eq!(findings(&comparison(0.1, 0.8, series)), expected);
        let alike: &[(&str, &[(usize, f64)])] = &[("rss", &[(2, 12.0)]), ("rsspp", &[(2, 11.9)])];
        assert_eq!(
            findings(&comparison(0.1, 0.2, alike)),
            ["On 2 cores `rss` and `rsspp` are alike, with 12.0 Mpps."]
        );
        assert!(findings(&comparison(0.1, 0.2, &[])).is_empty());
    }
}
