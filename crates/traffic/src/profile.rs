//! The profile of a trace, as `paceline inspect` reports it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// How many of the biggest flows are listed, and summed up as [`Profile::top10_share`].
pub const TOP_FLOWS: usize = 10;

/// What the pipeline of [`Profile::conflict_ratio_by_length`] takes in a cycle (RAPID §2.3: "1GHz×64Byte").
pub const BYTES_PER_CYCLE: u32 = 64;

/// What is in a trace. Shares and ratios are of 1; those of nothing are 0.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Profile {
    /// Packets.
    pub packets: u64,
    /// Their bytes on the wire as the capture states them: with link headers, mostly without frame checksums.
    pub bytes: u64,
    /// From the earliest packet to the latest, by their timestamps.
    pub seconds: f64,
    /// Packets that belong to a flow: IP, and well-formed.
    pub packets_in_flows: u64,
    /// How many flows there are. The two directions of a connection are two flows.
    pub flows: FlowCounts,
    /// If there are more 5-tuple flows than [`FLOWS_MAX`](crate::FLOWS_MAX). Then their number is an estimate, within some
    /// 2 %; and `top10`, `top10_share`, the conflict ratios and `flow_size_cdf` are of those flows alone that were kept.
    pub flows_beyond: Option<Beyond>,
    /// Share of `packets` that belong to the ten 5-tuple flows with the most packets.
    pub top10_share: f64,
    /// These ten, the biggest first; of equals, the one with more bytes, then the one seen first.
    pub top10: Vec<FlowShare>,
    /// Cycles within which two packets of a flow conflict; the pipeline's state update latency.
    pub conflict_window: u64,
    /// Share of `packets` that follow the one before of their 5-tuple flow by fewer than
    /// `conflict_window` cycles, packets fed back to back, one a cycle.
    pub conflict_ratio: f64,
    /// Share of `packets` that conflict in a pipeline that takes 64 bytes a cycle, as RAPID (NSDI'24, §2.3 and
    /// Table 8) counts.
    pub conflict_ratio_by_length: f64,
    /// Flows by address pair, and their conflicts.
    pub address_pair: AddressPairs,
    /// Packets by protocol.
    pub protocols: Protocols,
    /// Malformed packets by reason. Reasons that did not occur are left out.
    pub malformed: BTreeMap<String, u64>,
    /// Lengths on the wire.
    pub packet_sizes: PacketSizes,
    /// Packets per 5-tuple flow, cumulative: one point for each size that occurs, ascending. The last
    /// point's shares are 1.
    pub flow_size_cdf: Vec<FlowSizePoint>,
}

/// Flows by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FlowCounts {
    /// By addresses, ports and protocol, directed.
    pub five_tuple: u64,
    /// By source and destination address, directed.
    pub address_pair: u64,
}

/// Flows of which only their number is known, since there were too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Beyond {
    /// How many flows were kept: those that came first.
    pub kept: u64,
    /// Packets of the others.
    pub packets: u64,
}

/// A flow and what it carries.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FlowShare {
    /// The key, as people write it: `tcp 10.0.0.1:4000 -> 10.0.0.2:80`, `10.0.0.1 -> 10.0.0.2`.
    pub flow: String,
    /// Its packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Its share of all packets.
    pub share: f64,
}

/// Flows by source and destination address, directed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AddressPairs {
    /// As for the 5-tuple flows.
    pub flows_beyond: Option<Beyond>,
    /// Share of all packets that belong to the ten flows with the most packets.
    pub top10_share: f64,
    /// These ten, ordered like the 5-tuple flows.
    pub top10: Vec<FlowShare>,
    /// Conflict ratio, one packet a cycle.
    pub conflict_ratio: f64,
    /// Conflict ratio, 64 bytes a cycle.
    pub conflict_ratio_by_length: f64,
}

/// Packets by protocol.
///
/// Every packet is one of `ipv4`, `ipv6`, `not_ip` and `malformed`; the first two are well-formed and
/// each of theirs is one of `tcp`, `udp`, `icmp`, `icmpv6`, `other` and `later_fragments`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Protocols {
    /// Well-formed IPv4.
    pub ipv4: u64,
    /// Well-formed IPv6.
    pub ipv6: u64,
    /// ARP and all else that is not IP.
    pub not_ip: u64,
    /// A header cut short or with an impossible length; reasons are in the profile's `malformed`.
    pub malformed: u64,
    /// TCP with its header.
    pub tcp: u64,
    /// UDP with its header.
    pub udp: u64,
    /// ICMP with its header.
    pub icmp: u64,
    /// ICMPv6 with its header.
    pub icmpv6: u64,
    /// Other IP protocols.
    pub other: u64,
    /// Fragments after the first: they have no transport header, hence no ports.
    pub later_fragments: u64,
    /// Well-formed fragments, first and later.
    pub fragments: u64,
    /// Packets with a VLAN tag, malformed and not-IP ones included.
    pub vlan: u64,
    /// Packets among `vlan` with two tags.
    pub qinq: u64,
    /// Packets that the capture cut (snap length); their lengths are those of the wire.
    pub snapped: u64,
}

/// Lengths on the wire, bytes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PacketSizes {
    /// The shortest packet.
    pub min_bytes: u32,
    /// The average.
    pub mean_bytes: f64,
    /// The longest packet.
    pub max_bytes: u32,
    /// Packets by length; the classes are those of RMON (RFC 2819), and one for what is longer.
    pub classes: Vec<SizeClass>,
}

/// Packets of some lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SizeClass {
    /// The shortest.
    pub from_bytes: u32,
    /// The longest, included; null in the last class, which has no end.
    pub to_bytes: Option<u32>,
    /// Packets.
    pub packets: u64,
}

/// A point of the cumulative distribution of flow sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FlowSizePoint {
    /// A flow size.
    pub packets: u64,
    /// Share of the flows that have at most that many packets.
    pub flows_share: f64,
    /// Share of the packets in flows that belong to those.
    pub packets_share: f64,
}

/// `part` of `whole`; 0 of nothing.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl Profile {
    /// The share of 5-tuple flows that have at most `packets` packets.
    pub fn share_of_flows_up_to(&self, packets: u64) -> f64 {
        let after = self.flow_size_cdf.partition_point(|point| point.packets <= packets);
        after.checked_sub(1).map_or(0.0, |last| self.flow_size_cdf[last].flows_share)
    }

    /// The least size that `share` of the 5-tuple flows do not exceed; `None` without flows.
    pub fn flow_size_quantile(&self, share: f64) -> Option<FlowSizePoint> {
        self.flow_size_cdf
            .iter()
            .find(|point| point.flows_share >= share)
            .or(self.flow_size_cdf.last())
            .copied()
    }
}
