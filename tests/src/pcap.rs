//! Captures in memory: the beginning of a recorded one, or packets made up.

use std::path::Path;

use io::capture::CaptureReader;

use crate::Packet;

/// A nanosecond pcap of Ethernet packets.
#[derive(Clone)]
pub struct Pcap {
    bytes: Vec<u8>,
    packets: usize,
}

impl Pcap {
    /// Without packets.
    #[allow(clippy::new_without_default, reason = "nobody wants a capture without packets by default")]
    pub fn new() -> Pcap {
        let mut bytes = Vec::new();
        // Magic, version 2.4, no zone, no accuracy, the longest packet, Ethernet.
        for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
            bytes.extend(word.to_le_bytes());
        }
        Pcap { bytes, packets: 0 }
    }

    /// The first packets of a recorded capture, at most so many.
    pub fn first_of(capture: &Path, most: usize) -> Pcap {
        let mut reader = CaptureReader::open(capture).expect("a capture");
        let mut pcap = Pcap::new();
        while pcap.packets < most
            && let Some(record) = reader.next().expect("whole")
        {
            pcap.push(record.time_ns, record.wire_len, record.data);
        }
        pcap
    }

    /// Packets made up.
    pub fn of(packets: &[Packet]) -> Pcap {
        let mut pcap = Pcap::new();
        packets.iter().for_each(|packet| pcap.push(packet.time_ns, packet.bytes.len() as u32, &packet.bytes));
        pcap
    }

    /// One more.
    pub fn push(&mut self, time_ns: u64, wire_len: u32, data: &[u8]) {
        let (s, ns) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        for word in [s as u32, ns as u32, data.len() as u32, wire_len] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.extend(data);
        self.packets += 1;
    }

    /// How many.
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// To be read from the beginning.
    pub fn open(&self) -> CaptureReader {
        CaptureReader::from_bytes(self.bytes.clone()).expect("a capture")
    }
}
