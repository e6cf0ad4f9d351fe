//! A [`Trace`] read from a capture, and written as one.

use wire::LinkType;

use super::error::CaptureError;
use super::reader::CaptureReader;
use super::record::Record;
use super::writer::{file_header, record_header};
use crate::Trace;

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

    /// The packets as a pcap, to be read again; `None` if they are not of one link type.
    pub fn to_pcap(&self) -> Option<Vec<u8>> {
        let records = || (0..self.len()).map(|index| self.packet(index));
        let link = records().next().map_or(LinkType::Ethernet, |record| record.link);
        if records().any(|record| record.link != link) {
            return None;
        }
        let mut pcap = file_header(link).to_vec();
        for Record { time_ns, wire_len, data, .. } in records() {
            pcap.extend_from_slice(&record_header(time_ns, wire_len, data.len() as u32));
            pcap.extend_from_slice(data);
        }
        Some(pcap)
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
