//! What holds whatever the rules and packets are.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A rule as plain data, with its text; addresses are 10.0.0.0 to 10.0.0.7, ports 0 to 7.
#[derive(Clone, Debug)]
struct Plain {
    allow: bool,
    protocol: Option<u8>,
    ends: [End; 2],
}

#[derive(Clone, Copy, Debug)]
struct End {
    /// The last octet of the address, and the prefix length.
    prefix: (u8, u32),
    ports: Option<(u16, u16)>,
}

impl End {
    fn matches(self, addr: Addr, port: u16) -> bool {
        let (prefix, length) = self.prefix;
        let host_bits = 32 - length;
        let is_inside = prefix >> host_bits == addr.0[15] >> host_bits;
        is_inside && self.ports.is_none_or(|(first, last)| first <= port && port <= last)
    }
}

impl Plain {
    fn text(&self) -> String {
        let protocol = self.protocol.map_or("any".into(), |number| format!("{number}"));
        let [from, to] = self.ends.map(|End { prefix: (addr, length), ports }| {
            let ports = ports.map_or(String::new(), |(first, last)| format!(" port {first}-{last}"));
            format!("10.0.0.{addr}/{length}{ports}")
        });
        format!("{} {protocol} from {from} to {to}", if self.allow { "allow" } else { "deny" })
    }

    fn matches(&self, headers: &Headers) -> bool {
        let [from, to] = self.ends;
        self.protocol.is_none_or(|number| number == headers.protocol)
            && from.matches(headers.src, headers.src_port)
            && to.matches(headers.dst, headers.dst_port)
    }
}

fn any_rule() -> impl Strategy<Value = Plain> {
    let prefix = (0_u8..8, 29_u32..=32).prop_map(|(addr, length)| (addr & (0xff << (32 - length)), length));
    let ports = proptest::option::of((0_u16..8, 0_u16..8).prop_map(|(a, b)| (a.min(b), a.max(b))));
    let end = (prefix, ports).prop_map(|(prefix, ports)| End { prefix, ports });
    let protocol = prop_oneof![Just(None), Just(Some(protocol::TCP)), Just(Some(protocol::UDP))];
    (any::<bool>(), protocol, end.clone(), end).prop_map(|(allow, protocol, mut from, mut to)| {
        if protocol.is_none() {
            (from.ports, to.ports) = (None, None);
        }
        Plain { allow, protocol, ends: [from, to] }
    })
}

fn any_packet() -> impl Strategy<Value = Headers> {
    let flags = prop_oneof![Just(SYN), Just(SYN_ACK), Just(ACK), Just(FIN), Just(RST)];
    (0_u8..8, 0_u8..8, 0_u16..8, 0_u16..8, any::<bool>(), flags).prop_map(
        |(src, dst, src_port, dst_port, is_tcp, flags)| {
            let (protocol, tcp_flags) = if is_tcp { (protocol::TCP, flags) } else { (protocol::UDP, 0) };
            let dst = Addr::v4([10, 0, 0, dst]);
            Headers { src_port, dst_port, dst, protocol, tcp_flags, ..tcp(src) }
        },
    )
}

/// First match by the definition; `default` is to deny.
fn first_match(list: &[Plain], headers: &Headers) -> Verdict {
    match list.iter().find(|rule| rule.matches(headers)) {
        Some(rule) if rule.allow => PASS,
        Some(_) => RULE,
        None => DEFAULT,
    }
}

fn rig_of(list: &[Plain]) -> Rig<AccessList> {
    let texts: Vec<String> = list.iter().map(Plain::text).collect();
    rig(&format!("rules = {texts:?}"))
}

proptest! {
    /// The first packet of a connection, against the definition of a list.
    #[test]
    fn a_new_connection_gets_what_the_first_match_says(
        list in proptest::collection::vec(any_rule(), 0..12),
        packets in proptest::collection::vec(any_packet(), 1..20),
    ) {
        for packet in packets {
            prop_assert_eq!(rig_of(&list).packet(0, &packet), first_match(&list, &packet));
        }
    }

    /// Over many packets: one passes if and only if the rules allow it by itself, or a packet of its
    /// connection before it was allowed and no SYN has begun another one after the end. A denied
    /// packet changes nothing for anybody else.
    #[test]
    fn connections_pass_by_their_first_allowed_packet(
        list in proptest::collection::vec(any_rule(), 0..6),
        packets in proptest::collection::vec((any_packet(), any::<bool>()), 1..200),
    ) {
        let mut rig = rig_of(&list);
        // Connection: whether it has ended.
        let mut allowed: BTreeMap<Vec<u8>, bool> = BTreeMap::new();
        for (packet, turn) in packets {
            let packet = if turn { back(packet) } else { packet };
            let key = Connection::of(&packet).as_bytes().to_vec();
            let closes = packet.tcp_flags & (tcp_flags::FIN | tcp_flags::RST) != 0;
            if allowed.get(&key).is_some_and(|has_ended| *has_ended && packet.tcp_flags == SYN) {
                allowed.remove(&key);
            }
            let expected = if allowed.contains_key(&key) { PASS } else { first_match(&list, &packet) };
            if expected == PASS {
                *allowed.entry(key).or_default() |= closes;
            }
            prop_assert_eq!(rig.packet(0, &packet), expected);
        }
    }

    /// A later fragment of anything that passes, passes.
    #[test]
    fn later_fragments_follow_what_is_allowed(
        list in proptest::collection::vec(any_rule(), 0..8), packet in any_packet(), turn: bool,
    ) {
        let mut rig = rig_of(&list);
        if rig.packet(0, &packet) == PASS {
            let fragment = later_fragment(if turn { back(packet) } else { packet });
            prop_assert_eq!(rig.packet(0, &fragment), PASS);
        }
    }

    /// No text panics.
    #[test]
    fn any_text_is_a_rule_or_an_error(words in proptest::collection::vec(
        prop_oneof![
            Just("allow"), Just("tcp"), Just("from"), Just("any"), Just("to"), Just("port"), Just("80"),
            Just("80-"), Just("-"), Just(","), Just("::/0"), Just("/"), Just("é"),
        ], 0..12,
    )) {
        let _ = Rule::parse("rules", &words.join(" "));
    }
}
