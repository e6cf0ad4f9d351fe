//! The thread that moves entries of the table in front of cores that have ports of their own. It sleeps most of the time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::executor::input::Progress;
use crate::strategies::dispatch::{Rebalancer, Table, TableError};

/// How often it looks at what the cores count.
const LOOK: Duration = Duration::from_millis(1);
/// How often it looks whether entries have come to their new core.
const NAP: Duration = Duration::from_micros(100);

/// What the thread and the ports of the cores say to each other.
#[derive(Debug, Default)]
pub(crate) struct Moving {
    /// Whether entries may move: then no port ends but where a core panicked. Packets may be in the queue of a core that
    /// has their flows no more.
    pub(crate) goes_on: AtomicBool,
    /// Whether all cores have ended.
    pub(crate) is_over: AtomicBool,
}

impl Moving {
    /// Cores begin, between which entries may move, or may not.
    pub(crate) fn begin(&self, goes_on: bool) {
        self.goes_on.store(goes_on, Ordering::Relaxed);
        self.is_over.store(false, Ordering::Relaxed);
    }
}

/// Says that entries move no more, whatever happens.
struct Ended<'a>(&'a Moving);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.goes_on.store(false, Ordering::Release);
    }
}

/// Moves entries until the run stops, another chain is to take over, or all cores have ended. Where another chain takes over,
/// all entries are where they were at first by then; where the run stops, each is on one core with all its flows.
///
/// # Errors
/// [`TableError`] if the table could not be changed. All cores end then.
pub(crate) fn move_entries(
    mut rebalancer: Box<dyn Rebalancer>,
    table: &mut dyn Table,
    moving: &Moving,
    (progress, is_broken): (&Progress, &AtomicBool),
) -> Result<(), TableError> {
    let _ended = Ended(moving);
    let begin = Instant::now();
    let begin_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let now_ns = || begin_ns + begin.elapsed().as_nanos() as u64;
    let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
    let mut turn = || -> Result<bool, TableError> {
        if !rebalancer.is_settled() {
            thread::sleep(NAP);
            return Ok(true);
        }
        if is_set(&progress.stop) {
            return Ok(false);
        }
        if progress.reloads.is_due() {
            return rebalancer.go_home(now_ns(), table);
        }
        rebalancer.look(now_ns(), table)?;
        thread::sleep(LOOK);
        Ok(true)
    };
    while !is_set(is_broken) && !is_set(&moving.is_over) {
        match turn() {
            Ok(true) => (),
            Ok(false) => break,
            Err(error) => {
                // What was on its way comes to an end all the same.
                is_broken.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
    }
    Ok(())
}
