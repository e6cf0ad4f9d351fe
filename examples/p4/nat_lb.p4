// Load balancing with address translation after SilkRoad (RAPID §6.4). The first stage knows the server of every
// connection, and the pool of its service. The second takes the pool's server with fewer connections, and the third
// finds that server's address. The fourth finds the way there; a new connection whose server can be reached is then
// written to the first.
//
// What begins a connection is a SYN, and a SYN is what the second stage counts: not that the first did not know it,
// since a packet that has read a stale state, and is done over, would have counted it twice.
#include "headers.p4"

struct metadata_t {
    bit<1>  known;
    ipv4_t  server;
    bool    is_service;
    bit<16> pool;
    bit<1>  choice;
}

struct connection_t {
    bit<1> known;
    ipv4_t server;
}

EXAMPLE_PARSER(metadata_t)

control NatLb(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    muTable connections {
        keys = {
            hdr.ipv4.src_addr;
            hdr.ipv4.dst_addr;
            hdr.tcp.src_port;
            hdr.tcp.dst_port;
        }
        values = {
            bit<1> known;
            ipv4_t server;
        }
        type = exact;
        consistency = STRICT;
        size = 65536;
    }

    // Connections of a pool's two servers, side by side.
    register<bit<32>>(256) loads;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action use_pool(bit<16> pool) {
        meta.pool = pool;
        meta.is_service = true;
    }

    action use_server(ipv4_t address) {
        meta.server = address;
    }

    table services {
        key = {
            hdr.ipv4.dst_addr: exact;
            hdr.tcp.dst_port: exact;
        }
        actions = {
            use_pool;
            NoAction;
        }
        size = 256;
    }

    table servers {
        key = {
            meta.pool: exact;
            meta.choice: exact;
        }
        actions = {
            use_server;
            drop;
        }
        default_action = drop();
        size = 512;
    }

    action to_port(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    table routes {
        key = {
            meta.server: lpm;
        }
        actions = {
            to_port;
            drop;
        }
        default_action = drop();
        size = 256;
    }

    apply {
        if (!hdr.tcp.isValid()) {
            mark_to_drop(standard_metadata);
            return;
        }
        connection_t connection = connections.read(hdr);
        services.apply();
        if (meta.is_service) {
            bit<32> load;
            loads.read(load, (bit<32>) meta.pool);
            meta.choice = load[31:16] <= load[15:0] ? 1w0 : 1w1;
            if (hdr.tcp.flags & (TCP_SYN | TCP_ACK) == TCP_SYN) {
                if (meta.choice == 0) {
                    load[31:16] = load[31:16] |+| 1;
                } else {
                    load[15:0] = load[15:0] |+| 1;
                }
                loads.write((bit<32>) meta.pool, load);
            }
        }
        if (connection.known == 1) {
            meta.server = connection.server;
        } else {
            if (!meta.is_service) {
                mark_to_drop(standard_metadata);
                return;
            }
            if (servers.apply().miss) {
                return;
            }
        }
        if (routes.apply().miss) {
            return;
        }
        if (connection.known == 0) {
            connections.write(hdr, 1, meta.server);
        }
        hdr.ipv4.dst_addr = meta.server;
        hdr.ipv4.ttl = hdr.ipv4.ttl |-| 1;
    }
}

V1Switch(ExampleParser(), ExampleVerify(), NatLb(), ExampleEgress(), ExampleCompute(), ExampleDeparser()) main;
