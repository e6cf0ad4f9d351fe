// What no example's parser has: states of two headers, masks, ranges, a default that is not there, and state that depends on a packet's length, on
// its port and on the parser's error. rtl/tests/version3.py knows this parser by heart.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header tag_t {
    bit<3>  priority;
    bit<13> id;
    bit<16> ether_type;
}

header word_t {
    bit<4>  kind;
    bit<12> rest;
}

header long_t {
    bit<128> first;
    bit<8>   second;
}

struct headers_t {
    ethernet_t ethernet;
    word_t     word;
    tag_t      tag;
    long_t     long;
    word_t     other;
}

struct metadata_t {
    bit<8> why;
}

parser FieldsParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.word);
        transition pick;
    }
    state pick {
        transition select(hdr.word.kind, hdr.ethernet.ether_type) {
            (0 &&& 8, 0x0800 .. 0x86dd): tagged;
            (8 .. 11, _): longer;
            (12, _): accept;
            (13, _): reject;
        }
    }
    state tagged {
        packet.extract(hdr.tag);
        transition select(hdr.tag.id) {
            0x001 &&& 0x001: longer;
            default: worded;
        }
    }
    state longer {
        packet.extract(hdr.long);
        transition worded;
    }
    state worded {
        packet.extract(hdr.other);
        transition accept;
    }
}

control FieldsVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control FieldsCompute(inout headers_t hdr, inout metadata_t meta) { apply { } }

control Fields(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    muTable seen {
        keys = {
            hdr.word.rest;
        }
        values = {
            bit<32> length;
            bit<9>  port;
            bit<13> id;
            bit<8>  second;
            bit<12> rest;
            bit<8>  why;
        }
        consistency = STRICT;
        size = 4096;
    }

    apply {
        standard_metadata.egress_spec = 1;
        if (standard_metadata.parser_error == error.PacketTooShort) {
            meta.why = 1;
        } else if (standard_metadata.parser_error == error.NoMatch) {
            meta.why = 2;
        }
        seen.write(hdr, standard_metadata.packet_length, standard_metadata.ingress_port, hdr.tag.id, hdr.long.second, hdr.other.rest, meta.why);
    }
}

control FieldsEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) { apply { } }
control FieldsDeparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(FieldsParser(), FieldsVerify(), Fields(), FieldsEgress(), FieldsCompute(), FieldsDeparser()) main;
