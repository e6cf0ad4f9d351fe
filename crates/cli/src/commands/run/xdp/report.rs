//! The report of a program in the kernel.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use xdp::live::{Sequenced, Wiring};
use xdp::load::{Outside, Progress};

use crate::output::{count, plural};

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
    /// Packets that the program dropped.
    dropped: u64,
    /// Packets that the program sent to a port without an interface: dropped, too.
    no_port: u64,
    /// Packets that came to the full queue of a CPU.
    lost: u64,
    /// Packets that replicas dropped, because one before them was not settled yet; their items were stepped later.
    waited: u64,
    /// Packets that had no room in front of them for history: dropped, without a number.
    no_room: u64,
    /// With `scr`, where replicas find the items of other packets: `front`, in front of each packet, or `log`.
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<&'static str>,
    /// With `--sequencer external`, packets that were not taken, by reason: `docs/history-format.md` has them. Absent where all were.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    rejected: BTreeMap<&'static str, u64>,
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

impl XdpRun {
    /// What a run of so many seconds came to.
    pub fn new(
        (program, strategy, is_logged): (&Path, xdp::Strategy, bool),
        wiring: &Wiring,
        seconds: f64,
        (sequenced, outside): (Sequenced, &Outside),
        each: &[Progress],
    ) -> XdpRun {
        let sum = |of: fn(&Progress) -> u64| each.iter().map(of).sum::<u64>();
        XdpRun {
            paceline: env!("CARGO_PKG_VERSION").to_owned(),
            program: program.display().to_string(),
            strategy: strategy.to_string(),
            interfaces: wiring.receives.iter().map(|(_, name)| name.clone()).collect(),
            seconds,
            packets: sequenced.packets,
            packets_out: sum(|p| p.sent),
            dropped: sum(Progress::dropped),
            no_port: sum(|p| p.no_port),
            lost: sequenced.packets.saturating_sub(sum(|p| p.packets)),
            waited: sum(|p| p.waited),
            no_room: sequenced.no_room,
            history: (strategy == xdp::Strategy::Scr).then_some(if is_logged { "log" } else { "front" }),
            rejected: outside.reasons().collect(),
            inversions: sum(|p| p.inversions),
            cpus: wiring
                .cpus
                .iter()
                .zip(each)
                .map(|(cpu, progress)| CpuReport {
                    cpu: *cpu,
                    packets: progress.packets,
                    packets_out: progress.sent,
                    recovered: progress.recovered,
                    unknown: progress.nobody,
                    missed: progress.missed,
                })
                .collect(),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let report = self;
        let XdpRun { packets, packets_out, dropped, no_port, lost, waited, no_room, inversions, .. } = report;
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
        if report.history == Some("log") {
            text += "items were in a log, not in front of packets\n";
        }
        for (why, packets) in &report.rejected {
            text += &format!("{} not taken: `{why}`\n", plural(*packets, "packet"));
        }
        if *no_port > 0 {
            text += &format!("{} dropped, because no interface is at their port\n", count(*no_port));
        }
        for cpu in &report.cpus {
            text += &format!(
                "CPU {}: {}, {} out",
                cpu.cpu,
                plural(cpu.packets, "packet"),
                count(cpu.packets_out)
            );
            let items =
                [(cpu.recovered, "recovered"), (cpu.unknown, "known to none"), (cpu.missed, "missed")];
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
}
