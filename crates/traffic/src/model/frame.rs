//! Writes the frames of a generated trace.

use etherparse::{PacketBuilder, TcpOptionElement};
use wire::tcp_flags::{ACK, FIN, PSH, RST, SYN};

use super::flow::{Addrs, Ends};

/// The longest frame: the longest IPv4 packet behind an Ethernet header.
pub const MAX_FRAME_BYTES: u32 = 14 + 65_535;

/// What a card pads a frame to, without the frame check sequence.
pub(super) const MIN_ETHERNET_BYTES: usize = 60;

pub(super) const UDP_HEADER_BYTES: usize = 8;
pub(super) const TCP_HEADER_BYTES: usize = 20;

/// A packet to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub ends: Ends,
    pub transport: Transport,
    /// Bytes after the transport header, all 0.
    pub payload_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Transport {
    Udp,
    Tcp {
        flags: u8,
        seq: u32,
        ack: u32,
        /// The longest segment that the sender of a SYN takes.
        mss: u16,
    },
}

/// Writes frames into one buffer, one after another.
#[derive(Default)]
pub(super) struct Frames {
    frame: Vec<u8>,
    zeros: Vec<u8>,
}

/// No window scaling: never more is on its way than two segments.
const WINDOW: u16 = 65_535;

impl Frames {
    /// The packet's frame, with all lengths and checksums. TCP that would be too short is padded, as Ethernet has
    /// it; so are not datagrams, whose length the user chose.
    pub fn write(&mut self, packet: &Packet) -> &[u8] {
        if self.zeros.len() < packet.payload_bytes {
            self.zeros.resize(packet.payload_bytes, 0);
        }
        let payload = &self.zeros[..packet.payload_bytes];
        let Ends { addrs, src_port, dst_port } = packet.ends;
        let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let ip = match addrs {
            Addrs::V4(src, dst) => ethernet.ipv4(src, dst, 64),
            Addrs::V6(src, dst) => ethernet.ipv6(src, dst, 64),
        };
        self.frame.clear();
        let written = match packet.transport {
            Transport::Udp => ip.udp(src_port, dst_port).write(&mut self.frame, payload),
            Transport::Tcp { flags, seq, ack, mss } => {
                let mut tcp = ip.tcp(src_port, dst_port, seq, WINDOW);
                if flags & ACK != 0 {
                    tcp = tcp.ack(ack);
                }
                if flags & SYN != 0 {
                    let option = TcpOptionElement::MaximumSegmentSize(mss);
                    tcp = tcp.syn().options(&[option]).expect("one option has room");
                }
                if flags & FIN != 0 {
                    tcp = tcp.fin();
                }
                if flags & RST != 0 {
                    tcp = tcp.rst();
                }
                if flags & PSH != 0 {
                    tcp = tcp.psh();
                }
                tcp.write(&mut self.frame, payload)
            }
        };
        written.expect("writing to memory, lengths within bounds");
        if matches!(packet.transport, Transport::Tcp { .. }) && self.frame.len() < MIN_ETHERNET_BYTES {
            self.frame.resize(MIN_ETHERNET_BYTES, 0);
        }
        &self.frame
    }
}
