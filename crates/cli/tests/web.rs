//! The web page of a run, over a capture: `paceline run --web`. The server's own tests are the crate `dashboard`'s.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::{Folder, by_line, end, json, paceline, root, stderr, stdout};

const EDGE: &str = "examples/edge.toml";
const CAPTURE: &str = "captures/edge.pcap";

/// A stream of what the page shows.
pub struct Messages(BufReader<TcpStream>);

impl Messages {
    pub fn listen(address: &str) -> Messages {
        Messages::of(address, "/events")
    }

    pub fn of(address: &str, path: &str) -> Messages {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a bounded wait");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("it reads");
        Messages(BufReader::new(stream))
    }

    /// The next message; `None` at the end.
    pub fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(json) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(json).expect("JSON"));
            }
        }
    }
}

/// What the page at an address shows as soon as it shows so many packets. Messages come each second; waits for a minute.
pub fn message(address: &str, packets: u64) -> Value {
    let mut messages = Messages::listen(address);
    let mut last = Value::Null;
    for message in std::iter::from_fn(|| messages.next()).take(60) {
        if message["packets"].as_u64() >= Some(packets) {
            return message;
        }
        last = message;
    }
    panic!("after a minute it shows fewer than {packets} packets: {last:#}");
}

/// A run with a page; stopped when it is let go.
struct Running {
    child: Child,
    address: String,
    /// Kept open, so that the run can go on saying things.
    _said: BufReader<ChildStderr>,
}

impl Running {
    fn start(arguments: &[&str]) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_paceline"))
            .current_dir(root())
            .args([
                "run",
                EDGE,
                "--pcap",
                CAPTURE,
                "--strategy",
                "rss",
                "--cores",
                "2",
                "--web",
                "127.0.0.1:0",
            ])
            .args(arguments)
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("page at http://").and_then(|at| at.strip_suffix('/'));
        Running { address: address.unwrap_or_else(|| panic!("{line}")).to_owned(), child, _said: said }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

#[test]
fn a_run_is_shown_until_it_ends() {
    let mut run = Running::start(&["--speed", "0.001"]);
    let mut messages = Messages::listen(&run.address);
    let first = messages.next().expect("a message");
    assert_eq!((&first["chain"], &first["strategy"]), (&"edge".into(), &"rss".into()));
    assert_eq!(first["cores"].as_array().map(Vec::len), Some(2));
    assert_eq!(first["interfaces"].as_array().map(Vec::len), Some(0), "a capture has none");
    let second = paceline(&["run", EDGE, "--pcap", CAPTURE, "--web", &run.address]);
    assert_eq!(second.status.code(), Some(2));
    assert!(stderr(&second).contains("Choose another port"), "{}", stderr(&second));
    assert!(stdout(&second).is_empty());
    let mut page = String::new();
    let mut stream = TcpStream::connect(&run.address).expect("it listens");
    write!(stream, "GET / HTTP/1.1\r\nHost: {}\r\n\r\n", run.address).expect("it reads");
    stream.read_to_string(&mut page).expect("a page");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("<title>Paceline</title>"));

    let pid = run.child.id().to_string();
    assert!(Command::new("kill").arg(pid).status().expect("kill").success());
    assert_eq!(run.child.wait().expect("ends").code(), Some(130), "a polite end, in the middle of a pause");
    let last = std::iter::from_fn(|| messages.next()).last().expect("the last message");
    assert_eq!(last["has_ended"], true, "{last:#}");
}

#[test]
fn the_last_message_says_what_the_report_says() {
    let folder = Folder::new("web");
    let path = folder.file("report.json");
    let mut run = Running::start(&["--speed", "2", "--json", &path]);
    let mut messages = Messages::listen(&run.address);
    let (mut last, mut is_stopped) = (Value::Null, false);
    while let Some(message) = messages.next() {
        if !is_stopped && message["packets"].as_u64() > Some(1_000) {
            is_stopped =
                Command::new("kill").arg(run.child.id().to_string()).status().expect("kill").success();
        }
        last = message;
    }
    run.child.wait().expect("ends");
    let report = fs::read_to_string(path).expect("a report");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(last["has_ended"], true, "{last:#}");
    assert_eq!(last["packets"], report["packets"]);
    let told = last["drops"].as_array().expect("a list").iter();
    let told: u64 = told.filter_map(|drop| drop["total"].as_u64()).sum();
    assert_eq!(Some(told), report["verdicts"]["drop"].as_u64(), "{last:#}");
}

#[test]
fn a_page_does_not_change_the_report() {
    let plain = json(&paceline(&["run", EDGE, "--pcap", CAPTURE, "--json", "-"]));
    let shown = json(&by_line(&format!("run {EDGE} --pcap {CAPTURE} --json - --web 127.0.0.1:0")));
    for part in ["packets", "verdicts", "drops", "digest"] {
        assert_eq!(shown[part], plain[part]);
    }
}

#[test]
fn control_by_the_page_is_for_interfaces_near_and_with_a_token() {
    let refused = |options: &str, why: &str| {
        let output = by_line(&format!("run {EDGE} --web 127.0.0.1:0 {options}"));
        assert_eq!(output.status.code(), Some(2), "{options}");
        assert!(stderr(&output).contains(why), "{options}: {}", stderr(&output));
    };
    refused(&format!("--pcap {CAPTURE} --web-control"), "--web-control is for interfaces");
    refused("--on lo --web-control --web-anyone", "cannot be used with");
    refused("--on lo --web-token-file x", "--web-control");
}
