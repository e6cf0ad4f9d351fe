//! A router in front of a narrower link: who sends more than fits is told so, and sends less.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::lab::{Lab, Namespace};
use crate::live::{number, of, transfer};
use crate::service::Run;
use crate::support::{Folder, root};

/// How long something may stand still. A busy machine holds it up.
const PATIENCE: Duration = Duration::from_secs(60);
const BYTES: usize = 2 << 20;
/// MTU of the link behind the router.
const NARROW: u32 = 1_400;
/// MTU of a route beyond it.
const NARROWER: u32 = 1_320;
/// A datagram that no link takes whole.
const DATAGRAM: usize = 4_000;

const TRACK: &str = "name = \"track\"\nfragments = \"track\"\nmalformed = \"drop\"\n\
                     [[function]]\nuse = \"conntrack\"\n[[function]]\nuse = \"flow-statistics\"\n";

/// `left` and `right` have links of 1,500 bytes. Between `gateway` and `middle`, a router of the kernel's, it is less.
struct Net {
    left: Namespace,
    gateway: Namespace,
    middle: Namespace,
    right: Namespace,
    folder: Folder,
    _lab: Lab,
}

impl Net {
    /// `label` is the test's own: its files are in a folder of that name.
    fn new(label: &str) -> Option<Net> {
        let mut lab = Lab::new("mtu")?;
        let (left, gateway) = (lab.namespace("l"), lab.namespace("g"));
        let (middle, right) = (lab.namespace("m"), lab.namespace("r"));
        lab.pair((&left, "eth0"), (&gateway, "in"));
        lab.pair((&gateway, "out"), (&middle, "eth0"));
        lab.pair((&middle, "eth1"), (&right, "eth0"));
        gateway.ip(&format!("link set out mtu {NARROW}"));
        middle.ip(&format!("link set eth0 mtu {NARROW}"));
        for (host, interface, addresses) in [
            (&left, "eth0", ["10.0.0.10/24", "2001:db8:1::10/64", "fe80::10/64"]),
            (&gateway, "in", ["10.0.0.1/24", "2001:db8:1::1/64", "fe80::1/64"]),
            (&gateway, "out", ["203.0.113.1/24", "2001:db8:2::1/64", "fe80::1/64"]),
            (&middle, "eth0", ["203.0.113.2/24", "2001:db8:2::2/64", "fe80::2/64"]),
            (&middle, "eth1", ["198.51.100.1/24", "2001:db8:3::1/64", "fe80::2/64"]),
            (&right, "eth0", ["198.51.100.2/24", "2001:db8:3::2/64", "fe80::3/64"]),
        ] {
            for address in addresses {
                let nodad = if address.contains(':') { " nodad" } else { "" };
                host.ip(&format!("addr add {address} dev {interface}{nodad}"));
            }
        }
        for (host, to, by) in [
            (&left, "default", "10.0.0.1"),
            (&left, "default", "2001:db8:1::1"),
            (&gateway, "198.51.100.0/24", "203.0.113.2"),
            (&gateway, "2001:db8:3::/64", "2001:db8:2::2"),
            (&middle, "10.0.0.0/24", "203.0.113.1"),
            (&middle, "2001:db8:1::/64", "2001:db8:2::1"),
            (&right, "default", "198.51.100.1"),
            (&right, "default", "2001:db8:3::1"),
        ] {
            let family = if by.contains(':') { "-6" } else { "-4" };
            host.ip(&format!("{family} route add {to} via {by}"));
        }
        middle.write("/proc/sys/net/ipv4/ip_forward", "1");
        middle.write("/proc/sys/net/ipv6/conf/all/forwarding", "1");
        left.offload("eth0");
        right.offload("eth0");
        let folder = Folder::new(&format!("mtu-{label}"));
        Some(Net { left, gateway, middle, right, folder, _lab: lab })
    }

    /// The router, once it and its neighbours know each other: before that the kernel resolves them, and all packets but the latest are lost.
    fn start(&self, chain: &str, strategy: &str, cores: &str) -> Run {
        for (host, address) in [
            (&self.gateway, "10.0.0.10"),
            (&self.gateway, "2001:db8:1::10"),
            (&self.gateway, "203.0.113.2"),
            (&self.gateway, "2001:db8:2::2"),
            (&self.right, "198.51.100.1"),
            (&self.right, "2001:db8:3::1"),
        ] {
            assert!(host.ping(address, 1), "{address} is a neighbour");
        }
        let mut command = self.gateway.command(env!("CARGO_BIN_EXE_paceline"));
        command.current_dir(root()).args(["run", chain, "--inside", "in", "--outside", "out"]);
        command.args(["--mode", "route", "--socket", "xdp", "--strategy", strategy, "--cores", cores]);
        command.args(["--json", "-", "--control", &self.folder.file("socket")]);
        Run::start(command)
    }

    /// From now on the router beyond has a narrower way, too.
    fn narrow(&self, to: &str) {
        self.middle.ip(&format!("route add {to} dev eth1 mtu lock {NARROWER}"));
    }

    /// What the left host knows of the way to the right one.
    fn learned(&self, address: &str) -> Option<u32> {
        let said = self.left.ip(&format!("route get {address}"));
        let mut words = said.split_whitespace().skip_while(|word| *word != "mtu");
        words.nth(1).and_then(|mtu| mtu.parse().ok())
    }

    fn both_ways(&self, address: &str) -> bool {
        transfer((&self.left, address), (&self.right, address), BYTES)
    }
}

/// A datagram there and back, and whether it came as it was.
fn echo(net: &Net, from: &str, to: &str) -> bool {
    let to: SocketAddr = to.parse().expect("one");
    let sent: Vec<u8> = (0..DATAGRAM).map(|at| ((at * 31) >> 3) as u8).collect();
    let server = net.right.bound(|| UdpSocket::bind(to));
    let client = net.left.bound(|| UdpSocket::bind(from));
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    }
    client.send_to(&sent, to).expect("it is sent");
    let mut buffer = vec![0; 2 * DATAGRAM];
    let Ok((len, peer)) = server.recv_from(&mut buffer) else { return false };
    assert!(buffer[..len] == sent, "there");
    server.send_to(&buffer[..len], peer).expect("it is sent");
    client.recv(&mut buffer).is_ok_and(|len| buffer[..len] == sent)
}

fn senders_learn(strategy: &str, cores: &str) {
    let Some(net) = Net::new(strategy) else { return };
    let chain = net.folder.file("track.toml");
    std::fs::write(&chain, TRACK).expect("a folder of the test");
    let run = net.start(&chain, strategy, cores);
    for (address, to) in [("198.51.100.2", "198.51.100.2:7000"), ("2001:db8:3::2", "[2001:db8:3::2]:7000")] {
        assert_eq!(net.learned(address), None, "{address}");
        assert!(net.both_ways(to), "TCP to {address}");
        assert_eq!(net.learned(address), Some(NARROW), "{address}: by the router's error");
    }
    // What the router beyond has to say passes through the chain.
    net.narrow("198.51.100.2/32");
    net.narrow("2001:db8:3::2/128");
    for (address, to) in [("198.51.100.2", "198.51.100.2:7001"), ("2001:db8:3::2", "[2001:db8:3::2]:7001")] {
        assert!(net.both_ways(to), "TCP to {address}");
        assert_eq!(net.learned(address), Some(NARROWER), "{address}: by the next router's error");
    }
    assert!(echo(&net, "10.0.0.10:0", "198.51.100.2:7002"), "fragments of IPv4");
    assert!(echo(&net, "[2001:db8:1::10]:0", "[2001:db8:3::2]:7002"), "fragments of IPv6");
    run.signal("-TERM");
    let report = run.ended();
    told_and_nothing_else(&report);
    assert_eq!(report["malformed"], serde_json::json!({}), "fragments are as they should be");
}

/// Packets above the MTU are all that the router dropped, and their senders were told.
fn told_and_nothing_else(report: &Value) {
    let routing = &report["routing"];
    let dropped = routing["dropped"].as_object().expect("an object");
    assert_eq!(dropped.keys().collect::<Vec<_>>(), ["above-mtu"], "{routing:#}");
    assert!(number(&routing["icmp_errors"]) >= 1, "{routing:#}");
    assert_eq!(number(&report["verdicts"]["forward"]), number(&report["packets"]), "{report:#}");
    for interface in ["in", "out"] {
        assert_eq!(of(report, interface)["lost"], serde_json::json!({}), "{interface}");
    }
}

#[test]
fn senders_learn_the_path_mtu_on_one_core() {
    senders_learn("single", "1");
}

#[test]
fn senders_learn_the_path_mtu_under_rss() {
    senders_learn("rss", "2");
}

#[test]
fn senders_learn_the_path_mtu_under_scr() {
    senders_learn("scr", "2");
}

/// Behind a NAT, the errors are about packets that the sender never saw like that.
#[test]
fn senders_behind_a_nat_learn_the_path_mtu() {
    let Some(net) = Net::new("nat") else { return };
    let chain = net.folder.nat_chain();
    let run = net.start(&chain, "single", "1");
    assert!(net.both_ways("198.51.100.2:7000"), "TCP");
    assert_eq!(net.learned("198.51.100.2"), Some(NARROW), "by the router's error");
    net.narrow("198.51.100.2/32");
    assert!(net.both_ways("198.51.100.2:7001"), "TCP");
    assert_eq!(net.learned("198.51.100.2"), Some(NARROWER), "by the next router's error");
    run.signal("-TERM");
    told_and_nothing_else(&run.ended());
}

/// The routers that traceroute names on the way from the left host, and where it ends.
fn named(net: &Net, to: &str) -> Vec<String> {
    let output = net.left.run("traceroute", &format!("-n -q 1 -N 1 -w 5 {to}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let hop = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    said.lines().skip(1).filter_map(hop).collect()
}

fn is_there() -> bool {
    let is_there = Command::new("traceroute").arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: `traceroute` (package traceroute) does not run");
    }
    is_there
}

const WAYS: [[&str; 3]; 2] =
    [["10.0.0.1", "203.0.113.2", "198.51.100.2"], ["2001:db8:1::1", "2001:db8:2::2", "2001:db8:3::2"]];

/// The other error of routers: each that a packet's time ends at is named, the gateway among them, as the kernel would be in its
/// place.
#[test]
fn traceroute_names_the_routers() {
    let Some(net) = Net::new("trace") else { return };
    if !is_there() {
        return;
    }
    let forwarding = |value: &str| {
        net.gateway.write("/proc/sys/net/ipv4/ip_forward", value);
        net.gateway.write("/proc/sys/net/ipv6/conf/all/forwarding", value);
    };
    forwarding("1");
    for stations in WAYS {
        assert_eq!(named(&net, stations[2]), stations, "the kernel");
    }
    forwarding("0");
    let chain = net.folder.file("track.toml");
    std::fs::write(&chain, TRACK).expect("a folder of the test");
    let run = net.start(&chain, "single", "1");
    for stations in WAYS {
        assert_eq!(named(&net, stations[2]), stations);
    }
    run.signal("-TERM");
    let report = run.ended();
    assert_eq!(report["routing"]["dropped"], serde_json::json!({ "ttl-expired": 2 }), "{report:#}");
}

/// Through a NAT it is named as it is known inside, and not by its external address.
#[test]
fn traceroute_names_the_routers_through_a_nat() {
    let Some(net) = Net::new("trace-nat") else { return };
    if !is_there() {
        return;
    }
    let chain = net.folder.nat_chain();
    let run = net.start(&chain, "single", "1");
    assert_eq!(named(&net, WAYS[0][2]), WAYS[0]);
    run.signal("-TERM");
    let report = run.ended();
    assert_eq!(report["routing"]["dropped"], serde_json::json!({ "ttl-expired": 1 }), "{report:#}");
}

/// What the tests above would find, if nobody were told: a host that takes no notice gets nothing through.
#[test]
fn who_takes_no_notice_of_the_path_mtu_gets_nothing_through() {
    let Some(net) = Net::new("deaf") else { return };
    net.left.ip("route add 198.51.100.0/24 via 10.0.0.1 mtu lock 1500");
    let chain = net.folder.file("track.toml");
    std::fs::write(&chain, TRACK).expect("a folder of the test");
    let run = net.start(&chain, "single", "1");
    let to = SocketAddr::from(([198, 51, 100, 2], 7_000));
    let listener = net.right.bound(|| TcpListener::bind(to));
    let mut stream = net.left.inside(|| TcpStream::connect_timeout(&to, PATIENCE)).expect("it answers");
    let (mut accepted, _) = listener.accept().expect("it connected");
    accepted.set_read_timeout(Some(Duration::from_millis(1_500))).expect("a socket");
    thread::scope(|scope| {
        scope.spawn(move || stream.write_all(&[7; 8_000]));
        assert!(accepted.read(&mut [0; 8_000]).is_err(), "full segments do not come through");
    });
    run.signal("-TERM");
    assert!(number(&run.ended()["routing"]["dropped"]["above-mtu"]) >= 1);
}
