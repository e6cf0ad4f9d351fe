//! Whether packets with wrong checksums are dropped: what the chain file says, and what a capture says for itself.
//!
//! A card or a kernel drops a packet whose checksum is wrong, and so does every endpoint. What a tracker then must not
//! do is believe it: a reset with a wrong checksum would close a connection that goes on. But a capture taken on the
//! machine that sends has the packets before the card filled their checksums in, and there nearly none is right. So with
//! `checksums = "auto"` the capture's first packets decide, once, before any of them is stepped.

use io::capture::CaptureReader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What becomes of packets whose checksums are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checksums {
    /// As with `Verify` or `Ignore`: the first packets of a capture decide. Packets that come from elsewhere are not
    /// verified.
    #[default]
    Auto,
    /// They are malformed.
    Verify,
    /// They are as good as others.
    Ignore,
}

/// Who decided whether checksums are verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DecidedBy {
    /// The chain file; on interfaces its default is not to.
    #[default]
    Chain,
    /// The first packets of the capture.
    Capture,
    /// Who put history before the packets. It says which ones are wrong, and not whether it verified.
    Sequencer,
}

/// The checksums of a capture's first packets, and what was decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChecksumSample {
    /// Whether packets with wrong checksums count as malformed.
    pub verified: bool,
    /// Who decided.
    pub decided_by: DecidedBy,
    /// Packets looked at; 0 where others decide.
    pub sampled: u64,
    /// Packets among those sampled whose checksums are all here and right.
    pub right: u64,
    /// Packets with a wrong one.
    pub wrong: u64,
    /// Packets among the wrong ones of which a checksum was left to the sender's network card: the transport's, or
    /// that of the IPv4 header.
    pub left_to_card: u64,
}

/// Packets that decide, and their bytes, of a file.
const SAMPLE_PACKETS: usize = 4_096;
const SAMPLE_BYTES: usize = 8 << 20;
/// Packets that decide of a pipe, where a long sample would hold up the first verdict.
const SAMPLE_PIPED_PACKETS: usize = 64;

impl Checksums {
    /// Decides for a run over what `reader` reads; nothing that it reads is lost.
    pub fn decide(self, reader: &mut CaptureReader) -> ChecksumSample {
        let mut sample = ChecksumSample { verified: self == Checksums::Verify, ..ChecksumSample::default() };
        if self == Checksums::Auto {
            let packets = if reader.size_bytes().is_some() { SAMPLE_PACKETS } else { SAMPLE_PIPED_PACKETS };
            reader.look_ahead(packets, SAMPLE_BYTES, &mut |record| {
                let headers = wire::parse(record.link, record.data, record.wire_len);
                sample.add(wire::verify(record.data, &headers));
            });
            sample.verified = sample.is_mostly_right();
            sample.decided_by = DecidedBy::Capture;
        }
        sample
    }

    /// What was decided, to be passed on.
    pub fn decided(sample: &ChecksumSample) -> Checksums {
        if sample.verified { Checksums::Verify } else { Checksums::Ignore }
    }
}

impl ChecksumSample {
    /// Counts one packet more.
    pub fn add(&mut self, checksums: wire::Checksums) {
        self.sampled += 1;
        match checksums {
            wire::Checksums::Right => self.right += 1,
            wire::Checksums::Wrong { is_left_to_card, .. } => {
                self.wrong += 1;
                self.left_to_card += u64::from(is_left_to_card);
            }
            wire::Checksums::Unverifiable | wire::Checksums::Absent => {}
        }
    }

    /// At least two of three are right, and no more than one of a hundred was left to a card: that is what a sender's
    /// capture shows in its own packets, and no accident. Without any to go by, there is no harm in verifying.
    fn is_mostly_right(&self) -> bool {
        let verifiable = self.right + self.wrong;
        3 * self.right >= 2 * verifiable && 100 * self.left_to_card <= verifiable
    }

    /// What a report says: `verified (99.8% of the first 4,096 packets right)`.
    pub fn describe(&self) -> String {
        let verdict = if self.verified { "verified" } else { "not verified" };
        let verifiable = self.right + self.wrong;
        let share = |part: u64| format!("{:.1}%", 100.0 * part as f64 / verifiable.max(1) as f64);
        let why = match verifiable {
            _ if self.decided_by == DecidedBy::Chain => "as the chain file says".to_owned(),
            _ if self.decided_by == DecidedBy::Sequencer => {
                "the sequencer decides, and says which are wrong".to_owned()
            }
            0 if self.sampled == 0 => "there is no packet".to_owned(),
            0 => format!("none in the first {} packets", self.sampled),
            _ if self.left_to_card > 0 => format!(
                "of the first {verifiable}, {} are right and {} were left to the sender's network card",
                share(self.right),
                share(self.left_to_card)
            ),
            _ => format!("of the first {verifiable}, {} are right", share(self.right)),
        };
        format!("{verdict} ({why})")
    }
}
