//! The flow table driven as the engine drives it, beside a plain model that says what must come of it:
//! for the property tests and the fuzzer.
//!
//! The model is a sorted map. It knows which flows have a block, which block, and each state with its
//! deadline. What it does not predict is which flow an eviction finds; it checks that the one found may go.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use nf::{FiveTuple, FlowKey, Short, SrcAddr};
use paceline_table::{FlowTable, Layout, Part, STEPS_PER_EPOCH, Slot, Watermark, WhenFull};
use wire::{Addr, protocol};

/// Functions that share the table.
pub const PARTS: usize = 3;

/// A table of at most this many blocks is looked at whole for one to evict.
const LOOKED_AT_WHOLE: usize = 16;

/// Blocks that a maintenance sweeps.
const SWEPT_BLOCKS: usize = STEPS_PER_EPOCH / 8;

/// A key that is as good as a number.
pub trait Numbered: FlowKey {
    /// The key that stands for `number`.
    fn of_number(number: u32) -> Self;

    /// The number that it stands for.
    fn number(&self) -> u32;
}

/// 16 bytes: compared in the head of the block.
impl Numbered for SrcAddr {
    fn of_number(number: u32) -> SrcAddr {
        let mut bytes = [0xfd; 16];
        bytes[12..].copy_from_slice(&number.to_be_bytes());
        // Every other one is an IPv4 address.
        if number.is_multiple_of(2) { SrcAddr(Addr::v4(number.to_be_bytes())) } else { SrcAddr(Addr(bytes)) }
    }

    fn number(&self) -> u32 {
        u32::from_be_bytes([self.0.0[12], self.0.0[13], self.0.0[14], self.0.0[15]])
    }
}

/// IPv4 and IPv6 mixed, so that keys that are compared whole lie beside those that are not. Many differ
/// in a port alone.
impl Numbered for FiveTuple {
    fn of_number(number: u32) -> FiveTuple {
        let SrcAddr(src) = SrcAddr::of_number(number & !0b110);
        FiveTuple {
            src,
            dst: if number & 1 == 0 { Addr::v4([192, 0, 2, 1]) } else { Addr([0xfe; 16]) },
            src_port: (number & 0b110) as u16,
            dst_port: 443,
            protocol: protocol::TCP,
            zero: [0; 3],
        }
    }

    fn number(&self) -> u32 {
        SrcAddr(self.src).number() | u32::from(self.src_port)
    }
}

/// What a packet does to one function's state of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing: it is not the function's business.
    Ignore,
    /// Makes a new state of the old one, which lives for so long.
    Set { salt: u64, idle_timeout_ns: u64 },
    /// Ends the flow, if there is one.
    End,
}

/// One packet.
#[derive(Clone, Debug)]
pub struct Packet {
    pub number: u32,
    pub time_ns: u64,
    pub acts: [Act; PARTS],
}

/// What a packet found, and what became of it. Must not depend on where batches were cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its flow's block, after it.
    pub slot: Slot,
    /// For each function, the state that it found alive.
    pub found: [Option<u64>; PARTS],
    /// For each function, whether its state found no room.
    pub rejected: [bool; PARTS],
}

/// A state that went without a packet of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    pub number: u32,
    pub part: usize,
    /// Swept, or made to leave.
    pub swept: bool,
    pub state: u64,
    pub deadline_ns: u64,
}

/// What a wrong engine might do; planted, to see it caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Does not say that a step took a state away.
    ForgetsLostStates,
    /// Looks no further than the first entry that a bucket offers.
    LooksNoFurther,
    /// Takes what a bucket offers for the flow's block without comparing keys.
    TrustsCandidates,
    /// Leaves one function's state behind where a block goes to another flow.
    LeavesAStateBehind,
    /// Gives blocks back at the end of a batch.
    GivesBackPerBatch,
    /// Does maintenance where a batch ends, not where it is due.
    MaintainsPerBatch,
    /// Copies a table a step late.
    CopiesLate,
}

/// What should be in the table.
#[derive(Clone, Default)]
struct Model {
    flows: BTreeMap<u32, Flow>,
    /// Flows that have a block and no state.
    stateless: BTreeSet<u32>,
}

#[derive(Clone)]
struct Flow {
    slot: Slot,
    /// State and deadline.
    cells: [Option<(u64, u64)>; PARTS],
}

impl Flow {
    fn lives_until(&self) -> u64 {
        self.cells.iter().flatten().map(|(_, deadline_ns)| *deadline_ns).max().unwrap_or(0)
    }

    fn is_stateless(&self) -> bool {
        self.cells.iter().all(Option::is_none)
    }
}

impl Model {
    fn set(&mut self, number: u32, part: usize, cell: Option<(u64, u64)>) {
        let flow = self.flows.get_mut(&number).expect("a flow of the model");
        flow.cells[part] = cell;
        match flow.is_stateless() {
            true => self.stateless.insert(number),
            false => self.stateless.remove(&number),
        };
    }

    /// Gives the blocks back that have no state; says how many.
    fn give_back(&mut self) -> usize {
        let stateless = std::mem::take(&mut self.stateless);
        for number in &stateless {
            self.flows.remove(number);
        }
        stateless.len()
    }
}

/// Where each function's state is: of different sizes and alignments.
#[derive(Clone, Copy)]
struct Parts {
    word: Part<u64>,
    record: Part<[u64; 5]>,
    wide: Part<u128>,
}

/// A table and its model.
pub struct Driver<K> {
    table: FlowTable<K>,
    parts: Parts,
    when_full: WhenFull,
    fault: Option<Fault>,
    model: Model,
    /// In the order in which they went.
    pub departures: Vec<Departure>,
    /// Steps that found every block taken and none that could go.
    pub rejected: u64,
    /// Flows that lived and were made to leave.
    pub evicted: u64,
    /// When the last rounds of the sweep began, if nothing but the sweep moved its hand.
    round: Option<(usize, u64)>,
}

/// A packet's key, as the engine keeps it for a batch.
struct Located<K> {
    key: K,
    short: Short,
    hash: u32,
    candidate: Slot,
}

impl<K: Numbered> Driver<K> {
    pub fn new(capacity: usize, when_full: WhenFull, seed: u64, fault: Option<Fault>) -> Self {
        let mut layout = Layout::new();
        let parts = Parts { word: layout.add(), record: layout.add(), wide: layout.add() };
        Driver {
            table: FlowTable::new(&layout, capacity, when_full, seed).expect("memory"),
            parts,
            when_full,
            fault,
            model: Model::default(),
            departures: Vec::new(),
            rejected: 0,
            evicted: 0,
            round: None,
        }
    }

    /// Becomes the same as another.
    pub fn copy_from(&mut self, other: &Driver<K>) {
        self.table.copy_from(&other.table);
        self.model = other.model.clone();
        (self.rejected, self.evicted, self.round) = (other.rejected, other.evicted, other.round);
        self.departures.clone_from(&other.departures);
        if self.fault == Some(Fault::CopiesLate) {
            self.table.count_steps(1);
        }
    }

    /// Flows with a block, of each hundred that there is room for.
    pub fn load_percent(&self) -> usize {
        self.model.flows.len() * 100 / self.table.capacity()
    }

    /// Packets on their way together, as `engine::group` takes them.
    pub fn batch(&mut self, packets: &[Packet]) -> Vec<Answer> {
        let none = Answer { slot: Slot::NONE, found: [None; PARTS], rejected: [false; PARTS] };
        let mut answers = vec![none; packets.len()];
        let located: Vec<_> = packets.iter().map(|packet| self.candidate(packet.number)).collect();
        let mut begin = 0;
        while begin < packets.len() {
            let end = packets.len().min(begin + self.table.steps_left());
            self.stretch(begin..end, packets, &located, &mut answers);
            if self.table.count_steps(end - begin) {
                self.maintain(packets[end - 1].time_ns);
            }
            begin = end;
        }
        let Some(last) = packets.last() else { return answers };
        match self.fault {
            Some(Fault::GivesBackPerBatch) => self.settle(last.time_ns),
            Some(Fault::MaintainsPerBatch) => self.maintain(last.time_ns),
            _ => (),
        }
        answers
    }

    /// Packets between two maintenances.
    fn stretch(
        &mut self,
        range: Range<usize>,
        packets: &[Packet],
        located: &[Located<K>],
        answers: &mut [Answer],
    ) {
        if self.table.free() < range.len() {
            return range.for_each(|i| self.one(&packets[i], &located[i], &mut answers[i]));
        }
        let slots: Vec<_> = range.clone().map(|i| self.locate(&located[i])).collect();
        for part in 0..PARTS {
            for (i, slot) in range.clone().zip(&slots).filter(|(_, slot)| slot.is_some()) {
                answers[i].slot = *slot;
                self.hit(part, *slot, &packets[i], &mut answers[i]);
            }
        }
        for (i, _) in range.zip(&slots).filter(|(_, slot)| !slot.is_some()) {
            self.one(&packets[i], &located[i], &mut answers[i]);
        }
    }

    /// One packet through all functions.
    fn one(&mut self, packet: &Packet, located: &Located<K>, answer: &mut Answer) {
        let mut slot = self.locate(located);
        for part in 0..PARTS {
            if !slot.is_some() && matches!(packet.acts[part], Act::Set { .. }) {
                slot = self.insert(packet, located);
                answer.rejected[part] = !slot.is_some();
            }
            if slot.is_some() {
                self.hit(part, slot, packet, answer);
            }
        }
        answer.slot = slot;
    }

    /// One function's step of a flow that has a block.
    fn hit(&mut self, part: usize, slot: Slot, packet: &Packet, answer: &mut Answer) {
        let now_ns = packet.time_ns;
        if packet.acts[part] == Act::Ignore {
            return;
        }
        let cell = self.cell(slot, part);
        let flow = self.model.flows.get(&packet.number).expect("only flows of the model have a block");
        assert_eq!(cell, flow.cells[part], "function {part}'s state of flow {}", packet.number);
        let is_dead = cell.is_some_and(|(_, deadline_ns)| deadline_ns <= now_ns);
        if is_dead {
            self.lose(part, slot, packet.number);
        }
        let found = cell.filter(|_| !is_dead).map(|(state, _)| state);
        answer.found[part] = found;
        match packet.acts[part] {
            Act::Set { salt, idle_timeout_ns } => {
                let state = found.unwrap_or(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt;
                let deadline_ns = now_ns.saturating_add(idle_timeout_ns);
                set(&mut self.table, self.parts, slot, part, state, deadline_ns);
                self.model.set(packet.number, part, Some((state, deadline_ns.max(1))));
            }
            Act::End if found.is_some() => self.lose(part, slot, packet.number),
            Act::End | Act::Ignore => (),
        }
    }

    /// A step takes a state away.
    fn lose(&mut self, part: usize, slot: Slot, number: u32) {
        clear(&mut self.table, self.parts, slot, part);
        self.model.set(number, part, None);
        if self.fault != Some(Fault::ForgetsLostStates) {
            self.table.has_lost_a_state(slot);
        }
    }

    fn candidate(&self, number: u32) -> Located<K> {
        let key = K::of_number(number);
        let short = key.short();
        let hash = self.table.hash(short, || key);
        self.table.prefetch_bucket(hash);
        Located { key, short, hash, candidate: self.table.candidate(hash) }
    }

    fn locate(&self, located: &Located<K>) -> Slot {
        let Located { key, short, hash, candidate } = *located;
        let slot = match self.fault {
            Some(Fault::TrustsCandidates) => candidate,
            Some(Fault::LooksNoFurther) => {
                let first = self.table.candidate(hash);
                if first.is_some() && *self.table.key(first) == key { first } else { Slot::NONE }
            }
            _ => self.table.locate(candidate, hash, short, || key),
        };
        let expected = self.model.flows.get(&key.number()).map_or(Slot::NONE, |flow| flow.slot);
        assert_eq!(slot, expected, "the block of flow {}", key.number());
        slot
    }

    fn insert(&mut self, packet: &Packet, located: &Located<K>) -> Slot {
        if self.table.free() == 0 {
            self.make_room(packet.time_ns);
        }
        let free = self.table.free();
        let slot = self.table.insert(located.hash, located.short, &located.key);
        if !slot.is_some() {
            assert_eq!(free, 0, "two buckets had no room for flow {}", packet.number);
            assert_eq!(self.when_full, WhenFull::Reject, "an eviction made no room");
            self.rejected += 1;
            return slot;
        }
        assert_eq!(*self.table.key(slot), located.key);
        for part in 0..PARTS {
            assert_eq!(self.cell(slot, part), None, "a new flow has function {part}'s state of another");
        }
        let cells = [None; PARTS];
        let before = self.model.flows.insert(packet.number, Flow { slot, cells });
        assert!(before.is_none(), "flow {} has two blocks", packet.number);
        slot
    }

    fn make_room(&mut self, now_ns: u64) {
        self.round = None;
        let given_back = self.model.give_back();
        let (parts, fault) = (self.parts, self.fault);
        let mut left = None;
        self.table.make_room(Watermark::claim(now_ns), now_ns, |table, slot| {
            assert!(left.is_none(), "one flow makes room");
            left = Some((table.key(slot).number(), slot));
            let behind = usize::from(fault == Some(Fault::LeavesAStateBehind));
            (0..PARTS - behind).for_each(|part| clear(table, parts, slot, part));
        });
        match left {
            Some((number, slot)) => {
                assert_eq!(given_back, 0, "flow {number} left beside blocks that nobody needs");
                self.left(number, slot, now_ns);
            }
            None => self.nobody_left(given_back, now_ns),
        }
        self.counts_agree();
    }

    fn left(&mut self, number: u32, slot: Slot, now_ns: u64) {
        let flow = self.model.flows.remove(&number).expect("only flows of the model leave");
        assert_eq!(flow.slot, slot);
        let lives_until = flow.lives_until();
        if lives_until > now_ns {
            self.evicted += 1;
            assert_eq!(self.when_full, WhenFull::EvictOldest, "flow {number} lives");
            if self.table.capacity() <= LOOKED_AT_WHOLE {
                let mut others = self.model.flows.values();
                assert!(
                    others.all(|other| other.lives_until() >= lives_until),
                    "flow {number} is not oldest"
                );
            }
        }
        for (part, cell) in flow.cells.into_iter().enumerate() {
            let Some((state, deadline_ns)) = cell else { continue };
            self.departures.push(Departure { number, part, swept: false, state, deadline_ns });
        }
    }

    fn nobody_left(&self, given_back: usize, now_ns: u64) {
        if given_back > 0 {
            return;
        }
        assert_eq!(self.when_full, WhenFull::Reject, "nobody was evicted");
        let mut flows = self.model.flows.values();
        let is_whole = self.table.capacity() <= LOOKED_AT_WHOLE;
        assert!(!is_whole || flows.all(|flow| flow.lives_until() > now_ns), "a dead flow holds a block");
    }

    fn maintain(&mut self, now_ns: u64) {
        self.model.give_back();
        let parts = self.parts;
        let mut swept = Vec::new();
        self.table
            .maintain(Watermark::claim(now_ns), |table, slot| expire(table, parts, slot, now_ns, &mut swept));
        self.swept(swept);
        self.counts_agree();
        self.sweep_comes_round(now_ns);
    }

    /// Lets all dead flows go.
    pub fn settle(&mut self, now_ns: u64) {
        self.model.give_back();
        let parts = self.parts;
        let mut swept = Vec::new();
        self.table
            .settle(Watermark::claim(now_ns), |table, slot| expire(table, parts, slot, now_ns, &mut swept));
        self.swept(swept);
        self.counts_agree();
        self.nothing_dead_since(now_ns);
    }

    fn swept(&mut self, swept: Vec<Departure>) {
        for departure in swept {
            let Departure { number, part, state, deadline_ns, .. } = departure;
            let flow = self.model.flows.get(&number).expect("only flows of the model are swept");
            assert_eq!(flow.cells[part], Some((state, deadline_ns)), "flow {number} as it was swept");
            self.model.set(number, part, None);
            self.departures.push(departure);
        }
        self.model.give_back();
    }

    /// What was dead when a round of the sweep began is gone when it ends.
    fn sweep_comes_round(&mut self, now_ns: u64) {
        let (left, began_ns) = self.round.unwrap_or((self.table.capacity().div_ceil(SWEPT_BLOCKS), now_ns));
        if self.round.is_some() && left == 1 {
            self.nothing_dead_since(began_ns);
        }
        self.round = if left == 1 { None } else { Some((left - 1, began_ns)) };
    }

    fn nothing_dead_since(&self, time_ns: u64) {
        for (number, flow) in &self.model.flows {
            let mut deadlines = flow.cells.iter().flatten().map(|(_, deadline_ns)| *deadline_ns);
            assert!(deadlines.all(|deadline_ns| deadline_ns > time_ns), "flow {number} should be gone");
        }
    }

    fn counts_agree(&self) {
        let free = self.table.capacity() - self.model.flows.len();
        assert_eq!(self.table.free(), free, "free blocks");
        assert_eq!(
            (self.table.len(), self.table.is_empty()),
            (self.model.flows.len(), self.model.flows.is_empty())
        );
    }

    /// Everything that is in the table, and its own rules. O(capacity).
    pub fn check(&self, now_ns: u64) {
        self.table.check();
        self.counts_agree();
        self.live_agrees(0, self.parts.word, now_ns, |state| *state);
        self.live_agrees(1, self.parts.record, now_ns, |state| state[0]);
        self.live_agrees(2, self.parts.wide, now_ns, |state| *state as u64);
    }

    fn live_agrees<S: Copy>(&self, part: usize, at: Part<S>, now_ns: u64, word: impl Fn(&S) -> u64) {
        let live = self.table.live(at, now_ns);
        let mut live: Vec<_> =
            live.map(|flow| (flow.key.number(), (word(flow.state), flow.deadline_ns))).collect();
        live.sort_unstable();
        let flows = self.model.flows.iter();
        let alive = flows.filter_map(|(number, flow)| Some((*number, flow.cells[part]?)));
        let alive = alive.filter(|(_, (_, deadline_ns))| *deadline_ns > now_ns);
        assert!(alive.eq(live), "function {part}'s live flows");
    }

    fn cell(&self, slot: Slot, part: usize) -> Option<(u64, u64)> {
        cell(&self.table, self.parts, slot, part)
    }
}

fn cell<K: Numbered>(table: &FlowTable<K>, parts: Parts, slot: Slot, part: usize) -> Option<(u64, u64)> {
    let (state, deadline_ns) = match part {
        0 => (table.cell(slot, parts.word).state().copied(), table.cell(slot, parts.word).deadline_ns()),
        1 => {
            let cell = table.cell(slot, parts.record);
            let state = cell.state().map(|words| {
                assert_eq!(*words, [words[0]; 5], "half of one state and half of another");
                words[0]
            });
            (state, cell.deadline_ns())
        }
        _ => {
            let cell = table.cell(slot, parts.wide);
            (cell.state().map(|wide| *wide as u64), cell.deadline_ns())
        }
    };
    assert_eq!(state.is_some(), deadline_ns != 0);
    state.map(|state| (state, deadline_ns))
}

fn set<K: Numbered>(
    table: &mut FlowTable<K>,
    parts: Parts,
    slot: Slot,
    part: usize,
    state: u64,
    deadline_ns: u64,
) {
    match part {
        0 => table.cell_mut(slot, parts.word).set(state, deadline_ns),
        1 => table.cell_mut(slot, parts.record).set([state; 5], deadline_ns),
        _ => table.cell_mut(slot, parts.wide).set(state.into(), deadline_ns),
    }
}

fn clear<K: Numbered>(table: &mut FlowTable<K>, parts: Parts, slot: Slot, part: usize) {
    match part {
        0 => table.cell_mut(slot, parts.word).clear(),
        1 => table.cell_mut(slot, parts.record).clear(),
        _ => table.cell_mut(slot, parts.wide).clear(),
    }
}

/// Clears what is dead in a block.
fn expire<K: Numbered>(
    table: &mut FlowTable<K>,
    parts: Parts,
    slot: Slot,
    now_ns: u64,
    swept: &mut Vec<Departure>,
) {
    let before = swept.len();
    let number = table.key(slot).number();
    for part in 0..PARTS {
        let Some((state, deadline_ns)) = cell(table, parts, slot, part) else { continue };
        if deadline_ns <= now_ns {
            clear(table, parts, slot, part);
            swept.push(Departure { number, part, swept: true, state, deadline_ns });
        }
    }
    assert!(swept.len() > before, "flow {number} lives, and was to be swept");
}
