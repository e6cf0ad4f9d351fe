//! AF_XDP in namespaces: sockets, and the program that steers to them.

#[path = "xdp/forward.rs"]
mod forward;
mod lab;
#[path = "xdp/refusals.rs"]
mod refusals;
#[path = "xdp/steer.rs"]
mod steer;
#[path = "../examples/xdp_forward.rs"]
#[allow(dead_code)]
mod xdp_forward;

use lab::Lab;
use paceline_live::xdp::{Steering, XdpProgram};

/// A lab, where this machine lets tests have one and attach XDP programs; otherwise it has printed why not.
fn lab(label: &str) -> Option<Lab> {
    let mut lab = Lab::new(label)?;
    let namespace = lab.namespace("probe");
    lab.pair((&namespace, "p0"), (&namespace, "p1"));
    let attached = namespace.inside(|| {
        let interface = paceline_live::Interface::open("p0")?;
        let program = XdpProgram::attach(&interface, &Steering::default())?;
        paceline_live::xdp::XdpSocket::open(
            &paceline_live::xdp::Umem::mapped(16, 2_048, 0)?,
            program.interface(),
            0,
            &paceline_live::xdp::SocketOptions::default(),
        )
        .map(drop)
    });
    match attached {
        Ok(()) => Some(lab),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}
