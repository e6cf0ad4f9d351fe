//! Runs that are answered in their own endpoints: what a capture has for external endpoints, or from backends, is left out, and
//! each packet that goes out, or to a backend, is answered as the run sent it.
//!
//! ```text
//!   capture ──► Timetable ──► cores ──► what was sent ──► answer ─┐
//!                   ▲                                             │
//!                   └──────── in its place, 1 ms later ◄──────────┘
//! ```
//!
//! The thread that feeds the cores waits for an answer whose place has come. The places follow from the capture alone, so they are the same
//! in every run; where a packet did not leave, silence stands for its answer.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};

use io::capture::{CaptureError, CaptureReader, Record};
use io::{Fate, Waiting};
use nf::{FiveTuple, FlowKey, Role};
use wire::{Headers, IcmpPorts, LinkType, Marks, Side, protocol, tcp_flags};

use crate::chain::Chain;
use crate::chain::registry::Function;
use crate::executor::input::{Peer, Source, Taken};
use crate::executor::seen::Seen;
use crate::path::sides::Sides;
use crate::verify::responder::{Sent, silence};

/// So long after a packet it is answered; sooner, where its sender acknowledges the answer sooner.
const LATER_NS: u64 = 1_000_000;

/// A router complains of every packet of which the number is a multiple of this, too.
const COMPLAINTS_EVERY: usize = 8;

/// The most bytes that one answer brings.
const FILL_MAX: u32 = 16_384;

/// Which packets of a capture are answered, and how.
pub(super) struct Asking {
    responds: Responds,
    /// By packet that is answered: what [`Sent::answer`] is told.
    fills: Vec<u32>,
}

/// In whose place packets are answered.
pub(super) enum Responds {
    /// Hosts outside.
    Outside(Arc<Sides>),
    /// Those that this function says, such as backends.
    Behind(Arc<dyn Function>),
}

/// How many packets of a run were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// Answers to packets that the run sent.
    pub answered: u64,
    /// Packets that would have been answered, had the run sent them.
    pub unsent: u64,
    /// Packets of the capture for external endpoints, or from backends, which were left out.
    pub left_out: u64,
}

/// What the responder does with a packet of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// It is answered.
    Asks,
    /// It answers a packet of the recorded run, not of this one.
    IsLeftOut,
    Stays,
}

impl Asking {
    /// Over a capture that `reader` reads.
    pub(super) fn new(responds: Responds, mut reader: CaptureReader) -> Asking {
        let mut asking = Asking { responds, fills: Vec::new() };
        let mut connections: HashMap<FiveTuple, Connection> = HashMap::new();
        // Where the capture ends early, the runs say so.
        while let Ok(Some(record)) = reader.next() {
            let headers = wire::parse(record.link, record.data, record.wire_len);
            if asking.part(&headers) != Part::Asks {
                continue;
            }
            let number = asking.fills.len();
            asking.fills.push(0);
            if headers.is_tcp() {
                connections.entry(FiveTuple::of(&headers)).or_default().see(
                    number,
                    &headers,
                    &mut asking.fills,
                );
            }
        }
        asking
    }

    fn part(&self, headers: &Headers) -> Part {
        let is_ipv4 = headers.is_well_formed() && headers.marks.contains(Marks::IPV4);
        match if is_ipv4 { self.responds.role(headers) } else { Role::Other } {
            Role::Answers => Part::IsLeftOut,
            Role::Asks if is_question(headers) => Part::Asks,
            Role::Asks | Role::Other => Part::Stays,
        }
    }

    /// The input of a run, and its packets as they come to it.
    pub(super) fn run(self: &Arc<Asking>, input: CaptureReader, came: CaptureReader) -> (Source, Came) {
        let (tell, told) = mpsc::channel();
        let host = Host { timetable: Timetable::new(self), told, bytes: Vec::new() };
        let exchange = Exchange {
            timetable: Timetable::new(self),
            tell,
            answers: VecDeque::new(),
            bytes: Vec::new(),
            asks: None,
            counted: Answered::default(),
        };
        let source = Source { peer: Some(Box::new(host)), ..input.into() };
        (source, Came { reader: came, exchange: Some(exchange) })
    }
}

impl Responds {
    /// In whose place packets of a chain are answered of which the function at `index` is judged; `None` if in nobody's.
    pub(super) fn in_place_of(chain: &Chain, index: usize) -> Option<Responds> {
        let function = &chain.functions[index].function;
        match &chain.sides {
            Some(sides) if function.sides().is_some() => Some(Responds::Outside(Arc::clone(sides))),
            _ => function.role(&Headers::default()).map(|_| Responds::Behind(Arc::clone(function))),
        }
    }

    fn role(&self, headers: &Headers) -> Role {
        match self {
            Responds::Outside(sides) => {
                let Sides { inside, external, .. } = &**sides;
                match (inside.contains(headers.src), external.contains(headers.dst)) {
                    (false, true) => Role::Answers,
                    (true, false) if !inside.contains(headers.dst) => Role::Asks,
                    _ => Role::Other,
                }
            }
            Responds::Behind(function) => function.role(headers).unwrap_or(Role::Other),
        }
    }
}

/// Whether a host would answer such a packet.
fn is_question(headers: &Headers) -> bool {
    let to_one = headers.dst.to_v4().is_some_and(|[first, ..]| (1..224).contains(&first));
    let is_answered = match headers.protocol {
        protocol::TCP => headers.tcp_flags & tcp_flags::RST == 0,
        protocol::UDP => true,
        protocol::ICMP => headers.icmp_ports() == Some(IcmpPorts::Request),
        _ => false,
    };
    to_one && is_answered && !headers.is_fragment()
}

/// What packets of one direction of a connection tell of the other one.
#[derive(Default)]
struct Connection {
    /// Packets that opened it, before any that acknowledges.
    begun: Vec<usize>,
    /// The last packet that acknowledged: its number, up to where, and whether it was the last of its direction.
    last: Option<(usize, u32, bool)>,
}

impl Connection {
    fn see(&mut self, number: usize, headers: &Headers, fills: &mut [u32]) {
        let is = |flag: u8| headers.tcp_flags & flag != 0;
        if !is(tcp_flags::ACK) {
            if is(tcp_flags::SYN) {
                *self = Connection { begun: std::mem::take(&mut self.begun), last: None };
                self.begun.push(number);
            }
            return;
        }
        for begun in self.begun.drain(..) {
            fills[begun] = headers.ack.wrapping_sub(1);
        }
        if let Some((before, ack, had_fin)) = self.last {
            // The answer to a FIN has one, which is acknowledged, too.
            let brought = headers.ack.wrapping_sub(ack).wrapping_sub(u32::from(had_fin));
            fills[before] = if brought <= FILL_MAX { brought } else { 0 };
        }
        self.last = Some((number, headers.ack, is(tcp_flags::FIN)));
    }
}

/// In which order packets come: those of the capture, and answers.
struct Timetable {
    asking: Arc<Asking>,
    /// The next packet of the capture.
    next: Option<Held>,
    /// The packet of the capture that was given last.
    given: Held,
    /// Answers to come, in this order.
    due: VecDeque<Due>,
    /// How many of them each connection has to get ahead of its next packet, which acknowledges them.
    awaited: HashMap<FiveTuple, usize>,
    /// Packets of the capture so far that are answered.
    asked: usize,
    left_out: u64,
    now_ns: u64,
}

/// A packet of the capture.
#[derive(Default)]
struct Held {
    time_ns: u64,
    wire_len: u32,
    link: LinkType,
    side: Option<Side>,
    asks: bool,
    /// The connection of a TCP packet that is answered.
    connection: Option<FiveTuple>,
    bytes: Vec<u8>,
}

/// An answer to come.
#[derive(Clone, Copy)]
struct Due {
    time_ns: u64,
    awaited_by: Option<FiveTuple>,
    link: LinkType,
    side: Option<Side>,
}

/// What comes next.
enum Turn {
    /// [`Timetable::given`]; with its number among those that are answered, if it is.
    OfCapture(Option<usize>),
    Answer(Due),
}

impl Timetable {
    fn new(asking: &Arc<Asking>) -> Timetable {
        let (next, given, due) = (None, Held::default(), VecDeque::new());
        let (asking, awaited) = (Arc::clone(asking), HashMap::new());
        Timetable { asking, next, given, due, awaited, asked: 0, left_out: 0, now_ns: 0 }
    }

    fn next(&mut self, reader: &mut CaptureReader) -> Result<Option<Turn>, CaptureError> {
        if self.next.is_none() {
            self.next = self.read(reader)?;
        }
        // Answers come in the order of what they answer, so that those ahead of an awaited one come with it.
        let next_ns = self.next.as_ref().map_or(u64::MAX, |next| next.time_ns.max(self.now_ns));
        let connection = self.next.as_ref().and_then(|next| next.connection);
        let is_awaited = connection.is_some_and(|connection| self.awaited.contains_key(&connection));
        if let Some(due) = self.due.pop_front_if(|due| is_awaited || due.time_ns <= next_ns) {
            if let Some(connection) = due.awaited_by
                && let Entry::Occupied(mut awaited) = self.awaited.entry(connection)
            {
                *awaited.get_mut() -= 1;
                if *awaited.get() == 0 {
                    awaited.remove();
                }
            }
            return Ok(Some(Turn::Answer(Due { time_ns: due.time_ns.min(next_ns), ..due })));
        }
        let Some(next) = self.next.take() else { return Ok(None) };
        self.given = next;
        let Held { time_ns, link, side, asks, connection, .. } = self.given;
        // Answers come in order also where stamps run back.
        self.now_ns = self.now_ns.max(time_ns);
        let number = asks.then_some(self.asked);
        if let Some(number) = number {
            let time_ns = self.now_ns.saturating_add(LATER_NS);
            let is_awaited = self.asking.fills.get(number).is_some_and(|fill| *fill > 0);
            let awaited_by = connection.filter(|_| is_awaited);
            if let Some(connection) = awaited_by {
                *self.awaited.entry(connection).or_default() += answers(number);
            }
            // Where interfaces have sides, answers come by one outside.
            let due = Due { time_ns, awaited_by, link, side: side.map(|_| Side::Outside) };
            self.due.extend([due].into_iter().cycle().take(answers(number)));
            self.asked += 1;
        }
        Ok(Some(Turn::OfCapture(number)))
    }

    /// The next packet of the capture that is not left out.
    fn read(&mut self, reader: &mut CaptureReader) -> Result<Option<Held>, CaptureError> {
        loop {
            let Some(Record { time_ns, wire_len, link, data }) = reader.next()? else { return Ok(None) };
            let headers = wire::parse(link, data, wire_len);
            let part = self.asking.part(&headers);
            if part == Part::IsLeftOut {
                self.left_out += 1;
                continue;
            }
            let bytes = data.to_vec();
            let asks = part == Part::Asks;
            let connection = (asks && headers.is_tcp()).then(|| FiveTuple::of(&headers));
            return Ok(Some(Held { time_ns, wire_len, link, side: reader.side(), asks, connection, bytes }));
        }
    }
}

/// How many answers a packet gets.
fn answers(number: usize) -> usize {
    1 + usize::from(number.is_multiple_of(COMPLAINTS_EVERY))
}

impl Held {
    fn record(&self) -> Record<'_> {
        Record { time_ns: self.time_ns, wire_len: self.wire_len, link: self.link, data: &self.bytes }
    }
}

impl Due {
    fn record<'a>(&self, data: &'a [u8]) -> Record<'a> {
        Record { time_ns: self.time_ns, wire_len: data.len() as u32, link: self.link, data }
    }
}

/// The responder's end where packets enter: gives answers to the thread that feeds the cores.
struct Host {
    timetable: Timetable,
    told: Receiver<Vec<u8>>,
    /// The answer that was given last.
    bytes: Vec<u8>,
}

impl Peer for Host {
    fn next<'a>(
        &'a mut self,
        reader: &'a mut CaptureReader,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Taken<'a>, CaptureError> {
        let due = match self.timetable.next(reader)? {
            None => return Ok(Taken::End),
            Some(Turn::OfCapture(_)) => return Ok(Taken::Packet(self.timetable.given.record())),
            Some(Turn::Answer(due)) => due,
        };
        let waiting = Waiting::default();
        self.bytes = loop {
            match self.told.try_recv() {
                Ok(bytes) => break bytes,
                Err(TryRecvError::Empty) if !is_over() => waiting.wait(),
                Err(_) => return Ok(Taken::GivenUp),
            }
        };
        self.timetable.given.side = due.side;
        Ok(Taken::Packet(due.record(&self.bytes)))
    }

    fn side(&self) -> Option<Side> {
        self.timetable.given.side
    }
}

/// The packets of a run as they come to it.
pub(super) struct Came {
    reader: CaptureReader,
    exchange: Option<Exchange>,
}

/// Answers that a run gets.
struct Exchange {
    timetable: Timetable,
    tell: Sender<Vec<u8>>,
    /// Those that have been told, and have not come.
    answers: VecDeque<Vec<u8>>,
    /// The answer that was given last.
    bytes: Vec<u8>,
    /// The number of the last packet among those that are answered, if it is one.
    asks: Option<usize>,
    counted: Answered,
}

impl Came {
    /// A run's that gets the capture as it is.
    pub(super) fn of(reader: CaptureReader) -> Came {
        Came { reader, exchange: None }
    }

    /// The next packet. Where the input ends early, the run says so.
    pub(super) fn next(&mut self) -> Option<Record<'_>> {
        let Some(exchange) = &mut self.exchange else { return self.reader.next().ok()? };
        exchange.asks = None;
        match exchange.timetable.next(&mut self.reader).ok()?? {
            Turn::OfCapture(number) => {
                exchange.asks = number;
                Some(exchange.timetable.given.record())
            }
            Turn::Answer(due) => {
                exchange.bytes = exchange.answers.pop_front()?;
                Some(due.record(&exchange.bytes))
            }
        }
    }

    /// Answers the packet that came last, as it was sent, if it is one to be answered.
    pub(super) fn answer(&mut self, seen: &Seen<'_>) {
        let Some(exchange) = &mut self.exchange else { return };
        let Some(number) = exchange.asks else { return };
        let sent = match seen.fate {
            Fate::Forward => Sent::of(seen.link, seen.bytes, seen.wire_len, &exchange.timetable.given.bytes),
            _ => None,
        };
        let fill = exchange.timetable.asking.fills.get(number).copied().unwrap_or(0);
        let first = sent.as_ref().and_then(|sent| sent.answer(fill));
        let all = [first, sent.as_ref().and_then(Sent::error)];
        for answer in all.into_iter().take(answers(number)) {
            match answer {
                Some(_) => exchange.counted.answered += 1,
                None => exchange.counted.unsent += 1,
            }
            let bytes = answer.unwrap_or_else(|| silence(seen.link));
            exchange.answers.push_back(bytes.clone());
            // Nobody listens any more if the run is over.
            let _ = exchange.tell.send(bytes);
        }
    }

    /// How many packets were answered, if any are to be.
    pub(super) fn answered(&self) -> Option<Answered> {
        let exchange = self.exchange.as_ref()?;
        Some(Answered { left_out: exchange.timetable.left_out, ..exchange.counted })
    }
}

#[cfg(test)]
mod tests;
