//! `paceline verify`: a strategy on many cores against one.

mod outcome;
mod page;
mod report;
mod text;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use engine::report::SeedReport;
use engine::{
    Chain, Plan, Progress, Registry, Reload, RunError, Verified, VerifyError, verify_answered,
    verify_external, verify_reloading,
};

use self::outcome::Outcome;
pub use self::report::VerifyReport;
use crate::args::{
    self, CardArgs, ChainArgs, HistoryArgs, Packets, ReloadArgs, Setting, StrategyArg, TableArgs,
};
use crate::failure::Failure;
use crate::output::{self, Reports};
use crate::progress::interruptible;

#[derive(Args)]
#[command(mut_arg("pcap", |arg| arg.required_unless_present("pcap_dir")))]
pub struct VerifyArgs {
    #[command(flatten)]
    pub chain: ChainArgs,
    /// The strategy to compare with a single core
    #[arg(long, value_enum, default_value_t = StrategyArg::Rss)]
    pub strategy: StrategyArg,
    /// Write the result as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with the findings, and what was compared and what was not. One file that needs no other, with the JSON in it
    #[arg(long, value_name = "OUT.html")]
    pub report: Option<PathBuf>,
    /// Simulate the cores: they take turns on one thread, in an order that SEED draws and that is the same each time
    #[arg(long, value_name = "SEED")]
    pub simulate: Option<u64>,
    /// Leave out what the capture has for external addresses of a NAT, or from backends of a balancer, and answer each packet that
    /// goes out in its place, as the run sent it: so no answer is for another's port
    #[arg(long)]
    pub answer: bool,
    #[command(flatten)]
    pub tables: TableArgs,
    #[command(flatten)]
    pub card: CardArgs,
    #[command(flatten)]
    pub history: HistoryArgs,
    #[command(flatten)]
    pub reload: ReloadArgs,
}

pub fn command(args: &VerifyArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let question = Question::of(args, registry)?;
    args::tell_unchecked(&question.setting.chain);
    let inputs = [vec![args.chain.chain.as_path()], question.setting.packets.paths()].concat();
    let documents = [("--json", args.json.as_deref()), ("--report", args.report.as_deref())];
    let reports = Reports::open_documents(&inputs, &documents)?;
    let (chain, plan, verified) = question.answer(args, &interruptible(None))?;
    let text = text::render(&chain, &plan, &verified) + &SeedReport::new(&chain).text();
    let report = VerifyReport::new(&chain, &plan, &verified);
    let json = output::json(&report)?;
    reports.write_documents(&[&|| json.clone(), &|| page::render(&report, &text)], &text)?;
    let outcome = Outcome::of(&verified);
    match verified.input_error {
        Some(error) if outcome == Outcome::CutShort => Err(Failure::cut_short(error)),
        Some(error) if !verified.stopped => {
            eprintln!("note: {error}");
            Ok(outcome.exit_code())
        }
        _ => Ok(outcome.exit_code()),
    }
}

/// The comparison as a call, which writes nothing.
pub fn call(args: &VerifyArgs, registry: &Registry, progress: &Progress) -> Result<VerifyReport, Failure> {
    let (chain, plan, verified) = Question::of(args, registry)?.answer(args, progress)?;
    Ok(VerifyReport::new(&chain, &plan, &verified))
}

/// What is to be compared.
struct Question {
    setting: Setting,
    reloads: Vec<Reload>,
}

impl Question {
    fn of(args: &VerifyArgs, registry: &Registry) -> Result<Question, Failure> {
        let setting =
            args::prepare(&args.chain, &args.history, args.strategy.0, &args.card, &args.tables, registry)?;
        let Setting { chain, plan, packets } = setting;
        let is_pipe = |path: &Path| fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        if let Some(path) = packets.paths().into_iter().find(|path| *path == "-" || is_pipe(path)) {
            return Err(Failure::usage(format!(
                "verify reads its input more than once\nGive a file instead of `{}`.",
                path.display()
            )));
        }
        let plan = args.reload.cores(Plan { simulation: args.simulate, ..plan }, &chain)?;
        let reloads = args.reload.reloads((&chain, &plan), &args.card, &args.tables, registry)?;
        Ok(Question { setting: Setting { chain, plan, packets }, reloads })
    }

    /// What was found, with the chain that ran last and its plan.
    fn answer(self, args: &VerifyArgs, progress: &Progress) -> Result<(Chain, Plan, Verified), Failure> {
        let Question { setting: Setting { chain, plan, packets }, reloads } = self;
        if args.answer && (args.reload.is_given() || matches!(packets, Packets::External(_))) {
            return Err(Failure::usage(
                "--answer is for captures without history, and for one chain\n\
                 Leave it out, or --sequencer, --reload-at and --cores-at.",
            ));
        }
        let verified = match &packets {
            Packets::Capture(file) if args.answer => {
                verify_answered(&chain, &plan, &|| file.open(), progress)
            }
            Packets::Capture(file) => verify_reloading(&chain, &plan, &reloads, &|| file.open(), progress),
            Packets::External(_) if args.reload.is_given() => {
                return Err(Failure::usage("--reload-at and --cores-at are for captures without history"));
            }
            Packets::External(external) => verify_external(&chain, &plan, &|| external.open(None), progress),
        };
        let mut verified = verified.map_err(|error| match error {
            VerifyError::Plan(error) => Failure::usage(error),
            VerifyError::Input(error) => Failure::usage(error),
            error @ VerifyError::Unanswered { .. } => Failure::usage(format!("{error}\nLeave out --answer.")),
            VerifyError::Run(memory @ RunError::OutOfMemory { .. }) => Failure::usage(memory),
            VerifyError::Run(defect) => Failure::defect(defect),
            packets @ VerifyError::Packets { .. } => Failure::difference(packets),
        })?;
        let nothing_read = verified.packets == 0 && !verified.stopped;
        if let Some(error) = verified.input_error.take_if(|_| nothing_read) {
            return Err(Failure::usage(error));
        }
        args.reload.tell_unreached(verified.packets);
        let last = reloads[..verified.reloads.len()].last();
        let (chain, plan) = last.map_or((chain, plan), |last| (last.chain.clone(), last.plan.clone()));
        Ok((chain, plan, verified))
    }
}
