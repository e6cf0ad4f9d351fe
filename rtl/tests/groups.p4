// For tests of rtl/rapid: a function that spans three stages behind one without. A table gives a packet's group, group and source
// have a state, and two tables, one behind the other, say what becomes of it. Almost every packet changes its state.
#include "../../examples/p4/headers.p4"

struct metadata_t {
    bit<8>  group;
    bit<8>  count;
    bit<16> seen;
    bit<8>  next;
    bit<8>  again;
}

struct state_t {
    bit<8>  count;
    bit<16> seen;
}

EXAMPLE_PARSER(metadata_t)

control Groups(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    muTable states {
        keys = {
            hdr.ipv4.src_addr;
            meta.group;
        }
        values = {
            bit<8>  count;
            bit<16> seen;
        }
        type = exact;
        consistency = STRICT;
        size = 64;
    }

    action set_group(bit<8> group) {
        meta.group = group;
    }

    action set_next(bit<8> next) {
        meta.next = next;
    }

    action set_again(bit<8> again) {
        meta.again = again;
    }

    table group_of {
        key = {
            hdr.ipv4.protocol: exact;
        }
        actions = {
            set_group;
        }
        const entries = {
            6: set_group(1);
            17: set_group(2);
        }
        const default_action = set_group(0);
    }

    table next_of {
        key = {
            meta.count: range;
            hdr.ipv4.ttl: ternary;
        }
        actions = {
            set_next;
        }
        const entries = {
            (0..3, _): set_next(4);
            (4..9, 64): set_next(12);
            (4..9, _): set_next(10);
            (10..255, 128 &&& 192): set_next(7);
        }
        const default_action = set_next(3);
    }

    table again_of {
        key = {
            meta.next: exact;
        }
        actions = {
            set_again;
        }
        const entries = {
            4: set_again(5);
            12: set_again(10);
            10: set_again(1);
            7: set_again(0);
        }
        const default_action = set_again(11);
    }

    apply {
        if (hdr.ipv4.isValid()) {
            group_of.apply();
            state_t state = states.read(hdr);
            meta.count = state.count;
            meta.seen = state.seen;
            next_of.apply();
            again_of.apply();
            standard_metadata.egress_spec = (bit<9>) meta.again;
            if (meta.seen[2:0] != 5) {
                states.write(hdr, meta.again, meta.seen + hdr.ipv4.total_len);
            }
        }
    }
}

V1Switch(ExampleParser(), ExampleVerify(), Groups(), ExampleEgress(), ExampleCompute(), ExampleDeparser()) main;
