//! Where the packets of a run come from, and how far it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use io::capture::CaptureReader;
use telemetry::Telemetry;

use crate::chain::Chain;
use crate::executor::pace::Speed;
use crate::executor::reloads::Reloads;
use crate::path::tracing::Tracing;
use crate::strategies::plan::{Plan, States};

/// How a run goes on, to be read from outside while it does.
#[derive(Debug, Default)]
pub struct Progress {
    /// Set to end the run after the packets that are on their way.
    pub stop: AtomicBool,
    /// Bytes of the input file read so far.
    pub read_bytes: AtomicU64,
    /// Where the cores tell what they count, if anyone wants to know: as [`Plan::telemetry`](crate::Plan::telemetry) makes it.
    pub telemetry: Option<Arc<Telemetry>>,
    /// How packets on their way through the chain are looked at.
    pub tracing: Arc<Tracing>,
    /// How another chain takes over in a live run.
    pub reloads: Reloads,
}

impl Progress {
    /// Where the cores of a run tell what they count, if anyone wants to know, or the strategy decides by it.
    pub(crate) fn telemetry_of(&self, chain: &Chain, plan: &Plan) -> Option<Arc<Telemetry>> {
        let decides = plan.states == States::Changing;
        self.telemetry.clone().or_else(|| decides.then(|| Arc::new(plan.telemetry(chain))))
    }
}

/// Where packets come from, and when.
pub struct Input {
    /// The capture.
    pub reader: CaptureReader,
    /// How fast its time goes by; without it packets come as fast as they are taken.
    pub speed: Option<Speed>,
}

impl From<CaptureReader> for Input {
    fn from(reader: CaptureReader) -> Input {
        Input { reader, speed: None }
    }
}
