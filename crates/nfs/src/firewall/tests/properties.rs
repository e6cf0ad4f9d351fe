//! What holds whatever the rules and packets are: the firewall against a plain model, which asks the rules about each packet and
//! keeps nothing of what they said.

use std::collections::BTreeMap;
use std::format;

use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::*;
use crate::Conntrack;

/// A rule as plain data; addresses are 10.0.0.0 to 10.0.0.7, ports 0 to 3.
#[derive(Clone, Debug)]
struct Plain {
    action: &'static str,
    protocol: Option<u8>,
    ends: [End; 2],
    from_outside: Option<bool>,
    /// Some of `new`, `established` and `invalid`; none are all.
    states: Vec<&'static str>,
    rate: Option<PlainRate>,
}

/// A bucket in plain code, with tokens that are refilled, as nftables has them.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlainRate {
    pub(super) is_over: bool,
    pub(super) packets: u128,
    pub(super) unit: (&'static str, u128),
    pub(super) burst: u128,
    /// What was taken out of the full bucket, ns, and when that was so.
    pub(super) taken_ns: u128,
    pub(super) last_ns: u128,
}

impl PlainRate {
    pub(super) fn text(&self) -> String {
        let PlainRate { is_over, packets, unit, burst, .. } = self;
        format!(" rate {}{packets}/{} burst {burst}", if *is_over { "over " } else { "" }, unit.0)
    }

    pub(super) fn matches(&mut self, now_ns: u128) -> bool {
        let token_ns = self.unit.1 / self.packets;
        self.taken_ns = self.taken_ns.saturating_sub(now_ns - self.last_ns);
        self.last_ns = now_ns;
        let has_one = self.taken_ns + token_ns <= token_ns * self.burst;
        self.taken_ns += if has_one { token_ns } else { 0 };
        has_one != self.is_over
    }
}

pub(super) fn any_rate() -> impl Strategy<Value = PlainRate> {
    const S: u128 = 1_000_000_000;
    let units = [("s", S), ("second", S), ("minute", 60 * S), ("hour", 3_600 * S), ("day", 86_400 * S)];
    (any::<bool>(), 1_u128..5_000, proptest::sample::select(units.to_vec()), 1_u128..6).prop_map(
        |(is_over, packets, unit, burst)| PlainRate {
            is_over,
            packets,
            unit,
            burst,
            taken_ns: 0,
            last_ns: 0,
        },
    )
}

#[derive(Clone, Copy, Debug)]
struct End {
    /// The last octet of the address, and the prefix length.
    prefix: (u8, u32),
    port: Option<u16>,
}

impl End {
    fn matches(self, addr: Addr, port: u16) -> bool {
        let (prefix, length) = self.prefix;
        prefix >> (32 - length) == addr.0[15] >> (32 - length) && self.port.is_none_or(|own| own == port)
    }
}

impl Plain {
    fn text(&self) -> String {
        let protocol = self.protocol.map_or("any".into(), |number| format!("{number}"));
        let [from, to] = self.ends.map(|End { prefix: (addr, length), port }| {
            let port = port.map_or(String::new(), |port| format!(" port {port}"));
            format!("10.0.0.{addr}/{length}{port}")
        });
        let side = match self.from_outside {
            None => "",
            Some(true) => " in outside",
            Some(false) => " in inside",
        };
        let states = match self.states[..] {
            [] => String::new(),
            _ => format!(" state {}", self.states.join(",")),
        };
        let action = self.action;
        let rate = self.rate.map_or(String::new(), |rate| rate.text());
        format!("{action} {protocol} from {from} to {to}{side}{states}{rate}")
    }

    fn matches(&self, headers: &Headers, state: &str) -> bool {
        let [from, to] = self.ends;
        self.protocol.is_none_or(|number| number == headers.protocol)
            && from.matches(headers.src, headers.src_port)
            && to.matches(headers.dst, headers.dst_port)
            && self.from_outside.is_none_or(|side| side == headers.marks.contains(Marks::FROM_OUTSIDE))
            && (self.states.is_empty() || self.states.contains(&state))
    }
}

fn any_rule() -> impl Strategy<Value = Plain> {
    let prefix = (0_u8..8, 29_u32..=32).prop_map(|(addr, length)| (addr & (0xff << (32 - length)), length));
    let end = (prefix, prop_oneof![2 => Just(None), 1 => (0_u16..4).prop_map(Some)])
        .prop_map(|(prefix, port)| End { prefix, port });
    let protocol = prop_oneof![Just(None), Just(Some(protocol::TCP)), Just(Some(protocol::UDP))];
    let states = proptest::sample::subsequence(std::vec!["new", "established", "invalid"], 0..=3);
    let side = prop_oneof![2 => Just(None), 1 => any::<bool>().prop_map(Some)];
    let action = proptest::sample::select(&["accept", "accept", "drop", "reject"]);
    let rate = prop_oneof![3 => Just(None), 1 => any_rate().prop_map(Some)];
    (action, protocol, end.clone(), end, side, states, rate).prop_map(
        |(action, protocol, mut from, mut to, from_outside, states, rate)| {
            if protocol.is_none() {
                (from.port, to.port) = (None, None);
            }
            Plain { action, protocol, ends: [from, to], from_outside, states, rate }
        },
    )
}

fn any_packet() -> impl Strategy<Value = Headers> {
    let flags = prop_oneof![Just(SYN), Just(SYN_ACK), Just(ACK), Just(ACK), Just(SYN | RST)];
    (0_u8..4, 0_u8..4, 0_u16..3, 0_u16..3, any::<bool>(), any::<bool>(), flags).prop_map(
        |(src, dst, src_port, dst_port, is_tcp, outside, flags)| {
            let headers = Headers { src_port, dst_port, dst: Addr::v4([10, 0, 0, dst]), ..tcp(src) };
            let headers = if is_tcp { with_flags(flags, headers) } else { udp(headers) };
            if outside { from_outside(headers) } else { headers }
        },
    )
}

/// Asks all rules about each packet, in plain code. TCP is followed by the tracker.
struct Model {
    list: Vec<Plain>,
    tracker: Rig<Conntrack>,
    /// Connection: whether its originator is the key's low end, and whether it was answered.
    known: BTreeMap<Vec<u8>, (bool, bool)>,
    now_ns: u128,
}

impl Model {
    fn new(list: Vec<Plain>) -> Model {
        Model { list, tracker: Rig::new(function("gaps = \"strict\"")), known: BTreeMap::new(), now_ns: 0 }
    }

    fn first_match(&mut self, headers: &Headers, state: &str) -> Verdict {
        let now_ns = self.now_ns;
        let decides = |rule: &mut Plain| {
            rule.matches(headers, state) && rule.rate.as_mut().is_none_or(|rate| rate.matches(now_ns))
        };
        match self.list.iter_mut().find_map(|rule| decides(rule).then_some(rule)) {
            Some(Plain { action: "accept", .. }) => PASS,
            Some(Plain { action: "reject", .. }) => REJECTED,
            Some(_) => RULE,
            None => DEFAULT,
        }
    }

    fn packet(&mut self, headers: &Headers) -> Verdict {
        let (key, from_low) = (Connection::of(headers).as_bytes().to_vec(), Connection::is_from_low(headers));
        let is_tcp = headers.protocol == protocol::TCP;
        let Some((originator_is_low, is_answered)) = self.known.get_mut(&key) else {
            if is_tcp && !matches!(headers.tcp_flags, SYN | ACK) {
                return self.first_match(headers, "invalid");
            }
            let verdict = self.first_match(headers, "new");
            if verdict == PASS {
                self.tracker.packet(0, headers);
                self.known.insert(key, (from_low, false));
            }
            return verdict;
        };
        if is_tcp && self.tracker.packet(0, headers) != PASS {
            return self.first_match(headers, "invalid");
        }
        let is_from_originator = *originator_is_low == from_low;
        *is_answered |= !is_from_originator;
        let state = if *is_answered { "established" } else { "new" };
        self.first_match(headers, state)
    }
}

proptest! {
    /// Nothing that is kept with a connection changes what the rules say.
    #[test]
    fn each_packet_gets_what_the_first_match_says(
        list in proptest::collection::vec(any_rule(), 0..10),
        packets in proptest::collection::vec((any_packet(), any::<bool>(), 0_u64..40_000_000), 1..150),
    ) {
        let texts: Vec<String> = list.iter().map(Plain::text).collect();
        let mut rig = rig(&format!("gaps = \"strict\"\nrules = {texts:?}"));
        let mut model = Model::new(list);
        let mut now_ns = 0;
        for (packet, turn, pause_ns) in packets {
            let packet = if turn { back(packet) } else { packet };
            // No connection is too old in 6 s.
            now_ns += pause_ns;
            model.now_ns = now_ns.into();
            prop_assert_eq!(rig.packet(now_ns, &packet), model.packet(&packet), "{:?}", packet);
            prop_assert_eq!(rig.len(), model.known.len());
        }
    }

    /// A later fragment of anything new that passes, passes, where no rate is out of tokens by then.
    #[test]
    fn later_fragments_follow_what_is_accepted(
        list in proptest::collection::vec(any_rule(), 0..8), packet in any_packet(),
    ) {
        let list: Vec<Plain> = list.into_iter().map(|rule| Plain { rate: None, ..rule }).collect();
        let texts: Vec<String> = list.iter().map(Plain::text).collect();
        let mut rig = rig(&format!("rules = {texts:?}"));
        if rig.packet(0, &packet) == PASS && rig.len() == 1 {
            prop_assert_eq!(rig.packet(0, &later_fragment(packet)), PASS);
        }
    }

    /// No text panics.
    #[test]
    fn any_text_is_a_rule_or_an_error(
        text in "(accept|drop|reject)? ?(any|tcp|icmp)? ?(from)? ?(any|@x)? ?(port [0-9]{1,6})? ?(to any)? ?\
                 ((in|type|flags|state|rate|rate over|burst) [a-z!,0-9/]{0,8} ?){0,3}",
    ) {
        let _ = Firewall::new(toml::from_str(&rules(&[&text])).unwrap());
    }
}
