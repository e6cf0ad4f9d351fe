//! A P4 program in the kernel: `paceline run PROGRAM.p4 --backend xdp`.

use std::net::UdpSocket;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use live::Interface;
use serde_json::Value;

use crate::live::number;
use crate::service::{Lan, Run};
use crate::support::{paceline, root, stderr};

const PROGRAM: &str = "examples/p4/port_knocking.p4";
const PATIENCE: Duration = Duration::from_secs(20);
/// Datagrams that are sent one by one: none of them is lost.
const DATAGRAMS: u64 = 300;

/// Two hosts that find each other without asking, since one direction alone is carried. Nothing, with a word why, where programs
/// cannot be built.
fn lan(label: &str) -> Option<Lan> {
    for (program, argument) in [("clang", "--version"), ("ethtool", "--version")] {
        if Command::new(program).arg(argument).output().is_err() {
            println!("skipped: `{program}` does not run");
            return None;
        }
    }
    let lan = Lan::new(label)?;
    let [b0, b1, b2, b3, b4, b5] =
        lan.right.inside(|| Interface::open("eth0").expect("the test made it").address);
    let address = format!("{b0:02x}:{b1:02x}:{b2:02x}:{b3:02x}:{b4:02x}:{b5:02x}");
    lan.left.ip(&format!("neigh add 192.0.2.2 lladdr {address} dev eth0"));
    assert!(lan.right.run("ethtool", "-K eth0 gro on").status.success());
    Some(lan)
}

/// The program between the two interfaces of the gateway.
fn between(lan: &Lan, program: &str) -> Command {
    let mut command = lan.gateway.command(env!("CARGO_BIN_EXE_paceline"));
    let place = ["--inside", "in", "--outside", "out", "--backend", "xdp"];
    command.current_dir(root()).args(["run", program]).args(place);
    command
}

fn start(lan: &Lan, arguments: &[&str]) -> Run {
    let mut command = between(lan, PROGRAM);
    command.args(["--json", "-"]).args(arguments);
    Run::start(command)
}

/// Datagrams from the left that came to the right, each waited for.
fn carried(lan: &Lan) -> u64 {
    let receiver = lan.right.bound(|| UdpSocket::bind("192.0.2.2:7000"));
    receiver.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let sender = lan.left.bound(|| UdpSocket::bind("192.0.2.1:0"));
    let mut bytes = [0; 64];
    let one = |number: u64| {
        sender.send_to(&number.to_be_bytes(), "192.0.2.2:7000").is_ok() && receiver.recv(&mut bytes).is_ok()
    };
    (0..DATAGRAMS).map(one).take_while(|came| *came).count() as u64
}

/// A run carries all that comes, says so, and leaves nothing at the interfaces.
fn carries(lan: &Lan, strategy: &str) -> Value {
    let run = start(lan, &["--strategy", strategy, "--cores", "1"]);
    assert_eq!(carried(lan), DATAGRAMS, "{strategy}");
    assert!(lan.gateway.ip("-d link show in").contains("xdp"), "the program is at its interface");
    run.signal("-INT");
    let report = run.ended();
    assert_eq!(report["strategy"], strategy, "{report:#}");
    for what in ["packets", "packets_out"] {
        assert!(number(&report[what]) >= DATAGRAMS, "{what}: {report:#}");
    }
    assert_eq!((number(&report["lost"]), number(&report["no_room"])), (0, 0), "{report:#}");
    for interface in ["in", "out"] {
        let shown = lan.gateway.ip(&format!("-d link show {interface}"));
        assert!(!shown.contains("xdp"), "{shown}");
    }
    report
}

#[test]
fn a_program_in_the_kernel_stands_between_two_interfaces() {
    let Some(lan) = lan("xdp") else { return };
    let report = carries(&lan, "scr");
    assert_eq!(number(&report["cpus"][0]["missed"]), 0, "{report:#}");
    carries(&lan, "sharded");
    carries(&lan, "shared");

    // State that is looked up by nothing in common.
    let refused = refused(&lan, "examples/p4/syn_cookie.p4", "sharded");
    assert!(
        refused.contains("syn_cookie.p4:") && refused.contains("by no field that both have"),
        "{refused}"
    );

    let run = start(&lan, &["--strategy", "scr", "--cores", "1", "--duration", "1"]);
    assert!(run.said.contains("packets that come by out are not the program's"), "{}", run.said);
    assert!(run.said.contains("the other end of out is in another network namespace"), "{}", run.said);
    assert_eq!(number(&run.ended()["cpus"][0]["cpu"]), 0);
}

/// The kernel closes what a killed process had: the programs are gone with it.
#[test]
fn a_run_that_is_killed_leaves_no_program() {
    let Some(lan) = lan("xdp-killed") else { return };
    let run = start(&lan, &["--strategy", "sharded", "--cores", "1"]);
    let shown =
        || ["in", "out"].map(|interface| lan.gateway.ip(&format!("-d link show {interface}"))).concat();
    assert!(shown().contains("xdp"));
    run.die();
    let until = Instant::now() + PATIENCE;
    while shown().contains("xdp") && Instant::now() < until {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(!shown().contains("xdp"), "{}", shown());
}

/// What a run that does not start says.
fn refused(lan: &Lan, program: &str, strategy: &str) -> String {
    let output =
        between(lan, program).args(["--strategy", strategy, "--cores", "1"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    stderr(&output)
}

#[test]
fn a_sequencer_is_not_for_two_queues() {
    let Some(lan) = Lan::with_queues("xdp-queues", 2) else { return };
    if Command::new("clang").arg("--version").output().is_err() {
        return println!("skipped: `clang` does not run");
    }
    let refused = refused(&lan, PROGRAM, "scr");
    assert!(
        refused.contains("in has 2 receive queues") && refused.contains("`ethtool -L in combined 1`"),
        "{refused}"
    );
}

#[test]
fn what_cannot_run_in_the_kernel_is_refused() {
    let lo = ["--inside", "lo", "--outside", "lo"];
    let two = ["--inside", "lo", "--outside", "no-such"];
    let cases: [(&str, &[&str], &[&str], &str); 7] = [
        (PROGRAM, &lo, &["--strategy", "scr"], "one interface, `lo`"),
        (PROGRAM, &two, &["--strategy", "scr"], "there is no interface `no-such`"),
        (PROGRAM, &two, &["--strategy", "rss"], "a strategy of XDP programs is"),
        (PROGRAM, &two, &[], "a strategy of XDP programs is"),
        (PROGRAM, &two, &["--strategy", "scr", "--record", "x.pcap"], "cannot be used with"),
        (PROGRAM, &["--mirror", "lo"], &["--strategy", "scr"], "cannot be used with"),
        (PROGRAM, &["--pcap", "captures/edge.pcap"], &["--strategy", "scr"], "cannot be used with"),
    ];
    for (program, place, rest, why) in cases {
        let output = paceline(&[&["run", program, "--backend", "xdp"], place, rest].concat());
        assert_eq!(output.status.code(), Some(2), "{place:?} {rest:?}");
        assert!(stderr(&output).contains(why), "{place:?} {rest:?}: {}", stderr(&output));
    }
    let chain =
        paceline(&["run", "examples/edge.toml", "--pcap", "captures/edge.pcap", "--strategy", "sharded"]);
    assert_eq!(chain.status.code(), Some(2));
    assert!(stderr(&chain).contains("Use --strategy rss for a chain"), "{}", stderr(&chain));
}
