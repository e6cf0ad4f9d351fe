//! What puts history before packets: that of a chain, or that of a program in P4.

use engine::{Sequenced, Sequencing};
use io::capture::Record;
use wire::{LinkType, RanBack};
use xdp::sequencing::Sequencing as ProgramSequencing;

use crate::args::Ports;
use crate::failure::Failure;

/// Puts history before the packets of a capture.
pub trait Sequencer {
    /// A packet with its history.
    fn next(&mut self, record: &Record<'_>) -> Result<Sequenced<'_>, Failure>;

    /// What a core gets when traffic stops.
    fn flush(&mut self, core: usize) -> Sequenced<'_>;

    /// How far arrival times ran back.
    fn ran_back(&self) -> RanBack;

    /// What it writes.
    fn form(&self) -> Form;
}

/// What is before packets.
pub struct Form {
    pub version: u8,
    pub item_bytes: usize,
    pub ring_items: usize,
    pub prefix_bytes: usize,
}

impl Sequencer for Sequencing {
    fn next(&mut self, record: &Record<'_>) -> Result<Sequenced<'_>, Failure> {
        Ok(self.next(record))
    }

    fn flush(&mut self, core: usize) -> Sequenced<'_> {
        self.flush(core)
    }

    fn ran_back(&self) -> RanBack {
        self.ran_back()
    }

    fn form(&self) -> Form {
        Form {
            version: self.version() as u8,
            item_bytes: self.item_bytes(),
            ring_items: self.cores() - 1,
            prefix_bytes: self.prefix_bytes(),
        }
    }
}

/// The sequencer of a program in P4.
pub struct OfProgram {
    pub sequencing: ProgramSequencing,
    pub ports: Ports,
}

impl Sequencer for OfProgram {
    fn next(&mut self, record: &Record<'_>) -> Result<Sequenced<'_>, Failure> {
        let Record { link, data, wire_len, time_ns } = *record;
        if link != LinkType::Ethernet {
            return Err(Failure::usage(
                "the capture has packets that are not Ethernet\nPrograms are run on Ethernet frames.",
            ));
        }
        let wire_len = wire_len.saturating_add(self.sequencing.prefix_bytes() as u32);
        let (placed, data) = self.sequencing.next(self.ports.of(data, record.wire_len), data, time_ns);
        let record = Record { time_ns: placed.stamp.time_ns, wire_len, link, data };
        Ok(Sequenced { core: placed.core, stamp: placed.stamp, record })
    }

    fn flush(&mut self, core: usize) -> Sequenced<'_> {
        let (stamp, data) = self.sequencing.flush(core);
        let (time_ns, wire_len) = (stamp.time_ns, data.len() as u32);
        Sequenced { core, stamp, record: Record { time_ns, wire_len, link: LinkType::Ethernet, data } }
    }

    fn ran_back(&self) -> RanBack {
        self.sequencing.ran_back()
    }

    fn form(&self) -> Form {
        Form {
            version: sequencer::NAMED_VERSION,
            item_bytes: self.sequencing.item_bytes(),
            ring_items: self.sequencing.cores() - 1,
            prefix_bytes: self.sequencing.prefix_bytes(),
        }
    }
}
