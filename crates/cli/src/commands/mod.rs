//! What the program can do. A command is a file or a folder here, with its arguments and its work, and a line in the
//! list below. Commands do not use each other: what several need stands beside this folder and knows no command.

use std::process::ExitCode;

use clap::Parser;
use engine::Registry;

use crate::failure::Failure;

/// An enumeration of commands for clap: of each its help, its name, and its module's type of arguments. The module's
/// function `command` does the work.
macro_rules! commands {
    ($(#[$about:meta])* pub enum $List:ident {
        $($(#[$help:meta])* $Name:ident($module:ident::$Args:ident),)*
    }) => {
        $(#[$about])*
        #[derive(clap::Subcommand)]
        pub enum $List {
            $($(#[$help])* $Name(Box<$module::$Args>),)*
        }

        impl $List {
            /// Does what was asked for, and returns the exit status.
            pub fn run(&self, registry: &engine::Registry) -> Result<ExitCode, Failure> {
                match self {
                    $($List::$Name(args) => $module::command(args, registry),)*
                }
            }
        }
    };
}

pub mod bench;
pub mod check;
pub mod completions;
pub mod ctl;
pub mod emulate;
pub mod explain;
pub mod generate;
pub mod import;
pub mod inspect;
pub mod man;
pub mod new;
pub mod nfs;
pub mod p4;
pub mod plan;
pub mod rtl;
pub mod run;
pub mod schema;
pub mod self_test;
pub mod sequence;
pub mod sweep;
pub mod top;
pub mod verify;

/// Stateful packet processing on many cores, proved equal to one core.
///
/// A chain of network functions is a TOML file (see examples/). `run` takes a capture, or the packets of network
/// interfaces, through it, `verify` shows that many cores give the answer of one.
#[derive(Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Does what was asked for, and returns the exit status.
    pub fn run(&self, registry: &Registry) -> Result<ExitCode, Failure> {
        self.command.run(registry)
    }
}

commands! {
    /// What to do.
    pub enum Command {
        /// Run a chain over a capture, or on network interfaces
        Run(run::RunArgs),
        /// Show that a strategy on many cores gives the answer of a single core
        Verify(verify::VerifyArgs),
        /// Check chain files, and say which strategies run them; nothing is run
        Check(check::CheckArgs),
        /// Verify over many captures, chains, strategies and table sizes, and make each difference small
        Sweep(sweep::SweepArgs),
        /// Watch a run that was started with --metrics, on a terminal
        Top(top::TopArgs),
        /// Ask a run on interfaces how it goes on, have another chain take over, or end it
        Ctl(ctl::CtlArgs),
        /// Show what is in a capture: flows, skew, and how often packets of one flow come close
        Inspect(inspect::InspectArgs),
        /// Generate traffic by a model: skewed flows, whole TCP connections, attacks
        Generate(generate::GenerateArgs),
        /// Put history before the packets of a capture, for replicas: one file for each core
        Sequence(sequence::SequenceArgs),
        /// List the network functions, or explain one: options, key and sizes
        Nfs(nfs::NfsArgs),
        /// Say what an error's code or a drop reason means, and what to do
        Explain(explain::ExplainArgs),
        /// Write the rules of another firewall as a chain file
        Import(import::ImportArgs),
        /// Make a crate with a network function of your own
        New(new::NewArgs),
        /// Say which strategy to use on how many cores: measures what a packet costs here, and predicts
        Plan(plan::PlanArgs),
        /// Write what chain files may say as JSON Schema, for editors
        Schema(schema::SchemaArgs),
        /// Check, compile and run programs in P4-16 with tables that the data plane writes
        P4(p4::P4Args),
        /// Write hardware for a chain, in SystemVerilog
        Rtl(rtl::RtlArgs),
        /// Emulate stateful pipelines in hardware, cycle by cycle
        Emulate(emulate::EmulateArgs),
        /// Show that what is installed works on this machine
        SelfTest(self_test::SelfTestArgs),
        /// Measure on this machine
        Bench(bench::BenchArgs),
        /// Write what a shell needs to complete the command line
        Completions(completions::CompletionsArgs),
        /// Write the manual's pages
        Man(man::ManArgs),
    }
}

const EXAMPLES: &str = "\
Examples:
  paceline run examples/edge.toml --pcap captures/edge.pcap
  paceline run examples/edge.toml --pcap captures/edge.pcap --strategy rss --cores 2 --out out.pcap
  paceline verify examples/edge.toml --pcap captures/edge.pcap --strategy rss --cores 4
  paceline sweep captures --chains examples/edge.toml examples/nat.toml --mutate 20 --out sweep
  paceline run examples/edge.toml --pcap captures/edge.pcap --speed 1 --metrics 127.0.0.1:9100
  paceline top 127.0.0.1:9100
  paceline inspect --pcap captures/edge.pcap
  paceline generate datacenter --packets 100000 --out dc.pcap
  paceline sequence examples/perimeter.toml --pcap captures/edge.pcap --cores 4 --out-dir cores
  paceline verify examples/perimeter.toml --pcap-dir cores --strategy scr --sequencer external --loss 0.01
  paceline nfs conntrack
  paceline explain keys-conflict
  paceline import nftables rules.json --out firewall.toml
  paceline plan examples/ddos.toml --traffic university --cores 16
  paceline p4 run examples/p4/port_knocking.p4 --stf examples/p4/port_knocking.stf

Exit status:
  0    fine
  1    a difference: verify found one, a test file or the reference expects something else, or import
       wrote a chain that leaves something out
  2    wrong usage or configuration, an input of which nothing can be read, or an output that cannot
       be written
  3    nothing was compared: the input has no packets, or nothing is promised of this chain under this
       strategy; or no rate was found
  4    the input is cut short or damaged after whole packets; what the report says is of these, and
       verify found no difference in them (emulate, plan and benchmarks report nothing then)
  101  a defect of Paceline: please report it
  130  interrupted, by Ctrl-C or a request to terminate";
