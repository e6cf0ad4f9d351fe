//! `paceline run PROGRAM.p4 --backend xdp`: a program in P4 in the kernel, between two interfaces.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use ::live::Interface;
use ::xdp::Strategy;
use ::xdp::live::{Live, LiveError, Wiring, most_cpus, online_cpus};
use schemars::JsonSchema;
use serde::Serialize;

use super::options::{Place, RunArgs};
use crate::args::read_program;
use crate::failure::Failure;
use crate::object::{build, not_loaded};
use crate::output::{Reports, count, plural};
use crate::progress::interruptible;

/// How often the end of a run is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Packets that wait for a CPU, at most.
const QUEUE: u32 = 2048;

/// The program's ports: hosts inside are at 0, all others at 1.
const INSIDE: u16 = 0;
const OUTSIDE: u16 = 1;

/// The JSON of `paceline run --backend xdp --json`. Documented by `docs/run-xdp.schema.json`; fields are added, never renamed or
/// removed. What is lost between two interfaces and the program is not known here.
#[derive(Serialize, JsonSchema)]
pub struct XdpRun {
    /// Version of Paceline.
    paceline: String,
    /// The program's file.
    program: String,
    /// How state is divided among CPUs.
    strategy: String,
    /// The interfaces whose packets the program gets.
    interfaces: Vec<String>,
    /// How long it ran, in seconds.
    seconds: f64,
    /// Packets that came in and got a number.
    packets: u64,
    /// Packets that left.
    packets_out: u64,
    /// Packets that the program dropped, or sent to a port without an interface.
    dropped: u64,
    /// Packets that came to the full queue of a CPU.
    lost: u64,
    /// Packets that replicas dropped, because one before them was not settled yet; their items were stepped later.
    waited: u64,
    /// Packets that had no room in front of them for history: dropped, without a number.
    no_room: u64,
    /// Packets that left by a port behind one that came after them. XDP restores no order.
    inversions: u64,
    /// What each CPU did.
    cpus: Vec<CpuReport>,
}

/// What the program did on one CPU.
#[derive(Serialize, JsonSchema)]
pub struct CpuReport {
    /// The CPU's number.
    cpu: u32,
    /// Packets that it got.
    packets: u64,
    /// Those of them that it sent on.
    packets_out: u64,
    /// Items of lost packets that it took from the logs of others.
    recovered: u64,
    /// Lost packets that no replica knew: none of them stepped these.
    unknown: u64,
    /// Packets that it stepped on without, so that its state may differ from that of others.
    missed: u64,
}

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
    };
    let mut live = Live::start(&built.compiled, &built.bytes, &wiring).map_err(not_started)?;
    live.notes().iter().for_each(|note| eprintln!("note: {note}"));
    if strategy == Strategy::Scr {
        eprintln!(
            "note: packets that come by {outside} are not the program's, but the kernel's: another sequencer would number them"
        );
    }
    let progress = interruptible(None);
    let begin = Instant::now();
    eprintln!(
        "{} runs in the kernel, strategy {strategy} on {}; Ctrl-C ends it",
        program.name,
        plural(cpus.len() as u64, "CPU")
    );
    let limit = args.live.duration.map(Duration::from_secs);
    while !progress.stop.load(Ordering::Relaxed) && limit.is_none_or(|limit| begin.elapsed() < limit) {
        thread::sleep(LOOK);
    }
    let seconds = begin.elapsed().as_secs_f64();
    live.stop().map_err(not_loaded)?;
    let sequenced = live.sequenced().map_err(not_loaded)?;
    let each = live.progress().map_err(not_loaded)?;
    let sum = |of: fn(&::xdp::load::Progress) -> u64| each.iter().map(of).sum::<u64>();
    let (got, sent, waited) = (sum(|p| p.packets), sum(|p| p.sent), sum(|p| p.waited));
    let report = XdpRun {
        paceline: env!("CARGO_PKG_VERSION").to_owned(),
        program: args.chain.chain.display().to_string(),
        strategy: strategy.to_string(),
        interfaces: wiring.receives.into_iter().map(|(_, name)| name).collect(),
        seconds,
        packets: sequenced.packets,
        packets_out: sent,
        dropped: got.saturating_sub(sent + waited),
        lost: sequenced.packets.saturating_sub(got),
        waited,
        no_room: sequenced.no_room,
        inversions: sum(|p| p.inversions),
        cpus: cpus
            .iter()
            .zip(&each)
            .map(|(cpu, progress)| CpuReport {
                cpu: *cpu,
                packets: progress.packets,
                packets_out: progress.sent,
                recovered: progress.recovered,
                unknown: progress.nobody,
                missed: progress.missed,
            })
            .collect(),
    };
    reports.write(&report, &text(&report))?;
    Ok(ExitCode::SUCCESS)
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

fn text(report: &XdpRun) -> String {
    let XdpRun { packets, packets_out, dropped, lost, waited, no_room, inversions, .. } = report;
    let mut text = format!(
        "{}: strategy {} on {} in the kernel, {:.1} s\n{} in by {}, {} out, {} dropped by the program\n",
        report.program,
        report.strategy,
        plural(report.cpus.len() as u64, "CPU"),
        report.seconds,
        plural(*packets, "packet"),
        report.interfaces.join(" and "),
        count(*packets_out),
        count(*dropped),
    );
    text += &format!(
        "{} lost before a CPU, {} dropped because one before them was not settled, {} without room for history\n",
        count(*lost),
        count(*waited),
        count(*no_room)
    );
    text += &format!("{} left behind a later one\n", count(*inversions));
    for cpu in &report.cpus {
        text +=
            &format!("CPU {}: {}, {} out", cpu.cpu, plural(cpu.packets, "packet"), count(cpu.packets_out));
        let items = [(cpu.recovered, "recovered"), (cpu.unknown, "known to none"), (cpu.missed, "missed")];
        for (items, what) in items.into_iter().filter(|(items, _)| *items > 0) {
            text += &format!(", {} {what}", count(items));
        }
        text += "\n";
    }
    if report.cpus.iter().any(|cpu| cpu.missed > 0) {
        text += "note: replicas missed packets, so their states may differ\n";
    }
    text
}
