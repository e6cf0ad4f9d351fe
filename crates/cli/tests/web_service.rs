//! The recipe *a balanced web service*, with servers, clients and tunnels as a user has them: docs/guides/web-service.md.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wire::{protocol, tcp_flags};

use crate::drains::{Ending, Net, PATIENCE, served};
use crate::lab::{Lab, Namespace, Running};
use crate::live::{number, of};
use crate::raw::{Raw, station};
use crate::service::Run;
use crate::support::{Folder, paceline, root, stderr, stdout};

const VIP: &str = "198.51.100.10";
const VIP_V6: &str = "2001:db8::10";
/// The balancer's own addresses.
const BALANCER: &str = "198.51.100.254";
const BALANCER_V6: &str = "2001:db8::254";
const PORT: u16 = 80;
/// Connections that are opened at most until one goes where it is wanted.
const MANY: usize = 64;
/// New connections that are opened to see where they go.
const SOME: usize = 16;
/// Half of a long download, as `server.py` has it.
const HALF: usize = 1 << 20;

/// A client, a balancer with one leg, and three servers, in one LAN. The servers answer the client directly.
struct Web {
    client: Namespace,
    gateway: Namespace,
    backends: Vec<Namespace>,
    folder: Folder,
    _ends: Vec<Running>,
    _lab: Lab,
}

/// How packets go from the balancer to the servers.
#[derive(Clone, Copy)]
struct Way {
    forward: &'static str,
    /// What the end of the tunnel takes: the protocol in an outer IP header, or a port.
    kind: &'static str,
    is_v6_outside: bool,
    vip: &'static str,
}

const IPIP: Way = Way { forward: "ipip", kind: "4", is_v6_outside: false, vip: VIP };

impl Way {
    fn source(&self) -> &'static str {
        if self.is_v6_outside { BALANCER_V6 } else { BALANCER }
    }

    fn backend(&self, which: usize) -> String {
        match self.is_v6_outside {
            true => format!("2001:db8::{}", 21 + which),
            false => format!("198.51.100.{}", 21 + which),
        }
    }

    /// A socket address as a URL and a report have it.
    fn with_port(address: &str) -> String {
        if address.contains(':') { format!("[{address}]:{PORT}") } else { format!("{address}:{PORT}") }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", Way::with_port(self.vip))
    }
}

fn python() -> Option<()> {
    let mut command = Command::new("python3");
    let runs = |output: std::io::Result<Output>| output.is_ok_and(|output| output.status.success());
    if !runs(command.args(["-c", "import http.server, fcntl"]).output()) {
        println!("skipped: `python3` does not run");
        return None;
    }
    if !runs(Command::new("curl").arg("--version").output()) {
        println!("skipped: `curl` does not run");
        return None;
    }
    Some(())
}

fn script(name: &str) -> String {
    root().join("crates/cli/tests/web_service").join(name).to_str().expect("text").to_owned()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
    begin.elapsed()
}

impl Web {
    fn new(label: &str, way: Way) -> Option<Web> {
        python()?;
        let mut lab = Lab::new("web")?;
        let lan = lab.namespace("lan");
        let (client, gateway) = (lab.namespace("c"), lab.namespace("g"));
        let backends: Vec<Namespace> = (1..=3).map(|which| lab.namespace(&format!("b{which}"))).collect();
        lan.ip("link add br0 type bridge");
        lan.ip("link set br0 up");
        let hosts = [(&client, 1), (&gateway, 254)].into_iter().chain(backends.iter().zip(21..));
        for (at, (host, number)) in hosts.enumerate() {
            lab.pair((&lan, &format!("p{at}")), (host, "eth0"));
            lan.ip(&format!("link set p{at} master br0"));
            host.ip(&format!("addr add 198.51.100.{number}/24 dev eth0"));
            host.ip(&format!("addr add 2001:db8::{number}/64 dev eth0 nodad"));
            // From there the kernel asks for neighbours.
            host.ip(&format!("addr add fe80::{number}/64 dev eth0 nodad"));
            host.offload("eth0");
        }
        // As the guide says: the balancer's host has the VIP and answers for it, the servers have it and do not.
        gateway.ip(&format!("addr add {VIP}/32 dev lo"));
        gateway.ip(&format!("addr add {VIP_V6}/128 dev eth0 nodad preferred_lft 0"));
        let folder = Folder::new(&format!("web-{label}"));
        let mut ends = Vec::new();
        for (which, backend) in backends.iter().enumerate() {
            backend.write("/proc/sys/net/ipv4/conf/all/arp_ignore", "1");
            backend.write("/proc/sys/net/ipv4/conf/all/arp_announce", "2");
            backend.ip(&format!("addr add {VIP}/32 dev lo"));
            backend.ip(&format!("addr add {VIP_V6}/128 dev lo nodad"));
            backend.ip("tuntap add dev tunnel mode tun");
            backend.ip("link set tunnel up");
            backend.write("/proc/sys/net/ipv4/conf/all/rp_filter", "0");
            backend.write("/proc/sys/net/ipv4/conf/tunnel/rp_filter", "0");
            let complaints = folder.file(&format!("complaints{which}"));
            let arguments =
                format!("{} tunnel {} {} {complaints}", script("tunnel_end.py"), way.source(), way.kind);
            ends.push(backend.start("python3", &arguments));
        }
        let web = Web { client, gateway, backends, folder, _ends: ends, _lab: lab };
        for which in 0..3 {
            wait_until("a tunnel's end is ready", || web.complaints(which).starts_with("ready\n"));
        }
        // Neighbours first: of packets to one that is unknown only the latest waits.
        for address in (0..3).map(|which| way.backend(which)) {
            assert!(web.gateway.ping(&address, 1), "a LAN");
        }
        Some(web)
    }

    /// What a tunnel's end found wrong, line by line, behind `ready`.
    fn complaints(&self, which: usize) -> String {
        fs::read_to_string(self.folder.file(&format!("complaints{which}"))).unwrap_or_default()
    }

    /// A server, once it answers.
    fn serve(&self, which: usize) -> Running {
        let backend = &self.backends[which];
        let arguments = format!("{} {} {} {PORT}", script("server.py"), which + 1, self.folder.path());
        let running = backend.start("python3", &arguments);
        let own = SocketAddr::from(([127, 0, 0, 1], PORT));
        wait_until("a server answers", || backend.inside(|| TcpStream::connect(own)).is_ok());
        running
    }

    fn chain(&self, way: Way) -> String {
        let backends: Vec<_> =
            (0..3).map(|which| format!("{{ address = \"{}\" }}", way.backend(which))).collect();
        let text = format!(
            "name = \"web\"\n[[function]]\nuse = \"load-balancer\"\ntable_full = \"evict-oldest\"\n\
             tunnel_sources = [\"{BALANCER}\", \"{BALANCER_V6}\"]\ncheck_interval_ms = 200\ncheck_timeout_ms = 200\n\
             [[function.services]]\nvip = \"{}\"\nport = {PORT}\nforward = \"{}\"\ncheck = \"http /health\"\n\
             backends = [{}]\n",
            way.vip,
            way.forward,
            backends.join(", ")
        );
        let path = self.folder.file("web.toml");
        fs::write(&path, text).expect("a folder of the test");
        path
    }

    fn start(&self, chain: &str, strategy: &str, cores: &str) -> Run {
        let mut command = self.gateway.command(env!("CARGO_BIN_EXE_paceline"));
        command.current_dir(root()).args(["run", chain, "--on", "eth0", "--socket", "xdp"]);
        command.args(["--strategy", strategy, "--cores", cores, "--json", "-"]);
        command.args(["--control", &self.folder.file("socket")]);
        Run::start(command)
    }

    fn ctl(&self, arguments: &[&str]) -> String {
        let output = paceline(&[&["ctl", "--control", &self.folder.file("socket")], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    }

    fn health(&self, which: usize) -> String {
        let told: Value = serde_json::from_str(&self.ctl(&["backend", "list", "--json"])).expect("JSON");
        told["backends"][which]["health"].as_str().expect("a word").to_owned()
    }

    /// A program in the client's namespace, which gives up long after a test does.
    fn curl(&self, arguments: &[&str]) -> Command {
        let mut command = self.client.command("curl");
        command.args(["-sS", "--max-time", "240"]).args(arguments);
        command
    }

    /// Which server answers a new connection.
    fn ask(&self, way: Way) -> usize {
        let output = self.curl(&[&way.url("")]).output().expect("it runs");
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).parse().expect("a number")
    }

    /// Who answers some new connections.
    fn answering(&self, way: Way) -> BTreeSet<usize> {
        (0..SOME).map(|_| self.ask(way)).collect()
    }

    fn reaches(&self, way: Way, which: usize) {
        assert!((0..MANY).any(|_| self.ask(way) == which), "server {which} takes connections");
    }

    /// A download that has begun.
    fn download(&self, way: Way, name: &str) -> Download {
        let path = self.folder.file(name);
        let child =
            self.curl(&["-o", &path, &way.url("long")]).stderr(Stdio::piped()).spawn().expect("it runs");
        let mut download = Download { child, path, server: 0 };
        wait_until("a download begins", || {
            let mut first = [0];
            let read = fs::File::open(&download.path).and_then(|mut file| file.read(&mut first));
            download.server = usize::from(first[0].saturating_sub(b'0'));
            matches!(read, Ok(1))
        });
        download
    }
}

/// A download of `curl`'s, ended with the test at the latest.
struct Download {
    child: Child,
    path: String,
    server: usize,
}

impl Download {
    /// Whether it ended well, with every byte.
    fn ends_whole(mut self) -> bool {
        let is_well = self.child.wait().expect("it ends").success();
        let got = fs::read(&self.path).unwrap_or_default();
        let expected = b'0' + self.server as u8;
        is_well && got.len() == 2 * HALF && got.iter().all(|byte| *byte == expected)
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Downloads of which each server has one.
fn downloads(web: &Web, way: Way) -> Vec<Download> {
    let mut open: Vec<Download> = Vec::new();
    while (1..=3).any(|server| open.iter().all(|download| download.server != server)) {
        assert!(open.len() < MANY, "all servers take connections");
        open.push(web.download(way, &format!("download{}", open.len())));
    }
    open
}

fn a_balanced_web_service(strategy: &str, cores: &str) {
    let way = IPIP;
    let Some(web) = Web::new(strategy, way) else { return };
    let (_first, _second, third) = (web.serve(0), web.serve(1), web.serve(2));
    let run = web.start(&web.chain(way), strategy, cores);
    assert!(web.client.ping(VIP, 3), "the VIP answers pings");
    assert_eq!(web.answering(way).len(), 3, "all servers take connections");
    let open = downloads(&web, way);
    // One drains: it keeps its connections, and gets no new ones.
    let first = Way::with_port(&way.backend(0));
    web.ctl(&["backend", "drain", &first]);
    assert_eq!(web.answering(way), BTreeSet::from([2, 3]));
    // One dies. Its checks say so, and new connections go to the one that is left.
    drop(third);
    let took = wait_until("a check finds that a server is gone", || web.health(2) == "failed");
    println!("{strategy}: {} ms until a server that is gone got no more connections", took.as_millis());
    assert_eq!(web.answering(way), BTreeSet::from([2]));
    // Downloads of the others end whole.
    fs::write(web.folder.file("finish"), "").expect("a folder of the test");
    let (of_third, others): (Vec<_>, Vec<_>) = open.into_iter().partition(|download| download.server == 3);
    assert!(others.len() >= 2 && !of_third.is_empty());
    for download in others {
        let server = download.server;
        assert!(download.ends_whole(), "a download from server {server}");
    }
    // What a test that sees no break would miss: those of the dead server break.
    assert!(of_third.into_iter().all(|download| !download.ends_whole()), "a dead server's connections");
    // Both come back.
    let _third = web.serve(2);
    wait_until("a check finds that a server is back", || web.health(2) == "good");
    web.ctl(&["backend", "up", &first]);
    web.reaches(way, 1);
    web.reaches(way, 3);
    // Full packets are too long with another header before them: the client is told so.
    let whole = web.folder.file("whole");
    fs::write(&whole, vec![7; HALF]).expect("there is room");
    let output = web.curl(&["-T", &whole, &way.url("up")]).output().expect("it runs");
    assert_eq!(stdout(&output), HALF.to_string(), "{}", stderr(&output));
    web.ctl(&["stop"]);
    let report = run.ended();
    for which in 0..3 {
        assert_eq!(web.complaints(which), "ready\n", "outer headers are right");
    }
    // Everything has left but pings, which were answered, what came to the dead server, and what was too long.
    let balancer = &report["functions"][0];
    let drops = balancer["drops"].as_object().expect("a list");
    let is_known = |reason: &String| matches!(reason.as_str(), "ping-answered" | "backend-down");
    assert!(drops.keys().all(is_known), "{balancer:#}");
    assert!(number(&report["answers"]["echo_replies"]) >= 3, "{:#}", report["answers"]);
    assert_eq!(of(&report, "eth0")["lost"], json!({}), "{report:#}");
    let routed = report["routing"]["dropped"].as_object().expect("a list");
    assert!(routed.keys().all(|reason| reason == "above-mtu"), "{routed:?}");
    assert!(number(&report["routing"]["icmp_errors"]) >= 1, "{:#}", report["routing"]);
}

#[test]
fn a_balanced_web_service_on_one_core() {
    a_balanced_web_service("single", "1");
}

#[test]
fn a_balanced_web_service_under_rss() {
    a_balanced_web_service("rss", "2");
}

#[test]
fn a_balanced_web_service_under_rsspp() {
    a_balanced_web_service("rsspp", "2");
}

#[test]
fn a_balanced_web_service_under_scr() {
    a_balanced_web_service("scr", "2");
}

#[test]
fn a_balanced_web_service_under_auto() {
    a_balanced_web_service("auto", "2");
}

/// A download, an upload and a ping through each kind of tunnel, with either IP version inside and outside.
#[test]
fn each_tunnel_carries_either_version() {
    for (at, way) in [
        Way { forward: "ipip", kind: "41", is_v6_outside: false, vip: VIP_V6 },
        Way { forward: "ipip", kind: "4", is_v6_outside: true, vip: VIP },
        Way { forward: "ipip", kind: "41", is_v6_outside: true, vip: VIP_V6 },
        Way { forward: "gue", kind: "gue:6080", is_v6_outside: false, vip: VIP },
        Way { forward: "gue", kind: "gue:6080", is_v6_outside: true, vip: VIP_V6 },
    ]
    .into_iter()
    .enumerate()
    {
        let Some(web) = Web::new(&format!("each{at}"), way) else { return };
        let _servers = [0, 1, 2].map(|which| web.serve(which));
        let run = web.start(&web.chain(way), "single", "1");
        let name = format!("{} {} to {}", way.forward, way.vip, way.backend(0));
        assert!(web.client.ping(way.vip, 1), "{name}");
        web.reaches(way, 1);
        let whole = web.folder.file("whole");
        fs::write(&whole, vec![7; HALF]).expect("there is room");
        let output = web.curl(&["-T", &whole, &way.url("up")]).output().expect("it runs");
        assert_eq!(stdout(&output), HALF.to_string(), "{name}: {}", stderr(&output));
        web.ctl(&["stop"]);
        let report = run.ended();
        for which in 0..3 {
            assert_eq!(web.complaints(which), "ready\n", "{name}");
        }
        assert!(number(&report["routing"]["icmp_errors"]) >= 1, "{name}: {:#}", report["routing"]);
    }
}

/// A Python that has `aioquic`, for HTTP/3: `PACELINE_AIOQUIC`, or `python3`.
fn aioquic() -> Option<String> {
    let python = std::env::var("PACELINE_AIOQUIC").unwrap_or_else(|_| "python3".to_owned());
    match Command::new(&python).args(["-c", "import aioquic"]).output() {
        Ok(output) if output.status.success() => Some(python),
        _ => {
            println!("skipped: `{python}` has no aioquic; PACELINE_AIOQUIC names a Python that has it");
            None
        }
    }
}

/// Connections of HTTP/3 go on with their servers while one drains, and new ones go to the others.
fn http3_stays_with_its_server(strategy: &str, cores: &str) {
    let Some(python) = aioquic() else { return };
    let Some(web) = Web::new(&format!("http3-{strategy}"), IPIP) else { return };
    let script = script("http3.py");
    let servers = web.backends.iter().zip(1..);
    let _servers: Vec<_> = servers
        .map(|(backend, which)| backend.start(&python, &format!("{script} serve {which} {VIP} 443")))
        .collect();
    for backend in &web.backends {
        // Port 443, in hexadecimal.
        let listens =
            || fs::read_to_string("/proc/thread-self/net/udp").is_ok_and(|all| all.contains(":01BB "));
        wait_until("a server listens", || backend.inside(listens));
    }
    let chain = web.chain(IPIP);
    let text = fs::read_to_string(&chain).expect("it was written");
    let text = text.replace(&format!("port = {PORT}\n"), "port = 443\nprotocol = \"udp\"\n");
    fs::write(&chain, text.replace("check = \"http /health\"\n", "")).expect("a folder of the test");
    let run = web.start(&chain, strategy, cores);
    let ask = |name: &str| {
        let folder = web.folder.file(name);
        fs::create_dir(&folder).expect("a folder of the test");
        (web.client.start(&python, &format!("{script} ask {VIP} 443 {SOME} {folder}")), folder)
    };
    let answers = |folder: &str, name: &str| {
        let path = format!("{folder}/{name}");
        wait_until("answers over HTTP/3", || fs::exists(&path).is_ok_and(|is_there| is_there));
        fs::read_to_string(path).expect("it is there")
    };
    let (_asking, folder) = ask("before");
    let before = answers(&folder, "first");
    let seen: BTreeSet<&str> = before.split(' ').collect();
    assert!(seen.len() >= 2 && before.split(' ').count() == SOME, "{before}");
    web.ctl(&["backend", "drain", "198.51.100.21:443"]);
    let (_others, later) = ask("after");
    assert!(!answers(&later, "first").contains('1'), "a server that drains gets no new connection");
    fs::write(format!("{folder}/more"), "").expect("a folder of the test");
    assert_eq!(answers(&folder, "second"), before, "each connection has the server that it had");
    web.ctl(&["stop"]);
    let report = run.ended();
    assert_eq!(report["drops"].as_object().map(serde_json::Map::len), Some(0), "{:#}", report["drops"]);
    assert_eq!(of(&report, "eth0")["lost"], json!({}), "{report:#}");
    for which in 0..3 {
        assert_eq!(web.complaints(which), "ready\n", "outer headers are right");
    }
}

#[test]
fn http3_stays_with_its_server_on_one_core() {
    http3_stays_with_its_server("single", "1");
}

#[test]
fn http3_stays_with_its_server_under_rss() {
    http3_stays_with_its_server("rss", "2");
}

#[test]
fn http3_stays_with_its_server_under_scr() {
    http3_stays_with_its_server("scr", "2");
}

/// How many connections are to stand a flood.
const GOOD: usize = 50;
/// Far more than the table has room for.
const FLOOD: u32 = 20_000;

/// A TCP packet without data from a forged source to the service.
fn forged(to: [u8; 6], from: [u8; 6], number: u32, flags: u8) -> Vec<u8> {
    let [_, _, c, d] = number.to_be_bytes();
    let source = [203, 0, c, d];
    let mut ip = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, protocol::TCP, 0, 0];
    ip.extend(source);
    ip.extend([198, 51, 100, 10]);
    let sum = wire::internet_checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum);
    let mut tcp = vec![0x10, d, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0];
    let sum = wire::internet_checksum(&[&ip[12..20], &[0, protocol::TCP, 0, 20], &tcp]);
    tcp[16..18].copy_from_slice(&sum);
    [&to[..], &from, &[8, 0], &ip, &tcp].concat()
}

/// SYNs of forged sources, and packets in the middle of connections that nobody has: 50 of 50 good connections go on, and new
/// ones are opened. The table is full long before the flood ends.
fn good_connections_stand_a_flood(strategy: &str, cores: &str, table_full: &str) {
    let Some(net) = Net::new(&format!("flood-{strategy}-{table_full}")) else { return };
    let chain = net.chain("flooded", &[(1, "active"), (2, "active")]);
    let text = fs::read_to_string(&chain).expect("it was written");
    let text = text.replace(
        "rewrite_answers = true\n",
        &format!("rewrite_answers = true\nflows = 1024\ntable_full = \"{table_full}\"\n"),
    );
    fs::write(&chain, text).expect("a folder of the test");
    let run = net.start(&chain, strategy, cores);
    let (to, from) = (station(&net.gateway), station(&net.client));
    served(&net, || {
        let mut open: Vec<_> = (0..GOOD).map(|_| net.connect()).collect();
        open.iter_mut().for_each(|connection| connection.round().expect("before"));
        let (goes_on, sent) = (AtomicBool::new(true), AtomicU64::new(0));
        thread::scope(|scope| {
            let ending = Ending(&goes_on);
            scope.spawn(|| {
                net.client.enter();
                let raw = Raw::open("eth0");
                for number in 0.. {
                    if !goes_on.load(Ordering::Relaxed) {
                        break;
                    }
                    let flags = if number % 2 == 0 { tcp_flags::SYN } else { tcp_flags::ACK };
                    raw.send(&forged(to, from, number, flags));
                    sent.store(u64::from(number), Ordering::Relaxed);
                    // So that the good ones get a turn at the link, which is theirs, too.
                    if number % 64 == 0 {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            });
            let begin = Instant::now();
            let (mut rounds, mut opened) = (0, 0);
            while sent.load(Ordering::Relaxed) < u64::from(FLOOD) || rounds < 3 {
                assert!(begin.elapsed() < 2 * PATIENCE, "a flood of {FLOOD} packets");
                let standing = open.iter_mut().filter_map(|connection| connection.round().ok()).count();
                assert_eq!(standing, GOOD, "connections that stand the flood");
                let mut new = net.connect();
                new.round().expect("a new connection");
                (rounds, opened) = (rounds + 1, opened + 1);
            }
            println!("{strategy}, {table_full}: {GOOD} of {GOOD} stand, {opened} were opened meanwhile");
            drop(ending);
        });
    });
    net.ctl(&["stop"]);
    let report = run.ended();
    let table = &report["functions"][0];
    let full = ["evicted", "rejected"].map(|what| number(&table["flows"][what]));
    assert!(full.iter().sum::<u64>() > 1_000, "the table was full: {table:#}");
    assert_eq!(report["drops"].as_object().map(serde_json::Map::len), Some(0), "{:#}", report["drops"]);
}

#[test]
fn good_connections_stand_a_flood_on_one_core() {
    good_connections_stand_a_flood("single", "1", "reject");
    good_connections_stand_a_flood("single", "1", "evict-oldest");
}

#[test]
fn good_connections_stand_a_flood_under_rss() {
    good_connections_stand_a_flood("rss", "2", "evict-oldest");
}

#[test]
fn good_connections_stand_a_flood_under_rsspp() {
    good_connections_stand_a_flood("rsspp", "2", "evict-oldest");
}

#[test]
fn good_connections_stand_a_flood_under_scr() {
    good_connections_stand_a_flood("scr", "2", "reject");
}

#[test]
fn good_connections_stand_a_flood_under_auto() {
    good_connections_stand_a_flood("auto", "2", "reject");
}
