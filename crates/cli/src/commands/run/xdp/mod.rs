//! `paceline run PROGRAM.p4 --backend xdp`: a program in P4 in the kernel, between two interfaces.

mod report;
mod running;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ::live::Interface;
use ::live::xdp::Pins;
use ::xdp::Strategy;
use ::xdp::live::{HistoryIn, Live, LiveError, OnDeath, Way as InKernel, Wiring, most_cpus, online_cpus};
use ::xdp::tables::ChangeError;

pub use self::report::XdpRun;
use self::running::{NO_RELOAD, Publisher, Running};
use super::live::nothing_passes;
use super::metrics::{listen, serve_on};
use super::options::{OnDeathArg, Place, RunArgs, Way};
use crate::args::{SequencerArg, read_program};
use crate::control::{Control, Hangups};
use crate::failure::Failure;
use crate::input::read_text;
use crate::object::{build, not_loaded};
use crate::output::{Reports, plural};
use crate::progress::interruptible;
use crate::service::{Service, Watched};

/// How often the end of a run is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Packets that wait for a CPU, at most.
const QUEUE: u32 = 2048;

/// The program's port where hosts inside are, or all where there is one interface; others are at the next one.
const INSIDE: u16 = 0;

pub fn command(args: &RunArgs, place: &Place<'_>) -> Result<ExitCode, Failure> {
    let strategy = args.strategy.in_kernel()?;
    let is_sequenced = args.history.sequencer == Some(SequencerArg::External);
    if is_sequenced && strategy != Strategy::Scr {
        return Err(Failure::usage(format!(
            "--sequencer external is for packets with history, and {strategy} has none\nAdd `--strategy scr`, or leave it out."
        )));
    }
    // Before clang is at work.
    place.names.iter().try_for_each(|name| Interface::open(name).map(drop)).map_err(Failure::usage)?;
    // Ahead of all threads.
    let hangups = Hangups::keep();
    let reports = Reports::open(&[&args.chain.chain], None, args.json.as_deref())?;
    let listener = args.metrics.as_ref().map(listen).transpose()?;
    let way = way(place)?;
    let on_death = on_death(args, place)?;
    let program = read_program(&args.chain.chain, &[], &[])?;
    let entries =
        args.live.entries.as_deref().map(|path| read_text("the file of entries", path)).transpose()?;
    let entries = entries.unwrap_or_default();
    // Of this user alone: nobody else is to change the object between clang and the kernel.
    let folder = tempfile::tempdir().map_err(Failure::usage)?;
    let built = build(&program, strategy, folder.path())?;
    drop(folder);
    let cpus = cpus(args.chain.cores, most_cpus(&built.compiled, is_sequenced))?;
    let all: Vec<(u16, String)> = (INSIDE..).zip(place.names.iter().map(|name| (*name).to_owned())).collect();
    let wiring = Wiring {
        // There is one sequencer.
        receives: if strategy == Strategy::Scr { all[..1].to_vec() } else { all.clone() },
        sends: if way == InKernel::Mirror { Vec::new() } else { all },
        way,
        is_sequenced,
        history: HistoryIn::Any,
        cpus: cpus.clone(),
        queue: QUEUE,
        witnesses: 0,
        recovers: args.history.recovery.is_none_or(|recovery| recovery.is_on()),
        counts_order: true,
        entries,
        on_death,
        pins: Pins::at(&args.live.pins),
    };
    let mut live =
        Live::start(&built.compiled, &built.bytes, &wiring).map_err(|error| not_started(error, args))?;
    live.notes().iter().for_each(|note| eprintln!("note: {note}"));
    if let (Strategy::Scr, [_, outside]) = (strategy, &place.names[..]) {
        eprintln!(
            "note: packets that come by {outside} are not the program's, but the kernel's: another sequencer would number them"
        );
    }
    let telemetry = Arc::new(Running::telemetry(&program, strategy, cpus.len()));
    hangups.each(|| format!("no reload: {NO_RELOAD}\n"));
    let progress = interruptible(Some(Arc::clone(&telemetry)));
    let running = Arc::new(Running {
        meter: live.meter().map_err(not_loaded)?,
        entries: Mutex::new(live.take_tables()),
        program: program.name.clone(),
        strategy,
        interfaces: place.names.iter().map(|name| (*name).to_owned()).collect(),
        tables: program.mu_tables.iter().map(|table| (table.name.clone(), table.size.into())).collect(),
        cpus: cpus.clone(),
        begin: Instant::now(),
        progress: Arc::clone(&progress),
    });
    let publisher = Publisher::start(&running, &telemetry);
    let _server = listener.map(|listener| serve_on(listener, &telemetry)).transpose()?;
    let _control = Control::start_at(args.live.control.as_deref(), &running)?;
    let on = plural(cpus.len() as u64, "CPU");
    let line = format!("{} runs in the kernel, strategy {strategy} on {on}", program.name);
    // That this thread looks for the end; packets do not depend on it.
    let pulse = Arc::new(AtomicU64::new(0));
    let pulses = vec![Arc::clone(&pulse)];
    let service = Service::start_running(Watched { progress: Arc::clone(&progress), line, pulses });
    let begin = Instant::now();
    let limit = args.live.duration.map(Duration::from_secs);
    while !progress.stop.load(Ordering::Relaxed) && limit.is_none_or(|limit| begin.elapsed() < limit) {
        pulse.fetch_add(1, Ordering::Relaxed);
        thread::sleep(LOOK);
    }
    drop(service);
    let seconds = begin.elapsed().as_secs_f64();
    live.stop().map_err(not_loaded)?;
    drop(publisher);
    let sequenced = live.sequenced().map_err(not_loaded)?;
    let each = live.progress().map_err(not_loaded)?;
    let outside = live.outside().map_err(not_loaded)?;
    let report = XdpRun::new(
        (&args.chain.chain, strategy, live.is_logged()),
        &wiring,
        seconds,
        (sequenced, &outside),
        &each,
    );
    reports.write(&report, &report.text())?;
    Ok(ExitCode::SUCCESS)
}

/// How packets go on. The kernel looks up no way for packets of an interface that does not forward.
fn way(place: &Place<'_>) -> Result<InKernel, Failure> {
    let name = place.names[0];
    match place.way {
        Way::Bridge => Ok(InKernel::Bridge),
        Way::Mirror => Ok(InKernel::Mirror),
        Way::Route => {
            let path = format!("/proc/sys/net/ipv4/conf/{name}/forwarding");
            match std::fs::read_to_string(path) {
                Ok(text) if text.trim() == "0" => Err(Failure::usage(format!(
                    "{name} does not forward, so the kernel finds no way for its packets\nSet it: `sysctl \
                     net.ipv4.conf.{}.forwarding=1`",
                    // A dot in the name of an interface is a slash for `sysctl`.
                    name.replace('.', "/")
                ))),
                _ => Ok(InKernel::Route),
            }
        }
    }
}

/// What becomes of packets when this process dies. What cannot stay is refused before clang is at work.
fn on_death(args: &RunArgs, place: &Place<'_>) -> Result<OnDeath, Failure> {
    let stays = || Pins::at(&args.live.pins).make().map_err(Failure::usage);
    match args.live.on_death {
        Some(OnDeathArg::Block | OnDeathArg::Keep) if place.way == Way::Mirror => Err(Failure::usage(
            "--on-death block and keep are not for a mirror, which holds no packet up\nLeave it out.",
        )),
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

fn not_started(error: LiveError, args: &RunArgs) -> Failure {
    match (error, &args.live.entries) {
        (LiveError::Load(error) | LiveError::Entries(ChangeError::Load(error)), _) => not_loaded(error),
        (LiveError::Entries(error), Some(path)) => Failure::usage(format!(
            "{}: {error}\nEntries are lines as test files have them: docs/xdp.md.",
            path.display()
        )),
        (error, _) => Failure::usage(error),
    }
}
