// SYN cookies (RAPID §6.4). The first stage has a Bloom filter of flows that have sent a SYN, the second the list of
// flows that are admitted or denied. The third answers a new flow with a cookie, denies one that repeats its SYN without
// an answer to the cookie, and admits one that answers; it writes the list in the second.
//
// The filter is asked for every packet, whatever the list says of its flow: a packet that has read a stale list, and
// is done over, must not have told the filter what it would not have told it else.
#include "headers.p4"

const bit<2> UNKNOWN = 0;
const bit<2> ADMITTED = 1;
const bit<2> DENIED = 2;

const bit<32> SEED = 0x5eed5eed;

#define FLOW { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.tcp.src_port, hdr.tcp.dst_port }

struct metadata_t {
    bit<2>  verdict;
    bit<1>  first;
    bit<1>  second;
    bit<32> cookie;
    bool    answers;
}

EXAMPLE_PARSER(metadata_t)

control SynCookie(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    muTable acl {
        keys = {
            hdr.ipv4.src_addr;
            hdr.ipv4.dst_addr;
            hdr.tcp.src_port;
            hdr.tcp.dst_port;
        }
        values = {
            bit<2> verdict;
        }
        type = exact;
        consistency = BS(8);
        size = 65536;
    }

    register<bit<1>>(65536) bloom_a;
    register<bit<1>>(65536) bloom_b;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action deny() {
        mark_to_drop(standard_metadata);
        acl.write(hdr, DENIED);
    }

    action admit() {
        standard_metadata.egress_spec = 1;
        acl.write(hdr, ADMITTED);
    }

    // The SYN goes back where it came from as a SYN/ACK whose number is the cookie.
    action answer() {
        mac_t mac = hdr.ethernet.src_addr;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = mac;
        ipv4_t address = hdr.ipv4.src_addr;
        hdr.ipv4.src_addr = hdr.ipv4.dst_addr;
        hdr.ipv4.dst_addr = address;
        bit<16> port = hdr.tcp.src_port;
        hdr.tcp.src_port = hdr.tcp.dst_port;
        hdr.tcp.dst_port = port;
        hdr.tcp.ack = hdr.tcp.seq + 1;
        hdr.tcp.seq = meta.cookie;
        hdr.tcp.flags = TCP_SYN | TCP_ACK;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    table decide {
        key = {
            hdr.tcp.flags: ternary;
            meta.first: exact;
            meta.second: exact;
            meta.answers: exact;
        }
        actions = {
            answer;
            admit;
            deny;
            drop;
        }
        const entries = {
            (TCP_SYN &&& (TCP_SYN | TCP_ACK), 1, 1, false): deny();
            (TCP_SYN &&& (TCP_SYN | TCP_ACK), 1, 1, true): deny();
            (TCP_SYN &&& (TCP_SYN | TCP_ACK), 0, 0, false): answer();
            (TCP_SYN &&& (TCP_SYN | TCP_ACK), 0, 1, false): answer();
            (TCP_SYN &&& (TCP_SYN | TCP_ACK), 1, 0, false): answer();
            (TCP_ACK &&& (TCP_SYN | TCP_ACK), 1, 1, true): admit();
        }
        const default_action = drop();
    }

    apply {
        if (!hdr.tcp.isValid()) {
            standard_metadata.egress_spec = 1;
            return;
        }
        bit<32> index_a;
        bit<32> index_b;
        hash(index_a, HashAlgorithm.crc32, 32w0, FLOW, 32w65536);
        hash(index_b, HashAlgorithm.crc16, 32w0, FLOW, 32w65536);
        bloom_a.read(meta.first, index_a);
        bloom_b.read(meta.second, index_b);
        if (hdr.tcp.flags & (TCP_SYN | TCP_ACK) == TCP_SYN) {
            bloom_a.write(index_a, 1);
            bloom_b.write(index_b, 1);
        }
        meta.verdict = acl.read(hdr);
        if (meta.verdict == ADMITTED) {
            standard_metadata.egress_spec = 1;
        } else if (meta.verdict == DENIED) {
            mark_to_drop(standard_metadata);
        } else {
            hash(meta.cookie, HashAlgorithm.crc32, 32w0, { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.tcp.src_port,
                 hdr.tcp.dst_port, SEED }, 64w0x100000000);
            meta.answers = hdr.tcp.ack == meta.cookie + 1;
            decide.apply();
        }
    }
}

V1Switch(ExampleParser(), ExampleVerify(), SynCookie(), ExampleEgress(), ExampleCompute(), ExampleDeparser()) main;
