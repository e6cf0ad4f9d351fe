// The port-knocking firewall of SCR's Appendix C and Table 1: a source that knocks at ports 7001, 7002 and 7003, in this
// order, may then reach everything. A wrong port begins anew; what is not TCP is dropped.
#include "../headers.p4"

typedef bit<8> knock_t;

// What a source is that nobody has heard of.
const knock_t CLOSED_1 = 0;
const knock_t CLOSED_2 = 1;
const knock_t CLOSED_3 = 2;
const knock_t OPEN = 3;

const bit<16> PORT_1 = 7001;
const bit<16> PORT_2 = 7002;
const bit<16> PORT_3 = 7003;

struct metadata_t {
    knock_t state;
}

EXAMPLE_PARSER(metadata_t)

control PortKnocking(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    muTable states {
        keys = {
            hdr.ipv4.src_addr;
        }
        values = {
            knock_t state;
        }
        consistency = STRICT;
        size = 65536;
    }

    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.tcp.isValid()) {
            meta.state = states.read(hdr);
            if (meta.state == CLOSED_1 && hdr.tcp.dst_port == PORT_1) {
                meta.state = CLOSED_2;
            } else if (meta.state == CLOSED_2 && hdr.tcp.dst_port == PORT_2) {
                meta.state = CLOSED_3;
            } else if (meta.state == CLOSED_3 && hdr.tcp.dst_port == PORT_3) {
                meta.state = OPEN;
            } else if (meta.state != OPEN) {
                meta.state = CLOSED_1;
            }
            states.write(hdr, meta.state);
            if (meta.state != OPEN) {
                mark_to_drop(standard_metadata);
            }
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

V1Switch(ExampleParser(), ExampleVerify(), PortKnocking(), ExampleEgress(), ExampleCompute(), ExampleDeparser()) main;
