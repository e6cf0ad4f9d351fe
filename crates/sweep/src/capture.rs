//! Captures in memory.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use io::capture::{CaptureError, CaptureReader, Record};
use wire::LinkType;

/// Packets in memory, of any link types.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    data: Vec<u8>,
    packets: Vec<Packet>,
    /// Why the file could not be read to its end, if so; the packets before are here.
    pub cut_short: Option<String>,
    /// The packets as a file, made when it is first wanted.
    image: OnceLock<Arc<[u8]>>,
}

#[derive(Clone, Debug)]
struct Packet {
    time_ns: u64,
    wire_len: u32,
    link: LinkType,
    data: Range<usize>,
}

impl Capture {
    /// Without packets.
    pub fn new() -> Capture {
        Capture::default()
    }

    /// The first packets of a file, at most so many.
    ///
    /// # Errors
    /// Not one packet can be read.
    pub fn load(path: &Path, most: usize) -> Result<Capture, CaptureError> {
        Capture::read(CaptureReader::open(path)?, most)
    }

    /// The first packets that `reader` gives, at most so many.
    ///
    /// # Errors
    /// There is none before an error.
    pub fn read(mut reader: CaptureReader, most: usize) -> Result<Capture, CaptureError> {
        let mut capture = Capture::new();
        while capture.packets.len() < most {
            match reader.next() {
                Ok(Some(record)) => capture.push_record(&record),
                Ok(None) => break,
                Err(error) if capture.packets.is_empty() => return Err(error),
                Err(error) => {
                    capture.cut_short = Some(error.to_string());
                    break;
                }
            }
        }
        Ok(capture)
    }

    /// One more packet, Ethernet.
    pub fn push(&mut self, time_ns: u64, wire_len: u32, data: &[u8]) {
        self.push_record(&Record { time_ns, wire_len, link: LinkType::Ethernet, data });
    }

    /// One more packet.
    pub fn push_record(&mut self, record: &Record<'_>) {
        let begin = self.data.len();
        self.data.extend_from_slice(record.data);
        let data = begin..self.data.len();
        let wire_len = record.wire_len.max(data.len() as u32);
        self.packets.push(Packet { time_ns: record.time_ns, wire_len, link: record.link, data });
        self.image = OnceLock::new();
    }

    /// How many packets there are.
    pub fn packets(&self) -> usize {
        self.packets.len()
    }

    /// A packet by its number, from 0.
    ///
    /// # Panics
    /// If there is none.
    pub fn record(&self, index: usize) -> Record<'_> {
        let Packet { time_ns, wire_len, link, data } = &self.packets[index];
        Record { time_ns: *time_ns, wire_len: *wire_len, link: *link, data: &self.data[data.clone()] }
    }

    /// All packets in order.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        (0..self.packets.len()).map(|index| self.record(index))
    }

    /// These packets alone, by number from 0.
    ///
    /// # Panics
    /// If there is no such packet.
    pub fn select(&self, indices: &[usize]) -> Capture {
        let mut selected = Capture::new();
        indices.iter().for_each(|index| selected.push_record(&self.record(*index)));
        selected
    }

    /// To be read from the beginning.
    pub fn open(&self) -> CaptureReader {
        let image = self.image.get_or_init(|| self.to_file().into());
        CaptureReader::from_bytes(Arc::clone(image)).expect("what is written here can be read")
    }

    /// Writes the packets to `path`, whose extension becomes `pcap`, or `pcapng` where a pcap cannot hold them:
    /// several link types, or times past the year 2106. Returns the path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> std::io::Result<PathBuf> {
        let path = path.with_extension(if self.fits_pcap() { "pcap" } else { "pcapng" });
        fs::write(&path, self.to_file())?;
        Ok(path)
    }

    /// The packets as a capture file.
    pub fn to_file(&self) -> Vec<u8> {
        if self.fits_pcap() { self.to_pcap() } else { self.to_pcapng() }
    }

    fn fits_pcap(&self) -> bool {
        let is_late = |packet: &Packet| packet.time_ns / 1_000_000_000 > u64::from(u32::MAX);
        let link = self.packets.first().map(|packet| packet.link);
        self.packets.iter().all(|packet| Some(packet.link) == link && !is_late(packet))
    }

    /// Little-endian, nanoseconds.
    fn to_pcap(&self) -> Vec<u8> {
        let link = self.packets.first().map_or(LinkType::Ethernet, |packet| packet.link);
        let mut file = Vec::with_capacity(24 + self.data.len() + 16 * self.packets.len());
        // Magic, version 2.4, no zone, no accuracy, the longest packet, what packets begin with.
        words(&mut file, &[0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, link.to_pcap()]);
        for Record { time_ns, wire_len, data, .. } in self.records() {
            let (s, ns) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
            words(&mut file, &[s as u32, ns as u32, data.len() as u32, wire_len]);
            file.extend_from_slice(data);
        }
        file
    }

    /// The pcapng draft's (draft-ietf-opsawg-pcapng) section header, an interface for each link type with times in
    /// nanoseconds, and enhanced packet blocks.
    fn to_pcapng(&self) -> Vec<u8> {
        let mut links: Vec<LinkType> = Vec::new();
        let mut file = Vec::with_capacity(28 + self.data.len() + 40 * self.packets.len());
        words(&mut file, &[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]);
        for Record { time_ns, wire_len, link, data } in self.records() {
            let known = links.iter().position(|known| *known == link);
            let interface = known.unwrap_or_else(|| {
                // Option 9, of one byte: time stamps count units of 10^-9 s.
                words(&mut file, &[1, 32, link.to_pcap(), 262_144, 0x0001_0009, 9, 0, 32]);
                links.push(link);
                links.len() - 1
            });
            let padding = data.len().next_multiple_of(4) - data.len();
            let block_len = (32 + data.len() + padding) as u32;
            let (high, low) = ((time_ns >> 32) as u32, time_ns as u32);
            words(&mut file, &[6, block_len, interface as u32, high, low, data.len() as u32, wire_len]);
            file.extend_from_slice(data);
            file.resize(file.len() + padding, 0);
            words(&mut file, &[block_len]);
        }
        file
    }
}

fn words(file: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| file.extend_from_slice(&word.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_reads_back(capture: &Capture) {
        let again = Capture::read(capture.open(), usize::MAX).expect("readable");
        let plain = |capture: &Capture| -> Vec<_> {
            let plain =
                |record: Record<'_>| (record.time_ns, record.wire_len, record.link, record.data.to_vec());
            capture.records().map(plain).collect()
        };
        assert_eq!(plain(&again), plain(capture));
        assert_eq!(again.cut_short, None);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut capture = Capture::new();
        assert_reads_back(&capture);
        for len in 0..9_u8 {
            capture.push(1_000_000_000 * u64::from(len) + 7, 100, &vec![3; len.into()]);
        }
        assert!(capture.fits_pcap());
        assert_reads_back(&capture);
        let record = Record { time_ns: 5, wire_len: 3, link: LinkType::RawIp, data: &[0x45, 0, 0] };
        capture.push_record(&record);
        capture.push(u64::MAX / 2, 4, &[1, 2, 3, 4]);
        assert!(!capture.fits_pcap());
        assert_reads_back(&capture);
        assert_reads_back(&capture.select(&[9, 2, 2]));
    }

    #[test]
    fn a_file_that_is_cut_short_gives_what_is_whole() {
        let mut capture = Capture::new();
        (0..3).for_each(|time_ns| capture.push(time_ns, 60, &[0; 60]));
        let file = capture.to_file();
        let cut = |len: usize| {
            Capture::read(CaptureReader::from_bytes(&file[..len]).expect("a header"), usize::MAX)
        };
        let two = cut(file.len() - 1).expect("two packets");
        assert_eq!(two.packets(), 2);
        assert!(two.cut_short.is_some());
        assert!(cut(24 + 20).is_err(), "no whole packet");
    }
}
