//! What is not TCP beside Linux's tracker: random exchanges of UDP, ICMP with its errors, GRE and ESP, with what a kernel
//! made of each packet, recorded by `record_other.py`. Verdict, state and time-out must be the same.
//!
//! `CONNTRACK_OTHERS=/path/to/more.txt` holds the tracker to another recording.

use std::fmt::Write;

use nf::{NetworkFunction, Rig, Verdict};
use paceline_nfs::Conntrack;
use paceline_nfs::conntrack::Options;
use wire::{Headers, LinkType, Marks};

/// So near to the end of a time-out nobody can say whether the kernel's has come.
const EDGE_MS: u64 = 60;

const RECORDED: &str = include_str!("others.txt");

/// How many packets of a recording are as Linux has them; or the first exchanges in which one is not.
fn compare(recording: &str, options: impl Fn(&str) -> String) -> Result<usize, String> {
    let (mut packets, mut failures, mut so_far) = (0, Vec::new(), String::new());
    let (mut rig, mut times, mut limits) = (None, Vec::new(), Vec::new());
    for line in recording.lines().filter(|line| !line.starts_with("# Linux")) {
        if let Some(timeouts) = line.strip_prefix("# ") {
            so_far.clear();
            times.clear();
            limits =
                timeouts.split('=').filter_map(|word| word.split(' ').next()?.parse::<u64>().ok()).collect();
            let options: Options = toml::from_str(&options(&timeouts.replace(' ', "\n"))).expect("options");
            rig = Some(Rig::new(Conntrack::new(options).expect("valid options")));
        } else if let Some(tracker) = &mut rig {
            writeln!(so_far, "{line}").expect("a string");
            let [time_ms, side, bytes, verdict, state, seconds] = line.split(' ').collect::<Vec<_>>()[..]
            else {
                panic!("6 words: {line}")
            };
            let time_ms = time_ms.parse::<u64>().expect("milliseconds");
            let is_edge =
                |before: &u64| limits.iter().any(|s| (time_ms - before).abs_diff(s * 1_000) < EDGE_MS);
            if times.iter().any(is_edge) {
                // Whether a connection has ended is a matter of the kernel's ticks, and so is all that follows.
                rig = None;
                continue;
            }
            times.push(time_ms);
            packets += 1;
            let time_ns = time_ms * 1_000_000;
            let headers = headers(side, bytes);
            let passes = tracker.packet(time_ns, &headers) == Verdict::Forward;
            let ours = known(tracker, &headers);
            let seconds = seconds.parse::<i64>().unwrap_or(0);
            // The kernel took its time, and counts in ticks.
            let is_alike = passes == (verdict == "pass")
                && ours.0 == state
                && (ours.1.abs_diff(seconds) <= 1 || state == "-");
            if !is_alike {
                failures.push(format!("{so_far}  here {passes} {ours:?}\n"));
                rig = None; // what follows means nothing
            }
        }
    }
    let first = failures.iter().take(3).map(String::as_str).collect::<String>();
    if failures.is_empty() {
        Ok(packets)
    } else {
        Err(format!("{} differ, such as\n{first}", failures.len()))
    }
}

fn headers(side: &str, bytes: &str) -> Headers {
    let byte = |at: usize| u8::from_str_radix(&bytes[at..at + 2], 16).expect("hex");
    let bytes: Vec<u8> = (0..bytes.len()).step_by(2).map(byte).collect();
    let mut headers = wire::parse(LinkType::RawIp, &bytes, bytes.len() as u32);
    headers.marks.set(Marks::FROM_OUTSIDE, side == "b");
    headers
}

/// What the tracker knows of a packet's connection, in Linux's words, and how long it keeps it.
fn known(tracker: &Rig<Conntrack>, headers: &Headers) -> (&'static str, i64) {
    let Some(state) = tracker.state(headers) else { return ("-", 0) };
    let name = match (state.is_assured(), state.is_answered()) {
        (true, _) => "assured",
        (false, true) => "replied",
        (false, false) => "unreplied",
    };
    let function = Conntrack::new(Options::default()).expect("options");
    (name, (function.idle_timeout_ns(state) / 1_000_000_000) as i64)
}

#[test]
fn linux_agrees_on_what_is_not_tcp() {
    let recording = match std::env::var("CONNTRACK_OTHERS") {
        Ok(path) => std::fs::read_to_string(path).expect("a recording"),
        Err(_) => RECORDED.to_owned(),
    };
    let packets = compare(&recording, str::to_owned).unwrap_or_else(|error| panic!("{error}"));
    assert!(packets > 1_000, "{packets}");
}

/// A tracker that is off in one thing is found out by the recording.
#[test]
fn the_recording_finds_each_fault() {
    for fault in
        ["udp_timeout", "udp_timeout_stream", "icmp_timeout", "gre_timeout_stream", "generic_timeout"]
    {
        let faulty = |timeouts: &str| {
            let line = |line: &str| match line.split_once('=') {
                Some((name, seconds)) if name == fault => format!("{name} = {seconds}0\n"),
                _ => format!("{line}\n"),
            };
            timeouts.lines().map(line).collect()
        };
        assert!(compare(RECORDED, faulty).is_err(), "{fault}");
    }
    let passes = |timeouts: &str| format!("{timeouts}\ninvalid = \"pass\"");
    assert!(compare(RECORDED, passes).is_err());
    let strict = |timeouts: &str| format!("{timeouts}\nopen_from = \"inside\"");
    assert!(compare(RECORDED, strict).is_err());
}
