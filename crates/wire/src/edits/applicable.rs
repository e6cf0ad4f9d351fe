//! Which edits a packet takes.

use super::{Edits, OF_V6, VlanEdit, ethernet_tags};
use crate::icmp::{Quoted, Shape};
use crate::malformed::Layer;
use crate::{Fields, Headers, Malformed, Marks, protocol, tcp_flags};

impl Edits {
    /// Which of the edits this packet takes; the one place that knows all the rules.
    #[inline(never)]
    pub(super) fn applicable_to(&self, headers: &Headers) -> Fields {
        let (is_link_whole, is_ip_whole) = whole_layers(headers);
        let mut taken = Fields::empty();
        if is_link_whole && let Some(tags) = ethernet_tags(headers) {
            taken |= Fields::SRC_MAC | Fields::DST_MAC;
            let takes_vlan = match self.line.vlan {
                VlanEdit::Push(_) => tags < 2,
                VlanEdit::Rewrite(_) | VlanEdit::Pop => tags > 0,
            };
            taken.set(Fields::VLAN, takes_vlan);
        }
        if is_ip_whole && headers.is_ip() {
            let is_v4 = headers.marks.contains(Marks::IPV4);
            taken |= Fields::TTL | Fields::TOS | Fields::TUNNEL;
            taken.set(Fields::SRC_ADDR, self.line.src.to_v4().is_some() == is_v4);
            taken.set(Fields::DST_ADDR, self.line.dst.to_v4().is_some() == is_v4);
        }
        let has_ports = match headers.protocol {
            // Those of a later fragment are written nowhere, and headers have them if they are known.
            protocol::TCP | protocol::UDP | protocol::DCCP => headers.has_flow(),
            // Its CRC covers the whole message: to mend it, the message's length must be known.
            protocol::SCTP => headers.has_transport() && !headers.is_fragment() && headers.l3_len < u16::MAX,
            _ => false,
        };
        taken.set(Fields::SRC_PORT | Fields::DST_PORT, has_ports);
        taken.set(Fields::MSS, headers.is_tcp() && has_ports && headers.tcp_flags & tcp_flags::SYN != 0);
        if matches!(headers.protocol, protocol::ICMP | protocol::ICMPV6) {
            taken |= icmp_ports(headers);
        }
        self.line.set & taken
    }

    /// The fields that can be edited, MAC addresses aside, where few rules decide: a whole TCP or UDP packet over
    /// IPv4 takes
    /// all but addresses of the other family. `None` for other packets, and with a VLAN edit.
    #[inline]
    pub(super) fn applicable_to_plain(&self, headers: &Headers) -> Option<Fields> {
        if !headers.is_plain_ipv4() || self.line.set.contains(Fields::VLAN) {
            return None;
        }
        let mut set = self.line.set;
        if !set.intersects(OF_V6) {
            return Some(set);
        }
        set.remove(OF_V6);
        if set.contains(Fields::SRC_ADDR) && self.line.src.to_v4().is_none() {
            set.remove(Fields::SRC_ADDR);
        }
        if set.contains(Fields::DST_ADDR) && self.line.dst.to_v4().is_none() {
            set.remove(Fields::DST_ADDR);
        }
        Some(set)
    }
}

/// Which ports an ICMP message has.
fn icmp_ports(headers: &Headers) -> Fields {
    match Shape::of(headers) {
        Some(Shape::Request | Shape::Error { quoted: Quoted::Reply, .. }) => Fields::SRC_PORT,
        Some(Shape::Reply | Shape::Error { quoted: Quoted::Request, .. }) => Fields::DST_PORT,
        Some(Shape::Error { quoted: Quoted::Tcp | Quoted::Udp, .. }) => Fields::PORTS,
        None => Fields::empty(),
    }
}

/// Whether the link's headers and the IP header could be believed.
#[inline]
fn whole_layers(headers: &Headers) -> (bool, bool) {
    if headers.is_well_formed() {
        return (true, true);
    }
    let defect = headers.malformed().map(Malformed::layer);
    (defect > Some(Layer::Link), defect > Some(Layer::Ip))
}
