// A sampler: of the packets to each host of a /24, every fourth leaves by port 2, where it is looked at; all others leave by port 1.
// Each step over its state is one addition, so cores that share it need no lock.
#include "headers.p4"

struct metadata_t {
    bit<32> number;
    bit<48> bytes;
}

EXAMPLE_PARSER(metadata_t)

control Sampler(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    // By the last byte of the destination: packets, and bytes.
    register<bit<32>>(256) packets;
    register<bit<48>>(256) bytes;
    // By the port by which packets come in.
    counter(8, CounterType.packets_and_bytes) ports;

    apply {
        standard_metadata.egress_spec = 1;
        ports.count((bit<32>) standard_metadata.ingress_port);
        if (hdr.ipv4.isValid()) {
            bytes.read(meta.bytes, (bit<32>) hdr.ipv4.dst_addr[7:0]);
            bytes.write((bit<32>) hdr.ipv4.dst_addr[7:0], meta.bytes + (bit<48>) hdr.ipv4.total_len);
            packets.read(meta.number, (bit<32>) hdr.ipv4.dst_addr[7:0]);
            meta.number = meta.number + 1;
            packets.write((bit<32>) hdr.ipv4.dst_addr[7:0], meta.number);
            if (meta.number[1:0] == 0) {
                standard_metadata.egress_spec = 2;
            }
        }
    }
}

V1Switch(ExampleParser(), ExampleVerify(), Sampler(), ExampleEgress(), ExampleCompute(), ExampleDeparser()) main;
