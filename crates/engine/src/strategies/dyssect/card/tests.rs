//! Tests of the card that looks flows up.

use wire::{Addr, Headers};

use super::*;

fn packet(host: u16) -> Headers {
    let [a, b] = host.to_be_bytes();
    Headers { src: Addr::v4([10, 0, a, b]), ..Headers::default() }
}

fn update(host: u16, reference: u64) -> CardUpdate {
    CardUpdate { flow: FiveTuple::of(&packet(host)), reference: Reference(reference) }
}

fn card_of(flows: usize) -> FlowCard {
    card(flows, 2, None).0.expect("a card with rules")
}

#[test]
fn a_flow_has_the_reference_that_was_told_last_until_it_is_taken_back() {
    let mut card = card_of(100);
    assert_eq!(card.refer(&packet(1)), Reference::NONE);
    for reference in [5, 9, 0, 7] {
        card.update(update(1, reference));
        assert_eq!(card.refer(&packet(1)), Reference(reference));
        assert_eq!(card.refer(&packet(2)), Reference::NONE);
    }
}

#[test]
fn there_are_no_more_rules_than_it_has_and_the_largest_flows_keep_theirs() {
    for flows in [1, 3, 8, 100] {
        let mut card = card_of(flows);
        let large = |host: u16| host < 4;
        for round in 0..200u16 {
            for host in 0..1_000u16 {
                // Cores tell of few: about as often as a set is asked for a place while each large flow has 1,000 packets.
                if host % 97 == round % 97 {
                    card.update(update(host, u64::from(host) + 1));
                }
                let packets = if large(host) { 1_000 } else { u16::from(round % 7 == host % 7) };
                (0..packets).for_each(|_| {
                    card.refer(&packet(host));
                });
            }
        }
        let has = (0..1_000u16).filter(|host| card.refer(&packet(*host)) != Reference::NONE);
        assert!(has.count() <= flows);
        if flows == 100 {
            assert!((0..4).all(|host| card.refer(&packet(host)) != Reference::NONE), "of {flows}");
        }
    }
}

#[test]
fn what_a_core_tells_is_seen_and_what_finds_no_room_is_lost() {
    let (card, mut cores) = card(100, 2, None);
    let (mut card, mut core) = (card.expect("rules"), cores.remove(1).expect("a link"));
    let told = (0..1_000).filter(|host| core.updates.push(update(*host, 1)).is_ok()).count();
    assert_eq!(told, UPDATES);
    // It looks at what was told with the first packet.
    card.refer(&packet(0));
    let all = (0..1_000).filter(|host| card.refer(&packet(*host)) != Reference::NONE).count();
    assert!((50..=100).contains(&all), "{all}");
    drop(card);
    assert!(core.updates.is_abandoned());
}

#[test]
fn a_card_without_rules_is_none() {
    let (card, cores) = card(0, 3, None);
    assert!(card.is_none() && cores.iter().all(Option::is_none) && cores.len() == 3);
}

#[test]
fn one_outside_gets_what_cores_tell_until_it_is_gone() {
    let outside = CardLink::default();
    let linked = || card(100, 2, Some(&outside));
    let (none, mut cores) = linked();
    let taken = || {
        let mut taken = Vec::new();
        outside.take(|update| taken.push(update));
        taken
    };
    assert!(none.is_none() && taken().is_empty());
    for (core, told) in [(0, update(1, 5)), (1, update(2, 7)), (0, update(1, 0))] {
        let core = cores[core].as_mut().expect("a link");
        core.updates.push(told).expect("room");
    }
    assert_eq!(taken(), [update(1, 5), update(1, 0), update(2, 7)]);
    // Another chain takes over: cores before are heard no more.
    let (_, after) = linked();
    let is_alone = |core: &Option<Referring>| core.as_ref().is_some_and(|core| core.updates.is_abandoned());
    assert!(cores.iter().all(is_alone) && !after.iter().any(is_alone));
    outside.close();
    assert!(after.iter().all(is_alone) && linked().1.iter().all(is_alone));
}
