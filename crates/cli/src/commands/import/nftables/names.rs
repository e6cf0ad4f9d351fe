//! Names that nft writes for numbers.

use serde_json::Value;
use wire::{protocol, tcp_flags};

/// Protocols as `nft -j` names them, from the system's list (IANA).
const PROTOCOLS: [(&str, u8); 17] = [
    ("icmp", protocol::ICMP),
    ("igmp", 2),
    ("ipencap", 4),
    ("tcp", protocol::TCP),
    ("udp", protocol::UDP),
    ("dccp", protocol::DCCP),
    ("ipv6", 41),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", protocol::ICMPV6),
    ("ipv6-icmp", protocol::ICMPV6),
    ("ospf", 89),
    ("comp", 108),
    ("vrrp", 112),
    ("sctp", protocol::SCTP),
];

/// Types of ICMP and of ICMPv6 (nft(8), ICMP TYPE TYPE and ICMPV6 TYPE TYPE).
const TYPES: [(&str, Option<u8>, Option<u8>); 30] = [
    ("echo-reply", Some(0), Some(129)),
    ("destination-unreachable", Some(3), Some(1)),
    ("source-quench", Some(4), None),
    ("redirect", Some(5), None),
    ("echo-request", Some(8), Some(128)),
    ("router-advertisement", Some(9), None),
    ("router-solicitation", Some(10), None),
    ("time-exceeded", Some(11), Some(3)),
    ("parameter-problem", Some(12), Some(4)),
    ("timestamp-request", Some(13), None),
    ("timestamp-reply", Some(14), None),
    ("info-request", Some(15), None),
    ("info-reply", Some(16), None),
    ("address-mask-request", Some(17), None),
    ("address-mask-reply", Some(18), None),
    ("packet-too-big", None, Some(2)),
    ("mld-listener-query", None, Some(130)),
    ("mld-listener-report", None, Some(131)),
    ("mld-listener-done", None, Some(132)),
    ("mld-listener-reduction", None, Some(132)),
    ("nd-router-solicit", None, Some(133)),
    ("nd-router-advert", None, Some(134)),
    ("nd-neighbor-solicit", None, Some(135)),
    ("nd-neighbor-advert", None, Some(136)),
    ("nd-redirect", None, Some(137)),
    ("router-renumbering", None, Some(138)),
    ("ind-neighbor-solicit", None, Some(141)),
    ("ind-neighbor-advert", None, Some(142)),
    ("mld2-listener-report", None, Some(143)),
    // What `firewall` calls it, and older versions of nft.
    ("nd-router-renumbering", None, Some(138)),
];

const FLAGS: [(&str, u8); 8] = [
    ("fin", tcp_flags::FIN),
    ("syn", tcp_flags::SYN),
    ("rst", tcp_flags::RST),
    ("psh", tcp_flags::PSH),
    ("ack", tcp_flags::ACK),
    ("urg", tcp_flags::URG),
    ("ecn", tcp_flags::ECE),
    ("cwr", tcp_flags::CWR),
];

/// The number of a protocol.
pub fn protocol_of(value: &Value) -> Option<u8> {
    number(value, |name| PROTOCOLS.iter().find(|(own, _)| *own == name).map(|(_, number)| *number))
}

/// The number of a type of ICMP, or of ICMPv6.
pub fn type_of(value: &Value, is_v6: bool) -> Option<u8> {
    number(value, |name| {
        let (_, v4, v6) = TYPES.iter().find(|(own, ..)| *own == name)?;
        if is_v6 { *v6 } else { *v4 }
    })
}

fn number(value: &Value, of_name: impl Fn(&str) -> Option<u8>) -> Option<u8> {
    match value {
        Value::String(name) => of_name(name),
        number => u8::try_from(number.as_u64()?).ok(),
    }
}

/// TCP flags: one by its name, a number, a list, or names with `|` between them.
pub fn flags_of(value: &Value) -> Option<u8> {
    let all = |list: &[Value]| list.iter().try_fold(0, |all, flag| Some(all | flags_of(flag)?));
    match value {
        Value::Array(list) => all(list),
        Value::Object(_) => all(value.get("|")?.as_array()?),
        Value::String(name) => FLAGS.iter().find(|(own, _)| own == name).map(|(_, flag)| *flag),
        number => u8::try_from(number.as_u64()?).ok(),
    }
}
