//! What a port does about packets with a source address of another side inside than that of their interface.

use io::{Frame, Note};
use nf::prefix::PrefixSet;
use wire::{Headers, Side};

use super::LivePort;

impl LivePort {
    /// Notes of packets just received by an interface inside, whose source is one of `others`, hosts of other sides inside, that
    /// they come from outside. To the chain, which knows two directions, their source address is of the other side then, as
    /// that of every forged packet: they are spoofed.
    #[cold]
    pub(super) fn note_forged(&self, frames: &mut [Frame], others: &PrefixSet) {
        for frame in frames {
            let mut headers = Headers::default();
            wire::parse_into(frame.link, self.pool.bytes(frame), frame.wire_len, &mut headers);
            if headers.is_ip() && others.contains(headers.src) {
                frame.note = Note::by(Some(Side::Outside));
            }
        }
    }
}
