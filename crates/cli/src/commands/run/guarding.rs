//! Whether the chain guards this host itself, beside those behind it: what is said of that, and what is refused.

use engine::Chain;

use super::options::{HostArg, Place, RunArgs, SocketArg, Way};
use crate::failure::Failure;

/// Refuses `--host chain` where it would not hold.
pub fn check(args: &RunArgs, place: &Place<'_>) -> Result<(), Failure> {
    match (args.live.host, place.way) {
        (HostArg::Kernel, _) => Ok(()),
        (HostArg::Chain, Way::Mirror) => {
            Err(Failure::usage("--host chain is not for a mirror, which holds no packet up\nLeave it out."))
        }
        (HostArg::Chain, Way::Bridge) => Err(Failure::usage(
            "--host chain is for --mode route and --on: by interfaces that are bridged no packet reaches this host, but for \
             --pass-to-host\nLeave it out.",
        )),
        (HostArg::Chain, Way::Route) if args.live.socket == SocketArg::Packet => Err(Failure::usage(
            "--host chain needs AF_XDP: by AF_PACKET this host's own stack gets all packets, whatever the chain drops\nLeave \
             --socket packet out, or guard the host with rules of the kernel (nft).",
        )),
        (HostArg::Chain, Way::Route) => Ok(()),
    }
}

/// Which traffic of this host the chain does not guard, in sentences for people.
pub fn notes(args: &RunArgs, place: &Place<'_>, chain: &Chain, shares_with_host: bool) -> Vec<String> {
    let ports = args.live.pass_to_host.join(" and ");
    let past = "go to the kernel past the chain, whatever that would drop";
    let first = match (place.way, args.live.host) {
        (Way::Mirror, _) => None,
        _ if shares_with_host => {
            Some("this host is not guarded: its own stack gets all packets to its addresses, whatever the chain drops".to_owned())
        }
        (Way::Bridge, _) if ports.is_empty() => None,
        (Way::Bridge, _) => Some(format!("this host is not guarded: packets to {ports} of its own addresses {past}")),
        (Way::Route, HostArg::Kernel) => {
            let at_nat = if ports.is_empty() { String::new() } else { format!(", and those to {ports} of all of them,") };
            let but = if chain.side_prefixes().is_some() { " but those of a NAT" } else { "" };
            Some(format!(
                "this host is not guarded: packets to its own addresses{but}{at_nat} {past} (--host chain has the chain guard it)"
            ))
        }
        (Way::Route, HostArg::Chain) if ports.is_empty() => None,
        (Way::Route, HostArg::Chain) => {
            Some(format!("this host is guarded but for {ports}: packets to there {past}"))
        }
    };
    // A second one is called `conntrack#2`.
    let is_tracker = |name: &str| matches!(name.split('#').next(), Some("conntrack" | "firewall"));
    let tracker = chain.functions.iter().map(|spec| &spec.name).find(|name| is_tracker(name));
    let tracker = tracker.filter(|_| place.way == Way::Route && args.live.host == HostArg::Chain);
    let second = tracker.map(|name| match name.split('#').next() {
        Some("firewall") => format!(
            "{name} does not see this host's answers, so TCP to this host is `invalid` from the second packet on: for ports that have \
             to be reached write a rule without `state`, or use --pass-to-host"
        ),
        _ => format!(
            "{name} does not see this host's answers, so it drops TCP to this host from the second packet on: use --pass-to-host \
             for ports that have to be reached"
        ),
    });
    first.into_iter().chain(second).collect()
}
