//! Each operation and each kind of object, compiled, gives what the reference gives.

use paceline_pipeline::{Consistency, Model};
use proptest::prelude::*;

use crate::support::*;

const PROGRAM: &str = "#include <v1model.p4>
header h_t {
    bit<128> wide; bit<64> word; bit<32> key; bit<16> port; int<8> small; bit<7> odd; bit<1> flag;
    bit<32> out_a; bit<32> out_b; bit<8> out_c; bit<8> out_d;
}
header tail_t { bit<16> left; }
struct headers { h_t h; tail_t tail; }
struct numbered_t { bit<128> wide; bit<8> times; }
struct metadata { bit<128> sum; bit<32> seen; bit<8> colour; bit<16> drawn; }
parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.flag) { 1: more; default: accept; }
    }
    state more { packet.extract(hdr.tail); transition accept; }
}
control Nothing(inout headers hdr, inout metadata meta) { apply { } }
control Egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply { if (standard.egress_port == 3) { hdr.h.odd = 5; } }
}
control Ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    register<bit<32>>(8) sums;
    register<bit<16>>(4) marks;
    counter(8, CounterType.packets_and_bytes) counts;
    meter(4, MeterType.packets) rates;
    muTable by_prefix {
        keys = { hdr.h.key; } values = { bit<32> hits; } type = lpm; size = 64;
    }
    muTable numbered {
        keys = { hdr.h.odd; } values = { bit<128> wide; bit<8> times; } type = direct; size = 100;
    }
    action keep(bit<8> value) { hdr.h.out_c = value; counts.count((bit<32>) hdr.h.port[2:0]); }
    action leave() { if (hdr.h.flag == 0) { return; } hdr.h.out_d = 9; }
    action gone() { mark_to_drop(standard); exit; }
    table ports {
        key = { hdr.h.port: range; hdr.h.odd: ternary; }
        actions = { keep; leave; gone; NoAction; }
        const entries = {
            (0..1000, 1 &&& 1): keep(7);
            (500..2000, _): leave();
            (60000..60100, _): gone();
        }
        const default_action = NoAction();
    }
    apply {
        standard.egress_spec = 1;
        meta.sum = hdr.h.wide + ((bit<128>) hdr.h.word << 40);
        hdr.h.wide = meta.sum;
        hdr.h.wide[70:60] = hdr.h.port[10:0];
        hdr.h.small = hdr.h.small |+| 100;
        hdr.h.word = hdr.h.flag == 1 ? hdr.h.word >> 3 : ~hdr.h.word;
        bit<32> place;
        hash(place, HashAlgorithm.crc16, 32w0, { hdr.h.key, hdr.h.odd, hdr.h.flag }, 32w8);
        bit<32> sum;
        sums.read(sum, place);
        sum = sum + (bit<32>) hdr.h.port;
        sums.write(place, sum);
        hdr.h.out_a = sum;
        meta.seen = by_prefix.read(hdr);
        by_prefix.write(hdr, meta.seen + 1);
        hdr.h.out_b = meta.seen;
        numbered_t entry = numbered.read(hdr);
        hdr.h.wide = hdr.h.wide ^ entry.wide;
        hdr.h.out_d = entry.times;
        numbered.write(hdr, entry.wide + meta.sum, entry.times |+| 1);
        rates.execute_meter((bit<32>) hdr.h.port[2:0], meta.colour);
        random(meta.drawn, 16w3, 16w900);
        bit<16> mark = meta.drawn ^ (bit<16>) meta.colour;
        if (hdr.tail.isValid()) {
            marks.write((bit<32>) hdr.h.port[2:0], mark);
            hdr.tail.left = mark;
            if (hdr.h.odd == 1) { hdr.tail.setInvalid(); }
        }
        switch (ports.apply().action_run) {
            keep: { standard.egress_spec = 2; }
            leave: { standard.egress_spec = 3; }
            default: { standard.mcast_grp = 1; }
        }
    }
}
control Deparser(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), Nothing(), Ingress(), Egress(), Nothing(), Deparser()) main;
";

const ENTRIES: &str = "add by_prefix hdr.h.key:10.0.0.0/8 = 100
add by_prefix hdr.h.key:10.1.0.0/16 = 200
add by_prefix hdr.h.key:10.1.2.3 = 300
meter rates 0 1000 2 2000 3
meter rates 2 1 1 1 1
multicast 1 4 3 5
";

fn frame() -> impl Strategy<Value = Frame> {
    let key =
        prop_oneof![Just(0x0a01_0203_u32), Just(0x0a01_0204), Just(0x0a02_0000), 0_u32..4, any::<u32>()];
    let port = prop_oneof![0_u16..8, 400_u16..2100, 59_990_u16..60_110, any::<u16>()];
    let fields = (any::<u128>(), any::<u64>(), key, port, any::<u8>(), any::<u8>());
    (fields, 0_usize..70, 0_u16..4).prop_map(|((wide, word, key, port, small, odd), length, from)| {
        let mut bytes = wide.to_be_bytes().to_vec();
        bytes.extend(word.to_be_bytes());
        bytes.extend(key.to_be_bytes());
        bytes.extend(port.to_be_bytes());
        bytes.extend([small, odd % 8]);
        bytes.resize(bytes.len() + 10, 0);
        bytes.extend([0xab; 16]);
        // Some are cut short in the header.
        bytes.truncate(if length < 4 { length * 8 } else { bytes.len() });
        Frame { port: from, bytes, time_ns: 0 }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn all_operations_agree(frames in prop::collection::vec(frame(), 1..80)) {
        let times = (0..).map(|number: u64| number * 700);
        let frames: Vec<Frame> =
            frames.into_iter().zip(times).map(|(frame, time_ns)| Frame { time_ns, ..frame }).collect();
        let subject = Subject::new(lowered_text("operations.p4", PROGRAM), ENTRIES).expect("a program");
        for model in [Model::named("banzai").expect("a model"), rapid(Consistency::Strict)] {
            let (_, found) = run(&subject, &model, &every_cycle(), &frames);
            prop_assert!(found.is_equal(), "{found:?}");
        }
    }
}
