//! The figures of RAPID (NSDI'24) that the models reproduce, as tables: see docs/rapid.md.
//!
//! ```sh
//! cargo run --release -p paceline-pipeline --example figures -- FIGURE... [--trace CAPTURE]...
//! ```
//!
//! Figures are `fig3`, `fig12`, `fig13`, `fig14`, `fig15`, `fig16`, `appc`. `fig3` and `fig12` run over captures, without
//! any over traffic models.

use std::error::Error;

use io::Trace;
use io::capture::CaptureReader;
use paceline_pipeline::programs::{Synthetic, SyntheticPhv, field, fields};
use paceline_pipeline::spacing::Spacing;
use paceline_pipeline::{
    Arrival, BlockingOptions, Consistency, Line, Model, Options, Pacing, RapidOptions, Report, emulate,
};

type Packets = Vec<Arrival<SyntheticPhv>>;

/// Packets of a generated trace.
const PACKETS: u64 = 50_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut figures = Vec::new();
    let mut captures = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--trace" => captures.push(arguments.next().ok_or("--trace needs a capture")?),
            _ => figures.push(argument),
        }
    }
    for figure in &figures {
        match figure.as_str() {
            "fig3" => fig3(&captures)?,
            "fig12" => fig12(&captures)?,
            "fig13" => fig13()?,
            "fig14" => fig14()?,
            "fig15" => fig15()?,
            "fig16" => fig16()?,
            "appc" => appc()?,
            other => return Err(format!("no figure {other:?}; see the head of examples/figures.rs").into()),
        }
    }
    Ok(())
}

/// Packets by 5-tuple, of captures, or of models.
fn traces(captures: &[String], update_percent: u64) -> Result<Vec<(String, Packets)>, Box<dyn Error>> {
    let arrival = |record: &io::capture::Record<'_>, number: u64| {
        let updates = nf::hash_bytes(&number.to_le_bytes(), 1) % 100 < update_percent;
        let phv = Synthetic::packet(fields(record)[field::FLOW], updates, number);
        Arrival { phv, bytes: record.wire_len, time_ns: record.time_ns }
    };
    let mut traces = Vec::new();
    for path in captures {
        let trace = Trace::read(CaptureReader::open(path)?)?;
        let packets = (0..trace.len()).map(|n| arrival(&trace.packet(n), n as u64 + 1)).collect();
        let name = std::path::Path::new(path).file_name().map_or(path.clone(), |n| n.display().to_string());
        traces.push((name, packets));
    }
    if captures.is_empty() {
        for name in ["university", "backbone", "datacenter"] {
            let mut packets = Vec::new();
            let model = traffic::Model::parse(&format!("{name}:packets={PACKETS}"))?;
            model.generate(|time_ns, frame| {
                let wire_len = frame.len() as u32;
                let link = wire::LinkType::Ethernet;
                let record = io::capture::Record { time_ns, wire_len, link, data: frame };
                packets.push(arrival(&record, packets.len() as u64 + 1));
            });
            traces.push((name.to_owned(), packets));
        }
    }
    Ok(traces)
}

struct Run<'a> {
    model: &'a Model,
    program: Synthetic,
    stage_cycles: usize,
    percent: u32,
}

impl Run<'_> {
    fn over(
        &self,
        packets: impl IntoIterator<Item = Arrival<SyntheticPhv>>,
    ) -> Result<Report, Box<dyn Error>> {
        let line = Line { pacing: Pacing::Load { percent: self.percent }, ..Line::default() };
        let options = Options { line, stage_cycles: Some(self.stage_cycles), ..Options::default() };
        Ok(emulate(&self.program, self.model, &options, packets, &mut ())?.report)
    }
}

fn blocking() -> Model {
    Model::Blocking(BlockingOptions::BLOCKING)
}

fn rapid() -> Model {
    Model::Rapid(RapidOptions::default())
}

/// The highest load, in percent of the line, at which no more than `loss` of the packets are lost, and the mean
/// latency there. Loss grows with the load, all but a little: so by bisection.
fn highest_load(
    model: &Model,
    program: &Synthetic,
    packets: &Packets,
    loss: f64,
) -> Result<(u32, f64), Box<dyn Error>> {
    let (mut good, mut bad) = (0, 101);
    let mut latency = 0.0;
    while bad - good > 1 {
        let percent = (good + bad) / 2;
        let run = Run { model, program: program.clone(), stage_cycles: 18, percent };
        let report = run.over(packets.iter().copied())?;
        match report.loss() <= loss {
            true => (good, latency) = (percent, report.latency_cycles.mean),
            false => bad = percent,
        }
    }
    Ok((good, latency))
}

fn fig3(captures: &[String]) -> Result<(), Box<dyn Error>> {
    println!("Fig. 3: blocking, 4 queues of 32; throughput in % of the stateless one, latency as a multiple");
    println!("{:20} {:>7} {:>11} {:>8} {:>8}", "trace", "cycles", "throughput", "latency", "drops");
    for (name, packets) in traces(captures, 30)? {
        for cycles in [2, 4, 8, 16, 24, 32, 48, 64, 96, 128] {
            let run = |model: &Model| {
                let program = Synthetic::new(2).flows(1 << 20);
                Run { model, program, stage_cycles: cycles / 2, percent: 100 }.over(packets.iter().copied())
            };
            let (stateless, blocked) = (run(&Model::Pisa)?, run(&blocking())?);
            println!(
                "{name:20} {cycles:>7} {:>10.1}% {:>8.2} {:>7.1}%",
                100.0 * blocked.throughput / stateless.throughput,
                blocked.latency_cycles.mean / stateless.latency_cycles.mean,
                100.0 * blocked.loss(),
            );
        }
    }
    Ok(())
}

fn fig12(captures: &[String]) -> Result<(), Box<dyn Error>> {
    println!(
        "Fig. 12, 17, 18: the most that each buffer of RAPID held; packets of their own length at 90% of the line's"
    );
    println!("rate, then a packet in 90% of the cycles");
    let columns = format!("{:>5} {:>6} {:>7} {:>5} {:>7}", "RB", "PB", "dTable", "node", "resubm.");
    println!("{:20} {:>6} {:>7} {columns} | {columns}", "trace", "stages", "updates");
    for update_percent in [5, 10, 20, 30, 40, 50] {
        for (name, packets) in traces(captures, update_percent)? {
            for stages in [2, 3, 4] {
                print!("{name:20} {stages:>6} {update_percent:>6}%");
                buffers(stages, packets.iter().copied())?;
                print!(" |");
                buffers(stages, packets.iter().map(|packet| Arrival { bytes: 64, ..*packet }))?;
                println!();
            }
        }
    }
    Ok(())
}

fn buffers(
    stages: usize,
    packets: impl Iterator<Item = Arrival<SyntheticPhv>>,
) -> Result<(), Box<dyn Error>> {
    let model = Model::Rapid(RapidOptions::unbounded());
    let program = Synthetic::new(stages).flows(1 << 20);
    let report = Run { model: &model, program, stage_cycles: 18, percent: 90 }.over(packets)?;
    let most = |buffer: &str| report.occupancy_max[buffer];
    let node = report.occupancy_max.iter().filter(|(buffer, _)| buffer.starts_with("ring."));
    print!(
        " {:>5} {:>6} {:>7} {:>5} {:>7}",
        most("flows.rb"),
        most("flows.pb"),
        most("flows.dtable_read").max(most("flows.dtable_write")),
        node.map(|(_, most)| *most).max().unwrap_or(0),
        report.resubmissions,
    );
    Ok(())
}

fn fig13() -> Result<(), Box<dyn Error>> {
    println!("Fig. 13, 19, 20: by stages, 30% updates; {COLUMNS}");
    for (trace, spacing) in [("1", Spacing::TRACE_1), ("2", Spacing::TRACE_2), ("3", Spacing::TRACE_3)] {
        for stages in [2, 3, 4] {
            side_by_side(&format!("trace {trace}, {stages} stages"), stages, spacing, 30)?;
        }
    }
    Ok(())
}

/// What [`side_by_side`] prints.
const COLUMNS: &str = "highest load in % at 0 and 0.1% loss, mean cycles there; packets as long as the table says, then one a cycle";

/// Both models with the packets' own length, and with as many packets as there are cycles.
fn side_by_side(
    name: &str,
    stages: usize,
    spacing: Spacing,
    update_percent: u64,
) -> Result<(), Box<dyn Error>> {
    print!("{name}:");
    let program = Synthetic::new(stages).flows(1 << 20);
    for spacing in [spacing, spacing.with_bytes(64)] {
        let packets: Packets = spacing.arrivals(PACKETS, update_percent, 1).collect();
        for (name, model) in [("blocking", blocking()), ("rapid", rapid())] {
            let (none, latency) = highest_load(&model, &program, &packets, 0.0)?;
            let (few, _) = highest_load(&model, &program, &packets, 0.001)?;
            print!("  {name} {none:3}% {few:3}% {latency:6.1}");
        }
        print!(" |");
    }
    println!();
    Ok(())
}

fn fig14() -> Result<(), Box<dyn Error>> {
    println!("Fig. 14, 21, 22: by update rate; {COLUMNS}");
    for stages in [2, 3, 4] {
        for update_percent in [10, 20, 30, 40, 50, 60, 70, 80, 90, 100] {
            let name = format!("trace 2, {stages} stages, {update_percent:3}%");
            side_by_side(&name, stages, Spacing::TRACE_2, update_percent)?;
        }
    }
    Ok(())
}

fn fig15() -> Result<(), Box<dyn Error>> {
    println!("Fig. 15: by intra-flow gap, 30% updates; {COLUMNS}");
    let spacings =
        [("2", Spacing::TRACE_2), ("4", Spacing::TRACE_4), ("5", Spacing::TRACE_5), ("6", Spacing::TRACE_6)];
    for stages in [2, 3, 4] {
        for (trace, spacing) in spacings {
            side_by_side(&format!("trace {trace}, {stages} stages"), stages, spacing, 30)?;
        }
    }
    Ok(())
}

fn fig16() -> Result<(), Box<dyn Error>> {
    println!(
        "Fig. 16, 23, 24: by consistency, 30% updates, a packet in each cycle; highest load in % at 0 loss, mean"
    );
    println!("cycles there, and the share that is sent back at 60% load");
    let bounded = (1..=4).map(|k| (format!("BS({k})"), Consistency::BoundedStaleness(k)));
    let levels: Vec<_> = std::iter::once(("STRICT".to_owned(), Consistency::Strict))
        .chain(bounded)
        .chain([("WEAK".to_owned(), Consistency::Weak)])
        .collect();
    for stages in [2, 3, 4] {
        for (name, trace) in [("1", Spacing::TRACE_1), ("2", Spacing::TRACE_2), ("3", Spacing::TRACE_3)] {
            let packets: Packets = trace.with_bytes(64).arrivals(PACKETS, 30, 1).collect();
            for (level, consistency) in &levels {
                let program = Synthetic::new(stages).flows(1 << 20).consistency(*consistency);
                let model = rapid();
                let (percent, latency) = highest_load(&model, &program, &packets, 0.0)?;
                let run = Run { model: &model, program, stage_cycles: 18, percent: 60 };
                let report = run.over(packets.iter().copied())?;
                let back = 100.0 * report.resubmissions as f64 / report.packets_in as f64;
                println!("{stages} stages, trace {name}, {level:6} {percent:3}% {latency:6.1} {back:5.1}%");
            }
        }
    }
    Ok(())
}

/// App. C: n packets of one flow back to back, and when the last one comes out.
fn appc() -> Result<(), Box<dyn Error>> {
    let stage_cycles = 28;
    println!(
        "App. C: n packets of one flow back to back, T = 2 * {stage_cycles} + 4 = 60; cycles to the last one"
    );
    println!(
        "{:>4} {:>8} {:>9} {:>12} {:>10} {:>16}",
        "n", "updates", "blocking", "speculation", "fall-back", "paper's formula"
    );
    let rates = (10..=100).step_by(10);
    for (packets, percent) in [60_u64, 240].into_iter().flat_map(|n| rates.clone().map(move |p| (n, p))) {
        let updates = |n: u64| (n * percent / 100) != ((n + 1) * percent / 100);
        let arrivals: Packets = (0..packets)
            .map(|n| Arrival { phv: Synthetic::packet(1, updates(n), n + 1), bytes: 64, time_ns: 0 })
            .collect();
        let cycles = |model: &Model| -> Result<u64, Box<dyn Error>> {
            let run = Run { model, program: Synthetic::new(2), stage_cycles, percent: 100 };
            Ok(run.over(arrivals.iter().copied())?.cycles)
        };
        let large = RapidOptions::unbounded();
        let speculating = RapidOptions { blocking_threshold: None, ..large };
        let deep = BlockingOptions { queues: 4, depth: 1_024 };
        let (n, t, a) = (packets as f64, 60.0, percent as f64 / 100.0);
        println!(
            "{packets:>4} {percent:>7}% {:>9} {:>12} {:>10} {:>16.0}",
            cycles(&Model::Blocking(deep))?,
            cycles(&Model::Rapid(speculating))?,
            cycles(&Model::Rapid(large))?,
            n * a * t + (n * a + 1.0) / 2.0 * n,
        );
    }
    Ok(())
}
