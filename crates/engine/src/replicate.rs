//! State-compute replication on one core (SCR §3.2): packets of all cores are stepped here, in the order of their
//! sequence numbers; those of other cores from what a [`Past`] knows of their headers.
//!
//! ```text
//!  received:  own packets 3, 7, 11            past:  headers of 0, 1, 2, ...
//!  a batch:   0 1 2 (3) 4 5 6 (7) 8 9 10 (11)
//! ```
//!
//! A batch is stepped as any other is: looked up in bulk, with blocks on their way ahead of the steps. So all that
//! holds of a batch holds here: flows expire, and tables fill up, at the same step on every core.

use io::{Frame, Port, Received};
use sequencer::ItemLayout;
use wire::Stamp;

use crate::chain::{Chain, ChainCore};
use crate::run::Custody;
use crate::{BATCH_PACKETS, Batch};

/// What is known of packets that other cores have.
pub trait Past: Send {
    /// The time of packet number `seq`, ns, and its item of history, whose time is of no meaning. Asked in order; the
    /// last one may be asked for again.
    ///
    /// # Errors
    /// [`Forgotten`] if it is not known, or not any more.
    fn recall(&mut self, seq: u64) -> Result<(u64, &[u8]), Forgotten>;

    /// How many packets there were, once no more will come.
    fn end(&self) -> Option<u64>;
}

/// A packet's headers are not known any more: the core lagged too far behind. What it steps from then on is not what
/// the others step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// Its number.
    pub seq: u64,
}

/// Puts the packets of other cores between a core's own.
pub struct Replicator<P> {
    past: P,
    layout: ItemLayout,
    /// Own packets that are received at once.
    own_packets: usize,
    /// The number of the next packet to be stepped.
    next: u64,
    /// Own packets that wait for those before them, the next one last.
    arrived: Vec<Frame>,
    /// The item of the batch's last packet, where one entry may stand for several.
    last: Option<Box<[u8]>>,
    forgotten: Option<Forgotten>,
    replayed: u64,
}

impl<P: Past> Replicator<P> {
    /// For one of `cores` cores that run `chain`, from packet number `first` on.
    pub fn new(past: P, chain: &Chain, cores: usize, first: u64) -> Replicator<P> {
        let layout = ItemLayout::new(chain.history_bytes());
        let last = chain.can_run().then(|| vec![0; layout.item_len()].into());
        // History that repeats itself takes no room in a batch.
        let own_packets = if last.is_some() { BATCH_PACKETS } else { (BATCH_PACKETS / cores).max(1) };
        Replicator {
            past,
            layout,
            own_packets,
            next: first,
            arrived: Vec::with_capacity(own_packets),
            last,
            forgotten: None,
            replayed: 0,
        }
    }

    /// Where this core fell too far behind, if it did; it has received nothing since.
    pub fn forgotten(&self) -> Option<Forgotten> {
        self.forgotten
    }

    /// Packets of other cores that were stepped here.
    pub fn replayed(&self) -> u64 {
        self.replayed
    }

    /// Steps up to number `seq` from the past, as far as there is room; says whether it came so far.
    fn replay_to(&mut self, seq: u64, batch: &mut Batch) -> Result<bool, Forgotten> {
        while self.next < seq {
            let (time_ns, item) = self.past.recall(self.next)?;
            let packet = batch.len();
            let repeats = match &mut self.last {
                Some(last) if packet > 0 => {
                    ItemLayout::are_alike(last, item) && batch.runs.push(packet - 1, time_ns)
                }
                _ => false,
            };
            if !repeats {
                if packet == BATCH_PACKETS {
                    return Ok(false);
                }
                self.layout.read_into(item, &mut batch.headers[packet]);
                batch.history |= 1 << packet;
                let stamp = Stamp { seq: self.next, time_ns };
                begin(&mut self.last, item, Frame::without_bytes(stamp), batch);
            }
            self.next += 1;
            self.replayed += 1;
        }
        Ok(true)
    }

    /// Own packets with what lies before each, as many as there is room for.
    fn fill(&mut self, batch: &mut Batch) -> Result<(), Forgotten> {
        while let Some(own) = self.arrived.last() {
            if !self.replay_to(own.stamp.seq, batch)? || batch.len() == BATCH_PACKETS {
                return Ok(());
            }
            let Some(own) = self.arrived.pop() else { return Ok(()) };
            match self.last {
                None => batch.frames.push(own),
                Some(_) => {
                    let (_, item) = self.past.recall(self.next)?;
                    begin(&mut self.last, item, own, batch);
                }
            }
            self.next += 1;
        }
        Ok(())
    }

    fn receive_own(&mut self, port: &mut impl Port) -> Received {
        if !self.arrived.is_empty() {
            return Received::Frames;
        }
        let received = port.receive(&mut self.arrived, self.own_packets);
        self.arrived.reverse();
        received
    }
}

/// One more entry of the batch, which those alike may follow.
#[inline]
fn begin(last: &mut Option<Box<[u8]>>, item: &[u8], frame: Frame, batch: &mut Batch) {
    if let Some(last) = last {
        last.copy_from_slice(item);
        batch.runs.begin(batch.len());
    }
    batch.frames.push(frame);
}

impl<P: Past> Custody for Replicator<P> {
    fn receive(&mut self, port: &mut impl Port, _: &mut ChainCore, batch: &mut Batch) -> Received {
        if self.forgotten.is_some() {
            return Received::End;
        }
        let received = self.receive_own(port);
        let filled = match received {
            Received::Frames => self.fill(batch),
            Received::Idle => return Received::Idle,
            // What came after this core's last packet: replicas end alike.
            Received::End => self.replay_to(self.past.end().unwrap_or(self.next), batch).map(|_| ()),
        };
        match filled {
            Err(forgotten) => {
                self.forgotten = Some(forgotten);
                // What was taken up to there is whole.
                if batch.is_empty() { Received::End } else { Received::Frames }
            }
            Ok(()) if batch.is_empty() => received,
            Ok(()) => Received::Frames,
        }
    }
}
