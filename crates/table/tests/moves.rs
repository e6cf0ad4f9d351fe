//! Flows that go to other tables, and blocks whose numbers are kept outside of the table.

use nf::{FiveTuple, FlowKey, hash_bytes};
use paceline_table::WhenFull::Reject;
use paceline_table::{FlowTable, Layout, Part, Slot, Wanted, bits, count_of_first};
use proptest::prelude::*;
use wire::{Addr, Headers};

const CAPACITY: usize = 64;

/// A flow of IPv4, whose short key is all of it, or of IPv6, whose short key is a part.
fn key(number: u8, is_v4: bool) -> FiveTuple {
    let src = if is_v4 { Addr::v4([10, 0, 0, number]) } else { Addr([number; 16]) };
    FiveTuple::of(&Headers { src, dst: src, src_port: 7, ..Headers::default() })
}

/// A table for two functions: all flows have a state of one, and some of the other.
struct Table {
    table: FlowTable<FiveTuple>,
    parts: (Part<u8>, Part<[u64; 5]>),
}

impl Table {
    fn new() -> Table {
        let mut layout = Layout::new();
        let parts = (layout.add(), layout.add());
        assert_eq!(
            FlowTable::<FiveTuple>::bytes(&layout, 18),
            2 * 64 + 18 * (3 * 64 + 4),
            "three lines a block"
        );
        Table { table: FlowTable::new(&layout, CAPACITY, Reject, 5).expect("memory"), parts }
    }

    fn hash(&self, key: &FiveTuple) -> u32 {
        self.table.hash(key.short(), || *key)
    }

    fn find(&self, key: &FiveTuple) -> Slot {
        self.table.find(self.hash(key), key.short(), || *key)
    }

    fn states(&self, slot: Slot) -> (Option<u8>, Option<[u64; 5]>) {
        let (one, other) = self.parts;
        (self.table.cell(slot, one).state().copied(), self.table.cell(slot, other).state().copied())
    }

    fn insert(&mut self, number: u8, key: &FiveTuple) {
        let slot = self.table.insert(self.hash(key), key.short(), key);
        self.table.cell_mut(slot, self.parts.0).set(number, 100);
        if number % 2 == 1 {
            self.table.cell_mut(slot, self.parts.1).set([number.into(); 5], 200);
        }
    }

    /// What asks for a flow by its slot gets it, and nothing of another flow.
    fn check(&self, number: u8, key: &FiveTuple) {
        let (slot, short) = (self.find(key), key.short());
        let table = &self.table;
        assert!(slot.is_some() && table.is_taken(slot) && table.has_state(slot) && table.key(slot) == key);
        assert_eq!(self.states(slot), (Some(number), (number % 2 == 1).then_some([number.into(); 5])));
        let expected = hash_bytes(&short.bits.to_le_bytes(), 9);
        assert_eq!((table.hash_flow(slot, 9), table.hash_key(key, 9)), (expected, expected));
        let wanted = Wanted::new(short, self.hash(key));
        assert_eq!((wanted.short(), wanted.hash()), (short, self.hash(key)));
        for said in (0..CAPACITY as u32 + 1).map(Slot::of_number).chain([Slot::NONE]) {
            let found = table.wanted_at(said, short, || *key);
            assert_eq!(found, (said == slot).then_some(wanted));
            assert_eq!(table.confirm(said, &wanted, || *key), slot);
        }
        table.prefetch_block_to::<{ paceline_table::Reach::NEAR }>(slot);
        table.prefetch_block_to::<{ paceline_table::Reach::FAR }>(slot);
        table.prefetch_bucket_of(slot);
        table.ahead().prefetch_bucket(wanted.hash());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 64 })
    })]

    /// What is packed is gone from its table, and is the same flow in the table that it is unpacked into.
    #[test]
    fn flows_that_are_packed_are_the_same_elsewhere(flows in prop::collection::vec(any::<(bool, bool)>(), 0..40)) {
        let mut from = Table::new();
        let flows: Vec<_> = (0u8..).zip(flows).map(|(number, (v4, goes))| (number, key(number, v4), goes)).collect();
        flows.iter().for_each(|(number, key, _)| from.insert(*number, key));
        let mut to = Table { table: from.table.alike(CAPACITY).expect("memory"), ..from };
        let going: Vec<_> = flows.iter().filter(|(.., goes)| *goes).collect();
        let mut parcel = from.table.parcel(CAPACITY);
        for (_, key, _) in &going {
            from.table.pack(from.find(key), &mut parcel);
        }
        prop_assert_eq!((parcel.len(), parcel.is_empty()), (going.len(), going.is_empty()));
        for (index, (number, key, _)) in going.iter().enumerate() {
            let (packed, cell) = from.table.packed(&parcel, index, from.parts.1);
            prop_assert_eq!((packed, cell.state().is_some()), (key, number % 2 == 1));
            prop_assert!(!from.find(key).is_some());
            to.table.prefetch_bucket_for(&parcel, index);
            let slot = to.table.unpack(&parcel, index);
            prop_assert_eq!(slot, to.find(key));
        }
        to.table.prefetch_bucket_for(&parcel, going.len());
        for (number, key, goes) in &flows {
            if *goes { &to } else { &from }.check(*number, key);
        }
        for (table, len) in [(&from.table, flows.len() - going.len()), (&to.table, going.len())] {
            table.check();
            prop_assert_eq!((table.len(), table.is_empty(), table.free()), (len, len == 0, CAPACITY - len));
        }
        prop_assert_eq!(to.table.slots().len(), going.len());
        // One after the other they end.
        for (_, key, _) in &going {
            let slot = to.find(key);
            to.table.cell_mut(slot, to.parts.0).clear();
            to.table.cell_mut(slot, to.parts.1).clear();
            prop_assert!(to.table.is_taken(slot) && !to.table.has_state(slot));
            to.table.release(slot);
            prop_assert!(!to.table.is_taken(slot) && !to.find(key).is_some());
            to.table.release(slot);
            to.table.check();
        }
        prop_assert!(to.table.is_empty() && !to.table.has_state(Slot::of_number(CAPACITY as u32)));
    }
}

#[test]
fn a_state_lives_before_its_deadline_and_is_renewed() {
    let mut table = Table::new();
    table.insert(1, &key(1, true));
    let (slot, part) = (table.find(&key(1, true)), table.parts.0);
    let cell = table.table.cell_mut(slot, part);
    assert!(cell.live_at(100).is_none() && cell.is_dead_at(100) && !cell.is_dead_at(99));
    let mut live = cell.live_at(99).expect("it lives");
    *live.state() += 1;
    live.renew(300);
    assert_eq!((cell.deadline_ns(), cell.state()), (300, Some(&2)));
    assert!(cell.live_at(300).is_none());
    cell.clear();
    assert!(cell.state().is_none() && !cell.is_dead_at(u64::MAX) && cell.live_at(0).is_none());
}

#[test]
fn what_is_looked_up_is_the_same_where_short_keys_hold_all() {
    let wanted = |number, is_v4| Wanted::new(key(number, is_v4).short(), 3);
    assert!(wanted(1, true).is_same(&wanted(1, true)) && !wanted(1, true).is_same(&wanted(2, true)));
    assert!(!wanted(1, false).is_same(&wanted(1, false)), "both may be parts of two keys");
    assert!(!Wanted::NONE.is_same(&Wanted::NONE));
}

#[test]
fn packets_of_a_set_are_counted_where_they_are_the_first() {
    for count in 0..=64 {
        let first = u64::MAX.checked_shr(64 - count).unwrap_or(0);
        assert_eq!(count_of_first(first), Some(count as usize));
        assert!(bits(first).eq(0..count as usize));
        if (2..64).contains(&count) {
            assert_eq!((count_of_first(first << 1), count_of_first(first ^ 1)), (None, None));
            assert!(bits(first ^ 1).eq(1..count as usize));
        }
    }
}

/// A table's `Debug` output shows how full it is, and no states, which may be of any type.
#[test]
fn tables_are_shown_with_how_much_they_hold() {
    let mut table = Table::new();
    table.insert(1, &key(1, true));
    let (slot, part) = (table.find(&key(1, true)), table.parts.0);
    assert_eq!(format!("{:?}", table.table), "FlowTable { free: 63, .. }");
    let live = table.table.cell_mut(slot, part).live_at(0);
    assert_eq!(format!("{live:?}"), "Some(Live { deadline_ns: 100, .. })");
    assert_eq!(format!("{:?}", table.table.cells_mut(part)), "Cells { blocks: 64, .. }");
    let mut parcel = table.table.parcel(1);
    table.table.pack(slot, &mut parcel);
    assert_eq!(format!("{parcel:?}"), "Parcel { blocks: 1, .. }");
}
