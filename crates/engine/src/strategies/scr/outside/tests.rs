//! Cores in turn, by hand, so that who comes when is no chance.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use io::capture::{CaptureReader, Record};
use io::{Collector, EngineDrop, Fate, Feeder, Received, ReplayPort, replay_restamped};
use nf::hash_bytes;
use recovery::Gaps;
use sequencer::History;
use wire::LinkType;

use super::arrivals::Arrivals;
use super::intake::External;
use super::line::Line;
use super::on_loss::OnLoss;
use super::rebuild::Recovering;
use super::sequencing::{Sequenced, Sequencing};
use crate::path::receive::HistoryCounters;
use crate::{Batch, Chain, ChainCore, Registry};
use crate::{CoreCounters, turn};

struct Core {
    external: External,
    port: ReplayPort,
    chain: ChainCore,
    batch: Batch,
    counters: CoreCounters,
    has_ended: bool,
}

impl Core {
    /// As long as there is something to do.
    fn turns(&mut self) -> Received {
        for _ in 0..1_000 {
            match self.turn() {
                Received::Frames => {}
                other => return other,
            }
        }
        panic!("there is always something to do");
    }

    fn turn(&mut self) -> Received {
        let Core { external, port, chain, batch, counters, has_ended } = self;
        let received = turn(port, chain, batch, &mut (), external, counters).expect("a collector");
        *has_ended = received == Received::End;
        received
    }

    /// Its own packets, recovered ones, those lost to all.
    fn counts(&self) -> (u64, u64, u64) {
        let HistoryCounters { recovered, lost_to_all, .. } = self.external.end().counters;
        (self.counters.packets, recovered, lost_to_all)
    }

    fn rebuilt(&self) -> u64 {
        self.external.end().counters.rebuilt
    }

    /// A hash of all that replicas have in common.
    fn trace(&mut self, now: wire::Stamp) -> u64 {
        self.chain.settle(now);
        let of_stage = |seed: u64, stage: crate::Stage<'_>| {
            let flows = stage.counters().flows;
            let all = [stage.digest(now), stage.audit(now), flows.created, flows.removed, flows.evicted];
            all.iter().fold(seed, |seed, number| hash_bytes(&number.to_le_bytes(), seed))
        };
        self.chain.stages().fold(0, of_stage)
    }
}

/// Cores that get their packets from a sequencer.
struct Cores {
    sequencing: Sequencing,
    feeder: Option<Feeder>,
    line: Arc<Line>,
    cores: Vec<Core>,
    /// Cores have nowhere to send packets without it.
    collector: Collector,
}

impl Cores {
    fn new(chain: &Chain, steps: Vec<OnLoss>, senders: usize, unanswered: &[u64]) -> Cores {
        let items = chain.newest_items();
        let line = Arc::new(Line::new(senders));
        let (feeder, ports, collector) = replay_restamped(steps.len());
        let core = |(core, (steps, port))| {
            let external = External::new(chain, core, senders, items.clone(), 0, steps, Arc::clone(&line))
                .without_answers(unanswered.to_vec());
            let (chain, counters) = (chain.core().expect("memory"), CoreCounters::default());
            Core { external, port, chain, batch: Batch::new(), counters, has_ended: false }
        };
        let cores = steps.into_iter().zip(ports).enumerate().map(core).collect();
        let sequencing = Sequencing::new(chain, senders, false).expect("cores");
        Cores { sequencing, feeder: Some(feeder), line, cores, collector }
    }

    /// With logs of so many records.
    fn recovering(chain: &Chain, cores: usize, records: usize) -> Cores {
        let item_bytes = chain.newest_items().item_len();
        let parts = Recovering::for_cores(cores, records, item_bytes);
        let steps = parts.into_iter().map(|recovering| OnLoss::Recover(Box::new(recovering))).collect();
        Cores::new(chain, steps, cores, &[])
    }

    /// Sequences a packet, and loses it or not; one core gets all there are.
    fn packet(&mut self, data: &[u8], is_lost: bool) {
        let seq = self.sequencing.last().stamp.seq;
        let packet = Record { time_ns: 1_000 + 1_000 * seq, wire_len: 60, link: LinkType::Ethernet, data };
        let Sequenced { core, record, .. } = self.sequencing.next(&packet);
        if !is_lost {
            let feeder = self.feeder.as_mut().expect("not ended");
            let mut frame = feeder.take(&record).expect("cores");
            frame.entry = core as u16;
            feeder.send(core % self.cores.len(), frame).expect("cores");
        }
    }

    /// Nothing comes any more.
    fn end(&mut self, packets: u64) {
        (0..self.sequencing.cores()).for_each(|core| self.line.raise(core, packets));
        self.feeder = None;
    }

    /// What came out, once all have ended: numbers of packets with a verdict, each with a hash of what became of it, and
    /// of those without.
    fn collect(&mut self) -> (Vec<(u64, u64)>, Vec<u64>) {
        let (mut answered, mut overtaken) = (Vec::new(), Vec::new());
        for core in &self.cores {
            assert!(core.has_ended);
        }
        // As when their threads end.
        self.cores.iter_mut().for_each(|core| core.port = replay_restamped(1).1.remove(0));
        while let Some(done) = self.collector.collect() {
            match done.fate {
                Fate::Drop(EngineDrop::Overtaken) => overtaken.push(done.frame.stamp.seq),
                Fate::Drop(EngineDrop::NotTaken) => {}
                fate => {
                    let answer = hash_bytes(self.collector.bytes(&done), u64::from(fate == Fate::Forward));
                    answered.push((done.frame.stamp.seq, answer));
                }
            }
            self.collector.release(done);
        }
        (answered, overtaken)
    }
}

fn chain(functions: &str) -> Chain {
    Chain::parse("a.toml", functions, &Registry::of_tests()).expect("a chain")
}

fn ddos() -> Chain {
    chain("[[function]]\nuse = \"ddos\"\nflows = 64\n")
}

/// A core that was promised so gives up what it lost: too early, had a flush brought it later.
#[test]
fn nothing_comes_to_a_core_that_is_below_its_floor() {
    for (cores, packets) in (2..6).flat_map(|cores| (0..13u32).map(move |packets| (cores, packets))) {
        let mut pcap = Vec::from(*b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0\x01\0\0\0");
        for number in 0..packets {
            [number, 0, 60, 60].iter().for_each(|field| pcap.extend(field.to_le_bytes()));
            pcap.extend([0; 60]);
        }
        let (chain, stop) = (ddos(), AtomicBool::new(false));
        let (reader, items) = (CaptureReader::from_bytes(pcap).expect("a capture"), chain.newest_items());
        let sequencing = Sequencing::new(&chain, cores, false).expect("cores");
        let mut arrivals = Arrivals::from_capture(reader, sequencing, None);
        let mut count = 0;
        while let Some(core) = arrivals.advance(&stop).expect("a whole capture") {
            let record = arrivals.record().expect("what arrived");
            let first = History::parse(record.data, &items).expect("a history").first_seq();
            assert!(arrivals.floors()[core] <= first, "{cores} cores, {packets} packets, at {count}");
            count += 1;
        }
        assert_eq!(count, packets as usize + cores, "a flush for each");
    }
}

/// Core 0 loses its packets 2 to 40. Core 1 is done with all of them before core 0 sees that.
fn lags(records: usize) -> (Cores, Received) {
    let mut cores = Cores::recovering(&ddos(), 2, records);
    (0..100).for_each(|seq| cores.packet(&[0; 60], seq % 2 == 0 && (2..=40).contains(&seq)));
    assert_eq!(cores.cores[1].turns(), Received::Idle);
    assert_eq!(cores.cores[1].counts(), (50, 0, 0));
    let received = cores.cores[0].turns();
    (cores, received)
}

#[test]
fn a_core_that_lags_gets_from_the_log_what_it_lost() {
    let (cores, received) = lags(128);
    // The last of core 1's packets is in no history yet.
    assert_eq!((received, cores.cores[0].counts()), (Received::Idle, (30, 40, 0)));
    assert_eq!(cores.cores[0].rebuilt(), 0);
}

/// The state of core 1 has all up to its last packet, 99, so those of core 0 that came, 42 to 98, have no verdict.
#[test]
fn a_core_that_lags_by_more_than_the_log_goes_on_with_anothers_state() {
    for records in [2, 4, 32] {
        let (mut cores, received) = lags(records);
        assert_eq!((received, cores.cores[0].rebuilt()), (Received::Idle, 0), "{records}");
        assert_eq!(cores.cores[0].turns(), Received::Idle, "nobody has answered");
        assert_eq!(cores.cores[1].turns(), Received::Idle);
        assert_eq!(cores.cores[0].turns(), Received::Idle);
        let counters = cores.cores[0].external.end().counters;
        assert_eq!((counters.rebuilt, counters.skipped, counters.overtaken), (1, 99, 29), "{records}");
        cores.packet(&[0; 60], false);
        cores.end(101);
        assert_eq!(cores.cores[0].turns(), Received::Idle, "core 1 may have to ask");
        let both = [1, 1, 0].map(|core| cores.cores[core].turns());
        assert_eq!(both, [Received::Idle, Received::End, Received::End]);
        let now = wire::Stamp { seq: 100, time_ns: 101_000 };
        assert_eq!(cores.cores[0].trace(now), cores.cores[1].trace(now));
        let expected = (0..101).filter(|seq| seq % 2 == 1 || [0, 100].contains(seq));
        let (answered, overtaken) = cores.collect();
        assert!(answered.iter().map(|(seq, _)| *seq).eq(expected));
        assert!(overtaken.into_iter().eq((42..99).step_by(2)));
    }
}

#[test]
fn nobody_waits_for_a_core_that_is_gone() {
    let (mut cores, received) = lags(4);
    assert_eq!(received, Received::Idle);
    // As when its thread panics.
    drop(std::mem::replace(&mut cores.cores[1].external, other_external()));
    assert_eq!(cores.cores[0].turns(), Received::End);
    // It has its functions back.
    assert_eq!(cores.cores[0].chain.stages().count(), 1);
}

/// One that is not of these cores.
fn other_external() -> External {
    let (chain, steps) = (ddos(), OnLoss::Skip(Gaps::default()));
    External::new(&chain, 0, 2, chain.newest_items(), 0, steps, Arc::new(Line::new(2)))
}

/// Packets 3 and 4 are lost, and with them all of 3 that there was. Core 1 cannot know before core 0 does.
#[test]
fn a_core_waits_until_another_knows_what_it_lost() {
    let mut cores = Cores::recovering(&ddos(), 2, 64);
    (0..6).for_each(|seq| cores.packet(&[0; 60], seq == 3 || seq == 4));
    let Cores { cores, line, .. } = &mut cores;
    assert_eq!(cores[1].turns(), Received::Idle);
    assert_eq!(cores[1].counts(), (1, 0, 0), "packet 5 waits");
    assert_eq!(cores[0].turns(), Received::Idle);
    assert_eq!(cores[1].turns(), Received::Idle);
    assert_eq!(cores[1].counts(), (1, 1, 0), "2 is in the other's log; of 3 nothing is known");

    // Nothing before 6 comes to core 0 any more.
    line.raise(0, 6);
    assert_eq!(cores[0].turns(), Received::Idle);
    assert_eq!(cores[1].turns(), Received::Idle);
    assert_eq!(cores[1].counts(), (2, 1, 1));
    assert_eq!(cores[0].turns(), Received::Idle);
    assert_eq!(cores[0].counts(), (2, 2, 1), "4 and 5 are in the other's log");
}

/// Draws from a seed.
struct Draw {
    seed: u64,
    drawn: u64,
}

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.drawn += 1;
        hash_bytes(&self.drawn.to_le_bytes(), self.seed) % end
    }
}

/// A UDP packet from one of a few hosts to one of a few ports.
fn udp(draw: &mut Draw) -> Vec<u8> {
    let mut packet = vec![0; 60];
    packet[12..14].copy_from_slice(&[8, 0]);
    packet[14..26].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    packet[26..30].copy_from_slice(&Ipv4Addr::new(10, 0, 0, draw.below(20) as u8).octets());
    packet[30..34].copy_from_slice(&[192, 0, 2, 1]);
    packet[34..38].copy_from_slice(&[0x10, draw.below(3) as u8, 0, 53]);
    packet[38..40].copy_from_slice(&26u16.to_be_bytes());
    packet
}

/// Packets of a run: less than a queue holds, so that all are there from the beginning.
const PACKETS: u64 = 900;

const RUNS: u64 = 60;

/// Which packets, and which of them are lost: each by itself, and stretches of a core's.
fn traffic(draw: &mut Draw, cores: u64) -> Vec<(Vec<u8>, bool)> {
    let ppm = [0, 1_000, 10_000, 100_000][draw.below(4) as usize];
    let mut outages = vec![0; cores as usize];
    (0..PACKETS)
        .map(|seq| {
            let outage = &mut outages[(seq % cores) as usize];
            if draw.below(100) == 0 {
                *outage = draw.below(40);
            }
            let is_lost = *outage > 0 || draw.below(1_000_000) < ppm;
            *outage = outage.saturating_sub(1);
            (udp(draw), is_lost)
        })
        .collect()
}

/// Replicas with short logs that take turns as they like and stall; and one core that gets all. Says how often replicas
/// were rebuilt, and whether all agree.
fn run(seed: u64, functions: &str, break_it: impl Fn(&Chain, &mut Core)) -> (u64, bool) {
    let mut draw = Draw { seed, drawn: 0 };
    let chain = chain(functions);
    let many = 2 + draw.below(5);
    let traffic = traffic(&mut draw, many);
    let records = 1 << draw.below(7);
    let mut cores = Cores::recovering(&chain, many as usize, records);
    let feed = |cores: &mut Cores| {
        traffic.iter().for_each(|(data, is_lost)| cores.packet(data, *is_lost));
        cores.end(PACKETS);
    };
    feed(&mut cores);
    let mut stalled = vec![0; many as usize];
    let mut turns = 0;
    while cores.cores.iter().any(|core| !core.has_ended) {
        turns += 1;
        assert!(turns < 100_000, "seed {seed}: a core waits for ever");
        let core = draw.below(many) as usize;
        if stalled[core] == 0 && draw.below(20) == 0 {
            stalled[core] = draw.below(100);
        }
        if stalled[core] > 0 {
            stalled[core] -= 1;
        } else if !cores.cores[core].has_ended {
            let rebuilt = cores.cores[core].rebuilt();
            cores.cores[core].turn();
            if cores.cores[core].rebuilt() > rebuilt {
                break_it(&chain, &mut cores.cores[core]);
            }
        }
    }
    let (answered, overtaken) = cores.collect();

    let mut single = Cores::new(&chain, vec![OnLoss::Skip(Gaps::default())], many as usize, &overtaken);
    feed(&mut single);
    assert_eq!(single.cores[0].turns(), Received::End);
    let now = wire::Stamp { seq: PACKETS, time_ns: 1_000 * PACKETS + 1_000 };
    let expected = single.cores[0].trace(now);
    // What was allocated from a pool is not in the trace, but shows in the packets.
    let agree = single.collect().0 == answered;
    let agree = agree && cores.cores.iter_mut().all(|core| core.trace(now) == expected);
    (cores.cores.iter().map(Core::rebuilt).sum(), agree)
}

/// A table that evicts, so that which block is whose matters; a pool; a chain with several keys.
const CHAINS: [&str; 3] = [
    "[[function]]\nuse = \"policer\"\nflows = 30\ntable_full = \"evict-oldest\"\n",
    "[[function]]\nuse = \"nat\"\nexternal = [\"198.51.100.1\"]\ninside = [\"10.0.0.0/8\"]\nports = [1024, 1100]\nflows = 50\n",
    "[[function]]\nuse = \"heavy-hitters\"\nflows = 40\n[[function]]\nuse = \"source-statistics\"\nflows = 16\n",
];

#[test]
fn rebuilt_replicas_equal_one_core() {
    for functions in CHAINS {
        let mut rebuilt = 0;
        for seed in 0..RUNS {
            let (times, agree) = run(seed, functions, |_, _| ());
            assert!(agree, "seed {seed}: {functions}");
            rebuilt += times;
        }
        assert!(rebuilt > RUNS / 2, "{rebuilt} rebuilt: {functions}");
    }
}

/// A core that goes on with the state of a chain that has seen nothing is found.
#[test]
fn planted_a_state_that_is_not_taken_over_is_found() {
    for functions in CHAINS {
        let forget = |chain: &Chain, core: &mut Core| core.chain = chain.core().expect("memory");
        assert!((0..RUNS).any(|seed| !run(seed, functions, forget).1), "{functions}");
    }
}

/// So is one that takes over flows, and not the pool that these took their ports from.
#[test]
fn planted_a_pool_that_is_not_taken_over_is_found() {
    let forget = |chain: &Chain, core: &mut Core| {
        let fresh = chain.functions[0].function.pools(1, &|_| 0).remove(0);
        core.chain.put_pool(0, 0, fresh);
    };
    assert!((0..RUNS).any(|seed| !run(seed, CHAINS[1], forget).1));
}
