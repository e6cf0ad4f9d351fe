//! Edits of a packet whose fields are where those of most are.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::super::OF_V6;
use crate::checksum::{Difference, Sum};
use crate::{Edits, Fields};

/// An Ethernet frame without tags, IPv4 without options, and what TCP and UDP have in common.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Plain {
    dst_mac: [u8; 6],
    src_mac: [u8; 6],
    ethertype: [u8; 2],
    version_and_tos: [u8; 2],
    lengths_and_fragment: [u8; 6],
    ttl_and_protocol: [u8; 2],
    ip_checksum: [u8; 2],
    /// Source, then destination.
    addrs: [u8; 8],
    src_port: [u8; 2],
    dst_port: [u8; 2],
    /// The lower half of TCP's sequence number.
    udp_length: [u8; 2],
    udp_checksum: [u8; 2],
    /// TCP's begins 8 bytes into this.
    rest: [u8],
}

/// What makes a frame longer, and the mark of an address of IPv6.
const LONGER_OR_V6: Fields = Fields::VLAN.union(Fields::TUNNEL).union(OF_V6);

/// By the edits of addresses, source and destination: which bytes of [`Plain::addrs`] they change.
const ADDRS_OF: [u64; 4] = {
    let (src, dst) = (u64::from_ne_bytes([255, 255, 255, 255, 0, 0, 0, 0]), u64::MAX);
    [0, src, dst ^ src, dst]
};

impl Edits {
    /// See [`apply_plain`](super::apply_plain).
    #[inline(always)]
    pub(super) fn apply_plain(&self, is_udp: bool, frame: &mut [u8]) -> bool {
        // Most are of addresses alone: one test says so, and spares the others.
        match self.line.set.difference(Fields::ADDRS).is_empty() {
            true => self.write_plain::<false>(is_udp, frame),
            false => self.write_plain::<true>(is_udp, frame),
        }
    }

    /// See [`apply_plain`](super::apply_plain); without `OTHERS` addresses alone are edited.
    #[inline(always)]
    fn write_plain<const OTHERS: bool>(&self, is_udp: bool, frame: &mut [u8]) -> bool {
        const {
            assert!(Fields::ADDRS.bits() == 0b11 && Fields::SRC_ADDR.bits() == 1, "an index of ADDRS_OF");
        }
        const IN_IP: Fields = Fields::TTL.union(Fields::TOS);
        const IN_LINK_OR_IP: Fields = Fields::SRC_MAC.union(Fields::DST_MAC).union(IN_IP);
        let set = self.line.set;
        // Without others there is no address of IPv6, whose mark would be among them.
        if OTHERS && set.intersects(LONGER_OR_V6.union(Fields::MSS)) {
            return false;
        }
        let Ok(plain) = Plain::mut_from_bytes(frame) else { return false };
        let tcp_checksum = plain.rest.get_mut(8..).and_then(|rest| rest.first_chunk_mut());
        let checksum = match tcp_checksum {
            _ if is_udp => &mut plain.udp_checksum,
            Some(tcp_checksum) => tcp_checksum,
            None => return false,
        };
        let edited = ADDRS_OF[(set.bits() & Fields::ADDRS.bits()) as usize];
        let before = u64::from_ne_bytes(plain.addrs);
        let ([s0, s1, s2, s3], [d0, d1, d2, d3]) = (self.line.src.last4(), self.line.dst.last4());
        let addrs = u64::from_ne_bytes([s0, s1, s2, s3, d0, d1, d2, d3]);
        let after = before ^ (before ^ addrs) & edited;
        plain.addrs = after.to_ne_bytes();
        let addrs = Sum::of_change(before, after);
        let mut change = addrs.folded();
        change.mend(&mut plain.ip_checksum);
        if OTHERS && set.intersects(Fields::PORTS) {
            let mut ports = Difference::default();
            self.write_ports(set, &mut plain.src_port, &mut plain.dst_port, &mut ports);
            change = addrs.plus(ports.sum()).folded();
        }
        match is_udp {
            true => change.mend_udp(checksum),
            false => change.mend(checksum),
        }
        if OTHERS && set.intersects(IN_LINK_OR_IP) {
            self.write_macs(set, &mut plain.dst_mac, &mut plain.src_mac);
            if set.intersects(IN_IP) {
                self.write_tos_and_ttl(set, &mut plain.version_and_tos, &mut plain.ttl_and_protocol)
                    .mend(&mut plain.ip_checksum);
            }
        }
        true
    }
}
