//! Sets of header fields.

use bitflags::bitflags;

bitflags! {
    /// A set of header fields: what a function reads or edits, what a key is made of, what a port hashes.
    ///
    /// One bit for each field of [`Headers`](crate::Headers), and MAC addresses, MSS and tunnel, which edits may change and
    /// [`Headers`](crate::Headers) does not have.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Fields: u32 {
        /// Source IP address.
        const SRC_ADDR = 1 << 0;
        /// Destination IP address.
        const DST_ADDR = 1 << 1;
        /// Source port of TCP, UDP, SCTP or DCCP; 0 for other protocols and later fragments.
        const SRC_PORT = 1 << 2;
        /// Destination port of TCP, UDP, SCTP or DCCP; 0 for other protocols and later fragments.
        const DST_PORT = 1 << 3;
        /// IP protocol number, after IPv6 extension headers.
        const PROTOCOL = 1 << 4;
        /// Outermost VLAN tag.
        const VLAN = 1 << 5;
        /// Time to live, or hop limit.
        const TTL = 1 << 6;
        /// Type of service (DSCP and ECN), or traffic class.
        const TOS = 1 << 7;
        /// Source MAC address.
        const SRC_MAC = 1 << 8;
        /// Destination MAC address.
        const DST_MAC = 1 << 9;
        /// TCP sequence number; what an ICMP header begins with, and UDP's length: see [`Headers::seq`](crate::Headers::seq).
        const SEQ = 1 << 10;
        /// TCP acknowledgment number; of an ICMP error, the destination that it quotes.
        const ACK = 1 << 11;
        /// Highest right edge of the SACK blocks.
        const SACK = 1 << 12;
        /// TCP window.
        const WINDOW = 1 << 13;
        /// Length of the IP packet.
        const L3_LEN = 1 << 14;
        /// Offset of the transport header.
        const L4_OFFSET = 1 << 15;
        /// TCP flags.
        const TCP_FLAGS = 1 << 16;
        /// Offset of the IP header.
        const L3_OFFSET = 1 << 17;
        /// Length of the transport header, and window scale of a SYN.
        const TCP_SHAPE = 1 << 18;
        /// What kind of packet it is: IPv4 or IPv6, fragment, tagged, cut. See [`Marks`](crate::Marks).
        const MARKS = 1 << 19;
        /// Whether the packet is malformed, and why.
        const MALFORMED = 1 << 20;
        /// Maximum segment size that a SYN announces (RFC 9293 §3.7.1).
        const MSS = 1 << 21;
        /// Whether headers of a tunnel are before the packet. An edit puts them there; no field of the packet inside changes.
        const TUNNEL = 1 << 22;
    }
}

impl Fields {
    /// Both addresses.
    pub const ADDRS: Fields = Fields::SRC_ADDR.union(Fields::DST_ADDR);
    /// Both ports.
    pub const PORTS: Fields = Fields::SRC_PORT.union(Fields::DST_PORT);
    /// The 5-tuple: addresses, ports, protocol.
    pub const FIVE_TUPLE: Fields = Fields::ADDRS.union(Fields::PORTS).union(Fields::PROTOCOL);

    /// The fields as the packet's answer would have them: source and destination exchanged.
    pub const fn mirrored(self) -> Fields {
        let pairs = [
            (Fields::SRC_ADDR, Fields::DST_ADDR),
            (Fields::SRC_PORT, Fields::DST_PORT),
            (Fields::SRC_MAC, Fields::DST_MAC),
        ];
        let mut mirrored = self;
        let mut pair = 0;
        while pair < pairs.len() {
            let (a, b) = pairs[pair];
            if self.contains(a) != self.contains(b) {
                mirrored = mirrored.symmetric_difference(a.union(b));
            }
            pair += 1;
        }
        mirrored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_and_destination_are_exchanged_in_the_mirror() {
        let end = Fields::SRC_ADDR | Fields::DST_PORT | Fields::TTL;
        assert_eq!(end.mirrored(), Fields::DST_ADDR | Fields::SRC_PORT | Fields::TTL);
        assert_eq!(Fields::FIVE_TUPLE.mirrored(), Fields::FIVE_TUPLE);
        assert_eq!(Fields::SRC_MAC.mirrored().mirrored(), Fields::SRC_MAC);
    }
}
