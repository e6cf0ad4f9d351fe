//! The connection tracker against Linux's: random exchanges with what a kernel made of each packet,
//! recorded by `conntrack_linux/record.py`. Verdict, state and time-out must be the same.
//!
//! `CONNTRACK_EXCHANGES=/path/to/more.txt cargo test -p paceline-nfs --test conntrack_linux` holds
//! the tracker to another recording.

use std::fmt::Write;

use nf::{NetworkFunction, Rig, Verdict};
use paceline_nfs::Conntrack;
use paceline_nfs::conntrack::{Gaps, Options, TcpState};
use wire::{Addr, Headers, Marks, protocol, tcp_flags};

#[path = "conntrack_linux/others.rs"]
mod others;

#[test]
fn linux_agrees() {
    let recording = match std::env::var("CONNTRACK_EXCHANGES") {
        Ok(path) => std::fs::read_to_string(path).expect("a recording"),
        Err(_) => include_str!("conntrack_linux/exchanges.txt").to_owned(),
    };
    let (mut exchanges, mut packets, mut failures) = (0, 0, Vec::new());
    let mut rig = None;
    let mut so_far = String::new();
    for line in recording.lines().filter(|line| !line.starts_with("# Linux")) {
        if let Some(options) = line.strip_prefix("# ") {
            exchanges += 1;
            so_far.clear();
            rig = Some(Rig::new(Conntrack::new(parse_options(options)).expect("options")));
        } else if let Some(connection) = &mut rig {
            writeln!(so_far, "{line}").expect("a string");
            packets += 1;
            let (time_ms, line) = line.split_once(' ').expect("a time");
            let time_ns = time_ms.parse::<u64>().expect("milliseconds") * 1_000_000;
            let ours = step(connection, time_ns, line);
            let theirs = Answer::recorded(line);
            if !ours.is_as_good_as(&theirs) {
                failures.push(format!("{so_far}  Linux {theirs:?}\n  here  {ours:?}\n"));
                rig = None; // what follows means nothing
            }
        }
    }
    assert!(packets > 0, "the recording is empty");
    assert!(
        failures.is_empty(),
        "{} of {exchanges} exchanges differ, such as\n{}",
        failures.len(),
        failures.iter().take(3).map(String::as_str).collect::<String>()
    );
}

/// What comes of a packet.
#[derive(Debug)]
struct Answer {
    passes: bool,
    /// Linux's name for the state, and seconds until the connection expires.
    connection: Option<(String, i64)>,
}

impl Answer {
    fn recorded(line: &str) -> Answer {
        let [verdict, state, seconds] = line.split(' ').skip(9).collect::<Vec<_>>()[..] else {
            panic!("12 words: {line}")
        };
        let connection = (state != "-").then(|| (state.to_owned(), seconds.parse().expect("seconds")));
        Answer { passes: verdict == "pass", connection }
    }

    /// Whether two answers are equal but for a second: the kernel took its time, and counts in ticks.
    fn is_as_good_as(&self, other: &Answer) -> bool {
        self.passes == other.passes
            && match (&self.connection, &other.connection) {
                (None, None) => true,
                (Some((ours, our_s)), Some((theirs, their_s))) => {
                    ours == theirs && (our_s - their_s).abs() <= 1
                }
                _ => false,
            }
    }
}

fn step(rig: &mut Rig<Conntrack>, time_ns: u64, line: &str) -> Answer {
    let headers = parse_packet(line);
    let verdict = rig.packet(time_ns, &headers);
    let function = Conntrack::new(Options::default()).expect("options");
    let connection = rig.state(&headers).map(|state| {
        let seconds = function.idle_timeout_ns(state) / 1_000_000_000;
        (linux_name(state.tcp()).to_owned(), seconds as i64)
    });
    Answer { passes: verdict == Verdict::Forward, connection }
}

fn parse_options(text: &str) -> Options {
    let is_set = |name: &str| text.split(' ').any(|word| word == format!("{name}=1"));
    Options { pick_up: is_set("loose"), liberal: is_set("liberal"), gaps: Gaps::Strict, ..Options::default() }
}

fn parse_packet(line: &str) -> Headers {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |index: usize| words[index].parse::<u32>().expect("a number");
    let (client, server) = ((Addr::v4([10, 0, 0, 1]), 4000), (Addr::v4([10, 1, 0, 1]), 80));
    let ((src, src_port), (dst, dst_port)) = match words[0] {
        "a" => (client, server),
        _ => (server, client),
    };
    let flag = |letter: char| match letter {
        'F' => tcp_flags::FIN,
        'S' => tcp_flags::SYN,
        'R' => tcp_flags::RST,
        'P' => tcp_flags::PSH,
        'A' => tcp_flags::ACK,
        'U' => tcp_flags::URG,
        _ => 0,
    };
    let mut marks = Marks::IPV4;
    marks.set(Marks::SACK_PERMITTED, words[7] == "1");
    let ack = number(3);
    let sack = words[8].parse().unwrap_or(ack);
    Headers {
        src,
        dst,
        src_port,
        dst_port,
        seq: number(2),
        ack,
        sack: if (sack.wrapping_sub(ack) as i32) < 0 { ack } else { sack },
        window: number(4) as u16,
        l3_len: 40 + number(5) as u16,
        l3_offset: 14,
        l4_offset: 34,
        protocol: protocol::TCP,
        tcp_flags: words[1].chars().map(flag).sum(),
        tcp_shape: (5 << 4) | words[6].parse().unwrap_or(15),
        marks,
        ..Headers::default()
    }
}

fn linux_name(tcp: TcpState) -> &'static str {
    match tcp {
        TcpState::None => "NONE",
        TcpState::SynSent => "SYN_SENT",
        TcpState::SynReceived => "SYN_RECV",
        TcpState::Established => "ESTABLISHED",
        TcpState::FinWait => "FIN_WAIT",
        TcpState::CloseWait => "CLOSE_WAIT",
        TcpState::LastAck => "LAST_ACK",
        TcpState::TimeWait => "TIME_WAIT",
        TcpState::Closed => "CLOSE",
        TcpState::SynSent2 => "SYN_SENT2",
    }
}
