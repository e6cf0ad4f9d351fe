// Headers, and the parser and deparser of the examples: Ethernet, IPv4 with options skipped, TCP, UDP.
#ifndef HEADERS_P4
#define HEADERS_P4

#include <core.p4>
#include <v1model.p4>

typedef bit<48> mac_t;
typedef bit<32> ipv4_t;

const bit<16> TYPE_IPV4 = 0x0800;
const bit<8> PROTOCOL_TCP = 6;
const bit<8> PROTOCOL_UDP = 17;

// TCP's flags, without those of congestion.
const bit<6> TCP_FIN = 0x01;
const bit<6> TCP_SYN = 0x02;
const bit<6> TCP_RST = 0x04;
const bit<6> TCP_ACK = 0x10;

header ethernet_t {
    mac_t   dst_addr;
    mac_t   src_addr;
    bit<16> ether_type;
}

header ipv4_h {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> total_len;
    bit<16> identification;
    bit<3>  flags;
    bit<13> frag_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    ipv4_t  src_addr;
    ipv4_t  dst_addr;
}

header tcp_h {
    bit<16> src_port;
    bit<16> dst_port;
    bit<32> seq;
    bit<32> ack;
    bit<4>  data_offset;
    bit<4>  reserved;
    bit<2>  ecn;
    bit<6>  flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header udp_h {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> len;
    bit<16> checksum;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_h     ipv4;
    tcp_h      tcp;
    udp_h      udp;
}

// What parsers, checksums and deparsers of the examples share. A program defines METADATA as its own struct.
#define EXAMPLE_PARSER(METADATA) \
parser ExampleParser(packet_in packet, out headers_t hdr, inout METADATA meta, \
                     inout standard_metadata_t standard_metadata) { \
    state start { \
        packet.extract(hdr.ethernet); \
        transition select(hdr.ethernet.ether_type) { \
            TYPE_IPV4: parse_ipv4; \
            default: accept; \
        } \
    } \
    state parse_ipv4 { \
        packet.extract(hdr.ipv4); \
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.frag_offset, hdr.ipv4.protocol) { \
            (4, 5, 0, PROTOCOL_TCP): parse_tcp; \
            (4, 5, 0, PROTOCOL_UDP): parse_udp; \
            default: accept; \
        } \
    } \
    state parse_tcp { \
        packet.extract(hdr.tcp); \
        transition accept; \
    } \
    state parse_udp { \
        packet.extract(hdr.udp); \
        transition accept; \
    } \
} \
control ExampleVerify(inout headers_t hdr, inout METADATA meta) { \
    apply { } \
} \
control ExampleEgress(inout headers_t hdr, inout METADATA meta, inout standard_metadata_t standard_metadata) { \
    apply { } \
} \
control ExampleCompute(inout headers_t hdr, inout METADATA meta) { \
    apply { \
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, \
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_len, hdr.ipv4.identification, \
              hdr.ipv4.flags, hdr.ipv4.frag_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_addr, \
              hdr.ipv4.dst_addr }, \
            hdr.ipv4.checksum, HashAlgorithm.csum16); \
    } \
} \
control ExampleDeparser(packet_out packet, in headers_t hdr) { \
    apply { \
        packet.emit(hdr); \
    } \
}

#endif
