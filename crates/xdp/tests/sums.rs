//! What is summed and hashed in whole words is what it would be field by field.

use paceline_xdp::trial::Packet;
use paceline_xdp::{Strategy, traffic};

use crate::additions::program;
use crate::common::{compiled, difference, example, loaded, lowered, object, random_packets};

/// The words around a field that the program writes are summed where they lie, and that one where it is kept.
#[test]
fn checksums_over_edited_headers_equal_the_interpreters() {
    let program = program(32, "hdr.ipv4.ttl = hdr.ipv4.ttl - 1;");
    let compiled = compiled(&program, Strategy::Scr);
    let sum = "turned(p->hdr_ipv4_sum_0_8 + p->hdr_ipv4_sum_12_8)";
    assert!(
        compiled.c.contains(&format!("u64 sum = (p->hdr_ipv4_ttl << 8 | p->hdr_ipv4_protocol) + {sum};"))
    );
    let Some(object) = object(&compiled, "edited") else { return };
    let Some(loaded) = loaded(&compiled, &object, 3) else { return };
    let mut packets = random_packets(5, 2000);
    // Words of zeros and of ones alone, and sums that carry more than once.
    let words = [0_u8, 0xff].into_iter().flat_map(|low| [0_u8, 0xff].map(|high| [high, low]));
    let time_ns = packets.last().expect("one").time_ns;
    for ([address, rest], source) in words.zip(traffic::flows(4)) {
        let mut bytes = source;
        bytes[26..30].fill(address);
        bytes[30..34].fill(rest);
        bytes[16..20].fill(address);
        packets.push(Packet { time_ns, port: 0, bytes });
    }
    assert_eq!(difference(&program, &compiled, &loaded, 3, &packets, &|_, _| ()), None);
}

#[test]
fn a_sum_over_other_words_is_found() {
    let program = example("scr/port_knocking");
    let mut compiled = compiled(&program, Strategy::Scr);
    let sum = "(~sum & 0xffff)";
    assert!(
        compiled.c.contains("turned(p->hdr_ipv4_sum_0_10 + p->hdr_ipv4_sum_12_8)")
            && compiled.c.contains(sum)
    );
    let word = "raw32(at + 16)";
    assert!(compiled.c.contains(word), "{}", compiled.c);
    compiled.c = compiled.c.replace(word, "raw32(at + 12)");
    let Some(object) = object(&compiled, "other-words") else { return };
    let Some(loaded) = loaded(&compiled, &object, 1) else { return };
    let knocks = traffic::flows(3)
        .into_iter()
        .cycle()
        .zip([7001_u16, 7002, 7003, 80].iter().flat_map(|port| [port; 3]));
    let packets: Vec<_> = knocks
        .map(|(mut bytes, port)| {
            bytes[36..38].copy_from_slice(&port.to_be_bytes());
            Packet { time_ns: 1, port: 0, bytes }
        })
        .collect();
    assert!(difference(&program, &compiled, &loaded, 1, &packets, &|_, _| ()).is_some());
}

/// A stranger chooses addresses whose highest bits alone differ: they come to slots of their own.
#[test]
fn keys_that_differ_in_their_highest_bits_are_spread() {
    let text = "#include \"headers.p4\"
struct metadata_t { bit<8> m; }
EXAMPLE_PARSER(metadata_t)
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    muTable t { keys = { hdr.ipv4.src_addr; hdr.ipv4.dst_addr; } values = { bit<8> v; } size = 65536; }
    apply {
        if (hdr.ipv4.isValid()) { meta.m = t.read(hdr); t.write(hdr, meta.m + 1); }
    }
}
V1Switch(ExampleParser(), ExampleVerify(), I(), ExampleEgress(), ExampleCompute(), ExampleDeparser()) main;
";
    let program = lowered("spread.p4", text);
    let compiled = compiled(&program, Strategy::Sharded);
    let Some(object) = object(&compiled, "spread") else { return };
    let Some(loaded) = loaded(&compiled, &object, 1) else { return };
    let packets: Vec<_> = (0..4096_u32)
        .map(|source| {
            let mut bytes = traffic::flows(1).remove(0);
            bytes[26..30].copy_from_slice(&(source << 20 | 1).to_be_bytes());
            Packet { time_ns: u64::from(source), port: 0, bytes }
        })
        .collect();
    assert_eq!(difference(&program, &compiled, &loaded, 1, &packets, &|_, _| ()), None);
    let table = loaded.mu_table(0, 0).expect("it is read");
    assert_eq!((table.entries.len(), table.refused, table.crowded), (4096, 0, 0));
}
