//! The packets that arrive: which flow each is of, how long it is, and whether it updates its flow's state.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

use io::capture::Record;
use pipeline::Arrival;
use pipeline::programs::{Synthetic, SyntheticPhv, field, fields};
use pipeline::spacing::Spacing;
use traffic::Model;

use super::settings::Settings;
use super::traffic::{SPACED, Traffic};
use crate::args::Source;
use crate::failure::Failure;

/// The traces whose spacing the paper states.
const SPACINGS: [Spacing; SPACED] = [
    Spacing::TRACE_1,
    Spacing::TRACE_2,
    Spacing::TRACE_3,
    Spacing::TRACE_4,
    Spacing::TRACE_5,
    Spacing::TRACE_6,
];

/// Packets of what is generated.
pub const PACKETS: u64 = 50_000;

/// What keys of packets without a flow are made with.
const ALONE: u64 = 1;

/// A packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Member {
    flow: u64,
    bytes: u32,
}

fn packet(flow: u64, bytes: u32) -> Member {
    Member { flow, bytes }
}

/// Packets of a model; a bare model's name is that of one with as many packets as asked for.
fn generated(name: &str, packets: Option<u64>) -> Result<Vec<Member>, Failure> {
    let sized = format!("{name}:packets={}", packets.unwrap_or(PACKETS));
    let is_bare = !name.contains(':') && Model::parse(&sized).is_ok();
    let most = if is_bare { usize::MAX } else { packets.map_or(usize::MAX, |packets| packets as usize) };
    Ok(members(&Source::model(if is_bare { &sized } else { name }, &AtomicBool::new(false))?, most))
}

/// So many packets at most.
fn members(source: &Source, most: usize) -> Vec<Member> {
    let count = source.trace.len().min(most);
    (0..count).map(|number| member(&source.trace.packet(number), number as u64)).collect()
}

/// Packets that are of no flow meet nobody: each is alone in one.
fn member(record: &Record<'_>, number: u64) -> Member {
    let headers = wire::parse(record.link, record.data, record.wire_len);
    let is_in_flow = headers.is_ip() && headers.is_well_formed();
    let flow =
        if is_in_flow { fields(record)[field::FLOW] } else { nf::hash_bytes(&number.to_le_bytes(), ALONE) };
    packet(flow, record.wire_len)
}

/// The packets of a trace.
pub struct Packets {
    all: Vec<Member>,
    flows: usize,
    takes_turns: bool,
}

impl Packets {
    /// Generates or reads the packets that `settings` ask for.
    ///
    /// # Errors
    /// A capture that cannot be read, or a model that there is not.
    pub fn load(settings: &Settings) -> Result<Packets, Failure> {
        let Settings { traffic, packets, packet_bytes, seed, .. } = settings;
        let many = packets.unwrap_or(PACKETS);
        let all: Vec<Member> = match traffic {
            Traffic::Spaced(number) => {
                let stated = SPACINGS[number - 1];
                // The spacing is in cycles: shorter packets have more of others between them.
                let spacing = packet_bytes.map_or(stated, |bytes| stated.with_bytes(bytes));
                let arrivals = spacing.arrivals(many, 0, *seed);
                arrivals.map(|arrival| packet(arrival.phv[0], arrival.bytes)).collect()
            }
            Traffic::Turns(gap) => (0..many).map(|number| packet(number % gap, 64)).collect(),
            Traffic::Named(name) => generated(name, *packets)?,
            Traffic::Capture(path) => members(
                &Source::capture(path, &AtomicBool::new(false))?,
                packets.map_or(usize::MAX, |packets| packets as usize),
            ),
        };
        Ok(Packets::new(all, matches!(traffic, Traffic::Turns(_))))
    }

    fn new(all: Vec<Member>, takes_turns: bool) -> Packets {
        let flows = all.iter().map(|member| member.flow).collect::<HashSet<_>>().len();
        Packets { all, flows, takes_turns }
    }

    /// The function that the packets go through, with room for all of their flows.
    pub fn program(&self, settings: &Settings) -> Synthetic {
        Synthetic::new(settings.stages).flows(self.flows.max(1)).consistency(settings.consistency.0)
    }

    /// The packets, some of which update. A higher rate's updates include all of a lower one's, but where flows take
    /// turns: there each flow's updates come as evenly as they can.
    pub fn arrivals(&self, settings: &Settings) -> impl Iterator<Item = Arrival<SyntheticPhv>> {
        let percent = u64::from(settings.update_percent);
        let (seed, bytes) = (settings.seed, settings.packet_bytes);
        let flows = self.flows.max(1) as u64;
        let is_even = self.takes_turns;
        self.all.iter().zip(0..).map(move |(member, number): (&Member, u64)| {
            let turn = number / flows;
            let updates = match is_even {
                true => turn * percent / 100 != (turn + 1) * percent / 100,
                false => nf::hash_bytes(&number.to_le_bytes(), seed) % 100 < percent,
            };
            // Tags begin with 1.
            let phv = Synthetic::packet(member.flow, updates, number + 1);
            Arrival { phv, bytes: bytes.unwrap_or(member.bytes), time_ns: 0, port: 0 }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::grid::Grid;
    use super::*;

    fn settings(traffic: Traffic, packets: u64) -> Settings {
        Settings { traffic, packets: Some(packets), ..Grid::default().points().remove(0) }
    }

    fn load(traffic: Traffic, packets: u64) -> Packets {
        Packets::load(&settings(traffic, packets)).ok().expect("there is such traffic")
    }

    fn updates(traffic: Traffic, update_percent: u32) -> Vec<bool> {
        let settings = Settings { update_percent, ..settings(traffic, 1_000) };
        let packets = Packets::load(&settings).ok().expect("generated");
        packets.arrivals(&settings).map(|arrival| arrival.phv[1] == 1).collect()
    }

    #[test]
    fn as_many_packets_update_as_asked_for() {
        for percent in [0, 10, 30, 100] {
            let drawn = updates(Traffic::Spaced(2), percent).iter().filter(|updates| **updates).count();
            assert!(drawn.abs_diff(percent as usize * 10) < 40, "{percent}%: {drawn}");
            let even = updates(Traffic::Turns(10), percent).iter().filter(|updates| **updates).count();
            assert_eq!(even, percent as usize * 10);
        }
    }

    #[test]
    fn more_updates_are_the_same_and_more() {
        let (few, many) = (updates(Traffic::Spaced(1), 20), updates(Traffic::Spaced(1), 50));
        assert!(few.iter().zip(&many).all(|(few, many)| !few || *many));
    }

    #[test]
    fn flows_take_turns() {
        let packets = load(Traffic::Turns(3), 7);
        let flows: Vec<u64> = packets.all.iter().map(|member| member.flow).collect();
        assert_eq!((flows, packets.flows), (vec![0, 1, 2, 0, 1, 2, 0], 3));
    }

    /// In trace 1 of packets of 256 bytes, 4 cycles each, a flow's packets are at most 18 apart within the 72 cycles
    /// that are stated; with a packet in each cycle, 72.
    #[test]
    fn the_spacing_is_in_cycles() {
        let farthest = |packet_bytes| {
            let settings = Settings { packet_bytes, ..settings(Traffic::Spaced(1), 5_000) };
            let packets = Packets::load(&settings).ok().expect("generated");
            let mut last = std::collections::HashMap::new();
            let gap = |(member, number): (&Member, usize)| Some(number - last.insert(member.flow, number)?);
            packets.all.iter().zip(0..).filter_map(gap).max()
        };
        assert_eq!((farthest(None), farthest(Some(64))), (Some(18), Some(72)));
    }

    #[test]
    fn packets_of_no_flow_are_alone() {
        let link = wire::LinkType::Ethernet;
        let frame = [0; 60];
        let record = Record { time_ns: 0, wire_len: 60, link, data: &frame };
        assert_ne!(member(&record, 0).flow, member(&record, 1).flow);
    }

    #[test]
    fn packets_are_as_long_as_asked_for() {
        for traffic in [Traffic::Spaced(3), Traffic::Turns(2), Traffic::named("uniform")] {
            for (packet_bytes, least) in [(Some(200), 200), (None, 60)] {
                let settings = Settings { packet_bytes, ..settings(traffic.clone(), 50) };
                let packets = Packets::load(&Settings { packet_bytes: None, ..settings.clone() });
                let packets = packets.ok().expect("there is such traffic");
                assert!(packets.arrivals(&settings).all(|arrival| arrival.bytes >= least));
                let is_set = |arrival: Arrival<SyntheticPhv>| Some(arrival.bytes) == packet_bytes;
                assert_eq!(packets.arrivals(&settings).all(is_set), packet_bytes.is_some());
            }
        }
    }

    #[test]
    fn names_lead_to_traffic() {
        assert_eq!(Traffic::named("trace-3"), Traffic::Spaced(3));
        assert_eq!(Traffic::named("trace-7"), Traffic::Named("trace-7".to_owned()));
        assert_eq!(load(Traffic::named("uniform"), 100).all.len(), 100);
        assert!(Packets::load(&settings(Traffic::named("no-such-model"), 1)).is_err());
    }
}
