//! `paceline run PROGRAM.p4 --backend xdp`: a program in P4 in the kernel, between two interfaces.

mod report;
mod watched;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use ::live::Interface;
use ::live::xdp::Pins;
use ::xdp::Strategy;
use ::xdp::live::{Live, LiveError, OnDeath, Wiring, most_cpus, online_cpus};

pub use self::report::XdpRun;
use self::watched::{Publisher, Watched};
use super::live::nothing_passes;
use super::metrics::{listen, serve_on};
use super::options::{OnDeathArg, Place, RunArgs};
use crate::args::read_program;
use crate::control::Control;
use crate::failure::Failure;
use crate::object::{build, not_loaded};
use crate::output::{Reports, plural};
use crate::progress::interruptible;

/// How often the end of a run is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Packets that wait for a CPU, at most.
const QUEUE: u32 = 2048;

/// The program's ports: hosts inside are at 0, all others at 1.
const INSIDE: u16 = 0;
const OUTSIDE: u16 = 1;

pub fn command(args: &RunArgs, place: &Place<'_>) -> Result<ExitCode, Failure> {
    let strategy = args.strategy.in_kernel()?;
    let [inside, outside] = place.names[..] else {
        return Err(Failure::usage(
            "--backend xdp stands between two interfaces\nGive --inside and --outside.",
        ));
    };
    if inside == outside {
        return Err(Failure::usage(format!("inside and outside are one interface, `{inside}`\nGive two.")));
    }
    // Before clang is at work.
    [inside, outside]
        .into_iter()
        .try_for_each(|name| Interface::open(name).map(drop))
        .map_err(Failure::usage)?;
    let reports = Reports::open(&[&args.chain.chain], None, args.json.as_deref())?;
    let listener = args.metrics.as_ref().map(listen).transpose()?;
    let on_death = on_death(args, place)?;
    let program = read_program(&args.chain.chain, &[], &[])?;
    // Of this user alone: nobody else is to change the object between clang and the kernel.
    let folder = tempfile::tempdir().map_err(Failure::usage)?;
    let built = build(&program, strategy, folder.path())?;
    drop(folder);
    let cpus = cpus(args.chain.cores, most_cpus(&built.compiled))?;
    built.compiled.notes.iter().for_each(|note| eprintln!("note: {note}"));
    let both = vec![(INSIDE, inside.to_owned()), (OUTSIDE, outside.to_owned())];
    let wiring = Wiring {
        // There is one sequencer.
        receives: if strategy == Strategy::Scr { both[..1].to_vec() } else { both.clone() },
        sends: both,
        cpus: cpus.clone(),
        queue: QUEUE,
        witnesses: 0,
        recovers: args.history.recovery.is_none_or(|recovery| recovery.is_on()),
        counts_order: true,
        on_death,
        pins: Pins::at(&args.live.pins),
    };
    let mut live = Live::start(&built.compiled, &built.bytes, &wiring).map_err(not_started)?;
    live.notes().iter().for_each(|note| eprintln!("note: {note}"));
    if strategy == Strategy::Scr {
        eprintln!(
            "note: packets that come by {outside} are not the program's, but the kernel's: another sequencer would number them"
        );
    }
    let telemetry = Arc::new(Watched::telemetry(&program, strategy, cpus.len()));
    let progress = interruptible(Some(Arc::clone(&telemetry)));
    let watched = Arc::new(Watched {
        meter: live.meter().map_err(not_loaded)?,
        program: program.name.clone(),
        strategy,
        interfaces: place.names.iter().map(|name| (*name).to_owned()).collect(),
        tables: program.mu_tables.iter().map(|table| (table.name.clone(), table.size.into())).collect(),
        cpus: cpus.clone(),
        begin: Instant::now(),
        progress: Arc::clone(&progress),
    });
    let publisher = Publisher::start(&watched, &telemetry);
    let _server = listener.map(|listener| serve_on(listener, &telemetry)).transpose()?;
    let _control = Control::start_at(args.live.control.as_deref(), &watched)?;
    eprintln!(
        "{} runs in the kernel, strategy {strategy} on {}; Ctrl-C ends it",
        program.name,
        plural(cpus.len() as u64, "CPU")
    );
    let begin = Instant::now();
    let limit = args.live.duration.map(Duration::from_secs);
    while !progress.stop.load(Ordering::Relaxed) && limit.is_none_or(|limit| begin.elapsed() < limit) {
        thread::sleep(LOOK);
    }
    let seconds = begin.elapsed().as_secs_f64();
    live.stop().map_err(not_loaded)?;
    drop(publisher);
    let sequenced = live.sequenced().map_err(not_loaded)?;
    let each = live.progress().map_err(not_loaded)?;
    let report = XdpRun::new((&args.chain.chain, strategy), &wiring, seconds, sequenced, &each);
    reports.write(&report, &report.text())?;
    Ok(ExitCode::SUCCESS)
}

/// What becomes of packets when this process dies. What cannot stay is refused before clang is at work.
fn on_death(args: &RunArgs, place: &Place<'_>) -> Result<OnDeath, Failure> {
    let stays = || Pins::at(&args.live.pins).make().map_err(Failure::usage);
    match args.live.on_death {
        None => Ok(OnDeath::Pass),
        Some(OnDeathArg::Pass) => {
            if let Some(why) = nothing_passes(place.way) {
                eprintln!("note: nothing passes when this program dies: {why}");
            }
            Ok(OnDeath::Pass)
        }
        Some(OnDeathArg::Block) => stays().map(|()| OnDeath::Block),
        Some(OnDeathArg::Keep) => stays().map(|()| OnDeath::Keep),
    }
}

/// The CPUs of so many replicas: the first ones that are online. Without a number as many as there are and as may be.
fn cpus(cores: Option<usize>, most: usize) -> Result<Vec<u32>, Failure> {
    let online = online_cpus();
    let there = online.len();
    let wanted = cores.unwrap_or(there.min(most));
    if wanted == 0 || wanted > there {
        return Err(Failure::usage(format!(
            "--cores {wanted}: the program runs on 1 to {there} CPUs here, one for each replica"
        )));
    }
    Ok(online.into_iter().take(wanted).collect())
}

fn not_started(error: LiveError) -> Failure {
    match error {
        LiveError::Load(error) => not_loaded(error),
        error => Failure::usage(error),
    }
}
