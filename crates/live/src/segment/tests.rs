//! Tests of segmentation: TCP, UDP, and tunnels.

use etherparse::PacketBuilder;
use wire::{Checksums, verify};

use super::*;

fn data(payload: usize) -> Vec<u8> {
    (0..payload).map(|at| (at * 7) as u8).collect()
}

fn tcp(payload: usize, is_ipv6: bool) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]);
    let builder = match is_ipv6 {
        false => builder.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64),
        true => builder.ipv6([1; 16], [2; 16], 64),
    };
    let mut frame = Vec::new();
    let builder = builder.tcp(1_000, 80, u32::MAX - 1_000, 500).fin().psh().ack(7);
    builder.write(&mut frame, &data(payload)).expect("a packet");
    frame
}

fn segments(frame: &[u8], payload_bytes: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    assert!(segment(frame, payload_bytes, None, &mut Vec::new(), &mut |part| all.push(part.to_vec())));
    all
}

/// Each is a packet that a receiver takes, and together they are what was sent.
#[test]
fn segments_are_whole_packets() {
    for is_ipv6 in [false, true] {
        for (payload, payload_bytes, count) in [(10_000, 1_448, 7), (1_448, 1_448, 1), (2_897, 1_448, 3)] {
            let frame = tcp(payload, is_ipv6);
            let whole = parse(LinkType::Ethernet, &frame, frame.len() as u32);
            let segments = segments(&frame, payload_bytes);
            assert_eq!(segments.len(), count);
            let mut data = Vec::new();
            for (number, segment) in segments.iter().enumerate() {
                let headers = parse(LinkType::Ethernet, segment, segment.len() as u32);
                assert_eq!(verify(segment, &headers), Checksums::Right, "{headers:?}");
                assert_eq!(headers.seq, whole.seq.wrapping_add(data.len() as u32));
                let is_last = number + 1 == count;
                assert_eq!(headers.tcp_flags & tcp_flags::FIN != 0, is_last);
                data.extend_from_slice(&segment[usize::from(headers.l4_offset) + 20..]);
                assert_eq!(headers.payload_len() as usize + 54 + if is_ipv6 { 20 } else { 0 }, segment.len());
            }
            assert_eq!(data, frame[frame.len() - payload..]);
        }
    }
}

#[test]
fn datagrams_are_segmented_too() {
    let builder =
        PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(1_000, 53);
    let mut frame = Vec::new();
    builder.write(&mut frame, &data(3_000)).expect("a packet");
    let segments = segments(&frame, 1_200);
    assert_eq!(segments.iter().map(Vec::len).collect::<Vec<_>>(), [1_242, 1_242, 642]);
    for segment in segments {
        let headers = parse(LinkType::Ethernet, &segment, segment.len() as u32);
        assert_eq!((verify(&segment, &headers), headers.is_well_formed()), (Checksums::Right, true));
    }
}

#[test]
fn other_packets_are_not_segmented() {
    let mut never = |_: &mut [u8]| panic!("nothing is given");
    for frame in [vec![], vec![0; 60], tcp(0, false)] {
        assert!(!segment(&frame, 100, None, &mut Vec::new(), &mut never));
    }
    assert!(!segment(&tcp(100, false), 0, None, &mut Vec::new(), &mut never));
}

/// An Ethernet frame in VXLAN, with the outer checksum as told.
fn vxlan(inner: &[u8], has_checksum: bool) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64);
    let payload = [&[8, 0, 0, 0, 0, 0, 42, 0], inner].concat();
    builder.udp(50_000, 4_789).write(&mut frame, &payload).expect("a packet");
    if !has_checksum {
        frame[40..42].fill(0);
    }
    frame
}

/// The innermost packet of a frame, and that all packets around it are right.
fn innermost(frame: &[u8]) -> (Headers, Vec<u8>) {
    let (levels, count) = levels(frame);
    for Level { start, headers } in &levels[..count] {
        assert_eq!(verify(&frame[*start..], headers), Checksums::Right, "{headers:?}");
        assert_eq!(usize::from(headers.l3_offset) + usize::from(headers.l3_len), frame.len() - start);
    }
    let Level { start, headers } = levels[count - 1];
    (headers, frame[start..].to_vec())
}

/// The kernel says where the TCP header is that is to be in each segment; without it TCP is cut to the MTU.
#[test]
fn what_is_inside_a_tunnel_is_segmented() {
    for (is_ipv6, has_checksum) in [(false, false), (false, true), (true, false), (true, true)] {
        let inner = tcp(10_000, is_ipv6);
        let frame = vxlan(&inner, has_checksum);
        let at = frame.len() - 10_000 - 20;
        let mut all: Vec<Vec<u8>> = Vec::new();
        assert!(segment(&frame, 1_398, Some(at), &mut Vec::new(), &mut |part| all.push(part.to_vec())));
        assert_eq!(all.len(), 8);
        let mut data = Vec::new();
        for (number, frame) in all.iter().enumerate() {
            let (headers, packet) = innermost(frame);
            assert_eq!(get(frame, 18), number as u16, "the outer identification");
            assert_eq!(headers.seq, (u32::MAX - 1_000).wrapping_add(data.len() as u32));
            assert_eq!(frame[40..42] == [0, 0], !has_checksum);
            data.extend_from_slice(&packet[usize::from(headers.l4_offset) + 20..]);
        }
        assert_eq!(data, inner[inner.len() - 10_000..]);
        let mut fit: Vec<Vec<u8>> = Vec::new();
        assert!(segment_to_fit(&frame, 1_500, &mut Vec::new(), &mut |part| fit.push(part.to_vec())));
        assert!(fit[..fit.len() - 1].iter().all(|frame| frame.len() == 14 + 1_500));
        fit.iter().for_each(|frame| _ = innermost(frame));
        let never = |_: &mut [u8]| panic!("nothing is given");
        for elsewhere in [0, at - 1, at + 1, 34, frame.len() + 7] {
            // Where the outer UDP header is, datagrams would be cut.
            let is_outer = elsewhere == 34;
            assert_eq!(
                segment(&frame, 1_398, Some(elsewhere), &mut Vec::new(), &mut |part| if !is_outer {
                    never(part);
                }),
                is_outer
            );
        }
    }
    let datagrams = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([1; 4], [2; 4], 64).udp(1_000, 53);
    let mut frame = Vec::new();
    datagrams.write(&mut frame, &data(3_000)).expect("a packet");
    let mut never = |_: &mut [u8]| panic!("nothing is given");
    assert!(!segment_to_fit(&frame, 1_500, &mut Vec::new(), &mut never), "nobody says where one ends");
    assert!(!segment_to_fit(&tcp(3_000, false), 40, &mut Vec::new(), &mut never), "no room for data");
}
