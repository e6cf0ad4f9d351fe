//! Tests of blocks.

use std::fmt;

use nf::{FiveTuple, Sharding, SrcAddr};
use wire::Headers;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::*;

fn layout(sizes: &[usize]) -> Layout {
    let part = |bytes: &usize| PartLayout { state: TypeId::of::<u64>(), bytes: *bytes, align: 8 };
    let parts = sizes.iter().map(part).collect();
    Layout { id: 0, parts }
}

#[test]
fn parts_are_packed_and_cross_no_line_without_need() {
    // A record, a limiter and a balancer of 48, 24 and 24 bytes: two lines hold them all.
    assert_eq!(layout(&[48, 24, 24]).place(), (vec![24, 72, 96], 120));
    // In another order no part needs to cross.
    assert_eq!(layout(&[24, 48]).place(), (vec![24, 64], 112));
    assert_eq!(layout(&[40]).place(), (vec![24], 64));
    // Larger than a line: crosses anyway.
    assert_eq!(layout(&[80]).place(), (vec![24], 104));
}

#[test]
fn a_short_key_takes_no_room_of_its_own() {
    assert_eq!(Blocks::<SrcAddr>::block_bytes(&layout(&[40])), 64);
    assert_eq!(Blocks::<FiveTuple>::block_bytes(&layout(&[40])), 128);
}

/// A key of 2 bytes that says that something else stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
struct Twisted(u16);

impl fmt::Display for Twisted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FlowKey for Twisted {
    const SHARDING: Sharding = SrcAddr::SHARDING;

    fn of(headers: &Headers) -> Twisted {
        Twisted(headers.src_port)
    }

    fn short(&self) -> Short {
        Short { bits: u128::from(!self.0), is_exact: true }
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "stand for itself: 5")]
fn a_short_key_that_does_not_stand_for_itself_is_caught() {
    let mut blocks = Blocks::<Twisted>::new(&layout(&[8]), 1).expect("memory");
    blocks.take(0, 0, Twisted(5).short(), &Twisted(5));
}

#[test]
#[should_panic(expected = "after the table")]
fn a_part_added_too_late_is_caught() {
    let mut layout = Layout::new();
    layout.add::<u64>();
    let mut blocks = Blocks::<SrcAddr>::new(&layout, 1).expect("memory");
    blocks.cell_mut(0, layout.add::<[u64; 40]>()).set([7; 40], 5);
}

#[test]
fn blocks_that_come_to_another_layout_are_read_by_its_parts() {
    let (mut one, mut other) = (Layout::new(), Layout::new());
    let (part, part_there) = (one.add::<u64>(), other.add::<u64>());
    let mut blocks = Blocks::<SrcAddr>::new(&one, 1).expect("memory");
    blocks.cell_mut(0, part).set(7, 5);
    blocks.come_to(&Blocks::new(&other, 1).expect("memory"));
    assert_eq!(blocks.cell(0, part_there).state(), Some(&7));
}

#[test]
fn blocks_that_are_made_alike_are_read_by_the_same_parts() {
    let mut layout = Layout::new();
    let part = layout.add::<u64>();
    let mut blocks = Blocks::<SrcAddr>::new(&layout, 1).expect("memory").alike(3).expect("memory");
    blocks.cell_mut(2, part).set(7, 5);
    assert_eq!((blocks.cell(2, part).state(), blocks.cell(1, part).state()), (Some(&7), None));
    assert_eq!(blocks.bytes_each(), Blocks::<SrcAddr>::block_bytes(&layout));
}

#[test]
#[should_panic(expected = "a table of other states")]
fn blocks_do_not_come_to_a_layout_of_other_states() {
    let (one, other) = (layout(&[8]), layout(&[16]));
    let there = Blocks::<SrcAddr>::new(&other, 1).expect("memory");
    Blocks::<SrcAddr>::new(&one, 1).expect("memory").come_to(&there);
}

#[test]
#[should_panic(expected = "another table")]
fn a_part_of_another_layout_is_caught() {
    let (mut one, mut other) = (Layout::new(), Layout::new());
    one.add::<u64>();
    let part = other.add::<u64>();
    Blocks::<SrcAddr>::new(&one, 1).expect("memory").cell(0, part);
}
#[test]
#[should_panic(expected = "states of other types")]
fn a_block_does_not_go_into_a_parcel_of_other_states() {
    let (mut one, mut other) = (Layout::new(), Layout::new());
    one.add::<u64>();
    other.add::<bool>();
    let mut blocks = Blocks::<SrcAddr>::new(&one, 1).expect("memory");
    let there = Blocks::<SrcAddr>::new(&other, 1).expect("memory");
    let key = SrcAddr::of(&Headers::default());
    blocks.take(0, 0, key.short(), &key);
    blocks.pack(0, &mut there.parcel(1));
}

#[test]
fn cells_that_change_places_are_packed_and_read() {
    let mut layout = Layout::new();
    let part = layout.add::<bool>();
    let [mut one, mut other] = [(); 2].map(|()| Blocks::<SrcAddr>::new(&layout, 1).expect("memory"));
    let key = SrcAddr::of(&Headers::default());
    one.take(0, 7, key.short(), &key);
    other.cell_mut(0, part).set(true, 5);
    // All bytes of a cell go, those behind its state too, which hold nothing.
    std::mem::swap(one.cell_mut(0, part), other.cell_mut(0, part));
    let mut parcel = one.parcel(1);
    one.pack(0, &mut parcel);
    assert_eq!(other.packed_hash(&parcel, 0), 7);
    other.unpack(0, &parcel, 0);
    assert_eq!(other.cell(0, part).state(), Some(&true));
}

#[test]
fn no_two_layouts_have_one_number() {
    let next = AtomicU32::new(u32::MAX - 1);
    assert_eq!(next_id(&next), u32::MAX - 1);
    let refused = || std::panic::catch_unwind(|| next_id(&next)).is_err();
    assert!(refused() && refused());
}
