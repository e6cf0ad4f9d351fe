// Port knocking (RAPID, Fig. 25): a source that knocks at ports 7001, 7002 and 7003 of a host, in this order, may
// then reach it at port 22. Two stages: the first reads the state of the pair of addresses, the second finds the
// next one by a table and writes it back to the first.
#include "headers.p4"

typedef bit<8> knock_t;

const knock_t CLOSED = 0;
const knock_t OPEN = 3;

struct metadata_t {
    knock_t cur_state;
    knock_t new_state;
}

EXAMPLE_PARSER(metadata_t)

control PortKnocking(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    muTable port_knocking {
        keys = {
            hdr.ipv4.src_addr;
            hdr.ipv4.dst_addr;
        }
        values = {
            knock_t state;
        }
        type = exact;
        consistency = STRICT;
        size = 4096;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    // A wrong port goes back to the beginning.
    action next(knock_t state) {
        meta.new_state = state;
        mark_to_drop(standard_metadata);
    }

    // Traffic of a source that has knocked passes, and its state stays.
    action pass() {
        meta.new_state = OPEN;
        standard_metadata.egress_spec = 1;
    }

    table port_fsm {
        key = {
            meta.cur_state: ternary;
            hdr.tcp.dst_port: ternary;
        }
        actions = {
            next;
            pass;
        }
        const entries = {
            (OPEN, 22): pass();
            (OPEN, _): next(OPEN);
            (0, 7001): next(1);
            (1, 7002): next(2);
            (2, 7003): next(OPEN);
        }
        const default_action = next(CLOSED);
    }

    // What is not TCP is not the firewall's business.
    table other {
        key = {
            standard_metadata.ingress_port: exact;
        }
        actions = {
            forward;
            drop;
        }
        default_action = forward(1);
        size = 16;
    }

    apply {
        if (hdr.tcp.isValid()) {
            meta.cur_state = port_knocking.read(hdr);
            port_fsm.apply();
            if (meta.new_state != meta.cur_state) {
                port_knocking.write(hdr, meta.new_state);
            }
        } else {
            other.apply();
        }
    }
}

V1Switch(ExampleParser(), ExampleVerify(), PortKnocking(), ExampleEgress(), ExampleCompute(),
         ExampleDeparser()) main;
