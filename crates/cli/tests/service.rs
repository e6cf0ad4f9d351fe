//! A run as a service: what it tells the service manager, and which rights it keeps.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lab::{Lab, Namespace};
use crate::support::{Folder, end, paceline, root, stderr, stdout};
use crate::web::message;

const TRACK: &str = "name = \"track\"\n[[function]]\nuse = \"conntrack\"\n";
/// A busy machine's threads take their time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two hosts, and what stands between them, as a bridge or as a router.
pub struct Lan {
    pub left: Namespace,
    pub gateway: Namespace,
    pub right: Namespace,
    pub folder: Folder,
    lab: Lab,
}

impl Lan {
    /// `label` is the test's own: its files are in a folder of that name.
    pub fn new(label: &str) -> Option<Lan> {
        Lan::with_queues(label, 1)
    }

    /// A lan with so many queues at each interface.
    pub fn with_queues(label: &str, queues: u32) -> Option<Lan> {
        let mut lab = Lab::new("service")?;
        let (left, gateway, right) = (lab.namespace("l"), lab.namespace("g"), lab.namespace("r"));
        lab.pair_of((&left, "eth0"), (&gateway, "in"), queues);
        lab.pair_of((&right, "eth0"), (&gateway, "out"), queues);
        for (host, number) in [(&left, 1), (&right, 2)] {
            host.ip(&format!("addr add 192.0.2.{number}/24 dev eth0"));
        }
        let folder = Folder::new(&format!("service-{label}"));
        fs::write(folder.file("track.toml"), TRACK).expect("a folder of the test");
        Some(Lan { left, gateway, right, folder, lab })
    }

    /// Addresses for a router with a NAT.
    pub fn routed(&self) {
        for host in [&self.left, &self.right] {
            host.ip("addr flush dev eth0");
        }
        self.left.ip("addr add 10.0.0.10/24 dev eth0");
        self.left.ip("route add default via 10.0.0.1");
        self.gateway.ip("addr add 10.0.0.1/24 dev in");
        self.gateway.ip("addr add 203.0.113.1/24 dev out");
        self.right.ip("addr add 203.0.113.2/24 dev eth0");
    }

    /// Another pair of interfaces.
    pub fn pair(&self, left: (&Namespace, &str), right: (&Namespace, &str)) {
        self.lab.pair(left, right);
    }

    pub fn socket(&self) -> String {
        self.folder.file("socket")
    }

    /// The program in the middle, with its control socket in the test's folder, waited for until it runs.
    pub fn start(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Run {
        let mut command = self.gateway.command(env!("CARGO_BIN_EXE_paceline"));
        command.current_dir(root()).arg("run").args(arguments).args(["--inside", "in", "--outside", "out"]);
        command.args(["--json", "-", "--control", &self.socket()]).envs(environment.iter().copied());
        Run::start(command)
    }

    pub fn ctl(&self, arguments: &[&str]) -> String {
        let output = paceline(&[&["ctl", "--control", &self.socket()], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).expect("text")
    }
}

/// The program, ended with the test at the latest.
pub struct Run {
    child: Option<Child>,
    /// What it said before it ran.
    pub said: String,
}

impl Run {
    pub fn start(mut command: Command) -> Run {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut run = Run { child: Some(child), said: String::new() };
        run.hear("Ctrl-C ends it");
        run
    }

    /// Reads what it says until it has said this.
    pub fn hear(&mut self, expected: &str) {
        let stderr = self.child.as_mut().and_then(|child| child.stderr.as_mut()).expect("piped");
        let (mut byte, from) = ([0], self.said.len());
        while !self.said[from..].contains(expected) && stderr.read(&mut byte).is_ok_and(|read| read == 1) {
            self.said.push(char::from(byte[0]));
        }
        assert!(self.said[from..].contains(expected), "{}", self.said);
    }

    pub fn pid(&self) -> String {
        self.child.as_ref().expect("it runs").id().to_string()
    }

    pub fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.pid()]).status().expect("kill runs").success());
    }

    /// Waits for its end, which was asked for, and reads its report.
    pub fn ended(mut self) -> Value {
        let output = self.child.take().expect("it runs").wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{text}\n{}", stderr(&output));
        serde_json::from_str(&text).expect("a report")
    }

    /// `kill -9`, and its end.
    pub fn die(mut self) {
        self.signal("-KILL");
        let _ = self.child.take().expect("it runs").wait();
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            end(child);
        }
    }
}

/// What a service manager hears until one of its datagrams has this line.
pub fn heard(manager: &UnixDatagram, expected: &str) -> Vec<String> {
    let (begin, mut all, mut buffer) = (Instant::now(), Vec::new(), [0; 4_096]);
    manager.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket");
    while begin.elapsed() < PATIENCE {
        let Ok(len) = manager.recv(&mut buffer) else { continue };
        all.push(String::from_utf8(buffer[..len].to_vec()).expect("text"));
        if all.iter().any(|datagram| datagram.lines().any(|line| line == expected)) {
            return all;
        }
    }
    panic!("no {expected} in {all:?}");
}

#[test]
fn a_service_manager_hears_how_it_goes_on() {
    let Some(lan) = Lan::new("notify") else { return };
    let path = lan.folder.file("notify");
    let manager = UnixDatagram::bind(&path).expect("a folder of the test");
    let chain = lan.folder.file("track.toml");
    let run = lan.start(&[&chain], &[("NOTIFY_SOCKET", &path), ("WATCHDOG_USEC", "400000")]);
    let ready = heard(&manager, "READY=1");
    assert!(ready.concat().contains("STATUS=track runs, strategy single on 1 core"), "{ready:?}");
    // It goes on to say so, though no packet comes.
    for _ in 0..3 {
        heard(&manager, "WATCHDOG=1");
    }
    run.signal("-HUP");
    let reloading = heard(&manager, "RELOADING=1");
    let monotonic =
        reloading.last().and_then(|last| last.lines().find(|line| line.starts_with("MONOTONIC_USEC=")));
    let monotonic = monotonic.and_then(|line| line["MONOTONIC_USEC=".len()..].parse::<u64>().ok());
    assert!(monotonic.is_some_and(|at| at > 0), "{reloading:?}");
    heard(&manager, "READY=1");
    run.signal("-TERM");
    heard(&manager, "STOPPING=1");
    run.ended();
}

/// The unit starts a program that there is: each option of its line is one of `paceline run`.
#[test]
fn the_unit_starts_this_program() {
    let unit = fs::read_to_string(root().join("packaging/paceline@.service")).expect("it is there");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("it starts something");
    let mut words = line.split_whitespace();
    assert_eq!(Path::new(words.next().expect("a program")).file_name().expect("a name"), "paceline");
    let command = words.next().expect("a command");
    let help = paceline(&[command, "--help"]);
    assert!(help.status.success(), "{command} is a command");
    let help = String::from_utf8(help.stdout).expect("text");
    let is_there = |option: &str| help.lines().any(|line| line.split([' ', ',']).any(|word| word == option));
    let readme = fs::read_to_string(root().join("packaging/README.md")).expect("it is there");
    let options = readme.lines().filter(|line| line.starts_with("PACELINE_OPTIONS="));
    let options: Vec<&str> = options.flat_map(|line| line.split([' ', '"', '='])).collect();
    let mut seen = 0;
    for option in words.chain(options).filter(|word| word.starts_with("--")) {
        assert!(is_there(option), "{command} has {option}");
        seen += 1;
    }
    assert!(seen > 2, "{seen} options");
    assert!(!is_there("--no-such-option"), "the comparison sees what it should");
    // What the page explains is what the unit gives.
    let given =
        unit.lines().find_map(|line| line.strip_prefix("AmbientCapabilities=")).expect("it gives some");
    for capability in given.split_whitespace() {
        assert!(readme.contains(&format!("| `{capability}` |")), "{capability} is explained");
    }
}

/// What `/proc` says of a thread, by its name in the file.
fn status_of(path: &Path, name: &str) -> String {
    let status = fs::read_to_string(path.join("status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim_start_matches(':').trim().to_owned()
}

/// By thread: its name and the capabilities that it has.
fn capabilities(pid: &str) -> Vec<(String, u64)> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let threads = threads.flatten().map(|thread| thread.path());
    // One may have ended meanwhile.
    let threads = threads.filter(|path| !status_of(path, "Name").is_empty()).map(|path| {
        assert_eq!(status_of(&path, "NoNewPrivs"), "1", "{}", path.display());
        let [effective, permitted] = ["CapEff", "CapPrm"].map(|name| status_of(&path, name));
        assert_eq!(effective, permitted);
        (status_of(&path, "Name"), u64::from_str_radix(&effective, 16).expect("a number"))
    });
    threads.collect()
}

/// The metrics at an address.
pub fn page(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("it answers");
    page
}

/// `CAP_NET_ADMIN`, `CAP_NET_RAW`, `CAP_IPC_LOCK` and `CAP_BPF` of linux/capability.h.
const FOR_INTERFACES: u64 = 1 << 12 | 1 << 13 | 1 << 14 | 1 << 39;

#[test]
fn a_run_keeps_no_right_that_it_does_not_need() {
    let Some(lan) = Lan::new("rights") else { return };
    lan.routed();
    let [came_in, left] = ["in.pcap", "out.pcap"].map(|name| lan.folder.file(name));
    let run = lan.start(
        &[
            "examples/gateway.toml",
            "--mode",
            "route",
            "--socket",
            "xdp",
            "--record",
            &came_in,
            "--out",
            &left,
            "--metrics",
            "127.0.0.1:9104",
            "--web",
            "127.0.0.1:9105",
        ],
        &[],
    );
    assert!(run.said.contains("rights: no capabilities for packets, "), "{}", run.said);
    let threads = capabilities(&run.pid());
    let with: Vec<_> = threads.iter().filter(|(_, capabilities)| *capabilities != 0).collect();
    assert!(with.iter().all(|(_, capabilities)| capabilities & !FOR_INTERFACES == 0), "{threads:?}");
    assert!(with.len() <= 2 && threads.len() > 3, "{threads:?}");
    assert_eq!(status_of(Path::new(&format!("/proc/{}", run.pid())), "CapEff"), "0000000000000000");

    // A neighbour that nobody knows is asked for, packets are translated, metrics are told.
    lan.left.ping("203.0.113.2", 1);
    assert!(lan.left.ping("203.0.113.2", 3), "a host outside");
    std::thread::sleep(Duration::from_millis(300));
    let told = lan.gateway.inside(|| page("127.0.0.1:9104"));
    let received = told
        .lines()
        .find_map(|line| line.strip_prefix("paceline_interface_received_packets_total{interface=\"in\"} "));
    let received: u64 = received.and_then(|count| count.parse().ok()).expect("it is told");
    assert!(received >= 4, "{told}");
    let shown = lan.gateway.inside(|| message("127.0.0.1:9105", 4));
    let names: Vec<_> =
        shown["interfaces"].as_array().expect("a list").iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["in", "out"], "{shown:#}");
    assert_eq!(shown["functions"][3]["name"], "nat", "{shown:#}");
    let mut top = lan.gateway.command(env!("CARGO_BIN_EXE_paceline"));
    let top = stdout(&top.args(["top", "127.0.0.1:9104", "--once"]).output().expect("it starts"));
    let rows: Vec<&str> =
        top.lines().skip_while(|line| !line.starts_with("interface ")).skip(1).take(2).collect();
    assert!(rows.len() == 2 && rows[0].starts_with("in ") && rows[1].starts_with("out "), "{top}");
    assert!(top.contains("conntrack") && top.contains("gateway, single on 1 core"), "{top}");
    let status = lan.ctl(&["status"]);
    assert!(status.lines().any(|line| line.starts_with(&format!("in: {received} packets, "))), "{status}");
    let reloaded = lan.ctl(&["reload", "examples/gateway.toml"]);
    assert!(reloaded.contains("conntrack goes on with"), "{reloaded}");
    run.signal("-HUP");
    let begin = Instant::now();
    while !lan.ctl(&["status"]).contains("2 chains took over") {
        assert!(begin.elapsed() < PATIENCE, "SIGHUP reads the chain file again");
    }
    assert!(lan.left.ping("203.0.113.2", 2), "after reloads");
    lan.ctl(&["stop"]);
    run.ended();
    assert!(!Path::new(&lan.socket()).exists(), "the socket goes with the run");
    // The files have their names.
    assert!(fs::metadata(&came_in).expect("it is there").len() > 100);
    assert!(fs::metadata(&left).expect("it is there").len() > 100);
}

/// A balancer one of whose backends is this host itself: its stack gets what the chain leaves to it, though AF_XDP took the
/// packets from it.
#[test]
fn what_is_for_the_host_reaches_it() {
    let Some(lan) = Lan::new("host") else { return };
    lan.routed();
    let chain = lan.folder.file("balance.toml");
    let service = "[[function]]\nuse = \"load-balancer\"\n[[function.services]]\nvip = \"198.51.100.10\"\nport = 53\n\
                   protocol = \"udp\"\nbackends = [{ address = \"203.0.113.1\", port = 5353 }]\n";
    fs::write(&chain, service).expect("a folder of the test");
    let run = lan.start(&[&chain, "--mode", "route", "--socket", "xdp"], &[]);
    assert!(!run.said.contains("for-host"), "{}", run.said);
    let server = lan.gateway.bound(|| UdpSocket::bind("203.0.113.1:5353"));
    server.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let client = lan.left.bound(|| UdpSocket::bind("10.0.0.10:0"));
    client.send_to(b"a question", "198.51.100.10:53").expect("it is sent");
    let mut buffer = [0; 64];
    let (len, from) = server.recv_from(&mut buffer).expect("it reaches the host");
    assert_eq!((&buffer[..len], from.ip().to_string().as_str()), (&b"a question"[..], "10.0.0.10"));
    lan.ctl(&["stop"]);
    let report = run.ended();
    assert_eq!(report["routing"]["host"].as_u64(), Some(1), "{:#}", report["routing"]);
    assert!(
        report["interfaces"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|one| one["lost"] == serde_json::json!({}))
    );
    let links = lan.gateway.ip("link");
    assert!(!links.contains("paceline0"), "nothing stays: {links}");
}
