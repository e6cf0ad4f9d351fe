//! Whether both sides did the same with a packet: verdict, bytes, answers; and differences that a page of the book explains.

use std::collections::BTreeMap;

use super::kernel::Outcome;
use super::packet::{Body, End, Packet, Side, TCP, UDP, has_right_checksums};

/// What became of a packet on one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Passed,
    Dropped,
    /// Dropped, and its sender was told so.
    Answered(Said),
    /// It left by another external end than its connection had.
    OtherEnd(String),
    /// What came out is not what should have.
    Wrong(String),
}

/// What an answer says, without what each side chooses for itself: numbers of packets, TTL, how much is quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Reset { src: Vec<u8>, dst: Vec<u8>, ports: [u16; 2], seq: u32, ack: u32, flags: u8 },
    Error { dst: Vec<u8>, kind: u8, code: u8, quote: Vec<u8> },
}

impl Said {
    /// Without what two gateways may choose each for itself: external ports, and whether a datagram is put together first.
    fn without_choices(mut self, packet: &Packet, has_nat: bool) -> Said {
        let is_translated = has_nat && packet.from == Side::Outside;
        match &mut self {
            Said::Reset { ports, .. } if is_translated => ports[0] = 0,
            Said::Error { quote, .. } if packet.is_cut() => quote.clear(),
            // The external port, and the checksum over it.
            Said::Error { quote, .. } if is_translated => quote.truncate(quote.len() - QUOTE),
            _ => {}
        }
        self
    }
}

/// How many bytes of a quote are compared: the headers. IPv4 asks for that much (RFC 792).
const QUOTE: usize = 8;

/// External ends of inside ends, as packets on their way out have shown them.
#[derive(Default)]
pub struct Mapped {
    /// By protocol, inside end, and end outside.
    external: BTreeMap<(u8, End, End), End>,
    inside: BTreeMap<(u8, End, End), End>,
}

impl Mapped {
    /// The external end of a connection's inside end; one that nobody has, while none is known.
    pub fn external(&self, packet: &Packet, address: std::net::IpAddr) -> End {
        self.external.get(&packet.connection()).copied().unwrap_or((address, 9))
    }

    /// The external end of a forward's inside end, as long as no packet shows another.
    pub fn fix(&mut self, packet: &Packet, external: End) {
        self.external.entry(packet.connection()).or_insert(external);
    }

    /// Learns from a packet that left. A port stays while its connection does, and is of one inside end alone.
    fn learn(&mut self, packet: &Packet, external: End) -> Result<(), String> {
        let key @ (protocol, inside, outside) = packet.connection();
        let begins = matches!(packet.body, Body::Tcp { flags, .. } if flags & 0x12 == 2);
        if let Some(before) = self.external.insert(key, external)
            && before != external
        {
            self.inside.remove(&(protocol, before, outside));
            if !begins {
                return Err(format!("{inside:?} was {before:?} outside, and is {external:?}"));
            }
        }
        match self.inside.insert((protocol, external, outside), inside) {
            Some(other) if other != inside => Err(format!("{external:?} is of {inside:?} and of {other:?}")),
            _ => Ok(()),
        }
    }
}

/// What became of a packet, by what came out.
pub fn fate(
    packet: &Packet,
    outcome: &Outcome,
    ttl: u8,
    nat: Option<(&mut Mapped, std::net::IpAddr)>,
) -> Fate {
    match (&outcome.passed[..], &outcome.answered[..]) {
        ([], []) => Fate::Dropped,
        ([], [answer]) => match said(answer) {
            Some(said) => Fate::Answered(said.without_choices(packet, nat.is_some())),
            None => Fate::Wrong(format!("answered {answer:02x?}")),
        },
        (passed, []) => match is_right(packet, passed, ttl, nat) {
            Ok(()) => Fate::Passed,
            Err(wrong) => wrong,
        },
        _ => Fate::Wrong(format!("passed and answered: {outcome:02x?}")),
    }
}

fn is_right(
    packet: &Packet,
    passed: &[Vec<u8>],
    ttl: u8,
    nat: Option<(&mut Mapped, std::net::IpAddr)>,
) -> Result<(), Fate> {
    let mut wanted = packet.clone();
    if let (Some((mapped, address)), Side::Inside) = (nat, packet.from) {
        let at = if let Body::Echo { .. } = packet.body { 24 } else { 20 };
        let port = passed[0].get(at..at + 2).map_or(0, |port| u16::from_be_bytes([port[0], port[1]]));
        match packet.body {
            Body::Error { .. } => {}
            _ => mapped.learn(packet, (address, port)).map_err(Fate::OtherEnd)?,
        }
        wanted = packet.seen_outside(mapped.external(packet, address));
    }
    if packet.is_cut() && passed.len() == 1 && passed[0] == wanted.whole(ttl) {
        // It was put together, and fits as it is.
        return Ok(());
    }
    let (mut wanted, mut passed) = (wanted.bytes(ttl), passed.to_vec());
    for packets in [&mut wanted, &mut passed] {
        // Who puts fragments together sends them in order. Of IPv6, the kernel gives them a number of its own.
        packets.sort();
        packets
            .iter_mut()
            .filter(|packet| packet[0] >> 4 == 6 && packet[6] == 44)
            .for_each(|packet| packet[44..48].fill(0));
    }
    if wanted == passed {
        return Ok(());
    }
    Err(Fate::Wrong(format!("out came\n    {passed:02x?}\n  and should have\n    {wanted:02x?}")))
}

/// What an answer says; `None` if it is none, or its checksums are wrong.
fn said(answer: &[u8]) -> Option<Said> {
    let is_v4 = answer.first()? >> 4 == 4;
    let (header, protocol, src, dst) = match is_v4 {
        true => (20, answer[9], answer[12..16].to_vec(), answer[16..20].to_vec()),
        false => (40, answer[6], answer[8..24].to_vec(), answer[24..40].to_vec()),
    };
    if !has_right_checksums(answer) {
        return None;
    }
    let l4 = &answer[header..];
    let long = |at: usize| u32::from_be_bytes([l4[at], l4[at + 1], l4[at + 2], l4[at + 3]]);
    match protocol {
        6 if l4.len() == 20 => Some(Said::Reset {
            src,
            dst,
            ports: [0, 2].map(|at| u16::from_be_bytes([l4[at], l4[at + 1]])),
            seq: long(4),
            ack: long(8),
            flags: l4[13],
        }),
        1 | 58 => {
            let mut quote = l4.get(8..8 + header + QUOTE)?.to_vec();
            // TTL and checksum, which the kernel changes before it judges.
            if is_v4 {
                quote[8] = 0;
                quote[10..12].fill(0);
            } else {
                quote[7] = 0;
            }
            Some(Said::Error { dst, kind: l4[0], code: l4[1], quote })
        }
        _ => None,
    }
}

/// A difference that the book explains: `docs/linux.md` has a row for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Excuse(pub &'static str);

const NAT_FRAGMENTS: Excuse = Excuse("fragments through a NAT are dropped");
const ROUTERS: Excuse = Excuse("errors of routers are `untracked`");
const OTHER_ERRORS: Excuse = Excuse("errors about protocols other than TCP, UDP and ICMP are `untracked`");
const REOPENED: Excuse =
    Excuse("a SYN that rules drop does not end the connection that it would have opened again");
const QUERY_ERRORS: Excuse = Excuse("errors about queries of ICMPv6 are `untracked`");
const FORWARDS: Excuse = Excuse("what a forward's host sends first leaves by the forward");
const RESET: Excuse = Excuse("a connection goes on after a packet of it was answered by a reset");
const QUERIES: Excuse = Excuse("queries of ICMPv6 are known by their addresses");
const FILTERING: Excuse = Excuse("a mapping of a NAT is open to all outside, as far as rules let them");
const YOUNG_STREAMS: Excuse =
    Excuse("a UDP flow with an answer is kept for two minutes from its first answer on");
const UNKNOWN_CHECKSUM: Excuse = Excuse("protocols without a known checksum are told that they are rejected");
/// Later fragments pass, or do not, by their addresses alone.
pub const LATER_FRAGMENTS: Excuse = Excuse("later fragments are judged by their addresses");

/// All of them.
pub const ROWS: [Excuse; 12] = [
    LATER_FRAGMENTS,
    NAT_FRAGMENTS,
    ROUTERS,
    OTHER_ERRORS,
    QUERY_ERRORS,
    QUERIES,
    FORWARDS,
    FILTERING,
    RESET,
    REOPENED,
    YOUNG_STREAMS,
    UNKNOWN_CHECKSUM,
];

/// What is known when two fates differ.
pub struct Difference<'a> {
    pub packet: &'a Packet,
    pub theirs: &'a Fate,
    pub ours: &'a Fate,
    /// What became of the packets before it, between the same ends.
    pub before: &'a [(Packet, Fate)],
    pub has_nat: bool,
    /// Whether the connection's inside end is that of a forward.
    pub is_forward: bool,
    /// Whether the packet began a connection here.
    pub opened: bool,
    /// Since the packet before it, s.
    pub idle_s: u64,
}

/// So long the kernel keeps a UDP flow that is younger than two seconds, also one with an answer, s.
const UDP_TIMEOUT_S: u64 = 30;

impl Difference<'_> {
    /// The row of the book that explains it, if there is one.
    pub fn excuse(&self) -> Option<Excuse> {
        let Difference { packet, theirs, ours, before, has_nat, is_forward, opened, idle_s } = self;
        let is_let_in = *has_nat && packet.from == Side::Outside && *opened;
        // Also an error about it.
        let is_tcp = packet.connection().0 == TCP;
        let is_other = matches!(packet.body, Body::Other { .. });
        let is_begun_outside =
            before.iter().any(|(one, fate)| one.from == Side::Outside && *fate == Fate::Passed);
        let is_reset = |one: &Packet| matches!(one.body, Body::Tcp { flags, .. } if flags & 4 != 0);
        let was_reset = before.iter().any(|(one, _)| is_reset(one));
        // A SYN opens anew what is closed, and behind a reset from outside the kernel knows nothing.
        let is_syn = matches!(packet.body, Body::Tcp { flags, .. } if flags & 0x16 == 2);
        let is_stranger = *has_nat && packet.from == Side::Outside && (is_syn || was_reset);
        Some(match (theirs, ours) {
            (_, Fate::Dropped) if *has_nat && packet.is_cut() => NAT_FRAGMENTS,
            (Fate::OtherEnd(_), Fate::Passed)
                if *is_forward && (!is_begun_outside || *opened || was_reset) =>
            {
                FORWARDS
            }
            (Fate::Wrong(_) | Fate::OtherEnd(_), _) | (_, Fate::Wrong(_) | Fate::OtherEnd(_)) => return None,
            _ if packet.is_of_router() && !(*has_nat && packet.from == Side::Outside) => ROUTERS,
            _ if packet.is_about_other() => OTHER_ERRORS,
            _ if packet.is_about_query_v6() => QUERY_ERRORS,
            (Fate::Dropped, Fate::Answered(Said::Error { .. })) if is_other => UNKNOWN_CHECKSUM,
            _ if packet.is_query_v6() => QUERIES,
            _ if packet.connection().0 == UDP && *idle_s >= UDP_TIMEOUT_S => YOUNG_STREAMS,
            (Fate::Dropped, Fate::Passed) if is_let_in && !is_forward => FILTERING,
            (Fate::Dropped, Fate::Answered(Said::Reset { .. })) if is_stranger && !is_forward => FILTERING,
            _ if is_tcp
                && before.iter().any(|(_, fate)| matches!(fate, Fate::Answered(Said::Reset { .. }))) =>
            {
                RESET
            }
            _ if is_tcp && has_refused_reopening(before) => REOPENED,
            _ => return None,
        })
    }
}

/// Whether rules have dropped a SYN between ends that had a connection.
fn has_refused_reopening(before: &[(Packet, Fate)]) -> bool {
    let mut known = before.iter().skip_while(|(_, fate)| *fate != Fate::Passed);
    known.any(|(packet, fate)| {
        matches!(packet.body, Body::Tcp { flags, .. } if flags & 0x16 == 2) && *fate != Fate::Passed
    })
}
