//! The table against a sorted map, step by step.

use std::collections::BTreeMap;

use nf::SrcAddr;
use paceline_table::{Counters, FlowTable, Insert, WhenFull};
use proptest::prelude::*;
use wire::Addr;

fn key(number: u32) -> SrcAddr {
    SrcAddr(Addr::v4(number.to_be_bytes()))
}

/// One step as the engine does it: the flow's state is replaced by `next`, or the flow ends.
fn step(
    table: &mut FlowTable<SrcAddr, u64>,
    number: u32,
    now_ns: u64,
    next: impl FnOnce(Option<u64>) -> Option<u64>,
    idle_timeout_ns: u64,
) -> Option<Insert> {
    let key = key(number);
    let hash = table.hash(&key);
    table.sweep(now_ns, &mut |_, _| ());
    let slot = match table.find(hash, &key) {
        Some(slot) if table.is_dead(slot, now_ns) => {
            table.expire(slot, &mut |_, _| ());
            None
        }
        found => found,
    };
    let deadline_ns = now_ns.saturating_add(idle_timeout_ns);
    let Some(slot) = slot else {
        let state = next(None)?;
        return Some(table.insert(hash, &key, state, deadline_ns, now_ns, &mut |_, _| ()));
    };
    let state = table.state_mut(slot);
    *state = next(*state);
    match state {
        Some(_) => table.set_deadline(slot, deadline_ns),
        None => table.remove(slot),
    }
    None
}

#[derive(Clone, Debug)]
struct Op {
    number: u32,
    advance_ns: u64,
    idle_timeout_ns: u64,
    next: Option<u64>,
}

fn op(flows: u32) -> impl Strategy<Value = Op> {
    (0..flows, 0..20u64, 1..4000u64, prop::option::weighted(0.9, any::<u64>())).prop_map(
        |(number, advance_ns, idle_timeout_ns, next)| Op { number, advance_ns, idle_timeout_ns, next },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// As long as everything fits, the table is a map whose entries die at their deadline.
    #[test]
    fn it_is_a_map_while_it_is_not_full(
        capacity in prop_oneof![Just(300usize), Just(9 * 32), Just(9 * 32 + 1)],
        ops in prop::collection::vec(op(288), 1..3000),
    ) {
        let mut table = FlowTable::new(capacity, WhenFull::Reject, 7).expect("memory");
        let mut model: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        let mut now_ns = 0;
        for op in ops {
            now_ns += op.advance_ns;
            model.retain(|_, (_, deadline_ns)| *deadline_ns > now_ns);
            let expected = model.get(&op.number).map(|(state, _)| *state);
            let mut seen = None;
            let inserted = step(&mut table, op.number, now_ns, |state| { seen = state; op.next }, op.idle_timeout_ns);
            prop_assert_eq!(seen, expected);
            prop_assert_ne!(inserted, Some(Insert::Full));
            match op.next {
                Some(state) => { model.insert(op.number, (state, now_ns + op.idle_timeout_ns)); }
                None => { model.remove(&op.number); }
            }
        }
        let mut live: Vec<_> = table.live(now_ns).map(|(key, state)| (*key, *state)).collect();
        live.sort_by_key(|(key, _)| key.0);
        let expected: Vec<_> = model.iter().map(|(number, (state, _))| (key(*number), *state)).collect();
        prop_assert_eq!(live, expected);

        table.settle(now_ns, &mut |_, _| ());
        prop_assert_eq!(table.len(), model.len());
        let Counters { created, removed, expired, evicted, rejected } = table.counters();
        prop_assert_eq!(created, removed + expired + table.len() as u64);
        prop_assert_eq!((evicted, rejected), (0, 0));
    }

    /// Over capacity, every flow is accounted for, none is found under another's key, and the table
    /// is as full as it can be.
    #[test]
    fn it_loses_nothing_uncounted_when_full(
        capacity in 1..200usize,
        evict in any::<bool>(),
        ops in prop::collection::vec(op(400), 1..2000),
    ) {
        let when_full = if evict { WhenFull::EvictOldest } else { WhenFull::Reject };
        let mut table = FlowTable::new(capacity, when_full, 7).expect("memory");
        let mut last = BTreeMap::new();
        let mut now_ns = 0;
        for op in ops {
            now_ns += op.advance_ns;
            let mut seen = None;
            let inserted = step(&mut table, op.number, now_ns, |state| { seen = state; op.next }, op.idle_timeout_ns);
            if let Some(state) = seen {
                prop_assert_eq!(Some(&state), last.get(&op.number), "a state that this key never had");
            }
            match op.next {
                Some(state) if inserted != Some(Insert::Full) => { last.insert(op.number, state); }
                _ => { last.remove(&op.number); }
            }
            if inserted == Some(Insert::Full) {
                prop_assert_eq!(when_full, WhenFull::Reject);
                prop_assert_eq!(table.len(), capacity);
            }
        }
        let counters = table.counters();
        let gone = counters.removed + counters.expired + counters.evicted;
        prop_assert_eq!(counters.created, gone + table.len() as u64);
    }
}

/// Every block can be used, at the highest load that buckets are sized for.
#[test]
fn it_holds_what_its_capacity_says() {
    for capacity in [1, 2, 9, 10, 9 << 6, 9 << 10, 9 << 14, (9 << 13) + 1] {
        for seed in 0..4 {
            let mut table = FlowTable::new(capacity, WhenFull::Reject, seed).expect("memory");
            for number in 0..capacity as u32 {
                let inserted = step(&mut table, number, 0, |_| Some(u64::from(number)), 1);
                assert_eq!(inserted, Some(Insert::Done), "{number} of {capacity}, seed {seed}");
            }
            for number in 0..capacity as u32 {
                let slot = table.find(table.hash(&key(number)), &key(number)).expect("inserted");
                assert_eq!(*table.state_mut(slot), Some(u64::from(number)));
            }
            let inserted = step(&mut table, u32::MAX, 0, |_| Some(0), 1);
            assert_eq!(inserted, Some(Insert::Full));
        }
    }
}

#[test]
fn a_full_table_rejects_or_evicts_the_flow_nearest_to_its_deadline() {
    let fill = |when_full| {
        let mut table = FlowTable::new(3, when_full, 0).expect("memory");
        for (number, idle_timeout_ns) in [(1, 50), (2, 40), (3, 60)] {
            step(&mut table, number, 0, |_| Some(0), idle_timeout_ns);
        }
        table
    };
    let holds = |table: &FlowTable<SrcAddr, u64>| {
        [1, 2, 3, 4].map(|number| table.find(table.hash(&key(number)), &key(number)).is_some())
    };

    let mut reject = fill(WhenFull::Reject);
    assert_eq!(step(&mut reject, 4, 10, |_| Some(0), 50), Some(Insert::Full));
    assert_eq!(holds(&reject), [true, true, true, false]);
    assert_eq!(reject.counters().rejected, 1);

    let mut evict = fill(WhenFull::EvictOldest);
    assert_eq!(step(&mut evict, 4, 10, |_| Some(0), 50), Some(Insert::Done));
    assert_eq!(holds(&evict), [true, false, true, true]);
    assert_eq!(evict.counters().evicted, 1);

    // A dead flow makes room under either policy, and counts as expired.
    let mut reject = fill(WhenFull::Reject);
    assert_eq!(step(&mut reject, 4, 45, |_| Some(0), 50), Some(Insert::Done));
    assert_eq!((reject.counters().expired, reject.counters().rejected), (1, 0));
}

/// A flood of half-open flows fills the table many times over: no established flow goes.
#[test]
fn under_a_flood_the_flows_with_the_short_time_outs_go() {
    let mut table = FlowTable::new(1_000, WhenFull::EvictOldest, 0).expect("memory");
    for number in 0..400 {
        step(&mut table, number, 0, |_| Some(1), 1_000_000_000);
    }
    for number in 10_000..40_000u32 {
        step(&mut table, number, u64::from(number), |_| Some(0), 1_000_000);
    }
    assert_eq!(table.len(), 1_000);
    let established = (0..400).filter(|n| table.find(table.hash(&key(*n)), &key(*n)).is_some()).count();
    // Of 16 blocks drawn all are established once in two million: these came together and lie
    // together, so that looking at 16 in a row would cost them one each time.
    assert_eq!(established, 400);
}

#[test]
fn a_flow_is_dead_from_its_deadline_on() {
    let mut table = FlowTable::new(8, WhenFull::Reject, 0).expect("memory");
    let mut seen = Vec::new();
    for now_ns in [0, 9, 18, 28] {
        step(
            &mut table,
            1,
            now_ns,
            |state| {
                seen.push(state);
                Some(now_ns)
            },
            10,
        );
    }
    assert_eq!(seen, [None, Some(0), Some(9), None]);
    assert_eq!(table.live(37).count(), 1);
    assert_eq!(table.live(38).count(), 0);
}

#[test]
fn the_sweep_gives_blocks_back_and_says_which() {
    let mut table = FlowTable::new(4, WhenFull::Reject, 0).expect("memory");
    for number in 0..4 {
        step(&mut table, number, 0, |_| Some(u64::from(number)), 10);
    }
    let mut gone = Vec::new();
    for _ in 0..4 * 4 {
        table.sweep(10, &mut |_, state| gone.push(*state));
    }
    gone.sort();
    assert_eq!((gone, table.len()), (vec![0, 1, 2, 3], 0));
}

#[test]
fn digests_of_shards_add_up() {
    let mut whole = FlowTable::new(64, WhenFull::Reject, 1).expect("memory");
    let mut shards = [
        FlowTable::new(64, WhenFull::Reject, 2).expect("memory"),
        FlowTable::new(9, WhenFull::Reject, 3).expect("memory"),
    ];
    for number in 0..10 {
        step(&mut whole, number, 0, |_| Some(u64::from(number)), 10);
        step(&mut shards[number as usize % 2], number, 0, |_| Some(u64::from(number)), 10);
    }
    let sum = shards.iter().map(|shard| shard.digest(5)).fold(0, u64::wrapping_add);
    assert_eq!(whole.digest(5), sum);
    step(&mut whole, 3, 5, |_| Some(4), 10);
    assert_ne!(whole.digest(5), sum, "one state differs");
}

/// What a digest of the living cannot show: a flow that drifted and is gone, or will go at another time.
#[test]
fn the_audit_tells_how_flows_left_and_when_they_will() {
    let run = |state: u64, idle_timeout_ns: u64, until_ns: u64| {
        let mut table = FlowTable::new(8, WhenFull::Reject, 0).expect("memory");
        step(&mut table, 1, 0, |_| Some(state), idle_timeout_ns);
        table.settle(until_ns, &mut |_, _| ());
        (table.digest(until_ns), table.audit(until_ns))
    };
    assert_eq!(run(1, 10, 5), run(1, 10, 5));
    assert_eq!(run(1, 10, 50).0, run(2, 10, 50).0, "nothing lives");
    assert_ne!(run(1, 10, 50).1, run(2, 10, 50).1, "the state with which it expired");
    assert_eq!(run(1, 10, 5).0, run(1, 11, 5).0, "the same state lives");
    assert_ne!(run(1, 10, 5).1, run(1, 11, 5).1, "but not for as long");
    assert_ne!(run(1, 10, 50).1, run(1, 11, 50).1, "nor did it");
}

#[test]
#[should_panic(expected = "capacity")]
fn a_capacity_of_none_is_a_mistake() {
    let _ = FlowTable::<SrcAddr, u64>::new(0, WhenFull::Reject, 0);
}
