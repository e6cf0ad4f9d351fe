//! A batch: packets on their way through the chain, as arrays.

use io::{Closed, EngineDrop, Fate, Frame, Port};
use table::Watermark;
use wire::{Edits, Headers, Malformed};

use crate::path::packets::{BATCH_PACKETS, all_bits, bits};

/// Packets on their way through the chain, as arrays: entry *i* of each is the *i*-th packet's. What lies
/// behind the last packet's means nothing.
pub struct Batch {
    /// The packets themselves, with their stamps.
    pub frames: Vec<Frame>,
    /// What was parsed, with all edits so far made visible.
    pub headers: Box<[Headers; BATCH_PACKETS]>,
    /// The edits so far; none between two batches.
    pub edits: Box<[Edits; BATCH_PACKETS]>,
    /// What becomes of each packet, so far; [`Fate::Forward`] between two batches.
    pub fates: Box<[Fate; BATCH_PACKETS]>,
    /// Bit *i*: packet *i* is well-formed, and nothing has ended the chain for it, so that it is forwarded.
    pub live: u64,
    /// Bit *i*: entry *i* is no packet of this core but one that another core has, of which only the headers are
    /// known: it is stepped for its flow's sake, and no more becomes of it (SCR §3.2).
    pub history: u64,
    /// Bit *i*: packet *i* is [plain](Headers::is_plain), as parsed. Not all that are need be known.
    pub plain: u64,
    /// Bit *i*: what is parsed of packet *i* is here already.
    pub(crate) parsed: u64,
    /// Whether functions are met in reverse, from the chain's last to its first: by packets from outside.
    pub(crate) is_reversed: bool,
    /// Packets that wait for their flows, here or on another core, are no older than this, but may be older than those
    /// of the batch: see [`Batch::watermark`]. `u64::MAX` where flows stay, or nothing waits.
    pub oldest_ns: u64,
}

const _: () = assert!(BATCH_PACKETS <= u64::BITS as usize);

impl Batch {
    /// An empty batch with all its memory.
    pub fn new() -> Batch {
        Batch {
            frames: Vec::with_capacity(BATCH_PACKETS),
            headers: Box::new([Headers::default(); BATCH_PACKETS]),
            edits: Box::new([Edits::NONE; BATCH_PACKETS]),
            fates: Box::new([Fate::Forward; BATCH_PACKETS]),
            live: 0,
            history: 0,
            plain: 0,
            parsed: 0,
            is_reversed: false,
            oldest_ns: u64::MAX,
        }
    }

    /// Entries of the batch.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// As of when flows may be forgotten once the batch has come to a packet of time `now_ns`: not later than that
    /// packet, since packets of a batch come in order, and not later than one that waits.
    #[inline]
    pub fn watermark(&self, now_ns: u64) -> Watermark {
        Watermark::claim(now_ns.min(self.oldest_ns))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The packets that are not live: the few that have to be looked at one by one.
    #[inline]
    pub(crate) fn ended(&self) -> u64 {
        all_bits(self.len()) & !self.live
    }

    /// Whether the packet is this core's own.
    #[inline(always)]
    pub(crate) fn is_own(&self, packet: usize) -> bool {
        self.history >> packet & 1 == 0
    }

    /// This core's own packets.
    #[inline]
    pub(crate) fn own(&self) -> u64 {
        all_bits(self.len()) & !self.history
    }

    /// Ends the chain for a packet.
    #[inline]
    pub fn end(&mut self, index: usize, fate: Fate) {
        self.live &= !(1 << index);
        self.fates[index] = fate;
    }

    /// A packet is spoofed: no function sees it. Its frame says so to those that do not have its headers.
    #[cold]
    pub(super) fn find_spoofed(&mut self, packet: usize) {
        let frame = &mut self.frames[packet];
        frame.note = frame.note.with_refused(Some(Malformed::Spoofed));
        self.live &= !(1 << packet);
    }

    /// Begins the chain for packets whose headers are parsed. What could not be parsed no function sees; it
    /// is dropped or passed on. What is spoofed is dropped.
    #[inline]
    pub(crate) fn begin(&mut self, drop_malformed: bool) {
        debug_assert!(self.edits.iter().all(Edits::is_empty), "edits of the batch before");
        debug_assert!(self.fates.iter().all(|fate| *fate == Fate::Forward), "fates of the batch before");
        for malformed in bits(self.ended()) {
            if drop_malformed || self.headers[malformed].malformed_code == Malformed::Spoofed as u8 {
                self.fates[malformed] = Fate::Drop(EngineDrop::Malformed);
            }
        }
    }

    /// Gives the packets back to the port with what becomes of them, and leaves the batch empty.
    #[inline]
    pub(crate) fn send(&mut self, port: &mut impl Port) -> Result<(), Closed> {
        self.forget_history();
        self.parsed = 0;
        let ended = self.ended();
        let packets = self.len();
        let sent = port.send(&mut self.frames, &self.fates[..packets]);
        bits(ended).for_each(|packet| self.fates[packet] = Fate::Forward);
        sent
    }
}

impl Batch {
    /// Leaves this core's own packets.
    #[inline]
    fn forget_history(&mut self) {
        if self.history == 0 {
            return;
        }
        let (own, ended) = (self.own(), self.ended());
        let packets = self.len();
        let before_own = (own.trailing_zeros() as usize).min(packets);
        if all_bits(packets) & !all_bits(before_own) == own {
            // As where all history is behind some packet of this core, but for what came before the first.
            self.frames.drain(..before_own);
        } else {
            let mut packet = 0;
            self.frames.retain(|_| {
                packet += 1;
                own >> (packet - 1) & 1 == 1
            });
        }
        self.live = all_bits(self.len());
        if ended != 0 {
            for (to, from) in bits(own).enumerate() {
                self.fates.swap(to, from);
                self.live &= !((ended >> from & 1) << to);
            }
            self.fates[self.frames.len()..packets].fill(Fate::Forward);
        }
        self.history = 0;
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}
