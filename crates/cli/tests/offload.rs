//! Senders that leave checksums and segments to a card, where there is none: inside tunnels, and below devices on devices.

use serde_json::{Value, json};

use crate::live::{number, of, transfer};
use crate::service::{Lan, Run};
use crate::support::root;

const BYTES: usize = 2 << 20;

/// A network whose hosts leave everything to a card, as virtual interfaces do by default.
fn lan(label: &str) -> Option<Lan> {
    let lan = Lan::new(&format!("offload-{label}"))?;
    for host in [&lan.left, &lan.right] {
        host.offload("eth0");
    }
    Some(lan)
}

/// The program between two interfaces of the gateway, by these sockets.
fn start(lan: &Lan, interfaces: [&str; 2], socket: &str) -> Run {
    let mut command = lan.gateway.command(env!("CARGO_BIN_EXE_paceline"));
    command.current_dir(root()).args(["run", &lan.folder.file("track.toml"), "--socket", socket]);
    command.args(["--inside", interfaces[0], "--outside", interfaces[1], "--json", "-"]);
    command.args(["--control", &lan.socket()]);
    Run::start(command)
}

/// Whether a device could be made in a namespace: not every kernel has all kinds.
fn made(namespace: &crate::lab::Namespace, arguments: &str) -> bool {
    let output = namespace.run("ip", &format!("link add {arguments}"));
    if !output.status.success() {
        println!("skipped: ip link add {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

/// All packets went on, and none was lost but for want of time.
fn goes_on(report: &Value, interfaces: [&str; 2]) {
    assert_eq!(report["verdicts"]["forward"], report["packets"], "{report:#}");
    for interface in interfaces.map(|name| of(report, name)) {
        let lost = interface["lost"].as_object().expect("an object");
        let by_rate = ["no-buffer", "queue-full", "ring-full"];
        assert!(lost.keys().all(|reason| by_rate.contains(&reason.as_str())), "{interface:#}");
        assert!(number(&interface["completed"]) > 0, "{interface:#}");
    }
}

/// The sum that is left is the innermost, whichever the tunnel; the receiving kernel drops what is not right.
fn through_tunnels(socket: &str) {
    let Some(lan) = lan(&format!("tunnel-{socket}")) else { return };
    let hosts = [(&lan.left, "192.0.2.1", "192.0.2.2", 1), (&lan.right, "192.0.2.2", "192.0.2.1", 2)];
    let tunnels = [
        ("vx0", "type vxlan id 42 dstport 4789 dev eth0", "172.16.1"),
        ("vx1", "type vxlan id 43 dstport 4790 dev eth0 noudpcsum", "172.16.2"),
        ("gen0", "type geneve id 42", "172.16.3"),
        ("gre9", "type gretap key 7", "172.16.4"),
        ("ip9", "type ipip", "172.16.5"),
    ];
    let mut there = Vec::new();
    for (name, kind, net) in tunnels {
        let all = hosts.iter().all(|(host, own, peer, number)| {
            let local = if name == "gen0" { String::new() } else { format!("local {own}") };
            let is_made = made(host, &format!("{name} {kind} remote {peer} {local}"));
            if is_made {
                host.ip(&format!("addr add {net}.{number}/24 dev {name}"));
                host.ip(&format!("link set {name} up"));
            }
            is_made
        });
        there.extend(all.then_some(net));
    }
    let run = start(&lan, ["in", "out"], socket);
    for net in there {
        let address = format!("{net}.2:7000");
        assert!(transfer((&lan.left, &address), (&lan.right, &address), BYTES), "TCP to {address}");
    }
    assert!(transfer((&lan.left, "192.0.2.2:7000"), (&lan.right, "192.0.2.2:7000"), BYTES), "beside them");
    run.signal("-TERM");
    goes_on(&run.ended(), ["in", "out"]);
}

#[test]
fn what_is_left_to_a_card_in_tunnels_is_done_by_af_xdp() {
    through_tunnels("xdp");
}

#[test]
fn what_is_left_to_a_card_in_tunnels_is_done_by_af_packet() {
    through_tunnels("packet");
}

/// Devices on the interfaces of the gateway.
fn stacked(lan: &Lan, kind: &str) -> Option<[&'static str; 2]> {
    for (name, below) in [("upper-in", "in"), ("upper-out", "out")] {
        let is_made = match kind {
            "bridge" => made(&lan.gateway, &format!("{name} type bridge")),
            kind => made(&lan.gateway, &format!("{name} link {below} type {kind}")),
        };
        if !is_made {
            return None;
        }
        if kind == "bridge" {
            lan.gateway.ip(&format!("link set {below} master {name}"));
        }
        lan.gateway.ip(&format!("link set {name} up"));
    }
    Some(["upper-in", "upper-out"])
}

/// On devices on devices packets come as senders left them: by AF_XDP, whose program is the kernel's stack's there, too.
fn through_devices_on_devices(kind: &str, socket: &str, merges: bool) {
    let label = format!("{}-{socket}-{merges}", kind.split(' ').next().unwrap_or_default());
    let Some(lan) = lan(&label) else { return };
    let Some(upper) = stacked(&lan, kind) else { return };
    if merges {
        // Senders compute and segment, and the kernel below merges what it receives.
        for (namespace, interface, what) in [
            (&lan.left, "eth0", "tx off"),
            (&lan.right, "eth0", "tx off"),
            (&lan.gateway, "in", "gro on"),
            (&lan.gateway, "out", "gro on"),
        ] {
            if !namespace.run("ethtool", &format!("-K {interface} {what}")).status.success() {
                println!("skipped: `ethtool` does not run");
                return;
            }
        }
    }
    let run = start(&lan, upper, socket);
    match socket {
        "auto" => assert!(run.said.contains("AF_PACKET and not AF_XDP: packets come to"), "{}", run.said),
        "xdp" => assert!(run.said.contains("TCP is cut to the MTU (1500)"), "{}", run.said),
        _ => {}
    }
    assert!(transfer((&lan.left, "192.0.2.2:7000"), (&lan.right, "192.0.2.2:7000"), BYTES), "{kind}");
    run.signal("-TERM");
    goes_on(&run.ended(), upper);
}

#[test]
fn macvlan_is_taken_by_af_packet() {
    through_devices_on_devices("macvlan mode passthru", "auto", false);
}

#[test]
fn macvlan_is_served_by_af_xdp() {
    through_devices_on_devices("macvlan mode passthru", "xdp", false);
}

#[test]
fn merged_segments_below_macvlan_are_served_by_af_xdp() {
    through_devices_on_devices("macvlan mode passthru", "xdp", true);
}

#[test]
fn a_bridge_of_the_kernel_is_taken_by_af_packet() {
    through_devices_on_devices("bridge", "auto", false);
}

#[test]
fn a_bridge_of_the_kernel_is_served_by_af_xdp() {
    through_devices_on_devices("bridge", "xdp", false);
}

/// A single interface is as before: nothing that comes by it is merged.
#[test]
fn a_pair_is_taken_by_af_xdp() {
    let Some(lan) = lan("pair") else { return };
    let run = start(&lan, ["in", "out"], "auto");
    assert!(!run.said.contains("note:"), "{}", run.said);
    assert!(transfer((&lan.left, "192.0.2.2:7000"), (&lan.right, "192.0.2.2:7000"), BYTES), "TCP");
    run.signal("-TERM");
    let report = run.ended();
    goes_on(&report, ["in", "out"]);
    assert_eq!(of(&report, "in")["lost"], json!({}));
}
