//! Packets with their history, as frames that a test can change before cores get them.

use engine::SequencedAs;
use engine::{Chain, ExternalInput, ExternalPackets, InputError, Loss, Recovery, Sequenced, Sequencing};
use io::capture::{CaptureReader, Record};

use crate::pcap::Pcap;

/// Where the fields of the fixed header are, `docs/history-format.md`.
pub mod at {
    use std::ops::Range;

    /// Sequence number.
    pub const SEQ: Range<usize> = 8..16;
    /// Time of the packet.
    pub const TIME_NS: Range<usize> = 16..24;
    /// Items in the ring.
    pub const RING_ITEMS: Range<usize> = 34..36;
    /// Valid ones.
    pub const COUNT: Range<usize> = 36..38;
    /// Index of the oldest.
    pub const OLDEST: Range<usize> = 38..40;
    /// The ring of version 1; in version 2, the seed of the hashes.
    pub const RING: usize = 40;
    /// The seed of the hashes in version 2.
    pub const TABLE_SEED: Range<usize> = 40..48;
    /// The ring of version 2.
    pub const TYPED_RING: usize = 48;
}

/// A packet behind its history.
#[derive(Clone, Debug)]
pub struct Frame {
    /// When it was sent.
    pub time_ns: u64,
    /// Its length on the wire.
    pub wire_len: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Frame {
    fn of(record: &Record<'_>) -> Frame {
        Frame { time_ns: record.time_ns, wire_len: record.wire_len, bytes: record.data.to_vec() }
    }

    /// A big-endian number of the header.
    pub fn number(&self, at: std::ops::Range<usize>) -> u64 {
        self.bytes[at].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Changes a number of the header.
    pub fn set(&mut self, at: std::ops::Range<usize>, number: u64) {
        let len = at.len();
        self.bytes[at].copy_from_slice(&number.to_be_bytes()[8 - len..]);
    }

    /// Leaves so many bytes.
    pub fn cut(&mut self, len: usize) {
        self.bytes.truncate(len);
        self.wire_len = len as u32;
    }
}

/// What each core gets of a capture with history of this version, a flush at the end included.
pub fn sequenced(
    chain: &Chain,
    mut capture: CaptureReader,
    cores: usize,
    version: SequencedAs,
) -> Vec<Vec<Frame>> {
    let sequencing = Sequencing::with_version(chain, version.of(chain), cores, false);
    let mut sequencing = sequencing.expect("so many cores");
    let mut frames = vec![Vec::new(); cores];
    while let Some(record) = capture.next().expect("whole") {
        let Sequenced { core, record, .. } = sequencing.next(&record);
        frames[core].push(Frame::of(&record));
    }
    for (core, frames) in frames.iter_mut().enumerate() {
        frames.push(Frame::of(&sequencing.flush(core).record));
    }
    frames
}

/// Captures with these frames, one for each core, to be opened more than once.
pub fn files(frames: &[Vec<Frame>]) -> impl Fn(Option<Loss>, Recovery) -> Result<ExternalInput, InputError> {
    let file = |frames: &Vec<Frame>| {
        let mut pcap = Pcap::new();
        frames.iter().for_each(|frame| pcap.push(frame.time_ns, frame.wire_len, &frame.bytes));
        pcap
    };
    let files: Vec<Pcap> = frames.iter().map(file).collect();
    move |loss, recovery| {
        let packets = ExternalPackets::Files(files.iter().map(Pcap::open).collect());
        Ok(ExternalInput { packets, speed: None, loss, recovery })
    }
}
