//! A trace in memory.

use wire::LinkType;

use crate::capture::{CaptureError, CaptureReader, Record, file_header, record_header};

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
    /// Reads a whole capture.
    ///
    /// # Errors
    /// [`CaptureError`] as the reader gives it.
    pub fn read(mut reader: CaptureReader) -> Result<Trace, CaptureError> {
        let mut trace = Trace::default();
        while let Some(record) = reader.next()? {
            trace.push(&record);
        }
        Ok(trace)
    }

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

    /// The packets as a pcap, to be read again; `None` if they are not of one link type.
    pub fn to_pcap(&self) -> Option<Vec<u8>> {
        let link = self.packets.first().map_or(LinkType::Ethernet, |packet| packet.link);
        if self.packets.iter().any(|packet| packet.link != link) {
            return None;
        }
        let mut pcap = file_header(link).to_vec();
        for index in 0..self.len() {
            let Record { time_ns, wire_len, data, .. } = self.packet(index);
            pcap.extend_from_slice(&record_header(time_ns, wire_len, data.len() as u32));
            pcap.extend_from_slice(data);
        }
        Some(pcap)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_again_as_it_was() {
        let mut trace = Trace::default();
        let record = |time_ns, wire_len, data| Record { time_ns, wire_len, link: LinkType::Ethernet, data };
        [record(7, 2, &[1, 2][..]), record(1_000_000_005, 90, &[3; 60])].iter().for_each(|r| trace.push(r));
        let pcap = trace.to_pcap().expect("one link type");
        let again = Trace::read(CaptureReader::from_bytes(pcap).expect("a capture")).expect("whole");
        assert_eq!(again.len(), 2);
        for index in 0..2 {
            let (a, b) = (trace.packet(index), again.packet(index));
            assert_eq!((a.time_ns, a.wire_len, a.link, a.data), (b.time_ns, b.wire_len, b.link, b.data));
        }
        trace.push(&Record { link: LinkType::RawIp, ..record(9, 1, &[1]) });
        assert!(trace.to_pcap().is_none());
    }
}
