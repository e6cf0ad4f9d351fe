use io::{Collector, Fate, Feeder, REPLAY_FRAMES_MAX, ReplayPort};
use nf::{FiveTuple, FlowKey, hash_bytes};
use zerocopy::IntoBytes;

use crate::reordering::{Reordered, Reordering};
use crate::session::Seen;

/// In which order packets leave, where several cores finish theirs at different times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Egress {
    /// As they came. A packet that is done ahead of its turn waits in a window, and its core waits once that is full.
    #[default]
    Ordered,
    /// As cores are done with them. No packet waits for another, and how far they leave out of order is measured.
    AsReady,
}

/// The ends of a port.
type Ends = (Feeder, Vec<ReplayPort>, Collector);

impl Egress {
    /// All, in the order in which one should think of them.
    pub const ALL: [Egress; 2] = [Egress::Ordered, Egress::AsReady];

    /// What options and reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Egress::Ordered => "ordered",
            Egress::AsReady => "as-ready",
        }
    }

    /// What it is, in a line.
    pub fn summary(self) -> &'static str {
        match self {
            Egress::Ordered => "as they came; a core that is ahead waits",
            Egress::AsReady => {
                "as cores are done with them; the report says how far that is from the order they came in"
            }
        }
    }

    /// A port out of which packets come so; `ordered` makes it where they come out as they came.
    pub(crate) fn ends(self, queues: usize, ordered: fn(usize) -> Ends) -> Ends {
        match self {
            Egress::Ordered => ordered(queues),
            Egress::AsReady => io::replay_as_ready(queues),
        }
    }

    /// What is measured of packets that leave so.
    pub fn watch(self) -> Watch {
        Watch((self == Egress::AsReady).then(|| Reordering::new(REPLAY_FRAMES_MAX)))
    }
}

/// How packets left.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EgressOutcome {
    /// In which order.
    pub egress: Egress,
    /// Batches that had to wait on their core since the way out was full: for an earlier packet, or for whoever
    /// takes packets.
    pub blocked_batches: u64,
    /// How far packets that left, forwarded or sent back, did so out of order; `None` where they were put into it.
    ///
    /// Exact: no more frames fit into the port's memory than [`Reordering`] has a window, and a packet that is in it
    /// keeps those behind it from leaving it.
    pub reordered: Option<Reordered>,
}

/// Looks at packets as they leave, where that is worth a look.
pub struct Watch(Option<Reordering>);

impl Watch {
    /// A packet leaves, or is dropped and does not count.
    #[inline]
    pub fn see(&mut self, seen: &Seen<'_>) {
        let Watch(Some(reordering)) = self else { return };
        if matches!(seen.fate, Fate::Forward | Fate::TransmitBack) {
            reordering.leave(seen.stamp.seq, flow(seen));
        }
    }

    /// What there is to tell.
    pub fn reordered(&self) -> Option<Reordered> {
        self.0.as_ref().map(Reordering::reordered)
    }
}

/// A hash of the 5-tuple with which a packet leaves: the flow that whoever gets it sees.
fn flow(seen: &Seen<'_>) -> Option<u64> {
    let headers = wire::parse(seen.link, seen.bytes, seen.wire_len);
    let is_flow = headers.is_ip() && headers.is_well_formed();
    is_flow.then(|| hash_bytes(FiveTuple::of(&headers).as_bytes(), 0))
}
