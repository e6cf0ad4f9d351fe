//! Strategies `sharded` and `shared`: one core's program, and any core's with one state, does what the interpreter does.

use paceline_xdp::Strategy;

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

/// The test above would find a compiler that leaves a transition out.
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
