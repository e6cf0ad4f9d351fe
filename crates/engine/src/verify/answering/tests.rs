//! Tests of what one direction of a connection tells of the other.

use io::Trace;
use nf::prefix::PrefixSet;
use wire::Addr;

use super::*;
use crate::verify::samples::{NAT, STATISTICS, chain};

fn packet(flags: u8, ack: u32) -> Headers {
    Headers { protocol: protocol::TCP, tcp_flags: flags, ack, ..Headers::default() }
}

/// A SYN, its acknowledgement of a SYN that begins at 1,000, 100 bytes acknowledged, 50 and a FIN, and the end of that.
#[test]
fn acknowledgements_tell_what_answers_brought() {
    let (syn, ack, fin) = (tcp_flags::SYN, tcp_flags::ACK, tcp_flags::FIN | tcp_flags::ACK);
    let mut connection = Connection::default();
    let mut fills = [0; 6];
    for (number, headers) in
        [packet(syn, 0), packet(ack, 1_001), packet(ack, 1_101), packet(fin, 1_151), packet(ack, 1_152)]
            .iter()
            .enumerate()
    {
        connection.see(number, headers, &mut fills);
    }
    assert_eq!(fills, [1_000, 100, 50, 0, 0, 0]);
    assert_eq!(connection.last, Some((4, 1_152, false)));
    assert!(connection.begun.is_empty());
}

/// What neither opens nor acknowledges tells nothing; another SYN begins anew.
#[test]
fn a_syn_begins_anew_and_a_reset_tells_nothing() {
    let mut connection = Connection::default();
    let mut fills = [0; 4];
    connection.see(0, &packet(tcp_flags::ACK, 500), &mut fills);
    connection.see(1, &packet(tcp_flags::RST, 900), &mut fills);
    assert_eq!(connection.last, Some((0, 500, false)));
    connection.see(2, &packet(tcp_flags::SYN, 0), &mut fills);
    assert_eq!((connection.last, connection.begun.as_slice()), (None, &[2][..]));
    connection.see(3, &packet(tcp_flags::ACK | tcp_flags::PSH, 8_001), &mut fills);
    assert_eq!(fills, [0, 0, 8_000, 0]);
}

const HOST: [u8; 4] = [10, 0, 0, 1];
const OTHER_HOST: [u8; 4] = [10, 0, 0, 2];
const EXTERNAL: [u8; 4] = [203, 0, 113, 1];
const PEER: [u8; 4] = [192, 0, 2, 9];

fn outside() -> Responds {
    let set = |prefix: &str| PrefixSet::parse("test", &[prefix.to_owned()]).expect("a prefix");
    Responds::Outside(Arc::new(Sides::new(set("10.0.0.0/8"), set("203.0.113.1"), true)))
}

#[test]
fn hosts_outside_are_answered_for_where_a_function_has_sides() {
    let in_place_of = |functions: &[&str], index| Responds::in_place_of(&chain(functions), index);
    assert!(matches!(in_place_of(&[NAT], 0), Some(Responds::Outside(_))));
    assert!(in_place_of(&[NAT, STATISTICS], 1).is_none());
    assert!(in_place_of(&[STATISTICS], 0).is_none());
}

/// What goes out of all asks; what comes for an external address answers; all else stays as it is.
#[test]
fn who_asks_and_who_answers_is_told_by_addresses() {
    let role =
        |src, dst| outside().role(&Headers { src: Addr::v4(src), dst: Addr::v4(dst), ..Headers::default() });
    assert_eq!(role(HOST, PEER), Role::Asks);
    assert_eq!(role(PEER, EXTERNAL), Role::Answers);
    for (src, dst) in [(HOST, OTHER_HOST), (HOST, EXTERNAL), (PEER, HOST), (PEER, PEER)] {
        assert_eq!(role(src, dst), Role::Other, "{src:?} to {dst:?}");
    }
}

#[test]
fn a_host_answers_what_it_would_answer() {
    let to = |dst, protocol| Headers { dst: Addr::v4(dst), protocol, ..Headers::default() };
    let tcp = |flags| Headers { tcp_flags: flags, ..to(PEER, protocol::TCP) };
    assert!(is_question(&tcp(tcp_flags::SYN)) && is_question(&to(PEER, protocol::UDP)));
    assert!(!is_question(&tcp(tcp_flags::RST | tcp_flags::ACK)) && !is_question(&to(PEER, 47)));
    assert!(!is_question(&to(PEER, protocol::ICMP)), "an error");
    let parsed = |icmp: [u8; 8]| {
        let bytes = ipv4(HOST, PEER, protocol::ICMP, &icmp);
        wire::parse(LinkType::Ethernet, &bytes, bytes.len() as u32)
    };
    assert!(
        is_question(&parsed([8, 0, 0, 0, 0, 7, 0, 1])) && !is_question(&parsed([0, 0, 0, 0, 0, 7, 0, 1]))
    );
    for dst in [[224, 0, 0, 1], [255; 4], [0, 0, 0, 1]] {
        assert!(!is_question(&to(dst, protocol::UDP)), "{dst:?} is not one host");
    }
    for fragment in [Marks::FIRST_FRAGMENT, Marks::LATER_FRAGMENT] {
        assert!(!is_question(&Headers { marks: fragment, ..to(PEER, protocol::UDP) }));
    }
}

fn ipv4(src: [u8; 4], dst: [u8; 4], protocol: u8, transport: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2; 12];
    bytes.extend([8, 0, 0x45, 0, 0, 20 + transport.len() as u8, 0, 0, 0, 0, 64, protocol, 0, 0]);
    bytes.extend([&src[..], &dst, transport].concat());
    bytes
}

fn udp(src: [u8; 4], dst: [u8; 4]) -> Vec<u8> {
    ipv4(src, dst, protocol::UDP, &[0x13, 0x88, 0, 53, 0, 8, 0, 0])
}

fn tcp(flags: u8, ack: u32) -> Vec<u8> {
    let mut bytes = vec![0x13, 0x88, 0, 80, 0, 0, 0, 1];
    bytes.extend(ack.to_be_bytes());
    bytes.extend([0x50, flags, 0, 9, 0, 0, 0, 0]);
    ipv4(HOST, PEER, protocol::TCP, &bytes)
}

/// What comes to a run that forwards all but the packets of the capture that are `lost`, by their number: the times, in tenths of
/// milliseconds, those of answers behind 1,000; and how many were answered.
fn came(packets: &[(u64, Vec<u8>)], lost: &[u64]) -> (Vec<u64>, Answered) {
    const TENTH_NS: u64 = 100_000;
    let mut trace = Trace::default();
    for (tenths, data) in packets {
        let (time_ns, wire_len) = (tenths * TENTH_NS, data.len() as u32);
        trace.push(&Record { time_ns, wire_len, link: LinkType::Ethernet, data });
    }
    let pcap = trace.to_pcap().expect("one link type");
    let open = || CaptureReader::from_bytes(pcap.clone()).expect("a capture");
    let asking = Arc::new(Asking::new(outside(), open()));
    let (_, mut came) = asking.run(open(), open());
    let (mut times, mut number) = (Vec::new(), 0);
    while let Some(record) = came.next() {
        let (tenths, bytes, wire_len) = (record.time_ns / TENTH_NS, record.data.to_vec(), record.wire_len);
        let is_answer = !packets.iter().any(|(_, packet)| *packet == bytes);
        times.push(tenths + 1_000 * u64::from(is_answer));
        let fate = match lost.contains(&number) {
            true => Fate::DropBy { function: 0, reason: 0 },
            false => Fate::Forward,
        };
        number += u64::from(!is_answer);
        let (stamp, link) = (wire::Stamp::default(), LinkType::Ethernet);
        came.answer(&Seen { stamp, fate, bytes: &bytes, wire_len, link, refused: None, entry: 0, sent: 0 });
    }
    (times, came.answered().expect("it is answered"))
}

/// Each question is answered 1 ms later, the first one and each eighth by a router, too; what the capture has of answers is left
/// out, and what is no question has none.
#[test]
fn answers_come_a_millisecond_later_and_are_counted() {
    let asks = || udp(HOST, PEER);
    let packets = [
        (0, asks()),
        (5, ipv4(HOST, PEER, protocol::UDP, &[0x13, 0x88, 0, 53, 0, 9, 0, 0, 1])),
        (9, udp(PEER, EXTERNAL)),
        (12, udp(HOST, OTHER_HOST)),
        (15, ipv4(HOST, PEER, protocol::UDP, &[0x13, 0x88, 0, 54, 0, 9, 0, 0, 1])),
        (90, udp(OTHER_HOST, HOST)),
    ];
    let (times, counted) = came(&packets, &[]);
    assert_eq!(times, [0, 5, 1_010, 1_010, 12, 1_015, 15, 1_025, 90]);
    assert_eq!(counted, Answered { answered: 4, unsent: 0, left_out: 1 });
    // Silence stands for what was not sent: all comes at the same time.
    let (silent, counted) = came(&packets, &[0, 3]);
    assert_eq!((silent, counted), (times, Answered { answered: 1, unsent: 3, left_out: 1 }));
}

/// What a packet of the capture acknowledges has come before it, sooner than 1 ms later if need be. Another connection does not wait.
#[test]
fn an_answer_comes_before_what_acknowledges_it() {
    use tcp_flags::{ACK, SYN};
    let packets = [(0, tcp(SYN, 0)), (2, tcp(ACK, 1_001)), (3, tcp(ACK, 1_101)), (40, tcp(ACK, 1_101))];
    let (times, counted) = came(&packets, &[]);
    // The last one acknowledges nothing more than the one before, which so had no bytes to answer with.
    assert_eq!(times, [0, 1_002, 1_002, 2, 1_003, 3, 1_013, 40, 1_050]);
    assert_eq!(counted, Answered { answered: 5, unsent: 0, left_out: 0 });
}

/// An answer comes by an interface outside where interfaces have sides; the packets of the capture by their own.
#[test]
fn the_side_of_a_packet_is_that_of_its_interface() {
    let asking = Arc::new(Asking { responds: outside(), fills: Vec::new() });
    let mut host = Host { timetable: Timetable::new(&asking), told: mpsc::channel().1, bytes: Vec::new() };
    for side in [None, Some(Side::Inside), Some(Side::Outside)] {
        host.timetable.given.side = side;
        assert_eq!(host.side(), side);
    }
}
