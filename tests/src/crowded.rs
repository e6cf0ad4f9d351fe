//! Chains with few blocks, and traffic of small hosts that overcrowds them: flows expire, and are evicted or refused, all
//! the time. A chain's text says FLOWS and FULL where `flows` and `table_full` are to be filled in.

use crate::draw::Draw;
use crate::{Packet, tcp, udp6};

/// A chain's text with `flows` and `table_full` filled in.
pub fn filled_in(text: &str, flows: usize, full: &str) -> String {
    text.replace("FLOWS", &flows.to_string()).replace("FULL", full)
}

/// Each in a table of its own, by several keys.
pub const SEVERAL_KEYS: &str = "
[[function]]
use = \"access-list\"
flows = FLOWS
table_full = \"FULL\"
default = \"allow\"
rules = [\"deny tcp from 10.0.0.1 to any port 8000\", \"deny udp from any to any port 7000\"]
[[function]]
use = \"conntrack\"
flows = FLOWS
table_full = \"FULL\"
[[function]]
use = \"ddos\"
flows = FLOWS
table_full = \"FULL\"
threshold_packets = 20
window_ms = 1000
block_ms = 1000
[[function]]
use = \"policer\"
flows = FLOWS
table_full = \"FULL\"
rate_bytes_per_s = 1000
burst_bytes = 600
action = \"mark\"
[[function]]
use = \"heavy-hitters\"
flows = FLOWS
table_full = \"FULL\"
threshold_bytes = 500
[[function]]
use = \"port-knock\"
flows = FLOWS
table_full = \"FULL\"
ports = [80, 7000]
[[function]]
use = \"load-balancer\"
flows = FLOWS
table_full = \"FULL\"
policy = \"random\"
services = [{ vip = \"10.0.0.2\", port = 80, backends = [{ address = \"10.9.0.1\" }, { address = \"10.9.0.2\" }] }]
";

/// Functions of one key share a table.
pub const ONE_TABLE: &str = "
[[function]]
use = \"flow-statistics\"
flows = FLOWS
table_full = \"FULL\"
idle_ms = 40
[[function]]
use = \"rate-limiter\"
flows = FLOWS
table_full = \"FULL\"
rate_packets_per_s = 100
burst_packets = 2
when_full = \"drop\"
[[function]]
use = \"load-balancer\"
flows = FLOWS
table_full = \"FULL\"
policy = \"random\"
syn_timeout_s = 1
tcp_timeout_s = 1
services = [{ vip = \"10.0.0.2\", port = 80, backends = [{ address = \"10.9.0.1\" }, { address = \"10.9.0.2\" }] }]
";

/// Packets of `flows` flows for several maintenances: both directions, handshakes and ends, IPv4 and
/// IPv6. Most come within a millisecond; some after the short time-outs, a few after the long ones.
pub fn traffic(seed: u64, flows: u64, count: usize) -> Vec<Packet> {
    let mut now_ns = 1_000_000_000;
    let mut draw = Draw::new(seed);
    let mut below = |bound| draw.below(bound);
    let packet = |_| {
        now_ns += match below(400) {
            0 => 20_000_000_000,
            1..16 => below(100_000_000),
            _ => below(1_000_000),
        };
        let flow = below(flows);
        let (client, port) = (1 + (flow / 4) as u8, 4_000 + (flow % 2) as u16);
        let server_port = [80, 80, 80, 7_000, 8_000][below(5) as usize];
        if flow % 8 == 5 {
            return udp6(now_ns, client, 2, (port, server_port), below(200) as usize);
        }
        // Mostly acknowledgments; a sixth ends the connection.
        let flags = [0x02, 0x12, 0x10, 0x10, 0x10, 0x18, 0x18, 0x10, 0x11, 0x14][below(10) as usize];
        let (payload, seq) = (below(100) as usize, below(2_000) as u32);
        match below(3) {
            0 => tcp(now_ns, 2, client, (server_port, port), flags, seq, payload),
            _ => tcp(now_ns, client, 2, (port, server_port), flags, seq, payload),
        }
    };
    (0..count).map(packet).collect()
}
