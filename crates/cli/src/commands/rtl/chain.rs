//! The sequencer of a chain: rtl/sequencer with its parameters.

use engine::strategies::SCR;
use engine::{Chain, Checksums, Fragments, Plan};
use sequencer::{ETHERNET_LEN, ItemLayout, Version};

use super::args::SequencerArgs;
use super::pins::{PORTS, connected, declared, module_name};
use crate::explain::Code;
use crate::failure::Failure;
use crate::output::printable;

/// The module.
pub fn sequencer_module(chain: &Chain, args: &SequencerArgs) -> Result<String, Failure> {
    refuse(chain, args.cores)?;
    let layout = ItemLayout::new(chain.history_bytes());
    let ethernet = if args.ethernet { ETHERNET_LEN } else { 0 };
    let prefix = ethernet + Version::Headers.header_len() + (args.cores - 1) * layout.item_len();
    let (declared, connected) = (declared(&PORTS), connected(&PORTS));
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
    Err(Failure::usage(format!("chain `{}` {why}", chain.name)).coded(Code::NotInHardware))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::input::read_chain;

    fn args(cores: usize, ethernet: bool) -> SequencerArgs {
        SequencerArgs { source: PathBuf::new(), cores, width: 1024, ethernet, out: "-".into() }
    }

    fn example(name: &str) -> Chain {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
        read_chain(&path, &stock::registry()).unwrap_or_else(|_| panic!("{name} is a chain"))
    }

    fn refusal(chain: &Chain) -> String {
        match sequencer_module(chain, &args(4, false)) {
            Ok(_) => panic!("{} is not refused", chain.name),
            Err(Failure::Told(_, _, report)) => report.to_string(),
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
