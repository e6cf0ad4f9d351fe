use bitflags::bitflags;

bitflags! {
    /// A set of header fields: what a key is made of, what a function edits, what a port hashes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Fields: u16 {
        /// Source IP address.
        const SRC_ADDR = 1 << 0;
        /// Destination IP address.
        const DST_ADDR = 1 << 1;
        /// Source port of TCP, UDP, SCTP or DCCP; 0 for other protocols and later fragments.
        const SRC_PORT = 1 << 2;
        /// Destination port, likewise.
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
    }
}

impl Fields {
    /// Both addresses.
    pub const ADDRS: Fields = Fields::SRC_ADDR.union(Fields::DST_ADDR);
    /// The 5-tuple: addresses, ports, protocol.
    pub const FIVE_TUPLE: Fields =
        Fields::ADDRS.union(Fields::SRC_PORT).union(Fields::DST_PORT).union(Fields::PROTOCOL);

    /// The fields as the packet's answer would have them: source and destination exchanged.
    pub fn mirrored(self) -> Fields {
        let pairs = [
            (Fields::SRC_ADDR, Fields::DST_ADDR),
            (Fields::SRC_PORT, Fields::DST_PORT),
            (Fields::SRC_MAC, Fields::DST_MAC),
        ];
        let mut mirrored = self;
        for (a, b) in pairs {
            mirrored.set(a, self.contains(b));
            mirrored.set(b, self.contains(a));
        }
        mirrored
    }

    /// The names of the fields, for people: `source address, source port`.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        const NAMES: [(Fields, &str); 10] = [
            (Fields::SRC_ADDR, "source address"),
            (Fields::DST_ADDR, "destination address"),
            (Fields::SRC_PORT, "source port"),
            (Fields::DST_PORT, "destination port"),
            (Fields::PROTOCOL, "protocol"),
            (Fields::VLAN, "VLAN"),
            (Fields::TTL, "TTL"),
            (Fields::TOS, "TOS"),
            (Fields::SRC_MAC, "source MAC"),
            (Fields::DST_MAC, "destination MAC"),
        ];
        NAMES.into_iter().filter(move |(field, _)| self.contains(*field)).map(|(_, name)| name)
    }
}
