// A monitor of heavy hitters (Table 1 of SCR): bytes and packets of each flow. Packets of a flow past a threshold leave by
// port 2, where they are looked at; all others by port 1.
#include "../headers.p4"

const bit<32> THRESHOLD = 200;

struct flow_t {
    bit<32> bytes;
    bit<32> packets;
}

struct metadata_t {
    bit<16> src_port;
    bit<16> dst_port;
}

EXAMPLE_PARSER(metadata_t)

control HeavyHitter(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
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
            bit<32> packets;
        }
        consistency = STRICT;
        size = 65536;
    }

    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.ipv4.isValid()) {
            meta.src_port = hdr.tcp.isValid() ? hdr.tcp.src_port : hdr.udp.src_port;
            meta.dst_port = hdr.tcp.isValid() ? hdr.tcp.dst_port : hdr.udp.dst_port;
            flow_t flow = flows.read(hdr);
            flow.bytes = flow.bytes |+| (bit<32>) hdr.ipv4.total_len;
            flow.packets = flow.packets |+| 1;
            flows.write(hdr, flow);
            if (flow.bytes > THRESHOLD) {
                standard_metadata.egress_spec = 2;
            }
        }
    }
}

V1Switch(ExampleParser(), ExampleVerify(), HeavyHitter(), ExampleEgress(), ExampleCompute(), ExampleDeparser()) main;
