//! AF_XDP in namespaces: sockets, and the program that steers to them.

#![allow(unsafe_code)]

#[path = "xdp/forward.rs"]
mod forward;
#[path = "xdp/frames.rs"]
mod frames;
#[path = "xdp/grace.rs"]
mod grace;
mod lab;
#[path = "xdp/own.rs"]
mod own;
#[path = "xdp/refer.rs"]
mod refer;
#[path = "xdp/refusals.rs"]
mod refusals;
#[path = "xdp/spread.rs"]
mod spread;
#[path = "xdp/steer.rs"]
mod steer;
#[path = "../examples/xdp_forward.rs"]
#[allow(dead_code)]
mod xdp_forward;
#[path = "../examples/xdp_sink.rs"]
#[allow(dead_code)]
mod xdp_sink;
#[path = "../examples/xdp_source.rs"]
#[allow(dead_code)]
mod xdp_source;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use lab::Lab;
use paceline_live::xdp::{SocketOptions, Steering, Umem, XdpProgram, XdpSocket};
use paceline_live::{Interface, LiveError};

/// A lab, where this machine lets tests have one and this program was built with clang; otherwise it has printed why
/// not. Whatever else goes wrong is a failure, not a reason to skip.
fn lab(label: &str) -> Option<Lab> {
    let mut lab = Lab::new(label)?;
    let namespace = lab.namespace("probe");
    lab.pair((&namespace, "p0"), (&namespace, "p1"));
    let tried = namespace.inside(|| {
        let interface = Interface::open("p0")?;
        let _program = XdpProgram::attach(&interface, &Steering::default())?;
        XdpSocket::open(&Umem::mapped(16, 2_048, 0)?, &interface, 0, &SocketOptions::default()).map(drop)
    });
    match tried {
        Ok(()) => Some(lab),
        Err(error @ LiveError::Rights { .. }) => skip(&error),
        Err(error)
            if ["built without clang", "XDP_SOCKETS"].iter().any(|why| error.to_string().contains(why)) =>
        {
            skip(&error)
        }
        Err(error) => panic!("{error}"),
    }
}

fn skip(error: &LiveError) -> Option<Lab> {
    println!("skipped: {error}");
    None
}

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// How often the calling thread has allocated so far.
fn allocations() -> usize {
    ALLOCATIONS.get()
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: it does what the system's allocator does, and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}
