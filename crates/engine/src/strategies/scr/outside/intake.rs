//! One core that gets its history with its packets.
//!
//! ```text
//!  received:  | history of 1, 2 | 3 |   | history of 4, 5 | 6 |   a flush: | history of 7, 8 |
//!  a batch:   1 2 (3) 4 5 (6) 7 8
//! ```
//!
//! Where items hold headers, they go through the chain in the batch; where they hold what functions read, own packets
//! alone are in the batch, and all are stepped from columns (`lane.rs`).
//!
//! What is lost is either stepped over, and counted, or looked for in the other cores' logs (`rebuild.rs`).

use std::collections::VecDeque;
use std::iter;
use std::sync::Arc;

use io::{Closed, EngineDrop, Fate, Frame, Port, Received};
use recovery::Arrival;
use sequencer::{History, Layout, Receiver, Rejected, Version, time_ns};
use wire::{First, LinkType, Malformed, Stamp};

use crate::chain::Chain;
use crate::path::batch::Batch;
use crate::path::checks::Checks;
use crate::path::core::ChainCore;
use crate::path::laps::Laps;
use crate::path::packets::BATCH_PACKETS;
use crate::path::receive::{ExternalEnd, HistoryCounters, Intake, IntakeCounters, IntakeEnd};
use crate::strategies::ingress::put_first;
use crate::strategies::scr::outside::items::HistoryItems;
use crate::strategies::scr::outside::lane::Lane;
use crate::strategies::scr::outside::line::Line;
use crate::strategies::scr::outside::on_loss::{OnLoss, Recovery};

/// Packets that are received at once, at most.
const RECEIVED_PACKETS: usize = 32;

/// Puts what packets bring along between a core's own.
pub struct External {
    core: usize,
    items: HistoryItems,
    /// Where items are stepped that hold what functions read.
    lane: Option<Box<Lane>>,
    checks: Checks,
    /// What packets' numbers are counted from.
    base: u64,
    /// Added to what histories say of numbers and times.
    origin: Stamp,
    /// How many packets there are, where nobody tells this core beside its queue.
    packets: Option<u64>,
    /// By the core that the sequencer sent a packet to, which the frame's entry says: this one, as a rule.
    receivers: Vec<Receiver>,
    steps: OnLoss,
    line: Arc<Line>,
    buffer: Vec<Frame>,
    /// Not yet looked at.
    received: VecDeque<Frame>,
    /// Looked at, and for whose history the log has no room yet.
    pending: Option<Frame>,
    /// Own packets that wait for those before them.
    waiting: VecDeque<Frame>,
    /// What no function is to see, to be given back.
    not_taken: Vec<Frame>,
    fates: [Fate; RECEIVED_PACKETS],
    /// Numbers of packets that are stepped as history, as if their own core had lost them; ascending.
    unanswered: Vec<u64>,
    /// The item of an own packet.
    own_item: Box<[u8]>,
    counters: HistoryCounters,
    last: Stamp,
    is_done: bool,
}

impl External {
    /// For one core that runs `chain`; packets may come here of `senders` cores.
    pub(crate) fn new(
        chain: &Chain,
        core: usize,
        senders: usize,
        items: HistoryItems,
        base: u64,
        steps: OnLoss,
        line: Arc<Line>,
    ) -> External {
        let lane = match &items {
            HistoryItems::Headers(_) => None,
            HistoryItems::Typed(typed) => Some(Box::new(Lane::new(chain, typed.clone()))),
        };
        External {
            core,
            lane,
            // Nothing waits where nothing is recovered.
            waiting: VecDeque::with_capacity(match steps {
                OnLoss::Skip(_) => 0,
                OnLoss::Recover(_) => io::QUEUE_FRAMES_MAX,
            }),
            own_item: vec![0; items.item_len()].into(),
            items,
            checks: Checks::default(),
            base,
            origin: Stamp::default(),
            packets: None,
            receivers: vec![Receiver::starting_at(base); senders],
            steps,
            line,
            buffer: Vec::with_capacity(RECEIVED_PACKETS),
            received: VecDeque::with_capacity(RECEIVED_PACKETS),
            pending: None,
            not_taken: Vec::with_capacity(RECEIVED_PACKETS),
            fates: [Fate::Drop(EngineDrop::NotTaken); RECEIVED_PACKETS],
            unanswered: Vec::new(),
            counters: HistoryCounters::default(),
            last: Stamp::default(),
            is_done: false,
        }
    }

    /// One for each of `cores` cores that run `chain`, for a caller that feeds them itself: packets 0 to `packets`, each with
    /// its history of this version, and then an end. `origin` is added to what histories say of numbers and times, so
    /// that flows can live on while packets come once more.
    ///
    /// # Panics
    /// If the chain has no history of that version: see [`Chain::history_version`].
    pub fn for_cores(
        chain: &Chain,
        version: Version,
        cores: usize,
        recovery: Recovery,
        packets: u64,
        origin: Stamp,
    ) -> Vec<External> {
        let items = chain.history_items(version).expect("a version that the chain has");
        let line = Arc::new(Line::new(cores));
        let core = |(core, steps)| {
            let external = External::new(chain, core, cores, items.clone(), 0, steps, Arc::clone(&line));
            let mut external = external.seeing_as(chain);
            (external.origin, external.packets) = (origin, Some(packets));
            external
        };
        OnLoss::for_cores(recovery, cores, items.item_len()).into_iter().enumerate().map(core).collect()
    }

    /// What has happened so far.
    pub fn counters(&self) -> HistoryCounters {
        self.end().counters
    }

    /// This intake, which sees own packets as the chain does: with its sides, and malformed if the chain finds them
    /// so.
    pub(crate) fn seeing_as(mut self, chain: &Chain) -> External {
        self.checks = chain.checks();
        self
    }

    /// This intake, which steps packets with these numbers, ascending, as history, and gives no verdict on them.
    pub(crate) fn without_answers(mut self, unanswered: Vec<u64>) -> External {
        self.unanswered = unanswered;
        self
    }

    pub(crate) fn end(&self) -> ExternalEnd {
        let mut counters = self.counters;
        match &self.steps {
            OnLoss::Skip(gaps) => counters.missed = gaps.missed(),
            OnLoss::Recover(recovering) => {
                let of_all = recovering.replica.counters();
                (counters.recovered, counters.lost_to_all) = (of_all.recovered, of_all.lost_to_all);
                (counters.rebuilt, counters.skipped) = (of_all.rebuilt, of_all.skipped);
            }
        }
        ExternalEnd { counters, last: self.last }
    }

    fn turn(&mut self, port: &mut dyn Port, batch: &mut Batch) -> Received {
        let floor = self.line.floor(self.core);
        let found = self.receive_frames(port);
        if !self.drop_overtaken() {
            return Received::Idle;
        }
        self.go_on(batch);
        while self.is_going() && self.take_in(port, batch) {}
        let has_all = self.received.is_empty() && self.pending.is_none();
        let is_over = match found {
            // As it was left by who fed the queue.
            Received::End => {
                let end = self.packets.unwrap_or_else(|| self.line.floor(self.core));
                has_all && self.silence(end, true) && self.leave()
            }
            _ => {
                if has_all && found == Received::Idle {
                    self.silence(floor, false);
                }
                false
            }
        };
        match () {
            () if self.filled(batch) > 0 => Received::Frames,
            () if is_over => {
                self.is_done = true;
                Received::End
            }
            () if self.line.is_down() => Received::End,
            () => Received::Idle,
        }
    }

    /// Packets that are stepped next, own ones and those of other cores: at most [`BATCH_PACKETS`].
    #[inline]
    fn filled(&self, batch: &Batch) -> usize {
        self.lane.as_ref().map_or(batch.len(), |lane| lane.len())
    }

    fn receive_frames(&mut self, port: &mut dyn Port) -> Received {
        if !self.received.is_empty() || self.pending.is_some() {
            return Received::Frames;
        }
        let found = port.receive(&mut self.buffer, RECEIVED_PACKETS);
        self.received.extend(self.buffer.drain(..));
        found
    }

    /// Looks at the next packet; says whether to go on with another.
    fn take_in(&mut self, port: &mut dyn Port, batch: &mut Batch) -> bool {
        // Flushes and bad packets take no room in a batch, but are to go back.
        if self.filled(batch) == BATCH_PACKETS || self.not_taken.len() == RECEIVED_PACKETS {
            return false;
        }
        let is_new = self.pending.is_none();
        let Some(mut frame) = self.pending.take().or_else(|| self.received.pop_front()) else { return false };
        match self.look(&frame, port.bytes(&frame), is_new, batch) {
            Look::Later => {
                self.received.push_front(frame);
                return false;
            }
            Look::Full => {
                self.pending = Some(frame);
                return false;
            }
            Look::Rejected(reason) => {
                self.counters.rejected[reason as usize] += 1;
                self.give_back(frame, EngineDrop::NotTaken);
            }
            Look::Flush => {
                self.counters.flushes += 1;
                self.give_back(frame, EngineDrop::NotTaken);
            }
            Look::Unanswered => self.give_back(frame, EngineDrop::NotTaken),
            Look::Overtaken(own) => {
                strip(port, &mut frame, own, self.origin);
                self.counters.overtaken += 1;
                self.give_back(frame, EngineDrop::Overtaken);
            }
            Look::Own { own, at } => {
                strip(port, &mut frame, own, self.origin);
                match at {
                    Some(at) => batch.frames[at] = frame,
                    None => self.waiting.push_back(frame),
                }
            }
        }
        true
    }

    /// Records what a packet brings, and puts into the batch what can be stepped now.
    fn look(&mut self, frame: &Frame, bytes: &[u8], is_new: bool, batch: &mut Batch) -> Look {
        let room = BATCH_PACKETS - self.filled(batch);
        let Self {
            items,
            lane,
            checks,
            receivers,
            steps,
            base,
            origin,
            counters,
            own_item,
            waiting,
            last,
            unanswered,
            ..
        } = self;
        let history = match History::parse(bytes, items) {
            Ok(history) => history,
            Err(reason) => return Look::Rejected(reason),
        };
        if matches!(steps, OnLoss::Skip(_)) && history.count() >= room {
            return Look::Later;
        }
        if is_new && let Err(reason) = receivers[usize::from(frame.entry)].accept(&history) {
            return Look::Rejected(reason);
        }
        let own = (!history.is_flush()).then(|| Own::of(&history));
        let answered = own.filter(|own| unanswered.binary_search(&own.stamp.seq).is_err());
        let (first, count) = (history.first_seq(), history.count());
        let end = first + count as u64 + u64::from(own.is_some());
        let headers = match own {
            // Its own item is needed for the log, or to be stepped.
            Some(Own { stamp, link, offset, refused, first })
                if matches!(steps, OnLoss::Recover(_)) || answered.is_none() || lane.is_some() =>
            {
                let wire_len = frame.wire_len - offset as u32;
                let headers = checks.headers(link, &bytes[offset..], wire_len, refused, first);
                items.write(&headers, stamp.time_ns, own_item);
                Some(headers)
            }
            _ => None,
        };
        let item = |index| if index < count { history.item_bytes(index) } else { &own_item[..] };
        let mut entries = Entries {
            items,
            lane,
            origin: *origin,
            waiting,
            counters,
            last,
            own: answered,
            own_at: None,
            batch,
        };
        match steps {
            OnLoss::Skip(gaps) => {
                for seq in gaps.arrive(first - *base..end - *base).map(|seq| seq + *base) {
                    entries.push(seq, item((seq - first) as usize));
                }
            }
            OnLoss::Recover(recovering) => {
                if let Some(own) = own.filter(|own| own.stamp.seq - *base < recovering.replica.next()) {
                    return Look::Overtaken(own);
                }
                let items = (0..(end - first) as usize).map(item);
                let step = |seq, item: &[u8]| entries.push(seq + *base, item);
                let (arrival, advance) = recovering.replica.receive(first - *base, items, room, step);
                recovering.note(advance);
                if arrival == Arrival::Full {
                    return Look::Full;
                }
            }
        }
        let at = entries.own_at;
        if let (Some(headers), Some(at)) = (headers, at) {
            batch.headers[at] = headers;
            batch.parsed |= 1 << at;
        }
        match (own, answered) {
            (None, _) => Look::Flush,
            (Some(_), None) => Look::Unanswered,
            (_, Some(own)) => Look::Own { own, at },
        }
    }

    fn give_back(&mut self, frame: Frame, why: EngineDrop) {
        self.fates[self.not_taken.len()] = Fate::Drop(why);
        self.not_taken.push(frame);
    }

    /// Gives back own packets that this core had not come to when it went on with another's state; says whether it
    /// has given back all.
    fn drop_overtaken(&mut self) -> bool {
        let OnLoss::Recover(recovering) = &self.steps else { return true };
        let next = recovering.replica.next() + self.base + self.origin.seq;
        while let Some(frame) = self.waiting.pop_front_if(|frame| frame.stamp.seq < next) {
            self.counters.overtaken += 1;
            self.give_back(frame, EngineDrop::Overtaken);
            if self.not_taken.len() == RECEIVED_PACKETS {
                return false;
            }
        }
        true
    }

    /// OnLoss on from the logs.
    fn go_on(&mut self, batch: &mut Batch) {
        let room = BATCH_PACKETS - self.filled(batch);
        let Self {
            items,
            lane,
            steps: OnLoss::Recover(recovering),
            base,
            origin,
            counters,
            waiting,
            last,
            ..
        } = self
        else {
            return;
        };
        let mut entries =
            Entries { items, lane, origin: *origin, waiting, counters, last, own: None, own_at: None, batch };
        let advance = recovering.replica.advance(room, |seq, item| entries.push(seq + *base, item));
        recovering.note(advance);
    }

    /// Whether nothing keeps this core from stepping on.
    fn is_going(&self) -> bool {
        match &self.steps {
            OnLoss::Skip(_) => true,
            OnLoss::Recover(recovering) => recovering.is_going(),
        }
    }

    /// Everything is stepped: says whether nobody needs this core any more.
    fn leave(&mut self) -> bool {
        match &mut self.steps {
            OnLoss::Skip(_) => true,
            OnLoss::Recover(recovering) => recovering.leave(),
        }
    }

    /// Gives and takes states between two batches; says whether there is anything to go on with.
    fn exchange(&mut self, chain: &mut ChainCore) -> bool {
        let OnLoss::Recover(recovering) = &mut self.steps else { return true };
        let can_go_on = recovering.exchange(chain, &mut self.last);
        if !can_go_on && self.line.is_down() {
            recovering.give_up(chain);
        }
        can_go_on
    }

    /// Nothing comes that brings an item below `floor`; at the end, nothing at all. Says whether everything is
    /// stepped.
    fn silence(&mut self, floor: u64, is_end: bool) -> bool {
        let floor = floor.saturating_sub(self.base);
        match &mut self.steps {
            OnLoss::Skip(gaps) => {
                if is_end && !self.is_done {
                    // As if there were one more, behind what was lost.
                    gaps.arrive(floor..floor + 1);
                }
                true
            }
            OnLoss::Recover(recovering) => {
                let replica = &mut recovering.replica;
                replica.arrive(floor, iter::empty::<&[u8]>());
                is_end && replica.next() >= floor
            }
        }
    }
}

/// What became of a packet that was looked at.
enum Look {
    /// There is no room for it now.
    Later,
    /// There is no room for it in the log; it has been accepted.
    Full,
    Rejected(Rejected),
    Flush,
    /// It was stepped, as history.
    Unanswered,
    /// The state has it already.
    Overtaken(Own),
    Own {
        own: Own,
        /// Where in the batch it belongs; nowhere as long as it has to wait.
        at: Option<usize>,
    },
}

/// A packet behind its history.
#[derive(Clone, Copy)]
struct Own {
    stamp: Stamp,
    link: LinkType,
    /// Where it begins.
    offset: usize,
    /// Why the sequencer refused it.
    refused: Option<Malformed>,
    /// What its first fragment says, if that is known.
    first: Option<First>,
}

impl Own {
    fn of(history: &History<'_, HistoryItems>) -> Own {
        let (stamp, link) = (history.stamp(), history.link());
        let (offset, refused, first) = (history.packet_offset(), history.refused(), history.first());
        Own { stamp, link, offset, refused, first }
    }
}

/// Leaves the packet, as the sequencer got it.
fn strip(port: &mut dyn Port, frame: &mut Frame, own: Own, origin: Stamp) {
    let Own { stamp, link, offset, refused, first } = own;
    let data = frame.data();
    frame.set_data(data.start + offset..data.end);
    (frame.stamp, frame.link) = (since(origin, stamp), link);
    frame.note = frame.note.with_refused(refused);
    if let Some(first) = first
        && put_first(port, frame, &first)
    {
        frame.note = frame.note.followed();
    }
}

#[inline]
fn since(origin: Stamp, stamp: Stamp) -> Stamp {
    Stamp { seq: origin.seq + stamp.seq, time_ns: origin.time_ns + stamp.time_ns }
}

/// Packets that are stepped next, in the order of their numbers.
struct Entries<'a> {
    items: &'a HistoryItems,
    lane: &'a mut Option<Box<Lane>>,
    origin: Stamp,
    waiting: &'a mut VecDeque<Frame>,
    counters: &'a mut HistoryCounters,
    last: &'a mut Stamp,
    /// The packet that is being looked at, of which the batch gets the place alone.
    own: Option<Own>,
    own_at: Option<usize>,
    batch: &'a mut Batch,
}

impl Entries<'_> {
    /// Packet number `seq`, whose item this is. Of an own packet in the batch it is not asked for.
    fn push(&mut self, seq: u64, item: &[u8]) {
        let at = self.batch.len();
        let mut is_own = true;
        if let Some(own) = self.own.filter(|own| own.stamp.seq == seq) {
            self.own_at = Some(at);
            self.batch.frames.push(Frame::without_bytes(since(self.origin, own.stamp)));
        } else if let Some(frame) =
            self.waiting.pop_front_if(|frame| frame.stamp.seq == self.origin.seq + seq)
        {
            self.batch.frames.push(frame);
        } else {
            is_own = false;
            self.counters.replayed += 1;
        }
        *self.last = match is_own {
            true => self.batch.frames[at].stamp,
            false => since(self.origin, Stamp { seq, time_ns: time_ns(item) }),
        };
        match (&mut self.lane, self.items) {
            (Some(lane), _) => lane.push(*self.last, is_own, item),
            (None, HistoryItems::Headers(layout)) if !is_own => {
                layout.read_into(item, &mut self.batch.headers[at]);
                self.batch.frames.push(Frame::without_bytes(*self.last));
                self.batch.history |= 1 << at;
            }
            (None, _) => {}
        }
    }
}

impl Intake for External {
    fn receive(&mut self, port: &mut dyn Port, chain: &mut ChainCore, batch: &mut Batch) -> Received {
        let received = match self.exchange(chain) {
            true => self.turn(port, batch),
            false if self.line.is_down() => Received::End,
            false => Received::Idle,
        };
        let not_taken = self.not_taken.len();
        match port.send(&mut self.not_taken, &self.fates[..not_taken]) {
            Ok(()) => received,
            // The collector left, and says why.
            Err(Closed) => Received::End,
        }
    }

    fn step(&mut self, chain: &mut ChainCore, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        match &mut self.lane {
            None => chain.process(batch, port, laps),
            Some(lane) => lane.step(chain, batch, port, laps),
        }
    }

    fn counters(&self) -> IntakeCounters {
        let HistoryCounters { replayed, .. } = self.counters;
        IntakeCounters { replayed, overtaken: self.counters.overtaken, ..IntakeCounters::default() }
    }

    /// Own packets wait here, for what other cores know or have.
    fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || self.pending.is_some() || !self.is_going()
    }

    fn finish(&mut self) -> IntakeEnd {
        IntakeEnd { external: Some(self.end()), ..IntakeEnd::default() }
    }
}

/// Nobody waits for a core that is gone.
impl Drop for External {
    fn drop(&mut self) {
        if !self.is_done {
            self.line.go_down();
        }
    }
}
