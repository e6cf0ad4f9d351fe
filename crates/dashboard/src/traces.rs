//! A trace that the page asks for: a few packets, for a short time, one trace at a time.

use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use tokio::sync::mpsc;

use crate::inspect::{Inspect, Matched, Seen, TraceFilter};
use crate::view::{TraceEndView, TraceView};

/// Packets of a trace.
pub const TRACE_PACKETS: u64 = 20;

/// How long a trace lasts at most: cores apply its filter to each packet meanwhile.
pub const TRACE_TIME: Duration = Duration::from_secs(30);

/// Time between two traces of the page, in which `ctl trace` may begin one.
const PAUSE: Duration = Duration::from_secs(2);

/// From line to line, if no packet comes: so a client is not taken for one that left.
const PULSE: Duration = Duration::from_secs(1);

/// Lines that wait for a client: all packets, the beginning, the end, and some pulses.
pub(crate) const LINES: usize = TRACE_PACKETS as usize + 16;

/// The traces of a run's page.
#[derive(Debug, Default)]
pub(crate) struct Traces(Mutex<Turn>);

#[derive(Debug, Default)]
struct Turn {
    thread: Option<JoinHandle<()>>,
}

impl Traces {
    /// Begins a trace on a thread of its own, where none is on or just was.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn begin(&self, trace: impl FnOnce() + Send + 'static) -> Result<(), &'static str> {
        let mut turn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if turn.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Err("another trace of this page is on, or ended just now\n");
        }
        let thread = thread::Builder::new().name("web-trace".to_owned()).spawn(trace);
        turn.thread = Some(thread.map_err(|_| "the system has no thread for it now\n")?);
        Ok(())
    }

    /// Waits for the last one.
    pub(crate) fn join(&self) {
        let thread = self.0.lock().unwrap_or_else(PoisonError::into_inner).thread.take();
        thread.into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// Traces, and tells a client what is seen, until there are as many packets as are shown, the time is up, or the client or the run is gone.
pub(crate) fn trace(
    inspect: &dyn Inspect,
    filter: &TraceFilter,
    client: &mpsc::Sender<Bytes>,
    is_over: &dyn Fn() -> bool,
) {
    let until = Instant::now() + TRACE_TIME;
    let mut next_pulse = Instant::now() + PULSE;
    let (mut shown, mut by) = (0, "run");
    let traced = inspect.trace(filter, TRACE_PACKETS, &mut |seen| {
        match seen {
            Seen::Began(words) => line(client, TraceView { began: Some(words), ..TraceView::default() }),
            Seen::Packet(way) => {
                shown += 1;
                line(client, TraceView { packet: Some(way), ..TraceView::default() });
            }
            Seen::Nothing => (),
        }
        if Instant::now() >= next_pulse {
            next_pulse = Instant::now() + PULSE;
            let _ = client.try_send(Bytes::from_static(b"\n"));
        }
        by = match () {
            () if shown >= TRACE_PACKETS => "packets",
            () if Instant::now() >= until => "time",
            () => "run",
        };
        by == "run" && !client.is_closed() && !is_over()
    });
    let last = match traced {
        Ok(Matched { matched, missed }) => {
            let by = by.to_owned();
            TraceView { ended: Some(TraceEndView { shown, matched, missed, by }), ..TraceView::default() }
        }
        Err(why) => TraceView { refused: Some(why), ..TraceView::default() },
    };
    line(client, last);
}

/// How long its place is kept after a trace, so that a client that traces all the time lets others have their turn.
pub(crate) fn pause(is_over: &dyn Fn() -> bool) {
    let end = Instant::now() + PAUSE;
    while Instant::now() < end && !is_over() {
        thread::sleep(Duration::from_millis(50));
    }
}

/// There is room for all lines; a client that is gone hears none.
fn line(client: &mpsc::Sender<Bytes>, view: TraceView) {
    // Plain data: it always is JSON.
    let json = serde_json::to_string(&view).unwrap_or_default();
    let _ = client.try_send(Bytes::from(json + "\n"));
}
