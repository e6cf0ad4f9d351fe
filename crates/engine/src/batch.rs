use io::{Closed, EngineDrop, Fate, Frame, Port};
use wire::{Edits, Headers};

/// The most packets that are worked on at once. A batch is never broken on its way through the chain.
pub const BATCH_PACKETS: usize = 64;

/// Packets on their way through the chain, as arrays: entry *i* of each is the *i*-th packet's.
pub struct Batch {
    /// The packets themselves, with their stamps.
    pub frames: Vec<Frame>,
    /// What was parsed, with all edits so far made visible.
    pub headers: Vec<Headers>,
    /// The edits so far.
    pub edits: Vec<Edits>,
    /// What becomes of each packet, so far.
    pub fates: Vec<Fate>,
    /// Bit *i*: no verdict has ended the chain for packet *i*.
    pub live: u64,
}

const _: () = assert!(BATCH_PACKETS <= u64::BITS as usize);

impl Batch {
    /// An empty batch with all its memory.
    pub fn new() -> Batch {
        Batch {
            frames: Vec::with_capacity(BATCH_PACKETS),
            headers: Vec::with_capacity(BATCH_PACKETS),
            edits: Vec::with_capacity(BATCH_PACKETS),
            fates: Vec::with_capacity(BATCH_PACKETS),
            live: 0,
        }
    }

    /// Packets in the batch.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Ends the chain for a packet.
    #[inline]
    pub fn end(&mut self, index: usize, fate: Fate) {
        self.live &= !(1 << index);
        self.fates[index] = fate;
    }

    /// Begins the chain for the received frames, whose headers are parsed: no edits yet, all live
    /// but, where they are to be dropped, the malformed ones.
    #[inline]
    pub(crate) fn begin(&mut self, drop_malformed: bool) {
        let packets = self.frames.len();
        self.edits.clear();
        self.edits.resize(packets, Edits::NONE);
        self.fates.clear();
        self.fates.resize(packets, Fate::Forward);
        self.live = 0;
        for (i, headers) in self.headers.iter().enumerate() {
            match headers.is_well_formed() {
                true => self.live |= 1 << i,
                false if drop_malformed => self.fates[i] = Fate::Drop(EngineDrop::Malformed),
                // Passed on, but no function sees what could not be parsed.
                false => (),
            }
        }
    }

    /// Gives the packets back to the port with what becomes of them, and leaves the batch empty.
    #[inline]
    pub(crate) fn send(&mut self, port: &mut impl Port) -> Result<(), Closed> {
        self.headers.clear();
        port.send(&mut self.frames, &self.fates)
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

/// The packets of a set, by index, in order.
#[inline]
pub(crate) fn bits(mut packets: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (packets != 0).then(|| {
            let index = packets.trailing_zeros() as usize;
            packets &= packets - 1;
            index
        })
    })
}

/// The first `count` packets of a set.
#[inline]
pub(crate) fn first_bits(packets: u64, count: usize) -> u64 {
    if packets.count_ones() as usize <= count {
        return packets;
    }
    let rest = (0..count).fold(packets, |rest, _| rest & (rest - 1));
    packets & !rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_packets_of_a_set() {
        let set = 0b1011_0110;
        assert_eq!([0, 1, 3, 5, 64].map(|count| first_bits(set, count)), [0, 0b10, 0b1_0110, set, set]);
        assert_eq!(first_bits(u64::MAX, 63), u64::MAX >> 1);
        assert!(bits(set).eq([1, 2, 4, 5, 7]));
    }
}
