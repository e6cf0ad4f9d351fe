//! Atomics and cells: the standard ones, or those that the model checker watches.

#[cfg(feature = "loom")]
pub(crate) use checked::is_planted;
#[cfg(feature = "loom")]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
#[cfg(not(feature = "loom"))]
pub(crate) use plain::{UnsafeCell, is_planted};
#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// What a test may break, to see that the model checker finds it. Nothing is ever broken in a plain
/// build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The producer publishes items without ordering them before it.
    PushRelaxed,
    /// The consumer looks at the tail without ordering its reads after it.
    TailSeenRelaxed,
    /// The consumer gives slots back without ordering its reads before it.
    PopRelaxed,
    /// The consumer gives slots back, and then reads them.
    PopEarly,
    /// The producer looks at the head without ordering its writes after it.
    HeadSeenRelaxed,
    /// The publisher asks the first of its readers alone what is released.
    OneReaderAsked,
    /// A writer of a log publishes without ordering what those before it wrote before that.
    TurnSeenRelaxed,
    /// A writer of a log publishes before those with lower numbers have.
    PublishedOutOfTurn,
    /// A side leaves without ordering what it did before it.
    LeaveRelaxed,
    /// A side sees the other leave without ordering what it does after it.
    LeavingSeenRelaxed,
}

/// The ordering of a store that publishes.
#[inline]
pub(crate) fn release_unless(fault: Fault) -> Ordering {
    if is_planted(fault) { Ordering::Relaxed } else { Ordering::Release }
}

/// The ordering of a load that sees what was published.
#[inline]
pub(crate) fn acquire_unless(fault: Fault) -> Ordering {
    if is_planted(fault) { Ordering::Relaxed } else { Ordering::Acquire }
}

#[cfg(not(feature = "loom"))]
mod plain {
    /// The standard cell, reached in loom's way. It is laid out as its value is.
    #[repr(transparent)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> UnsafeCell<T> {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        #[inline]
        pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }

    #[inline]
    pub(crate) const fn is_planted(_: super::Fault) -> bool {
        false
    }
}

#[cfg(feature = "loom")]
mod checked {
    use std::cell::Cell;

    use super::Fault;

    thread_local! {
        /// Loom runs all threads of a model on the one that called it.
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    pub(crate) fn is_planted(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }

    /// Breaks the rings of this thread's models.
    #[cfg(test)]
    pub(crate) fn plant(fault: Option<Fault>) {
        PLANTED.set(fault);
    }
}

#[cfg(all(test, feature = "loom"))]
pub(crate) use checked::plant;
