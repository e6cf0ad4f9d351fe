// For tests of rtl/rapid: three functions on one ring, with keys and states of other widths. Each reads its state, asks a table what
// becomes of it, or two, and writes it; a key has the one before it, so that all functions see a flow's packets in one order.
#include "../../examples/p4/headers.p4"

struct metadata_t {
    bit<8>  group;
    bit<16> seen;
    bit<8>  next;
    bit<8>  later;
    bit<24> sum;
    bit<8>  step;
    bit<4>  turn;
    bit<4>  after;
}

struct first_t {
    bit<8>  group;
    bit<16> seen;
}

EXAMPLE_PARSER(metadata_t)

control Functions(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    muTable sources {
        keys = {
            hdr.ipv4.src_addr;
        }
        values = {
            bit<8>  group;
            bit<16> seen;
        }
        type = exact;
        consistency = STRICT;
        size = 64;
    }

    muTable ports {
        keys = {
            hdr.ipv4.src_addr;
            hdr.tcp.dst_port;
        }
        values = {
            bit<24> sum;
        }
        type = exact;
        consistency = STRICT;
        size = 32;
    }

    muTable turns {
        keys = {
            hdr.ipv4.src_addr;
            hdr.tcp.dst_port;
            hdr.ipv4.protocol;
        }
        values = {
            bit<4> turn;
        }
        type = exact;
        consistency = STRICT;
        size = 64;
    }

    action set_next(bit<8> next) {
        meta.next = next;
    }

    action set_later(bit<8> later) {
        meta.later = later;
    }

    action set_step(bit<8> step) {
        meta.step = step;
    }

    action set_after(bit<4> after) {
        meta.after = after;
    }

    table next_of {
        key = {
            meta.group: ternary;
        }
        actions = {
            set_next;
        }
        const entries = {
            0: set_next(3);
            1 &&& 1: set_next(6);
            2 &&& 2: set_next(9);
        }
        const default_action = set_next(0);
    }

    table later_of {
        key = {
            meta.next: exact;
        }
        actions = {
            set_later;
        }
        const entries = {
            3: set_later(1);
            6: set_later(2);
            9: set_later(5);
        }
        const default_action = set_later(4);
    }

    table step_of {
        key = {
            meta.next: exact;
            meta.sum: ternary;
        }
        actions = {
            set_step;
        }
        const entries = {
            (3, _): set_step(1);
            (6, 1 &&& 1): set_step(2);
            (9, 2 &&& 2): set_step(4);
        }
        const default_action = set_step(7);
    }

    table after_of {
        key = {
            meta.turn: range;
            meta.step: ternary;
        }
        actions = {
            set_after;
        }
        const entries = {
            (0..4, 1 &&& 1): set_after(5);
            (0..4, _): set_after(9);
            (5..8, _): set_after(2);
        }
        const default_action = set_after(1);
    }

    apply {
        if (hdr.tcp.isValid()) {
            first_t first = sources.read(hdr);
            meta.group = first.group;
            meta.seen = first.seen;
            next_of.apply();
            later_of.apply();
            if (meta.seen[1:0] != 3) {
                sources.write(hdr, meta.later, meta.seen + hdr.tcp.dst_port);
            } else {
                sources.write(hdr, meta.group, meta.seen & 0xfff0);
            }
            meta.sum = ports.read(hdr);
            step_of.apply();
            if (meta.step != 2) {
                ports.write(hdr, meta.sum + (bit<24>) meta.step);
            }
            meta.turn = turns.read(hdr);
            after_of.apply();
            turns.write(hdr, meta.after);
            standard_metadata.egress_spec = (bit<9>) meta.after;
        }
    }
}

V1Switch(ExampleParser(), ExampleVerify(), Functions(), ExampleEgress(), ExampleCompute(), ExampleDeparser()) main;
