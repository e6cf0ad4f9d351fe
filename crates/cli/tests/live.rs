//! `paceline run` on interfaces: real connections through real sockets, in network namespaces of the test's own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lab::{Lab, Namespace};
use crate::support::{Folder, end, paceline, root, stderr};

/// What a tracker and a list of flows see, and let through.
const TRACK: &str = "[[function]]\nuse = \"conntrack\"\n[[function]]\nuse = \"flow-statistics\"\n";

const BYTES: usize = 8 << 20;
/// How long a connection may stand still.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two hosts, and what stands between them.
struct Lan {
    left: Namespace,
    gateway: Namespace,
    right: Namespace,
    _lab: Lab,
}

impl Lan {
    fn new(label: &str) -> Option<Lan> {
        let mut lab = Lab::new(label)?;
        let (left, gateway, right) = (lab.namespace("l"), lab.namespace("g"), lab.namespace("r"));
        lab.pair((&left, "eth0"), (&gateway, "in"));
        lab.pair((&right, "eth0"), (&gateway, "out"));
        for (host, number) in [(&left, 1), (&right, 2)] {
            host.ip(&format!("addr add 192.0.2.{number}/24 dev eth0"));
            host.ip(&format!("addr add 2001:db8::{number}/64 dev eth0 nodad"));
            host.offload("eth0");
        }
        Some(Lan { left, gateway, right, _lab: lab })
    }

    /// Addresses for a router with a NAT.
    fn routed(&self) {
        self.left.ip("addr flush dev eth0");
        self.right.ip("addr flush dev eth0");
        self.left.ip("addr add 10.0.0.10/24 dev eth0");
        self.gateway.ip("addr add 10.0.0.1/24 dev in");
        self.gateway.ip("addr add 203.0.113.1/24 dev out");
        self.right.ip("addr add 203.0.113.2/24 dev eth0");
        self.left.ip("route add default via 10.0.0.1");
    }

    /// Starts the program in the middle, and waits until it runs.
    fn start(&self, arguments: &[&str]) -> Running {
        let [left, right] = self.counted();
        let mut running = start_in(&self.gateway, arguments);
        running.before = [[left; 2], [right; 2]];
        running.before.iter_mut().zip(self.counted()).for_each(|(before, counted)| before[1] = counted);
        running
    }

    fn counted(&self) -> [(u64, u64); 2] {
        [&self.left, &self.right].map(kernel)
    }

    /// Sends bytes both ways over one connection, and says whether they came as they were sent.
    fn transfer(&self, address: &str) -> bool {
        self.transfer_of(address, BYTES)
    }

    fn transfer_of(&self, address: &str, bytes: usize) -> bool {
        transfer((&self.left, address), (&self.right, address), bytes)
    }
}

fn start_in(namespace: &Namespace, arguments: &[&str]) -> Running {
    let mut command = namespace.command(env!("CARGO_BIN_EXE_paceline"));
    command.current_dir(root()).args(["run"]).args(arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut running = Running { child: Some(child), before: Default::default() };
    running.wait_until_it_runs();
    running
}

/// Connects from one host to an address that another one answers for by its own, and sends bytes both ways.
pub fn transfer((left, to): (&Namespace, &str), (right, own): (&Namespace, &str), bytes: usize) -> bool {
    let (address, own): (SocketAddr, SocketAddr) = (to.parse().expect("one"), own.parse().expect("one"));
    let sent: Vec<u8> = (0..bytes).map(|at| ((at * 31) >> 3) as u8).collect();
    let listener = right.bound(|| TcpListener::bind(own));
    listener.set_nonblocking(true).expect("a socket");
    thread::scope(|scope| {
        let echo = scope.spawn(|| -> std::io::Result<()> {
            let mut stream = accept(&listener)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            let mut reader = stream.try_clone()?;
            std::io::copy(&mut reader, &mut stream)?;
            stream.shutdown(std::net::Shutdown::Write)
        });
        let connect = || TcpStream::connect_timeout(&address, PATIENCE);
        let mut stream = left.inside(connect).expect("it answers");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
        let mut writer = stream.try_clone().expect("a socket");
        let to_send = sent.as_slice();
        scope.spawn(move || {
            let written = writer.write_all(to_send);
            written.and_then(|()| writer.shutdown(std::net::Shutdown::Write))
        });
        let mut received = Vec::new();
        let read = stream.read_to_end(&mut received);
        read.is_ok() && received == sent && echo.join().is_ok_and(|echo| echo.is_ok())
    })
}

/// The next connection, if one comes soon.
fn accept(listener: &TcpListener) -> std::io::Result<TcpStream> {
    let begin = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => return stream.set_nonblocking(false).map(|()| stream),
            Err(error) if begin.elapsed() > PATIENCE => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// The program, ended with the test at the latest.
struct Running {
    child: Option<Child>,
    /// What the kernel had counted at both hosts just before and just after it began: a host says something of its own
    /// now and then.
    before: [[(u64, u64); 2]; 2],
}

impl Running {
    fn wait_until_it_runs(&mut self) {
        let Some(stderr) = self.child.as_mut().and_then(|child| child.stderr.as_mut()) else { return };
        let (mut said, mut byte) = (String::new(), [0]);
        while !said.contains("Ctrl-C ends it") && stderr.read(&mut byte).is_ok_and(|read| read == 1) {
            said.push(char::from(byte[0]));
        }
        assert!(said.contains("Ctrl-C ends it"), "{said}");
    }

    /// Asks it to terminate, and reads its report.
    fn end(self) -> Value {
        let output = self.terminate();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{text}\n{}", stderr(&output));
        serde_json::from_str(&text).expect("a report")
    }

    /// Asks it to terminate, and returns what it said, whether or not that is a report.
    fn terminate(mut self) -> Output {
        let child = self.child.take().expect("it runs");
        let begin = Instant::now();
        let pid = child.id().to_string();
        // `ip netns exec` becomes the program itself.
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
        let output = child.wait_with_output().expect("it ends");
        assert!(begin.elapsed() < PATIENCE, "it ends at once: {:?}", begin.elapsed());
        output
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            end(child);
        }
    }
}

pub fn of<'a>(report: &'a Value, interface: &str) -> &'a Value {
    let interfaces = report["interfaces"].as_array().expect("a list");
    interfaces.iter().find(|found| found["name"] == interface).expect("it is there")
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a number"))
}

/// What the kernel counts at the other end of a pair: what it sent, and what it received.
fn kernel(host: &Namespace) -> (u64, u64) {
    let said: Value = serde_json::from_str(&host.ip("-s -j link show dev eth0")).expect("JSON of ip");
    let count = |side: &str| number(&said[0]["stats64"][side]["packets"]);
    (count("tx"), count("rx"))
}

/// Everything that the hosts sent is in the report, and so is everything that they got; nothing is lost, and nothing
/// stays with the program.
fn adds_up(lan: &Lan, before: [[(u64, u64); 2]; 2], end: [(u64, u64); 2], report: &Value) {
    let packets = number(&report["packets"]);
    let verdicts = &report["verdicts"];
    assert_eq!(number(&verdicts["forward"]), packets, "{report:#}");
    let mut left = 0;
    let hosts = [(&lan.left, "in"), (&lan.right, "out")];
    for (((host, interface), [first, begun]), ending) in hosts.into_iter().zip(before).zip(end) {
        let ended = kernel(host);
        let of_interface = of(report, interface);
        assert_eq!(of_interface["lost"], serde_json::json!({}), "{interface}");
        let is_sent = ending.0 - begun.0..=ended.0 - first.0;
        assert!(
            is_sent.contains(&number(&of_interface["received"])),
            "{interface}: the host sent {is_sent:?}"
        );
        let is_received = ending.1 - begun.1..=ended.1 - first.1;
        assert!(
            is_received.contains(&number(&of_interface["sent"])),
            "{interface}: the host got {is_received:?}"
        );
        left += number(&of_interface["sent"]);
    }
    assert_eq!(left, packets);
}

fn through_a_bridge(strategy: &str, cores: &str, socket: &str) {
    let Some(lan) = Lan::new("bridge") else { return };
    let folder = Folder::new(&format!("live-bridge-{strategy}-{socket}"));
    let chain = folder.file("track.toml");
    std::fs::write(&chain, TRACK).expect("a folder of the test");
    let bridge = ["--inside", "in", "--outside", "out", "--strategy", strategy, "--cores", cores];
    let bridge = [&bridge[..], &["--socket", socket]].concat();
    let running = lan.start(&[&[chain.as_str(), "--json", "-"], &bridge[..]].concat());
    assert!(lan.left.ping("192.0.2.2", 3), "echo requests are answered");
    assert!(lan.transfer("192.0.2.2:7000"), "TCP over IPv4");
    assert!(lan.transfer("[2001:db8::2]:7000"), "TCP over IPv6");
    let (before, ending) = (running.before, lan.counted());
    let report = running.end();
    adds_up(&lan, before, ending, &report);
    let conntrack = &report["functions"][0];
    assert_eq!(number(&conntrack["events"]["established"]), 2, "TCP over IPv4 and IPv6: {conntrack:#}");
}

#[test]
fn through_a_bridge_on_one_core() {
    through_a_bridge("single", "1", "xdp");
}

#[test]
fn through_a_bridge_by_rss() {
    through_a_bridge("rss", "2", "xdp");
}

#[test]
fn through_a_bridge_by_rsspp() {
    through_a_bridge("rsspp", "2", "xdp");
}

#[test]
fn through_a_bridge_by_dyssect() {
    through_a_bridge("dyssect", "2", "xdp");
}

#[test]
fn through_a_bridge_by_scr() {
    through_a_bridge("scr", "2", "xdp");
}

#[test]
fn through_a_bridge_by_af_packet() {
    through_a_bridge("single", "1", "packet");
    through_a_bridge("scr", "2", "packet");
}

/// A router with NAT, tracker and policer: hosts inside reach those outside, nobody the other way round.
fn through_the_gateway(strategy: &str, cores: &str) {
    let Some(lan) = Lan::new("router") else { return };
    lan.routed();
    let route = ["--inside", "in", "--outside", "out", "--mode", "route", "--socket", "xdp"];
    let rest = ["examples/gateway.toml", "--strategy", strategy, "--cores", cores, "--json", "-"];
    let running = lan.start(&[&rest[..], &route[..]].concat());
    assert!(lan.left.ping("10.0.0.1", 2), "the gateway itself is the kernel's");
    // The first one waits while the kernel resolves the neighbour, and may be late.
    lan.left.ping("203.0.113.2", 1);
    assert!(lan.left.ping("203.0.113.2", 3), "a host outside");
    assert!(lan.transfer("203.0.113.2:7000"), "TCP through NAT");
    lan.right.ip("route add 10.0.0.0/24 via 203.0.113.1");
    assert!(!lan.right.ping_once("10.0.0.10", 1), "a stranger gets no answer");
    let report = running.end();
    let routing = &report["routing"];
    assert!(number(&routing["sent"]) > 0, "{routing}");
    let nat = report["functions"].as_array().and_then(|all| all.last()).expect("a function");
    assert_eq!(nat["name"], "nat");
    for interface in ["in", "out"] {
        assert_eq!(of(&report, interface)["lost"], serde_json::json!({}), "{interface}");
    }
}

#[test]
fn through_the_gateway_on_one_core() {
    through_the_gateway("single", "1");
}

#[test]
fn through_the_gateway_by_rss() {
    through_the_gateway("rss", "2");
}

#[test]
fn through_the_gateway_by_scr() {
    through_the_gateway("scr", "2");
}

/// A sender behind the NAT is told why its packets go nowhere, though the router knows no interface for them.
#[test]
fn errors_about_packets_without_a_route_reach_their_sender() {
    let Some(lan) = Lan::new("no-route") else { return };
    lan.routed();
    lan.gateway.ip("route add unreachable 198.18.0.0/16");
    lan.gateway.ip("route add prohibit 198.19.0.0/16");
    let route = ["--inside", "in", "--outside", "out", "--mode", "route", "--socket", "xdp"];
    let running = lan.start(&[&["examples/gateway.toml", "--json", "-"], &route[..]].concat());
    // Of what is to leave by an unknown neighbour only the latest packet waits.
    assert!(lan.left.ping("10.0.0.1", 2), "the gateway itself is the kernel's");
    for (to, why) in [
        ("192.0.2.77", "From 10.0.0.1 icmp_seq=1 Destination Net Unreachable"),
        ("198.18.0.1", "From 10.0.0.1 icmp_seq=1 Destination Host Unreachable"),
        ("198.19.0.1", "From 10.0.0.1 icmp_seq=1 Packet filtered"),
    ] {
        let output = lan.left.run("ping", &format!("-n -W 5 -c 1 {to}"));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(why), "{to}: {said}");
    }
    let report = running.end();
    assert_eq!(number(&report["routing"]["icmp_errors"]), 3, "{report:#}");
    let nat = report["functions"].as_array().and_then(|all| all.last()).expect("a function");
    assert_eq!(number(&nat["verdicts"]["drop"]), 0, "{nat:#}");
}

/// The live oracle: what came in, with its times, through one core gives what left, byte by byte. Time counts: packets
/// are dropped by rate.
fn what_left_is_what_one_core_makes(strategy: &str, cores: &str) {
    what_left_is_what_one_core_makes_with(strategy, cores, &[]);
}

/// The run's report; none where there is no lab.
fn what_left_is_what_one_core_makes_with(strategy: &str, cores: &str, more: &[&str]) -> Option<Value> {
    let lan = Lan::new("oracle")?;
    let folder = Folder::new(&format!("live-oracle-{strategy}-{}", more.len()));
    let (came_in, left, again) = (folder.file("in.pcap"), folder.file("out.pcap"), folder.file("again.pcap"));
    let chain = "examples/edge.toml";
    let record = ["--record", &came_in, "--out", &left, "--strategy", strategy, "--cores", cores];
    let bridge = ["--inside", "in", "--outside", "out", "--json", "-"];
    let running = lan.start(&[&[chain], &bridge[..], &record[..], more].concat());
    assert!(lan.left.ping("192.0.2.2", 3));
    let mut of_flows = Vec::new();
    for port in 7001..7004 {
        of_flows.push(lan.transfer_of(&format!("192.0.2.2:{port}"), 1 << 20));
    }
    let report = running.end();
    assert_eq!(of_flows, [true; 3]);
    let once = paceline(&["run", chain, "--pcap", &came_in, "--out", &again, "--json", "-"]);
    assert_eq!(once.status.code(), Some(0), "{}", stderr(&once));
    let once: Value = serde_json::from_slice(&once.stdout).expect("a report");
    assert_eq!(once["verdicts"], report["verdicts"]);
    assert_eq!(once["digest"], report["digest"], "every flow's state");
    let read = |path: &str| std::fs::read(path).expect("a capture");
    assert!(read(&left) == read(&again), "every byte that left, with its time");
    // A capture that lacks a packet is told from it: the comparison sees what it should.
    let mut fewer = read(&came_in);
    let first_len = 16 + u32::from_le_bytes([fewer[32], fewer[33], fewer[34], fewer[35]]) as usize;
    fewer.drain(24..24 + first_len);
    std::fs::write(&came_in, fewer).expect("a folder of the test");
    assert_eq!(paceline(&["run", chain, "--pcap", &came_in, "--out", &again]).status.code(), Some(0));
    assert!(read(&left) != read(&again));
    Some(report)
}

#[test]
fn what_left_is_what_one_core_makes_on_one_core() {
    what_left_is_what_one_core_makes("single", "1");
}

#[test]
fn what_left_is_what_one_core_makes_by_rss() {
    what_left_is_what_one_core_makes("rss", "2");
}

#[test]
fn what_left_is_what_one_core_makes_by_rsspp() {
    what_left_is_what_one_core_makes("rsspp", "2");
}

#[test]
fn what_left_is_what_one_core_makes_by_dyssect() {
    what_left_is_what_one_core_makes("dyssect", "2");
}

#[test]
fn what_left_is_what_one_core_makes_by_dyssect_behind_a_card() {
    let card = ["--card-flows", "1000", "--move-every", "500"];
    let Some(report) = what_left_is_what_one_core_makes_with("dyssect", "2", &card) else { return };
    println!("{}", report["moves"]);
    assert!(number(&report["moves"]["referred_packets"]) > number(&report["packets"]) / 2, "{report:#}");
}

#[test]
fn what_left_is_what_one_core_makes_by_scr() {
    what_left_is_what_one_core_makes("scr", "2");
}

/// A capture that cannot be written is told of at once; the run goes on, and neither its report nor its other capture is
/// lost. A full disk, as the device for it has it.
fn a_full_disk_takes_no_report(full: &str, healthy: &str) {
    let Some(lan) = Lan::new("full") else { return };
    let folder = Folder::new(&format!("live-full{full}"));
    let (other, report, socket) = (folder.file("other.pcap"), folder.file("l.json"), folder.file("ctl"));
    let chain = folder.file("track.toml");
    std::fs::write(&chain, TRACK).expect("a folder of the test");
    let bridge = ["--inside", "in", "--outside", "out", "--json", &report, "--control", &socket];
    let captures = [full, "/dev/full", healthy, &other];
    let running = lan.start(&[&[chain.as_str()], &bridge[..], &captures[..]].concat());
    assert!(lan.transfer_of("192.0.2.2:7000", 2 << 20), "packets pass all the same");
    let status = paceline(&["ctl", "--control", &socket, "status"]);
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(said.contains("cannot write /dev/full: No space left on device"), "{said}{}", stderr(&status));
    let output = running.terminate();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("note: cannot write /dev/full: No space left on device"), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("digest of all flows"), "the report");
    let report: Value = serde_json::from_slice(&std::fs::read(&report).expect("JSON")).expect("a report");
    let again = paceline(&["run", &chain, "--pcap", &other, "--json", "-"]);
    let again: Value = serde_json::from_slice(&again.stdout).expect("the healthy capture is whole");
    assert_eq!(again["packets"], report["packets"]);
}

#[test]
fn a_full_disk_of_record_takes_no_report() {
    a_full_disk_takes_no_report("--record", "--out");
}

#[test]
fn a_full_disk_of_out_takes_no_report() {
    a_full_disk_takes_no_report("--out", "--record");
}

/// A balancer beside the way: clients reach a service by an address that no host has, and the backend's answers come
/// from there, by one interface.
#[test]
fn a_balancer_with_one_arm() {
    let Some(mut lab) = Lab::new("arm") else { return };
    let (lan, client, gateway, backend) =
        (lab.namespace("lan"), lab.namespace("c"), lab.namespace("g"), lab.namespace("b"));
    lan.ip("link add br0 type bridge");
    lan.ip("link set br0 up");
    for (port, host, number) in [("p0", &client, 1), ("p1", &gateway, 254), ("p2", &backend, 21)] {
        lab.pair((&lan, port), (host, "eth0"));
        lan.ip(&format!("link set {port} master br0"));
        host.ip(&format!("addr add 198.51.100.{number}/24 dev eth0"));
        host.offload("eth0");
    }
    client.ip("route add 198.51.100.10/32 via 198.51.100.254");
    backend.ip("route add 198.51.100.1/32 via 198.51.100.254");
    let folder = Folder::new("live-arm");
    let chain = folder.file("balance.toml");
    let service = "[[function]]\nuse = \"load-balancer\"\nrewrite_answers = true\n\
                   [[function.services]]\nvip = \"198.51.100.10\"\nport = 80\nprotocol = \"tcp\"\n\
                   backends = [{ address = \"198.51.100.21\", port = 8080 }]\n";
    std::fs::write(&chain, service).expect("a folder of the test");
    let running = start_in(&gateway, &[&chain, "--on", "eth0", "--socket", "xdp", "--json", "-"]);
    assert!(client.ping("198.51.100.254", 2), "the host itself is the kernel's");
    // Neighbours first: of packets to one that is unknown only the latest waits.
    gateway.ping("198.51.100.21", 1);
    gateway.ping("198.51.100.1", 1);
    std::thread::sleep(Duration::from_millis(50));
    assert!(transfer((&client, "198.51.100.10:80"), (&backend, "198.51.100.21:8080"), BYTES));
    let report = running.end();
    assert_eq!(of(&report, "eth0")["lost"], serde_json::json!({}));
    let routing = &report["routing"];
    assert_eq!(number(&routing["sent"]), number(&routing["hairpins"]), "{routing}");
    assert!(number(&routing["sent"]) > 1_000, "{routing}");
}

/// What a chain drops does not arrive: ports that an access list does not allow.
#[test]
fn what_is_dropped_does_not_arrive() {
    let Some(lan) = Lan::new("list") else { return };
    let folder = Folder::new("live-list");
    let chain = folder.file("list.toml");
    let list = "[[function]]\nuse = \"access-list\"\ndefault = \"allow\"\n\
                rules = [\"deny udp from any to any port 53\"]\n";
    std::fs::write(&chain, list).expect("a folder of the test");
    let running = lan.start(&[&chain, "--inside", "in", "--outside", "out", "--json", "-"]);
    let receive = |port: u16, within: Duration| {
        let socket = lan.right.bound(|| UdpSocket::bind(("192.0.2.2", port)));
        socket.set_read_timeout(Some(within)).expect("a socket");
        let send = || UdpSocket::bind("192.0.2.1:0")?.send_to(b"hello", ("192.0.2.2", port));
        lan.left.inside(send).expect("it is sent");
        socket.recv(&mut [0; 16]).is_ok()
    };
    assert!(receive(54, PATIENCE), "an open port");
    assert!(!receive(53, Duration::from_millis(700)), "a port that the list denies");
    let report = running.end();
    assert_eq!(number(&report["functions"][0]["verdicts"]["drop"]), 1);
}

/// A mirror sees what a host sends, and sends nothing itself.
#[test]
fn a_mirror_sends_nothing() {
    let Some(lan) = Lan::new("mirror") else { return };
    let folder = Folder::new("live-mirror");
    let chain = folder.file("track.toml");
    std::fs::write(&chain, TRACK).expect("a folder of the test");
    let running = lan.start(&[&chain, "--mirror", "in", "--json", "-"]);
    assert!(!lan.left.ping_once("192.0.2.2", 2), "nobody answers");
    let report = running.end();
    let interface = of(&report, "in");
    assert!(number(&interface["received"]) > 0, "{interface}");
    assert_eq!(number(&interface["sent"]), 0);
    assert_eq!(kernel(&lan.left).1, 0);
}

#[test]
fn what_cannot_be_is_said() {
    let with = |arguments: &[&str]| {
        let output = paceline(&[&["run", "examples/edge.toml"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        stderr(&output)
    };
    let absent = with(&["--inside", "no-such-interface", "--outside", "lo"]);
    assert!(
        absent.contains("no interface `no-such-interface`") && absent.contains("There are: "),
        "{absent}"
    );
    for (arguments, expected) in [
        (&["--inside", "lo"][..], "--outside"),
        (&["--inside", "lo", "--outside", "lo"], "inside and outside are one interface"),
        (&["--mirror", "lo", "--on", "lo"], "cannot be used with"),
        (&["--mirror", "lo", "--pcap", "captures/edge.pcap"], "cannot be used with"),
        (&["--mirror", "lo", "--speed", "1"], "for captures"),
        (&[], "--pcap"),
    ] {
        let said = with(arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let Some(lan) = Lan::new("down") else { return };
    lan.gateway.ip("link set in down");
    let mut command = lan.gateway.command(env!("CARGO_BIN_EXE_paceline"));
    let output = command.current_dir(root()).args(["run", "examples/edge.toml", "--mirror", "in"]).output();
    let said = stderr(&output.expect("it starts"));
    assert!(said.contains("interface `in` is down") && said.contains("ip link set in up"), "{said}");
}
