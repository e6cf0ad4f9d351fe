//! Under `dyssect` a card tells cores where the states of flows are. Whatever it says, all answers are those of `single`: references that
//! are old, another flow's, or nothing that a core ever told cost look-ups alone.
//!
//! All other tests of `dyssect` are with a card that keeps to what cores told it.

use std::collections::HashMap;

use engine::strategies::{DYSSECT, Dispatcher, Layout, Queues, Strategy, StrategyInfo, Team};
use engine::{Chain, ChainCore, Moves, Plan, PlanError, Progress, verify};
use io::{Closed, Frame, Reference};
use nf::{FiveTuple, FlowKey, hash_bytes};
use paceline_conformance::migration::{
    PACKETS, assert_no_trace, inputs, shardable_examples, verify_forced, verify_tiny_tables,
};
use paceline_conformance::stock::{ALONE, alone, generated, small};
use strategy::Assign;
use sweep::Compared;
use wire::{Headers, Stamp};

/// Cores, with the packets from one forced move to the next.
const WAYS: [(usize, u64); 4] = [(4, 100), (2, 37), (4, 37), (8, 100)];

/// `dyssect` with a card that does not say what it was told.
struct Lying(Lie);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lie {
    /// What it was told of a flow first, whatever it was told later: updates and what is taken back are lost.
    Old,
    /// What it was told of the flow that it was asked about before.
    Others,
    /// Blocks drawn at random, most of them taken: no core told it anything.
    Random,
    /// Any bits at all, as where no card writes any.
    Bits,
}

static LIES: [Lying; 4] = [Lying(Lie::Old), Lying(Lie::Others), Lying(Lie::Random), Lying(Lie::Bits)];

impl Strategy for Lying {
    fn info(&self) -> &'static StrategyInfo {
        const fn lying(name: &'static str) -> StrategyInfo {
            StrategyInfo::new(name, "dyssect with a card that does not say what it was told")
        }
        static OLD: StrategyInfo = lying("dyssect with old references");
        static OTHERS: StrategyInfo = lying("dyssect with other flows' references");
        static RANDOM: StrategyInfo = lying("dyssect with random references");
        static BITS: StrategyInfo = lying("dyssect with any references");
        match self.0 {
            Lie::Old => &OLD,
            Lie::Others => &OTHERS,
            Lie::Random => &RANDOM,
            Lie::Bits => &BITS,
        }
    }

    fn layout(&self, chain: &Chain, cores: usize) -> Result<Layout, PlanError> {
        DYSSECT.layout(chain, cores)
    }

    fn assign(&self, chain: &Chain, plan: &Plan) -> Box<dyn Assign> {
        DYSSECT.assign(chain, plan)
    }

    fn owners(&self, plan: &Plan) -> Option<Vec<u16>> {
        DYSSECT.owners(plan)
    }

    fn bring_home(&self, plan: &Plan, cores: &mut [ChainCore], last: Stamp) {
        DYSSECT.bring_home(plan, cores, last);
    }

    fn team(&self, chain: &Chain, plan: &Plan) -> Team {
        let Team { dispatcher, intakes } = DYSSECT.team(chain, plan);
        let card = LyingCard {
            inner: dispatcher,
            lie: self.0,
            count: 0,
            said: HashMap::new(),
            last: Reference::NONE,
        };
        Team { dispatcher: Box::new(card), intakes }
    }
}

struct LyingCard {
    inner: Box<dyn Dispatcher>,
    lie: Lie,
    count: u64,
    said: HashMap<FiveTuple, Reference>,
    last: Reference,
}

impl Dispatcher for LyingCard {
    fn refers(&self) -> bool {
        true
    }

    fn refer(&mut self, headers: &Headers) -> Reference {
        let told = self.inner.refer(headers);
        self.count += 1;
        let bits = hash_bytes(&self.count.to_le_bytes(), 1);
        match self.lie {
            Lie::Old if told == Reference::NONE => {
                self.said.get(&FiveTuple::of(headers)).copied().unwrap_or_default()
            }
            Lie::Old => *self.said.entry(FiveTuple::of(headers)).or_insert(told),
            Lie::Others if told == Reference::NONE => self.last,
            Lie::Others => std::mem::replace(&mut self.last, told),
            // Blocks are given out from the first on.
            Lie::Random => Reference(bits & 0x0000_001f_0000_001f),
            Lie::Bits => Reference(bits),
        }
    }

    fn tells_headers(&self) -> bool {
        self.inner.tells_headers()
    }

    fn attend(&mut self, stamp: Stamp) {
        self.inner.attend(stamp);
    }

    fn dispatch(
        &mut self,
        headers: &Headers,
        frame: &mut Frame,
        queues: &dyn Queues,
    ) -> Result<usize, Closed> {
        self.inner.dispatch(headers, frame, queues)
    }
}

fn assert_lies_show_nowhere(chains: &[Chain]) {
    let inputs = inputs(PACKETS);
    for (of_lie, lying) in LIES.iter().enumerate() {
        let mut all = Moves::default();
        for (of_chain, chain) in chains.iter().enumerate() {
            let way = (of_lie + of_chain) % WAYS.len();
            let check = |compared: &Compared<'_>| {
                assert_no_trace(compared);
                all = all.plus(compared.verified.moves);
            };
            verify_forced(lying, chain, &inputs, &WAYS[way..=way], check);
        }
        assert!(all.own.of("wrong_references") > 10_000, "{}: {all:?}", lying.name());
        assert!(lying.0 == Lie::Bits || all.own.of("referred_packets") > 0, "{}: {all:?}", lying.name());
    }
}

#[test]
fn lies_show_in_no_stock_function() {
    let chains: Vec<_> = ALONE.iter().map(|(name, options)| alone(name, options)).collect();
    assert_lies_show_nowhere(&chains);
}

/// Chains with several tables and both directions, with functions that drop, and with addresses that functions edit.
#[test]
fn lies_show_in_no_example() {
    assert_lies_show_nowhere(&shardable_examples(DYSSECT));
}

/// Tables of 4 to 64 flows under both policies: blocks go from flow to flow all the time, so that references are old as soon as they
/// are told.
#[test]
fn lies_show_in_no_tiny_table() {
    for lying in &LIES {
        let mut wrong = 0;
        let check = |compared: &Compared<'_>| {
            assert_eq!(compared.verified.out_of_order, Some(0), "{compared}");
            wrong += compared.verified.moves.own.of("wrong_references");
        };
        verify_tiny_tables(lying, |chain| chain, check, |moves| moves.own.of("wrong_references") > 0);
        assert!(wrong > 1_000, "{}: {wrong}", lying.name());
    }
}

/// Packets that found their flow where the card had said, and all packets.
fn referred(card_flows: usize) -> (u64, u64) {
    let model = "zipf:flows=2000,a=1.1,packets=60000,gap-ns=20000,seed=5";
    let pcap = generated(model, 60_000);
    let chain = small(alone("flow-statistics", ""));
    let plan = Plan::new(&chain, DYSSECT, 4).expect("a plan");
    let plan = Plan { card_flows, simulation: Some(1), ..plan };
    let verified = verify(&chain, &plan, &|| Ok(pcap.open()), &Progress::default()).expect("runs");
    assert!(verified.holds(), "{verified:#?}");
    (verified.moves.own.of("referred_packets"), verified.packets)
}

/// A card with room for few flows has some of the largest; without rules it says nothing.
#[test]
fn many_packets_go_where_the_card_says() {
    assert_eq!(referred(0).0, 0);
    let (by_few, packets) = referred(64);
    let (by_many, _) = referred(10_000);
    // 64 of 2,000 flows have 60% of packets. Simulated cores have small batches, so that flows are told of, and displaced, often.
    assert!(by_few * 20 > packets, "{by_few} of {packets}");
    assert!(by_many > by_few && by_many * 5 > packets, "{by_many} of {packets}");
}
