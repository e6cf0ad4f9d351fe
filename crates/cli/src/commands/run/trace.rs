//! `paceline run --trace`: the way of single packets through a chain.

use std::time::Duration;

use engine::report::TraceReport;
use engine::{Plan, Progress, Traces};
use io::filter::Filter;

use super::options::RunArgs;
use crate::failure::Failure;
use crate::filter::read_filter;
use crate::output::{Files, count, plural};

/// What is to be traced, and where it goes.
pub struct Tracer {
    filter: Filter,
    limit: usize,
    json: Option<Files>,
}

/// A trace that is on.
pub struct Tracing {
    traces: Traces,
    expression: String,
    limit: usize,
    json: Option<Files>,
}

impl Tracer {
    /// Reads the filter that was given, and opens the file, ahead of the work.
    pub fn prepare(args: &RunArgs) -> Result<Option<Tracer>, Failure> {
        let Some(expression) = &args.trace.trace else { return Ok(None) };
        let json = args.json.as_deref();
        let lines = args.trace.trace_json.as_deref();
        if lines.is_none() && json.is_some_and(|path| path == "-") {
            return Err(Failure::usage(
                "--json - takes all of standard output, and --trace writes there\n\
                 Give a file for one of them: --json FILE, or --trace-json FILE.",
            ));
        }
        let json = lines.map(|path| Files::open(&[path.to_owned()])).transpose()?;
        Ok(Some(Tracer { filter: read_filter(expression)?, limit: args.trace.trace_limit, json }))
    }

    /// Has the cores of a run trace.
    pub fn begin(self, plan: &Plan, progress: &Progress) -> Result<Tracing, Failure> {
        let Tracer { filter, limit, json } = self;
        let expression = filter.expression().to_owned();
        // Each core's first ones: the first of all are among them.
        let traces = progress.tracing.start(filter, limit, limit * plan.cores).map_err(Failure::defect)?;
        Ok(Tracing { traces, expression, limit, json })
    }
}

impl Tracing {
    /// Writes what was traced as JSON, or gives it back for people.
    pub fn finish(self) -> Result<String, Failure> {
        let Tracing { traces, expression, limit, json } = self;
        let mut traced: Vec<_> = std::iter::from_fn(|| traces.next(Duration::ZERO)).collect();
        traced.sort_by_key(|traced| traced.stamp.seq);
        traced.truncate(limit);
        let reports = traced.iter().map(TraceReport::new);
        let shown = traced.len() as u64;
        if let Some(json) = json {
            let lines = reports.map(|report| serde_json::to_string(&report).map(|line| line + "\n"));
            let lines: String = lines.collect::<Result<_, _>>().map_err(Failure::defect)?;
            json.write([Some(lines)])?;
            return Ok(summary(&expression, shown, traces.matched()));
        }
        let blocks: String = reports.map(|report| report.text()).collect();
        Ok(blocks + &summary(&expression, shown, traces.matched()))
    }
}

/// How many packets matched, and how many of them were shown.
fn summary(expression: &str, shown: u64, matched: u64) -> String {
    let filter = if expression.trim().is_empty() { String::new() } else { format!(" `{expression}`") };
    match matched - shown.min(matched) {
        0 => format!("traced {} that matched{filter}\n\n", plural(shown, "packet")),
        missed => format!(
            "traced the first {} of {} packets that matched{filter}; {} missed (--trace-limit)\n\n",
            count(shown),
            count(matched),
            count(missed)
        ),
    }
}
