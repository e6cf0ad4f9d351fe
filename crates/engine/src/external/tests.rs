//! Two cores in turn, by hand, so that who comes when is no chance.

use std::sync::Arc;

use io::capture::Record;
use io::{Collector, Feeder, Received, ReplayPort, replay_restamped};
use recovery::replicas;
use sequencer::ItemLayout;
use wire::LinkType;

use super::custody::Steps;
use super::line::Line;
use super::*;
use crate::run::{CoreCounters, turn};
use crate::{Batch, Chain, ChainCore, Registry};

struct Core {
    keeper: External,
    port: ReplayPort,
    chain: ChainCore,
    batch: Batch,
    counters: CoreCounters,
}

impl Core {
    /// As long as there is something to do.
    fn turns(&mut self) -> Received {
        let Core { keeper, port, chain, batch, counters } = self;
        for _ in 0..1_000 {
            match turn(port, chain, batch, &mut (), keeper, counters).expect("a collector") {
                Received::Frames => {}
                other => return other,
            }
        }
        panic!("there is always something to do");
    }

    /// Its own packets, recovered ones, those lost to all.
    fn counts(&self) -> (u64, u64, u64) {
        let HistoryCounters { recovered, lost_to_all, .. } = self.keeper.end().counters;
        (self.counters.packets, recovered, lost_to_all)
    }
}

struct Pair {
    sequencing: Sequencing,
    feeder: Feeder,
    line: Arc<Line>,
    cores: [Core; 2],
    /// Cores have nowhere to send packets without it.
    _collector: Collector,
}

impl Pair {
    fn new(records: usize) -> Pair {
        let chain =
            Chain::parse("a.toml", "[[function]]\nuse = \"ddos\"\n", &Registry::stock()).expect("a chain");
        let layout = ItemLayout::new(chain.history_bytes());
        let line = Arc::new(Line::new(2));
        let (feeder, ports, collector) = replay_restamped(2);
        let mut parts = replicas(2, records, layout.item_len()).into_iter().zip(ports).enumerate();
        let cores = std::array::from_fn(|_| {
            let (core, (replica, port)) = parts.next().expect("two");
            let steps = Steps::All(Box::new(replica));
            let keeper = External::new(core, 2, layout.clone(), 0, steps, Arc::clone(&line));
            let (chain, counters) = (chain.core().expect("memory"), CoreCounters::default());
            Core { keeper, port, chain, batch: Batch::new(), counters }
        });
        let sequencing = Sequencing::new(&chain, 2, false).expect("two cores");
        Pair { sequencing, feeder, line, cores, _collector: collector }
    }

    /// Sequences a packet, and loses it or not.
    fn packet(&mut self, is_lost: bool) {
        let packet = Record { time_ns: 1_000, wire_len: 60, link: LinkType::Ethernet, data: &[0; 60] };
        let Sequenced { core, record, .. } = self.sequencing.next(&packet);
        if !is_lost {
            let mut frame = self.feeder.take(&record).expect("cores");
            frame.entry = core as u16;
            self.feeder.send(core, frame).expect("cores");
        }
    }
}

/// Core 0 loses its packets 2 to 40. Core 1 is done with all of them before core 0 sees that.
fn lags(records: usize) -> (Pair, Received) {
    let mut pair = Pair::new(records);
    (0..100).for_each(|seq| pair.packet(seq % 2 == 0 && (2..=40).contains(&seq)));
    assert_eq!(pair.cores[1].turns(), Received::Idle);
    assert_eq!(pair.cores[1].counts(), (50, 0, 0));
    let received = pair.cores[0].turns();
    (pair, received)
}

#[test]
fn a_core_that_lags_gets_from_the_log_what_it_lost() {
    let (pair, received) = lags(128);
    // The last of core 1's packets is in no history yet.
    assert_eq!((received, pair.cores[0].counts()), (Received::Idle, (30, 40, 0)));
    assert_eq!(pair.cores[0].keeper.end().behind, None);
}

#[test]
fn a_core_that_lags_by_more_than_the_log_says_so_and_nobody_waits_for_it() {
    for records in [2, 4, 32] {
        let (mut pair, received) = lags(records);
        assert_eq!((received, pair.cores[0].keeper.end().behind), (Received::End, Some(1)), "{records}");
        let [lags, other] = &mut pair.cores;
        assert_eq!((lags.counters.packets, other.turns()), (1, Received::Idle));
        // As when its thread ends.
        let gone = std::mem::replace(&mut lags.keeper, other_keeper());
        drop(gone);
        assert_eq!(other.turns(), Received::End);
    }
}

/// One that is not of this pair.
fn other_keeper() -> External {
    let steps = Steps::Own(recovery::Gaps::default());
    External::new(0, 2, ItemLayout::new(0), 0, steps, Arc::new(Line::new(2)))
}

/// Packets 3 and 4 are lost, and with them all of 3 that there was. Core 1 cannot know before core 0 does.
#[test]
fn a_core_waits_until_another_knows_what_it_lost() {
    let mut pair = Pair::new(64);
    (0..6).for_each(|seq| pair.packet(seq == 3 || seq == 4));
    assert_eq!(pair.cores[1].turns(), Received::Idle);
    assert_eq!(pair.cores[1].counts(), (1, 0, 0), "packet 5 waits");
    assert_eq!(pair.cores[0].turns(), Received::Idle);
    assert_eq!(pair.cores[1].turns(), Received::Idle);
    assert_eq!(pair.cores[1].counts(), (1, 1, 0), "2 is in the other's log; of 3 nothing is known");

    // Nothing before 6 comes to core 0 any more.
    pair.line.raise(0, 6);
    assert_eq!(pair.cores[0].turns(), Received::Idle);
    assert_eq!(pair.cores[1].turns(), Received::Idle);
    assert_eq!(pair.cores[1].counts(), (2, 1, 1));
    assert_eq!(pair.cores[0].turns(), Received::Idle);
    assert_eq!(pair.cores[0].counts(), (2, 2, 1), "4 and 5 are in the other's log");
}
