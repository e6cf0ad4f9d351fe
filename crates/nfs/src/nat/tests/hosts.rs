//! RFC 6888 REQ-4: how many mappings an inside host may have.

use super::*;

const PEER: &str = "192.0.2.1:53";

/// Eight ports.
const FEW: &str = r#"
    inside = ["10.0.0.0/15"]
    external = ["203.0.113.1"]
    ports = [1024, 1031]
"#;

fn limited(most: u32, more: &str) -> Rig<Nat> {
    let options = SMALL.replace("[1024, 1031]", "[1024, 65535]").replace("/8", "/16");
    Rig::new(function(&format!("{options}\nports_per_host = {most}\n{more}")))
}

fn from(host: u8, port: u16) -> Headers {
    udp(&format!("10.0.0.{host}:{port}"), PEER)
}

/// One host asks for 129,000 mappings, over UDP and TCP; others get theirs, before, meanwhile and behind.
#[test]
fn a_greedy_host_starves_nobody() {
    let mut rig = limited(1_000, "");
    let (mut got, mut others) = (0, 0);
    for number in 0..129_000_u32 {
        let port = 1 + (number % 64_500) as u16;
        let greedy = if number < 64_500 {
            from(66, port)
        } else {
            tcp(tcp_flags::SYN, &format!("10.0.0.66:{port}"), PEER)
        };
        got += u32::from(port_of(&mut rig, 1, &greedy).is_some());
        if number % 2_580 == 0 {
            others += u32::from(port_of(&mut rig, 1, &from(1 + (number / 2_580) as u8, 4_000)).is_some());
        }
    }
    assert_eq!((got, others), (1_000, 50));
    assert_eq!(outcome(&mut rig, 1, &from(66, 60_000)), "ports-per-host");
    assert_eq!(rig.len(), 1_050);
}

/// A mapping counts to its deadline, and no longer, whether or not its table has swept it. What is known goes on.
#[test]
fn a_host_gets_a_mapping_again_when_one_is_dead() {
    let mut rig = limited(2, "");
    let times = [
        (0, from(1, 10), true),
        (100_000, from(1, 11), true),
        (100_000, from(1, 12), false),
        (100_000, from(2, 12), true),
        (200_000, from(1, 10), true), // its own, until 500 s
        (399_999, from(1, 12), false),
        (400_000, from(1, 12), true), // the second one is dead
        (400_000, from(1, 11), false),
        (499_999, from(1, 13), false),
        (500_000, from(1, 13), true),
        (500_000, from(1, 10), false),
    ];
    for (time_ms, packet, passes) in times {
        assert_eq!(port_of(&mut rig, time_ms, &packet).is_some(), passes, "{time_ms}");
    }
}

/// A connection that closes is dead earlier than it would have been; ICMP counts, what is fixed does not, and no packet that
/// gets no port.
#[test]
fn what_counts() {
    let mut rig = limited(1, "one_to_one = [\"203.0.113.9 to 10.0.0.9\"]");
    for flags in [tcp_flags::SYN, tcp_flags::ACK, tcp_flags::FIN] {
        rig.packet(0, &tcp(flags, "10.0.0.1:1", PEER));
    }
    assert_eq!(outcome(&mut rig, 239_999, &from(1, 2)), "ports-per-host");
    assert!(port_of(&mut rig, 240_000, &from(1, 2)).is_some());
    let ping = Headers { dst_port: 0, tcp_shape: 0x21, ..packet(protocol::ICMP, "10.0.0.3:7", PEER) };
    assert_eq!(rig.packet(0, &ping), Verdict::Forward);
    assert_eq!(outcome(&mut rig, 0, &from(3, 2)), "ports-per-host");
    for port in 1..10 {
        assert_eq!(outcome(&mut rig, 0, &from(9, port)), format!("203.0.113.9:{port} > 192.0.2.1:53"));
    }
    let mut none_left = Rig::new(function::<Nat>(&format!("{FEW}\nports_per_host = 20")));
    for number in 0..40 {
        none_left.packet(0, &numbered(number));
    }
    assert_eq!(none_left.event("mappings-made"), 8);
    none_left.wait_until(ms(400_000));
    assert!(port_of(&mut none_left, 400_000, &numbered(30)).is_some());
}

/// A full table takes back what it refuses.
#[test]
fn a_mapping_that_found_no_room_does_not_count() {
    let nat: Nat = function(&format!("{FEW}\nports_per_host = 1"));
    let (mut edits, mut pool, mut events) = (Edits::NONE, nat.pool(), [0; 8]);
    let meta = Nat::project(&from(1, 4_000)).unwrap();
    for _ in 0..10 {
        let mut cx = Cx::new(Stamp::default(), &mut edits, &mut pool, &mut events, 0);
        let mut flow = None;
        assert_eq!(nat.step(&mut flow, &meta, &mut cx), Verdict::Forward);
        assert_eq!(nat.rejected(&flow.unwrap(), &meta, &mut cx), Verdict::Drop(TABLE_FULL));
    }
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    let large = option_error::<Nat>("external = [\"203.0.113.1\"]\nports_per_host = 9");
    assert!(
        large.starts_with("`ports_per_host` is for 17891328 inside addresses, and at most 1048576"),
        "{large}"
    );
    let many = option_error::<Nat>(&format!("{}\nports_per_host = 16385", SMALL.replace("/8", "/24")));
    assert_eq!(many, "`ports_per_host` is 16385; at most 16384 can be counted, and 0 is no limit");
    let nat: Nat = function(&format!("{}\nports_per_host = 9", SMALL.replace("/8", "/24")));
    assert_eq!(nat.undivided().map(|undivided| undivided.option), Some("ports_per_host"));
}
