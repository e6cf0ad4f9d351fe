//! The board on which the control thread posts the newest snapshot, and from which other threads read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::snapshot::Snapshot;

/// The newest snapshot, with a number that says whether a reader has it already.
pub(super) struct Board {
    version: AtomicU64,
    newest: Mutex<Arc<Snapshot>>,
}

impl Board {
    pub(super) fn new(first: Arc<Snapshot>) -> Board {
        Board { version: AtomicU64::new(0), newest: Mutex::new(first) }
    }

    /// Posts a snapshot, and returns the one before it.
    pub(super) fn post(&self, snapshot: Arc<Snapshot>) -> Arc<Snapshot> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *newest, snapshot);
        // Inside the lock: a thread that has the lock sees a version and its snapshot.
        self.version.fetch_add(1, Ordering::Release);
        before
    }

    pub(super) fn newest(&self) -> Arc<Snapshot> {
        Arc::clone(&self.newest.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A thread's view of the board.
pub(super) struct Reader {
    board: Arc<Board>,
    version: u64,
    snapshot: Arc<Snapshot>,
}

impl Reader {
    pub(super) fn new(board: Arc<Board>) -> Reader {
        // At worst the version is older than the snapshot, and the first `refresh` takes the same one again.
        let version = board.version.load(Ordering::Acquire);
        let snapshot = board.newest();
        Reader { board, version, snapshot }
    }

    /// Takes the newest snapshot if there is a new one. Never waits: while the control thread posts one, the reader
    /// keeps what it has until the next time.
    #[inline]
    pub(super) fn refresh(&mut self) {
        if self.board.version.load(Ordering::Acquire) != self.version {
            self.take();
        }
    }

    #[cold]
    fn take(&mut self) {
        if let Ok(newest) = self.board.newest.try_lock() {
            // The old snapshot is not freed here: the control thread holds it until no reader does.
            self.snapshot = Arc::clone(&newest);
            self.version = self.board.version.load(Ordering::Acquire);
        }
    }

    /// The number of the snapshot, which a newer one exceeds.
    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    #[inline]
    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}
