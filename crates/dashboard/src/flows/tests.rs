//! Looks at made-up flows.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::inspect::{Matched, Seen, TraceFilter};

fn flow(number: u64, packets: u64) -> Flow {
    let key = format!("tcp 10.0.{}.{}:1 > 192.0.2.1:80", number >> 8, number & 255);
    Flow { function: "flow-statistics".to_owned(), key, core: Some(0), packets, bytes: Some(100 * packets) }
}

fn look(top: &mut Top, seconds: f64, flows: Vec<Flow>) -> (Vec<FlowView>, bool) {
    let mut look = Look::default();
    for portion in flows.chunks(256) {
        look.take(top, portion.to_vec(), seconds);
    }
    look.end(top)
}

#[test]
fn rates_are_of_the_time_between_two_looks_at_a_flow() {
    let mut top = Top::default();
    let (first, has_rates) = look(&mut top, 10.0, vec![flow(1, 500), flow(2, 90_000)]);
    assert!(!has_rates && first.iter().all(|flow| flow.packets_per_s.is_none()));
    assert_eq!(first[0].packets, 90_000, "without rates the largest is first");
    // The first goes on, the second rests, the third is new, and the fourth began since the first look, under an old key.
    let (second, has_rates) = look(&mut top, 14.0, vec![flow(1, 900), flow(2, 90_000), flow(3, 44)]);
    let rates: Vec<_> = second.iter().map(|flow| (flow.packets, flow.packets_per_s)).collect();
    assert!(has_rates);
    assert_eq!(rates, [(900, Some(100.0)), (44, Some(11.0)), (90_000, Some(0.0))]);
    assert_eq!(second[0].bits_per_s, Some(80_000.0));
    let (third, _) = look(&mut top, 16.0, vec![flow(2, 50)]);
    assert_eq!(third[0].packets_per_s, Some(25.0), "a flow that began anew under an old key");
    assert_eq!(third.len(), 1, "flows that are gone are not there");
}

/// The bug that [`keep_fastest`] has to be free of: a flow of few large packets pushed out by many of small ones.
#[test]
fn the_first_by_bytes_stay_beside_the_first_by_packets() {
    let mut top = Top::default();
    look(&mut top, 1.0, (0..5_000).map(|number| flow(number, 0)).collect());
    let mut flows: Vec<Flow> = (0..5_000).map(|number| flow(number, 1_000 + number)).collect();
    flows[7].packets = 10;
    flows[7].bytes = Some(1 << 30);
    let (shown, _) = look(&mut top, 2.0, flows.clone());
    assert_eq!(shown.len(), 2 * SHOWN);
    assert!(shown.iter().any(|one| one.key == flows[7].key), "{shown:#?}");
    let first: Vec<u64> = shown.iter().take(SHOWN).map(|flow| flow.packets).collect();
    assert_eq!(first, (0..SHOWN as u64).map(|n| 5_999 - n).collect::<Vec<_>>());
}

/// A flood of flows: what is kept is bounded, and an elephant among them is found.
#[test]
fn a_flood_of_small_flows_hides_no_large_one_and_fills_no_memory() {
    let mut top = Top::default();
    for round in 1..=3_u64 {
        let mice = (0..400_000).map(|number| flow(number * round + 1, 1));
        let flows: Vec<Flow> = mice.chain([flow(0, 1_000_000 * round)]).collect();
        let (shown, _) = look(&mut top, round as f64, flows);
        assert!(top.before.len() <= FOLLOWED, "{}", top.before.len());
        assert_eq!(shown[0].packets, 1_000_000 * round);
        if round > 1 {
            assert_eq!(shown[0].packets_per_s, Some(1e6), "its counters were kept");
        }
    }
}

/// A run of many flows, which takes a processor's time for each portion of them.
struct Busy {
    portions: u64,
    listed: AtomicU64,
}

impl Inspect for Busy {
    fn flows(&self, see: &mut dyn FnMut(Portion) -> bool) -> Result<(), String> {
        for portion in 1..=self.portions {
            let flows = (0..256).map(|number| flow(256 * portion + number, portion)).collect();
            self.listed.fetch_add(1, Ordering::Relaxed);
            if !see(Portion { flows, worked: Duration::from_micros(200 * portion) }) {
                break;
            }
        }
        Ok(())
    }

    fn trace(&self, _: &TraceFilter, _: u64, _: &mut dyn FnMut(Seen) -> bool) -> Result<Matched, String> {
        Err("nothing is traced".to_owned())
    }

    fn reload(&self, _: Option<&str>) -> Result<String, String> {
        Err("nothing takes over".to_owned())
    }
}

#[test]
fn a_look_takes_a_hundredth_of_a_core_at_most_and_ends_when_nobody_listens() {
    let busy = Busy { portions: 20, listed: AtomicU64::new(0) };
    let (told, is_wanted) = (Cell::new(None), Cell::new(true));
    follow(&busy, &|| 1.0, &|| is_wanted.get(), &mut |view| {
        is_wanted.set(false);
        told.set(Some(view));
    });
    let view = told.take().expect("a look");
    assert_eq!((view.seen, view.flows.len(), view.error), (5_120, 2 * SHOWN, None));
    assert!(view.core_percent <= 1.0, "{}", view.core_percent);
    assert!(view.took_seconds >= 0.4, "4 ms of cores alone are a hundredth of that: {}", view.took_seconds);
    // Nobody listens from the third portion on.
    busy.listed.store(0, Ordering::Relaxed);
    let wanted = || busy.listed.load(Ordering::Relaxed) < 3;
    follow(&busy, &|| 1.0, &wanted, &mut |_| ());
    assert_eq!(busy.listed.load(Ordering::Relaxed), 3);
}

/// Between the last reader and the next one there is a moment in which nobody wants flows. The one that saw it ends, as another was started.
#[test]
fn a_look_that_was_not_wanted_once_is_over() {
    let busy = Busy { portions: 3, listed: AtomicU64::new(0) };
    // While it looks, and in the pause before the next look.
    for unwanted in [1, 2, 5, 12, 20] {
        let asked = Cell::new(0);
        let wanted = || {
            asked.set(asked.get() + 1);
            // Wanted again, for a while, by the next reader.
            asked.get() != unwanted && asked.get() < unwanted + 10
        };
        let told = Cell::new(0);
        follow(&busy, &|| 1.0, &wanted, &mut |_| told.set(told.get() + 1));
        assert_eq!(asked.get(), unwanted, "it asks no more");
    }
}
