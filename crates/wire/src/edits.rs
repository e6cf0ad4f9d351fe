mod apply;

pub use apply::{ApplyError, apply};

use crate::malformed::Layer;
use crate::{Addr, Fields, Headers, Marks, protocol};

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
/// | ports | TCP, UDP, DCCP; SCTP unless fragmented or longer than 65,534 bytes. Not later fragments |
///
/// Of a malformed packet, the layers before the defect are edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Edits {
    /// Which of the fields below are meant.
    set: Fields,
    src: Addr,
    dst: Addr,
    src_port: u16,
    dst_port: u16,
    ttl: u8,
    tos: u8,
    vlan: Option<VlanEdit>,
    src_mac: [u8; 6],
    dst_mac: [u8; 6],
}

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
        set: Fields::empty(),
        src: Addr::UNSPECIFIED,
        dst: Addr::UNSPECIFIED,
        src_port: 0,
        dst_port: 0,
        ttl: 0,
        tos: 0,
        vlan: None,
        src_mac: [0; 6],
        dst_mac: [0; 6],
    };

    /// Whether nothing changes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// The fields that change.
    #[inline]
    pub fn fields(&self) -> Fields {
        self.set
    }

    /// Sets the source address. An address of the other family than the packet's is not applied.
    #[inline]
    pub fn set_src(&mut self, addr: Addr) {
        self.src = addr;
        self.set |= Fields::SRC_ADDR;
    }

    /// Sets the destination address, likewise.
    #[inline]
    pub fn set_dst(&mut self, addr: Addr) {
        self.dst = addr;
        self.set |= Fields::DST_ADDR;
    }

    /// Sets the source port; nothing happens to a packet without ports.
    #[inline]
    pub fn set_src_port(&mut self, port: u16) {
        self.src_port = port;
        self.set |= Fields::SRC_PORT;
    }

    /// Sets the destination port, likewise.
    #[inline]
    pub fn set_dst_port(&mut self, port: u16) {
        self.dst_port = port;
        self.set |= Fields::DST_PORT;
    }

    /// Sets the time to live, or hop limit.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        self.ttl = ttl;
        self.set |= Fields::TTL;
    }

    /// Sets the type of service, or traffic class.
    #[inline]
    pub fn set_tos(&mut self, tos: u8) {
        self.tos = tos;
        self.set |= Fields::TOS;
    }

    /// Changes the outermost VLAN tag; only Ethernet frames have one.
    #[inline]
    pub fn set_vlan(&mut self, edit: VlanEdit) {
        self.vlan = Some(edit);
        self.set |= Fields::VLAN;
    }

    /// Sets the source MAC address of an Ethernet frame.
    #[inline]
    pub fn set_src_mac(&mut self, mac: [u8; 6]) {
        self.src_mac = mac;
        self.set |= Fields::SRC_MAC;
    }

    /// Sets the destination MAC address of an Ethernet frame.
    #[inline]
    pub fn set_dst_mac(&mut self, mac: [u8; 6]) {
        self.dst_mac = mac;
        self.set |= Fields::DST_MAC;
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
        let edits = self.applicable_to(headers);
        let has = |field| edits.set.contains(field);
        if has(Fields::SRC_ADDR) {
            headers.src = edits.src;
        }
        if has(Fields::DST_ADDR) {
            headers.dst = edits.dst;
        }
        if has(Fields::SRC_PORT) {
            headers.src_port = edits.src_port;
        }
        if has(Fields::DST_PORT) {
            headers.dst_port = edits.dst_port;
        }
        if has(Fields::TTL) {
            headers.ttl = edits.ttl;
        }
        if has(Fields::TOS) {
            headers.tos = edits.tos;
        }
        if has(Fields::VLAN) {
            edits.apply_vlan_to_headers(headers);
        }
    }

    fn apply_vlan_to_headers(&self, headers: &mut Headers) {
        let tags_received = ethernet_tags(headers).unwrap_or(0);
        let (tags, vlan) = match self.vlan {
            Some(VlanEdit::Rewrite(vlan)) => (tags_received, vlan),
            Some(VlanEdit::Push(vlan)) => (tags_received + 1, vlan),
            Some(VlanEdit::Pop) => (tags_received.saturating_sub(1), 0),
            None => return,
        };
        headers.vlan = vlan;
        headers.marks.set(Marks::VLAN, tags > 0);
        headers.marks.set(Marks::QINQ, tags > 1);
    }

    /// The edits that this packet takes; the one place that knows which.
    fn applicable_to(&self, headers: &Headers) -> Edits {
        let mut edits = *self;
        let is_whole = |layer| match headers.malformed() {
            None => headers.is_well_formed(),
            Some(reason) => layer < reason.layer(),
        };
        let tags = ethernet_tags(headers).filter(|_| is_whole(Layer::Link));
        let takes_vlan = match (self.vlan, tags) {
            (Some(VlanEdit::Push(_)), Some(tags)) => tags < 2,
            (Some(_), Some(tags)) => tags > 0,
            _ => false,
        };
        let is_ip = headers.is_ip() && is_whole(Layer::Ip);
        let is_v4 = headers.marks.contains(Marks::IPV4);
        let has_ports = match headers.protocol {
            protocol::TCP | protocol::UDP | protocol::DCCP => headers.has_transport(),
            // Its CRC covers the whole message: to mend it, the message's length must be known.
            protocol::SCTP => headers.has_transport() && !headers.is_fragment() && headers.l3_len < u16::MAX,
            _ => false,
        };
        let takes = [
            (Fields::SRC_MAC | Fields::DST_MAC, tags.is_some()),
            (Fields::VLAN, takes_vlan),
            (Fields::TTL | Fields::TOS, is_ip),
            (Fields::SRC_ADDR, is_ip && self.src.to_v4().is_some() == is_v4),
            (Fields::DST_ADDR, is_ip && self.dst.to_v4().is_some() == is_v4),
            (Fields::SRC_PORT | Fields::DST_PORT, has_ports),
        ];
        for (fields, taken) in takes {
            if !taken {
                edits.set.remove(fields);
            }
        }
        edits
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
