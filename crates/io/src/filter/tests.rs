//! Tests of filters: programs by hand, and what libpcap compiles.

use std::path::Path;
use std::process::Command;

use super::*;
use crate::capture::CaptureReader;

/// Code, jt, jf, k.
type Numbers = (u16, u8, u8, u32);

/// `tcpdump -d tcp`, as tcpdump 4.99 says it.
const TCP: [Numbers; 12] = [
    (0x28, 0, 0, 12),
    (0x15, 0, 5, 0x86dd),
    (0x30, 0, 0, 20),
    (0x15, 6, 0, 6),
    (0x15, 0, 6, 0x2c),
    (0x30, 0, 0, 54),
    (0x15, 3, 4, 6),
    (0x15, 0, 3, 0x800),
    (0x30, 0, 0, 23),
    (0x15, 0, 1, 6),
    (0x06, 0, 0, 262_144),
    (0x06, 0, 0, 0),
];

fn program(instructions: &[Numbers]) -> Result<Program, ProgramError> {
    let instruction = |(code, jt, jf, k): &Numbers| Instruction { code: *code, jt: *jt, jf: *jf, k: *k };
    Program::new(instructions.iter().map(instruction).collect())
}

/// The filter, or `None` where libpcap is not here.
fn compiled(expression: &str) -> Option<Filter> {
    match Filter::compile(expression) {
        Ok(filter) => Some(filter),
        Err(FilterError::NoLibrary { why }) => {
            eprintln!("skipped: no libpcap: {why}");
            None
        }
        Err(error) => panic!("{expression}: {error}"),
    }
}

#[test]
fn a_program_is_run_over_bytes() {
    let tcp = program(&TCP).expect("a program");
    let mut frame = [0; 74];
    (frame[12], frame[13], frame[20]) = (0x86, 0xdd, 6);
    assert!(tcp.matches(&frame, 74), "TCP over IPv6");
    frame[20] = 17;
    assert!(!tcp.matches(&frame, 74), "UDP");
    frame[20] = 0x2c;
    frame[54] = 6;
    assert!(tcp.matches(&frame, 74), "a fragment of TCP");
    assert!(!tcp.matches(&frame[..54], 74), "what is past the end matches nothing");
    assert!(!tcp.matches(&[], 0));
}

#[test]
fn every_operation_does_what_it_says() {
    // A begins as 12, X as 5.
    let cases: [(u16, u32, Option<u32>); 15] = [
        (0x04, 3, Some(15)),
        (0x0c, 0, Some(17)),
        (0x14, 13, Some(u32::MAX)),
        (0x24, 3, Some(36)),
        (0x34, 5, Some(2)),
        (0x3c, 0, Some(2)),
        (0x44, 3, Some(15)),
        (0x54, 6, Some(4)),
        (0x64, 2, Some(48)),
        (0x64, 32, Some(0)),
        (0x74, 2, Some(3)),
        (0x84, 0, Some(12_u32.wrapping_neg())),
        (0x94, 5, Some(2)),
        (0xa4, 10, Some(6)),
        (0xac, 0, Some(9)),
    ];
    for (code, k, result) in cases {
        let made =
            program(&[(0x01, 0, 0, 5), (0x00, 0, 0, 12), (code, 0, 0, k), (0x16, 0, 0, 0)]).expect("right");
        assert_eq!(made.run(&[], 0), result, "{code:#x} {k}");
    }
    let by_x = program(&[(0x01, 0, 0, 0), (0x3c, 0, 0, 0), (0x16, 0, 0, 0)]).expect("right");
    assert_eq!(by_x.run(&[], 0), None, "divided by zero");
    let memory =
        program(&[(0x80, 0, 0, 0), (0x02, 0, 0, 3), (0x61, 0, 0, 3), (0x87, 0, 0, 0), (0x16, 0, 0, 0)]);
    assert_eq!(memory.expect("right").run(&[], 99), Some(99), "the length on the wire, through memory and X");
    let header = program(&[(0xb1, 0, 0, 1), (0x50, 0, 0, 0), (0x16, 0, 0, 0)]).expect("right");
    assert_eq!(header.run(&[7, 0x41, 0, 0, 9], 5), Some(9), "the byte behind an IPv4 header's length");
}

#[test]
fn what_is_no_program_is_refused() {
    let wrong: [(&[Numbers], ProgramError); 7] = [
        (&[], ProgramError::NoEnd),
        (&[(0x00, 0, 0, 1)], ProgramError::NoEnd),
        (&[(0x15, 1, 0, 0), (0x06, 0, 0, 0)], ProgramError::Instruction(0)),
        (&[(0x05, 0, 0, u32::MAX), (0x06, 0, 0, 0)], ProgramError::Instruction(0)),
        (&[(0x34, 0, 0, 0), (0x06, 0, 0, 0)], ProgramError::Instruction(0)),
        (&[(0x00, 0, 0, 0), (0x02, 0, 0, 16), (0x06, 0, 0, 0)], ProgramError::Instruction(1)),
        (&[(0xffff, 0, 0, 0), (0x06, 0, 0, 0)], ProgramError::Instruction(0)),
    ];
    for (instructions, error) in wrong {
        assert_eq!(program(instructions), Err(error), "{instructions:?}");
    }
}

#[test]
fn no_expression_matches_all() {
    let all = Filter::compile(" ").expect("takes no library");
    assert!(LINKS.iter().all(|link| all.matches(*link, &[], 0)));
}

#[test]
fn a_mistake_is_pointed_at() {
    let cases = [
        ("tcp port 80 and and host 192.0.2.1", "and", 16),
        ("tcp port", "", 8),
        ("tcp prot 80", "prot", 4),
        ("(tcp or udp", "", 11),
        ("tcp or udp)", ")", 10),
        ("host 192.0.2.1 && port == 3", "==", 23),
        ("portrange 1-99999", "portrange 1-99999", 0),
        ("tcp[13] & 2 != 0 host", "host", 17),
    ];
    for (expression, word, at) in cases {
        match Filter::compile(expression) {
            Err(FilterError::NoLibrary { why }) => return eprintln!("skipped: no libpcap: {why}"),
            Err(FilterError::Mistake { at: found, message, .. }) => {
                let text = expression.get(found.clone()).unwrap_or("");
                assert_eq!((text, found.start), (word, at), "{expression}: {message}");
            }
            Ok(_) => panic!("{expression} is a filter"),
        }
    }
}

#[test]
fn filters_that_make_sense_for_some_links_alone() {
    let Some(filter) = compiled("ether src 02:00:00:00:00:01") else { return };
    assert!(filter.program(LinkType::Ethernet).is_some() && filter.program(LinkType::RawIp).is_none());
    assert!(!filter.matches(LinkType::RawIp, &[0; 64], 64));
}

/// As many packets as tcpdump finds, whose programs libpcap itself runs.
#[test]
fn tcpdump_finds_the_same_packets() {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures/edge.pcap");
    let filters = [
        "tcp",
        "udp port 53",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
        "ip6",
        "less 100 and not arp",
        "icmp or icmp6",
        "net 192.0.2.0/24 or net 203.0.113.0/24",
        "ip[2:2] > 600 and tcp[13] = 0x18",
        "tcp portrange 80-443 and (src net 10 or dst net 10)",
    ];
    for expression in filters {
        let Some(filter) = compiled(expression) else { return };
        let by_tcpdump =
            Command::new("tcpdump").args(["-nn", "-t", "-r"]).arg(&capture).arg(expression).output();
        let Ok(by_tcpdump) = by_tcpdump else { return eprintln!("skipped: no tcpdump") };
        let lines = by_tcpdump.stdout.split(|byte| *byte == b'\n');
        let expected = lines.filter(|line| !line.is_empty() && !line[0].is_ascii_whitespace()).count();
        let mut reader = CaptureReader::open(&capture).expect("a capture of ours");
        let mut found = 0;
        while let Some(record) = reader.next().expect("whole") {
            found += usize::from(filter.matches(record.link, record.data, record.wire_len));
        }
        assert_eq!(found, expected, "{expression}: {}", String::from_utf8_lossy(&by_tcpdump.stderr));
    }
}
