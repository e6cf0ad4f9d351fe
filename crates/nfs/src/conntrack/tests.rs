//! Exchanges written out, one line for each packet, with what must come of it.

use std::borrow::ToOwned;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use nf::{NetworkFunction, Rig, Verdict};
use wire::{Addr, Headers, Marks, protocol, tcp_flags};

use super::{Conntrack, Options, State, reason};

mod exchanges;
mod gaps;
mod in_place;
mod options;
mod others;
mod properties;
mod records;

const CLIENT: (Addr, u16) = (Addr::v4([10, 0, 0, 1]), 4000);
const SERVER: (Addr, u16) = (Addr::v4([192, 0, 2, 1]), 80);

/// Strict unless the options say otherwise: the exchanges are held to Linux's way.
pub(super) fn conntrack(options: &str) -> Conntrack {
    let options =
        if options.contains("gaps") { options.to_owned() } else { format!("gaps = \"strict\"\n{options}") };
    let options = &options[..];
    Conntrack::new(toml::from_str::<Options>(options).expect("options that parse")).expect("valid options")
}

/// A client, a server, and the tracker between them.
struct Talk {
    rig: Rig<Conntrack>,
    time_ns: u64,
    client: (Addr, u16),
    server: (Addr, u16),
}

impl Talk {
    fn new(options: &str) -> Talk {
        let rig = Rig::new(conntrack(options));
        Talk { rig, time_ns: 0, client: CLIENT, server: SERVER }
    }

    fn between(self, client: (Addr, u16), server: (Addr, u16)) -> Talk {
        Talk { client, server, ..self }
    }

    /// Plays a script. A line is a packet and what comes of it, or a wait:
    ///
    /// ```text
    /// > SA seq=7 ack=9 len=5 win=8 scale=2 sackok sack=10 frag : pass established 300
    /// wait 60.5
    /// ```
    ///
    /// `>` is from the client. Then flags by first letter and header fields, each 0 if left out, but
    /// the window, which is 8192. After the colon `pass` or a drop reason, the state or `-`, and, if
    /// given, seconds until the connection expires.
    fn play(mut self, script: &str) -> Talk {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(seconds) = line.strip_prefix("wait ") {
                self.time_ns += (seconds.parse::<f64>().expect("seconds") * 1e9) as u64;
                self.rig.wait_until(self.time_ns);
                continue;
            }
            let (packet, expected) = line.split_once(" : ").expect("a colon");
            let headers = self.headers(packet);
            let verdict = self.rig.packet(self.time_ns, &headers);
            let with_timeout = expected.split(' ').count() == 3;
            assert_eq!(self.outcome(verdict, &headers, with_timeout), expected, "{line}");
        }
        self
    }

    fn outcome(&self, verdict: Verdict, headers: &Headers, with_timeout: bool) -> String {
        let verdict = match verdict {
            Verdict::Forward => "pass",
            Verdict::Drop(reason) => Conntrack::ABOUT.drop_reasons[usize::from(reason)],
            other => panic!("{other:?}"),
        };
        let Some(state) = self.rig.state(headers) else { return format!("{verdict} -") };
        let name = state.tcp().name();
        match with_timeout {
            true => format!("{verdict} {name} {}", conntrack("").idle_timeout_ns(state) / 1_000_000_000),
            false => format!("{verdict} {name}"),
        }
    }

    fn headers(&self, packet: &str) -> Headers {
        let mut words = packet.split_whitespace();
        let (from, to) = match words.next() {
            Some(">") => (self.client, self.server),
            Some("<") => (self.server, self.client),
            _ => panic!("a direction: {packet}"),
        };
        let flags = words.next().expect("flags").chars().map(flag).sum();
        let mut headers = tcp(from, to, flags);
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, "0"));
            let value: u32 = value.parse().expect(word);
            match name {
                "seq" => headers.seq = value,
                "ack" => (headers.ack, headers.sack) = (value, value),
                "sack" => headers.sack = value,
                "win" => headers.window = value as u16,
                "len" => headers.l3_len += value as u16,
                "scale" => headers.tcp_shape = (5 << 4) | value as u8,
                "sackok" => headers.marks |= Marks::SACK_PERMITTED,
                "frag" => headers.marks |= Marks::FIRST_FRAGMENT,
                _ => panic!("{word}"),
            }
        }
        headers
    }

    /// How often each event was counted that was counted at all.
    fn events(&self) -> Vec<(&'static str, u64)> {
        let counts = Conntrack::ABOUT.events.iter().map(|name| (*name, self.rig.event(name)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

fn flag(letter: char) -> u8 {
    match letter {
        'F' => tcp_flags::FIN,
        'S' => tcp_flags::SYN,
        'R' => tcp_flags::RST,
        'P' => tcp_flags::PSH,
        'A' => tcp_flags::ACK,
        'U' => tcp_flags::URG,
        'E' => tcp_flags::ECE,
        'C' => tcp_flags::CWR,
        '-' => 0,
        _ => panic!("{letter}"),
    }
}

/// A TCP packet without options or payload.
fn tcp((src, src_port): (Addr, u16), (dst, dst_port): (Addr, u16), tcp_flags: u8) -> Headers {
    let is_v4 = src.to_v4().is_some();
    let ip_header_len = if is_v4 { 20 } else { 40 };
    Headers {
        src,
        dst,
        src_port,
        dst_port,
        window: 8192,
        l3_len: ip_header_len + 20,
        l3_offset: 14,
        l4_offset: 14 + ip_header_len,
        protocol: protocol::TCP,
        tcp_flags,
        tcp_shape: (5 << 4) | 15,
        marks: if is_v4 { Marks::IPV4 } else { Marks::IPV6 },
        ..Headers::default()
    }
}

/// With an inside, nobody outside opens: neither by a SYN nor in the middle, whether there was a connection or not.
#[test]
fn from_outside_nothing_opens_where_the_inside_alone_may() {
    let from = |outside: bool, flags: u8, seq: u32, ack: u32| {
        let mut headers =
            tcp(if outside { SERVER } else { CLIENT }, if outside { CLIENT } else { SERVER }, flags);
        (headers.seq, headers.ack, headers.sack) = (seq, ack, ack);
        headers.marks.set(Marks::FROM_OUTSIDE, outside);
        headers
    };
    let (syn, ack) = (tcp_flags::SYN, tcp_flags::ACK);
    let opened_from_outside = Verdict::Drop(7);
    let mut rig = Rig::new(conntrack("open_from = \"inside\""));
    assert_eq!(rig.packet(0, &from(true, syn, 1, 0)), opened_from_outside);
    assert_eq!(rig.packet(1, &from(true, ack, 1, 1)), opened_from_outside);
    assert_eq!(rig.packet(2, &from(false, syn, 1, 0)), Verdict::Forward);
    assert_eq!(rig.packet(3, &from(true, syn | ack, 7, 2)), Verdict::Forward);
    assert_eq!(rig.packet(4, &from(false, ack, 2, 8)), Verdict::Forward);
    assert_eq!(rig.event("established"), 1);
    // By default the side says nothing.
    let mut rig = Rig::new(conntrack(""));
    assert_eq!(rig.packet(0, &from(true, syn, 1, 0)), Verdict::Forward);
    assert_eq!(conntrack("").wants_sides(), None);
    assert!(conntrack("open_from = \"inside\"").wants_sides().is_some_and(|why| why.contains("open_from")));
}
