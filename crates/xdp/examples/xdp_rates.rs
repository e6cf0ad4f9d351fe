//! How SCR's programs scale with CPUs in the kernel, over three kinds of traffic (SCR, NSDI'25, Figures 1, 6, 7 and 11).
//!
//! ```sh
//! cargo run --release -p paceline-xdp --example xdp_rates     # as root
//! ```
//!
//! One and two CPUs are measured: `BPF_PROG_TEST_RUN` on each of them at once. Seven and fourteen are computed from one CPU's times: SCR's
//! model (App. A) for `scr`, and the fullest shard for `sharded`. Nothing is computed for `shared`: what waiting for a lock takes is not in
//! times of one CPU.

use std::error::Error;

use p4::ir::Program;
use paceline_xdp::load::Loaded;
use paceline_xdp::rates::Rates;
use paceline_xdp::trial::Packet;
use paceline_xdp::{Compiled, Strategy};
use traffic::Model;

mod table_1;

use table_1::{PROGRAMS, build, program};

/// Frames are as short as they can be.
const TRAFFIC: [(&str, &str); 3] = [
    ("one flow", "single-flow:one-way=true,packets=4000,sizes=fixed:60"),
    ("uniform, 1,000 flows", "uniform:flows=1000,packets=4000,sizes=fixed:60"),
    ("`university`", "university:packets=4000,sizes=fixed:60"),
];
/// Replicas of which the time of an item is computed, by what a packet takes more than with one.
const MANY: u16 = 14;
const MODELLED: [u16; 2] = [7, MANY];
/// Runs of each packet, and rounds of which the best counts. All that is in a row takes turns.
const RUNS: u32 = 2_000;
const ROUNDS: usize = 5;
/// Frames that the kernel brings to a program, for the time of dispatch.
const FRAMES: u32 = 2_000_000;

fn main() {
    if let Err(error) = tables() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn tables() -> Result<(), Box<dyn Error>> {
    let mut dispatch = f64::INFINITY;
    let mut scr = Vec::new();
    println!("Mpps; one and two CPUs measured, 7 and 14 from a model\n");
    println!(
        "| program | traffic | sharded: 1 | 2 | model 7 | 14 | shared: 1 | 2 | scr: 1 | 2 | model 7 | 14 | scr, t and c2, ns |"
    );
    println!("|---|---|{}---|", "---:|".repeat(10));
    for name in PROGRAMS {
        let program = program(name)?;
        for (title, model) in TRAFFIC {
            let row = Row::measure(&program, &packets(model)?, &mut dispatch)?;
            println!("| `{name}` | {title} | {} |", row.text());
            scr.push((name, title, row.packet_ns, row.item_ns));
        }
    }
    println!(
        "\nWhat brings a frame to a program and takes it away again: {dispatch:.0} ns (live frames, dropped at once)."
    );
    println!(
        "SCR's model with it, Mpps = k / (t + (k - 1) c2)\n\n| program | traffic | t / c2 | 1 | 2 | 7 | 14 |\n|---|---|{}",
        "---:|".repeat(5)
    );
    for (name, title, packet, item) in scr {
        let with = packet + dispatch;
        let rates: Vec<String> =
            [1, 2, 7, 14].iter().map(|cpus| format!("{:.1}", modelled(*cpus, with, item))).collect();
        println!("| `{name}` | {title} | {:.1} | {} |", with / item, rates.join(" | "));
    }
    Ok(())
}

/// Rates of the three strategies, Mpps, by how many CPUs.
struct Row {
    sharded: Vec<f64>,
    shared: Vec<f64>,
    scr: Vec<f64>,
    packet_ns: f64,
    item_ns: f64,
}

impl Row {
    fn measure(program: &Program, packets: &[Packet], dispatch: &mut f64) -> Result<Row, Box<dyn Error>> {
        let built = [
            build(program, Strategy::Sharded)?,
            build(program, Strategy::Shared)?,
            build(program, Strategy::Scr)?,
        ];
        let rates = |at: usize, cpus| {
            let (compiled, object): &(Compiled, Vec<u8>) = &built[at];
            Rates::new(program, compiled, object, packets, cpus)
        };
        let real = thread_count();
        let mut together = Vec::new();
        for at in 0..built.len() {
            for cpus in 1..=real {
                together.push((rates(at, cpus)?, 0.0_f64));
            }
        }
        let (one, many) = (rates(2, 1)?, rates(2, MANY)?);
        let (mut packet_ns, mut many_ns) = (f64::INFINITY, f64::INFINITY);
        let bare = Loaded::load(&built[1].0, &built[1].1, 1, true)?;
        for _ in 0..ROUNDS {
            for (rates, best) in &mut together {
                *best = best.max(rates.together(RUNS)?);
            }
            packet_ns = packet_ns.min(one.alone(RUNS)?);
            many_ns = many_ns.min(many.alone(RUNS)?);
            *dispatch = dispatch.min(bare.dispatch(FRAMES)?);
        }
        let item_ns = (many_ns - packet_ns).max(0.0) / f64::from(MANY - 1);
        let measured = |at: usize| -> Vec<f64> {
            together.iter().skip(at * usize::from(real)).take(real.into()).map(|(_, best)| *best).collect()
        };
        let mut row = Row { sharded: measured(0), shared: measured(1), scr: measured(2), packet_ns, item_ns };
        for cpus in MODELLED {
            row.sharded.push(row.sharded[0] / rates(0, cpus)?.largest_share());
            row.scr.push(modelled(cpus, packet_ns, item_ns));
        }
        Ok(row)
    }

    fn text(&self) -> String {
        let rates = [&self.sharded, &self.shared, &self.scr].into_iter().flatten();
        let rates: Vec<String> = rates.map(|rate| format!("{rate:.1}")).collect();
        format!("{} | {:.0}, {:.1}", rates.join(" | "), self.packet_ns, self.item_ns)
    }
}

/// SCR's model of the rate of so many CPUs, Mpps.
fn modelled(cpus: u16, packet_ns: f64, item_ns: f64) -> f64 {
    let cpus = f64::from(cpus);
    1e3 * cpus / (packet_ns + (cpus - 1.0) * item_ns)
}

/// CPUs that are measured together, two at most.
fn thread_count() -> u16 {
    std::thread::available_parallelism().map_or(1, |there| there.get().min(2) as u16)
}

fn packets(model: &str) -> Result<Vec<Packet>, Box<dyn Error>> {
    let mut packets = Vec::new();
    Model::parse(model)?.generate(|time_ns, bytes| {
        packets.push(Packet { time_ns, port: 0, bytes: bytes.to_vec() });
    });
    Ok(packets)
}
