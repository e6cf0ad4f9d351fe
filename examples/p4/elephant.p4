// Elephant flows: bytes of each flow are counted, and packets past a threshold are marked for the scavenger class.
// One stage: what is read is written there, so the table is a register.
#include "headers.p4"

const bit<32> THRESHOLD = 200;
const bit<8> SCAVENGER = 0x20;

struct metadata_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<32> bytes;
}

EXAMPLE_PARSER(metadata_t)

control Elephant(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    muTable flows {
        keys = {
            hdr.ipv4.src_addr;
            hdr.ipv4.dst_addr;
            hdr.ipv4.protocol;
            meta.src_port;
            meta.dst_port;
        }
        values = {
            bit<32> bytes;
        }
        consistency = WEAK;
        size = 65536;
    }

    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.ipv4.isValid()) {
            meta.src_port = hdr.tcp.isValid() ? hdr.tcp.src_port : hdr.udp.src_port;
            meta.dst_port = hdr.tcp.isValid() ? hdr.tcp.dst_port : hdr.udp.dst_port;
            meta.bytes = flows.read(hdr);
            meta.bytes = meta.bytes |+| (bit<32>) hdr.ipv4.total_len;
            flows.write(hdr, meta.bytes);
            if (meta.bytes > THRESHOLD) {
                hdr.ipv4.tos = SCAVENGER;
            }
        }
    }
}

V1Switch(ExampleParser(), ExampleVerify(), Elephant(), ExampleEgress(), ExampleCompute(), ExampleDeparser()) main;
