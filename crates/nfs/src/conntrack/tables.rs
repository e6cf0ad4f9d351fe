//! How many connections there are, by state and protocol, for a report.

use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use nf::{Connection, FunctionReport};
use wire::protocol;

use super::part::GRE;
use super::state::State;
use super::tcp::TcpState;

/// Protocols as the report has them; the last are all others.
const OTHERS: [(&str, u8); 7] = [
    ("udp", protocol::UDP),
    ("icmp", protocol::ICMP),
    ("icmpv6", protocol::ICMPV6),
    ("sctp", protocol::SCTP),
    ("dccp", protocol::DCCP),
    ("gre", GRE),
    ("other", protocol::TCP),
];

/// How many connections there are, by state and protocol.
pub(super) fn of<'a>(flows: &mut dyn Iterator<Item = (&'a Connection, &'a State)>) -> Vec<FunctionReport> {
    let mut counts = [0u64; TcpState::COUNT];
    // Of each other protocol: all, and those with an answer.
    let mut others = [(0u64, 0u64); OTHERS.len()];
    flows.for_each(|(key, state)| match state.tcp() {
        TcpState::None => {
            let own = OTHERS.iter().position(|(_, protocol)| *protocol == key.protocol);
            let (all, answered) = &mut others[own.unwrap_or(OTHERS.len() - 1)];
            *all += 1;
            *answered += u64::from(state.is_answered());
        }
        tcp => counts[tcp as usize] += 1,
    });
    let total: u64 = counts.iter().sum();
    let half_open: u64 =
        TcpState::ALL.iter().filter(|tcp| tcp.is_half_open()).map(|tcp| counts[*tcp as usize]).sum();
    let row = |tcp: TcpState| vec![tcp.name().to_string(), counts[tcp as usize].to_string()];
    let tcp = FunctionReport {
        title: format!("TCP connections now: {total}, {half_open} half-open"),
        columns: vec!["state", "connections"],
        rows: TcpState::ALL.map(row).to_vec(),
    };
    let other: u64 = others.iter().map(|(all, _)| all).sum();
    if other == 0 {
        return vec![tcp];
    }
    let rows = OTHERS.iter().zip(others).filter(|(_, (all, _))| *all > 0);
    let row = |(&(name, _), (all, answered)): (&(&str, u8), (u64, u64))| {
        vec![name.to_string(), all.to_string(), answered.to_string()]
    };
    let others = FunctionReport {
        title: format!("Other connections now: {other}"),
        columns: vec!["protocol", "connections", "answered"],
        rows: rows.map(row).collect(),
    };
    vec![tcp, others]
}
