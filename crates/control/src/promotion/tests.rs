//! What a core is asked for, step by step. Every order of threads is in `model.rs`.

use super::*;

fn change(status: Status, since_seq: u64, after: u64) -> Change {
    Change { status, entry: 7, slot: 0, owner: 0, since_seq, since_ns: since_seq * 10, after }
}

fn at(taken: u64, waits: Option<u64>, told: u64) -> Progress {
    Progress { taken, waits, told }
}

fn two(cores: Vec<Promotion<u64>>) -> [Promotion<u64>; 2] {
    cores.try_into().ok().expect("two cores")
}

/// Packets 0 to 3 are the owner's, 4 and 5 are told, and from 6 on they are the owner's again.
#[test]
fn a_change_waits_for_what_came_before_it_and_for_nothing_else() {
    let (mut changes, mut places, cores) = promotion::<u64>(2, 4);
    let [mut owner, mut other] = two(cores);
    let up = change(Status::Promoted, 4, 4);
    assert!(changes.give(up));
    owner.look();
    other.look();
    assert_eq!(
        (owner.own_limit(), other.own_limit()),
        (4, u64::MAX),
        "the owner's later packets wait for the copy"
    );
    assert_eq!(owner.step(at(4, Some(3), 0)), None, "a packet from before waits");
    assert_eq!(owner.step(at(3, None, 0)), None, "one has not come yet");
    assert_eq!(owner.step(at(4, None, 0)), Some(Step::Copy(up)));
    owner.send(99);
    assert_eq!((owner.own_limit(), owner.told_limit()), (u64::MAX, u64::MAX));
    assert_eq!(owner.step(at(4, None, 0)), None, "it has no place yet");
    places.look();
    assert_eq!(places.next(), Some(up));
    places.place(0);
    assert_eq!(places.next(), None);
    for core in [&mut owner, &mut other] {
        core.look();
        assert_eq!(core.told_limit(), 0, "nothing is told before it is carried out");
        assert_eq!(core.step(at(4, None, 0)), Some(Step::TakeIn(up, 99)));
        assert!(core.is_settled());
    }

    let down = change(Status::Demoted, 6, 4);
    assert!(changes.give(down));
    owner.look();
    assert_eq!((owner.own_limit(), owner.told_limit()), (6, u64::MAX), "known ahead of its place");
    assert_eq!(owner.step(at(9, Some(6), 2)), None);
    places.look();
    places.place(2);
    for core in [&mut owner, &mut other] {
        core.look();
        assert_eq!(core.told_limit(), 2);
        assert_eq!(core.step(at(9, Some(6), 1)), None, "a told packet comes before");
    }
    assert_eq!(owner.step(at(9, Some(5), 2)), None, "a packet of its own from before waits");
    assert_eq!(other.step(at(0, Some(0), 2)), Some(Step::Demote(down)), "another core has no flows to keep");
    assert_eq!(owner.step(at(9, Some(6), 2)), Some(Step::Demote(down)));
    assert_eq!((owner.own_limit(), owner.told_limit()), (u64::MAX, u64::MAX));
    assert!(owner.is_settled() && other.is_settled());
}

/// The room for changes is that for changes which some core has not carried out.
#[test]
fn changes_find_room_when_the_last_has_carried_out_the_first() {
    let (mut changes, mut places, cores) = promotion::<u64>(2, 2);
    let [mut owner, mut other] = two(cores);
    for round in 0..5 {
        let status = if round % 2 == 0 { Status::Promoted } else { Status::Demoted };
        assert!(changes.give(change(status, round, 0)));
        places.look();
        places.place(0);
        for core in [&mut owner, &mut other] {
            core.look();
            while let Some(step) = core.step(at(0, None, 0)) {
                if let Step::Copy(_) = step {
                    core.send(round);
                }
            }
        }
        assert!(changes.has_room(2) && owner.is_settled() && other.is_settled());
    }
    assert!(changes.give(change(Status::Promoted, 9, 0)) && changes.give(change(Status::Demoted, 9, 0)));
    assert!(!changes.has_room(1));
}

/// A core that waits for a copy waits in vain where the owner is gone and has sent none.
#[test]
fn a_core_says_what_it_waits_for() {
    for is_sent in [true, false] {
        let (mut changes, mut places, cores) = promotion::<u64>(2, 4);
        let [mut owner, mut other] = two(cores);
        let up = change(Status::Promoted, 4, 4);
        assert!(other.is_quiet() && !other.is_busy() && !other.has_mail());
        assert!(changes.give(up));
        other.look();
        assert!(!other.is_quiet() && !other.is_busy(), "it has no place yet");
        places.look();
        places.place(0);
        owner.look();
        other.look();
        assert!(!other.is_quiet() && other.is_busy() && other.has_mail());
        if is_sent {
            assert_eq!(owner.step(at(4, None, 0)), Some(Step::Copy(up)));
            owner.send(99);
        }
        drop(owner);
        other.look();
        assert!(!other.has_mail(), "what was sent is here, and a core that is gone sends nothing");
        assert_eq!(other.step(at(0, None, 0)).is_some(), is_sent);
        if is_sent {
            assert_eq!(other.own_limit(), u64::MAX);
            assert!(other.is_quiet() && !other.is_busy() && !other.has_mail());
            // To demote takes no copy.
            assert!(changes.give(change(Status::Demoted, 6, 4)));
            places.look();
            places.place(1);
            other.look();
            assert!(!other.has_mail() && other.is_busy());
        }
    }
}
