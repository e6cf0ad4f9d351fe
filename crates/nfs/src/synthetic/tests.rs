//! Tests of the synthetic function.

use std::collections::BTreeSet;
use std::vec::Vec;

use nf::{Rig, Verdict};
use proptest::prelude::*;
use wire::Headers;

use super::*;
use crate::test_util::{function, ms, not_ip, option_error, tcp, tcp_v6, verdict_when_full};

fn rig(options: &str) -> Rig<Synthetic> {
    Rig::new(function(options))
}

fn next(pool: &[Line], line: u32, accesses: u32) -> u32 {
    (0..accesses).fold(line, |line, _| pool[line as usize].next)
}

#[test]
fn golden() {
    let mut rig = rig("accesses = 3\nbytes = 640\nseed = 7\nidle_ms = 1000");
    let cycle: Vec<u32> = (0..10).map(|line| rig.pool()[line].next).collect();
    // 0 6 3 5 1 7 8 9 2 4, on every machine.
    assert_eq!(cycle, [6, 7, 4, 5, 0, 1, 3, 8, 9, 2]);
    let steps = [
        // ms, source, line afterwards
        (0, 1, 3), // from line 4
        (1, 1, 7),
        (2, 2, 8),
        (1000, 1, 2),
        (1000, 1, 6),
        (2000, 1, 3), // a new flow
    ];
    for (time_ms, source, line) in steps {
        assert_eq!(rig.packet(ms(time_ms), &tcp(source)), Verdict::Forward);
        assert_eq!(rig.state(&tcp(source)), Some(&State { line }), "at {time_ms}");
    }
}

#[test]
fn every_flow_walks_on_its_own_and_what_is_not_ip_does_not() {
    let mut rig = rig("accesses = 100\nbytes = 6400");
    for packet in [tcp(1), tcp_v6(1), Headers { dst_port: 81, ..tcp(1) }] {
        rig.packet(0, &packet);
        let begun = rig.state(&packet).copied();
        rig.packet(1, &packet);
        assert_eq!(rig.state(&packet).copied(), begun, "once round");
    }
    assert_eq!(rig.packet(2, &not_ip()), Verdict::Forward);
    assert_eq!(rig.len(), 3);
    assert_eq!(verdict_when_full::<Synthetic>(&function(""), &tcp(1)), Verdict::Forward);
}

#[test]
fn no_access_and_a_single_line_are_possible() {
    let mut none = rig("accesses = 0");
    none.packet(0, &tcp(1));
    let begun = none.state(&tcp(1)).copied();
    none.packet(1, &tcp(1));
    assert_eq!(none.state(&tcp(1)).copied(), begun);
    let mut one = rig("bytes = 64");
    one.packet(0, &tcp(1));
    assert_eq!(one.state(&tcp(1)), Some(&State { line: 0 }));
}

/// It names the line whose number the step reads first, and changes nothing.
#[test]
fn asks_for_the_line_at_which_the_step_begins() {
    for (options, asks) in [("bytes = 640", true), ("accesses = 0", false), ("prefetch = false", false)] {
        let synthetic: Synthetic = function(options);
        let pool = synthetic.pool();
        let meta = FiveTuple::of(&tcp(1));
        let at = |line: u32| if asks { (&raw const pool[line as usize]).cast() } else { core::ptr::null() };
        let first = synthetic.first_line(&meta);
        assert_eq!(synthetic.prefetch(None, &meta, &pool), at(first), "{options}");
        assert_eq!(synthetic.prefetch(Some(&State { line: 3 }), &meta, &pool), at(3), "{options}");
        // A line that is none is not asked for.
        assert!(synthetic.prefetch(Some(&State { line: u32::MAX }), &meta, &pool).is_null());
    }
    let [mut with, mut without] = ["true", "false"].map(|value| rig(&format!("prefetch = {value}")));
    for time in 0..5 {
        assert_eq!(with.packet(time, &tcp(1)), without.packet(time, &tcp(1)));
    }
    assert_eq!(with.state(&tcp(1)), without.state(&tcp(1)));
    assert!(!function::<Synthetic>("").steps_in_order(), "the memory is read only");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (options, expected) in [
        ("accesses = 10001", "`accesses` must be from 0 to 10000"),
        ("bytes = 0", "`bytes` must be a multiple of 64 from 64 to 1073741824"),
        ("bytes = 100", "`bytes` must be a multiple of 64 from 64 to 1073741824"),
        ("bytes = 1073741888", "`bytes` must be a multiple of 64 from 64 to 1073741824"),
        ("idle_ms = 0", "`idle_ms` must be at least 1, or flows would end as they begin"),
    ] {
        assert_eq!(option_error::<Synthetic>(options), expected);
    }
}

proptest! {
    /// From any line all lines are reached, and the first one again only after all.
    #[test]
    fn the_memory_is_one_cycle(lines in 1_u64..500, seed in 0..=i64::MAX as u64) {
        let options = Options { bytes: lines * 64, seed, ..Options::default() };
        let pool = Synthetic::new(options).unwrap().pool();
        let mut seen = BTreeSet::new();
        let mut line = 0;
        while seen.insert(line) {
            line = next(&pool, line, 1);
        }
        prop_assert_eq!((line, seen.len() as u64), (0, lines));
    }

    /// After so many packets a flow has come so many lines further, whichever other flows were there.
    #[test]
    fn a_flow_comes_as_far_as_its_packets_take_it(
        sources in proptest::collection::vec(1..4_u8, 1..100), accesses in 0..40_u32,
    ) {
        let mut rig = rig(&format!("accesses = {accesses}\nbytes = 65536"));
        for source in &sources {
            rig.packet(0, &tcp(*source));
        }
        let synthetic: Synthetic = function("bytes = 65536");
        let pool = synthetic.pool();
        for source in &sources {
            let packets = sources.iter().filter(|other| *other == source).count() as u32;
            let first = synthetic.first_line(&FiveTuple::of(&tcp(*source)));
            let expected = State { line: next(&pool, first, accesses * packets) };
            prop_assert_eq!(rig.state(&tcp(*source)), Some(&expected));
        }
    }
}
