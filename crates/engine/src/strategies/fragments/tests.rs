//! Tests of the fragment tracker, against the RFCs.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use wire::Addr;

use super::*;

const S: u64 = 1_000_000_000;

/// A fragment of datagram `id`: the bytes of a range, and whether more follows.
fn part(id: u32, begin: u32, end: u32, has_more: bool) -> Fragment {
    let datagram = Datagram { src: Addr::v4([10, 0, 0, 1]), dst: Addr::v4([10, 0, 0, 2]), id, protocol: 17 };
    Fragment { datagram, offset: begin, len: end - begin, has_more, header_len: 20, is_nested: false }
}

fn more(begin: u32, end: u32) -> Fragment {
    part(1, begin, end, true)
}

fn last(begin: u32, end: u32) -> Fragment {
    part(1, begin, end, false)
}

/// What becomes of fragments that come at once.
fn check_all(fragments: &[Fragment]) -> Vec<Option<Malformed>> {
    let mut tracker = FragmentTracker::new();
    fragments.iter().map(|fragment| tracker.check(fragment, 0)).collect()
}

use Malformed::{
    FragmentDuplicate as Duplicate, FragmentEnd as End, FragmentLength as Length, FragmentNested as Nested,
    FragmentOverflow as Overflow, FragmentOverlap as Overlap, FragmentWithoutFirst as WithoutFirst,
    TooManyFragments as TooMany,
};

#[test]
fn a_datagram_goes_on_whole_whatever_the_order_behind_its_first_fragment() {
    assert_eq!(check_all(&[more(0, 24), more(24, 48), last(48, 50)]), [None; 3]);
    assert_eq!(check_all(&[more(0, 24), last(48, 50), more(24, 48)]), [None; 3]);
    // RFC 1858 §3.2: without the first fragment nobody can put the others together.
    let late = check_all(&[more(24, 48), last(48, 50), more(0, 24), more(24, 48)]);
    assert_eq!(late, [Some(WithoutFirst), Some(WithoutFirst), None, None]);
}

/// RFC 1858 §3.2.2 and RFC 3128 §3: a fragment at offset 8 holds the flags of a TCP header.
#[test]
fn a_fragment_inside_the_transport_header_is_refused() {
    assert_eq!(check_all(&[more(8, 24), last(24, 32)]), [Some(WithoutFirst); 2]);
    let overwritten = check_all(&[more(0, 24), more(8, 24), last(24, 32)]);
    assert_eq!(overwritten, [None, Some(Overlap), Some(Overlap)]);
    // RFC 3128 §2: the ports alone, once more and otherwise.
    assert_eq!(check_all(&[more(0, 24), more(0, 8), last(24, 32)]), [None, Some(Overlap), Some(Overlap)]);
}

/// RFC 5722 §3.
#[test]
fn an_overlap_takes_the_datagram_with_it() {
    for overlapping in [more(16, 32), more(24, 40), more(32, 40), more(0, 48), last(40, 49), more(40, 56)] {
        let fragments = [more(0, 24), more(24, 48), overlapping, last(48, 50), more(0, 24)];
        let refused = Some(Overlap);
        assert_eq!(check_all(&fragments), [None, None, refused, refused, refused], "{overlapping:?}");
    }
}

/// RFC 8200 §4.5 leaves the datagram as it is.
#[test]
fn a_duplicate_goes_alone() {
    let fragments = [more(0, 24), more(0, 24), last(48, 50), last(48, 50), more(24, 48)];
    assert_eq!(check_all(&fragments), [None, Some(Duplicate), None, Some(Duplicate), None]);
    // The same place with another end is none.
    assert_eq!(check_all(&[more(0, 24), last(48, 72), more(48, 72)])[2], Some(Overlap));
    assert_eq!(check_all(&[more(0, 24), more(48, 72), last(48, 72)])[2], Some(Overlap));
    // Whole datagrams may follow each other under one number; what is over is forgotten.
    let twice = [more(0, 24), last(24, 48), last(24, 48), more(0, 24), last(24, 48)];
    assert_eq!(check_all(&twice), [None, None, Some(WithoutFirst), None, None]);
}

#[test]
fn a_datagram_has_one_end_and_nothing_behind_it() {
    assert_eq!(check_all(&[more(0, 24), last(48, 50), last(56, 60)])[2], Some(End));
    assert_eq!(check_all(&[more(0, 24), last(48, 50), more(56, 64)])[2], Some(End));
    assert_eq!(check_all(&[more(0, 24), more(48, 56), last(24, 32)])[2], Some(End));
    let fragments = [more(0, 24), last(48, 50), more(56, 64), more(24, 48)];
    assert_eq!(check_all(&fragments)[3], Some(End), "and all that come later");
}

#[test]
fn lengths_are_held_to_the_standard() {
    assert_eq!(
        check_all(&[more(0, 20), more(0, 24), more(24, 33), more(24, 24), last(24, 24)]),
        [Some(Length), None, Some(Length), Some(Length), Some(Length)]
    );
    // "Ping of death": with the first fragment's header of 60 bytes the datagram has 65,536.
    let long = |header_len| Fragment { header_len, ..more(0, 24) };
    assert_eq!(check_all(&[long(59), last(65_464, 65_476)]), [None, None]);
    assert_eq!(
        check_all(&[long(60), last(65_464, 65_476), more(24, 32)]),
        [None, Some(Overflow), Some(Overflow)]
    );
    assert_eq!(
        check_all(&[Fragment { is_nested: true, ..more(0, 24) }, last(24, 32)]),
        [Some(Nested), Some(WithoutFirst)]
    );
}

#[test]
fn datagrams_are_told_apart() {
    let first = more(0, 24);
    let Fragment { datagram, .. } = first;
    let others = [
        Datagram { src: Addr::v4([10, 0, 0, 3]), ..datagram },
        Datagram { dst: Addr::v4([10, 0, 0, 3]), ..datagram },
        Datagram { id: 2, ..datagram },
        Datagram { protocol: 6, ..datagram },
    ];
    for other in others {
        let later = Fragment { datagram: other, ..last(24, 30) };
        assert_eq!(check_all(&[first, later, last(24, 30)]), [None, Some(WithoutFirst), None]);
    }
}

#[test]
fn a_datagram_is_followed_for_a_minute() {
    for (time_ns, expected) in [(60 * S - 1, None), (60 * S, Some(WithoutFirst))] {
        let mut tracker = FragmentTracker::new();
        assert_eq!(tracker.check(&more(0, 24), 7 * S), None);
        assert_eq!(tracker.check(&last(24, 30), 7 * S + time_ns), expected);
    }
    // What was refused is refused as long, and then begins anew.
    let mut tracker = FragmentTracker::new();
    let mut check = |fragment, seconds| tracker.check(&fragment, seconds * S);
    assert_eq!([check(more(0, 24), 0), check(more(8, 16), 0)], [None, Some(Overlap)]);
    assert_eq!([check(more(0, 24), 59), check(more(0, 24), 60)], [Some(Overlap), None]);
    // Time does not run back, as stamps do not.
    assert_eq!([check(more(0, 8), 10), check(more(0, 8), 119)], [Some(Overlap); 2]);
}

#[test]
fn there_is_room_for_so_many() {
    let mut tracker = FragmentTracker::sized(2, 3);
    let mut check = |fragment| tracker.check(&fragment, 0);
    let first = |id| part(id, 0, 24, true);
    assert_eq!([check(first(1)), check(first(2)), check(first(3))], [None; 3]);
    // The oldest is forgotten.
    assert_eq!(check(part(1, 24, 32, true)), Some(WithoutFirst));
    assert_eq!([check(part(2, 24, 32, true)), check(part(3, 24, 32, false))], [None; 2]);
    // The third is whole and left room.
    assert_eq!([check(first(4)), check(part(2, 32, 40, true))], [None; 2]);
    assert_eq!(check(part(2, 40, 48, true)), Some(TooMany));
    assert_eq!(check(part(2, 40, 48, false)), Some(TooMany), "and all that come later");
}

/// A train of fragments of few datagrams, that overlap, repeat, come early and late.
fn train() -> impl Strategy<Value = Vec<(u64, Fragment)>> {
    let begin = prop_oneof![2 => Just(0), 5 => (0..8u32).prop_map(|n| n * 8)];
    let len = prop_oneof![6 => (1..4u32).prop_map(|n| n * 8), 1 => 0..20u32];
    let fragment = (0..4u32, begin, len, prop::bool::weighted(0.7))
        .prop_map(|(id, begin, len, more)| (id, begin, len, more || begin == 0));
    let gap_s = prop_oneof![8 => Just(0), 1 => Just(29), 1 => Just(59), 1 => Just(60)];
    let train = vec((gap_s, fragment), 1..80);
    train.prop_map(|train| {
        let mut now_ns = 0;
        let timed = |(gap_s, (id, begin, len, more)): (u64, (u32, u32, u32, bool))| {
            now_ns += gap_s * S;
            (now_ns, part(id, begin, begin + len, more))
        };
        train.into_iter().map(timed).collect()
    })
}

/// The rules once more, without slots, tables or sums: each datagram is a set of bytes and a list of what passed.
#[derive(Default)]
struct Plain {
    followed: Vec<Followed>,
}

struct Followed {
    id: u32,
    begun_ns: u64,
    passed: Vec<(u32, u32, bool)>,
    refused: Option<Malformed>,
}

impl Plain {
    fn check(
        &mut self,
        fragment: &Fragment,
        now_ns: u64,
        datagrams: usize,
        fragments: usize,
    ) -> Option<Malformed> {
        let Fragment { offset: begin, len, has_more, .. } = *fragment;
        let end = begin + len;
        if len == 0 || (has_more && len % 8 != 0) {
            return Some(Length);
        }
        self.followed.retain(|one| one.id != fragment.datagram.id || now_ns < one.begun_ns + 60 * S);
        let Some(at) = self.followed.iter().position(|one| one.id == fragment.datagram.id) else {
            if begin > 0 {
                return Some(WithoutFirst);
            }
            if self.followed.len() == datagrams {
                self.followed.remove(0);
            }
            let passed = vec![(begin, end, has_more)];
            let one = Followed { id: fragment.datagram.id, begun_ns: now_ns, passed, refused: None };
            self.followed.push(one);
            return None;
        };
        let one = &mut self.followed[at];
        if one.refused.is_some() {
            return one.refused;
        }
        if one.passed.contains(&(begin, end, has_more)) {
            return Some(Duplicate);
        }
        let bytes: BTreeSet<u32> = one.passed.iter().flat_map(|part| part.0..part.1).collect();
        let ends = one.passed.iter().filter(|part| !part.2).map(|part| part.1).next();
        let furthest = bytes.last().map_or(0, |byte| byte + 1);
        one.refused = if (begin..end).any(|byte| bytes.contains(&byte)) {
            Some(Overlap)
        } else if ends.is_some_and(|last| end > last || !has_more) || (!has_more && furthest > end) {
            Some(End)
        } else if one.passed.len() == fragments {
            Some(TooMany)
        } else {
            None
        };
        if one.refused.is_some() {
            return one.refused;
        }
        one.passed.push((begin, end, has_more));
        let whole = one.passed.iter().find(|part| !part.2).map(|part| part.1);
        if whole.is_some_and(|end| end as usize == bytes.len() + len as usize) {
            self.followed.remove(at);
        }
        None
    }
}

/// What an endpoint puts together of what passed: its bytes' owners if earlier bytes win, and if later ones do.
fn put_together(passed: &[(u64, usize, Fragment)], later_wins: bool) -> BTreeMap<u32, usize> {
    let mut bytes = BTreeMap::new();
    for (_, number, fragment) in passed {
        for byte in fragment.offset..fragment.end() {
            if later_wins || !bytes.contains_key(&byte) {
                bytes.insert(byte, *number);
            }
        }
    }
    bytes
}

proptest! {
    #[test]
    fn a_tracker_is_what_the_rules_say(train in train(), datagrams in 1..5usize, fragments in 1..6usize) {
        let mut tracker = FragmentTracker::sized(datagrams, fragments);
        let (mut plain, room) = (Plain::default(), tracker.places.capacity());
        for (number, (now_ns, fragment)) in train.iter().enumerate() {
            let expected = plain.check(fragment, *now_ns, datagrams, fragments);
            prop_assert_eq!(tracker.check(fragment, *now_ns), expected, "fragment {}: {:?}", number, fragment);
        }
        prop_assert_eq!(tracker.places.capacity(), room, "and the map has not grown");
    }

    /// Whatever an endpoint does about overlaps, it puts together the same bytes: of one datagram, in the time in which
    /// it is followed, no byte passes twice.
    #[test]
    fn endpoints_agree_about_what_passed(train in train()) {
        let mut tracker = FragmentTracker::new();
        let mut passed: BTreeMap<u32, Vec<(u64, usize, Fragment)>> = BTreeMap::new();
        for (number, (now_ns, fragment)) in train.iter().enumerate() {
            if tracker.check(fragment, *now_ns).is_some() {
                continue;
            }
            let datagram = passed.entry(fragment.datagram.id).or_default();
            if fragment.offset == 0 {
                // The one before is whole, or timed out.
                datagram.clear();
            }
            prop_assert!(fragment.offset == 0 || !datagram.is_empty(), "behind its first");
            datagram.push((*now_ns, number, *fragment));
            prop_assert_eq!(put_together(datagram, false), put_together(datagram, true));
        }
    }
}

/// The planted fault: a tracker for each core, which sees some of a datagram's fragments.
#[test]
fn trackers_that_see_a_part_each_judge_otherwise() {
    let train = [more(0, 24), more(8, 24), last(24, 32)];
    let mut of_cores = [FragmentTracker::new(), FragmentTracker::new()];
    // By hash: with ports there, without them here.
    let core_of = |fragment: &Fragment| usize::from(fragment.offset > 0);
    let split: Vec<_> = train.iter().map(|part| of_cores[core_of(part)].check(part, 0)).collect();
    assert_ne!(split, check_all(&train));
}

/// What the first fragment said comes with each later one, in whatever order these come.
#[test]
fn later_fragments_get_what_their_first_said() {
    let headers = |port: u16| Headers {
        src_port: port,
        dst_port: 53,
        protocol: 17,
        marks: wire::Marks::IPV4 | wire::Marks::FIRST_FRAGMENT,
        ..Headers::default()
    };
    let later = Headers { marks: wire::Marks::IPV4 | wire::Marks::LATER_FRAGMENT, ..Headers::default() };
    let mut tracker = FragmentTracker::new();
    for (id, port) in [(1, 4_000), (2, 5_000)] {
        assert_eq!(tracker.follow(&part(id, 0, 24, true), &headers(port), 0), Ok(None));
    }
    for (id, port, begin, has_more) in
        [(2, 5_000, 48, false), (1, 4_000, 24, true), (2, 5_000, 24, true), (1, 4_000, 48, false)]
    {
        let first = tracker.follow(&part(id, begin, begin + 24, has_more), &later, 0).expect("it fits");
        let mut followed = later;
        followed.follow(&first.expect("its first came"));
        assert!(followed.is_followed());
        assert_eq!((followed.src_port, followed.dst_port), (port, 53));
    }
    // Both are whole, and forgotten.
    assert_eq!(tracker.follow(&part(1, 72, 80, false), &later, 0), Err(WithoutFirst));
}

/// The flood: first fragments of a datagram each, with these numbers. `sources` of them are in turn.
fn flood(tracker: &mut FragmentTracker, numbers: std::ops::Range<u32>, sources: u32) {
    for number in numbers {
        let [a, b, c, d] = (number % sources).to_be_bytes();
        let datagram = Datagram {
            src: Addr::v4([192 | a, b, c, d]),
            dst: Addr::v4([10, 0, 0, 2]),
            id: number,
            protocol: 17,
        };
        let first = Fragment { datagram, ..more(0, 24) };
        assert_eq!(tracker.check(&first, 0), None);
    }
}

/// Between two fragments of a datagram come 100,000 datagrams of one source: others' go on.
#[test]
fn one_source_that_floods_keeps_nobody_else_out() {
    let mut tracker = FragmentTracker::new();
    flood(&mut tracker, 0..2_000, 1);
    for id in 0..100 {
        assert_eq!(tracker.check(&part(id, 0, 24, true), 0), None, "there is room for each");
    }
    flood(&mut tracker, 2_000..102_000, 1);
    for id in 0..100 {
        assert_eq!(tracker.check(&part(id, 24, 48, false), 0), None, "{id}");
    }
}

/// Where each datagram of the flood has another source, those go on whose fragments come within as many first fragments as there are
/// places; slower ones are lost.
#[test]
fn a_flood_of_many_sources_leaves_the_quick_ones() {
    let mut tracker = FragmentTracker::new();
    flood(&mut tracker, 0..5_000, u32::MAX);
    for (from, between, becomes) in [(10_000, 1_000, None), (20_000, 1_024, Some(WithoutFirst))] {
        assert_eq!(tracker.check(&more(0, 24), 0), None);
        flood(&mut tracker, from..from + between, u32::MAX);
        assert_eq!(tracker.check(&last(24, 48), 0), becomes, "{between}");
    }
}
