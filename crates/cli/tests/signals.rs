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
