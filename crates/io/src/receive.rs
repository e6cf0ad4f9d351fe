//! The receiving end of a ring of frames: one port's, or that of several.

use std::sync::{Arc, Mutex, PoisonError};

use ring::Consumer;

use crate::Frame;

/// Where a port receives from.
pub(crate) enum Receive {
    /// A queue of its own.
    Own(Consumer<Frame>),
    /// One that several ports have. A core that receives from it holds a lock; cores that take turns find it free.
    Common(Arc<Mutex<Consumer<Frame>>>),
}

impl Receive {
    /// One queue for so many ports.
    pub(crate) fn common(queue: Consumer<Frame>, ports: usize) -> Vec<Receive> {
        let queue = Arc::new(Mutex::new(queue));
        (0..ports).map(|_| Receive::Common(Arc::clone(&queue))).collect()
    }

    /// Looks at the queue.
    #[inline]
    pub(crate) fn with<R>(&mut self, look: impl FnOnce(&mut Consumer<Frame>) -> R) -> R {
        match self {
            Receive::Own(queue) => look(queue),
            Receive::Common(queue) => look(&mut queue.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}
