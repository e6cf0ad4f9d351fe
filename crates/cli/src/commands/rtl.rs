//! `paceline rtl`: hardware for a chain, in SystemVerilog.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use engine::strategies::SCR;
use engine::{Chain, Checksums, Fragments, Plan, Registry};
use sequencer::{ETHERNET_LEN, ItemLayout, MAX_CORES, Version};

use crate::args::number;
use crate::failure::Failure;
use crate::input::read_chain;
use crate::output::{Reports, printable};

#[derive(Args)]
pub struct RtlArgs {
    #[command(subcommand)]
    pub command: RtlCommand,
}

#[derive(Subcommand)]
pub enum RtlCommand {
    /// Write a module that puts history before packets, as `sequence` does: rtl/sequencer with a chain's parameters
    Sequencer(SequencerArgs),
}

#[derive(Args)]
pub struct SequencerArgs {
    /// The chain whose functions need the history, TOML
    #[arg(value_name = "CHAIN.toml")]
    pub chain: PathBuf,
    /// Cores that get packets, by turns; each packet has the history of one less
    #[arg(long, value_name = "N", value_parser = number(1..=MAX_CORES as u64))]
    pub cores: usize,
    /// Bits of the bus: 512 or 1024
    #[arg(long, value_name = "BITS", default_value_t = 512, value_parser = bus_width)]
    pub width: usize,
    /// Put an Ethernet header before the history, for cards and tools that look for one
    #[arg(long)]
    pub ethernet: bool,
    /// Write the module here; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub out: PathBuf,
}

fn bus_width(bits: &str) -> Result<usize, String> {
    match bits {
        "512" => Ok(512),
        "1024" => Ok(1024),
        _ => Err("a bus has 512 or 1024 bits".to_owned()),
    }
}

pub fn command(args: &RtlArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let RtlCommand::Sequencer(args) = &args.command;
    let reports = Reports::open_documents(&[&args.chain], &[("--out", Some(&args.out))])?;
    let chain = read_chain(&args.chain, registry)?;
    let module = sequencer_module(&chain, args)?;
    reports.write_documents(&[&|| module.clone()], "")?;
    Ok(ExitCode::SUCCESS)
}

/// The ports of `rtl/sequencer/sequencer.sv`, and how each is declared.
const PORTS: [(&str, &str); 14] = [
    ("clk", "input  wire              "),
    ("resetn", "input  wire              "),
    ("s_axis_tvalid", "input  wire              "),
    ("s_axis_tready", "output wire              "),
    ("s_axis_tdata", "input  wire [WIDTH*8-1:0]"),
    ("s_axis_tkeep", "input  wire [WIDTH-1:0]  "),
    ("s_axis_tlast", "input  wire              "),
    ("s_axis_tuser", "input  wire [63:0]       "),
    ("m_axis_tvalid", "output wire              "),
    ("m_axis_tready", "input  wire              "),
    ("m_axis_tdata", "output wire [WIDTH*8-1:0]"),
    ("m_axis_tkeep", "output wire [WIDTH-1:0]  "),
    ("m_axis_tlast", "output wire              "),
    ("m_axis_tdest", "output wire [7:0]        "),
];

fn sequencer_module(chain: &Chain, args: &SequencerArgs) -> Result<String, Failure> {
    refuse(chain, args.cores)?;
    let layout = ItemLayout::new(chain.history_bytes());
    let ethernet = if args.ethernet { ETHERNET_LEN } else { 0 };
    let prefix = ethernet + Version::Headers.header_len() + (args.cores - 1) * layout.item_len();
    let declared = PORTS.map(|(name, kind)| format!("    {kind} {name}")).join(",\n");
    let connected = PORTS.map(|(name, _)| format!("      .{name}({name})")).join(",\n");
    Ok(format!(
        "// The sequencer of rtl/sequencer for the chain `{chain}` on {cores} cores: written by `paceline rtl sequencer`.\n\
         // An item of history has {item} bytes, what comes before a packet {prefix}. docs/rtl.md says what the ports mean.\n\
         module {module} #(\n    \
             parameter int FLUSH_CYCLES = 65536,\n    \
             parameter int BUFFER = 256,\n    \
             parameter int FRAMES = 64,\n    \
             parameter int ROWS_IN_RAM = 0,\n    \
             localparam int WIDTH = {width}\n\
         ) (\n{declared}\n);\n\n  \
           sequencer #(\n      \
               .WIDTH(WIDTH),\n      \
               .CORES({cores}),\n      \
               .HEADER_BYTES(64'h{mask:016x}),\n      \
               .HAS_ETHERNET({has_ethernet}),\n      \
               .FLUSH_CYCLES(FLUSH_CYCLES),\n      \
               .BUFFER(BUFFER),\n      \
               .FRAMES(FRAMES),\n      \
               .ROWS_IN_RAM(ROWS_IN_RAM)\n  \
           ) sequencer (\n{connected}\n  );\n\n\
         endmodule\n",
        chain = printable(&chain.name),
        cores = args.cores,
        item = layout.item_len(),
        module = module_name(&chain.name),
        width = args.width / 8,
        mask = layout.header_bytes(),
        has_ethernet = u8::from(args.ethernet),
    ))
}

/// What the hardware does not do is refused, so that it never writes another history than `sequence`.
fn refuse(chain: &Chain, cores: usize) -> Result<(), Failure> {
    Plan::new(chain, SCR, cores).map_err(Failure::usage)?;
    let why = if chain.sides.is_some() {
        "has an inside, and the hardware does not know sides"
    } else if chain.checksums == Checksums::Verify {
        "verifies checksums, which the hardware leaves to receivers\nSay `checksums = \"ignore\"`."
    } else if chain.fragments != Fragments::Pass {
        "refuses fragments, which the hardware leaves to receivers\nSay `fragments = \"pass\"`."
    } else {
        return Ok(());
    };
    Err(Failure::usage(format!("chain `{}` {why}", chain.name)))
}

/// `sequencer_` and the chain's name; what is no letter or digit becomes `_`.
fn module_name(chain: &str) -> String {
    let of = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("sequencer_{}", chain.chars().map(of).collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn args(cores: usize, ethernet: bool) -> SequencerArgs {
        SequencerArgs { chain: PathBuf::new(), cores, width: 1024, ethernet, out: "-".into() }
    }

    fn example(name: &str) -> Chain {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
        read_chain(&path, &stock::registry()).unwrap_or_else(|_| panic!("{name} is a chain"))
    }

    fn refusal(chain: &Chain) -> String {
        match sequencer_module(chain, &args(4, false)) {
            Ok(_) => panic!("{} is not refused", chain.name),
            Err(Failure::Told(_, report)) => report.to_string(),
            Err(_) => panic!("refused without a word"),
        }
    }

    #[test]
    fn a_module_has_the_chains_item_layout() {
        let module = sequencer_module(&example("knock.toml"), &args(8, true)).ok().unwrap();
        for line in [
            "module sequencer_knock #(",
            "An item of history has 29 bytes, what comes before a packet 257.",
            "localparam int WIDTH = 128",
            ".CORES(8),",
            ".HEADER_BYTES(64'hc100c0000000ffff),",
            ".HAS_ETHERNET(1),",
            ".m_axis_tdest(m_axis_tdest)\n  );\n\nendmodule\n",
        ] {
            assert!(module.contains(line), "no `{line}` in\n{module}");
        }
        assert_eq!(module_name("stats-lb"), "sequencer_stats_lb");
    }

    #[test]
    fn what_the_hardware_does_not_do_is_refused() {
        assert!(refusal(&example("gateway.toml")).contains("has an inside"));
        assert!(
            refusal(&Chain { fragments: Fragments::Drop, ..example("knock.toml") }).contains("fragments")
        );
        assert!(
            refusal(&Chain { checksums: Checksums::Verify, ..example("knock.toml") }).contains("checksums")
        );
        assert!(refusal(&example("nat-ids.toml")).contains("pattern-scanner"));
    }
}
