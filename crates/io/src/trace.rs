//! A trace in memory.

use wire::LinkType;

use crate::capture::Record;

/// Packets in memory, back to back.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    bytes: Vec<u8>,
    packets: Vec<TracePacket>,
}

#[derive(Clone, Copy, Debug)]
struct TracePacket {
    offset: usize,
    len: u32,
    wire_len: u32,
    time_ns: u64,
    link: LinkType,
}

impl Trace {
    /// Adds a packet behind the others.
    pub fn push(&mut self, record: &Record<'_>) {
        self.packets.push(TracePacket {
            offset: self.bytes.len(),
            len: record.data.len() as u32,
            wire_len: record.wire_len,
            time_ns: record.time_ns,
            link: record.link,
        });
        self.bytes.extend_from_slice(record.data);
    }

    /// Takes all packets out, and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.packets.clear();
    }

    /// Packet number `index`.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn packet(&self, index: usize) -> Record<'_> {
        let TracePacket { offset, len, wire_len, time_ns, link } = self.packets[index];
        Record { time_ns, wire_len, link, data: &self.bytes[offset..offset + len as usize] }
    }

    /// Packets in the trace.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// From the first packet to the last and a microsecond more: how far a round moves time on.
    pub(crate) fn round_ns(&self) -> u64 {
        let times = self.packets.iter().map(|packet| packet.time_ns);
        let (first, last) = (times.clone().min().unwrap_or(0), times.max().unwrap_or(0));
        last - first + 1_000
    }
}
