//! Puts the history that replicas of a program need before packets: what a switch or a card does in front of them.

use p4::interpret::Machine;
use sequencer::{CoresOutOfRange, ETHERNET_LEN, NamedSequencer, Placed, outer_ethernet};
use wire::{RanBack, Stamp};

use crate::compile::Compiled;
use crate::history::Item;

/// Sequences packets for the cores of a program, with history of version 3.
///
/// ```text
///  | outer Ethernet, if asked for | header, ring of items | the packet |
/// ```
pub struct Sequencing {
    sequencer: NamedSequencer,
    item: Item,
    /// Parses packets as the program does.
    parser: Machine,
    has_ethernet: bool,
    bytes: Vec<u8>,
    /// What was put together last.
    frame: Vec<u8>,
}

impl Sequencing {
    /// For so many cores of a program that is compiled with [`Strategy::Scr`](crate::Strategy::Scr).
    ///
    /// # Errors
    /// [`CoresOutOfRange`].
    pub fn new(compiled: &Compiled, cores: usize, has_ethernet: bool) -> Result<Sequencing, CoresOutOfRange> {
        let item = compiled.item.clone();
        let sequencer = NamedSequencer::new(item.named(), cores)?;
        let parser = Machine::new(compiled.program.clone());
        Ok(Sequencing { sequencer, item, parser, has_ethernet, bytes: Vec::new(), frame: Vec::new() })
    }

    /// Bytes of an item of history.
    pub fn item_bytes(&self) -> usize {
        self.item.bytes
    }

    /// Bytes before each packet, the outer header included.
    pub fn prefix_bytes(&self) -> usize {
        self.ethernet_bytes() + self.sequencer.prefix_len()
    }

    /// Cores that get packets.
    pub fn cores(&self) -> usize {
        self.sequencer.cores()
    }

    /// How far arrival times ran back so far.
    pub fn ran_back(&self) -> RanBack {
        self.sequencer.ran_back()
    }

    /// The next packet, which came by `port`: where it goes, and as it goes there.
    pub fn next(&mut self, port: u16, bytes: &[u8], time_ns: u64) -> (Placed, &[u8]) {
        // A program that has the time in its items has the stamp's.
        let phv = self.parser.parse(port, bytes, self.sequencer.stamp(time_ns).time_ns);
        self.bytes.clear();
        self.bytes.resize(self.sequencer.prefix_len(), 0);
        let placed = self.sequencer.next(time_ns, port, &self.item.of(&phv.values), &mut self.bytes);
        self.put_together(placed.core, bytes);
        (placed, &self.frame)
    }

    /// What a core gets when traffic stops: the history with the last packet, and no packet.
    pub fn flush(&mut self, core: usize) -> (Stamp, &[u8]) {
        self.bytes.clear();
        self.bytes.resize(self.sequencer.prefix_len(), 0);
        let stamp = self.sequencer.flush(core, &mut self.bytes);
        self.put_together(core, &[]);
        (stamp, &self.frame)
    }

    fn ethernet_bytes(&self) -> usize {
        if self.has_ethernet { ETHERNET_LEN } else { 0 }
    }

    fn put_together(&mut self, core: usize, packet: &[u8]) {
        self.frame.clear();
        if self.has_ethernet {
            self.frame.extend(outer_ethernet(core as u16));
        }
        self.frame.extend(&self.bytes);
        self.frame.extend(packet);
    }
}
