//! A hundred megabytes each way by `curl`, as users do it: through the router with NAT, and through a bridge.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::live::of;
use crate::service::Lan;
use crate::support::{Scratch, root, stderr};

const BYTES: usize = 100 << 20;
/// The gateway's policer lets [`RATE`] pass, and the machine may be busy with other things.
const SECONDS: &str = "240";
/// Enough that TCP meets the policer's drops, and does not wait for it most of the time.
const RATE: &str = "400 Mbit/s";
const ADDRESS: &str = "203.0.113.2:8000";

/// The byte at a place, both ways: a prime, so that no block is like another.
fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

/// Answers a GET with the bytes, and a PUT with how many came as they should.
fn serve(stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut first, mut len) = (String::new(), String::new(), 0);
    while reader.read_line(&mut line)? > 0 && line != "\r\n" {
        if first.is_empty() {
            first.clone_from(&line);
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            len = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    let mut writer = stream;
    let mut chunk = vec![0; 251 << 10];
    if first.starts_with("GET") {
        write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\nConnection: close\r\n\r\n")?;
        chunk.iter_mut().enumerate().for_each(|(at, to)| *to = byte(at));
        let mut left = BYTES;
        while left > 0 {
            let now = left.min(chunk.len());
            writer.write_all(&chunk[..now])?;
            left -= now;
        }
        return Ok(());
    }
    let (mut at, mut right) = (0, 0);
    while at < len {
        let read = reader.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        right += chunk[..read].iter().zip(at..).filter(|(got, at)| **got == byte(*at)).count();
        at += read;
    }
    let answer = right.to_string();
    write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}", answer.len())
}

fn both_ways(label: &str, arguments: &[&str]) {
    let Some(lan) = Lan::new(label) else { return };
    if !lan.left.command("curl").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: `curl` does not run");
        return;
    }
    lan.routed();
    if !arguments.contains(&"route") {
        lan.left.ip("addr add 203.0.113.10/24 dev eth0");
        lan.gateway.ip("addr flush dev out");
        lan.left.ip("route del default");
    }
    let listener = lan.right.bound(|| TcpListener::bind(ADDRESS));
    let run = lan.start(arguments, &[]);
    if arguments.contains(&"rss") {
        assert!(run.said.contains("each with sockets of its own"), "{}", run.said);
    }
    let whole = lan.folder.file("whole");
    let got = lan.folder.file("got");
    std::fs::write(&whole, (0..BYTES).map(byte).collect::<Vec<u8>>()).expect("there is room");
    let curl = |more: &[&str]| {
        let mut command = lan.left.command("curl");
        command.args(["-sS", "--connect-timeout", "30", "--max-time", SECONDS]).args(more);
        command.arg(format!("http://{ADDRESS}/"));
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{more:?}: {}", stderr(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for stream in listener.incoming().take(2) {
                let stream = stream.expect("a connection");
                stream.set_read_timeout(Some(Duration::from_secs(240))).expect("a socket");
                // Where it fails curl says so.
                let _ = serve(stream);
            }
        });
        let down = scope.spawn(|| curl(&["-o", &got]));
        // Where this fails nobody waits for the second connection.
        if down.join().is_err() {
            let _ = lan.right.inside(|| TcpStream::connect(ADDRESS));
            panic!("the download failed");
        }
        assert_eq!(curl(&["-T", &whole]), BYTES.to_string(), "bytes that came as they were sent");
    });
    assert!(std::fs::read(&got).expect("a file") == std::fs::read(&whole).expect("a file"), "every byte");
    for file in [&got, &whole] {
        std::fs::remove_file(file).expect("it is there");
    }
    run.signal("-TERM");
    let report = run.ended();
    for interface in ["in", "out"] {
        assert_eq!(of(&report, interface)["lost"], json!({}), "{interface}");
    }
}

#[test]
fn a_hundred_megabytes_both_ways_through_the_gateway() {
    let text = std::fs::read_to_string(root().join("examples/gateway.toml")).expect("an example");
    let faster = text.replace("100 Mbit/s", RATE);
    assert_ne!(faster, text, "the policer's rate");
    let chain = Scratch::new("curl-gateway.toml", faster.as_bytes());
    both_ways("curl-route", &[chain.path(), "--mode", "route", "--socket", "xdp"]);
}

#[test]
fn a_hundred_megabytes_both_ways_through_a_bridge_on_two_cores() {
    both_ways("curl-bridge", &["examples/scan.toml", "--strategy", "rss", "--cores", "2", "--socket", "xdp"]);
}
