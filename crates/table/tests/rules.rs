//! What the table promises, one sentence at a time.

use std::collections::BTreeMap;

use nf::{FiveTuple, FlowKey, Sharding, Short, SrcAddr};
use paceline_table::WhenFull::{self, EvictOldest, Reject};
use paceline_table::{BATCH_MAX, FlowTable, Layout, Part, STEPS_PER_EPOCH, Slot, Wanted, Watermark};
use wire::{Addr, Headers};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

fn key(number: u32) -> SrcAddr {
    SrcAddr(Addr::v4(number.to_be_bytes()))
}

/// A table for one function.
struct Table {
    table: FlowTable<SrcAddr>,
    part: Part<u32>,
}

impl Table {
    fn new(capacity: usize, when_full: WhenFull, seed: u64) -> Table {
        let mut layout = Layout::new();
        let part = layout.add();
        Table { table: FlowTable::new(&layout, capacity, when_full, seed).expect("memory"), part }
    }

    fn find(&self, number: u32) -> Slot {
        let key = key(number);
        self.table.find(self.table.hash(key.short(), || key), key.short(), || key)
    }

    /// The flow's state is `number` until `deadline_ns`, if there is room.
    fn set(&mut self, number: u32, now_ns: u64, deadline_ns: u64) -> bool {
        let mut slot = self.find(number);
        if !slot.is_some() {
            let part = self.part;
            self.table.make_room(Watermark::claim(now_ns), now_ns, |table, slot| {
                table.cell_mut(slot, part).clear()
            });
            let key = key(number);
            slot = self.table.insert(self.table.hash(key.short(), || key), key.short(), &key);
        }
        if slot.is_some() {
            self.table.cell_mut(slot, self.part).set(number, deadline_ns);
        }
        slot.is_some()
    }

    fn holds<const N: usize>(&self, numbers: [u32; N]) -> [bool; N] {
        numbers.map(|number| self.find(number).is_some())
    }
}

/// Every block can be used, at the highest load that buckets are sized for.
#[test]
fn it_holds_what_its_capacity_says() {
    let capacities = [1, 2, 9, 10, 36, 9 << 6, 9 << 10, (9 << 13) + 1, 9 << 14];
    for capacity in capacities.into_iter().take(if cfg!(miri) { 5 } else { 9 }) {
        for seed in 0..4 {
            let mut table = Table::new(capacity, Reject, seed);
            for number in 0..capacity as u32 {
                assert!(table.set(number, 0, 1), "{number} of {capacity}, seed {seed}");
            }
            for number in 0..capacity as u32 {
                assert_eq!(table.table.cell(table.find(number), table.part).state(), Some(&number));
            }
            assert!(!table.set(u32::MAX, 0, 1), "one more than {capacity}");
            table.table.check();
        }
    }
}

/// A walk over all flows of a large table with few of them looks at few blocks, also when flows have come and gone.
#[test]
fn blocks_to_look_at_are_as_many_as_there_were_flows_at_once() {
    let mut table = Table::new(1_000, Reject, 5);
    assert_eq!(table.table.slots().len(), 0);
    for round in 0..100 {
        for number in 0..3 {
            assert!(table.set(10 * round + number, 0, 1));
        }
        assert_eq!(table.table.slots().len(), 3, "round {round}");
        let slots: Vec<Slot> = table.table.slots().collect();
        let mut parcel = table.table.parcel(3);
        slots.into_iter().for_each(|slot| table.table.pack(slot, &mut parcel));
        assert!(table.table.is_empty());
        table.table.check();
    }
}

#[test]
fn a_full_table_rejects_or_evicts_the_flow_nearest_to_its_deadline() {
    let fill = |when_full| {
        let mut table = Table::new(3, when_full, 0);
        for (number, deadline_ns) in [(1, 50), (2, 40), (3, 60)] {
            assert!(table.set(number, 0, deadline_ns));
        }
        table
    };

    let mut reject = fill(Reject);
    assert!(!reject.set(4, 10, 60));
    assert_eq!(reject.holds([1, 2, 3, 4]), [true, true, true, false]);

    let mut evict = fill(EvictOldest);
    assert!(evict.set(4, 10, 60));
    assert_eq!(evict.holds([1, 2, 3, 4]), [true, false, true, true]);

    // A dead flow makes room under either policy.
    let mut reject = fill(Reject);
    assert!(reject.set(4, 45, 90));
    assert_eq!(reject.holds([1, 2, 3, 4]), [true, false, true, true]);
}

/// A block's number finds only the flow that has the block now, whatever key it is tried with.
#[test]
fn a_block_is_its_flows_alone() {
    let mut table = Table::new(4, Reject, 3);
    assert!([1, 2, 3].iter().all(|number| table.set(*number, 0, 10)));
    let wanted = |table: &Table, slot: Slot, number: u32| {
        let key = key(number);
        table.table.wanted_at(slot, key.short(), || key)
    };
    let slots = [1, 2, 3].map(|number| table.find(number));
    for (number, slot) in (1..).zip(slots) {
        let key = key(number);
        let expected = Wanted::new(key.short(), table.table.hash(key.short(), || key));
        assert_eq!(wanted(&table, slot, number), Some(expected));
        assert!((1..=9).all(|other| other == number || wanted(&table, slot, other).is_none()));
    }
    let others = [3, 4, 1_000, u32::MAX].map(Slot::of_number);
    assert!(others.iter().all(|slot| (0..=9).all(|number| wanted(&table, *slot, number).is_none())));
    // Flow 2 ends: its block keeps its bytes until another has it.
    let part = table.part;
    table.table.cell_mut(slots[1], part).clear();
    table.table.has_lost_a_state(slots[1]);
    assert!(!table.table.has_state(slots[1]) && wanted(&table, slots[1], 2).is_some(), "until maintenance");
    table.table.maintain(Watermark::claim(0), |_, _| ());
    assert!(wanted(&table, slots[1], 2).is_none());
    assert!(table.set(8, 0, 10) && table.set(9, 0, 10));
    assert!(slots.iter().all(|slot| wanted(&table, *slot, 2).is_none()));
}

/// A flood of half-open flows fills the table many times over: no established flow goes.
#[test]
fn under_a_flood_the_flows_with_the_short_time_outs_go() {
    let (blocks, established, flood) = if cfg!(miri) { (100, 20, 200) } else { (1_000, 400, 30_000) };
    let mut table = Table::new(blocks, EvictOldest, 0);
    for number in 0..established {
        assert!(table.set(number, 0, 1_000_000_000));
    }
    for number in 10_000..10_000 + flood {
        assert!(table.set(number, number.into(), u64::from(number) + 1_000_000));
    }
    assert_eq!(table.table.len(), blocks);
    // Of 16 blocks drawn all are established once in two million: these came together and lie
    // together, so that looking at 16 in a row would cost them one each time.
    assert!((0..established).all(|number| table.find(number).is_some()));
}

#[test]
fn a_flow_is_dead_from_its_deadline_on_and_found_until_it_is_swept() {
    let mut table = Table::new(8, Reject, 0);
    table.set(1, 0, 10);
    assert_eq!(table.table.live(table.part, 9).count(), 1);
    assert_eq!(table.table.live(table.part, 10).count(), 0);
    assert!(table.find(1).is_some());
    let part = table.part;
    table.table.maintain(Watermark::claim(10), |table, slot| table.cell_mut(slot, part).clear());
    assert!(!table.find(1).is_some());
}

/// One block in eight steps; nobody who lives is asked to go.
#[test]
fn the_sweep_gives_blocks_back_and_says_which() {
    let mut table = Table::new(STEPS_PER_EPOCH / 4, Reject, 0);
    for number in 0..STEPS_PER_EPOCH as u32 / 4 {
        table.set(number, 0, if number % 2 == 0 { 10 } else { 11 });
    }
    let (mut gone, part) = (Vec::new(), table.part);
    for swept in 1..=2 {
        table.table.maintain(Watermark::claim(10), |table, slot| {
            gone.push(*table.cell(slot, part).state().expect("a state"));
            table.cell_mut(slot, part).clear();
        });
        assert_eq!(gone.len(), swept * STEPS_PER_EPOCH / 8 / 2);
    }
    gone.sort_unstable();
    assert!(gone.into_iter().eq((0..STEPS_PER_EPOCH as u32 / 4).step_by(2)));
    assert_eq!(table.table.len(), STEPS_PER_EPOCH / 8);
}

/// The sweep and an eviction leave a block with its flow while any function has a state there.
#[test]
fn a_block_is_its_flows_until_the_last_state_is_gone() {
    let mut layout = Layout::new();
    let (short, long) = (layout.add::<u8>(), layout.add::<[u64; 9]>());
    let mut table = FlowTable::<SrcAddr>::new(&layout, 1, Reject, 0).expect("memory");
    let insert = |table: &mut FlowTable<SrcAddr>, number| {
        let key = key(number);
        table.insert(table.hash(key.short(), || key), key.short(), &key)
    };
    let slot = insert(&mut table, 1);
    table.cell_mut(slot, short).set(1, 10);
    table.cell_mut(slot, long).set([2; 9], 20);

    table.maintain(Watermark::claim(15), |table, slot| table.cell_mut(slot, short).clear());
    table.make_room(Watermark::claim(15), 15, |_, _| panic!("the other state lives"));
    assert!(!insert(&mut table, 2).is_some());
    assert_eq!(table.cell(slot, long).state(), Some(&[2; 9]));

    table.make_room(Watermark::claim(20), 20, |table, slot| table.cell_mut(slot, long).clear());
    assert!(insert(&mut table, 2).is_some());
    assert!(table.cell(slot, short).state().is_none() && table.cell(slot, long).state().is_none());
}

/// A key of which nothing short can be said: compared whole, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
struct Long([u8; 24]);

impl std::fmt::Display for Long {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl FlowKey for Long {
    const SHARDING: Sharding = SrcAddr::SHARDING;

    fn of(headers: &Headers) -> Long {
        long(u32::from(headers.src_port))
    }

    fn short(&self) -> Short {
        Short { bits: 7, is_exact: false }
    }
}

fn long(number: u32) -> Long {
    let mut bytes = [0; 24];
    bytes[20..].copy_from_slice(&number.to_be_bytes());
    Long(bytes)
}

/// Two flows of one hash, which share bucket and tag, are two flows.
fn tells_flows_of_one_hash_apart<K: FlowKey>(key: fn(u32) -> K) {
    let mut layout = Layout::new();
    let part = layout.add::<u32>();
    let mut table = FlowTable::<K>::new(&layout, 4, Reject, 3).expect("memory");
    let hash = |table: &FlowTable<K>, number| table.hash(key(number).short(), || key(number));
    // Of 300,000 numbers ten pairs or so have one hash of 32 bits.
    let mut seen = BTreeMap::new();
    let numbers = (0..).map(|number| (hash(&table, number), number));
    let pair = numbers.take(1 << 20).find_map(|(hash, number)| Some([seen.insert(hash, number)?, number]));
    let pair = pair.expect("two numbers of one hash");
    for number in pair {
        let (hash, key) = (hash(&table, number), key(number));
        assert!(!table.find(hash, key.short(), || key).is_some());
        let slot = table.insert(hash, key.short(), &key);
        table.cell_mut(slot, part).set(number, 1);
    }
    table.check();
    for number in pair {
        let (hash, key) = (hash(&table, number), key(number));
        let slots = [
            table.find(hash, key.short(), || key),
            table.locate(table.candidate(hash), hash, key.short(), || key),
        ];
        assert!(slots.iter().all(|slot| table.cell(*slot, part).state() == Some(&number)));
    }
}

#[test]
#[cfg_attr(miri, ignore = "looks through many keys")]
fn flows_of_one_hash_are_told_apart() {
    tells_flows_of_one_hash_apart(key);
    tells_flows_of_one_hash_apart(long);
}

/// Within an epoch nothing is given back that is not asked for: a batch may rely on what it located.
#[test]
fn blocks_come_back_at_maintenance_and_not_before() {
    let mut table = Table::new(4, Reject, 0);
    table.set(1, 0, 10);
    let slot = table.find(1);
    for _ in 0..2 * STEPS_PER_EPOCH {
        table.table.cell_mut(slot, table.part).set(1, 10);
        table.table.cell_mut(slot, table.part).clear();
        table.table.has_lost_a_state(slot);
        assert_eq!((table.table.free(), table.find(1)), (3, slot));
    }
    assert!(!table.table.count_steps(STEPS_PER_EPOCH - 1));
    assert_eq!(table.table.steps_left(), 1);
    assert!(table.table.count_steps(1));
    table.table.maintain(Watermark::claim(0), |_, _| panic!("nothing is dead"));
    assert_eq!((table.table.free(), table.table.steps_left()), (4, STEPS_PER_EPOCH));
}

#[test]
#[should_panic(expected = "capacity")]
fn a_capacity_of_none_is_a_mistake() {
    Table::new(0, Reject, 0);
}

/// The other's flows and no more of its own; neither hears of the other's steps from then on.
#[test]
fn a_copy_has_the_others_flows_and_goes_its_own_way() {
    let (mut one, mut other) = (Table::new(3, Reject, 7), Table::new(3, Reject, 7));
    assert!(one.set(1, 0, 50) && other.set(2, 0, 60) && other.set(3, 0, 70));
    one.table.copy_from(&other.table);
    assert_eq!((one.holds([1, 2, 3]), one.table.len()), ([false, true, true], 2));
    assert!(one.set(4, 0, 50) && !one.set(5, 0, 50));
    assert_eq!((other.holds([2, 3, 4]), other.table.free()), ([true, true, false], 1));
    one.table.check();
    other.table.check();
}

/// A copy of a table with few flows beside its buckets copies only their own, and has no other flows.
#[test]
fn a_copy_of_few_flows_in_a_large_table_has_no_others() {
    let table = || Table::new(3_000, Reject, 7);
    let (mut one, mut other) = (table(), table());
    let (of_one, of_other) = ([1, 2, 3, 4, 5], [3, 4, 6]);
    of_one.into_iter().for_each(|number| assert!(one.set(number, 0, 50)));
    of_other.into_iter().for_each(|number| assert!(other.set(number, 0, 60)));
    one.table.copy_from(&other.table);
    assert!(of_other.into_iter().all(|number| one.find(number) == other.find(number)));
    assert_eq!((one.holds([1, 2, 5]), one.table.len()), ([false; 3], 3));
    assert!(one.set(7, 0, 50) && other.set(7, 0, 50));
    assert_eq!(one.find(7), other.find(7));
    one.table.check();
}

/// No flow is left, few or many, and blocks are given out as in a new table.
#[test]
fn a_table_that_was_cleared_is_as_good_as_new() {
    for (capacity, flows) in [(3_000, 5), (64, 60)] {
        let mut table = Table::new(capacity, Reject, 7);
        for number in 0..flows {
            assert!(table.set(number, 0, 50));
        }
        table.table.count_steps(100);
        table.table.clear();
        table.table.check();
        assert_eq!(table.table.steps_left(), Table::new(capacity, Reject, 7).table.steps_left());
        assert!(table.table.is_empty() && (0..flows).all(|number| !table.find(number).is_some()));
        let mut new = Table::new(capacity, Reject, 7);
        for number in 0..flows {
            assert!(table.set(number + 3, 0, 50) && new.set(number + 3, 0, 50));
            assert_eq!(table.find(number + 3), new.find(number + 3));
        }
    }
}

#[test]
#[should_panic(expected = "made otherwise")]
fn a_copy_of_a_table_with_another_seed_is_a_mistake() {
    Table::new(3, Reject, 7).table.copy_from(&Table::new(3, Reject, 8).table);
}

#[test]
#[should_panic(expected = "other states or size")]
fn a_copy_of_a_table_of_another_size_is_a_mistake() {
    Table::new(3, Reject, 7).table.copy_from(&Table::new(4, Reject, 7).table);
}

/// Known and unknown flows, in a set with holes, with keys that 16 bytes hold and keys that they do not.
#[test]
fn a_batch_is_looked_up_as_its_keys_are() {
    let end = |number: usize, is_v4: bool| match is_v4 {
        true => Addr::v4([10, 0, 0, number as u8]),
        false => Addr([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, number as u8]),
    };
    let keys: Vec<FiveTuple> = (0..BATCH_MAX)
        .map(|number| {
            let (src, dst) = (end(number, number % 3 > 0), end(200, number % 3 > 0));
            FiveTuple::of(&Headers { src, dst, src_port: 7, ..Headers::default() })
        })
        .collect();
    let mut layout = Layout::new();
    let part = layout.add::<u64>();
    let mut table = FlowTable::new(&layout, 48, Reject, 3).expect("memory");
    let hash = |table: &FlowTable<FiveTuple>, key: &FiveTuple| table.hash(key.short(), || *key);
    for key in keys.iter().step_by(2) {
        assert!(table.insert(hash(&table, key), key.short(), key).is_some());
    }
    let wanted: Vec<Wanted> = keys.iter().map(|key| Wanted::new(key.short(), hash(&table, key))).collect();
    let packets = 0xf0f0_1234_ffff_0f0f;
    let mut slots = [Slot::NONE; BATCH_MAX];
    table.ask(packets, &wanted);
    table.candidates(packets, &wanted, &mut slots);
    let hits = table.find_all(packets, &wanted, &mut slots, |index| keys[index]);
    assert_eq!(hits, packets & 0x5555_5555_5555_5555);
    for (index, key) in keys.iter().enumerate().filter(|(index, _)| packets >> index & 1 == 1) {
        assert_eq!(slots[index], table.find(hash(&table, key), key.short(), || *key));
    }
    // The states of all of them, one after the other.
    let known = || slots.into_iter().filter(|slot| slot.is_some());
    let mut cells = table.cells_mut(part);
    known().for_each(|slot| cells.at(slot).set(slot.index() as u64, 9));
    assert!(known().all(|slot| table.cell(slot, part).state() == Some(&(slot.index() as u64))));
}
