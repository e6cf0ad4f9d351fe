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

use p4::ir::Program;
use p4::{Options, lower};
use paceline_xdp::cost::{Cost, ITEMS, in_turns};
use paceline_xdp::traffic::flows;
use paceline_xdp::{Compiled, Strategy, clang, compile};

/// SCR's Table 1.
const PROGRAMS: [&str; 5] =
    ["scr/ddos", "scr/heavy_hitter", "scr/connection_tracker", "scr/token_bucket", "scr/port_knocking"];

/// Runs of which the kernel gives the mean, and how many of these are taken, of which the least counts.
const RUNS: u32 = 1_000_000;
const ROUNDS: u32 = 5;

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

fn measure(name: &str, many: u16) -> Result<(), Box<dyn Error>> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4");
    let path = examples.join(name).with_extension("p4");
    let options = Options { include_dirs: vec![examples], ..Options::default() };
    let (program, _) = lower(&path.display().to_string(), &fs::read_to_string(&path)?, &options)?;
    let built =
        [Strategy::Sharded, Strategy::Shared, Strategy::Scr].map(|strategy| build(&program, strategy));
    let [sharded, shared, scr] = built;
    let (sharded, shared, scr) = (sharded?, shared?, scr?);
    let flows = flows(many);
    let cost = |(compiled, object), items| Cost::new(&program, compiled, object, &flows, items);
    let costs = [
        cost((&sharded.0, &sharded.1), 0)?,
        cost((&shared.0, &shared.1), 0)?,
        cost((&scr.0, &scr.1), 0)?,
        cost((&scr.0, &scr.1), ITEMS)?,
    ];
    let ns = in_turns(&costs, ROUNDS, RUNS)?;
    let item = (ns[3] - ns[2]).max(0.0) / f64::from(ITEMS);
    println!("| `{name}` | {many} | {:.0} | {:.0} | {:.0} | {item:.1} |", ns[0], ns[1], ns[2]);
    Ok(())
}

fn build(program: &Program, strategy: Strategy) -> Result<(Compiled, Vec<u8>), Box<dyn Error>> {
    let compiled = compile(program, strategy).map_err(|refusals| format!("{refusals:?}"))?;
    let object = clang::object(&compiled)?;
    Ok((compiled, object))
}
