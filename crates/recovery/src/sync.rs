//! Atomics: the standard ones, or those that the model checker watches; and what tests may break.

#[cfg(feature = "loom")]
pub(crate) use loom::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering, fence},
};
#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering, fence},
};

/// What a test may break, to see that it is found. Nothing is ever broken in a plain build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "some are broken in the tests' own cores"))]
pub(crate) enum Fault {
    /// A record is overwritten without being taken away from its readers first.
    NoClaim,
    /// The tag that takes a record away is not ordered before the item that overwrites it.
    ClaimRelaxed,
    /// A record is published without ordering its item before it.
    PublishRelaxed,
    /// A record's tag is read without ordering its item after it.
    TagSeenRelaxed,
    /// The second look at the tag is not ordered behind the item.
    RecheckRelaxed,
    /// There is no second look at the tag.
    NoRecheck,
    /// Which sequence number a record is for is not looked at.
    NoNumber,
    /// A core records more than its log holds ahead of its steps.
    NoRoomNeeded,
    /// A core says that the next item is lost, which may still come.
    LostEarly,
    /// What a core has not recorded yet is taken for lost.
    NotYetIsLost,
    /// What a core has overwritten is taken for lost.
    OverwrittenIsLost,
    /// The number that goes with a state was looked up a batch before the state was copied.
    NumberTooEarly,
    /// A state is copied when the number has gone on and the steps are still to be done.
    StateTooEarly,
    /// A core that has come to its end answers nobody any more.
    LeavesEarly,
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

/// A fence.
#[inline]
pub(crate) fn fence_unless(fault: Fault, ordering: Ordering) {
    if !is_planted(fault) {
        fence(ordering);
    }
}

#[cfg(not(any(test, feature = "loom")))]
#[inline]
pub(crate) const fn is_planted(_: Fault) -> bool {
    false
}

#[cfg(any(test, feature = "loom"))]
pub(crate) use planted::is_planted;
#[cfg(test)]
pub(crate) use planted::plant;

#[cfg(any(test, feature = "loom"))]
mod planted {
    use std::cell::Cell;

    use super::Fault;

    thread_local! {
        /// Loom runs all threads of a model on the one that called it, and a simulation has only one.
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    pub(crate) fn is_planted(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }

    /// Breaks what this thread does for as long as the value lives.
    #[cfg(test)]
    pub(crate) fn plant(fault: Fault) -> impl Drop {
        struct Planted;
        impl Drop for Planted {
            fn drop(&mut self) {
                PLANTED.set(None);
            }
        }
        PLANTED.set(Some(fault));
        Planted
    }
}
