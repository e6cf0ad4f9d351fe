//! Analyses a trace packet by packet: flows, sizes, protocols, conflicts.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use nf::{AddrPair, FiveTuple, FlowKey};
use wire::{Headers, Malformed, Marks, protocol};

use crate::flows::{Entry, Flows};
use crate::profile::{
    AddressPairs, BYTES_PER_CYCLE, FlowCounts, PacketSizes, Profile, Protocols, SizeClass, TOP_FLOWS, share,
};

/// The most flows by one key of which an analysis keeps what they carry: some 180 MB for both keys. Of the flows that come
/// when there are so many, their number is estimated: see [`Profile::flows_beyond`].
pub const FLOWS_MAX: usize = 900_000;

/// Takes a trace packet by packet. Memory grows with the number of flows up to [`FLOWS_MAX`], not with that of packets.
#[derive(Debug)]
pub struct Analysis {
    conflict_window: u64,
    packets: u64,
    bytes: u64,
    packets_in_flows: u64,
    times_ns: Option<(u64, u64)>,
    sizes_bytes: Option<(u32, u32)>,
    size_classes: [u64; SIZE_CLASSES_BYTES.len()],
    protocols: Protocols,
    malformed: [u64; Malformed::ALL.len()],
    /// When the next packet enters the pipeline.
    entry: Entry,
    five_tuples: Flows<FiveTuple>,
    address_pairs: Flows<AddrPair>,
}

/// RFC 2819, etherStatsPkts*; lengths there count the frame's checksum, a capture's mostly do not.
const SIZE_CLASSES_BYTES: [RangeInclusive<u32>; 7] =
    [0..=64, 65..=127, 128..=255, 256..=511, 512..=1_023, 1_024..=1_518, 1_519..=u32::MAX];

impl Analysis {
    /// An analysis where two packets of a flow conflict if fewer than `conflict_window` cycles apart.
    pub fn new(conflict_window: u64) -> Analysis {
        Analysis::with_flows(conflict_window, FLOWS_MAX)
    }

    /// An analysis that keeps this many flows by each key at most.
    pub fn with_flows(conflict_window: u64, most: usize) -> Analysis {
        Analysis {
            conflict_window,
            packets: 0,
            bytes: 0,
            packets_in_flows: 0,
            times_ns: None,
            sizes_bytes: None,
            size_classes: [0; SIZE_CLASSES_BYTES.len()],
            protocols: Protocols::default(),
            malformed: [0; Malformed::ALL.len()],
            entry: Entry::default(),
            five_tuples: Flows::new(conflict_window, most),
            address_pairs: Flows::new(conflict_window, most),
        }
    }

    /// Takes the next packet. Times need not ascend.
    pub fn packet(&mut self, headers: &Headers, wire_len: u32, time_ns: u64) {
        self.packets += 1;
        self.bytes += u64::from(wire_len);
        self.times_ns = Some(widen(self.times_ns, time_ns));
        self.sizes_bytes = Some(widen(self.sizes_bytes, wire_len));
        let class = SIZE_CLASSES_BYTES.iter().position(|class| class.contains(&wire_len));
        self.size_classes[class.unwrap_or_default()] += 1;
        self.count_protocols(headers);
        if headers.is_ip() && headers.is_well_formed() {
            self.packets_in_flows += 1;
            self.five_tuples.packet(FiveTuple::of(headers), self.entry, u64::from(wire_len));
            self.address_pairs.packet(AddrPair::of(headers), self.entry, u64::from(wire_len));
        }
        self.entry.one_cycle += 1;
        self.entry.by_length += u64::from(wire_len.div_ceil(BYTES_PER_CYCLE).max(1));
    }

    /// What was in the packets so far. Takes a pass over the flows.
    pub fn profile(&self) -> Profile {
        let top10 = self.five_tuples.top(TOP_FLOWS, self.packets);
        let conflicts = self.five_tuples.conflicts();
        Profile {
            packets: self.packets,
            bytes: self.bytes,
            seconds: self.times_ns.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9),
            packets_in_flows: self.packets_in_flows,
            flows: FlowCounts {
                five_tuple: self.five_tuples.count(),
                address_pair: self.address_pairs.count(),
            },
            flows_beyond: self.five_tuples.beyond(),
            top10_share: share(top10.iter().map(|flow| flow.packets).sum(), self.packets),
            top10,
            conflict_window: self.conflict_window,
            conflict_ratio: share(conflicts.one_cycle, self.packets),
            conflict_ratio_by_length: share(conflicts.by_length, self.packets),
            address_pair: self.address_pair_profile(),
            protocols: self.protocols,
            malformed: self.malformed_by_reason(),
            packet_sizes: self.packet_sizes(),
            flow_size_cdf: self.five_tuples.size_cdf(),
        }
    }

    fn count_protocols(&mut self, headers: &Headers) {
        let protocols = &mut self.protocols;
        let marks = headers.marks;
        protocols.vlan += u64::from(marks.contains(Marks::VLAN));
        protocols.qinq += u64::from(headers.has_two_tags());
        protocols.snapped += u64::from(marks.contains(Marks::SNAPPED));
        if let Some(reason) = headers.malformed() {
            protocols.malformed += 1;
            self.malformed[reason as usize - 1] += 1;
            return;
        }
        if !headers.is_ip() {
            protocols.not_ip += 1;
            return;
        }
        protocols.ipv4 += u64::from(marks.contains(Marks::IPV4));
        protocols.ipv6 += u64::from(marks.contains(Marks::IPV6));
        protocols.fragments += u64::from(headers.is_fragment());
        let transport = match headers.protocol {
            _ if !headers.has_transport() => &mut protocols.later_fragments,
            protocol::TCP => &mut protocols.tcp,
            protocol::UDP => &mut protocols.udp,
            protocol::ICMP => &mut protocols.icmp,
            protocol::ICMPV6 => &mut protocols.icmpv6,
            _ => &mut protocols.other,
        };
        *transport += 1;
    }

    fn address_pair_profile(&self) -> AddressPairs {
        let top10 = self.address_pairs.top(TOP_FLOWS, self.packets);
        let conflicts = self.address_pairs.conflicts();
        AddressPairs {
            flows_beyond: self.address_pairs.beyond(),
            top10_share: share(top10.iter().map(|flow| flow.packets).sum(), self.packets),
            top10,
            conflict_ratio: share(conflicts.one_cycle, self.packets),
            conflict_ratio_by_length: share(conflicts.by_length, self.packets),
        }
    }

    fn malformed_by_reason(&self) -> BTreeMap<String, u64> {
        let counts = Malformed::ALL.iter().zip(self.malformed);
        counts
            .filter(|(_, count)| *count > 0)
            .map(|(reason, count)| (reason.name().to_owned(), count))
            .collect()
    }

    fn packet_sizes(&self) -> PacketSizes {
        let (min_bytes, max_bytes) = self.sizes_bytes.unwrap_or_default();
        let class = |(class, packets): (&RangeInclusive<u32>, u64)| SizeClass {
            from_bytes: *class.start(),
            to_bytes: Some(*class.end()).filter(|end| *end < u32::MAX),
            packets,
        };
        PacketSizes {
            min_bytes,
            mean_bytes: share(self.bytes, self.packets),
            max_bytes,
            classes: SIZE_CLASSES_BYTES.iter().zip(self.size_classes).map(class).collect(),
        }
    }
}

fn widen<T: Ord + Copy>(range: Option<(T, T)>, value: T) -> (T, T) {
    range.map_or((value, value), |(min, max)| (min.min(value), max.max(value)))
}

#[cfg(test)]
mod tests;
