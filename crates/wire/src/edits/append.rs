//! Edits after edits.

use super::{Edits, Line};
use crate::Fields;

impl Edits {
    /// Makes `later` edits after those so far: of a field that both set, the later one holds.
    #[inline(always)]
    pub fn append(&mut self, later: &Edits) {
        match self.is_empty() {
            // A tunnel is a second cache line, which few have.
            true => {
                self.line = later.line;
                if later.line.set.contains(Fields::TUNNEL) {
                    self.tunnel = later.tunnel;
                }
            }
            false => self.append_to_some(later),
        }
    }

    #[inline(never)]
    fn append_to_some(&mut self, later: &Edits) {
        let mss = [&*self, later].iter().filter_map(|edits| edits.mss()).min();
        let of = |field| if later.line.set.contains(field) { later } else { &*self };
        let line = Line {
            src: of(Fields::SRC_ADDR).line.src,
            dst: of(Fields::DST_ADDR).line.dst,
            set: self.line.set | later.line.set,
            src_port: of(Fields::SRC_PORT).line.src_port,
            dst_port: of(Fields::DST_PORT).line.dst_port,
            ttl: of(Fields::TTL).line.ttl,
            tos: of(Fields::TOS).line.tos,
            vlan: of(Fields::VLAN).line.vlan,
            mss: mss.unwrap_or_default(),
            src_mac: of(Fields::SRC_MAC).line.src_mac,
            dst_mac: of(Fields::DST_MAC).line.dst_mac,
        };
        *self = Edits { line, tunnel: of(Fields::TUNNEL).tunnel };
    }
}
