//! Single packets of a run on interfaces: `paceline ctl trace` and `paceline ctl drops`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::control::{Lan, PATIENCE, number};
use crate::drops::{commented, counted, reported};
use crate::support::{paceline, stderr};

/// Lets a ping or two pass, and drops those that follow at once.
const POLICED: &str = "name = \"policed\"\n[[function]]\nuse = \"conntrack\"\n\
                       [[function]]\nuse = \"policer\"\nrate_bytes_per_s = 1\nburst_bytes = 200\n";

/// A request, and the lines behind its answer.
struct Asked(BufReader<UnixStream>);

impl Asked {
    fn new(lan: &Lan, request: &Value) -> Asked {
        let mut stream = UnixStream::connect(lan.socket()).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        writeln!(stream, "{request}").expect("it listens");
        Asked(BufReader::new(stream))
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("it answers");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

/// Pings of which some are not answered.
fn pings(lan: &Lan, count: u32) {
    let arguments = format!("-n -q -i 0.05 -W 1 -c {count} 192.0.2.2");
    lan.left.run("ping", &arguments);
}

fn packets_are_traced(strategy: &str, cores: &str) {
    let Some(lan) = Lan::new(&format!("trace-{strategy}")) else { return };
    fs::write(lan.folder.file("track.toml"), POLICED).expect("a folder of the test");
    let run = lan.start(strategy, cores);
    let mut trace = Asked::new(&lan, &json!({ "command": "trace", "count": 1_000, "seconds": 600 }));
    assert_eq!(trace.line(), json!({ "ok": true }));
    // Others are listened to meanwhile; a second trace is not.
    assert_eq!(lan.ask(&json!({ "command": "status" }))["ok"], json!(true));
    let second = lan.ask(&json!({ "command": "trace", "count": 1 }));
    assert!(second["error"].as_str().is_some_and(|error| error.contains("another trace is on")), "{second}");
    pings(&lan, 6);
    // What it says at the end of its connection ends the trace.
    let mut traced: Vec<Value> = Vec::new();
    let begin = Instant::now();
    let mut is_asked_to_end = false;
    let end = loop {
        let is_seen =
            |packets: &[Value]| packets.iter().filter(|traced| traced["fate"] == json!("drop")).count() >= 4;
        if !is_asked_to_end && (is_seen(&traced) || begin.elapsed() > PATIENCE) {
            trace.0.get_ref().shutdown(std::net::Shutdown::Write).expect("a socket");
            is_asked_to_end = true;
        }
        let line = trace.line();
        match line["traced"].clone() {
            Value::Null => break line["end"].clone(),
            packet => traced.push(packet),
        }
    };
    assert_eq!((number(&end["told"]), number(&end["missed"])), (traced.len() as u64, 0), "{end}");
    // Each core tells of its packets as it comes to them.
    traced.sort_by_key(|traced| number(&traced["packet"]));
    let requests: Vec<&Value> = traced
        .iter()
        .filter(|traced| traced["protocol"] == json!("icmp") && traced["src"] == json!("192.0.2.1"))
        .collect();
    assert!(requests.len() >= 6, "{traced:#?}");
    let policer =
        |packet: &Value| packet["functions"].as_array().expect("a list").last().expect("two").clone();
    let (passed, dropped): (Vec<&Value>, Vec<&Value>) =
        requests.iter().copied().partition(|request| request["fate"] == json!("forward"));
    assert!(passed.len() == 2 && dropped.len() >= 4, "two of 84 bytes fit into 200: {requests:#?}");
    // Each finds what the one before it left: also where they come to several cores.
    for pair in requests.windows(2) {
        let (left, found) =
            (policer(pair[0])["after"]["values"].clone(), policer(pair[1])["before"]["values"].clone());
        assert_eq!(left, found, "{pair:#?}");
    }
    for request in dropped {
        assert_eq!(request["reason"], json!("policer/over-rate"));
        assert_eq!(
            (&policer(request)["verdict"], &policer(request)["reason"]),
            (&json!("drop"), &json!("over-rate"))
        );
    }
    let cores_seen = |core: u64| requests.iter().filter(|request| number(&request["core"]) == core).count();
    assert!(strategy != "scr" || cores_seen(0) > 0 && cores_seen(1) > 0, "packets take turns");
    assert_eq!(lan.ask(&json!({ "command": "stop" })), json!({ "ok": true }));
    run.ended();
}

#[test]
fn packets_are_traced_on_one_core() {
    packets_are_traced("single", "1");
}

#[test]
fn packets_are_traced_under_scr() {
    packets_are_traced("scr", "2");
}

#[test]
fn packets_are_traced_under_rss() {
    packets_are_traced("rss", "2");
}

#[test]
fn people_trace_with_a_filter() {
    let Some(lan) = Lan::new("trace-people") else { return };
    let run = lan.start("single", "1");
    let socket = lan.socket();
    let ctl = |arguments: &[&str]| paceline(&[&["ctl", "--control", &socket], arguments].concat());
    let wrong = ctl(&["trace", "icmp and and"]);
    assert_eq!(wrong.status.code(), Some(2));
    if stderr(&wrong).contains("libpcap0.8") {
        return eprintln!("skipped: no libpcap");
    }
    assert!(stderr(&wrong).contains("this is no filter"), "{}", stderr(&wrong));
    let none = ctl(&["trace", "udp port 9", "--seconds", "1"]);
    assert_eq!(String::from_utf8_lossy(&none.stdout), "traced 0 packets of 0 that matched\n");
    let text = thread::scope(|scope| {
        let tracing = scope.spawn(|| ctl(&["trace", "icmp", "--count", "4", "--seconds", "60"]));
        while !tracing.is_finished() {
            lan.left.ping("192.0.2.2", 1);
        }
        String::from_utf8_lossy(&tracing.join().expect("no panic").stdout).into_owned()
    });
    assert_eq!(text.matches("\npacket ").count() + usize::from(text.starts_with("packet ")), 4, "{text}");
    assert!(
        text.contains("icmp 192.0.2.1 > 192.0.2.2, 98 bytes\n  conntrack  forward; counted opened"),
        "{text}"
    );
    assert!(text.contains("traced 4 packets of "), "{text}");
    for (request, why) in [
        (json!({ "command": "trace", "filter": "tcp" }), "does not end with a return"),
        (json!({ "command": "trace", "program": [[0xffff, 0, 0, 0], [6, 0, 0, 1]] }), "none of classic BPF"),
        (json!({ "command": "trace", "program": [[70_000, 0, 0, 0]] }), "none of classic BPF"),
        (json!({ "command": "trace", "count": 0 }), "1 to 100000"),
    ] {
        let answer = lan.ask(&request);
        assert!(answer["error"].as_str().is_some_and(|error| error.contains(why)), "{request}: {answer}");
    }
    // The run ends during a trace: lines end, and the run does not wait.
    let mut trace = Asked::new(&lan, &json!({ "command": "trace" }));
    assert_eq!(trace.line(), json!({ "ok": true }));
    assert_eq!(lan.ask(&json!({ "command": "stop" })), json!({ "ok": true }));
    while trace.line()["end"].is_null() {}
    run.ended();
}

#[test]
fn dropped_packets_are_written_with_their_reasons() {
    for (strategy, cores) in [("single", "1"), ("rss", "2")] {
        let Some(lan) = Lan::new(&format!("drops-{strategy}")) else { return };
        fs::write(lan.folder.file("track.toml"), POLICED).expect("a folder of the test");
        let run = lan.start(strategy, cores);
        let file = lan.folder.file("drops.pcapng");
        let ctl = drops_to(&lan, &file);
        pings(&lan, 12);
        assert!(
            Command::new("kill").args(["-INT", &ctl.id().to_string()]).status().expect("kill runs").success()
        );
        let output = ctl.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(lan.ask(&json!({ "command": "stop" })), json!({ "ok": true }));
        let report = run.ended();
        let written = commented(&file);
        assert_eq!(
            said,
            format!("{} dropped packets written to {file}\n", written.len()),
            "{}",
            stderr(&output)
        );
        assert!(written.len() >= 10, "{said}");
        assert_eq!(counted(&written), reported(&report), "as many as the report has");
        assert!(written.iter().all(|(_, bytes)| bytes.len() >= 42), "with their bytes");
    }
}

#[test]
fn what_the_router_drops_is_written_too() {
    let Some(lan) = Lan::new("drops-route") else { return };
    fs::write(lan.folder.file("track.toml"), "[[function]]\nuse = \"flow-statistics\"\n")
        .expect("a folder of the test");
    for (host, interface, address) in [
        (&lan.left, "eth0", "10.0.0.10"),
        (&lan.gateway, "in", "10.0.0.1"),
        (&lan.gateway, "out", "203.0.113.1"),
        (&lan.right, "eth0", "203.0.113.2"),
    ] {
        host.ip(&format!("addr flush dev {interface}"));
        host.ip(&format!("addr add {address}/24 dev {interface}"));
    }
    lan.left.ip("route add default via 10.0.0.1");
    let run = lan.start_with("rss", "2", &["--mode", "route"]);
    let file = lan.folder.file("drops.pcapng");
    let ctl = drops_to(&lan, &file);
    lan.left.run("ping", "-n -q -i 0.1 -W 1 -c 3 198.51.100.1");
    lan.left.run("ping", "-n -q -i 0.1 -W 1 -t 1 -c 2 203.0.113.2");
    let said = interrupted(ctl);
    assert_eq!(lan.ask(&json!({ "command": "stop" })), json!({ "ok": true }));
    let report = run.ended();
    let written = counted(&commented(&file));
    for (reason, least) in [("no-route", 3), ("ttl-expired", 2)] {
        let count = written.get(&format!("router/{reason}")).copied().unwrap_or(0);
        let dropped = &report["routing"]["dropped"][reason];
        assert!(count >= least && json!(count) == *dropped, "{reason}: {written:?}, {dropped}\n{said}");
    }
}

/// `ctl drops`, once it has begun.
fn drops_to(lan: &Lan, file: &str) -> Child {
    let begin = Instant::now();
    loop {
        let mut ctl = Command::new(env!("CARGO_BIN_EXE_paceline"));
        ctl.args(["ctl", "--control", &lan.socket(), "drops", "--out", file, "--seconds", "600"]);
        let mut ctl = ctl.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        thread::sleep(Duration::from_secs(1));
        // Nobody else may begin meanwhile: one that could was too early, and may have been in the way.
        let answer = lan.ask(&json!({ "command": "drops", "seconds": 0 }));
        if answer["ok"] == json!(false) {
            assert!(
                answer["error"].as_str().is_some_and(|error| error.contains("another command")),
                "{answer}"
            );
            return ctl;
        }
        let _ = ctl.kill();
        let _ = ctl.wait();
        assert!(begin.elapsed() < PATIENCE, "drops are written");
    }
}

/// What it says when Ctrl-C ends it.
fn interrupted(ctl: Child) -> String {
    assert!(
        Command::new("kill").args(["-INT", &ctl.id().to_string()]).status().expect("kill runs").success()
    );
    let output = ctl.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output)
}
