//! Strategies `sharded` and `shared`: one core's program, and any core's with one state, does what the interpreter does.

use paceline_xdp::Strategy;
use paceline_xdp::trial;

use crate::additions::program;
use crate::common::{
    EXAMPLES, SHARDED, captured, compiled, difference, example, loaded, object, random_packets, root,
};

#[test]
fn examples_equal_the_interpreter_packet_by_packet() {
    let captures = [root().join("captures/edge.pcap"), root().join("../shared/captures/apps-mix.pcap.gz")];
    let captures: Vec<_> = captures.iter().filter_map(|path| captured(path, 5000)).collect();
    let sharded = SHARDED.map(|name| (name, Strategy::Sharded, 1));
    for (name, strategy, cores) in sharded.into_iter().chain(EXAMPLES.map(|name| (name, Strategy::Shared, 3)))
    {
        let program = example(name);
        let compiled = compiled(&program, strategy);
        let Some(object) = object(&compiled, "sharded") else { return };
        for packets in [random_packets(7, 4000)].iter().chain(&captures) {
            let Some(loaded) = loaded(&compiled, &object, cores.into()) else { return };
            let found = difference(&program, &compiled, &loaded, cores, packets, &|_, _| ());
            assert_eq!(found, None, "{name}, {strategy}");
        }
    }
}

/// Each way through the program has a temporary of its own for the index, and none of them is computed on the other way.
#[test]
fn state_that_two_ways_use_is_on_one_shard() {
    let step = |by: u32| {
        let index = "(bit<32>) hdr.ipv4.src_addr[7:0]";
        format!("r.read(meta.m, {index}); r.write({index}, meta.m ^ {by}); hdr.ipv4.tos = (bit<8>) meta.m;")
    };
    let apply = format!("if (hdr.ipv4.tos[0:0] == 1) {{ {} }} else {{ {} }}", step(5), step(9));
    let program = program(32, &apply);
    let compiled = compiled(&program, Strategy::Sharded);
    let Some(object) = object(&compiled, "two-ways") else { return };
    // Where there are no rights, the reason is printed.
    if crate::common::loaded(&compiled, &object, 1).is_none() {
        return;
    }
    let loaded = trial::load(&compiled, &object, 4, false).expect("it is loaded");
    let found = difference(&program, &compiled, &loaded, 4, &random_packets(7, 500), &|_, _| ());
    assert_eq!(found, None);
}

/// Random programs found that clang was asked to refuse this.
#[test]
fn a_field_may_be_compared_with_itself() {
    let program = program(
        32,
        "if (hdr.ipv4.ttl < hdr.ipv4.ttl) { hdr.ipv4.ttl = 1; } meta.m = meta.m; hdr.ipv4.tos = hdr.ipv4.tos;",
    );
    object(&compiled(&program, Strategy::Sharded), "itself");
}

/// The test of the examples would find a compiler that leaves a transition out.
#[test]
fn a_transition_left_out_is_found() {
    let program = example("port_knocking");
    let mut compiled = compiled(&program, Strategy::Sharded);
    let line = "p->meta_cur_state == 1ull && p->hdr_tcp_dst_port == 0x1b5aull";
    assert!(compiled.c.contains(line), "{}", compiled.c);
    compiled.c = compiled.c.replace(line, "0");
    let Some(object) = object(&compiled, "planted") else { return };
    let Some(loaded) = loaded(&compiled, &object, 1) else { return };
    let found = difference(&program, &compiled, &loaded, 1, &random_packets(7, 4000), &|_, _| ());
    assert!(found.is_some());
}
