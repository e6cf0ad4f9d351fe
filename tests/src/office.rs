//! A small office behind a NAT, and traffic that its gateway gets from both sides.

use std::net::Ipv4Addr;

use etherparse::{Icmpv4Type, PacketBuilder};

use crate::Packet;
use crate::draw::Draw;

/// The chain of `examples/gateway.toml` with tables of a size that the test chooses, and rules that let some in.
pub const GATEWAY: &str = "
inside = [\"10.0.0.0/24\", \"fd00::/8\"]
[[function]]
use = \"access-list\"
flows = FLOWS
table_full = \"FULL\"
rules = [\"deny tcp from any to any port 25\", \"allow any from 10.0.0.0/24 to any\", \"allow udp from any to any\"]
[[function]]
use = \"conntrack\"
flows = FLOWS
table_full = \"FULL\"
open_from = \"inside\"
out_of_window = \"pass\"
[[function]]
use = \"policer\"
flows = FLOWS
table_full = \"FULL\"
rate_bytes_per_s = 4000
burst_bytes = 2000
[[function]]
use = \"nat\"
flows = FLOWS
table_full = \"FULL\"
inside = [\"10.0.0.0/24\"]
external = [\"203.0.113.1\"]
port_choice = \"preserve\"
hairpinning = false
";

const GATE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

/// A packet of TCP, or of UDP where there are no flags.
pub fn packet(
    time_ns: u64,
    (src, src_port): (Ipv4Addr, u16),
    (dst, dst_port): (Ipv4Addr, u16),
    flags: Option<u8>,
    seq: u32,
    payload: usize,
) -> Packet {
    let ip = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src.octets(), dst.octets(), 64);
    let (mut bytes, payload) = (Vec::new(), vec![0; payload]);
    match flags {
        None => ip.udp(src_port, dst_port).write(&mut bytes, &payload).expect("memory"),
        Some(flags) => {
            let mut tcp = ip.tcp(src_port, dst_port, seq, 65_000);
            tcp = if flags & 0x02 != 0 { tcp.syn() } else { tcp };
            tcp = if flags & 0x10 != 0 { tcp.ack(seq.wrapping_mul(7) % 2_000) } else { tcp };
            tcp = if flags & 0x01 != 0 { tcp.fin() } else { tcp };
            tcp = if flags & 0x04 != 0 { tcp.rst() } else { tcp };
            tcp.write(&mut bytes, &payload).expect("memory");
        }
    }
    Packet { time_ns, bytes }
}

/// An ICMP error of a router or host `from`, about a packet that the one end sent to the other and that needs
/// fragmentation (RFC 792, RFC 1191).
pub fn icmp_error(
    time_ns: u64,
    from: Ipv4Addr,
    sender: (Ipv4Addr, u16),
    receiver: (Ipv4Addr, u16),
    is_udp: bool,
) -> Packet {
    let quoted = packet(time_ns, sender, receiver, (!is_udp).then_some(0x10), 8, 0);
    let kind = Icmpv4Type::Unknown { type_u8: 3, code_u8: 4, bytes5to8: [0, 0, 5, 220] };
    let builder =
        PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(from.octets(), sender.0.octets(), 64).icmpv4(kind);
    let mut bytes = Vec::new();
    builder.write(&mut bytes, &quoted.bytes[14..14 + 28]).expect("memory");
    Packet { time_ns, bytes }
}

/// What a gateway gets of `flows` connections and some strangers: answers come for the gateway's address and the
/// inside host's own port, and errors about what it sent. Some packets stay on their side, and some go to the gateway's address from inside.
pub fn traffic(seed: u64, flows: u64, count: usize) -> Vec<Packet> {
    let mut draw = Draw::new(seed);
    let mut now_ns = 1_000_000_000;
    let mut next = || {
        let mut below = |bound| draw.below(bound);
        now_ns += match below(400) {
            0 => 70_000_000_000,
            1..16 => below(100_000_000),
            _ => below(1_000_000),
        };
        let flow = below(flows);
        let inside = (Ipv4Addr::new(10, 0, 0, 2 + (flow % 5) as u8), 4_000 + flow as u16);
        let server = (Ipv4Addr::new(192, 0, 2, 1 + (flow % 3) as u8), [80, 443, 25][flow as usize % 3]);
        let stranger = (Ipv4Addr::new(198, 51, 100, 1 + below(3) as u8), 1_000 + below(9) as u16);
        let gate = (GATE, inside.1);
        let is_udp = flow % 7 == 3;
        let flags = [0x02, 0x12, 0x10, 0x10, 0x10, 0x18, 0x10, 0x10, 0x11, 0x14][below(10) as usize];
        let (seq, payload) = (below(2_000) as u32, below(300) as usize);
        let kind = below(40);
        if let 6..9 = kind {
            // A router on the way, one inside, and the server itself.
            let from = [Ipv4Addr::new(198, 51, 100, 254), Ipv4Addr::new(10, 0, 0, 254), server.0];
            return icmp_error(now_ns, from[kind as usize - 6], gate, server, is_udp);
        }
        let (src, dst) = match kind {
            0 => (stranger, gate),
            1 => (stranger, inside),
            2 => (inside, (Ipv4Addr::new(10, 0, 0, 9), 80)),
            3 => ((Ipv4Addr::new(10, 0, 0, 9), 80), inside),
            4 => (stranger, server),
            5 => (inside, (GATE, 4_000 + below(flows) as u16)),
            6..22 => (server, gate),
            _ => (inside, server),
        };
        packet(now_ns, src, dst, (!is_udp).then_some(flags), seq, payload)
    };
    (0..count).map(|_| next()).collect()
}
