//! How fast the models run on this machine: cycles and packets per second of one core.
//!
//! ```sh
//! cargo run --release -p paceline-pipeline --example speed -- [CAPTURE] [MODEL]...
//! ```
//!
//! Without a capture, 100,000 packets of the `university` traffic model. Packets come back to back.

use std::error::Error;

use io::Trace;
use io::capture::CaptureReader;
use paceline_pipeline::programs::{FlowCounter, NatBalancer};
use paceline_pipeline::trace::{Parser, of_model, of_trace};
use paceline_pipeline::{Consistency, Line, Model, Options, Pacing, emulate};

/// The best of so many runs: the others were disturbed.
const RUNS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let capture = arguments.next_if(|argument| Model::named(argument).is_none());
    let mut models: Vec<String> = arguments.collect();
    if models.is_empty() {
        models = Model::NAMES.map(str::to_owned).to_vec();
    }
    let trace = capture.map(|path| Trace::read(CaptureReader::open(path)?)).transpose()?;
    println!(
        "{:10} {:14} {:12} {:>10} {:>12} {:>10} {:>10} {:>8}",
        "model", "program", "arrivals", "packets", "cycles", "Mcycles/s", "Mpackets/s", "resubm."
    );
    for name in models {
        let model = Model::named(&name).ok_or_else(|| format!("no model {name:?}: {:?}", Model::NAMES))?;
        for pacing in [Pacing::Load { percent: 100 }, Pacing::EveryCycle] {
            match name.as_str() {
                "banzai" | "flowblaze" => measure(&FlowCounter::default(), &model, pacing, trace.as_ref())?,
                _ => measure(&NatBalancer::new(Consistency::Strict), &model, pacing, trace.as_ref())?,
            }
        }
    }
    Ok(())
}

fn measure<P: Parser>(
    program: &P,
    model: &Model,
    pacing: Pacing,
    trace: Option<&Trace>,
) -> Result<(), Box<dyn Error>> {
    let packets = match trace {
        Some(trace) => of_trace(program, trace),
        None => of_model(program, &traffic::Model::parse("university:packets=100000")?),
    };
    let line = Line { pacing, ..Line::default() };
    let options = Options { line, stages: Some(4), ..Options::default() };
    let mut best = 0.0;
    let mut report = None;
    for _ in 0..RUNS {
        let outcome = emulate(program, model, &options, packets.iter().copied(), &mut ())?;
        if outcome.report.cycles_per_second > best {
            best = outcome.report.cycles_per_second;
            report = Some(outcome.report);
        }
    }
    let report = report.ok_or("no cycles")?;
    let packets_per_second = best * report.packets_in as f64 / report.cycles_simulated as f64;
    println!(
        "{:10} {:14} {:12} {:>10} {:>12} {:>10.1} {:>10.2} {:>8}",
        report.model,
        report.program,
        if pacing == Pacing::EveryCycle { "every cycle" } else { "64 B/cycle" },
        report.packets_in,
        report.cycles,
        best / 1e6,
        packets_per_second / 1e6,
        report.resubmissions,
    );
    Ok(())
}
