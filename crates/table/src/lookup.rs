//! Look-ups of a batch: three passes, so that the lines that each needs are on their way while it works on others.

use memory::{Reach, prefetch_lines_to};
use nf::{FlowKey, Short};

use crate::blocks::{LinesAhead, TAKEN};
use crate::slot::Slot;
use crate::table::{FlowTable, tag};

/// The most packets that are looked up at once.
pub const BATCH_MAX: usize = 64;

/// What a packet is looked up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Low and high half of what stands for the key.
    short: [u64; 2],
    /// Its hash; and [`TAKEN`] where that holds all of the key: as a block has it whose flow it is then.
    identity: u64,
}

/// Set in what is looked up by a part of its key, and in no block.
const IN_PART: u64 = TAKEN << 1;

impl Wanted {
    /// What a packet that looks nothing up has.
    pub const NONE: Wanted = Wanted { short: [0; 2], identity: IN_PART };

    /// By what stands for the key, and its [`hash`](crate::hash).
    #[inline(always)]
    pub fn new(short: Short, hash: u32) -> Wanted {
        let halves = [short.bits as u64, (short.bits >> 64) as u64];
        let kind = if short.is_exact { TAKEN } else { IN_PART };
        Wanted { short: halves, identity: u64::from(hash) | kind }
    }

    /// Whether both are certainly of one key, so that one of them need not be looked up.
    #[inline(always)]
    pub fn is_same(&self, other: &Wanted) -> bool {
        self.short == other.short && self.is_exact() & other.is_exact()
    }

    #[inline(always)]
    fn is_exact(&self) -> bool {
        self.identity & TAKEN != 0
    }

    /// What stands for the key.
    #[inline(always)]
    pub fn short(&self) -> Short {
        let [low, high] = self.short;
        Short { bits: u128::from(low) | u128::from(high) << 64, is_exact: self.is_exact() }
    }

    /// Its hash.
    #[inline(always)]
    pub fn hash(&self) -> u32 {
        self.identity as u32
    }
}

/// The packets of a set, by index, in order: bit *i* stands for packet *i*.
#[inline(always)]
pub fn bits(mut packets: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (packets != 0).then(|| {
            let packet = packets.trailing_zeros() as usize;
            packets &= packets - 1;
            packet
        })
    })
}

/// How many packets are in the set, if they are the first ones. Most sets are so: a count takes less than a set.
#[inline(always)]
pub fn count_of_first(packets: u64) -> Option<usize> {
    (packets & packets.wrapping_add(1) == 0).then(|| packets.trailing_ones() as usize)
}

/// Takes each packet of the set, by index, with what it is looked up by and its block.
#[inline(always)]
fn each(
    packets: u64,
    wanted: &[Wanted],
    slots: &mut [Slot; BATCH_MAX],
    mut run: impl FnMut(usize, &Wanted, &mut Slot),
) {
    match count_of_first(packets) {
        Some(count) => {
            let all = wanted[..count].iter().zip(slots);
            all.enumerate().for_each(|(packet, (wanted, slot))| run(packet, wanted, slot));
        }
        None => bits(packets).for_each(|packet| run(packet, &wanted[packet], &mut slots[packet])),
    }
}

impl<K: FlowKey> FlowTable<K> {
    /// First pass: asks for the buckets of packets. Bit *i* of `packets` stands for entry *i* of `wanted`.
    #[inline]
    pub fn ask(&self, packets: u64, wanted: &[Wanted]) {
        match Reach::here() {
            Reach::Near => self.ask_to::<{ Reach::NEAR }>(packets, wanted),
            Reach::Far => self.ask_to::<{ Reach::FAR }>(packets, wanted),
            Reach::Off => self.ask_to::<{ Reach::OFF }>(packets, wanted),
        }
    }

    #[inline(always)]
    fn ask_to<const REACH: u8>(&self, packets: u64, wanted: &[Wanted]) {
        let ask = |wanted: &Wanted| self.prefetch_bucket_to::<REACH>(wanted.hash());
        match count_of_first(packets) {
            Some(count) => wanted[..count].iter().for_each(ask),
            None => bits(packets).for_each(|packet| ask(&wanted[packet])),
        }
    }

    /// Second pass: reads the buckets, and asks for the blocks that may be the packets' flows'.
    #[inline]
    pub fn candidates(&self, packets: u64, wanted: &[Wanted], slots: &mut [Slot; BATCH_MAX]) {
        match Reach::here() {
            Reach::Near => self.candidates_to::<{ Reach::NEAR }>(packets, wanted, slots),
            Reach::Far => self.candidates_to::<{ Reach::FAR }>(packets, wanted, slots),
            Reach::Off => self.candidates_to::<{ Reach::OFF }>(packets, wanted, slots),
        }
    }

    #[inline(always)]
    fn candidates_to<const REACH: u8>(&self, packets: u64, wanted: &[Wanted], slots: &mut [Slot; BATCH_MAX]) {
        let lines_ahead = self.blocks.lines_ahead();
        each(packets, wanted, slots, |_, wanted, slot| {
            *slot = self.candidate_among::<REACH>(wanted.hash(), lines_ahead);
        });
    }

    /// Third pass: leaves in `slots`, where the candidates are, each packet's block, dead or alive, or [`Slot::NONE`];
    /// says which packets have one. `key` is asked where what stands for the key does not hold all of it.
    #[inline]
    pub fn find_all(
        &self,
        packets: u64,
        wanted: &[Wanted],
        slots: &mut [Slot; BATCH_MAX],
        key: impl Fn(usize) -> K,
    ) -> u64 {
        // Those that are not at once what was looked for come after, so that the loop has the registers.
        let mut others = 0;
        each(packets, wanted, slots, |packet, wanted, slot| {
            if !self.is_at(*slot, wanted) {
                others |= 1 << packet;
            }
        });
        let mut misses = 0;
        for packet in bits(others) {
            slots[packet] = self.confirm_slowly(slots[packet], &wanted[packet], || key(packet));
            if !slots[packet].is_some() {
                misses |= 1 << packet;
            }
        }
        packets & !misses
    }

    /// The block of one packet, of which `candidate` is what the second pass gave, now or before.
    #[inline(always)]
    pub fn confirm(&self, candidate: Slot, wanted: &Wanted, key: impl Fn() -> K) -> Slot {
        match self.is_at(candidate, wanted) {
            true => candidate,
            false => self.confirm_slowly(candidate, wanted, key),
        }
    }

    /// Takes the place of the second pass for a packet that comes with the number of its flow's block: if that
    /// block has the flow with this key, returns what the flow is looked up by. Neither a hash nor a bucket is
    /// needed then.
    #[inline(always)]
    pub fn wanted_at(&self, said: Slot, short: Short, key: impl FnOnce() -> K) -> Option<Wanted> {
        let identity = self.blocks.identity_of(said.0, short, key)?;
        Some(Wanted::new(short, identity as u32))
    }

    /// Whether the candidate is certainly the packet's block.
    #[inline(always)]
    fn is_at(&self, candidate: Slot, wanted: &Wanted) -> bool {
        self.blocks.is_of(candidate.0, wanted.short, wanted.identity)
    }

    /// A key that has to be compared whole, or a flow that is not where it was looked for.
    #[inline(never)]
    fn confirm_slowly(&self, candidate: Slot, wanted: &Wanted, key: impl Fn() -> K) -> Slot {
        self.locate(candidate, wanted.hash(), wanted.short(), key)
    }

    /// Second pass of one packet: the block that may be its flow's.
    #[inline(always)]
    pub fn candidate(&self, hash: u32) -> Slot {
        match Reach::here() {
            Reach::Near => self.candidate_to::<{ Reach::NEAR }>(hash),
            Reach::Far => self.candidate_to::<{ Reach::FAR }>(hash),
            Reach::Off => self.candidate_to::<{ Reach::OFF }>(hash),
        }
    }

    /// As [`FlowTable::candidate`], for loops that were chosen by [`Reach::here`](memory::Reach::here).
    #[inline(always)]
    pub fn candidate_to<const REACH: u8>(&self, hash: u32) -> Slot {
        self.candidate_among::<REACH>(hash, self.blocks.lines_ahead())
    }

    #[inline(always)]
    fn candidate_among<const REACH: u8>(&self, hash: u32, lines_ahead: LinesAhead) -> Slot {
        let primary = self.primary(hash);
        let bucket = &self.buckets[primary];
        if let Some(block) = bucket.first_match(tag(hash)) {
            lines_ahead.prefetch::<REACH>(block);
            return Slot(block);
        }
        if bucket.spilled() > 0 {
            let alternate = &self.buckets[self.alternate(primary, tag(hash))];
            prefetch_lines_to::<REACH>((&raw const *alternate).cast(), 1);
        }
        Slot::NONE
    }
}
