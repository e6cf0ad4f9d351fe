//! Where the packets of a run come from, and how far it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use io::capture::{CaptureError, CaptureReader, Record};
use telemetry::Telemetry;
use wire::Side;

use crate::chain::Chain;
use crate::executor::listing::Listing;
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
    /// How flows of a live run are listed.
    pub listing: Arc<Listing>,
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

/// A responder to what a chain sends while it runs: it leaves packets of the capture out, and puts others between them.
pub(crate) trait Peer: Send {
    /// The next packet. Waits for what it depends on, until `is_over`.
    fn next<'a>(
        &'a mut self,
        reader: &'a mut CaptureReader,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Taken<'a>, CaptureError>;

    /// The side by whose interface the packet came that was given last, where the capture's interfaces have sides.
    fn side(&self) -> Option<Side>;
}

/// What comes next of the input.
pub(crate) enum Taken<'a> {
    /// A packet.
    Packet(Record<'a>),
    /// Nothing more.
    End,
    /// It was over before there was one.
    GivenUp,
}

/// What a run takes in.
pub(crate) struct Source {
    pub(crate) input: Input,
    pub(crate) peer: Option<Box<dyn Peer>>,
}

impl From<Input> for Source {
    fn from(input: Input) -> Source {
        Source { input, peer: None }
    }
}

impl From<CaptureReader> for Source {
    fn from(reader: CaptureReader) -> Source {
        Input::from(reader).into()
    }
}

impl Source {
    /// The next packet.
    #[inline]
    pub(crate) fn next(&mut self, is_over: &dyn Fn() -> bool) -> Result<Taken<'_>, CaptureError> {
        let Source { input: Input { reader, .. }, peer } = self;
        match peer {
            Some(peer) => peer.next(reader, is_over),
            None => Ok(reader.next()?.map_or(Taken::End, Taken::Packet)),
        }
    }

    /// The side by whose interface it came, where that is known.
    #[inline]
    pub(crate) fn side(&self) -> Option<Side> {
        self.peer.as_ref().map_or_else(|| self.input.reader.side(), |peer| peer.side())
    }
}
