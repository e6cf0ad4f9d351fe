//! `paceline bench scr`: the figures of State-Compute Replication (NSDI'25), measured here.

mod presets;
pub mod report;
mod text;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use engine::strategies::Strategy;
use engine::{Chain, MAX_CORES, Registry, Sequencing};
use io::Trace;
use measure::search::Limits;
use measure::{
    Clock, Comparison, Contest, CoreTime, CostQuestion, Costs, ForecastQuestion, HistoryCost, Point,
    Question, Series,
};
use strategy::INDIRECTION_ENTRIES;

use self::presets::{Contestants, Figure, Size};
use self::report::{Chart, FigureReport, LinkPoint, ScrBench};
use super::comparison::render_gallery;
use crate::args::{Source, number};
use crate::costs;
use crate::failure::{Failure, INTERRUPTED};
use crate::machine::{Machine, command_line, labels};
use crate::output::{Reports, json};
use crate::progress::interruptible;

#[derive(Args)]
pub struct BenchScrArgs {
    /// Figures of the paper [default: all]
    #[arg(long = "figure", value_name = "N,...", value_enum, value_delimiter = ',')]
    pub figures: Vec<Figure>,
    /// Numbers of cores, virtual ones where the strategy allows [default: the paper's, up to 14]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = number(1..=MAX_CORES as u64))]
    pub cores: Vec<usize>,
    /// A few programs, traces and numbers of cores, and one short search for each: less than a minute instead of many
    #[arg(long = "quick")]
    pub is_quick: bool,
    /// Time that each packet a core receives takes beside what is done with it: 60 and 90 make about 75
    /// and 105 ns in all, near the least and the most in the paper's Table 4
    #[arg(long, value_name = "NS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    pub dispatch_ns: u64,
    /// Packets of each trace and of each trial [default: 262144, with --quick 32768]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..=1 << 26))]
    pub packets: Option<u32>,
    /// Write a page with the charts, which needs no other file; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "OUT.html")]
    pub html: Option<PathBuf>,
    /// Write all figures as JSON; `-` as with --html
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl BenchScrArgs {
    /// Packets of each trial.
    pub fn trial_packets(&self) -> u32 {
        self.packets.unwrap_or(if self.is_quick { 32_768 } else { 262_144 })
    }

    /// Packets of each trace.
    pub fn trace_packets(&self) -> usize {
        self.trial_packets() as usize
    }

    /// Searches for each point.
    pub fn searches(&self) -> usize {
        if self.is_quick { 1 } else { 3 }
    }
}

/// The paper's link (§4.1).
const LINK_GBPS: f64 = 100.0;

/// Preamble and gap between frames, bytes.
const BETWEEN_FRAMES: usize = 20;

const CHECK_SEQUENCE: usize = 4;

/// Numbers of cores that the model of figure 11 is not fitted to.
const UNSEEN_CORES: [usize; 4] = [3, 5, 10, 14];

pub fn command(args: &BenchScrArgs, _: &Registry) -> Result<ExitCode, Failure> {
    let documents = [("--html", args.html.as_deref()), ("--json", args.json.as_deref())];
    let reports = Reports::open_documents(&[], &documents)?;
    let progress = interruptible(None);
    let asked = if args.figures.is_empty() { Figure::EACH.to_vec() } else { args.figures.clone() };
    let mut bench = ScrBench {
        paceline: env!("CARGO_PKG_VERSION"),
        command: command_line(),
        machine: Machine::here().describe(),
        dispatch_ns: args.dispatch_ns,
        complete: true,
        figures: Vec::new(),
    };
    for figure in Figure::EACH.into_iter().filter(|figure| asked.contains(figure)) {
        let charts = charts(figure, args, &progress.stop)?;
        bench.figures.push(FigureReport { figure: figure.number(), title: figure.title(), charts });
    }
    bench.complete = !progress.stop.load(Ordering::Relaxed);
    let json = json(&bench)?;
    reports.write_documents(&[&|| page(&bench), &|| json.clone()], &text::render(&bench))?;
    Ok(if bench.complete { ExitCode::SUCCESS } else { ExitCode::from(INTERRUPTED) })
}

fn page(bench: &ScrBench) -> String {
    let charts = bench.figures.iter().flat_map(|figure| {
        let name = move |chart: &Chart| format!("Figure {}: {}, {}", figure.figure, figure.title, chart.name);
        figure.charts.iter().map(move |chart| (name(chart), &chart.comparison))
    });
    render_gallery("State-compute replication", &charts.collect::<Vec<_>>(), bench.complete)
}

fn charts(figure: Figure, args: &BenchScrArgs, stop: &AtomicBool) -> Result<Vec<Chart>, Failure> {
    let size = Size { packets: args.trace_packets(), is_quick: args.is_quick, cores: &args.cores };
    let mut charts: Vec<Chart> = Vec::new();
    for contestants in figure.contestants(&size) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if std::io::stderr().is_terminal() {
            eprintln!("figure {}: {} over {}", figure.number(), contestants.name, contestants.model);
        }
        let chain = Chain::parse("preset", &contestants.chain, &stock::registry())
            .map_err(|error| Failure::mistake(*error))?;
        let source = match Source::model(&contestants.model, stop) {
            // What is whole is reported.
            Err(Failure::Interrupted) => break,
            source => source?,
        };
        let run = Run { args, contestants: &contestants, chain, source, stop };
        match figure {
            Figure::Model => charts.extend(run.predicted()?),
            // One chart, with a series for each amount of compute.
            Figure::Compute => match charts.last_mut() {
                None => charts.push(Chart { name: "synthetic".to_owned(), ..run.compared(relabelled)? }),
                Some(chart) => chart.add(run.compared(relabelled)?),
            },
            Figure::Loss => {
                let name = run.name();
                match charts.last_mut().filter(|chart| chart.name == name) {
                    None => charts.push(Chart { history: run.history_costs()?, ..run.compared(relabelled)? }),
                    Some(chart) => chart.add(run.compared(relabelled)?),
                }
            }
            Figure::History => {
                let chart = run.compared(|comparison, _| comparison)?;
                charts.push(Chart { links: run.links(), ..chart });
            }
            Figure::SingleFlow | Figure::Programs | Figure::Conntrack => {
                charts.push(run.compared(|comparison, _| comparison)?);
            }
        }
    }
    Ok(charts)
}

/// The series of `scr` under the name of what it ran.
fn relabelled(mut comparison: Comparison, name: &str) -> Comparison {
    comparison.series.iter_mut().for_each(|series| series.strategy = name.to_owned());
    comparison.findings.clear();
    comparison
}

/// One program over one trace, about to be measured.
struct Run<'a> {
    args: &'a BenchScrArgs,
    contestants: &'a Contestants,
    chain: Chain,
    source: Source,
    stop: &'a AtomicBool,
}

impl Run<'_> {
    fn trace(&self) -> &Trace {
        &self.source.trace
    }

    fn name(&self) -> String {
        let model = self.contestants.model.split(':').next().unwrap_or_default();
        format!("{} over {model}", self.contestants.name)
    }

    /// Each strategy on each number of cores.
    fn compared(&self, change: fn(Comparison, &str) -> Comparison) -> Result<Chart, Failure> {
        let contest = Contest {
            strategies: self.contestants.strategies.clone(),
            cores: self.contestants.cores.clone(),
            prefers_virtual: true,
            indirection_entries: INDIRECTION_ENTRIES,
            rebalancing: None,
            descriptors: 256,
            is_shaped: false,
            dispatch_ns: self.args.dispatch_ns,
            history: self.contestants.history,
            question: Question {
                limits: Limits::default(),
                searches: self.args.searches(),
                packets: self.args.trial_packets(),
                latency_loads: Vec::new(),
            },
        };
        let mut tell = |_: &'static dyn Strategy, _: &Point| {};
        let comparison = measure::compare(
            &self.chain,
            self.trace(),
            &contest,
            labels(self.source.name.clone()),
            self.stop,
            &mut tell,
        )
        .map_err(Failure::usage)?;
        let comparison = change(comparison, self.contestants.series.unwrap_or(&self.contestants.name));
        Ok(Chart { name: self.name(), comparison, links: Vec::new(), history: Vec::new() })
    }

    /// What the model predicts, and what it has not seen.
    fn predicted(&self) -> Result<Option<Chart>, Failure> {
        let most = self.contestants.cores.iter().copied().max().unwrap_or(1);
        let unseen = UNSEEN_CORES.into_iter().filter(|cores| *cores <= most.max(5)).collect();
        let question = ForecastQuestion {
            costs: CostQuestion {
                cores: costs::REPLAY_CORES.into(),
                unseen_cores: unseen,
                packets: self.args.trial_packets(),
                rounds: 2 * self.args.searches() + 1,
            },
            added_dispatch_ns: 0.0,
            max_cores: 1,
            indirection_entries: INDIRECTION_ENTRIES,
            cache_bytes: None,
            strategies: Vec::new(),
        };
        let forecast = measure::forecast(
            &self.chain,
            self.trace(),
            &question,
            labels(self.source.name.clone()),
            self.stop,
        );
        let forecast = match forecast {
            Ok(forecast) => forecast,
            Err(error) => return costs::interrupted(error).map(|()| None),
        };
        let dispatch_ns = self.args.dispatch_ns as f64;
        let costs = forecast.costs;
        let costs = Costs { dispatch_ns: costs.dispatch_ns + dispatch_ns, ..costs };
        let times = &forecast.measured.packet_ns;
        let series = |name: &str, mpps: &dyn Fn(&CoreTime) -> f64| Series {
            strategy: name.to_owned(),
            points: times.iter().map(|time| bare_point(time.cores, mpps(time))).collect(),
        };
        let measured = series("measured", &|time| time.mpps(dispatch_ns));
        let predicted = series("predicted", &|time| costs.scr_mpps(time.cores));
        let comparison = Comparison {
            paceline: forecast.paceline,
            command: forecast.command,
            machine: forecast.machine,
            chain: forecast.chain,
            functions: forecast.functions,
            trace: forecast.trace,
            loss_limit: 0.0,
            descriptors: 0,
            searches: question.costs.rounds,
            series: vec![measured, predicted],
            refused: Vec::new(),
            findings: vec![format!(
                "d {:.1} ns, c1 {:.1} ns, c2 {:.1} ns, fitted to 1, 2, 4 and 7 cores; the sequencer takes {:.1} ns a packet.",
                costs.dispatch_ns, costs.compute_ns, costs.replay_ns, costs.sequencer_ns
            )],
            complete: !self.stop.load(Ordering::Relaxed),
        };
        Ok(Some(Chart { name: self.name(), comparison, links: Vec::new(), history: Vec::new() }))
    }

    /// What history costs in each place; nothing after an interruption.
    fn history_costs(&self) -> Result<Vec<HistoryCost>, Failure> {
        let question = CostQuestion {
            cores: self.contestants.cores.clone(),
            unseen_cores: Vec::new(),
            packets: self.args.trial_packets(),
            rounds: 2 * self.args.searches() + 1,
        };
        let costs = measure::history_costs(&self.chain, self.trace(), &question, self.stop);
        costs.or_else(|error| costs::interrupted(error).map(|()| Vec::new()))
    }

    /// The link's rate with the history of so many cores in each packet.
    fn links(&self) -> Vec<LinkPoint> {
        let before = |cores| Sequencing::new(&self.chain, cores, true).map_or(0, |all| all.prefix_bytes());
        let frame = self.trace().packet(0).wire_len as usize + CHECK_SEQUENCE;
        let cores = self.contestants.cores.iter().copied();
        cores.map(|cores| link_point(cores, frame, before(cores))).collect()
    }
}

/// With so many bytes of history before each packet, where there is more than one core.
fn link_point(cores: usize, frame_bytes: usize, prefix_bytes: usize) -> LinkPoint {
    let history = if cores > 1 { prefix_bytes } else { 0 };
    let frame_bytes = frame_bytes + history;
    LinkPoint { cores, frame_bytes, link_mpps: LINK_GBPS * 1e3 / ((frame_bytes + BETWEEN_FRAMES) * 8) as f64 }
}

fn bare_point(cores: usize, mpps: f64) -> Point {
    Point {
        cores,
        clock: Clock::Virtual,
        mpps,
        found_mpps: Vec::new(),
        loss: 0.0,
        moves: 0,
        loads: Vec::new(),
        sequencer: None,
        latency: Vec::new(),
        conditions: None,
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 bytes and 20 between them are 148.8 Mpps at 100 Gbit/s; on two cores 14 + 48 + 69 bytes more.
    #[test]
    fn a_link_is_shared_with_history() {
        let one = link_point(1, 64, 62);
        assert_eq!((one.frame_bytes, (one.link_mpps * 10.0).round()), (64, 1_488.0));
        assert_eq!(link_point(2, 64, 131).frame_bytes, 195);
        assert_eq!(link_point(2, 64, 131).link_mpps, 100e3 / (215.0 * 8.0));
    }
}
