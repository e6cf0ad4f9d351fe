// A connection tracker (Table 1 of SCR): the state of each TCP connection, the same for both directions, and when it was seen
// last. Packets that no connection explains are dropped.
#include "../headers.p4"

typedef bit<8> state_t;

const state_t NONE = 0;
const state_t SYN_SEEN = 1;
const state_t SYN_ACK_SEEN = 2;
const state_t ESTABLISHED = 3;
const state_t CLOSING = 4;

struct entry_t {
    state_t state;
    bit<48> seen;
}

struct metadata_t {
    ipv4_t  low_addr;
    ipv4_t  high_addr;
    bit<16> low_port;
    bit<16> high_port;
    state_t state;
    state_t next;
}

EXAMPLE_PARSER(metadata_t)

control Tracker(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    muTable connections {
        keys = {
            meta.low_addr;
            meta.high_addr;
            meta.low_port;
            meta.high_port;
        }
        values = {
            state_t state;
            bit<48> seen;
        }
        consistency = STRICT;
        size = 16384;
    }

    action to_state(state_t next) {
        meta.next = next;
    }

    action unexplained() {
        meta.next = meta.state;
        mark_to_drop(standard_metadata);
    }

    table transitions {
        key = {
            meta.state: exact;
            hdr.tcp.flags: ternary;
        }
        actions = {
            to_state;
            unexplained;
        }
        const entries = {
            (SYN_SEEN, TCP_RST &&& TCP_RST): to_state(NONE);
            (SYN_ACK_SEEN, TCP_RST &&& TCP_RST): to_state(NONE);
            (ESTABLISHED, TCP_RST &&& TCP_RST): to_state(NONE);
            (CLOSING, TCP_RST &&& TCP_RST): to_state(NONE);
            (NONE, TCP_SYN &&& (TCP_SYN | TCP_ACK)): to_state(SYN_SEEN);
            (SYN_SEEN, TCP_SYN &&& (TCP_SYN | TCP_ACK)): to_state(SYN_SEEN);
            (SYN_SEEN, (TCP_SYN | TCP_ACK) &&& (TCP_SYN | TCP_ACK)): to_state(SYN_ACK_SEEN);
            (SYN_ACK_SEEN, TCP_ACK &&& (TCP_SYN | TCP_ACK)): to_state(ESTABLISHED);
            (ESTABLISHED, TCP_FIN &&& TCP_FIN): to_state(CLOSING);
            (ESTABLISHED, _): to_state(ESTABLISHED);
            (CLOSING, TCP_SYN &&& (TCP_SYN | TCP_ACK)): to_state(SYN_SEEN);
            (CLOSING, _): to_state(CLOSING);
        }
        const default_action = unexplained();
    }

    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.tcp.isValid()) {
            if (hdr.ipv4.src_addr < hdr.ipv4.dst_addr) {
                meta.low_addr = hdr.ipv4.src_addr;
                meta.high_addr = hdr.ipv4.dst_addr;
                meta.low_port = hdr.tcp.src_port;
                meta.high_port = hdr.tcp.dst_port;
            } else {
                meta.low_addr = hdr.ipv4.dst_addr;
                meta.high_addr = hdr.ipv4.src_addr;
                meta.low_port = hdr.tcp.dst_port;
                meta.high_port = hdr.tcp.src_port;
            }
            entry_t entry = connections.read(hdr);
            meta.state = entry.state;
            transitions.apply();
            // What opens no connection takes no entry.
            if (meta.state != NONE || meta.next != NONE) {
                entry.state = meta.next;
                entry.seen = standard_metadata.ingress_global_timestamp;
                connections.write(hdr, entry);
            }
        }
    }
}

V1Switch(ExampleParser(), ExampleVerify(), Tracker(), ExampleEgress(), ExampleCompute(), ExampleDeparser()) main;
