//! Strategy `sharded`: one core's program does what the interpreter does.

use paceline_xdp::Strategy;

use crate::common::{
    EXAMPLES, captured, compiled, difference, example, loaded, object, random_packets, root,
};

#[test]
fn examples_equal_the_interpreter_packet_by_packet() {
    let captures = [root().join("captures/edge.pcap"), root().join("../shared/captures/apps-mix.pcap.gz")];
    let captures: Vec<_> = captures.iter().filter_map(|path| captured(path, 5000)).collect();
    for name in EXAMPLES {
        let program = example(name);
        let compiled = compiled(&program, Strategy::Sharded);
        let Some(object) = object(&compiled, "sharded") else { return };
        for packets in [random_packets(7, 4000)].iter().chain(&captures) {
            let Some(loaded) = loaded(&compiled, &object, 1) else { return };
            assert_eq!(difference(&program, &compiled, &loaded, 1, packets, &|_, _| ()), None, "{name}");
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
