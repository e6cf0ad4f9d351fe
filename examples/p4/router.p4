// A router whose tables the control plane fills: the longest prefix of a destination says where a packet goes next, a host that is
// listed is marked or denied, and each source's packets are counted. No packet changes a table.
#include "headers.p4"

struct metadata_t {
    bit<32> packets;
}

EXAMPLE_PARSER(metadata_t)

control RouterIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(256) counts;

    action drop() {
        mark_to_drop(standard);
    }

    action mark(bit<8> tos) {
        hdr.ipv4.tos = tos;
    }

    action next_hop(bit<9> port, mac_t station) {
        standard.egress_spec = port;
        hdr.ethernet.dst_addr = station;
    }

    table hosts {
        key = {
            hdr.ipv4.src_addr: exact;
        }
        actions = {
            mark;
            drop;
            NoAction;
        }
        size = 1024;
        default_action = NoAction();
    }

    table routes {
        key = {
            hdr.ipv4.dst_addr: lpm;
        }
        actions = {
            next_hop;
            drop;
        }
        size = 1024;
        default_action = drop();
    }

    apply {
        if (!hdr.ipv4.isValid() || hdr.ipv4.ttl <= 1) {
            drop();
            exit;
        }
        counts.read(meta.packets, (bit<32>) hdr.ipv4.src_addr[7:0]);
        counts.write((bit<32>) hdr.ipv4.src_addr[7:0], meta.packets + 1);
        routes.apply();
        if (standard.egress_spec != 511) {
            hosts.apply();
        }
    }
}

// Behind the ingress, so that no state depends on what a route does to a packet.
control RouterEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
}

V1Switch(ExampleParser(), ExampleVerify(), RouterIngress(), RouterEgress(), ExampleCompute(), ExampleDeparser()) main;
