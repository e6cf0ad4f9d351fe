//! Strategy `scr`: any number of replicas do what the interpreter does, and a history that is wrong is found.

use paceline_xdp::history::{Arrival, HEADER_BYTES, Item, Part, prefix};
use paceline_xdp::{Compiled, Strategy};

use crate::common::{
    EXAMPLES, captured, compiled, difference, example, loaded, object, random_packets, root,
};

#[test]
fn replicas_equal_the_interpreter_packet_by_packet() {
    let captures = [root().join("captures/edge.pcap"), root().join("../shared/captures/apps-mix.pcap.gz")];
    let captures: Vec<_> = captures.iter().filter_map(|path| captured(path, 2000)).collect();
    for name in EXAMPLES {
        let program = example(name);
        let compiled = compiled(&program, Strategy::Scr);
        let Some(object) = object(&compiled, "scr") else { return };
        // Tables of others are long to set up and to read back.
        let counts: Vec<u32> = if name == "port_knocking" { (2..=14).collect() } else { vec![2, 5, 14] };
        for replicas in counts {
            let Some(loaded) = loaded(&compiled, &object, replicas) else { return };
            let found = difference(
                &program,
                &compiled,
                &loaded,
                replicas as u16,
                &random_packets(3, 1500),
                &|_, _| (),
            );
            assert_eq!(found, None, "{name}, {replicas} replicas");
            (0..replicas).for_each(|replica| assert_eq!(loaded.missed(replica).expect("the map"), 0));
        }
        for (packets, replicas) in captures.iter().zip([3, 8]) {
            let Some(loaded) = loaded(&compiled, &object, replicas) else { return };
            let found = difference(&program, &compiled, &loaded, replicas as u16, packets, &|_, _| ());
            assert_eq!(found, None, "{name}, {replicas} replicas");
        }
    }
}

/// What is told of a packet is what state depends on, and nothing else.
#[test]
fn items_hold_what_state_depends_on() {
    let layout = |name| compiled(&example(name), Strategy::Scr).item.layout();
    assert_eq!(
        layout("port_knocking"),
        "hdr.ipv4.src_addr:32 hdr.ipv4.dst_addr:32 hdr.tcp.$valid:1 hdr.tcp.dst_port:16"
    );
    assert_eq!(
        layout("token_bucket"),
        "hdr.ipv4.$valid:1 hdr.ipv4.src_addr:32 standard_metadata.ingress_global_timestamp:48"
    );
}

/// Bytes of the format, by hand.
#[test]
fn the_format_is_what_the_page_says() {
    let part = |name: &str, width, offset, bytes| Part { field: 0, name: name.into(), width, offset, bytes };
    let item = Item { parts: vec![part("hdr.h.a", 9, 0, 2), part("hdr.h.b", 1, 2, 1)], bytes: 3 };
    assert_eq!(item.layout(), "hdr.h.a:9 hdr.h.b:1");
    let arrival =
        Arrival { sequence: 5, time_ns: 0x0102_0304_0506_0708, replica: 2, port: 7, is_flush: false };
    let bytes = prefix(&item, arrival, &[0, 1, 1, 1, 2, 0], 2);
    let header = [
        &b"PLHI\x03\x00\x00\x01"[..],
        &[0, 0, 0, 0, 0, 0, 0, 5],
        &[1, 2, 3, 4, 5, 6, 7, 8],
        &item.number().to_be_bytes(),
        &[0, 3, 0, 2, 0, 2, 0, 1, 0, 2, 0, 7, 0, 0, 0, 0],
    ];
    assert_eq!(bytes[..HEADER_BYTES], header.concat());
    assert_eq!(bytes[HEADER_BYTES..], [0, 1, 1, 1, 2, 0]);
}

/// Changes what comes before a packet.
type Damage = dyn Fn(&Compiled, &mut Vec<u8>);

/// Whether damage to the history of one packet of many of the token bucket's is found; `folder` is the test's own.
fn finds(folder: &str, damage: &Damage) -> bool {
    let program = example("token_bucket");
    let compiled = compiled(&program, Strategy::Scr);
    let Some(object) = object(&compiled, folder) else { return true };
    let Some(loaded) = loaded(&compiled, &object, 4) else { return true };
    let packets = random_packets(11, 2000);
    let each_fiftieth = |number: u64, bytes: &mut Vec<u8>| {
        if number % 50 == 49 {
            damage(&compiled, bytes);
        }
    };
    difference(&program, &compiled, &loaded, 4, &packets, &each_fiftieth).is_some()
}

#[test]
fn a_missing_item_is_found() {
    let one_less = |_: &Compiled, bytes: &mut Vec<u8>| {
        // The oldest of three: the next one is the oldest now.
        let (count, oldest) = (bytes[37], bytes[39]);
        bytes[37] = count - 1;
        bytes[39] = (oldest + 1) % 3;
    };
    assert!(finds("missing", &one_less));
}

#[test]
fn a_swapped_pair_is_found() {
    let swapped = |compiled: &Compiled, bytes: &mut Vec<u8>| {
        let item = compiled.item.bytes;
        let (first, second) = bytes[HEADER_BYTES..HEADER_BYTES + 2 * item].split_at_mut(item);
        first.swap_with_slice(second);
    };
    assert!(finds("swapped", &swapped));
}

#[test]
fn a_replica_that_skips_its_own_step_is_found() {
    let program = example("port_knocking");
    let mut compiled = compiled(&program, Strategy::Scr);
    compiled.c = compiled.c.replace("replay_ingress(&p, s);", "");
    let Some(object) = object(&compiled, "skipped") else { return };
    let Some(loaded) = loaded(&compiled, &object, 4) else { return };
    let found = difference(&program, &compiled, &loaded, 4, &random_packets(11, 2000), &|_, _| ());
    assert!(found.is_some());
}
