//! A run over a capture as a call, which writes nothing and shows each packet to its caller.

use engine::report::RunReport;
use engine::{Chain, Progress, Registry, Seen, replay_reloading};

use super::{Source, prepare};
use crate::args::Setting;
use crate::commands::run::RunArgs;
use crate::failure::Failure;

const CAPTURES_ONLY: &str = "a call runs a chain over a capture, and this asks for something else\n\
                             Give a capture with --pcap; interfaces and packets with history are for the command.";

/// Runs the chain, and shows each packet to `see`, with the chain that ran when it came. A run that was stopped, or whose
/// input is cut short, has a report that says so.
pub fn call(
    args: &RunArgs,
    registry: &Registry,
    progress: &Progress,
    see: &mut dyn FnMut(&Chain, &Seen<'_>) -> Result<(), Failure>,
) -> Result<RunReport, Failure> {
    if args.live.has_names() || args.chain.pcap.is_none() {
        return Err(Failure::usage(CAPTURES_ONLY));
    }
    let (Setting { chain, plan, packets }, reloads) = prepare(args, registry)?;
    let Source::Capture(input) = Source::open(&packets, args.speed)? else {
        return Err(Failure::usage(CAPTURES_ONLY));
    };
    let mut shown = |seen: &Seen<'_>| {
        let last = reloads.iter().rev().find(|reload| reload.after <= seen.stamp.seq);
        see(last.map_or(&chain, |reload| &reload.chain), seen)
    };
    let outcome = replay_reloading(&chain, &plan, &reloads, input, progress, &mut shown);
    let mut outcome = outcome.map_err(Failure::of_run)?;
    let nothing_read = outcome.packets == 0;
    if let Some(error) = outcome.input_error.take_if(|_| nothing_read) {
        return Err(Failure::usage(error));
    }
    args.reload.tell_unreached(outcome.packets);
    let last = reloads[..outcome.reloads.len()].last();
    let (chain, plan) = last.map_or((&chain, &plan), |last| (&last.chain, &last.plan));
    Ok(RunReport::new(chain, plan, &outcome))
}
