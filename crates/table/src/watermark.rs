//! The watermark: a lower bound on the time stamps of packets still to come, as of which flows may be forgotten.

/// A time before which no packet will come any more, of any flow in a table: as of when flows may be forgotten.
///
/// "Is this flow dead?" is two questions, and this type keeps them apart:
///
/// - A packet asks whether *its own* flow is dead. The answer is by the packet's own time, a plain number of ns:
///   [`Cell::is_dead_at`](crate::Cell::is_dead_at).
/// - A core that wants memory back asks whether *another* flow is dead. A packet of that flow may still come that is
///   older than the newest packet seen: it waits for flows from another core, or it is on a core that lags. The
///   answer is by the oldest packet that may still come, which is the watermark. All that takes a flow from a table
///   without a packet of that flow takes a watermark: [`FlowTable::maintain`](crate::FlowTable::maintain),
///   [`FlowTable::make_room`](crate::FlowTable::make_room), [`FlowTable::settle`](crate::FlowTable::settle).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watermark {
    past_ns: u64,
}

impl Watermark {
    /// Claims that no packet before `past_ns` will come any more, nor one that is stepped as of an earlier time.
    /// The caller says why that holds: a test of the conformance tests lists all callers.
    #[inline]
    pub const fn claim(past_ns: u64) -> Watermark {
        Watermark { past_ns }
    }

    /// The time, ns.
    #[inline]
    pub const fn past_ns(self) -> u64 {
        self.past_ns
    }

    /// Whether a flow with this deadline is dead to every packet that may still come.
    #[inline]
    pub const fn is_past(self, deadline_ns: u64) -> bool {
        deadline_ns <= self.past_ns
    }
}
