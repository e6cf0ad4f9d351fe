//! Rules that reject: what their senders are told, over a capture and on interfaces, by programs as users have them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use io::capture::CaptureReader;
use serde_json::{Value, json};
use wire::{Checksums, LinkType, tcp_flags};

use crate::live::number;
use crate::raw::{Raw, datagram, station};
use crate::service::Lan;
use crate::support::{Folder, paceline, root, stderr, stdout};

/// How long something may stand still on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Rules as a chain file has them.
fn chain(folder: &Folder, rules: &[&str]) -> String {
    let path = folder.file("reject.toml");
    let text = format!(
        "name = \"reject\"\n[[function]]\nuse = \"firewall\"\ndefault = \"reject\"\nrules = {rules:?}\n"
    );
    fs::write(&path, text).expect("a folder of the test");
    path
}

/// What a capture holds: times, and bytes.
fn packets(path: &str) -> Vec<(u64, Vec<u8>)> {
    let mut reader = CaptureReader::open(if path.starts_with('/') { path.into() } else { root().join(path) })
        .expect("a capture");
    let mut all = Vec::new();
    while let Some(record) = reader.next().expect("whole") {
        all.push((record.time_ns, record.data.to_vec()));
    }
    all
}

/// Each rejected packet of the recorded capture is in its place the answer that its bytes ask for, whatever the strategy.
#[test]
fn over_a_capture_answers_are_where_the_packets_were() {
    let folder = Folder::new("reject");
    let chain = chain(
        &folder,
        &[
            "accept any from any to any state established,related",
            "accept tcp from any to any port 80 state new",
            "reject tcp from any to any port 5201 log",
            "drop udp from any to any port 53",
        ],
    );
    let (out, log) = (folder.file("out.pcap"), folder.file("log.jsonl"));
    let mut first = None;
    for (strategy, cores) in
        [("single", "1"), ("rss", "2"), ("scr", "3"), ("hybrid", "2"), ("shared", "2"), ("dyssect", "2")]
    {
        let args = ["run", &chain, "--pcap", "captures/edge.pcap", "--strategy", strategy, "--cores", cores];
        let files = ["--out", &out, "--log", &log, "--log-per-second", "1000000", "--json", "-"];
        let output = paceline(&[&args[..], &files].concat());
        let report: Value = serde_json::from_str(&stdout(&output)).expect("a report");
        let answers = &report["answers"];
        let [resets, errors, silent] =
            ["resets", "icmp_errors", "unanswerable"].map(|field| number(&answers[field]));
        assert_eq!(number(&answers["limited"]), 0, "over a capture there is no rate");
        let drops = |reason: &str| number(&report["drops"][format!("firewall/{reason}")]);
        assert_eq!(resets + errors + silent, drops("rejected") + drops("logged-01"), "{strategy}");
        assert!(resets > 100 && errors > 10, "{answers}");
        let left = packets(&out);
        assert_eq!(left.len() as u64, number(&report["verdicts"]["forward"]) + resets + errors);
        assert!(left.is_sorted_by_key(|(time_ns, _)| *time_ns));
        let found = left.iter().filter(|(_, bytes)| is_reset_without_more(bytes)).count() as u64;
        assert!(found >= resets, "{found} of {resets}");
        let logged = fs::read_to_string(&log).expect("a log");
        assert_eq!(logged.lines().count() as u64, drops("logged-01") + 1, "{strategy}");
        let (first_left, first_answers) = first.get_or_insert_with(|| (left.clone(), answers.clone()));
        // Cores that share states step packets of a connection in no order: what comes of it is not promised.
        let is_same = *first_left == left && first_answers == answers;
        assert!(is_same || strategy == "shared", "{strategy}: as on one core");
    }
    // By another way: each packet of the capture that is answered, from the list of drops alone.
    let drops = folder.file("drops.pcapng");
    let args =
        ["run", &chain, "--pcap", "captures/edge.pcap", "--drops", &drops, "--drops-per-second", "1000000"];
    let text = stdout(&paceline(&args));
    assert!(text.contains("rejected packets answered: by "), "{text}");
    let (left, _) = first.expect("runs");
    let mut left = left.into_iter();
    for (comment, bytes) in crate::drops::commented(&drops) {
        if comment.contains(": rejected") || comment.contains(": logged-01") {
            let Some(answer) = wire::answer(LinkType::Ethernet, &bytes, bytes.len() as u32) else { continue };
            let answer = answer.parts(&bytes).concat();
            assert!(left.any(|(_, left)| left == answer), "{comment}");
        }
    }
    for strategy in ["rss", "scr"] {
        let args = ["verify", &chain, "--pcap", "captures/edge.pcap", "--strategy", strategy, "--cores", "2"];
        let output = paceline(&args);
        assert!(stdout(&output).contains("EQUALS single"), "{}", stderr(&output));
    }
}

fn is_reset_without_more(bytes: &[u8]) -> bool {
    let headers = wire::parse(LinkType::Ethernet, bytes, bytes.len() as u32);
    headers.is_tcp()
        && headers.tcp_flags & tcp_flags::RST != 0
        && headers.window == 0
        && wire::verify(bytes, &headers) == Checksums::Right
}

/// Hosts with addresses of both families, on one link, or with a router between them.
fn lan(label: &str, is_routed: bool) -> Option<Lan> {
    let lan = Lan::new(label)?;
    if !is_routed {
        for (host, number) in [(&lan.left, 1), (&lan.right, 2)] {
            host.ip(&format!("addr add 2001:db8::{number}/64 dev eth0 nodad"));
        }
        return Some(lan);
    }
    for (host, own, router, interface, net) in [(&lan.left, 1, 254, "in", 1), (&lan.right, 2, 254, "out", 2)]
    {
        host.ip("addr flush dev eth0");
        host.ip(&format!("addr add 10.0.{net}.{own}/24 dev eth0"));
        host.ip(&format!("addr add 2001:db8:{net}::{own}/64 dev eth0 nodad"));
        lan.gateway.ip(&format!("addr add 10.0.{net}.{router}/24 dev {interface}"));
        lan.gateway.ip(&format!("addr add 2001:db8:{net}::{router}/64 dev {interface} nodad"));
        // The kernel asks for neighbours from there.
        host.ip(&format!("addr add fe80::{own}/64 dev eth0 nodad"));
        lan.gateway.ip(&format!("addr add fe80::{router}/64 dev {interface} nodad"));
        host.ip(&format!("-4 route add default via 10.0.{net}.{router}"));
        host.ip(&format!("-6 route add default via 2001:db8:{net}::{router}"));
    }
    Some(lan)
}

/// The right host listens, and the chain keeps others from it: programs of the left host hear so.
fn programs_are_told(label: &str, is_routed: bool, arguments: &[&str]) {
    let Some(lan) = lan(label, is_routed) else { return };
    let chain = chain(
        &lan.folder,
        &[
            "accept any from any to any state established,related",
            "accept tcp from any to any port 7000 state new",
            "reject tcp from any to any port 81 log",
            "reject icmp from any to any type echo-request",
        ],
    );
    let mode: &[&str] = if is_routed { &["--mode", "route"] } else { &[] };
    let run = lan.start(&[&[chain.as_str()], mode, arguments].concat(), &[]);
    let addresses = if is_routed { ["10.0.2.2", "2001:db8:2::2"] } else { ["192.0.2.2", "2001:db8::2"] };
    let has_curl = lan.left.run("curl", "--version").status.success();
    if !has_curl {
        println!("skipped: `curl` does not run");
    }
    for address in addresses {
        let at = |port: u16| SocketAddr::new(address.parse().expect("one"), port);
        let [listener, silent] = [7_000, 81].map(|port| lan.right.bound(|| TcpListener::bind(at(port))));
        let connect = |port| lan.left.inside(|| TcpStream::connect_timeout(&at(port), PATIENCE));
        let stream = connect(7_000).expect("it is let through");
        drop((stream, listener));
        let refused = connect(81).expect_err("rejected");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{address}: {refused}");
        if has_curl {
            let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
            let output = lan.left.run("curl", &format!("-sS --max-time 60 http://{host}:81/"));
            assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
        }
        let output = lan.left.run("ping", &format!("-n -c 1 -W 30 {address}"));
        let said = stdout(&output);
        let expected = if address.contains(':') { "Administratively prohibited" } else { "Packet filtered" };
        assert!(said.contains(expected), "{address}: {said}");
        drop(silent);
    }
    run.signal("-TERM");
    let report = run.ended();
    // Each was told at once: nobody asked again.
    let connections = if has_curl { 4 } else { 2 };
    let answers = &report["answers"];
    let told = ["resets", "icmp_errors", "limited"].map(|field| number(&answers[field]));
    // What hosts send to groups, such as reports of MLD, is not answered.
    assert_eq!(told, [connections, 2, 0], "{report:#}");
    assert_eq!(number(&report["drops"]["firewall/logged-01"]), connections);
}

#[test]
fn programs_are_told_through_a_bridge_by_af_xdp() {
    programs_are_told("reject-xdp", false, &["--socket", "xdp"]);
}

#[test]
fn programs_are_told_through_a_bridge_by_af_packet() {
    programs_are_told("reject-packet", false, &["--socket", "packet"]);
}

#[test]
fn programs_are_told_through_a_router() {
    programs_are_told("reject-route", true, &["--socket", "xdp"]);
}

#[test]
fn programs_are_told_by_cores_with_sockets_of_their_own() {
    programs_are_told("reject-rss", false, &["--socket", "xdp", "--strategy", "rss", "--cores", "2"]);
}

/// Another chain takes over: from then on its rules say who is told.
#[test]
fn after_a_reload_the_new_rules_say_who_is_told() {
    let Some(lan) = lan("reject-reload", false) else { return };
    let rejecting = chain(&lan.folder, &["accept icmp from any to any"]);
    let dropping = lan.folder.file("dropping.toml");
    let text = fs::read_to_string(&rejecting).expect("it is there").replace("\"reject\"", "\"drop\"");
    fs::write(&dropping, text).expect("a folder of the test");
    let run = lan.start(&[&dropping, "--socket", "packet"], &[]);
    let (to, from) = (station(&lan.right), station(&lan.left));
    let send = || lan.left.inside(|| Raw::open("eth0").send(&datagram(to, from, [192, 0, 2, 1], 7)));
    // What came before it is through when a ping is answered.
    let come_through = || assert!(lan.left.ping("192.0.2.2", 1));
    for (chain, frames) in [(&rejecting, 3), (&dropping, 2)] {
        (0..frames).for_each(|_| send());
        come_through();
        lan.ctl(&["reload", chain]);
    }
    send();
    come_through();
    run.signal("-TERM");
    let report = run.ended();
    let answers = &report["answers"];
    assert_eq!(number(&answers["icmp_errors"]), 2, "while the second chain ran: {answers}");
}

/// Strangers with forged sources, and one host that asks all the time, beside 50 connections, of which each goes on. Says how many
/// answers left, and how many may have.
fn flood(label: &str, options: &[&str]) -> Option<(u64, u64)> {
    const CONNECTIONS: usize = 50;
    const FRAMES: u32 = 60_000;
    let lan = lan(label, false)?;
    let chain = chain(
        &lan.folder,
        &[
            "accept any from any to any state established,related",
            "accept tcp from any to any port 7000 state new",
        ],
    );
    let run = lan.start(&[&[chain.as_str()], options].concat(), &[]);
    let address: SocketAddr = "192.0.2.2:7000".parse().expect("one");
    let listener = lan.right.bound(|| TcpListener::bind(address));
    let (to, from) = (station(&lan.right), station(&lan.left));
    let begin = Instant::now();
    let whole = thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..CONNECTIONS {
                let Ok((mut stream, _)) = listener.accept() else { return };
                scope.spawn(move || {
                    let mut writer = stream.try_clone().expect("a socket");
                    std::io::copy(&mut stream, &mut writer)
                });
            }
        });
        let connect = || TcpStream::connect_timeout(&address, PATIENCE).expect("it is let through");
        let mut streams: Vec<TcpStream> = lan.left.inside(|| (0..CONNECTIONS).map(|_| connect()).collect());
        let flood = scope.spawn(|| {
            lan.left.enter();
            let raw = Raw::open("eth0");
            for number in 0..FRAMES {
                let [_, a, b, c] = number.to_be_bytes();
                // Every fourth is of the greedy host.
                let source = if number % 4 == 0 { [192, 0, 2, 1] } else { [198, 18 + (a & 1), b, c] };
                raw.send(&datagram(to, from, source, number as u16));
            }
        });
        let mut turns = 0;
        loop {
            let is_last = flood.is_finished();
            for stream in &mut streams {
                stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
                stream.write_all(&[7; 1_000]).expect("it stands");
                stream.read_exact(&mut [0; 1_000]).expect("it stands");
            }
            turns += 1;
            if is_last {
                break;
            }
        }
        drop(streams);
        turns
    });
    run.signal("-TERM");
    let report = run.ended();
    let seconds = begin.elapsed().as_secs_f64();
    let answers = &report["answers"];
    let sent = number(&answers["icmp_errors"]);
    println!(
        "{label}: {sent} of {FRAMES} answered in {seconds:.1} s; {CONNECTIONS} connections, {whole} turns"
    );
    let rejected = number(&report["drops"]["firewall/rejected"]);
    let all = ["resets", "icmp_errors", "unanswerable", "limited"].map(|field| number(&answers[field]));
    assert_eq!(all.iter().sum::<u64>(), rejected, "each has one fate: {report:#}");
    Some((sent, 50 + (1_000.0 * seconds) as u64 + 1))
}

#[test]
fn a_flood_is_answered_at_the_rate() {
    for socket in ["packet", "xdp"] {
        let Some((sent, bound)) = flood("reject-flood", &["--socket", socket]) else { return };
        assert!((50..=bound).contains(&sent), "{sent} answers, of {bound} that may leave, by {socket}");
    }
}

/// Planted: without the limit more leave than the test above lets pass. With 0 none leaves.
#[test]
fn the_rate_is_what_bounds_a_flood() {
    let unlimited = ["--socket", "packet", "--answers-per-second", "1000000000"];
    let Some((sent, bound)) = flood("reject-unlimited", &unlimited) else { return };
    assert!(sent > bound, "{sent} answers, of {bound} that may leave");
    let none = ["--socket", "packet", "--answers-per-second", "0"];
    assert_eq!(flood("reject-none", &none).map(|(sent, _)| sent), Some(0));
}

/// What `ctl log` with these options shows, and notes, of a run to which so many frames come at a time, until it has shown a
/// number of lines.
fn logged(label: &str, options: &[&str], frames: u32, lines: usize) -> Option<(Vec<String>, String)> {
    let lan = lan(label, false)?;
    let chain = chain(
        &lan.folder,
        &["reject udp from 192.0.2.1 to any port 99 log", "drop udp from any to any port 98"],
    );
    let run = lan.start(&[&chain, "--socket", "packet"], &[]);
    let (to, from) = (station(&lan.right), station(&lan.left));
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.args(["ctl", "--control", &lan.socket(), "log"]).args(options);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let send = || {
        let raw = Raw::open("eth0");
        (0..frames).for_each(|number| raw.send(&datagram(to, from, [192, 0, 2, 1], number as u16)));
    };
    // It begins to listen at some time.
    let mut shown: Vec<String> = thread::scope(|scope| {
        let shown = scope.spawn(|| stdout.by_ref().take(lines).collect());
        let begin = Instant::now();
        while !shown.is_finished() && begin.elapsed() < PATIENCE {
            lan.left.inside(send);
            thread::sleep(Duration::from_millis(20));
        }
        // Lets it go, if it has not shown as many.
        run.signal("-TERM");
        shown.join().expect("lines")
    });
    shown.extend(stdout);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    let report = run.ended();
    assert!(number(&report["answers"]["icmp_errors"]) > 0, "{report:#}");
    assert!(shown.len() >= lines, "{shown:?}: {}", stderr(&output));
    Some((shown, stderr(&output)))
}

#[test]
fn the_log_is_shown_live() {
    let Some((shown, _)) = logged("reject-log", &[], 1, 1) else { return };
    let rule = "firewall rule 1: udp 192.0.2.1:0 > 192.0.2.2:99, 42 bytes: reject udp from 192.0.2.1 to any port 99 log";
    assert!(shown[0].ends_with(rule) && shown[0].contains(" in "), "{shown:?}");
}

/// A flood is shown with as many lines of each second as are asked for, and it is told how many were left out.
#[test]
fn a_flood_is_shown_at_a_rate() {
    let Some((shown, notes)) = logged("reject-log-flood", &["--json", "--per-second", "3"], 50, 3) else {
        return;
    };
    let mut seconds = BTreeMap::<u64, u64>::new();
    for line in shown {
        let line: Value = serde_json::from_str(&line).expect("JSON");
        let found = (&line["rule"], &line["dst_port"], &line["interface"]);
        assert_eq!(found, (&json!("1"), &json!(99), &json!("in")));
        *seconds.entry(number(&line["time_ns"]) / 1_000_000_000).or_default() += 1;
    }
    assert!(seconds.values().all(|lines| *lines <= 3), "{seconds:?}");
    assert!(notes.contains("left out, beyond --per-second 3"), "{notes}");
}
