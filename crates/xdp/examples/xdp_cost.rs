//! What a packet and an item of SCR's programs cost in the kernel, by `BPF_PROG_TEST_RUN`, with one flow and with many.
//!
//! ```sh
//! cargo run --release -p paceline-xdp --example xdp_cost     # as root
//! ```
//!
//! A packet is run again and again. With 1,000 flows all of them are in the tables, and the figure is the mean of packets and items
//! of some of them.

use std::error::Error;
use std::fs;
use std::path::Path;

use p4::interpret::Machine;
use p4::ir::Program;
use p4::{Options, lower};
use paceline_xdp::history::{Arrival, prefix};
use paceline_xdp::load::Loaded;
use paceline_xdp::{Compiled, Strategy, clang, compile};

/// SCR's Table 1.
const PROGRAMS: [&str; 5] =
    ["scr/ddos", "scr/heavy_hitter", "scr/connection_tracker", "token_bucket", "port_knocking"];

/// Runs of which the kernel gives the mean, and how many of these are taken, of which the least counts.
const TIMES: u32 = 1_000_000;
const ROUNDS: usize = 5;

/// Items in front of the packet of which the cost of one is computed.
const ITEMS: u16 = 13;

/// Packets of different flows of which the mean is taken.
const SAMPLES: u16 = 8;

fn main() {
    println!("ns a packet by strategy, and ns an item of scr\n");
    println!("| program | flows | sharded | shared | scr | an item |");
    println!("|---|---:|---:|---:|---:|---:|");
    for name in PROGRAMS {
        for flows in [1, 13, 1000] {
            if let Err(error) = measure(name, flows) {
                println!("{name}: {error}");
                return;
            }
        }
    }
}

fn measure(name: &str, flows: u16) -> Result<(), Box<dyn Error>> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4");
    let path = examples.join(name).with_extension("p4");
    let options = Options { include_dirs: vec![examples], ..Options::default() };
    let (program, _) = lower(&path.display().to_string(), &fs::read_to_string(&path)?, &options)?;
    let [sharded, shared] = [Strategy::Sharded, Strategy::Shared]
        .map(|strategy| Measured::new(&program, strategy).and_then(|measured| measured.cost(flows, 0)));
    let replicated = Measured::new(&program, Strategy::Scr)?;
    let (none, all) = (replicated.cost(flows, 0)?, replicated.cost(flows, ITEMS)?);
    let item = (all - none).max(0.0) / f64::from(ITEMS);
    println!("| `{name}` | {flows} | {:.0} | {:.0} | {none:.0} | {item:.1} |", sharded?, shared?);
    Ok(())
}

/// A program of one strategy, and its object.
struct Measured {
    program: Program,
    compiled: Compiled,
    object: Vec<u8>,
}

impl Measured {
    fn new(program: &Program, strategy: Strategy) -> Result<Measured, Box<dyn Error>> {
        let compiled = compile(program, strategy).map_err(|refusals| format!("{refusals:?}"))?;
        let folder = tempfile::tempdir()?;
        let object = fs::read(clang::build(&clang::write(&compiled, folder.path())?)?)?;
        Ok(Measured { program: program.clone(), compiled, object })
    }

    /// ns of a packet behind so many items.
    fn cost(&self, flows: u16, items: u16) -> Result<f64, Box<dyn Error>> {
        let loaded = Loaded::load(&self.compiled, &self.object, 1, true)?;
        let mut parser = Machine::new(self.program.clone());
        let mut packet = |first: u16| {
            let mut ring = Vec::new();
            for at in 0..items {
                let phv = parser.parse(0, &frame((first + at) % flows), 0);
                ring.extend(self.compiled.item.of(&phv.values));
            }
            let sequence = u64::from(ITEMS) * 1000;
            let arrival = Arrival { sequence, time_ns: 1_000_000, replica: 0, port: 0 };
            let mut bytes = prefix(&self.compiled.item, arrival, &ring, items);
            bytes.extend(frame(first % flows));
            bytes
        };
        // All flows are in the tables.
        for flow in 0..flows {
            loaded.packet(&packet(flow), 1)?;
        }
        let samples = if flows > ITEMS { SAMPLES } else { 1 };
        let all: Vec<Vec<u8>> = (0..samples).map(|sample| packet(sample * (flows / samples))).collect();
        let times = TIMES / u32::from(samples);
        let mut least = f64::INFINITY;
        for _ in 0..ROUNDS {
            let mut sum = 0;
            for bytes in &all {
                sum += loaded.packet(bytes, times)?.took.as_nanos();
            }
            least = least.min(sum as f64 / f64::from(samples));
        }
        Ok(least)
    }
}

/// A TCP packet from one of many sources.
fn frame(source: u16) -> Vec<u8> {
    let [high, low] = source.to_be_bytes();
    let mut bytes =
        vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 6, 0, 0];
    bytes.extend([198, 18, high, low, 198, 51, 100, 1, 0x9c, 0x40, 0x1b, 0x59]);
    bytes.resize(60, 0);
    bytes[47] = 0x10;
    bytes
}
