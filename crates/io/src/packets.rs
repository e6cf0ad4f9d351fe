//! Packets laid out as a card's DMA engine would read them from the wire: whole cache lines, one after another.

use std::ptr;

use memory::{Array, LINE_BYTES, Line, prefetch};
use wire::{LinkType, Stamper};
use zerocopy::IntoBytes;

use crate::Trace;
use crate::capture::Record;

/// Packets of a [`Trace`] in some order, each from the beginning of a cache line, with what a card writes
/// beside them. Ports copy from here into their frames; several may share it.
pub struct Packets {
    arrivals: Array<Arrival>,
    bytes: Array<Line>,
    /// Lines of the longest.
    longest_lines: usize,
}

/// What a card writes beside a packet's bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Arrival {
    /// By the trace; never less than the packet's before.
    pub(crate) time_ns: u64,
    pub(crate) wire_len: u32,
    pub(crate) len: u32,
    /// Where the packet begins in the bytes of all.
    pub(crate) first_line: u32,
    pub(crate) link: LinkType,
    /// The entry of the indirection table that its hash points to.
    pub(crate) entry: u16,
}

impl Packets {
    /// `packets` of `trace`, indices in order. `entry` is asked for each packet's entry of the indirection
    /// table, once.
    ///
    /// # Panics
    /// If there are no packets, or no memory for them.
    pub fn new(trace: &Trace, packets: &[u32], mut entry: impl FnMut(&Record<'_>) -> u16) -> Packets {
        assert!(!packets.is_empty(), "nothing to replay");
        let records = || packets.iter().map(|index| trace.packet(*index as usize));
        let all_lines = records().map(|record| lines(record.data.len())).sum();
        let longest_lines = records().map(|record| lines(record.data.len())).max().unwrap_or(1);
        let mut arrivals = Array::filled(Arrival::default(), packets.len()).expect("memory for the packets");
        let mut bytes = Array::filled(Line::ZERO, all_lines).expect("memory for the packets");
        let (mut stamper, mut first_line) = (Stamper::default(), 0);
        for (arrival, record) in arrivals.iter_mut().zip(records()) {
            let Record { time_ns, wire_len, link, data } = record;
            *arrival = Arrival {
                time_ns: stamper.stamp(time_ns).time_ns,
                wire_len,
                len: data.len() as u32,
                first_line: u32::try_from(first_line).expect("less than 256 GiB of packets"),
                link,
                entry: entry(&record),
            };
            bytes[first_line..].as_mut_bytes()[..data.len()].copy_from_slice(data);
            first_line += lines(data.len());
        }
        Packets { arrivals, bytes, longest_lines }
    }

    /// How many.
    #[allow(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.arrivals.len()
    }

    /// The entry of the indirection table that a packet's hash points to.
    ///
    /// # Panics
    /// If there is no such packet.
    pub fn entry(&self, index: usize) -> u16 {
        self.arrivals[index].entry
    }

    /// When a packet arrived by the trace, ns.
    ///
    /// # Panics
    /// If there is no such packet.
    pub fn time_ns(&self, index: usize) -> u64 {
        self.arrivals[index].time_ns
    }

    pub(crate) fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    /// A packet's bytes, where the card put them.
    #[inline]
    pub(crate) fn bytes(&self, arrival: &Arrival) -> &[u8] {
        &self.bytes[arrival.first_line as usize..].as_bytes()[..arrival.len as usize]
    }

    pub(crate) fn longest_lines(&self) -> usize {
        self.longest_lines
    }

    /// Copies a packet to the front of `to`, in whole lines.
    #[inline(always)]
    pub(crate) fn copy(&self, arrival: &Arrival, to: &mut [Line]) {
        let from = arrival.first_line as usize;
        to[0] = self.bytes[from];
        if arrival.len as usize > LINE_BYTES {
            copy_rest(to, &self.bytes[from..], lines(arrival.len as usize));
        }
    }

    /// Asks for the line so many after a packet's first.
    #[inline(always)]
    pub(crate) fn prefetch_bytes(&self, arrival: &Arrival, lines_ahead: usize) {
        prefetch(self.bytes.as_ptr().wrapping_add(arrival.first_line as usize + lines_ahead).cast());
    }

    /// Asks for what is known beside the packet so many after this one.
    #[inline(always)]
    pub(crate) fn prefetch_arrival(arrival: &Arrival, packets_ahead: usize) {
        prefetch(ptr::from_ref(arrival).wrapping_add(packets_ahead).cast());
    }
}

/// Lines of a packet of `len` bytes; an empty one has a line, too.
#[inline]
fn lines(len: usize) -> usize {
    len.div_ceil(LINE_BYTES).max(1)
}

/// Copies the lines behind the first. Apart, so that for short packets no registers are saved.
#[cold]
#[inline(never)]
fn copy_rest(to: &mut [Line], from: &[Line], lines: usize) {
    to[1..lines].copy_from_slice(&from[1..lines]);
}
