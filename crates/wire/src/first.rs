//! What the first fragment of a datagram says of its flow, for the later ones, which do not say it.

use crate::icmp::is_icmp;
use crate::{Headers, Marks};

/// What a first fragment says of the flow of its datagram: the ports, or what ICMP has in their place. Later fragments have no
/// transport header, and [follow](Headers::follow) this.
///
/// ```text
///  0     4     8          10         12         13      14        16
///  | seq | ack | src_port | dst_port | protocol | shape | zero    |
/// ```
///
/// Numbers are little-endian. `seq`, `ack` and `shape` are what [`Headers`] have of ICMP: type, code and identifier; the
/// destination that an error quotes; what the ports are. Of other protocols they are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct First {
    seq: u32,
    ack: u32,
    src_port: u16,
    dst_port: u16,
    protocol: u8,
    shape: u8,
}

impl First {
    /// Bytes that it takes.
    pub const LEN: usize = 16;

    /// Reads it from the headers of a first fragment.
    pub fn of(headers: &Headers) -> First {
        let Headers { src_port, dst_port, protocol, .. } = *headers;
        let (seq, ack, shape) = match is_icmp(headers) {
            true => (headers.seq, headers.ack, headers.tcp_shape & 0x0f),
            false => (0, 0, 0),
        };
        First { seq, ack, src_port, dst_port, protocol, shape }
    }

    /// Its bytes: see above.
    pub fn to_bytes(self) -> [u8; First::LEN] {
        let First { seq, ack, src_port, dst_port, protocol, shape } = self;
        let mut bytes = [0; First::LEN];
        bytes[..4].copy_from_slice(&seq.to_le_bytes());
        bytes[4..8].copy_from_slice(&ack.to_le_bytes());
        bytes[8..10].copy_from_slice(&src_port.to_le_bytes());
        bytes[10..12].copy_from_slice(&dst_port.to_le_bytes());
        (bytes[12], bytes[13]) = (protocol, shape);
        bytes
    }

    /// What these bytes say. Any bytes do no harm.
    pub fn from_bytes(bytes: &[u8; First::LEN]) -> First {
        let [a, b, c, d, e, f, g, h, i, j, k, l, protocol, shape, ..] = *bytes;
        First {
            seq: u32::from_le_bytes([a, b, c, d]),
            ack: u32::from_le_bytes([e, f, g, h]),
            src_port: u16::from_le_bytes([i, j]),
            dst_port: u16::from_le_bytes([k, l]),
            protocol,
            shape: shape & 0x0f,
        }
    }
}

impl Headers {
    /// Makes a later fragment one of the flow of its first: it has the ports then, and what ICMP has in their place, and is
    /// [marked](Headers::is_followed). It has no transport header nonetheless: no flags, sequence numbers, or length of one. Headers of
    /// other packets, and of malformed ones, stay as they are.
    pub fn follow(&mut self, first: &First) {
        if !self.marks.contains(Marks::LATER_FRAGMENT) || !self.is_well_formed() {
            return;
        }
        self.marks |= Marks::FIRST_FRAGMENT;
        // IPv6: what a later fragment says is next nobody goes by (RFC 8200 §4.5).
        self.protocol = first.protocol;
        (self.src_port, self.dst_port) = (first.src_port, first.dst_port);
        (self.seq, self.ack, self.tcp_shape) = (first.seq, first.ack, first.shape);
    }

    /// Whether the packet is a later fragment that has what its first said of their flow: see [`Headers::follow`].
    #[inline]
    pub fn is_followed(&self) -> bool {
        self.marks.contains(Marks::FIRST_FRAGMENT.union(Marks::LATER_FRAGMENT))
    }

    /// Whether the packet is a first fragment, of several: it has its transport header, and its payload ends early.
    #[inline]
    pub fn is_first_fragment(&self) -> bool {
        self.marks.intersection(Marks::FIRST_FRAGMENT.union(Marks::LATER_FRAGMENT)) == Marks::FIRST_FRAGMENT
    }

    /// Whether the packet is a later fragment of which nobody knows the flow.
    #[inline]
    pub fn is_lone_fragment(&self) -> bool {
        self.marks.intersection(Marks::FIRST_FRAGMENT.union(Marks::LATER_FRAGMENT)) == Marks::LATER_FRAGMENT
    }

    /// Whether its flow is known, as far as its protocol has ports: well-formed IP with its transport header, or a later fragment that
    /// [has what its first said](Headers::is_followed).
    #[inline]
    pub fn has_flow(&self) -> bool {
        self.is_ip() && self.is_well_formed() && !self.is_lone_fragment()
    }
}
