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

    /// The packets that are still in the chain, by index.
    #[inline]
    pub fn live(&self) -> impl Iterator<Item = usize> + use<> {
        let mut live = self.live;
        std::iter::from_fn(move || {
            (live != 0).then(|| {
                let index = live.trailing_zeros() as usize;
                live &= live - 1;
                index
            })
        })
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
