//! The life of a neighbour, with a real one in another namespace.

use std::time::Duration;

use etherparse::PacketBuilder;

use super::Planted;
use super::lab::{addr, headers};
use super::namespace::{Other, PATIENCE, in_namespace, ip, soon, within};
use crate::route::{Decision, Forwarder, Neighbour, RouteDrop, Tables};

const HERE: [u8; 6] = [2, 0, 0, 0, 9, 1];

struct Scene {
    tables: Tables,
    forwarder: Forwarder,
    interface: u32,
    now_ns: u64,
}

impl Scene {
    fn new(interface: &str) -> Scene {
        let mut tables = Tables::open().expect("the tables");
        let forwarder = tables.forwarder();
        let interface = crate::Interface::open(interface).expect("the interface").index;
        Scene { tables, forwarder, interface, now_ns: 0 }
    }

    /// What becomes of a packet from elsewhere, and where it goes: the time is one second later each time.
    fn forward(&mut self, to: &str) -> (Decision, [u8; 6]) {
        self.now_ns += 1_000_000_000;
        self.tables.update().expect("the kernel's tables");
        self.forwarder.refresh(self.now_ns);
        let ethernet = PacketBuilder::ethernet2([2, 9, 9, 9, 9, 9], HERE);
        let (from, to) = match addr(to).to_v4() {
            Some(to) => ([10, 8, 0, 5], to),
            None => {
                let builder = ethernet.ipv6(addr("2001:db8:8::5").0, addr(to).0, 64).udp(1, 2);
                return self.decide(builder);
            }
        };
        self.decide(ethernet.ipv4(from, to, 64).udp(1, 2))
    }

    fn decide(
        &mut self,
        builder: etherparse::PacketBuilderStep<etherparse::UdpHeader>,
    ) -> (Decision, [u8; 6]) {
        let mut frame = Vec::new();
        builder.write(&mut frame, &[0; 20]).expect("a packet");
        let headers = headers(&frame);
        let decision = self.forwarder.forward(&mut frame, &headers, self.interface);
        (decision, *frame.first_chunk().expect("an address"))
    }

    /// Whether packets soon go to a station.
    fn goes_to(&mut self, to: &str, station: [u8; 6]) -> Result<(), String> {
        let sent = Decision::Send { interface: self.interface };
        let mut last = None;
        // With a planted fault it never is, and need not be waited for.
        let patience = if self.tables.planted.is_some() { Duration::from_secs(3) } else { PATIENCE };
        let is_there = within(patience, || *last.insert(self.forward(to)) == (sent, station));
        if is_there { Ok(()) } else { Err(format!("to {to}: {last:?}, and not to {station:x?}")) }
    }
}

/// A neighbour is unknown, resolved, changes its station, is stale, is confirmed, and one never answers.
fn life(planted: Option<Planted>) -> Result<(), String> {
    let other = Other::new();
    ip(&format!("link add a0 address 02:00:00:00:09:01 type veth peer name b0 netns {}", other.thread_id));
    for line in ["addr add 10.9.0.1/24 dev a0", "addr add 2001:db8:9::1/64 dev a0 nodad", "link set a0 up"] {
        ip(line);
    }
    for line in [
        "link set b0 address 02:00:00:00:09:02",
        "addr add 10.9.0.2/24 dev b0",
        "addr add 2001:db8:9::2/64 dev b0 nodad",
        "link set b0 up",
    ] {
        other.ip(line);
    }
    for (setting, value) in [
        ("retrans_time_ms", "50"),
        ("delay_first_probe_time", "1"),
        ("locktime", "0"),
        ("gc_stale_time", "1"),
    ] {
        // Quicker; a kernel without the setting takes longer.
        let _ = std::fs::write(format!("/proc/sys/net/ipv4/neigh/a0/{setting}"), value);
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/neigh/a0/{setting}"), value);
    }
    let mut scene = Scene::new("a0");
    assert_eq!(scene.forward("10.9.0.2").0, Decision::Unresolved, "not known yet");
    assert_eq!(scene.forward("2001:db8:9::2").0, Decision::Unresolved);
    let station = [2, 0, 0, 0, 9, 2];
    scene.goes_to("10.9.0.2", station)?;
    scene.goes_to("2001:db8:9::2", station)?;

    // From here on nothing is asked of the kernel's dumps.
    scene.tables.planted = planted;
    other.ip("link set b0 down");
    other.ip("link set b0 address 02:00:00:00:09:03");
    other.ip("link set b0 up");
    other.ip("addr replace 2001:db8:9::2/64 dev b0 nodad");
    ip("neigh del 10.9.0.2 dev a0");
    ip("neigh del 2001:db8:9::2 dev a0");
    scene.goes_to("10.9.0.2", [2, 0, 0, 0, 9, 3])?;
    scene.goes_to("2001:db8:9::2", [2, 0, 0, 0, 9, 3])?;

    // Planted by hand, and taken away by hand.
    ip("neigh replace 10.9.0.50 lladdr 02:00:00:00:09:50 dev a0 nud permanent");
    scene.goes_to("10.9.0.50", [2, 0, 0, 0, 9, 0x50])?;
    ip("neigh replace 10.9.0.50 lladdr 02:00:00:00:09:51 dev a0 nud permanent");
    scene.goes_to("10.9.0.50", [2, 0, 0, 0, 9, 0x51])?;
    ip("neigh del 10.9.0.50 dev a0");
    let is_gone =
        soon(|| matches!(scene.forward("10.9.0.50").0, Decision::Unresolved | Decision::Reply { .. }));
    is_gone.then_some(()).ok_or("a neighbour that is gone is still used")?;

    // A stale one in use is confirmed: the kernel's state goes on from STALE.
    ip("neigh change 10.9.0.2 dev a0 nud stale");
    scene.goes_to("10.9.0.2", [2, 0, 0, 0, 9, 3])?;
    let is_confirmed = soon(|| {
        scene.forward("10.9.0.2");
        ip("neigh show 10.9.0.2 dev a0").contains("REACHABLE")
    });
    is_confirmed.then_some(()).ok_or("a stale neighbour is not confirmed")?;

    // One that does not answer: the sender is told.
    let is_told = soon(|| {
        scene.forward("10.9.0.77").0
            == Decision::Reply { interface: scene.interface, reason: RouteDrop::NoNeighbour }
    });
    is_told.then_some(()).ok_or("nobody is told of a neighbour that does not answer")?;
    let failed = scene.tables.snapshot().neighbour(scene.interface, addr("10.9.0.77"));
    assert!(matches!(failed, Some(Neighbour::Failed) | None));
    Ok(())
}

#[test]
fn neighbours_come_and_go() {
    in_namespace(|| life(None).expect("the kernel's neighbours"));
}

/// Planted: a neighbour's change that is not applied is found.
#[test]
fn a_stale_neighbour_is_found() {
    in_namespace(|| {
        let found = life(Some(Planted::Neighbours)).expect_err("a stale neighbour");
        assert!(found.contains("[2, 0, 0, 0, 9, 2]"), "{found}: to the old station");
    });
}
