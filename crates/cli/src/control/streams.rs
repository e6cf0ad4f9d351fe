//! Answers of many lines: `trace`, `drops`, `log` and `flows`. Each goes on in a thread of its own, so that others can ask meanwhile.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use engine::report::{DroppedPacket, FlowReport, TraceReport, WhyDropped};
use engine::{Flows, Traces};
use io::{Dropped, Tapped, Why};
use wire::LinkType;

use super::subject::Subject;
use super::wanted::Wanted;
use super::words::{Answer, DroppedLine, End, Line, ListEnd};
use crate::rule_log::LogEntry;

/// How long it waits for a packet before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// The most lines that are told after the end.
const MOST_WAITING: u64 = 1_024;

/// Streams that go on.
#[derive(Default)]
pub struct Streams(Mutex<Vec<JoinHandle<()>>>);

impl Streams {
    /// Has `tell` go on with a connection, after an answer that all is well.
    pub fn begin(
        &self,
        mut stream: UnixStream,
        is_over: &Arc<AtomicBool>,
        tell: impl FnOnce(&mut Stream) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        say(&mut stream, &Answer::done())?;
        // A look whether the other end is gone, and no more.
        stream.set_read_timeout(Some(Duration::from_millis(1)))?;
        let mut stream = Stream { stream, is_over: Arc::clone(is_over) };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|thread| !thread.is_finished());
        all.push(thread::spawn(move || {
            // Who went away in the middle hears nothing, and that is all.
            let _ = tell(&mut stream);
        }));
        Ok(())
    }

    /// Waits for all to end, which they do when the run is over.
    pub fn join(&self) {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        all.into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// One that goes on.
pub struct Stream {
    stream: UnixStream,
    is_over: Arc<AtomicBool>,
}

impl Stream {
    fn line(&mut self, line: &Line) -> Result<()> {
        say(&mut self.stream, line)
    }

    /// Whether it is to end: the run does, the time is up, or the other end has said all that it wanted.
    fn is_over(&mut self, subject: &Subject, until: Option<Instant>) -> bool {
        if self.run_is_over(subject) || until.is_some_and(|until| Instant::now() >= until) {
            return true;
        }
        match self.stream.read(&mut [0; 64]) {
            Ok(read) => read == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    /// Tells the way of packets, `count` at most.
    pub fn trace(
        &mut self,
        subject: &Subject,
        traces: &Traces,
        count: u64,
        until: Option<Instant>,
    ) -> Result<()> {
        let next = |patience| {
            let traced = Some(TraceReport::new(&traces.next(patience)?));
            Some(Line { traced, ..Line::default() })
        };
        let told = self.lines(subject, until, count, next)?;
        let (matched, missed) = (Some(traces.matched()), traces.missed());
        self.line(&Line { end: Some(End { told, matched, missed, list: None }), ..Line::default() })
    }

    /// Tells of dropped packets.
    pub fn drops(&mut self, subject: &Subject, tapped: &Tapped, until: Option<Instant>) -> Result<()> {
        let next = |patience| {
            let dropped = Some(line_of(subject, &tapped.next(patience)?));
            Some(Line { dropped, ..Line::default() })
        };
        let told = self.lines(subject, until, u64::MAX, next)?;
        let end = End { told, missed: tapped.left_out(), ..End::default() };
        self.line(&Line { end: Some(end), ..Line::default() })
    }

    /// Tells of packets that rules with `log` drop.
    pub fn log(&mut self, subject: &Subject, tapped: &Tapped, until: Option<Instant>) -> Result<()> {
        let entry = |Dropped { stamp, interface, wire_len, link, bytes, why }: Dropped| {
            let why = why_of(subject, why, (&bytes, wire_len, link))?;
            let interface = subject.interfaces.get(interface).cloned();
            LogEntry::new((stamp.seq, stamp.time_ns), (link, wire_len, &bytes), interface, &why)
        };
        // A reload may leave a packet without its rule: then there is no line, and the next packet is asked for.
        let next = |patience| {
            let logged = Some(entry(tapped.next(patience)?)?);
            Some(Line { logged, ..Line::default() })
        };
        let told = self.lines(subject, until, u64::MAX, next)?;
        let end = End { told, missed: tapped.left_out(), ..End::default() };
        self.line(&Line { end: Some(end), ..Line::default() })
    }

    /// Lists flows, `limit` at most. A reader who is slow is waited for, and holds one portion.
    pub fn flows(&mut self, subject: &Subject, flows: &mut Flows, wanted: &Wanted, limit: u64) -> Result<()> {
        let (mut told, mut limited, mut looked) = (0, false, Instant::now());
        while !limited && let Some(portion) = flows.next_portion() {
            let mut text = String::new();
            for flow in portion.iter().filter(|flow| wanted.has(flow)) {
                limited = told == limit;
                if limited {
                    break;
                }
                let flow = Some(FlowReport::new(flow));
                text += &serde_json::to_string(&Line { flow, ..Line::default() })?;
                text.push('\n');
                told += 1;
            }
            self.patiently(subject, text.as_bytes())?;
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                limited |= self.is_over(subject, None);
            }
        }
        let list = ListEnd {
            moved: flows.moved(),
            changed: flows.has_changed(),
            limited,
            worked_ns: flows.worked().as_nanos() as u64,
        };
        let end = Some(End { told, list: Some(list), ..End::default() });
        let mut end = serde_json::to_string(&Line { end, ..Line::default() })?;
        end.push('\n');
        self.patiently(subject, end.as_bytes())
    }

    /// Writes all of it, however long the other end takes, unless the run ends.
    fn patiently(&mut self, subject: &Subject, mut text: &[u8]) -> Result<()> {
        while !text.is_empty() {
            match self.stream.write(text) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => text = &text[written..],
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if self.run_is_over(subject) {
                        return Err(error);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn run_is_over(&self, subject: &Subject) -> bool {
        self.is_over.load(Ordering::Relaxed) || subject.progress.stop.load(Ordering::Relaxed)
    }

    /// Tells lines as they come, `count` at most, until it is over. Those that wait then are told, too.
    fn lines(
        &mut self,
        subject: &Subject,
        until: Option<Instant>,
        mut count: u64,
        next: impl Fn(Duration) -> Option<Line>,
    ) -> Result<u64> {
        let (mut told, mut looked, mut patience) = (0, Instant::now(), LOOK);
        while told < count {
            match next(patience) {
                Some(line) => {
                    self.line(&line)?;
                    told += 1;
                }
                None if patience.is_zero() => break,
                None => {}
            }
            if !patience.is_zero() && looked.elapsed() >= LOOK {
                looked = Instant::now();
                if self.is_over(subject, until) {
                    // A flood that goes on is no reason to go on.
                    (patience, count) = (Duration::ZERO, count.min(told + MOST_WAITING));
                }
            }
        }
        Ok(told)
    }
}

fn line_of(subject: &Subject, dropped: &Dropped) -> DroppedLine {
    let Dropped { stamp, interface, wire_len, link, bytes, why } = dropped;
    let why = why_of(subject, *why, (bytes, *wire_len, *link));
    let why = why.unwrap_or_else(|| WhyDropped::new("unknown", "unnamed"));
    let mut data = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(data, "{byte:02x}");
    }
    DroppedLine {
        packet: stamp.seq + 1,
        time_ns: stamp.time_ns,
        interface: subject.interfaces.get(*interface).cloned().unwrap_or_default(),
        bytes: *wire_len,
        by: why.by,
        reason: why.reason,
        rule: why.rule,
        data,
    }
}

/// Why a packet was dropped, by the chain that runs now.
fn why_of(
    subject: &Subject,
    why: Why,
    (bytes, wire_len, link): (&[u8], u32, LinkType),
) -> Option<WhyDropped> {
    match why {
        Why::Chain(fate, refused) => {
            let (chain, _) = subject.progress.reloads.current()?;
            chain.why_dropped(&DroppedPacket { fate, bytes, wire_len, link, refused })
        }
        Why::Behind(by, reason) => Some(WhyDropped::new(by, reason)),
    }
}

fn say(stream: &mut UnixStream, line: &impl serde::Serialize) -> Result<()> {
    let mut line = serde_json::to_string(line)?;
    line.push('\n');
    stream.write_all(line.as_bytes())
}
