// A switch that learns where stations are: the port of a source address is written to the table that destination
// addresses are looked up in. What is not known goes to all ports of group 1, but not back.
//
// One stage reads the table under both addresses and writes it under the source: its memory has two ports for reads.
#include "headers.p4"

struct metadata_t {
    mac_t  station;
    bit<9> learned;
    bit<9> port;
}

EXAMPLE_PARSER(metadata_t)

control MacLearning(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    // A station's port, plus one: 0 is not known.
    muTable stations {
        keys = {
            meta.station;
        }
        values = {
            bit<9> port;
        }
        type = exact;
        consistency = STRICT;
        size = 1024;
    }

    action flood() {
        standard_metadata.mcast_grp = 1;
    }

    action forward() {
        standard_metadata.egress_spec = meta.port - 1;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table decide {
        key = {
            meta.port: ternary;
            hdr.ethernet.dst_addr: ternary;
        }
        actions = {
            flood;
            forward;
            drop;
        }
        const entries = {
            (_, 0x010000000000 &&& 0x010000000000): flood();
            (0, _): flood();
        }
        const default_action = forward();
    }

    apply {
        meta.station = hdr.ethernet.src_addr;
        meta.learned = stations.read(hdr);
        meta.station = hdr.ethernet.dst_addr;
        meta.port = stations.read(hdr);
        decide.apply();
        bit<9> port = standard_metadata.ingress_port + 1;
        if (meta.learned != port) {
            meta.station = hdr.ethernet.src_addr;
            stations.write(hdr, port);
        }
    }
}

control MacEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
        }
    }
}

V1Switch(ExampleParser(), ExampleVerify(), MacLearning(), MacEgress(), ExampleCompute(), ExampleDeparser()) main;
