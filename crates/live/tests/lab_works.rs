//! The lab in which the other tests run: what it makes, and that nothing of it is left.

mod lab;

use std::net::UdpSocket;
use std::time::Duration;
use std::{panic, thread};

use lab::Lab;
use paceline_live::Interface;

#[test]
fn two_namespaces_reach_each_other_and_nothing_is_left() {
    let Some(mut lab) = Lab::new("works") else { return };
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.pair_of((&left, "l0"), (&right, "r0"), 2);
    left.ip("addr add 192.0.2.1/24 dev l0");
    right.ip("addr add 192.0.2.2/24 dev r0");
    assert!(left.ping("192.0.2.2", 3));
    let l0 = left.inside(|| Interface::open("l0")).expect("it was made, and is up");
    assert_eq!((l0.driver.as_str(), l0.queues), ("veth", 2));
    assert!(right.inside(|| Interface::open("l0")).is_err(), "it is in the other namespace");

    let name = left.name().to_owned();
    assert!(exists(&name));
    drop(lab);
    assert!(!exists(&name));
}

#[test]
fn a_panic_leaves_nothing_either() {
    let Some(mut lab) = Lab::new("panics") else { return };
    let name = lab.namespace("left").name().to_owned();
    let outcome = panic::catch_unwind(panic::AssertUnwindSafe(move || {
        let left = lab.namespace("right");
        left.inside(|| panic!("planted"))
    }));
    assert!(outcome.is_err() && !exists(&name));
}

/// As where a program is being started beside: it has a copy of the socket for a moment longer than its owner.
#[test]
fn an_address_that_is_about_to_be_free_is_waited_for() {
    let Some(mut lab) = Lab::new("bound") else { return };
    let namespace = lab.namespace("one");
    namespace.ip("link set lo up");
    let bind = || UdpSocket::bind("127.0.0.1:7000");
    let first = namespace.bound(bind);
    let copy = first.try_clone().expect("a socket");
    drop(first);
    assert!(namespace.inside(bind).is_err(), "the copy has it");
    let second = thread::scope(|scope| {
        scope.spawn(move || {
            thread::sleep(Duration::from_millis(50));
            drop(copy);
        });
        namespace.bound(bind)
    });
    assert_eq!(second.local_addr().expect("it is bound").port(), 7_000);
}

fn exists(name: &str) -> bool {
    std::path::Path::new("/run/netns").join(name).exists()
}

/// What a note at the start of a run goes by.
#[test]
fn an_interface_says_whether_it_takes_tags_off() {
    let Some(mut lab) = Lab::new("tags") else { return };
    let namespace = lab.namespace("one");
    lab.pair((&namespace, "a0"), (&namespace, "a1"));
    if !namespace.run("ethtool", "--version").status.success() {
        println!("skipped: `ethtool` (package ethtool) does not run");
        return;
    }
    for (word, takes_off) in [("off", false), ("on", true)] {
        let set = namespace.run("ethtool", &format!("-K a0 rxvlan {word}"));
        assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
        let said = namespace.inside(|| Interface::open("a0").map(|interface| interface.takes_tags_off()));
        assert_eq!(said.ok(), Some(takes_off), "rxvlan {word}");
    }
}
