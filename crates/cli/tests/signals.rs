//! Long commands end on Ctrl-C and on a request to terminate: soon, or at the second one.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStderr, Command};
use std::time::{Duration, Instant};

use crate::support::{Folder, paceline, root, start, stderr};

const EDGE: &str = "examples/edge.toml";

fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
}

/// Waits for the line that the first signal brings.
fn is_stopping(stderr: &mut BufReader<ChildStderr>) -> bool {
    let mut line = String::new();
    while stderr.read_line(&mut line).expect("text") > 0 {
        if line.contains("stopping; again to stop at once") {
            return true;
        }
        line.clear();
    }
    false
}

/// A capture that takes far longer to compare than the test waits; machines that test are busy.
#[test]
fn verify_ends_at_the_first_signal() {
    let folder = Folder::new("signals");
    let capture = folder.file("long.pcap");
    let made = paceline(&["generate", "zipf", "--packets", "3000000", "--flows", "50000", "--out", &capture]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    for name in ["-INT", "-TERM"] {
        let verify = ["verify", EDGE, "--pcap", &capture, "--strategy", "rss", "--cores", "2"];
        let mut child = start(&verify);
        // It has begun to read by then, or will see it when it does.
        std::thread::sleep(Duration::from_millis(700));
        let begin = Instant::now();
        signal(&child, name);
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        assert!(is_stopping(&mut stderr), "{name}: it says that it is stopping");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130), "{name}");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(text.contains("INTERRUPTED: nothing is proved"), "{name}: {text}");
        assert!(begin.elapsed() < Duration::from_secs(60), "{name}: {:?}", begin.elapsed());
    }
}

/// Each would take minutes; what they load and generate ahead of their work can be stopped, too.
#[test]
fn what_has_nothing_to_report_yet_ends_at_the_first_signal() {
    let commands = [
        "bench chain examples/edge.toml --seconds 300",
        "bench chain examples/edge.toml --traffic zipf:packets=100000000",
        "bench table --rounds 1000 --entries 131072",
        "bench dyssect examples/nat.toml --rounds 1000 --packets 100000 --flows 20000",
        "bench mlffr examples/edge.toml --traffic zipf:packets=100000000",
        "plan examples/edge.toml --traffic zipf:packets=100000000",
        "emulate synthetic --traffic zipf:packets=10000000,flows=1000",
        "emulate examples/p4/port_knocking.p4 --traffic zipf:packets=2000000,flows=1000",
    ];
    for command in commands {
        let args: Vec<&str> = command.split(' ').collect();
        let mut child = start(&args);
        std::thread::sleep(Duration::from_millis(1500));
        assert!(child.try_wait().expect("asked").is_none(), "{command}: it takes long");
        let begin = Instant::now();
        signal(&child, "-TERM");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        assert!(is_stopping(&mut stderr), "{command}: it says that it is stopping");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130), "{command}");
        assert!(output.stdout.is_empty(), "{command}: {}", String::from_utf8_lossy(&output.stdout));
        assert!(begin.elapsed() < Duration::from_secs(30), "{command}: {:?}", begin.elapsed());
    }
}

/// As `run --out` does.
#[test]
fn packets_generated_until_a_signal_are_kept_beside_the_output() {
    let folder = Folder::new("signals-generate");
    let out = folder.file("out.pcap");
    std::fs::write(&out, b"older").expect("written");
    for name in ["-INT", "-TERM"] {
        let mut child =
            start(&["generate", "datacenter", "--packets", "50000000", "--frame-bytes", "60", "--out", &out]);
        let partial = format!("{out}.partial");
        let begun = || std::fs::metadata(&partial).is_ok_and(|found| found.len() > 0);
        while !begun() && child.try_wait().expect("asked").is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        signal(&child, name);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130), "{name}");
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(said.contains("packets kept in ") && said.contains("out.pcap.partial; "), "{name}: {said}");
        assert_eq!(std::fs::read(&out).expect("there"), b"older");
        let kept = paceline(&["inspect", "--pcap", &partial]);
        assert_eq!(kept.status.code(), Some(0), "{name}: {}", stderr(&kept));
        std::fs::remove_file(&partial).expect("there");
    }
}

/// A run that waits for its input cannot see the first signal before more comes.
#[test]
fn the_second_signal_ends_it_at_once() {
    for name in ["-INT", "-TERM"] {
        let mut child = start(&["run", EDGE, "--pcap", "-"]);
        let mut stdin = child.stdin.take().expect("piped");
        let whole = std::fs::read(root().join("captures/edge.pcap")).expect("the capture");
        stdin.write_all(&whole[..whole.len() / 2]).expect("read");
        std::thread::sleep(Duration::from_millis(300));
        signal(&child, name);
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        assert!(is_stopping(&mut stderr), "{name}: it says what a second one does");
        assert!(child.try_wait().expect("asked").is_none(), "{name}: it waits for its input");
        signal(&child, name);
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{name}");
        drop(stdin);
    }
}
