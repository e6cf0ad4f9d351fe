// A firewall that tracks connections: those that the inside (port 0) begins may be answered from the outside (port
// 1). The first stage finds which side a packet is from, the second reads the connection's state, the third finds
// the next one in a table and writes it back.
#include "headers.p4"

enum bit<2> Connection {
    NONE = 0,
    OPENING = 1,
    ESTABLISHED = 2,
    CLOSING = 3
}

struct metadata_t {
    bit<1>     outside;
    ipv4_t     in_addr;
    ipv4_t     out_addr;
    bit<16>    in_port;
    bit<16>    out_port;
    Connection state;
    Connection next;
}

EXAMPLE_PARSER(metadata_t)

control Firewall(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    muTable connections {
        keys = {
            meta.in_addr;
            meta.out_addr;
            meta.in_port;
            meta.out_port;
        }
        values = {
            Connection state;
        }
        type = exact;
        consistency = STRICT;
        size = 16384;
    }

    action from_inside(bit<9> to) {
        meta.outside = 0;
        standard_metadata.egress_spec = to;
    }

    action from_outside(bit<9> to) {
        meta.outside = 1;
        standard_metadata.egress_spec = to;
    }

    table sides {
        key = {
            standard_metadata.ingress_port: exact;
        }
        actions = {
            from_inside;
            from_outside;
        }
        const entries = {
            0: from_inside(1);
            1: from_outside(0);
        }
        const default_action = from_outside(0);
    }

    action drop() {
        meta.next = meta.state;
        mark_to_drop(standard_metadata);
    }

    action to_state(Connection next) {
        meta.next = next;
    }

    table transitions {
        key = {
            meta.state: exact;
            meta.outside: ternary;
            hdr.tcp.flags: ternary;
        }
        actions = {
            to_state;
            drop;
        }
        const entries = {
            // A reset from a side that is known to the connection ends it.
            (Connection.OPENING, _, TCP_RST &&& TCP_RST): to_state(Connection.NONE);
            (Connection.ESTABLISHED, _, TCP_RST &&& TCP_RST): to_state(Connection.NONE);
            (Connection.CLOSING, _, TCP_RST &&& TCP_RST): to_state(Connection.NONE);
            // Only the inside opens.
            (Connection.NONE, 0, TCP_SYN &&& (TCP_SYN | TCP_ACK)): to_state(Connection.OPENING);
            (Connection.CLOSING, 0, TCP_SYN &&& (TCP_SYN | TCP_ACK)): to_state(Connection.OPENING);
            (Connection.OPENING, 1, (TCP_SYN | TCP_ACK) &&& (TCP_SYN | TCP_ACK)): to_state(Connection.ESTABLISHED);
            (Connection.OPENING, 0, _): to_state(Connection.OPENING);
            (Connection.ESTABLISHED, _, TCP_FIN &&& TCP_FIN): to_state(Connection.CLOSING);
            (Connection.ESTABLISHED, _, _): to_state(Connection.ESTABLISHED);
            (Connection.CLOSING, _, _): to_state(Connection.CLOSING);
        }
        const default_action = drop();
    }

    apply {
        if (!hdr.tcp.isValid()) {
            mark_to_drop(standard_metadata);
            exit;
        }
        sides.apply();
        if (meta.outside == 0) {
            meta.in_addr = hdr.ipv4.src_addr;
            meta.out_addr = hdr.ipv4.dst_addr;
            meta.in_port = hdr.tcp.src_port;
            meta.out_port = hdr.tcp.dst_port;
        } else {
            meta.in_addr = hdr.ipv4.dst_addr;
            meta.out_addr = hdr.ipv4.src_addr;
            meta.in_port = hdr.tcp.dst_port;
            meta.out_port = hdr.tcp.src_port;
        }
        meta.state = connections.read(hdr);
        transitions.apply();
        if (meta.next != meta.state) {
            connections.write(hdr, meta.next);
        }
    }
}

V1Switch(ExampleParser(), ExampleVerify(), Firewall(), ExampleEgress(), ExampleCompute(), ExampleDeparser()) main;
