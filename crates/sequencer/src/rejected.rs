//! The reasons for which a packet with history is rejected.

use thiserror::Error;

/// Why a packet with history is not taken.
///
/// The order is that in which a receiver looks, and counters index by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[repr(u8)]
pub enum Rejected {
    /// Begins with neither the magic nor an outer Ethernet header before it.
    #[error("not a packet with history: neither the magic nor an outer Ethernet header is there")]
    NotHistory,
    /// The bytes end inside the fixed header.
    #[error("the packet ends inside the header of its history")]
    HeaderTruncated,
    /// Another version than this receiver is set up for.
    #[error("the history is of another version than is read here; bring both ends to one version")]
    Version,
    /// A flag that this version does not have, or a reason to refuse the packet that only its receiver gives.
    #[error("the history has a flag that its version does not have")]
    Flags,
    /// A link type of the packet that cannot be parsed.
    #[error("the packet behind the history is of a link type that cannot be parsed")]
    LinkType,
    /// Items hold something else: the sequencer was set up for another chain.
    #[error("items hold something else than this chain reads; set the sequencer up for this chain")]
    OtherLayout,
    /// The length of items is not that of the layout.
    #[error("items are not as long as their layout says")]
    ItemLength,
    /// Hashes are made with another seed than the receiver's tables have.
    #[error("the items' hashes are made with another seed than this receiver's tables have")]
    OtherSeed,
    /// More items in the ring than any sequencer has.
    #[error("the ring has more items than any sequencer keeps")]
    RingTooLarge,
    /// The bytes end inside the ring.
    #[error("the packet ends inside its history")]
    RingTruncated,
    /// More valid items than the ring has.
    #[error("more items are said to be valid than the ring has")]
    CountBeyondRing,
    /// More valid items than packets came before.
    #[error("more items are said to be valid than packets came before this one")]
    CountBeyondSequence,
    /// The oldest item is outside of the ring.
    #[error("the oldest item is said to be outside of the ring")]
    OldestBeyondRing,
    /// The oldest item is not where the sequence number puts it.
    #[error("the oldest item is not in the slot of its sequence number")]
    OldestMisplaced,
    /// An item is later than the one after it, or than the packet.
    #[error("time runs back within the history")]
    TimeRunsBack,
    /// Something behind a flush, which has no packet.
    #[error("something follows a flush, which carries no packet")]
    FlushWithPacket,
    /// The sequence number is not above that of the packet before: it repeats, or goes back.
    #[error("the sequence number repeats or goes back")]
    SequenceGoesBack,
}

impl Rejected {
    /// Every reason, in order.
    pub const ALL: [Rejected; 17] = [
        Rejected::NotHistory,
        Rejected::HeaderTruncated,
        Rejected::Version,
        Rejected::Flags,
        Rejected::LinkType,
        Rejected::OtherLayout,
        Rejected::ItemLength,
        Rejected::OtherSeed,
        Rejected::RingTooLarge,
        Rejected::RingTruncated,
        Rejected::CountBeyondRing,
        Rejected::CountBeyondSequence,
        Rejected::OldestBeyondRing,
        Rejected::OldestMisplaced,
        Rejected::TimeRunsBack,
        Rejected::FlushWithPacket,
        Rejected::SequenceGoesBack,
    ];

    /// A stable name for reports, such as `count-beyond-ring`.
    pub fn name(self) -> &'static str {
        match self {
            Rejected::NotHistory => "not-history",
            Rejected::HeaderTruncated => "header-truncated",
            Rejected::Version => "version",
            Rejected::Flags => "flags",
            Rejected::LinkType => "link-type",
            Rejected::OtherLayout => "other-layout",
            Rejected::ItemLength => "item-length",
            Rejected::OtherSeed => "other-seed",
            Rejected::RingTooLarge => "ring-too-large",
            Rejected::RingTruncated => "ring-truncated",
            Rejected::CountBeyondRing => "count-beyond-ring",
            Rejected::CountBeyondSequence => "count-beyond-sequence",
            Rejected::OldestBeyondRing => "oldest-beyond-ring",
            Rejected::OldestMisplaced => "oldest-misplaced",
            Rejected::TimeRunsBack => "time-runs-back",
            Rejected::FlushWithPacket => "flush-with-packet",
            Rejected::SequenceGoesBack => "sequence-goes-back",
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::String;

    use super::*;

    #[test]
    fn every_reason_is_where_its_number_says_and_has_the_name_of_its_variant() {
        for (index, reason) in Rejected::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index, "{}", reason.name());
            let words = reason.name().split('-').map(|word| {
                let (first, rest) = word.split_at(1);
                first.to_uppercase() + rest
            });
            assert_eq!(words.collect::<String>(), std::format!("{reason:?}"));
        }
    }
}
