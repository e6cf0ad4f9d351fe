//! Header changes as data, and which of them a packet can take.

mod append;
mod applicable;
mod apply;
mod icmp;

use core::fmt;

pub(crate) use apply::has_segments_left;
pub use apply::{ApplyError, apply, apply_by_layers, apply_plain};

use crate::{Addr, Fields, Headers, Marks, Tunnel, protocol};

/// Header changes as data. A function states them; [`apply`] writes them.
///
/// A later function's edit of the same field replaces an earlier one's. What does not apply to a
/// packet is not an error and changes nothing:
///
/// | edit | applies to |
/// |---|---|
/// | MAC addresses | Ethernet frames |
/// | VLAN tag | Ethernet frames; a third tag is not pushed, for it could not be parsed |
/// | TTL, TOS | IP |
/// | addresses | IP of the address's family; an IPv4-mapped one counts as IPv4 |
/// | MSS | TCP SYNs that announce one |
/// | tunnel | IP packets of less than 64 KiB with the outer headers. It is put before the packet that the other edits leave, and headers as functions see them stay those of the packet inside |
/// | ports | TCP, UDP, DCCP; SCTP unless fragmented or longer than 65,534 bytes; ICMP as far as it has them: see [`IcmpPorts`](crate::IcmpPorts). In the bytes of later fragments there are none; the headers of a [followed](Headers::is_followed) one have them |
///
/// An ICMP error whose quote can be read has the quoted packet edited with it: a new source becomes the quoted
/// destination, a new destination the quoted source, addresses and ports (RFC 5508 §4).
///
/// A malformed packet is edited in the layers before the defect.
///
/// Two cache lines, the second of a tunnel alone. Only `set` is read or written where there are no edits.
#[derive(Clone, Copy)]
pub struct Edits {
    line: Line,
    tunnel: Tunnel,
}

/// All but the tunnel: a cache line, which is copied whole.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line {
    src: Addr,
    dst: Addr,
    /// Which of the other fields are meant; those that are not hold anything. With [`OF_V6`].
    set: Fields,
    src_port: u16,
    dst_port: u16,
    ttl: u8,
    tos: u8,
    vlan: VlanEdit,
    mss: u16,
    src_mac: [u8; 6],
    dst_mac: [u8; 6],
}

const _: () = assert!(size_of::<Line>() == 64 && size_of::<Edits>() == 128);

/// Beside the fields that are set: an address of IPv6 was. So one test says that all are of IPv4, as nearly always.
const OF_V6: Fields = Fields::from_bits_retain(1 << 31);

const _: () = assert!(!Fields::all().intersects(OF_V6));

/// What is set beside the field of an address.
#[inline(always)]
fn family_of(addr: Addr) -> Fields {
    if addr.to_v4().is_some() { Fields::empty() } else { OF_V6 }
}

/// Edits as they were at some point, to go back to: see [`Edits::mark`].
#[derive(Clone, Copy, Debug)]
pub struct EditsMark(Option<Edits>);

/// A change of the outermost VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VlanEdit {
    /// Rewrite the tag control information; on an untagged frame, nothing.
    Rewrite(u16),
    /// Add a tag (802.1Q, EtherType 0x8100) in front of what is there; on a frame with two, nothing.
    Push(u16),
    /// Remove the outermost tag; on an untagged frame, nothing.
    Pop,
}

impl Edits {
    /// No change.
    pub const NONE: Edits = Edits {
        line: Line {
            set: Fields::empty(),
            src: Addr::UNSPECIFIED,
            dst: Addr::UNSPECIFIED,
            src_port: 0,
            dst_port: 0,
            ttl: 0,
            tos: 0,
            vlan: VlanEdit::Pop,
            mss: 0,
            src_mac: [0; 6],
            dst_mac: [0; 6],
        },
        tunnel: Tunnel::NONE,
    };

    /// Whether nothing changes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.line.set.is_empty()
    }

    /// The fields that change.
    #[inline]
    pub fn fields(&self) -> Fields {
        self.line.set.difference(OF_V6)
    }

    /// Back to no change: one store, where `NONE` is a cache line of them.
    #[inline]
    pub fn clear(&mut self) {
        self.line.set = Fields::empty();
    }

    /// Notes what is set now, to go back to with [`Edits::undo_to`]: one test, and a copy only where
    /// there are edits already.
    #[inline]
    pub fn mark(&self) -> EditsMark {
        EditsMark((!self.is_empty()).then_some(*self))
    }

    /// Takes back all edits made since `mark` was taken of these.
    #[inline]
    pub fn undo_to(&mut self, mark: &EditsMark) {
        match &mark.0 {
            Some(edits) => *self = *edits,
            None => self.clear(),
        }
    }

    /// Sets the source address. An address of the other family than the packet's is not applied.
    #[inline]
    pub fn set_src(&mut self, addr: Addr) {
        self.line.src = addr;
        self.line.set |= Fields::SRC_ADDR | family_of(addr);
    }

    /// Sets the destination address. An address of the other family than the packet's is not applied.
    #[inline]
    pub fn set_dst(&mut self, addr: Addr) {
        self.line.dst = addr;
        self.line.set |= Fields::DST_ADDR | family_of(addr);
    }

    /// Sets the source port; nothing happens to a packet without ports.
    #[inline]
    pub fn set_src_port(&mut self, port: u16) {
        self.line.src_port = port;
        self.line.set |= Fields::SRC_PORT;
    }

    /// Sets the destination port; nothing happens to a packet without ports.
    #[inline]
    pub fn set_dst_port(&mut self, port: u16) {
        self.line.dst_port = port;
        self.line.set |= Fields::DST_PORT;
    }

    /// Sets the time to live, or hop limit.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        self.line.ttl = ttl;
        self.line.set |= Fields::TTL;
    }

    /// Sets the type of service, or traffic class.
    #[inline]
    pub fn set_tos(&mut self, tos: u8) {
        self.line.tos = tos;
        self.line.set |= Fields::TOS;
    }

    /// Changes the outermost VLAN tag; only Ethernet frames have one.
    #[inline]
    pub fn set_vlan(&mut self, edit: VlanEdit) {
        self.line.vlan = edit;
        self.line.set |= Fields::VLAN;
    }

    /// Sets the source MAC address of an Ethernet frame.
    #[inline]
    pub fn set_src_mac(&mut self, mac: [u8; 6]) {
        self.line.src_mac = mac;
        self.line.set |= Fields::SRC_MAC;
    }

    /// Sets the destination MAC address of an Ethernet frame.
    #[inline]
    pub fn set_dst_mac(&mut self, mac: [u8; 6]) {
        self.line.dst_mac = mac;
        self.line.set |= Fields::DST_MAC;
    }

    /// Lowers the maximum segment size that a SYN announces to `mss`, if it is above; a SYN that announces none stays as
    /// it is. Of two such edits the lower one holds.
    #[inline]
    pub fn lower_mss(&mut self, mss: u16) {
        let before = if self.line.set.contains(Fields::MSS) { self.line.mss } else { u16::MAX };
        self.line.mss = mss.min(before);
        self.line.set |= Fields::MSS;
    }

    /// Puts the headers of a tunnel before the packet when it leaves. Of two such edits the later one holds.
    #[inline]
    pub fn set_tunnel(&mut self, tunnel: Tunnel) {
        self.tunnel = tunnel;
        self.line.set |= Fields::TUNNEL;
    }

    /// The tunnel that the packet goes into, if it goes into one.
    pub fn tunnel(&self) -> Option<Tunnel> {
        self.line.set.contains(Fields::TUNNEL).then_some(self.tunnel)
    }

    /// The most that a SYN may announce as its maximum segment size, if that is set.
    pub fn mss(&self) -> Option<u16> {
        self.line.set.contains(Fields::MSS).then_some(self.line.mss)
    }

    /// The source MAC address that is set, if one is. What else is set is seen in headers: [`Edits::apply_to_headers`].
    pub fn src_mac(&self) -> Option<[u8; 6]> {
        self.line.set.contains(Fields::SRC_MAC).then_some(self.line.src_mac)
    }

    /// The destination MAC address that is set, if one is.
    pub fn dst_mac(&self) -> Option<[u8; 6]> {
        self.line.set.contains(Fields::DST_MAC).then_some(self.line.dst_mac)
    }
}

impl Edits {
    /// Makes `headers` read as if the packet had been edited and parsed again. Offsets stay, so that
    /// `headers` still fits the frame as received: the same edits again, or more of them, are right.
    ///
    /// One field cannot be known: of two VLAN tags the headers have the outer one, so when that is
    /// removed, `vlan` becomes 0 and not the inner tag's.
    #[inline]
    pub fn apply_to_headers(&self, headers: &mut Headers) {
        if self.is_empty() {
            return;
        }
        let set = match self.applicable_to_plain(headers) {
            Some(set) => set,
            None => self.applied_to_others(headers),
        };
        if set.contains(Fields::SRC_ADDR) {
            headers.src = self.line.src;
        }
        if set.contains(Fields::DST_ADDR) {
            headers.dst = self.line.dst;
        }
        if set.contains(Fields::SRC_PORT) {
            headers.src_port = self.line.src_port;
        }
        if set.contains(Fields::DST_PORT) {
            headers.dst_port = self.line.dst_port;
        }
        if set.contains(Fields::TTL) {
            headers.ttl = self.line.ttl;
        }
        if set.contains(Fields::TOS) {
            headers.tos = self.line.tos;
        }
        if set.contains(Fields::VLAN) {
            self.apply_vlan_to_headers(headers);
        }
    }

    /// Which of the edits a packet takes that is not plain. What else an ICMP message says of them already follows.
    #[inline(never)]
    fn applied_to_others(&self, headers: &mut Headers) -> Fields {
        let set = self.applicable_to(headers);
        if matches!(headers.protocol, protocol::ICMP | protocol::ICMPV6) {
            headers.follow_icmp_edits(set, self.line.src, self.line.src_port, self.line.dst_port);
        }
        set
    }

    /// The header fields that must be right for those of `wanted` to be right after edits of `edited`: headers
    /// alike in these, whatever else they hold, are alike in `wanted` after [`Edits::apply_to_headers`].
    ///
    /// `wanted` is among them, as an edit may not apply. The others decide whether it does.
    ///
    /// ```
    /// # use paceline_wire as wire;
    /// use wire::{Edits, Fields};
    ///
    /// let needed = Edits::needs(Fields::TTL, Fields::TTL);
    /// assert_eq!(needed, Fields::TTL | Fields::MARKS | Fields::MALFORMED);
    /// ```
    pub const fn needs(edited: Fields, wanted: Fields) -> Fields {
        const IP: Fields = Fields::MARKS.union(Fields::MALFORMED);
        // An SCTP message of unknown length keeps its ports, and an ICMP message may have none.
        const TRANSPORT: Fields = IP.union(Fields::PROTOCOL).union(Fields::L3_LEN).union(Fields::TCP_SHAPE);
        let mut needed = wanted;
        let changed = edited.intersection(wanted);
        if changed.intersects(Fields::ADDRS.union(Fields::TTL).union(Fields::TOS)) {
            needed = needed.union(IP);
        }
        if changed.intersects(Fields::PORTS) {
            needed = needed.union(TRANSPORT);
        }
        // The identifier of an ICMP query is both.
        if edited.intersects(Fields::PORTS) && wanted.contains(Fields::SEQ) {
            needed = needed.union(TRANSPORT);
        }
        // An error comes from the quoted destination when both have become the new source.
        if edited.contains(Fields::SRC_ADDR) && wanted.intersects(Fields::TCP_SHAPE.union(Fields::ACK)) {
            needed = needed.union(IP).union(Fields::PROTOCOL).union(Fields::TCP_SHAPE);
        }
        // Marks say whether there is a tag.
        if edited.contains(Fields::VLAN) && wanted.intersects(Fields::VLAN.union(Fields::MARKS)) {
            needed = needed.union(Fields::L3_OFFSET).union(Fields::MALFORMED);
        }
        needed
    }

    #[cold]
    fn apply_vlan_to_headers(&self, headers: &mut Headers) {
        let tags_received = ethernet_tags(headers).unwrap_or(0);
        let (tags, vlan) = match self.line.vlan {
            VlanEdit::Rewrite(vlan) => (tags_received, vlan),
            VlanEdit::Push(vlan) => (tags_received + 1, vlan),
            VlanEdit::Pop => (tags_received.saturating_sub(1), 0),
        };
        headers.vlan = vlan;
        headers.marks.set(Marks::VLAN, tags > 0);
    }
}

/// Edits are what they change: fields that are not set do not count.
impl PartialEq for Edits {
    fn eq(&self, other: &Edits) -> bool {
        let is_alike = |field, is_equal: bool| !self.line.set.contains(field) || is_equal;
        self.fields() == other.fields()
            && is_alike(Fields::SRC_ADDR, self.line.src == other.line.src)
            && is_alike(Fields::DST_ADDR, self.line.dst == other.line.dst)
            && is_alike(Fields::SRC_PORT, self.line.src_port == other.line.src_port)
            && is_alike(Fields::DST_PORT, self.line.dst_port == other.line.dst_port)
            && is_alike(Fields::TTL, self.line.ttl == other.line.ttl)
            && is_alike(Fields::TOS, self.line.tos == other.line.tos)
            && is_alike(Fields::VLAN, self.line.vlan == other.line.vlan)
            && is_alike(Fields::MSS, self.line.mss == other.line.mss)
            && is_alike(Fields::SRC_MAC, self.line.src_mac == other.line.src_mac)
            && is_alike(Fields::DST_MAC, self.line.dst_mac == other.line.dst_mac)
            && is_alike(Fields::TUNNEL, self.tunnel == other.tunnel)
    }
}

impl Eq for Edits {}

impl Default for Edits {
    fn default() -> Edits {
        Edits::NONE
    }
}

impl fmt::Debug for Edits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: [(Fields, &str, &dyn fmt::Debug); 11] = [
            (Fields::SRC_ADDR, "src", &self.line.src),
            (Fields::DST_ADDR, "dst", &self.line.dst),
            (Fields::SRC_PORT, "src_port", &self.line.src_port),
            (Fields::DST_PORT, "dst_port", &self.line.dst_port),
            (Fields::TTL, "ttl", &self.line.ttl),
            (Fields::TOS, "tos", &self.line.tos),
            (Fields::VLAN, "vlan", &self.line.vlan),
            (Fields::MSS, "mss", &self.line.mss),
            (Fields::SRC_MAC, "src_mac", &self.line.src_mac),
            (Fields::DST_MAC, "dst_mac", &self.line.dst_mac),
            (Fields::TUNNEL, "tunnel", &self.tunnel),
        ];
        let mut edits = f.debug_struct("Edits");
        for (_, name, value) in fields.iter().filter(|(field, ..)| self.line.set.contains(*field)) {
            edits.field(name, value);
        }
        edits.finish()
    }
}

/// How many VLAN tags an Ethernet frame was received with; `None` for other links, whose headers are
/// of other lengths. Not told by the marks, which edits change.
fn ethernet_tags(headers: &Headers) -> Option<u8> {
    match headers.l3_offset {
        14 => Some(0),
        18 => Some(1),
        22 => Some(2),
        _ => None,
    }
}
