//! Tests of the pattern scanner.

use std::string::String;
use std::vec::Vec;

use nf::{Rig, Verdict};
use proptest::prelude::*;
use wire::{Headers, LinkType, Marks};

use super::*;
use crate::test_util::{function, not_ip, option_error, tcp, tcp_v6};

const PASS: Verdict = Verdict::Forward;
const DROP: Verdict = Verdict::Drop(PATTERN);

fn rig(options: &str) -> Rig<PatternScanner> {
    Rig::new(function(options))
}

fn udp(headers: Headers) -> Headers {
    Headers { protocol: protocol::UDP, ..headers }
}

fn scan(rig: &mut Rig<PatternScanner>, headers: &Headers, payload: &[u8]) -> Verdict {
    rig.packet_with_payload(0, headers, payload)
}

/// The list of the module's page; what each packet is told by, and what is counted then.
#[test]
fn golden() {
    let mut rig = rig(r#"
        patterns = [
            "/etc/passwd",
            { content = "cmd.exe", nocase = true, ports = [80, 8080] },
            { name = "nop sled", content = "|90 90 90 90|", protocol = "tcp" },
            { content = "SSH-1.|39 39|", action = "count" },
        ]
    "#);
    let to = |dst_port| Headers { dst_port, ..tcp(1) };
    let packets: [(Headers, &[u8], Verdict); 13] = [
        (to(80), b"GET /../../etc/passwd HTTP/1.0", DROP),
        (to(80), b"GET /../../etc/PASSWD HTTP/1.0", PASS), // letters of another case
        (to(80), b"GET /CMD.exe", DROP),
        (to(8080), b"cmd.exe", DROP),
        (to(81), b"cmd.exe", PASS),
        (udp(to(80)), b"cmd.EXE", DROP),
        (to(9), b"\x41\x90\x90\x90\x90", DROP),
        (to(9), b"\x41\x90\x90\x90", PASS),
        (udp(to(9)), b"\x90\x90\x90\x90", PASS),
        (to(22), b"SSH-1.99-old", PASS), // counted
        (to(22), b"SSH-2.0-new", PASS),
        (to(22), b"SSH-1.99 /etc/passwd", DROP),      // both
        (tcp_v6(1), b"/etc/passwd/etc/passwd", DROP), // counted once
    ];
    for (headers, payload, verdict) in packets {
        assert_eq!(scan(&mut rig, &headers, payload), verdict, "{}", payload.escape_ascii());
        assert!(rig.edits().is_empty() && rig.is_empty());
    }
    let events = ["packets-scanned", "packets-matched", "patterns-found", "other-patterns"];
    assert_eq!(events.map(|event| rig.event(event)), [13, 8, 9, 0]);
    let patterns = ["pattern-01", "pattern-02", "pattern-03", "pattern-04", "pattern-05"];
    assert_eq!(patterns.map(|event| rig.event(event)), [3, 3, 1, 2, 0]);

    let report = &rig.report()[0];
    assert!(report.title.starts_with("The first 4 of 4 patterns; 30 bytes in a DFA of "), "{}", report.title);
    assert_eq!(report.rows[1], ["2", "cmd.exe", "cmd.exe", "tcp, udp port 80,8080", "drop"]);
    assert_eq!(report.rows[2], ["3", "nop sled", "|90 90 90 90|", "tcp", "drop"]);
    assert_eq!(report.rows[3], ["4", "SSH-1.|39 39|", "SSH-1.|39 39|", "tcp, udp", "count"]);
}

#[test]
fn a_scanner_that_detects_drops_nothing_but_what_a_pattern_says() {
    let mut rig = rig(r#"action = "count"
        patterns = ["bad", { content = "worse", action = "drop" }]"#);
    for (payload, verdict) in [(&b"bad"[..], PASS), (b"worse", DROP), (b"bad, worse", DROP)] {
        assert_eq!(scan(&mut rig, &tcp(1), payload), verdict);
    }
    assert_eq!([rig.event("pattern-01"), rig.event("pattern-02")], [2, 2]);
}

/// All that end in one place, and those within others, are found in the one pass.
#[test]
fn patterns_within_patterns_are_all_found() {
    let mut rig = rig(r#"patterns = ["abcd", "bc", "c", "bcde", "abcd", "x"]"#);
    assert_eq!(scan(&mut rig, &tcp(1), b"..abcde"), DROP);
    let counts: Vec<u64> = (1..=6).map(|number| rig.event(&format!("pattern-0{number}"))).collect();
    assert_eq!(counts, [1, 1, 1, 1, 1, 0]);
}

#[test]
fn nothing_is_put_together_from_several_packets() {
    let mut rig = rig("patterns = [\"abcd\"]");
    for payload in [&b"ab"[..], b"cd", b"abc", b"d"] {
        assert_eq!(scan(&mut rig, &tcp(1), payload), PASS);
    }
    assert_eq!(rig.event("packets-scanned"), 4);
}

#[test]
fn what_has_no_payload_or_no_ports_is_not_scanned() {
    let mut rig = rig("patterns = [\"a\"]");
    let later = Headers { marks: Marks::IPV4 | Marks::LATER_FRAGMENT, ..tcp(1) };
    let icmp = Headers { protocol: protocol::ICMP, ..tcp(1) };
    let malformed = Headers { malformed_code: 1, ..tcp(1) };
    for packet in [later, icmp, malformed, not_ip()] {
        assert_eq!(scan(&mut rig, &packet, b"a"), PASS, "{packet:?}");
    }
    assert_eq!(rig.packet(0, &tcp(1)), PASS);
    assert_eq!(rig.event("packets-scanned"), 0);
    let first = Headers { marks: Marks::IPV4 | Marks::FIRST_FRAGMENT, ..tcp(1) };
    assert_eq!(scan(&mut rig, &first, b"a"), DROP);
}

/// UDP to port 9 whose payload says `attack`, whole and cut behind each of its bytes by a capture.
#[test]
fn of_a_snapped_frame_is_searched_what_it_holds() {
    #[rustfmt::skip]
    let frame = [
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00,
        0x45, 0, 0, 34, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
        0x10, 0x00, 0, 9, 0, 14, 0, 0,
        b'a', b't', b't', b'a', b'c', b'k',
    ];
    let mut rig = rig("patterns = [\"tack\"]");
    for len in 42..=frame.len() {
        let headers = wire::parse(LinkType::Ethernet, &frame[..len], frame.len() as u32);
        let payload = &frame[usize::from(headers.payload_offset())..len];
        let expected = if len == frame.len() { DROP } else { PASS };
        assert_eq!(scan(&mut rig, &headers, payload), expected, "{len} bytes of it");
        assert_eq!(headers.payload_len(), 6);
    }
    assert_eq!(rig.event("packets-scanned"), 6);
}

/// Each number has an event of its own, and the last one is for all that have none.
#[test]
fn patterns_are_counted_by_their_number() {
    let list: Vec<String> = (1..=40).map(|number| format!("\"<{number}>\"")).collect();
    let mut rig = rig(&format!("patterns = [{}]", list.join(", ")));
    for number in 1..=40 {
        assert_eq!(scan(&mut rig, &tcp(1), format!("<{number}>").as_bytes()), DROP);
        match number {
            1..=32 => assert_eq!(rig.event(&format!("pattern-{number:02}")), 1),
            _ => assert_eq!(rig.event("other-patterns"), number - 32),
        }
    }
    assert_eq!(rig.event("patterns-found"), 40);
    assert_eq!(rig.report()[0].rows.len(), 32);
}

/// Few bytes make a DFA and many an NFA, each no larger than the module's page says.
#[test]
fn memory_is_bounded_by_the_bytes_of_the_patterns() {
    let many = |count: usize, len: usize| {
        let pattern = |number: usize| {
            let hash = |i: usize| nf::hash_bytes(&[number.to_le_bytes(), i.to_le_bytes()].concat(), 1);
            (0..len).map(|i| format!("{:02x}", hash(i) as u8)).collect::<String>()
        };
        let list: Vec<String> = (0..count).map(|number| format!("\"|{}|\"", pattern(number))).collect();
        function::<PatternScanner>(&format!("patterns = [{}]", list.join(", ")))
    };
    let Search::Dfa(dfa) = many(128, 16).automaton else { panic!("2,048 bytes are to make a DFA") };
    let per_byte = dfa.memory_usage() / 2048;
    assert!((600..=1100).contains(&per_byte), "{per_byte} bytes");
    for (count, len) in [(129, 16), (4096, 32)] {
        let Search::Nfa(nfa) = many(count, len).automaton else { panic!("more are to make an NFA") };
        let per_byte = nfa.memory_usage() / (count * len);
        assert!((40..=130).contains(&per_byte), "{per_byte} bytes");
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let long = "a".repeat(1025);
    let ports: Vec<String> = (1..=65).map(|port: u16| port.to_string()).collect();
    for (options, expected) in [
        ("patterns = [\"a\", \"\"]".into(), "number 2, \"\", that has 0 bytes; 1 to 1024 are possible"),
        (format!("patterns = [\"{long}\"]"), "that has 1025 bytes; 1 to 1024 are possible"),
        ("patterns = [\"|9|\"]".into(), "\"|9|\", that has `|9|`; write bytes of two hex digits each"),
        ("patterns = [{ content = \"a\", ports = [0] }]".into(), "has port 0; write ports from 1 to 65535"),
        (
            format!("patterns = [{{ content = \"a\", ports = [{}] }}]", ports.join(",")),
            "has 65 ports; at most 64 are possible",
        ),
        (format!("patterns = [{}]", "\"a\",".repeat(4097)), "are 4097; at most 4096 are possible"),
        (
            format!("patterns = [{}]", format!("\"{}\",", &long[..1024]).repeat(129)),
            "have 132096 bytes together; at most 131072 are possible",
        ),
    ] {
        let error = option_error::<PatternScanner>(&options);
        assert!(error.starts_with("`patterns` ") && error.contains(expected), "{error}");
        assert!(error.len() < 250, "{error}");
    }
    for (options, expected) in [
        ("patterns = [1]", "a pattern: text such as"),
        ("patterns = [{ name = \"a\" }]", "missing field `content`"),
        ("patterns = [{ content = \"a\", port = 1 }]", "unknown field `port`"),
        ("patterns = [{ content = \"a\", protocol = \"icmp\" }]", "expected `tcp` or `udp`"),
        ("action = \"alert\"", "expected `drop` or `count`"),
    ] {
        let error = toml::from_str::<Options>(options).expect_err("refused");
        assert!(error.message().contains(expected), "{error}");
    }
}

/// One pattern of the property test.
#[derive(Clone, Debug)]
struct Sought {
    bytes: Vec<u8>,
    nocase: bool,
    drops: bool,
    is_tcp: Option<bool>,
    ports: Vec<u16>,
}

impl Sought {
    fn to_toml(&self) -> String {
        let hex: String = self.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let protocol = match self.is_tcp {
            None => "",
            Some(true) => ", protocol = \"tcp\"",
            Some(false) => ", protocol = \"udp\"",
        };
        let action = if self.drops { "drop" } else { "count" };
        let Sought { nocase, ports, .. } = self;
        format!(
            "{{ content = \"|{hex}|\", nocase = {nocase}, ports = {ports:?}, action = \"{action}\"{protocol} }}"
        )
    }

    /// By trying every place.
    fn is_in(&self, headers: &Headers, payload: &[u8]) -> bool {
        let is_here = |window: &[u8]| match self.nocase {
            true => window.eq_ignore_ascii_case(&self.bytes),
            false => window == self.bytes,
        };
        let is_tcp = headers.protocol == protocol::TCP;
        self.is_tcp.is_none_or(|wanted| wanted == is_tcp)
            && (self.ports.is_empty() || self.ports.contains(&headers.dst_port))
            && payload.windows(self.bytes.len()).any(is_here)
    }
}

/// Few letters, so that much is found: some have two cases, some look as if they had.
const LETTERS: [u8; 6] = [b'a', b'A', b'b', b'@', b'`', 0xe1];

fn letters(len: core::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(proptest::sample::select(&LETTERS[..]), len)
}

fn sought() -> impl Strategy<Value = Sought> {
    let ports = proptest::sample::select(std::vec![std::vec![], std::vec![80], std::vec![81, 82]]);
    (letters(1..5), any::<bool>(), any::<bool>(), any::<Option<bool>>(), ports)
        .prop_map(|(bytes, nocase, drops, is_tcp, ports)| Sought { bytes, nocase, drops, is_tcp, ports })
}

proptest! {
    /// Against a search that tries every pattern in every place. A pattern of a kilobyte and more beside
    /// them makes the NFA of it.
    #[test]
    fn finds_what_a_plain_search_finds(
        patterns in proptest::collection::vec(sought(), 1..12),
        packets in proptest::collection::vec((letters(0..40), any::<bool>(), 80_u16..83), 1..12),
        is_large: bool,
    ) {
        let mut list: Vec<String> = patterns.iter().map(Sought::to_toml).collect();
        if is_large {
            list.extend(["q", "r", "s"].map(|letter| format!("\"{}\"", letter.repeat(1000))));
        }
        let mut rig = rig(&format!("patterns = [{}]", list.join(", ")));
        let mut found = [0; 12];
        for (payload, is_tcp, dst_port) in &packets {
            let headers = Headers { dst_port: *dst_port, ..if *is_tcp { tcp(1) } else { udp(tcp(1)) } };
            let is_in = |pattern: &Sought| pattern.is_in(&headers, payload);
            let drops = patterns.iter().any(|pattern| pattern.drops && is_in(pattern));
            prop_assert_eq!(scan(&mut rig, &headers, payload), if drops { DROP } else { PASS });
            for (count, pattern) in found.iter_mut().zip(&patterns) {
                *count += u64::from(is_in(pattern));
            }
        }
        for (number, count) in (1..=patterns.len()).zip(found) {
            prop_assert_eq!(rig.event(&format!("pattern-{number:02}")), count, "pattern {}", number);
        }
        prop_assert_eq!(rig.event("patterns-found"), found.iter().sum::<u64>());
    }
}
