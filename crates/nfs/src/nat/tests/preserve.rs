//! RFC 4787 §4.2.1, port preservation without overloading: the inside's own port if it is free.

use super::*;

fn preserving() -> Rig<Nat> {
    Rig::new(function::<Nat>(&SMALL.replace("in-turn", "preserve")))
}

#[test]
fn a_mapping_keeps_its_port_if_nobody_has_it() {
    let mut rig = preserving();
    for (src, expected) in [("10.0.0.1:1027", 1027), ("10.0.0.2:1024", 1024), ("10.0.0.1:1031", 1031)] {
        assert_eq!(port_of(&mut rig, 0, &udp(src, "192.0.2.1:53")), Some(expected));
    }
    let syn = tcp(tcp_flags::SYN, "10.0.0.3:1027", "192.0.2.1:53");
    assert_eq!(port_of(&mut rig, 0, &syn), Some(1027), "TCP's own");
    // Taken by the first, and out of the range: any other, of the parity.
    for src in ["10.0.0.9:1027", "10.0.0.9:53"] {
        let port = port_of(&mut rig, 0, &udp(src, "192.0.2.1:53")).unwrap();
        assert!([1025, 1029].contains(&port), "{src}: {port}");
    }
    assert_eq!(rig.event("parity-lost"), 0);
}

#[test]
fn a_port_is_kept_again_when_its_mapping_is_dead() {
    let mut rig = preserving();
    assert_eq!(port_of(&mut rig, 0, &udp("10.0.0.1:1027", "192.0.2.1:53")), Some(1027));
    assert_ne!(port_of(&mut rig, 299_999, &udp("10.0.0.2:1027", "192.0.2.1:53")), Some(1027));
    assert_eq!(port_of(&mut rig, 300_000, &udp("10.0.0.3:1027", "192.0.2.1:53")), Some(1027));
    rig.wait_until(ms(10_000_000));
    assert!(rig.pool().free().flatten().all(|(free, room)| free == room.min(4)));
}

/// Every endpoint has a port, and no two have one, in whichever order they come.
#[test]
fn nothing_is_overloaded() {
    let mut rig = preserving();
    let ports: BTreeSet<u16> = (0..8_u16)
        .map(|number| {
            let src = format!("10.0.0.{}:{}", number + 1, 1024 + number % 3);
            port_of(&mut rig, 0, &udp(&src, "192.0.2.1:53")).unwrap()
        })
        .collect();
    assert_eq!(ports.len(), 8);
    assert_eq!(outcome(&mut rig, 0, &udp("10.0.0.99:1024", "192.0.2.1:53")), "no-port");
}

/// On several cores a port that packets from outside bring to another core is not this one's to give.
#[test]
fn a_core_keeps_only_ports_of_its_own() {
    let nat: Nat = function(&SMALL.replace("in-turn", "preserve"));
    let mut pools = nat.pools(2, &|headers| usize::from(headers.dst_port >= 1028));
    for (core, pool) in pools.iter_mut().enumerate() {
        // Its own first: a port that is drawn for the other must not be the one that comes next.
        for src_port in if core == 0 { [1025, 1029] } else { [1029, 1025] } {
            let (mut edits, mut events) = (Edits::NONE, [0; 8]);
            let meta = Nat::project(&udp(&format!("10.0.0.1:{src_port}"), "192.0.2.1:53")).unwrap();
            let mut cx = Cx::new(Stamp::default(), &mut edits, pool, &mut events, 0);
            let mut flow = None;
            assert_eq!(nat.step(&mut flow, &meta, &mut cx), Verdict::Forward);
            let port = flow.unwrap().port;
            assert_eq!(usize::from(port >= 1028), core);
            assert_eq!(port == src_port, usize::from(src_port >= 1028) == core, "{port} for {src_port}");
        }
    }
}
