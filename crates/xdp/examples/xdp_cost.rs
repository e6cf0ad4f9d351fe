//! What a packet and an item of the examples cost in the kernel, by `BPF_PROG_TEST_RUN`, with one flow and with many.
//!
//! ```sh
//! cargo run --release -p paceline-xdp --example xdp_cost     # as root
//! ```

use std::fs;
use std::path::Path;
use std::time::Instant;

use p4::interpret::Machine;
use p4::{Options, lower};
use paceline_xdp::history::{Arrival, prefix};
use paceline_xdp::load::Loaded;
use paceline_xdp::{Strategy, clang, compile};

const EXAMPLES: [&str; 4] = ["port_knocking", "token_bucket", "elephant", "stateful_firewall"];

/// Runs of which the kernel gives the mean, and how many of these are taken, of which the least counts.
const TIMES: u32 = 1_000_000;
const ROUNDS: usize = 7;

/// Items in front of the packet of which the cost of one is computed.
const ITEMS: u16 = 13;

fn main() {
    println!(
        "{:20} {:>6} {:>12} {:>12} {:>10}",
        "program", "flows", "ns a packet", "ns an item", "loaded in"
    );
    for name in EXAMPLES {
        for flows in [1, 13] {
            if let Err(error) = measure(name, flows) {
                println!("{name}: {error}");
                return;
            }
        }
    }
}

fn measure(name: &str, flows: u8) -> Result<(), Box<dyn std::error::Error>> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4").join(name).with_extension("p4");
    let (program, _) = lower(&path.display().to_string(), &fs::read_to_string(&path)?, &Options::default())?;
    let compiled = compile(&program, Strategy::Scr).map_err(|refusals| format!("{refusals:?}"))?;
    let object =
        fs::read(clang::build(&clang::write(&compiled, &std::env::temp_dir().join("paceline-xdp-cost"))?)?)?;
    let begun = Instant::now();
    let loaded = Loaded::load(&compiled, &object, 1, true)?;
    let took = begun.elapsed();
    let mut parser = Machine::new(program);
    let mut with = |items: u16| {
        let mut ring = Vec::new();
        for at in 0..items {
            let phv = parser.parse(0, &frame(at as u8 % flows), 0);
            ring.extend(compiled.item.of(&phv.values));
        }
        let sequence = u64::from(ITEMS) * 1000;
        let arrival = Arrival { sequence, time_ns: 1_000_000, replica: 0, port: 0 };
        let mut bytes = prefix(&compiled.item, arrival, &ring, items);
        bytes.extend(frame(0));
        let rounds = (0..ROUNDS).map(|_| loaded.packet(&bytes, TIMES).map(|answer| answer.took.as_nanos()));
        rounds.collect::<Result<Vec<_>, _>>().map(|rounds| rounds.into_iter().min().unwrap_or_default())
    };
    let (none, all) = (with(0)?, with(ITEMS)?);
    let item = all.saturating_sub(none) as f64 / f64::from(ITEMS);
    println!("{name:20} {flows:>6} {none:>12} {item:>12.1} {took:>10.1?}");
    Ok(())
}

/// A TCP packet from one of 256 sources.
fn frame(source: u8) -> Vec<u8> {
    let mut bytes =
        vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 6, 0, 0];
    bytes.extend([192, 0, 2, source, 198, 51, 100, 1, 0x9c, 0x40, 0x1b, 0x59]);
    bytes.resize(60, 0);
    bytes[47] = 0x10;
    bytes
}
