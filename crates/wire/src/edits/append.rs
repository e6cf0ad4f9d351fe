//! Edits after edits.

use super::Edits;
use crate::Fields;

impl Edits {
    /// Makes `later` edits after those so far: of a field that both set, the later one holds.
    #[inline(always)]
    pub fn append(&mut self, later: &Edits) {
        match self.is_empty() {
            // A tunnel is a second cache line, which few have.
            true => {
                *self = Edits { tunnel: self.tunnel, ..*later };
                if later.set.contains(Fields::TUNNEL) {
                    self.tunnel = later.tunnel;
                }
            }
            false => self.append_to_some(later),
        }
    }

    #[inline(never)]
    fn append_to_some(&mut self, later: &Edits) {
        let mss = [&*self, later].iter().filter_map(|edits| edits.mss()).min();
        let of = |field| if later.set.contains(field) { later } else { &*self };
        *self = Edits {
            src: of(Fields::SRC_ADDR).src,
            dst: of(Fields::DST_ADDR).dst,
            set: self.set | later.set,
            src_port: of(Fields::SRC_PORT).src_port,
            dst_port: of(Fields::DST_PORT).dst_port,
            ttl: of(Fields::TTL).ttl,
            tos: of(Fields::TOS).tos,
            vlan: of(Fields::VLAN).vlan,
            mss: mss.unwrap_or_default(),
            src_mac: of(Fields::SRC_MAC).src_mac,
            dst_mac: of(Fields::DST_MAC).dst_mac,
            tunnel: of(Fields::TUNNEL).tunnel,
        };
    }
}
