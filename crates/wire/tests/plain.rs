//! The short way through the parser: plain packets with every byte changed to every value, cut at
//! every length, read as they do layer by layer.

use crate::invariants;

use invariants::parse_both_ways;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use wire::{LinkType, Marks, tcp_flags};

/// Ethernet, IPv4, and a transport header with what follows it, 8 bytes of payload at least.
fn frame(protocol: u8, transport: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x02; 12];
    frame.extend([
        0x08,
        0x00,
        0x45,
        0xb8,
        0,
        20 + transport.len() as u8,
        0x12,
        0x34,
        0x40,
        0x00,
        63,
        protocol,
    ]);
    frame.extend([0xab, 0xcd, 10, 1, 2, 3, 192, 0, 2, 9]);
    frame.extend(transport);
    frame
}

fn udp() -> Vec<u8> {
    frame(17, &[0x10, 0x92, 0x00, 0x35, 0, 24, 0xaa, 0xbb, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8])
}

fn tcp(options: &[u8]) -> Vec<u8> {
    let words = 5 + options.len() as u8 / 4;
    let flags = tcp_flags::SYN | tcp_flags::ACK;
    let mut header = vec![0x10, 0x92, 0x00, 0x50, 1, 2, 3, 4, 5, 6, 7, 8, words << 4, flags, 0xfa, 0xf0];
    header.extend([0xaa, 0xbb, 0, 0]);
    header.extend(options);
    header.extend([0x77; 8]);
    frame(6, &header)
}

const TIMESTAMP: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
const SYN: [u8; 12] = [2, 4, 5, 0xb4, 1, 3, 3, 7, 4, 2, 1, 1];

fn frames() -> [Vec<u8>; 4] {
    [udp(), tcp(&[]), tcp(&TIMESTAMP), tcp(&SYN)]
}

#[test]
fn plain_packets_are_well_formed() {
    for frame in frames() {
        let headers = parse_both_ways(LinkType::Ethernet, &frame, 0);
        assert!(headers.is_well_formed() && headers.marks.contains(Marks::IPV4), "{headers:?}");
        assert_eq!((headers.ttl, headers.tos, headers.l3_offset, headers.l4_offset), (63, 0xb8, 14, 34));
    }
}

#[test]
fn every_value_of_every_byte() {
    for mut frame in frames() {
        for at in 12..frame.len() {
            let kept = frame[at];
            for value in 0..=255 {
                frame[at] = value;
                parse_both_ways(LinkType::Ethernet, &frame, 0);
                parse_both_ways(LinkType::Ethernet, &frame, 300);
            }
            frame[at] = kept;
        }
    }
}

/// What decides: the lengths of the capture, the wire, IP, the TCP header, UDP.
#[test]
fn every_combination_of_lengths() {
    for mut frame in frames() {
        let whole = frame.len();
        frame.resize(whole + 4, 0xee);
        for captured in 0..=frame.len() {
            for wire_len in [0, whole - 1, whole, whole + 1, whole + 5] {
                for ip_len in [0, 19, 20, 27, 28, 39, 40, whole - 15, whole - 14, whole - 10, whole - 9] {
                    frame[17] = ip_len as u8;
                    for last in [0x00, 0x07, 0x08, 0x18, 0x50, 0x54, 0x80, 0xf0] {
                        let at = if frame[23] == 17 { 39 } else { 46 };
                        let kept = std::mem::replace(&mut frame[at], last);
                        parse_both_ways(LinkType::Ethernet, &frame[..captured], wire_len as u32);
                        frame[at] = kept;
                    }
                }
                frame[17] = (whole - 14) as u8;
            }
        }
    }
}

/// As many as a batch holds, plain and others in turn, some of them left out.
#[test]
fn packets_of_a_batch_keep_their_places() {
    let malformed = frame(17, &[0; 8]);
    let later_fragment = {
        let mut frame = udp();
        frame[21] = 1;
        frame
    };
    let kinds = [udp(), later_fragment, tcp(&TIMESTAMP), malformed, tcp(&SYN)];
    let packets: Vec<Vec<u8>> = kinds.into_iter().cycle().take(64).collect();
    for len in [0, 1, 63, 64] {
        for skipped in [0, 1, u64::MAX, 0x5555_5555_5555_5555, 1 << 63] {
            let mut headers = [invariants::leftover(); 64];
            let batch = wire::parse_batch(&packets[..len], skipped, &mut headers, |frame| {
                (LinkType::Ethernet, frame, 0)
            });
            for (i, headers) in headers.iter().enumerate() {
                let is_parsed = i < len && skipped >> i & 1 == 0;
                let expected = match is_parsed {
                    true => wire::parse(LinkType::Ethernet, &packets[i], 0),
                    false => invariants::leftover(),
                };
                assert_eq!(*headers, expected, "{i} of {len}, {skipped:x}");
                let is_plain = is_parsed && expected.is_plain(LinkType::Ethernet);
                assert_eq!(batch.plain >> i & 1 == 1, is_plain, "{i} of {len}, {skipped:x}");
                let is_well_formed = is_parsed && expected.is_well_formed();
                assert_eq!(batch.well_formed >> i & 1 == 1, is_well_formed, "{i} of {len}, {skipped:x}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "64 packets at most")]
fn a_batch_of_more_is_a_mistake() {
    let packets = [[0_u8; 60]; 65];
    wire::parse_batch(&packets, 0, &mut [invariants::leftover(); 65], |frame| (LinkType::Ethernet, frame, 0));
}

proptest! {
    #![proptest_config(crate::cases(100_000))]

    #[test]
    fn several_bytes_at_once(
        mut frame in select(frames().to_vec()),
        changes in vec((any::<Index>(), prop_oneof![any::<u8>(), 0..24_u8]), 0..5),
        cut in 0..20_usize,
        beyond in 0..20_u32,
        link in prop_oneof![8 => Just(LinkType::Ethernet), 1 => select(&invariants::LINKS)],
    ) {
        for (index, value) in changes {
            frame[12 + index.index(42)] = value;
        }
        let captured = frame.len() - cut;
        parse_both_ways(link, &frame[..captured], captured as u32 + beyond);
    }
}
