//! Finds the first rule that matches a packet, at a cost that hardly grows with the rules.
//!
//! Bit vectors (Lakshman and Stiliadis, SIGCOMM 1998): for each thing that rules ask for, such as the source address, a table
//! leads to the set of the rules that are content with the packet's, one bit a rule. The packet's rule is the first that is in all seven sets.
//!
//! ```text
//! source address 10.0.0.9   0 1 1 0 1 1 ...
//! destination port 80       1 1 0 0 1 0 ...
//! ...                       1 1 1 1 1 1 ...
//! in all                    0 1 0 0 1 0 ...      the second rule decides
//! ```
//!
//! The cost is that of seven look-ups, the longest of them a binary search over all addresses that rules name, and of seven bits a
//! rule up to the one that decides. No choice of rules or packets makes it more. Decision trees (HyperSplit, EffiCuts) and tuple space search look at fewer
//! bits on average, but there are rules for which they get large or slow, and a list of rules may be a stranger's.
//!
//! In memory equal sets are one. With N rules that all differ there are at most 2 N + 1 sets of N bits for each of four ends: 100 MB for
//! 10,000 rules. [`BYTES_MAX`] is the bound.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::array;

use wire::{Addr, protocol};

use super::rule::{Judged, Rule, States};
use crate::selector::Packet;

/// The most memory that sets of rules take.
const BYTES_MAX: usize = 256 << 20;

/// Words of a block.
const BLOCK: usize = 16;

/// Words of 64 bits that are looked at together. They are aligned, so that instructions on vectors take them from memory as they lie.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Block([u64; BLOCK]);

impl Block {
    /// Rules that are in both.
    #[inline(always)]
    fn and(self, other: Block) -> Block {
        Block(array::from_fn(|word| self.0[word] & other.0[word]))
    }
}

/// Where a set begins among the blocks of all.
type SetAt = u32;

/// Tables from what packets have to sets of rules.
#[derive(Debug)]
pub(super) struct Classifier {
    /// The sets, of as many blocks each.
    sets: Vec<Block>,
    blocks: usize,
    src: Ranges<u128>,
    dst: Ranges<u128>,
    src_port: Ranges<u16>,
    dst_port: Ranges<u16>,
    /// By [`kind_of`].
    kind: Vec<SetAt>,
    /// By TCP flags.
    flags: Vec<SetAt>,
    /// By [`place_of`].
    place: Vec<SetAt>,
    /// By [`fragment_of`]: rules that may accept a later fragment, or drop it.
    fragment: Vec<SetAt>,
}

/// Sets of rules by ranges of numbers.
#[derive(Debug)]
struct Ranges<T> {
    /// The first of each range, in ascending order; the first one is 0.
    first: Vec<T>,
    sets: Vec<SetAt>,
}

/// First and last of each range, none of which overlap; `None` is all numbers.
type Wanted = Option<Vec<(u128, u128)>>;

impl Classifier {
    /// An error says what is wrong with the rules as a whole, to follow their name in a sentence.
    pub(super) fn new(rules: &[Rule]) -> Result<Classifier, String> {
        let mut sets = Sets::new(rules.len());
        let addrs = |end: usize| rules.iter().map(move |rule| rule.addr_ranges(end));
        let ports = |end: usize| rules.iter().map(move |rule| rule.port_ranges(end));
        let src = sets.ranges(addrs(0))?;
        let dst = sets.ranges(addrs(1))?;
        let src_port = sets.ranges(ports(0))?.of_ports();
        let dst_port = sets.ranges(ports(1))?.of_ports();
        let kind = sets.table(KINDS, rules, |rule, kind| {
            let (protocol, icmp_type) = match kind {
                ICMP.. if kind < ICMPV6 => (protocol::ICMP, kind - ICMP),
                ICMPV6.. => (protocol::ICMPV6, kind - ICMPV6),
                other => (other as u8, 0),
            };
            rule.takes_kind(protocol, icmp_type as u8)
        })?;
        let flags = sets.table(256, rules, |rule, flags| rule.takes_flags(flags as u8))?;
        let place = sets.table(PLACES, rules, |rule, place| {
            let state = States::from_bits_retain((place % OUTSIDE) as u8);
            rule.takes_place(state, place & OUTSIDE != 0)
        })?;
        let fragment = sets.table(FRAGMENTS, rules, |rule, fragment| {
            rule.may_take_fragments(fragment as u8, fragment >= 256)
        })?;
        let Sets { all, words, .. } = sets;
        Ok(Classifier {
            sets: all,
            blocks: words / BLOCK,
            src,
            dst,
            src_port,
            dst_port,
            kind,
            flags,
            place,
            fragment,
        })
    }

    /// The index of the first rule that matches.
    #[inline(never)]
    pub(super) fn first(&self, judged: &Judged) -> Option<usize> {
        self.first_in_all(self.sets_of(judged))
    }

    /// The index of the first rule behind another that matches.
    pub(super) fn next(&self, judged: &Judged, behind: usize) -> Option<usize> {
        self.next_in_all(&self.sets_of(judged), behind)
    }

    /// The index of the first rule that decides about a later fragment, in one direction.
    pub(super) fn first_of_later_fragment(&self, packet: &Packet, is_from_outside: bool) -> Option<usize> {
        self.first_in_all(self.sets_of_later_fragment(packet, is_from_outside))
    }

    /// The index of the first rule behind another that decides about a later fragment, in one direction.
    pub(super) fn next_of_later_fragment(
        &self,
        packet: &Packet,
        is_from_outside: bool,
        behind: usize,
    ) -> Option<usize> {
        self.next_in_all(&self.sets_of_later_fragment(packet, is_from_outside), behind)
    }

    #[inline(always)]
    fn sets_of(&self, judged: &Judged) -> [SetAt; 7] {
        let Judged { packet, state, is_from_outside, icmp_type, tcp_flags } = judged;
        [
            self.src.of(bits_of(packet.src)),
            self.dst.of(bits_of(packet.dst)),
            self.src_port.of(packet.src_port),
            self.dst_port.of(packet.dst_port),
            self.kind[kind_of(packet.protocol, *icmp_type)],
            self.flags[usize::from(*tcp_flags)],
            self.place[place_of(*state, *is_from_outside)],
        ]
    }

    #[inline(always)]
    fn sets_of_later_fragment(&self, packet: &Packet, is_from_outside: bool) -> [SetAt; 3] {
        [
            self.src.of(bits_of(packet.src)),
            self.dst.of(bits_of(packet.dst)),
            self.fragment[fragment_of(packet.protocol, is_from_outside)],
        ]
    }

    #[inline]
    fn first_in_all<const N: usize>(&self, starts: [SetAt; N]) -> Option<usize> {
        let blocks = self.blocks;
        // Loops: whether an array's `map` becomes a call depends on what else the crate holds, and one makes a packet a fifth dearer.
        let mut sets: [&[Block]; N] = [&[]; N];
        for (set, start) in sets.iter_mut().zip(&starts) {
            *set = &self.sets[*start as usize..][..blocks];
        }
        for at in 0..blocks {
            let mut common = Block([u64::MAX; BLOCK]);
            for set in &sets {
                common = common.and(set[at]);
            }
            let Block(common) = common;
            if common.iter().fold(0, |any, word| any | word) != 0 {
                let found = common.iter().position(|word| *word != 0)?;
                return Some((at * BLOCK + found) * 64 + common[found].trailing_zeros() as usize);
            }
        }
        None
    }

    /// As [`Classifier::first_in_all`] for rules behind one, by single words: few packets come here.
    fn next_in_all(&self, starts: &[SetAt], behind: usize) -> Option<usize> {
        let from = behind + 1;
        for word in from / 64..self.blocks * BLOCK {
            let mut common = if word == from / 64 { u64::MAX << (from % 64) } else { u64::MAX };
            for start in starts {
                common &= self.sets[*start as usize + word / BLOCK].0[word % BLOCK];
            }
            if common != 0 {
                return Some(word * 64 + common.trailing_zeros() as usize);
            }
        }
        None
    }
}

impl<T: Copy + Ord> Ranges<T> {
    #[inline]
    fn of(&self, number: T) -> SetAt {
        let after = self.first.partition_point(|first| *first <= number);
        self.sets[after.saturating_sub(1)]
    }
}

impl Ranges<u128> {
    fn of_ports(self) -> Ranges<u16> {
        // One past the last port, where a range ends, is none.
        let first: Vec<u16> = self.first.into_iter().map_while(|first| u16::try_from(first).ok()).collect();
        Ranges { sets: self.sets.into_iter().take(first.len()).collect(), first }
    }
}

const ICMP: usize = 256;
const ICMPV6: usize = 512;
const KINDS: usize = 768;

/// The index of a packet's protocol, of ICMP and ICMPv6 with the type.
#[inline]
fn kind_of(protocol: u8, icmp_type: u8) -> usize {
    match protocol {
        protocol::ICMP => ICMP + usize::from(icmp_type),
        protocol::ICMPV6 => ICMPV6 + usize::from(icmp_type),
        other => usize::from(other),
    }
}

/// More than any state.
const OUTSIDE: usize = 32;
const PLACES: usize = 2 * OUTSIDE;
const _: () = assert!((States::all().bits() as usize) < OUTSIDE);

/// The index of a packet's state and side.
#[inline]
fn place_of(state: States, is_from_outside: bool) -> usize {
    usize::from(state.bits()) % OUTSIDE + if is_from_outside { OUTSIDE } else { 0 }
}

const FRAGMENTS: usize = 512;

/// The index of a later fragment's protocol and side.
#[inline]
fn fragment_of(protocol: u8, is_from_outside: bool) -> usize {
    usize::from(protocol) + if is_from_outside { 256 } else { 0 }
}

#[inline]
fn bits_of(addr: Addr) -> u128 {
    u128::from_be_bytes(addr.0)
}

/// Sets of rules as they are made.
struct Sets {
    all: Vec<Block>,
    /// Words of a set.
    words: usize,
    known: BTreeMap<Box<[u64]>, SetAt>,
}

impl Sets {
    fn new(rules: usize) -> Sets {
        let words = rules.div_ceil(64).max(1).next_multiple_of(BLOCK);
        Sets { all: Vec::new(), words, known: BTreeMap::new() }
    }

    /// Where a set is; it is added if there is none like it.
    fn place(&mut self, set: &[u64]) -> Result<SetAt, String> {
        if let Some(at) = self.known.get(set) {
            return Ok(*at);
        }
        if size_of_val(&self.all[..]) + size_of_val(set) > BYTES_MAX {
            return Err(format!(
                "need more than {} MiB to be searched; name fewer different addresses and ports, or put them into sets",
                BYTES_MAX >> 20
            ));
        }
        let at = self.all.len() as SetAt;
        self.all.extend(set.as_chunks().0.iter().map(|block| Block(*block)));
        self.known.insert(set.into(), at);
        Ok(at)
    }

    /// The set for each number below `len`, of the rules that take it.
    fn table(
        &mut self,
        len: usize,
        rules: &[Rule],
        takes: impl Fn(&Rule, usize) -> bool,
    ) -> Result<Vec<SetAt>, String> {
        let mut set_of = |number| {
            let mut set = vec![0; self.words];
            for (index, _) in rules.iter().enumerate().filter(|(_, rule)| takes(rule, number)) {
                set[index / 64] |= 1 << (index % 64);
            }
            self.place(&set)
        };
        (0..len).map(&mut set_of).collect()
    }

    /// The sets for ranges of numbers, of the rules that want them.
    fn ranges(&mut self, wanted: impl Iterator<Item = Wanted>) -> Result<Ranges<u128>, String> {
        let mut set = vec![0_u64; self.words];
        // Where a rule begins or ceases to be content.
        let mut turns: Vec<(u128, usize)> = Vec::new();
        for (index, wanted) in wanted.enumerate() {
            match wanted {
                None => set[index / 64] |= 1 << (index % 64),
                Some(ranges) => {
                    for (first, last) in ranges {
                        turns.push((first, index));
                        turns.extend(last.checked_add(1).map(|end| (end, index)));
                    }
                }
            }
        }
        turns.sort_unstable();
        let mut turns = turns.into_iter().peekable();
        let mut ranges = Ranges { first: Vec::new(), sets: Vec::new() };
        let mut start = 0;
        loop {
            while let Some((_, index)) = turns.next_if(|(at, _)| *at == start) {
                set[index / 64] ^= 1 << (index % 64);
            }
            let at = self.place(&set)?;
            if ranges.sets.last() != Some(&at) {
                ranges.first.push(start);
                ranges.sets.push(at);
            }
            match turns.peek() {
                Some((next, _)) => start = *next,
                None => return Ok(ranges),
            }
        }
    }
}
