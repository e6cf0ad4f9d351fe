//! Captures of what a port receives and of what leaves it, with the stamps that the chain saw: a replay of the first on
//! one core gives the second.

use std::path::Path;

use io::capture::{CaptureError, CaptureWriter, CommentedWriter};
use io::{Closed, Fate, Foreign, Frame, MarkedDrops, Port, Queue, Received, Reference, StampClock, Waiting};
use wire::{LinkType, Side};

use crate::control::Unwritten;
use crate::failure::Failure;

/// A port whose packets are written down.
pub struct Recorded<'a, P> {
    port: &'a mut P,
    came_in: Option<Writer>,
    left: Option<Writer>,
    /// Which drops are answered.
    drops: MarkedDrops,
    /// Frames at the front of those that are to be sent which were written already, and not taken.
    written: usize,
    /// The first failure.
    failed: Option<CaptureError>,
    unwritten: Unwritten,
}

/// A capture that is written.
enum Writer {
    Pcap(CaptureWriter),
    /// With the names of the interfaces: those inside first.
    Pcapng(CommentedWriter, Vec<String>),
}

impl Writer {
    fn write(&mut self, frame: &Frame, wire_len: u32, bytes: &[u8]) -> Result<(), CaptureError> {
        let time_ns = frame.stamp.time_ns;
        match self {
            Writer::Pcap(writer) => writer.write(time_ns, wire_len, bytes),
            Writer::Pcapng(writer, names) => {
                // The router's own answers come as if from outside, mostly.
                let name = match frame.note.side() {
                    Some(Side::Inside) => names.first(),
                    Some(Side::Outside) | None => names.last(),
                };
                let interface = (name.map_or("", String::as_str), LinkType::Ethernet);
                writer.write(interface, time_ns, wire_len, bytes, "")
            }
        }
    }

    fn finish(self) -> Result<(), CaptureError> {
        match self {
            Writer::Pcap(writer) => writer.finish(),
            Writer::Pcapng(writer, _) => writer.finish(),
        }
    }
}

/// Whether a capture of what comes in says by which interface: if its name ends so.
pub fn names_interfaces(came_in: &Path) -> bool {
    came_in.extension().is_some_and(|extension| extension == "pcapng")
}

impl<'a, P: Port> Recorded<'a, P> {
    /// Creates the captures that are asked for. `names` are those of the interfaces.
    pub fn new(
        port: &'a mut P,
        names: &[&str],
        (came_in, left): (Option<&Path>, Option<&Path>),
        unwritten: Unwritten,
    ) -> Result<Recorded<'a, P>, Failure> {
        let create = |path: &Path| CaptureWriter::create(path, LinkType::Ethernet).map(Writer::Pcap);
        let named = |path: &Path| -> Result<Writer, CaptureError> {
            let mut writer = CommentedWriter::create(path)?;
            names.iter().try_for_each(|name| writer.describe(name, LinkType::Ethernet))?;
            Ok(Writer::Pcapng(writer, names.iter().map(ToString::to_string).collect()))
        };
        let came_in = came_in.map(|path| if names_interfaces(path) { named(path) } else { create(path) });
        let came_in = came_in.transpose().map_err(Failure::usage)?;
        let left = left.map(create).transpose().map_err(Failure::usage)?;
        let drops = MarkedDrops::default();
        Ok(Recorded { port, came_in, left, drops, written: 0, failed: None, unwritten })
    }

    /// Gives the captures their names, one though the other has failed.
    ///
    /// # Errors
    /// The first packet that could not be written; the run went on without.
    pub fn finish(self) -> Result<(), Failure> {
        let Recorded { came_in, left, mut failed, unwritten, .. } = self;
        for writer in [came_in, left].into_iter().flatten() {
            if let Err(error) = writer.finish() {
                note(error, &mut failed, &unwritten);
            }
        }
        failed.map_or(Ok(()), |error| Err(Failure::usage(error)))
    }
}

/// Writes a packet, and no more once that failed.
fn write(
    to: &mut Option<Writer>,
    (failed, unwritten): (&mut Option<CaptureError>, &Unwritten),
    frame: &Frame,
    wire_len: u32,
    bytes: &[u8],
) {
    let Some(writer) = to else { return };
    if let Err(error) = writer.write(frame, wire_len, bytes) {
        note(error, failed, unwritten);
        *to = None;
    }
}

fn note(error: CaptureError, failed: &mut Option<CaptureError>, unwritten: &Unwritten) {
    unwritten.add(&error);
    failed.get_or_insert(error);
}

impl<P: Port> Port for Recorded<'_, P> {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        let before = frames.len();
        let received = self.port.receive(frames, max);
        for frame in &frames[before..] {
            let failed = (&mut self.failed, &self.unwritten);
            write(&mut self.came_in, failed, frame, frame.wire_len, self.port.bytes(frame));
        }
        received
    }

    fn consumed(&self) -> u64 {
        self.port.consumed()
    }

    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.port.bytes(frame)
    }

    fn clock(&self) -> Option<StampClock> {
        self.port.clock()
    }

    fn references(&self, frames: &[Frame], references: &mut [Reference]) {
        self.port.references(frames, references);
    }

    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.port.buffer_mut(frame)
    }

    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        for (frame, fate) in frames.iter().zip(fates).skip(self.written) {
            let failed = (&mut self.failed, &self.unwritten);
            let bytes = self.port.bytes(frame);
            if matches!(fate, Fate::Forward | Fate::TransmitBack) {
                write(&mut self.left, failed, frame, frame.wire_len, bytes);
            } else if self.left.is_some()
                && let Some(to) = self.drops.answer_to(*fate)
            {
                // As over a capture: whatever the rate is.
                if let Some(answer) = to.answer(frame.link, bytes, frame.wire_len) {
                    let bytes = answer.parts(bytes).concat();
                    write(&mut self.left, failed, frame, bytes.len() as u32, &bytes);
                }
            }
        }
        let offered = frames.len();
        let taken = self.port.transmit(frames, fates)?;
        self.written = offered - taken;
        Ok(taken)
    }

    fn mark_drops(&mut self, drops: &MarkedDrops) {
        self.drops = drops.clone();
        self.port.mark_drops(drops);
    }

    fn take_over(&mut self, frames: &[Frame]) -> Result<(), Foreign> {
        self.port.take_over(frames)
    }

    fn hand_over(&mut self, frames: &[Frame]) {
        self.port.hand_over(frames);
    }

    fn idle(&mut self, waiting: &Waiting) {
        self.port.idle(waiting);
    }

    fn queue(&self) -> Queue {
        self.port.queue()
    }
}
