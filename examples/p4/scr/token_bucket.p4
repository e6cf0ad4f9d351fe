// The token bucket policer of SCR's Table 1: a bucket for each flow, which holds up to 4 packets and gains one every 1,024
// microseconds.
#include "../headers.p4"

// Tokens are counted in 1,024ths, so that a microsecond is one.
const bit<32> COST = 1024;
const bit<32> CAPACITY = 4 * COST;

struct metadata_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<32> tokens;
    bit<48> passed;
}

struct bucket_t {
    bit<1>  used;
    bit<32> tokens;
    bit<48> seen;
}

EXAMPLE_PARSER(metadata_t)

control TokenBucket(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    muTable buckets {
        keys = {
            hdr.ipv4.src_addr;
            hdr.ipv4.dst_addr;
            hdr.ipv4.protocol;
            meta.src_port;
            meta.dst_port;
        }
        values = {
            bit<1>  used;
            bit<32> tokens;
            bit<48> seen;
        }
        consistency = STRICT;
        size = 65536;
    }

    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.ipv4.isValid()) {
            meta.src_port = hdr.tcp.isValid() ? hdr.tcp.src_port : hdr.udp.src_port;
            meta.dst_port = hdr.tcp.isValid() ? hdr.tcp.dst_port : hdr.udp.dst_port;
            bucket_t bucket = buckets.read(hdr);
            meta.passed = standard_metadata.ingress_global_timestamp - bucket.seen;
            if (bucket.used == 0 || meta.passed > (bit<48>) CAPACITY) {
                meta.tokens = CAPACITY;
            } else {
                meta.tokens = bucket.tokens + meta.passed[31:0];
            }
            if (meta.tokens > CAPACITY) {
                meta.tokens = CAPACITY;
            }
            if (meta.tokens < COST) {
                mark_to_drop(standard_metadata);
            } else {
                meta.tokens = meta.tokens - COST;
            }
            buckets.write(hdr, 1, meta.tokens, standard_metadata.ingress_global_timestamp);
        }
    }
}

V1Switch(ExampleParser(), ExampleVerify(), TokenBucket(), ExampleEgress(), ExampleCompute(), ExampleDeparser()) main;
