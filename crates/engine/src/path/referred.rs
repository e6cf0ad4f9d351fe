//! What a card says of packets' flows, as far as groups are concerned: in which blocks they are (Dyssect §IV-C).
//!
//! ```text
//!   0                       32                      64
//!   | block of one group + 1 | the same of another  |        0: none
//! ```
//!
//! The first two of a chain's groups with tables by shard have a place. Which table a block is in is not said: the
//! packet's entry of the indirection table decides that, here as elsewhere. So a reference stays right when a shard
//! goes to another core with its tables. Whether the flow is in that block its key decides: a reference may be old,
//! another flow's, or nothing that anyone wrote.

use io::Reference;
use table::Slot;

use crate::path::packets::BATCH_PACKETS;

/// Groups that have a place in a reference.
pub(crate) const GROUPS: usize = 2;

/// The reference to a flow with these blocks.
#[inline]
pub(crate) fn reference_to(slots: [Slot; GROUPS]) -> Reference {
    let [one, other] = slots.map(|slot| u64::from(slot.number().wrapping_add(1)));
    Reference(one | other << 32)
}

/// The block that a reference says of a group, the first or the second; no block if it says none.
#[inline(always)]
pub(crate) fn slot_of(reference: Reference, group: usize) -> Slot {
    Slot::of_number(((reference.0 >> (32 * group)) as u32).wrapping_sub(1))
}

/// What is said of the packets of a batch, of one group.
pub(crate) struct Said {
    /// Bit *i*: something is said of packet *i*.
    pub(crate) packets: u64,
    /// Which block it names.
    pub(crate) slots: [Slot; BATCH_PACKETS],
    /// Bit *i*: that block does not have the flow of packet *i*, or the flow has ended.
    pub(crate) wrong: u64,
}

impl Said {
    pub(crate) const NOTHING: Said = Said { packets: 0, slots: [Slot::NONE; BATCH_PACKETS], wrong: 0 };

    /// Takes down what references say of a group.
    #[inline]
    pub(crate) fn note(&mut self, references: &[Reference], group: usize) {
        let Said { packets, slots, wrong } = self;
        (*packets, *wrong) = (0, 0);
        for (packet, (reference, slot)) in references.iter().zip(slots).enumerate() {
            *slot = slot_of(*reference, group);
            *packets |= u64::from(slot.is_some()) << packet;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_out_as_they_went_in() {
        let slot = Slot::of_number;
        for slots in [[slot(0), slot(7)], [slot(u32::MAX - 1), Slot::NONE], [Slot::NONE, slot(0)]] {
            let reference = reference_to(slots);
            assert_eq!([0, 1].map(|group| slot_of(reference, group)), slots);
        }
        assert_eq!(reference_to([Slot::NONE; 2]), Reference::NONE);
        // In hex, as a card has it: blocks 4 and 0x1233.
        assert_eq!(reference_to([slot(4), slot(0x1233)]).0, 0x0000_1234_0000_0005);
    }
}
