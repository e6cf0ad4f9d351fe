//! The board on which the thread that has a port writes what the interfaces count, for other threads to read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::InterfaceCounters;
use crate::side::Side;

/// How often it is written down, nanoseconds.
const EVERY_NS: u64 = 100_000_000;

/// An interface of a run that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceStatus {
    /// Its name.
    pub name: String,
    /// What was chosen for it; `gone` if there is none of that name.
    pub socket: String,
    /// What it counted, a tenth of a second ago at most while the run goes on.
    pub counters: InterfaceCounters,
}

/// The interfaces of a port, as they were a moment ago; of ports that several cores have, added up. Clones are the same
/// board.
#[derive(Clone, Debug)]
pub struct Board {
    /// By core.
    cores: Arc<[Mutex<Vec<InterfaceStatus>>]>,
    /// Whose part this clone writes.
    core: usize,
}

impl Board {
    /// Boards for the cores: each core writes its own, and a reader of any sees the counts of all.
    pub(crate) fn for_cores(cores: usize) -> Vec<Board> {
        let all: Arc<[_]> = (0..cores).map(|_| Mutex::default()).collect();
        (0..cores).map(|core| Board { cores: Arc::clone(&all), core }).collect()
    }

    fn of(&self, core: usize) -> MutexGuard<'_, Vec<InterfaceStatus>> {
        self.cores[core].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is written there.
    pub fn read(&self) -> Vec<InterfaceStatus> {
        let mut sums: Vec<InterfaceStatus> = Vec::new();
        for core in 0..self.cores.len() {
            for (at, status) in self.of(core).iter().enumerate() {
                match sums.get_mut(at) {
                    Some(sum) => sum.counters.add(&status.counters),
                    None => sums.push(status.clone()),
                }
            }
        }
        sums
    }

    /// Writes anew. While another thread reads, it is left for the next time: nobody waits here.
    pub(crate) fn write(&self, sides: &mut [Side]) {
        let Ok(mut board) = self.cores[self.core].try_lock() else { return };
        if board.len() != sides.len() {
            *board = sides
                .iter_mut()
                .map(|side| InterfaceStatus {
                    name: side.interface.name.clone(),
                    socket: side.link.describe(),
                    counters: side.counters(),
                })
                .collect();
        }
        for (status, side) in board.iter_mut().zip(sides) {
            status.counters = side.counters();
        }
    }

    /// Other sockets.
    pub(crate) fn forget(&self) {
        self.of(self.core).clear();
    }
}

/// When to write.
#[derive(Debug, Default)]
pub(crate) struct Due(u64);

impl Due {
    /// Whether it is time; then it is not again for a while.
    #[inline]
    pub(crate) fn is_now(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns >= self.0;
        if is_due {
            self.0 = now_ns + EVERY_NS;
        }
        is_due
    }
}
