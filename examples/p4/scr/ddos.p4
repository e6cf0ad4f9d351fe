// A mitigator of floods (Table 1 of SCR): packets of each source are counted, and those past a threshold are dropped. What a
// replica is told of a packet is its source.
#include "../headers.p4"

const bit<32> THRESHOLD = 5;

struct metadata_t {
    bit<32> packets;
}

EXAMPLE_PARSER(metadata_t)

control Ddos(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    muTable sources {
        keys = {
            hdr.ipv4.src_addr;
        }
        values = {
            bit<32> packets;
        }
        consistency = STRICT;
        size = 65536;
    }

    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.ipv4.isValid()) {
            meta.packets = sources.read(hdr);
            meta.packets = meta.packets |+| 1;
            sources.write(hdr, meta.packets);
            if (meta.packets > THRESHOLD) {
                mark_to_drop(standard_metadata);
            }
        }
    }
}

V1Switch(ExampleParser(), ExampleVerify(), Ddos(), ExampleEgress(), ExampleCompute(), ExampleDeparser()) main;
