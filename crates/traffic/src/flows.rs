//! The flows of a trace by one key, and their conflicts in a pipeline.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::hash::Hash;

use crate::estimate::Estimate;
use crate::profile::{Beyond, FlowShare, FlowSizePoint, share};

/// The flows by one key. Memory grows with their number, up to a bound: flows that come when there are so many are
/// estimated to be so many, and no more is known of them.
#[derive(Debug)]
pub(crate) struct Flows<K> {
    flows: HashMap<K, Flow>,
    /// How many are kept at most.
    most: usize,
    /// Those that came too late, and their packets.
    beyond: Option<(Estimate, u64)>,
    conflict_window: u64,
    conflicts: Conflicts,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    packets: u64,
    bytes: u64,
    first: Entry,
    last: Entry,
}

/// When a packet enters the pipeline, in cycles.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    /// If every packet takes one cycle; also its number in the trace.
    pub one_cycle: u64,
    /// If every packet takes a cycle for each 64 bytes.
    pub by_length: u64,
}

/// Packets that enter the pipeline too soon after the one before of their flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Conflicts {
    /// If every packet takes one cycle.
    pub one_cycle: u64,
    /// If every packet takes a cycle for each 64 bytes.
    pub by_length: u64,
}

impl<K: Copy + Eq + Hash + Display> Flows<K> {
    pub fn new(conflict_window: u64, most: usize) -> Flows<K> {
        Flows { flows: HashMap::new(), most, beyond: None, conflict_window, conflicts: Conflicts::default() }
    }

    /// Counts a packet; `entry` is later than that of every packet before.
    pub fn packet(&mut self, key: K, entry: Entry, bytes: u64) {
        let window = self.conflict_window;
        if let Some(flow) = self.flows.get_mut(&key) {
            self.conflicts.one_cycle += u64::from(entry.one_cycle - flow.last.one_cycle < window);
            self.conflicts.by_length += u64::from(entry.by_length - flow.last.by_length < window);
            flow.packets += 1;
            flow.bytes += bytes;
            flow.last = entry;
        } else if self.flows.len() < self.most {
            self.flows.insert(key, Flow { packets: 1, bytes, first: entry, last: entry });
        } else {
            let (flows, packets) = self.beyond.get_or_insert_with(|| (Estimate::new(), 0));
            flows.add(&key);
            *packets += 1;
        }
    }

    /// How many flows there are; an estimate if there are more than are kept.
    pub fn count(&self) -> u64 {
        self.flows.len() as u64 + self.beyond.as_ref().map_or(0, |(flows, _)| flows.count())
    }

    /// What is not known of each flow, if there are more than are kept.
    pub fn beyond(&self) -> Option<Beyond> {
        let (_, packets) = self.beyond.as_ref()?;
        Some(Beyond { kept: self.flows.len() as u64, packets: *packets })
    }

    pub fn conflicts(&self) -> Conflicts {
        self.conflicts
    }

    /// The `count` flows with the most packets, biggest first, with their shares of `all_packets`. Of
    /// equals, the one with more bytes, then the one that came first.
    pub fn top(&self, count: usize, all_packets: u64) -> Vec<FlowShare> {
        let order =
            |(_, flow): &(&K, &Flow)| Reverse((flow.packets, flow.bytes, Reverse(flow.first.one_cycle)));
        let mut flows: Vec<(&K, &Flow)> = self.flows.iter().collect();
        if flows.len() > count {
            flows.select_nth_unstable_by_key(count, order);
            flows.truncate(count);
        }
        flows.sort_unstable_by_key(order);
        let named = flows.into_iter().map(|(key, flow)| FlowShare {
            flow: key.to_string(),
            packets: flow.packets,
            bytes: flow.bytes,
            share: share(flow.packets, all_packets),
        });
        named.collect()
    }

    /// Packets per flow, cumulative, one point for each size that occurs.
    pub fn size_cdf(&self) -> Vec<FlowSizePoint> {
        let mut flows_of_size: BTreeMap<u64, u64> = BTreeMap::new();
        for flow in self.flows.values() {
            *flows_of_size.entry(flow.packets).or_default() += 1;
        }
        let all_packets = flows_of_size.iter().map(|(size, flows)| size * flows).sum();
        let (mut flows_so_far, mut packets_so_far) = (0, 0);
        let point = |(&size, &flows): (&u64, &u64)| {
            flows_so_far += flows;
            packets_so_far += size * flows;
            FlowSizePoint {
                packets: size,
                flows_share: share(flows_so_far, self.flows.len() as u64),
                packets_share: share(packets_so_far, all_packets),
            }
        };
        flows_of_size.iter().map(point).collect()
    }
}
