//! `scr-turns`: replication without a sequencer. Cores take packets from one queue, in turns, and each tells the
//! others of those that it took.
//!
//! ```text
//!   queue:     0 1 2 3 4 5 6 7 8 9 ...
//!   core 0:    takes 0 1 2    writes 0 1 2    publishes        steps (0 1 2)
//!   core 1:       takes 3 4 5 6   writes 3 4 5 6   publishes   steps 0 1 2 (3 4 5 6)
//! ```
//!
//! Whose turn it is holds the log's tickets, which it gives back before it looks at any byte: receiving and claiming numbers
//! is all that cores do one after the other. What they write goes side by side, and is published in the order of the
//! packets (`ring::log`), so that history is what one sequencer would have written. A core waits for those whose packets came
//! before its own, and these for nobody: room in the log is there before packets are taken.
//!
//! The queue is a capture's, one behind a thread that has a port; or the receive queues of interfaces, from which cores take
//! packets by ports of their own. There each core sends by itself, too, in no order with the others.

use std::hint;
use std::sync::{Arc, Mutex, TryLockError};

use io::{Closed, Fate, Foreign, Frame, Port, Queue, Received, Waiting};
use ring::Tickets;
use strategy::{Assign, Single};
use wire::Headers;

use crate::chain::Chain;
use crate::path::batch::Batch;
use crate::path::checks::Checks;
use crate::path::core::ChainCore;
use crate::path::laps::Laps;
use crate::path::packets::{BATCH_PACKETS, all_bits};
use crate::path::receive::{Intake, IntakeCounters, IntakeEnd};
use crate::strategies::dispatch::Team;
use crate::strategies::info::StrategyInfo;
use crate::strategies::plan::{Layout, Plan, States, Strategy};
use crate::strategies::refusal::PlanError;
use crate::strategies::scr::log::{Recorder, history_of};
use crate::strategies::scr::replicable;

/// See the module.
pub(crate) struct ScrTurns;

/// How often a core looks whether another is done, one look after the other: for some microseconds, which is what others take.
const LOOKS: u32 = 500;

/// Batches of each core that the log has room for: a core that is interrupted holds the others up when they are so far ahead.
const BATCHES: usize = 64;

static INFO: StrategyInfo = StrategyInfo {
    max_cores: sequencer::MAX_CORES,
    parking: Err("each core steps the packets of all"),
    pinning: Err("each core has all flows"),
    has_one_queue: true,
    rates: Some(&control::rates::SCR_TURNS),
    ..StrategyInfo::new(
        "scr-turns",
        "scr without a sequencer: cores take packets from one queue in turns, and tell each other of them",
    )
};

impl Strategy for ScrTurns {
    fn info(&self) -> &'static StrategyInfo {
        &INFO
    }

    fn layout(&self, chain: &Chain, cores: usize) -> Result<Layout, PlanError> {
        replicable(chain, cores, self.name())?;
        Ok(Layout { states: States::Replicated, ..Layout::default() })
    }

    fn assign(&self, _: &Chain, _: &Plan) -> Box<dyn Assign> {
        Box::new(Single)
    }

    fn team(&self, chain: &Chain, plan: &Plan) -> Team {
        let assign = self.assign(chain, plan);
        if !plan.has_one_queue() {
            return Team::plain(assign, plan.cores);
        }
        let records = (plan.cores + 1) * BATCHES * BATCH_PACKETS;
        let (tickets, recorders, replicas) = history_of(chain, (plan.cores, plan.cores), records, plan.first);
        let (tickets, checks) = (Arc::new(Mutex::new(tickets)), chain.checks());
        let intake = |(recorder, replica)| -> Box<dyn Intake> {
            let taking = Taking {
                tickets: Arc::clone(&tickets),
                recorder,
                checks: checks.clone(),
                headers: Box::new([Headers::default(); BATCH_PACKETS]),
                taken: None,
            };
            Box::new(InTurn { replica, taking })
        };
        let intakes = recorders.into_iter().zip(replicas).map(intake).collect();
        Team { dispatcher: Box::new(assign), intakes }
    }
}

/// Stands before a replica, and tells the others of what it gets.
struct InTurn {
    replica: Box<dyn Intake>,
    taking: Taking,
}

/// A core's end of the queue and of the log.
struct Taking {
    /// The tickets of the log: the core that has them may take packets.
    tickets: Arc<Mutex<Tickets>>,
    recorder: Recorder,
    checks: Checks,
    /// Headers of the packets that it took last.
    headers: Box<[Headers; BATCH_PACKETS]>,
    /// How many these are, and the number of the first; `None` once they are of no use.
    taken: Option<(usize, u64)>,
}

impl Taking {
    /// Takes packets, if nobody else does just now, and tells the others of them.
    fn receive(&mut self, port: &mut dyn Port, frames: &mut Vec<Frame>, max: usize) -> Received {
        let Taking { tickets, recorder, checks, headers, .. } = self;
        let max = max.min(BATCH_PACKETS);
        let begin = frames.len();
        port.prepare();
        let received = {
            let mut looks = 0;
            let mut tickets = loop {
                match tickets.try_lock() {
                    Ok(tickets) => break tickets,
                    Err(TryLockError::WouldBlock) if looks == LOOKS => return Received::Idle,
                    Err(TryLockError::WouldBlock) => hint::spin_loop(),
                    // A core has panicked that had them: the run is over, for those too that wait for its packets.
                    Err(TryLockError::Poisoned(tickets)) => {
                        tickets.into_inner().close();
                        return Received::End;
                    }
                }
                looks += 1;
            };
            if !tickets.has_room(max) {
                return Received::Idle;
            }
            let received = port.receive(frames, max);
            match received {
                Received::Frames => {
                    let has_room = recorder.writer.claim(&mut tickets, frames.len() - begin);
                    debug_assert!(has_room, "asked before");
                }
                Received::End => tickets.close(),
                Received::Idle => {}
            }
            received
        };
        port.fetch(&mut frames[begin..]);
        let taken = &mut frames[begin..];
        let Some(first) = taken.first() else { return received };
        self.taken = Some((taken.len(), first.stamp.seq));
        checks.parse_batch(taken, &mut headers[..], |frame| port.bytes(frame));
        if checks.is_needed() {
            for (frame, headers) in taken.iter_mut().zip(&mut **headers) {
                checks.refuse(frame.note.refused(), headers);
                checks.follow(port, frame, headers);
                checks.verify(port.bytes(frame), headers);
            }
        }
        recorder.write(&headers[..taken.len()], taken);
        // Those before have their packets, and nothing to wait for but a processor: so no core sleeps here.
        let mut looks = 0;
        while !recorder.writer.publish() {
            if recorder.writer.is_broken() {
                frames.truncate(begin);
                return Received::End;
            }
            if looks < LOOKS {
                hint::spin_loop()
            } else {
                io::give_way()
            }
            looks += 1;
        }
        received
    }

    /// Puts headers into the batch of which the packets taken last are the first, so that nobody parses them again.
    fn share(&mut self, batch: &mut Batch) {
        let Some((packets, seq)) = self.taken.take() else { return };
        let is_whole = batch.history == 0 && batch.frames.first().is_some_and(|frame| frame.stamp.seq == seq);
        // What is checked is counted where it is checked.
        if is_whole && batch.len() == packets && !self.checks.is_needed() {
            batch.headers[..packets].copy_from_slice(&self.headers[..packets]);
            batch.parsed = all_bits(packets);
        }
    }
}

impl Intake for InTurn {
    fn receive(&mut self, port: &mut dyn Port, chain: &mut ChainCore, batch: &mut Batch) -> Received {
        let InTurn { replica, taking } = self;
        let received = replica.receive(&mut Taken { port, taking }, chain, batch);
        taking.share(batch);
        received
    }

    fn step(&mut self, chain: &mut ChainCore, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        self.replica.step(chain, batch, port, laps);
    }

    fn counters(&self) -> IntakeCounters {
        self.replica.counters()
    }

    fn finish(&mut self) -> IntakeEnd {
        self.replica.finish()
    }
}

/// The port as a replica sees it: packets come with their history told.
struct Taken<'a> {
    port: &'a mut dyn Port,
    taking: &'a mut Taking,
}

impl Port for Taken<'_> {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        self.taking.receive(self.port, frames, max)
    }

    fn fetch(&mut self, frames: &mut [Frame]) {
        self.port.fetch(frames);
    }

    fn consumed(&self) -> u64 {
        self.port.consumed()
    }

    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.port.bytes(frame)
    }

    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.port.buffer_mut(frame)
    }

    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        self.port.transmit(frames, fates)
    }

    fn take_over(&mut self, frames: &[Frame]) -> Result<(), Foreign> {
        self.port.take_over(frames)
    }

    fn hand_over(&mut self, frames: &[Frame]) {
        self.port.hand_over(frames);
    }

    fn idle(&mut self, waiting: &Waiting) {
        self.port.idle(waiting);
    }

    fn queue(&self) -> Queue {
        self.port.queue()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::chain::registry::Registry;
    use crate::path::no_packets::NoPackets;
    use crate::strategies::SCR_TURNS;

    /// The others do not wait for what nobody publishes.
    #[test]
    fn planted_a_core_that_panics_while_it_takes_packets_ends_the_run() {
        let chain = Chain::parse("test.toml", "[[function]]\nuse = \"ddos\"", &Registry::of_tests());
        let Ok(chain) = chain else { panic!("{:?}", chain.err()) };
        let plan = Plan::new(&chain, SCR_TURNS, 2).expect("a plan");
        let mut cores = plan.cores_of(&chain).expect("memory");
        let mut intakes = plan.team(&chain).intakes;
        let mut batch = Batch::new();
        let mut receive = |core: usize, port: fn() -> Received| {
            intakes[core].receive(&mut NoPackets::saying(port), &mut cores[core], &mut batch)
        };
        assert_eq!(receive(1, || Received::Idle), Received::Idle);
        catch_unwind(AssertUnwindSafe(|| receive(0, || panic!("planted")))).expect_err("planted");
        assert_eq!(receive(1, || Received::Idle), Received::End);
    }
}
