//! TCP: what outbound packets tell, and how long mappings last by it (RFC 5382 REQ-5).

use super::*;

const SYN: u8 = tcp_flags::SYN;
const ACK: u8 = tcp_flags::ACK;
const SYN_ACK: u8 = tcp_flags::SYN | tcp_flags::ACK;
const FIN: u8 = tcp_flags::FIN | tcp_flags::ACK;
const RST: u8 = tcp_flags::RST;

const HOST: &str = "10.0.0.1:4000";
const A: &str = "192.0.2.1:80";
const B: &str = "192.0.2.2:80";

/// Where these outbound packets lead a mapping.
fn phase_after(packets: &[(u8, &str)]) -> Phase {
    let mut rig = small("");
    for (flags, peer) in packets {
        assert_eq!(rig.packet(0, &tcp(*flags, HOST, peer)), Verdict::Forward);
    }
    rig.state(&tcp(0, HOST, A)).unwrap().phase
}

#[test]
fn phases() {
    use Phase::{Closing, Established, Opening};
    let table: [(&[(u8, &str)], Phase); 18] = [
        (&[(SYN, A)], Opening),
        (&[(SYN, A), (SYN, A)], Opening),
        (&[(SYN, A), (ACK, A)], Established),
        (&[(SYN, A), (SYN_ACK, A)], Opening), // both open at once
        (&[(ACK, A)], Opening),               // in the middle
        (&[(ACK, A), (ACK, A)], Established),
        (&[(SYN, A), (ACK, A), (FIN, A)], Closing),
        (&[(SYN, A), (ACK, A), (FIN, A), (ACK, A)], Closing), // the peer's FIN is acknowledged
        (&[(SYN, A), (ACK, A), (RST, A)], Closing),
        (&[(RST, A)], Closing),
        (&[(SYN, A), (ACK, A), (FIN, A), (SYN, A)], Opening), // another connection
        (&[(SYN, A), (ACK, A), (FIN, A), (SYN, B), (ACK, B)], Established),
        (&[(SYN, A), (ACK, A), (FIN, A), (SYN, B), (ACK, B), (FIN, B)], Closing),
        (&[(SYN, A), (ACK, A), (SYN, B)], Established), // one opens, the other lives
        (&[(SYN, A), (ACK, A), (SYN, B), (ACK, B), (FIN, A)], Established), // ... and one closes
        (&[(SYN, A), (ACK, A), (SYN, B), (ACK, B), (FIN, A), (FIN, B)], Established), // who knows
        (&[(SYN, A), (ACK, A), (RST, B), (FIN, A)], Closing), // a stranger was refused
        (&[(SYN, A), (RST, B)], Opening),
    ];
    for (packets, expected) in table {
        assert_eq!(phase_after(packets), expected, "{packets:?}");
    }
}

#[test]
fn req_5_of_tcp_time_outs() {
    const OPENING: &[u8] = &[SYN];
    const ESTABLISHED: &[u8] = &[SYN, ACK];
    const CLOSING: &[u8] = &[SYN, ACK, FIN];
    let longer = "tcp_transitory_ms = 250000\ntcp_established_ms = 8000000";
    let apart = "tcp_opening_ms = 30000\ntcp_closing_ms = 300000";
    for (options, flags, timeout_ms) in [
        ("", OPENING, 240_000),
        ("", ESTABLISHED, 7_440_000),
        ("", CLOSING, 240_000),
        (longer, OPENING, 250_000),
        (longer, ESTABLISHED, 8_000_000),
        (longer, CLOSING, 250_000),
        // RFC 7857 §2.1: the two apart, and less than four minutes to open.
        (apart, OPENING, 30_000),
        (apart, ESTABLISHED, 7_440_000),
        (apart, CLOSING, 300_000),
        ("tcp_transitory_ms = 250000\ntcp_opening_ms = 1000", OPENING, 1_000),
        ("tcp_transitory_ms = 250000\ntcp_opening_ms = 1000", CLOSING, 250_000),
    ] {
        let mut rig = small(options);
        for flags in flags {
            rig.packet(0, &tcp(*flags, HOST, A));
        }
        rig.wait_until(ms(timeout_ms) - 1);
        assert_eq!(rig.len(), 1, "{flags:?}");
        rig.wait_until(ms(timeout_ms));
        assert!(rig.is_empty(), "{flags:?}");
    }
}

/// An outsider cannot end, shorten or lengthen a mapping.
#[test]
fn inbound_packets_change_nothing() {
    let mut rig = small("");
    for flags in [SYN, ACK] {
        rig.packet(0, &tcp(flags, HOST, A));
    }
    let before = *rig.state(&tcp(0, HOST, A)).unwrap();
    for flags in [RST, FIN, SYN, ACK] {
        assert_eq!(outcome(&mut rig, 1, &tcp(flags, A, "203.0.113.1:1024")), "192.0.2.1:80 > 10.0.0.1:4000");
    }
    assert_eq!(*rig.state(&tcp(0, HOST, A)).unwrap(), before);
    rig.wait_until(ms(7_440_000));
    assert!(rig.is_empty());
}
