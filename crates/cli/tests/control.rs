//! The control socket of a run on interfaces: another chain takes over, and a connection through it goes on.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lab::{Lab, Namespace};
use crate::support::{Folder, end, paceline, root, stderr};

/// A tracker that lets no connection pass whose beginning it has not seen: flows that are lost show.
pub const TRACK: &str = "name = \"track\"\n[[function]]\nuse = \"conntrack\"\npick_up = false\n";
/// A tracker as [`TRACK`] with other time-outs, and a function more.
pub const LONGER: &str = "name = \"longer\"\n[[function]]\nuse = \"conntrack\"\npick_up = false\n\
                      tcp_timeout_established = 600\n[[function]]\nuse = \"heavy-hitters\"\n";

pub const PATIENCE: Duration = Duration::from_secs(60);

/// Two hosts, and what stands between them.
pub struct Lan {
    pub left: Namespace,
    pub gateway: Namespace,
    pub right: Namespace,
    pub folder: Folder,
    _lab: Lab,
}

impl Lan {
    /// `label` is the test's own: its socket is in a folder of that name.
    pub fn new(label: &str) -> Option<Lan> {
        let mut lab = Lab::new("control")?;
        let (left, gateway, right) = (lab.namespace("l"), lab.namespace("g"), lab.namespace("r"));
        lab.pair((&left, "eth0"), (&gateway, "in"));
        lab.pair((&right, "eth0"), (&gateway, "out"));
        for (host, number) in [(&left, 1), (&right, 2)] {
            host.ip(&format!("addr add 192.0.2.{number}/24 dev eth0"));
            host.offload("eth0");
        }
        let folder = Folder::new(&format!("control-{label}"));
        fs::write(folder.file("track.toml"), TRACK).expect("a folder of the test");
        fs::write(folder.file("longer.toml"), LONGER).expect("a folder of the test");
        Some(Lan { left, gateway, right, folder, _lab: lab })
    }

    pub fn socket(&self) -> String {
        self.folder.file("socket")
    }

    /// Starts the program in the middle, and waits until it runs.
    pub fn start(&self, strategy: &str, cores: &str) -> Run {
        self.start_with(strategy, cores, &[])
    }

    /// Starts the program in the middle with more arguments, and waits until it runs.
    pub fn start_with(&self, strategy: &str, cores: &str, more: &[&str]) -> Run {
        let mut command = self.gateway.command(env!("CARGO_BIN_EXE_paceline"));
        command.args(self.arguments(strategy, cores)).args(["--json", "-"]).args(more);
        self.started(command)
    }

    /// What a program is given to run in the middle.
    pub fn arguments(&self, strategy: &str, cores: &str) -> Vec<String> {
        let (chain, socket) = (self.folder.file("track.toml"), self.socket());
        let arguments = ["run", &chain, "--inside", "in", "--outside", "out", "--control", &socket];
        let arguments = arguments.into_iter().chain(["--strategy", strategy, "--cores", cores]);
        arguments.map(str::to_owned).collect()
    }

    /// Starts a command of the middle, and waits until it runs.
    pub fn started(&self, mut command: Command) -> Run {
        command.current_dir(root());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut run = Run(Some(child));
        let stderr = run.0.as_mut().and_then(|child| child.stderr.as_mut()).expect("piped");
        let (mut said, mut byte) = (String::new(), [0]);
        while !said.contains("Ctrl-C ends it") && stderr.read(&mut byte).is_ok_and(|read| read == 1) {
            said.push(char::from(byte[0]));
        }
        assert!(said.contains("Ctrl-C ends it"), "{said}");
        run
    }

    pub fn ask(&self, request: &Value) -> Value {
        ask(Path::new(&self.socket()), request)
    }

    fn reload(&self, text: &str) -> Value {
        self.ask(&json!({ "command": "reload", "name": "test.toml", "text": text }))
    }
}

/// A request as any program would make it.
pub fn ask(path: &Path, request: &Value) -> Value {
    let begin = Instant::now();
    loop {
        if let Ok(mut stream) = UnixStream::connect(path) {
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
            writeln!(stream, "{request}").expect("it listens");
            let mut answer = String::new();
            BufReader::new(stream).read_line(&mut answer).expect("it answers");
            return serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
        }
        assert!(begin.elapsed() < PATIENCE, "nobody answers at {}", path.display());
        thread::sleep(Duration::from_millis(5));
    }
}

/// The program, ended with the test at the latest.
pub struct Run(Option<Child>);

impl Run {
    fn pid(&self) -> String {
        self.0.as_ref().expect("it runs").id().to_string()
    }

    /// Waits for it to end of its own, and reads its report.
    pub fn ended(mut self) -> Value {
        let begin = Instant::now();
        let child = self.0.take().expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{text}\n{}", stderr(&output));
        assert!(begin.elapsed() < 2 * PATIENCE, "it ends at once: {:?}", begin.elapsed());
        serde_json::from_str(&text).expect("a report")
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            end(child);
        }
    }
}

/// Ends a transfer.
pub struct Ending<'a>(pub &'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a number"))
}

/// The byte at a place of what is sent.
fn byte(at: u64) -> u8 {
    ((at * 31) >> 3) as u8
}

/// Sends over one connection to an address that the second host has, as long as `goes_on`; says how many bytes came back as
/// they were sent. `received` tells how far it is.
pub fn transfer(
    [left, right]: [&Namespace; 2],
    address: SocketAddr,
    goes_on: &AtomicBool,
    received: &AtomicU64,
) -> std::io::Result<u64> {
    let listener = right.bound(|| TcpListener::bind(address));
    let mut stream = left.inside(|| TcpStream::connect_timeout(&address, PATIENCE))?;
    let (mut echo, _) = listener.accept()?;
    for stream in [&stream, &echo] {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
    }
    thread::scope(|scope| {
        scope.spawn(move || -> std::io::Result<()> {
            std::io::copy(&mut echo.try_clone()?, &mut echo)?;
            echo.shutdown(std::net::Shutdown::Write)
        });
        let mut writer = stream.try_clone()?;
        let sending = scope.spawn(move || -> std::io::Result<u64> {
            let mut sent = 0;
            while goes_on.load(Ordering::Relaxed) {
                let chunk: Vec<u8> = (sent..sent + 16_384).map(byte).collect();
                writer.write_all(&chunk)?;
                sent += chunk.len() as u64;
            }
            writer.shutdown(std::net::Shutdown::Write)?;
            Ok(sent)
        });
        let (mut buffer, mut at) = (vec![0; 65_536], 0);
        loop {
            let read = stream.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            assert!(
                buffer[..read].iter().zip(at..).all(|(got, at)| *got == byte(at)),
                "bytes as they were sent"
            );
            at += read as u64;
            received.store(at, Ordering::Relaxed);
        }
        let sent = sending.join().expect("no panic")?;
        assert_eq!(at, sent, "all came back");
        Ok(sent)
    })
}

fn a_transfer_survives_ten_reloads(strategy: &str, cores: &str) {
    let Some(lan) = Lan::new(strategy) else { return };
    let card: &[&str] = if strategy == "dyssect" { &["--card-flows", "1000"] } else { &[] };
    let run = lan.start_with(strategy, cores, card);
    let (goes_on, received) = (AtomicBool::new(true), AtomicU64::new(0));
    let (sent, pauses) = thread::scope(|scope| {
        let transfer = scope
            .spawn(|| transfer([&lan.left, &lan.right], ([192, 0, 2, 2], 7_000).into(), &goes_on, &received));
        // Also where something fails, or the connection would go on.
        let ending = Ending(&goes_on);
        let mut pauses = Vec::new();
        for turn in 0..10 {
            // Bytes flow before each, and after the last.
            let (before, begin) = (received.load(Ordering::Relaxed), Instant::now());
            while received.load(Ordering::Relaxed) <= before && begin.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(1));
            }
            let answer = lan.reload(if turn % 2 == 0 { LONGER } else { TRACK });
            assert_eq!(answer["ok"], json!(true), "{answer:#}");
            let conntrack = &answer["reload"]["functions"][0];
            assert_eq!(conntrack["function"], json!("conntrack"));
            assert!(number(&conntrack["kept_flows"]) >= 1, "{answer:#}");
            pauses.push(answer["reload"]["pause_seconds"].as_f64().expect("a number"));
        }
        drop(ending);
        (transfer.join().expect("no panic").expect("the connection goes on"), pauses)
    });
    eprintln!("{strategy} on {cores}: {sent} bytes both ways; pauses {pauses:?} s");
    let status = lan.ask(&json!({ "command": "status" }));
    assert_eq!(number(&status["status"]["reloads"]), 10);
    assert_eq!(lan.ask(&json!({ "command": "stop" })), json!({ "ok": true }));
    let report = run.ended();
    // Not a packet is lost, and none is dropped: each that came has left.
    let packets = number(&report["packets"]);
    assert_eq!(number(&report["verdicts"]["forward"]), packets, "{report:#}");
    let interfaces = report["interfaces"].as_array().expect("a list");
    assert!(interfaces.iter().all(|interface| interface["lost"] == json!({})), "{interfaces:#?}");
    let sum = |what: &str| interfaces.iter().map(|interface| number(&interface[what])).sum::<u64>();
    // The kernel may hand over several segments as one.
    assert!(sum("received") <= packets && sum("sent") == packets, "{interfaces:#?}");
    assert!(packets > sent / 1_500, "{packets}");
    let conntrack = &report["functions"][0];
    assert_eq!(number(&conntrack["events"]["opened"]), 1, "counters go on: {conntrack:#}");
    assert_eq!(report["reloads"].as_array().expect("a list").len(), 10);
    if strategy == "dyssect" {
        let referred = number(&report["moves"]["referred_packets"]);
        assert!(referred > packets / 2, "{}", report["moves"]);
    }
}

/// Cores of each chain tell the card.
#[test]
fn a_transfer_survives_ten_reloads_behind_a_card() {
    a_transfer_survives_ten_reloads("dyssect", "2");
}

#[test]
fn a_transfer_survives_ten_reloads_on_one_core() {
    a_transfer_survives_ten_reloads("single", "1");
}

#[test]
fn a_transfer_survives_ten_reloads_under_rss() {
    a_transfer_survives_ten_reloads("rss", "2");
}

#[test]
fn a_transfer_survives_ten_reloads_under_rsspp() {
    a_transfer_survives_ten_reloads("rsspp", "2");
}

#[test]
fn a_transfer_survives_ten_reloads_under_scr() {
    a_transfer_survives_ten_reloads("scr", "2");
}

#[test]
fn what_cannot_take_over_is_refused_and_the_chain_before_goes_on() {
    let Some(lan) = Lan::new("refused") else { return };
    let run = lan.start("rss", "2");
    let mode = fs::metadata(lan.socket()).expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for (text, why) in [
        (
            "[[function]]\nuse = \"conntrak\"\n",
            "test.toml:2:7: there is no function `conntrak`: not a function\ndid you mean `conntrack`? ",
        ),
        ("[[function]]\nuse = \"xyz\"\n", "heavy-hitters"),
        ("[[function]]\nuse = \"conntrack\"\n[[function]]\nuse = \"ddos\"\n", "conntrack"),
    ] {
        let answer = lan.reload(text);
        assert_eq!(answer["ok"], json!(false), "{answer:#}");
        let error = answer["error"].as_str().expect("a reason");
        assert!(error.contains(why), "{error}");
    }
    let answer = lan.ask(&json!({ "command": "dance" }));
    assert!(answer["error"].as_str().expect("a reason").contains("no request"), "{answer}");
    assert!(lan.left.ping("192.0.2.2", 2), "packets pass");
    let socket = lan.socket();
    let ctl = |arguments: &[&str]| paceline(&[&["ctl", "--control", &socket], arguments].concat());
    let status = ctl(&["status"]);
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(text.contains("track on in and out for ") && text.contains("core 1: "), "{text}");
    let refused = ctl(&["reload", "examples/mixed-keys.toml", "--json"]);
    assert!(refused.status.code() == Some(2) || refused.status.success(), "{}", stderr(&refused));
    let reloaded = ctl(&["reload", &lan.folder.file("longer.toml")]);
    let text = String::from_utf8_lossy(&reloaded.stdout).into_owned();
    assert!(
        text.contains("longer took over") && text.contains("heavy-hitters begins anew, because"),
        "{text}"
    );

    // The chain file is read again at SIGHUP.
    assert!(Command::new("kill").args(["-HUP", &run.pid()]).status().expect("kill runs").success());
    let begin = Instant::now();
    while lan.ask(&json!({ "command": "status" }))["status"]["chain"] != json!("track") {
        assert!(begin.elapsed() < PATIENCE, "SIGHUP reloads");
        thread::sleep(Duration::from_millis(20));
    }

    // Another run cannot have the socket.
    let mut second = lan.gateway.command(env!("CARGO_BIN_EXE_paceline"));
    second.current_dir(root()).args(["run", "examples/edge.toml", "--mirror", "in", "--control", &socket]);
    let output = second.output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("Another run has it"), "{}", stderr(&output));

    let stopped = ctl(&["stop"]);
    assert!(stopped.status.success(), "{}", stderr(&stopped));
    run.ended();
    assert!(!Path::new(&socket).exists(), "the socket goes with the run");
    let nobody = ctl(&["status"]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(stderr(&nobody).contains("No run has this socket"), "{}", stderr(&nobody));
}

#[test]
fn a_socket_that_a_dead_run_left_is_replaced() {
    let Some(lan) = Lan::new("stale") else { return };
    drop(UnixListener::bind(lan.socket()).expect("a folder of the test"));
    assert!(Path::new(&lan.socket()).exists());
    let run = lan.start("single", "1");
    assert_eq!(lan.ask(&json!({ "command": "stop" })), json!({ "ok": true }));
    run.ended();
}

#[test]
fn a_chain_takes_over_within_a_capture() {
    let again = ["--reload-at", "1000", "examples/edge.toml", "--reload-at", "2000", "examples/gateway.toml"];
    let edge = ["examples/edge.toml", "--pcap", "captures/edge.pcap", "--cores", "2"];
    let run = paceline(&[&["run"], &edge[..], &["--strategy", "rss", "--json", "-"], &again[..]].concat());
    let report: Value = serde_json::from_slice(&run.stdout).expect("a report");
    let reloads = report["reloads"].as_array().expect("a list");
    assert_eq!((number(&reloads[0]["after"]), number(&reloads[1]["after"])), (1_000, 2_000));
    assert!(number(&reloads[0]["functions"][0]["kept_flows"]) > 0, "{reloads:#?}");
    for strategy in ["rss", "rsspp", "scr", "shared"] {
        let verify = [&["verify"], &edge[..], &["--strategy", strategy], &again[..3]].concat();
        let output = paceline(&verify);
        assert!(output.status.success(), "{strategy}: {}", stderr(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("after 1,000 packets edge took over"), "{text}");
    }
    for wrong in [["x", "examples/edge.toml"], ["7", "no-such-file.toml"]] {
        let output =
            paceline(&[&["run"], &edge[..], &["--strategy", "rss", "--reload-at"], &wrong[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}
