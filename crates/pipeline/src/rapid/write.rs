//! `wr_sched`, the scheduler behind the last stage of a function: RAPID §4.2, §4.3, §4.5.

use crate::cam::Cam;
use crate::program::Consistency;
use crate::rapid::Faults;
use crate::rapid::ring::Signal;

/// The write scheduler of one function.
///
/// Its dTable mirrors the read scheduler's: a flow is registered with its update, is *clean* from `cancel_dirty`
/// on, and leaves when it has left the other one. So a place here is a place there.
#[derive(Debug)]
pub struct WriteScheduler {
    consistency: Consistency,
    flows: Cam,
    marks: Vec<Mark>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// Packets of the flow may have read a state that is old now.
    is_dirty: bool,
    /// How many of them may still pass (Fig. 8: Expiring, and Expired when none).
    may_pass: u32,
}

/// What becomes of a packet that read its flow's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on.
    Pass,
    /// It read a stale state, and is sent back.
    SendBack,
}

impl WriteScheduler {
    /// With room for `flows` dirty flows.
    pub fn new(consistency: Consistency, flows: usize) -> WriteScheduler {
        WriteScheduler { consistency, flows: Cam::new(flows), marks: vec![Mark::default(); flows] }
    }

    /// Takes a signal of the read scheduler.
    pub fn take<State>(&mut self, signal: &Signal<State>) {
        match *signal {
            Signal::Cancel { key } => {
                if let Some(place) = self.flows.find(key) {
                    self.marks[place].is_dirty = false;
                }
            }
            Signal::Free { key } => {
                // One that was updated since will be registered there again, and freed again.
                if let Some(place) = self.flows.find(key)
                    && !self.marks[place].is_dirty
                {
                    self.flows.remove(place);
                }
            }
            Signal::Writeback { .. } => {}
        }
    }

    /// What becomes of a packet that has gone through the function.
    #[inline]
    pub fn judge<F: Faults>(&mut self, key: u64) -> Fate {
        let Some(place) = self.flows.find(key) else { return Fate::Pass };
        let mark = &mut self.marks[place];
        if !mark.is_dirty || F::NO_RESUBMISSION {
            return Fate::Pass;
        }
        if mark.may_pass == 0 {
            return Fate::SendBack;
        }
        mark.may_pass -= 1;
        Fate::Pass
    }

    /// What would become of it.
    pub fn foresee(&self, key: u64) -> Fate {
        let mark = self.flows.find(key).map(|place| self.marks[place]).unwrap_or_default();
        if mark.is_dirty && mark.may_pass == 0 { Fate::SendBack } else { Fate::Pass }
    }

    /// A packet updates its flow's state: registers the flow. `None` if there is no room; otherwise whether the
    /// read scheduler has to register it too.
    pub fn update<F: Faults>(&mut self, key: u64) -> Option<bool> {
        let stale = match self.consistency {
            Consistency::Weak => return Some(false),
            Consistency::Strict => 0,
            Consistency::BoundedStaleness(packets) => packets + u32::from(F::ONE_MORE),
        };
        let place = match self.flows.find(key) {
            // An update by one of the stale packets that may pass: the bound is the one that it was.
            Some(place) if self.marks[place].is_dirty => return Some(true),
            Some(place) => place,
            None => self.flows.insert(key)?,
        };
        self.marks[place] = Mark { is_dirty: true, may_pass: stale };
        Some(true)
    }

    /// Whether packets of the flow that are in the span, or come into it now, may have to come back.
    pub fn is_dirty(&self, key: u64) -> bool {
        self.flows.find(key).is_some_and(|place| self.marks[place].is_dirty)
    }

    /// Key, whether it is dirty and how many stale packets may pass, of each flow by key.
    pub fn registers(&self) -> Vec<u64> {
        let mut flows: Vec<_> =
            self.flows.places().map(|place| (self.flows.key(place), self.marks[place])).collect();
        flows.sort_unstable_by_key(|(key, _)| *key);
        let numbers = |(key, mark): (u64, Mark)| [key, mark.is_dirty.into(), mark.may_pass.into()];
        flows.into_iter().flat_map(numbers).collect()
    }

    /// Flows registered.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// The most that were.
    pub fn most(&self) -> usize {
        self.flows.most()
    }
}
