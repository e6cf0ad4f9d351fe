//! Defects to be planted: each is one that a test must notice.

/// What is done wrong. The constants are known when a model is compiled, so that a sound one does not ask.
pub trait Faults {
    /// `cancel_dirty` is not sent.
    const NO_CANCEL: bool = false;
    /// Timers are one cycle short.
    const SHORT_TIMER: bool = false;
    /// A heartbeat goes past packets that wait.
    const HEEDLESS_HEARTBEAT: bool = false;
    /// Packets that read a stale state go on.
    const NO_RESUBMISSION: bool = false;
    /// Packets that were sent back go behind those that arrived later.
    const APPENDED: bool = false;
    /// One stale packet more passes than bounded staleness allows.
    const ONE_MORE: bool = false;
    /// A flow that is blocked lets its next packet in a cycle too early.
    const HASTY_BLOCKING: bool = false;
}

/// None of them.
#[derive(Debug)]
pub enum Sound {}

impl Faults for Sound {}
