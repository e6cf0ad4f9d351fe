//! `paceline emulate`: one program on one model.

mod args;
mod buffers;
mod charts;
mod latencies;
mod program;
mod render;
pub mod report;
mod synthetic;
#[cfg(test)]
mod tests;
mod traced;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use engine::Progress;

pub use self::args::RunArgs;

use self::render::{render_html, render_text};
use self::report::{Compared, Emulation, Place};
use crate::args::Source;
use crate::explain::Code;
use crate::failure::Failure;
use crate::machine::command_line;
use crate::output::{Reports, json};
use crate::progress::interruptible;

/// What runs if it is no program of one's own.
const SYNTHETIC: &str = "synthetic";

pub fn command(args: &RunArgs) -> Result<ExitCode, Failure> {
    let program = args.program.as_deref().unwrap_or(Path::new(SYNTHETIC));
    let is_synthetic = program == Path::new(SYNTHETIC);
    check_options(args, is_synthetic)?;
    let inputs: Vec<&Path> =
        [Some(program), args.pcap.as_deref(), args.stf.as_deref()].into_iter().flatten().collect();
    let outputs = [
        ("--trace-registers", args.trace_registers.as_deref()),
        ("--out", args.out.as_deref()),
        ("--json", args.json.as_deref()),
        ("--html", args.html.as_deref()),
    ];
    crate::output::check_outputs(&inputs, &outputs)?;
    let reports = Reports::open_documents(&inputs, &outputs[2..])?.beside(args.out.as_deref());
    let Emulated { emulation, trace, warnings } = emulate(args, &interruptible(None))?;
    let json = json(&emulation)?;
    let contents: [&dyn Fn() -> String; 2] = [&|| json.clone(), &|| render_html(&emulation)];
    reports.write_documents(&contents, &(trace + &render_text(&emulation)))?;
    match &emulation.check {
        Some(check) if !check.is_equal() => {
            Err(Failure::difference(differs(args, check, &warnings)).coded(Code::Different))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// The emulation as a call, which writes no report. That the pipeline differs from the reference is in what is returned.
pub fn call(args: &RunArgs, progress: &Progress) -> Result<Emulation, Failure> {
    check_options(args, args.program.as_deref().is_none_or(|program| program == Path::new(SYNTHETIC)))?;
    emulate(args, progress).map(|emulated| emulated.emulation)
}

/// An emulation, with what only people are told.
struct Emulated {
    emulation: Emulation,
    trace: String,
    warnings: Vec<String>,
}

fn emulate(args: &RunArgs, progress: &Progress) -> Result<Emulated, Failure> {
    let program = args.program.as_deref().unwrap_or(Path::new(SYNTHETIC));
    let stop = &progress.stop;
    let source = source(args, stop)?;
    let run = match program == Path::new(SYNTHETIC) {
        true => synthetic::run(args, &source, stop)?,
        false => program::run(args, program, &source, stop)?,
    };
    let model = args.model();
    let emulation = Emulation {
        paceline: env!("CARGO_PKG_VERSION"),
        command: command_line(),
        source: source.name,
        stages: args.stages.unwrap_or(run.program_stages),
        stage_cycles: args.stage_cycles.unwrap_or(model.stage_cycles()),
        tables: run
            .tables
            .iter()
            .map(|spec| Place::of(spec, args.consistency.map(|level| level.0)))
            .collect(),
        latency_distribution: latencies::steps(&run.latency),
        buffer_sizes: report::buffer_sizes(&model, &run.report),
        report: run.report,
        departures: run.departures,
        check: run.check,
    };
    Ok(Emulated { emulation, trace: run.trace, warnings: run.warnings })
}

/// What one kind of program has and the other has not.
fn check_options(args: &RunArgs, is_synthetic: bool) -> Result<(), Failure> {
    if args.pipelines.is_some() && args.model != "rapid" {
        let message = format!("--pipelines: {} has no ring that pipelines could share", args.model);
        return Err(Failure::usage(format!("{message}\nLeave it out, or say --model rapid.")));
    }
    let refused = match is_synthetic {
        true => vec![
            ("--stf", args.stf.is_some()),
            ("--out", args.out.is_some()),
            ("--port-of", !args.port_of.is_empty()),
            ("--trace-registers", args.trace_registers.is_some()),
            ("--pipelines", args.pipelines.is_some()),
        ],
        false => vec![("--update-rate", args.update_rate.is_some())],
    };
    let Some((option, _)) = refused.into_iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    let (what, whose) = match is_synthetic {
        true => (
            "the synthetic program has no tables and no ports, and sends no packets",
            "Leave it out, or name a program in P4.",
        ),
        false => ("a program in P4 says itself which packets update", "Leave it out, or run `synthetic`."),
    };
    Err(Failure::usage(format!("{option}: {what}\n{whose}")))
}

fn source(args: &RunArgs, stop: &AtomicBool) -> Result<Source, Failure> {
    match (&args.pcap, &args.traffic) {
        (Some(path), _) => Source::capture(path, stop),
        (None, Some(model)) => Source::model(model, stop),
        (None, None) => Err(Failure::usage("nothing arrives\nGive --pcap or --traffic.")),
    }
}

fn differs(args: &RunArgs, check: &Compared, warnings: &[String]) -> String {
    let what = check.first.as_ref().or(check.state.as_ref()).map_or("", |what| what);
    let level = args.consistency.map_or("what the program says".to_owned(), |level| level.to_string());
    let hint = match level.as_str() {
        "strict" => {
            "Registers that flows share may be asked in another order than packets arrived in.".to_owned()
        }
        _ => format!("Consistency is {level}; only strict promises what the reference gives."),
    };
    let warned: String = warnings.iter().map(|warning| format!("\nwarning: {warning}")).collect();
    format!("the pipeline differs from the reference: {what}\n{hint}{warned}")
}
