//! What a run is judged by.

use clap::ValueEnum;

use super::rows::Row;

/// What a chart shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Metric {
    /// Packets out per cycle
    Throughput,
    /// Load in percent of the line's rate: what was set, or what the search found
    Load,
    /// Mean latency
    Mean,
    /// Latency of half of the packets at most
    P50,
    /// Latency of 99 in 100 packets at most
    P99,
    /// The longest latency
    Max,
    /// Packets lost, in percent
    Loss,
    /// Packets sent back, in percent; some more than once
    SentBack,
    /// The most packets in RB
    Rb,
    /// The most packets in PB
    Pb,
    /// The most flows in a dTable
    Dtable,
    /// The most packets in a buffer of a ring node
    Ring,
    /// Cycles to the last packet out
    Cycles,
    /// Throughput in percent of that of `pisa` with the same settings, --stage-cycles included
    OfStateless,
    /// Mean latency as a multiple of that of `pisa` with the same settings, --stage-cycles included
    OverStateless,
}

impl Metric {
    /// Above a chart.
    pub fn title(self) -> &'static str {
        match self {
            Metric::Throughput => "packets per cycle",
            Metric::Load => "highest load, %",
            Metric::Mean => "mean latency, cycles",
            Metric::P50 => "median latency, cycles",
            Metric::P99 => "latency of 99%, cycles",
            Metric::Max => "longest latency, cycles",
            Metric::Loss => "packets lost, %",
            Metric::SentBack => "packets sent back, %",
            Metric::Rb => "most packets in RB",
            Metric::Pb => "most packets in PB",
            Metric::Dtable => "most flows in dTable",
            Metric::Ring => "most packets in a ring buffer",
            Metric::Cycles => "cycles to the last packet out",
            Metric::OfStateless => "throughput, % of stateless",
            Metric::OverStateless => "mean latency, times stateless",
        }
    }

    /// Whether it can grow by orders of magnitude.
    pub fn is_wide(self) -> bool {
        !matches!(self, Metric::Load | Metric::Loss | Metric::SentBack | Metric::OfStateless)
    }

    /// Its value in a row, if the row has one. `all` are the rows among which the stateless one is looked for.
    pub fn of(self, row: &Row, all: &[&Row]) -> Option<f64> {
        if self == Metric::Load {
            return Some(f64::from(row.load_percent));
        }
        let report = row.report.as_ref()?;
        let latency = &report.latency_cycles;
        let most = |buffer: &str| Some(row.most(buffer)? as f64);
        let stateless = || stateless(row, all)?.report.as_ref();
        Some(match self {
            Metric::Throughput => report.throughput,
            Metric::Load => f64::from(row.load_percent),
            Metric::Mean => latency.mean,
            Metric::P50 => latency.p50 as f64,
            Metric::P99 => latency.p99 as f64,
            Metric::Max => latency.max as f64,
            Metric::Loss => 100.0 * report.loss(),
            Metric::SentBack => 100.0 * report.resubmissions as f64 / report.packets_in.max(1) as f64,
            Metric::Rb => most("rb")?,
            Metric::Pb => most("pb")?,
            Metric::Dtable => most("dtable")?,
            Metric::Ring => most("ring")?,
            Metric::Cycles => report.cycles as f64,
            Metric::OfStateless => 100.0 * report.throughput / stateless()?.throughput,
            Metric::OverStateless => latency.mean / stateless()?.latency_cycles.mean,
        })
    }
}

/// The row of `pisa` with the same settings; `pisa` itself is not compared.
fn stateless<'a>(row: &Row, all: &[&'a Row]) -> Option<&'a Row> {
    if row.settings.model == "pisa" {
        return None;
    }
    let mut wanted = row.settings.effective();
    wanted.model = "pisa";
    let wanted = wanted.effective();
    all.iter().find(|other| other.settings.effective() == wanted).copied()
}
