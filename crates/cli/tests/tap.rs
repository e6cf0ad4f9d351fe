//! TAP interfaces in place of cards: as root, who has them made, and as a user who was given two.
//!
//! ```text
//!   left eth0 ── in ┐                                     ┌ out ── eth0 right
//!                   br0 ── tap0  [this program]  tap1 ── br1
//! ```

use std::fs;
use std::io::Read;
use std::process::Stdio;

use serde_json::json;

use crate::live::{number, of, transfer};
use crate::service::{Lan, Run};
use crate::support::vlan::has_devices;
use crate::support::{root, stderr};

const BYTES: usize = 2 << 20;

/// Two hosts, each at a bridge of the kernel; TAP interfaces join them.
fn lan(label: &str) -> Option<Lan> {
    let lan = Lan::new(&format!("tap-{label}")).filter(|_| has_devices())?;
    for (bridge, port) in [("br0", "in"), ("br1", "out")] {
        lan.gateway.ip(&format!("link add name {bridge} up type bridge"));
        lan.gateway.ip(&format!("link set {port} master {bridge}"));
    }
    Some(lan)
}

fn join(lan: &Lan) {
    for (bridge, tap) in [("br0", "tap0"), ("br1", "tap1")] {
        lan.gateway.ip(&format!("link set {tap} master {bridge}"));
    }
}

const TAPS: [&str; 4] = ["--inside", "tap:tap0", "--outside", "tap:tap1"];

fn start(lan: &Lan, before: &[&str], more: &[&str]) -> Run {
    let mut words = before.to_vec();
    words.push(env!("CARGO_BIN_EXE_paceline"));
    let mut command = lan.gateway.command(words[0]);
    command.current_dir(root()).args(&words[1..]).args(["run", &lan.folder.file("track.toml")]).args(TAPS);
    command.args(["--json", "-", "--control", &lan.socket()]).args(more);
    Run::start(command)
}

fn carries(lan: &Lan, run: Run) {
    assert!(lan.left.ping("192.0.2.2", 3), "echo requests are answered: {}", run.said);
    assert!(transfer((&lan.left, "192.0.2.2:7000"), (&lan.right, "192.0.2.2:7000"), BYTES), "TCP");
    assert!(run.said.contains("tap0: tun, ") && run.said.contains("MTU 1500, TAP"), "{}", run.said);
    run.signal("-TERM");
    let report = run.ended();
    // The bridges say something of their own now and then.
    assert!(number(&report["functions"][0]["events"]["opened"]) >= 1, "{report:#}");
    assert_eq!(report["verdicts"]["forward"], report["packets"], "{report:#}");
    for tap in ["tap0", "tap1"] {
        let tap = of(&report, tap);
        assert_eq!(tap["lost"], json!({}), "{report:#}");
        assert!(number(&tap["received_bytes"]) > BYTES as u64 && number(&tap["sent"]) > 0, "{report:#}");
    }
    let sent = |name: &str| number(&of(&report, name)["sent"]);
    let received = |name: &str| number(&of(&report, name)["received"]);
    assert_eq!((sent("tap0"), sent("tap1")), (received("tap1"), received("tap0")), "{report:#}");
}

#[test]
fn packets_go_from_one_tap_interface_to_another() {
    for (strategy, cores) in [("single", "1"), ("rss", "2")] {
        let Some(lan) = lan(strategy) else { return };
        let run = start(&lan, &[], &["--strategy", strategy, "--cores", cores]);
        join(&lan);
        carries(&lan, run);
        let left = lan.gateway.ip("-br link show");
        assert!(!left.contains("tap0"), "what the run made goes with it: {left}");
    }
}

#[test]
fn a_user_without_rights_takes_interfaces_that_were_made_for_him() {
    const NOBODY: &str = "65534";
    let Some(lan) = lan("user") else { return };
    // Most machines let everybody open the device; it is so here for the run, whose mounts are its own.
    let device = lan.folder.file("tun");
    let own = format!(
        "mknod {device} c 10 200 && chmod 666 {device} && mount --bind {device} /dev/net/tun && \
         exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups \"$@\""
    );
    let as_user = ["unshare", "--mount", "sh", "-c", &own, "sh"];
    let mut version = lan.gateway.command(as_user[0]);
    version.args(&as_user[1..]).args([env!("CARGO_BIN_EXE_paceline"), "--version"]);
    if !version.output().is_ok_and(|output| output.status.success()) {
        println!("skipped: another user cannot start the program here");
        return;
    }
    fs::remove_file(&device).expect("it was made");
    for tap in ["tap0", "tap1"] {
        lan.gateway.ip(&format!("tuntap add dev {tap} mode tap user {NOBODY}"));
        lan.gateway.ip(&format!("link set {tap} up"));
    }
    join(&lan);
    // The socket is made in the test's folder.
    std::os::unix::fs::chown(lan.folder.file(""), Some(65_534), None).expect("root may");
    let run = start(&lan, &as_user, &[]);
    carries(&lan, run);
    assert!(lan.gateway.ip("-br link show").contains("tap0"), "it was there before");
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let Some(lan) = lan("refused") else { return };
    fs::write(lan.folder.file("none.toml"), "[[function]]\nuse = \"conntrack\"\n")
        .expect("a folder of the test");
    let refused = |arguments: &[&str]| {
        let mut command = lan.gateway.command(env!("CARGO_BIN_EXE_paceline"));
        command.current_dir(root()).arg("run").arg(lan.folder.file("none.toml")).args(arguments);
        let output = command.output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        stderr(&output)
    };
    let route = refused(&[&TAPS[..], &["--mode", "route"]].concat());
    assert!(route.contains("Use --mode bridge"), "{route}");
    let no_tap = refused(&["--inside", "tap:in", "--outside", "tap:tap1"]);
    assert!(no_tap.contains("it is no TAP interface"), "{no_tap}");
    let long = refused(&["--inside", "tap:a-name-of-16-chars", "--outside", "tap:tap1"]);
    assert!(long.contains("up to 15 letters"), "{long}");
    let mut command = lan.gateway.command(env!("CARGO_BIN_EXE_paceline"));
    command
        .current_dir(root())
        .arg("run")
        .arg(lan.folder.file("track.toml"))
        .args(TAPS)
        .args(["--control", &lan.socket()]);
    let mut first = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = first.stderr.take().expect("piped");
    let (mut byte, mut all) = ([0], String::new());
    while !all.contains("Ctrl-C ends it") && said.read(&mut byte).is_ok_and(|read| read == 1) {
        all.push(char::from(byte[0]));
    }
    let busy = refused(&TAPS);
    let _ = (first.kill(), first.wait());
    assert!(busy.contains("Another program has it"), "{busy} {all}");
}
