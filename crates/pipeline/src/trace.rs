//! Where packets come from: captures and traffic models.

use io::Trace;
use io::capture::Record;
use traffic::Model;
use wire::LinkType;

use crate::port::Arrival;
use crate::program::Program;

/// The parser of a program: from bytes to a header vector.
pub trait Parser: Program {
    /// What the pipeline gets of a packet.
    fn parse(&self, record: &Record<'_>) -> Self::Phv;

    /// A packet with what the line has to know of it.
    fn arrival(&self, record: &Record<'_>) -> Arrival<Self::Phv> {
        Arrival { phv: self.parse(record), bytes: record.wire_len, time_ns: record.time_ns, port: 0 }
    }
}

/// The packets of a capture, in order.
pub fn of_trace<P: Parser>(program: &P, trace: &Trace) -> Vec<Arrival<P::Phv>> {
    (0..trace.len()).map(|index| program.arrival(&trace.packet(index))).collect()
}

/// The packets of a traffic model, in order.
pub fn of_model<P: Parser>(program: &P, model: &Model) -> Vec<Arrival<P::Phv>> {
    let mut arrivals = Vec::new();
    model.generate(|time_ns, frame| {
        let wire_len = frame.len() as u32;
        let record = Record { time_ns, wire_len, link: LinkType::Ethernet, data: frame };
        arrivals.push(program.arrival(&record));
    });
    arrivals
}
