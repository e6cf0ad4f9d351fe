//! What a packet and an item of SCR's programs cost in the kernel, by `BPF_PROG_TEST_RUN`, with one flow and with many.
//!
//! ```sh
//! cargo run --release -p paceline-xdp --example xdp_cost     # as root
//! ```
//!
//! A packet is run again and again. With 1,000 flows all of them are in the tables, and the figure is the mean of packets and items
//! of some of them.

use std::error::Error;

use paceline_xdp::Strategy;
use paceline_xdp::cost::{Cost, ITEMS, in_turns};
use paceline_xdp::traffic::flows;

mod table_1;

use table_1::{PROGRAMS, build, program};

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
    let program = program(name)?;
    let sharded = build(&program, Strategy::Sharded)?;
    let shared = build(&program, Strategy::Shared)?;
    let scr = build(&program, Strategy::Scr)?;
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
