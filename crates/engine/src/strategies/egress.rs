//! In which order packets leave.

use io::{Collector, Feeder, ReplayPort};

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
}

/// How packets of a capture come to cores, and leave them.
#[derive(Clone, Copy)]
pub struct Replayed {
    pub(crate) egress: Egress,
    /// Whether all cores take packets from one queue, as on a live port.
    pub(crate) has_one_queue: bool,
    /// Makes a port out of which packets come as they came.
    pub(crate) ordered: fn(usize) -> Ends,
}

impl Replayed {
    /// A port for so many cores.
    pub(crate) fn ends(self, cores: usize) -> Ends {
        match self.egress {
            Egress::Ordered => (self.ordered)(cores),
            Egress::AsReady => io::as_ready((self.ordered)(cores)),
        }
    }
}
