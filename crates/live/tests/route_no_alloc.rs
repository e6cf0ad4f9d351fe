//! A thread that forwards packets neither allocates nor frees, also while the control thread publishes new tables and
//! drops old ones.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use paceline_live::Interface;
use paceline_live::route::{Decision, Tables, Unresolved};
use wire::{LinkType, internet_checksum};

struct Counting;

thread_local! {
    /// Whether this thread's calls are counted, and how many there were.
    static CALLS: Cell<Option<u64>> = const { Cell::new(None) };
}

fn count() {
    let _ = CALLS.try_with(|calls| calls.set(calls.get().map(|calls| calls + 1)));
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split_whitespace()).status().expect("ip");
    assert!(status.success(), "ip {arguments}");
}

/// UDP from 10.8.0.5, by hand.
fn packet(to: [u8; 4], ttl: u8) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 9, 1, 2, 9, 9, 9, 9, 9]);
    frame[12..26].copy_from_slice(&[0x08, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, ttl, 17, 0, 0]);
    frame[26..34].copy_from_slice(&[10, 8, 0, 5, to[0], to[1], to[2], to[3]]);
    let checksum = internet_checksum(&[&frame[14..34]]);
    frame[24..26].copy_from_slice(&checksum);
    frame[39] = 26;
    frame
}

#[test]
fn forwarding_neither_allocates_nor_frees() {
    // SAFETY: changes the namespace of this thread alone, and takes a plain number.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 || Command::new("ip").arg("-V").output().is_err() {
        println!("skipped: no rights to make a network namespace, or no `ip`");
        return;
    }
    ip("link add a0 address 02:00:00:00:09:01 type veth peer name b0");
    for line in ["addr add 10.9.0.1/24 dev a0", "link set a0 up", "link set b0 up"] {
        ip(line);
    }
    ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:09:02 dev a0 nud permanent");
    let from = Interface::open("a0").expect("the interface").index;
    let mut tables = Tables::open().expect("the tables");
    let mut forwarder = tables.forwarder();
    let mut unresolved = Unresolved::<[u8; 60]>::default();
    let is_over = AtomicBool::new(false);
    let calls = thread::scope(|scope| {
        let data = scope.spawn(|| {
            let mut seen = [0_u64; 6];
            CALLS.set(Some(0));
            let mut now_ns = 0;
            while !is_over.load(Ordering::Acquire) {
                now_ns += 100_000_000;
                forwarder.refresh(now_ns);
                while let Some(mut frame) = unresolved.take_due(&forwarder) {
                    let headers = wire::parse(LinkType::Ethernet, &frame, 60);
                    forwarder.again(&mut frame, &headers, from);
                    seen[5] += 1;
                }
                // Sent, and late; to the host; to nobody, and to a neighbour that is sometimes known.
                for (to, ttl) in [
                    ([10, 9, 0, 2], 9),
                    ([10, 9, 0, 2], 1),
                    ([10, 9, 0, 1], 9),
                    ([10, 9, 0, 50], 9),
                    ([99; 4], 9),
                ] {
                    let mut frame = packet(to, ttl);
                    let headers = wire::parse(LinkType::Ethernet, &frame, 60);
                    let kind = match forwarder.forward(&mut frame, &headers, from) {
                        Decision::Send { .. } => 0,
                        Decision::Host => 1,
                        Decision::Reply { .. } => 2,
                        Decision::Drop(_) => 3,
                        Decision::Unresolved => {
                            if unresolved.put(&forwarder, frame).is_some() {
                                forwarder.give_up();
                            }
                            4
                        }
                    };
                    seen[kind] += 1;
                }
            }
            let calls = CALLS.take();
            assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
            calls
        });
        let begin = Instant::now();
        let mut changes = 0;
        // A busy machine starts few programs in a second.
        while begin.elapsed() < Duration::from_secs(1)
            || changes <= 20 && begin.elapsed() < Duration::from_secs(60)
        {
            let verb = if changes % 2 == 0 { "replace" } else { "del" };
            ip(&format!("route {verb} 30.0.0.0/24 via 10.9.0.2"));
            ip(&format!("neigh {verb} 10.9.0.50 lladdr 02:00:00:00:09:50 dev a0"));
            changes += u32::from(tables.update().expect("the kernel's tables"));
        }
        is_over.store(true, Ordering::Release);
        assert!(changes > 20, "only {changes} snapshots");
        data.join().expect("no panic")
    });
    assert_eq!(calls, Some(0));
}
