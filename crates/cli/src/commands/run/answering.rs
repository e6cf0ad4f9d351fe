//! Answers to packets that a chain rejects, and to pings, over a capture: `--out` has them in the place of the packets, and the report counts them.

use engine::report::AnswersReport;
use engine::{Chain, Reload, Seen};
use io::{Fate, MarkedDrops};
use wire::AnswerKind;

/// Which packets are answered, and what the answers were.
pub struct Answering {
    /// As of which packet, and by which chain's rules.
    drops: Vec<(u64, MarkedDrops)>,
    counts: AnswersReport,
    bytes: Vec<u8>,
}

impl Answering {
    /// For packets of a chain, and of those that take over from it.
    pub fn new(chain: &Chain, reloads: &[Reload]) -> Answering {
        let later = reloads.iter().map(|reload| (reload.after, reload.chain.marked_drops()));
        let drops = [(0, chain.marked_drops())].into_iter().chain(later).collect();
        Answering { drops, counts: AnswersReport::default(), bytes: Vec::new() }
    }

    /// The answer to a packet, if it is rejected, or a ping, and may be answered.
    pub fn answer(&mut self, seen: &Seen<'_>) -> Option<&[u8]> {
        if !matches!(seen.fate, Fate::DropBy { .. }) {
            return None;
        }
        // The chain that ran when it came.
        let (_, drops) = self.drops.iter().rev().find(|(after, _)| *after <= seen.stamp.seq)?;
        let to = drops.answer_to(seen.fate)?;
        let Some(answer) = to.answer(seen.link, seen.bytes, seen.wire_len) else {
            self.counts.unanswerable += 1;
            return None;
        };
        match answer.kind() {
            AnswerKind::Reset => self.counts.resets += 1,
            AnswerKind::Prohibited => self.counts.icmp_errors += 1,
            AnswerKind::Echo => self.counts.echo_replies += 1,
        }
        self.bytes.clear();
        answer.parts(seen.bytes).iter().for_each(|part| self.bytes.extend_from_slice(part));
        Some(&self.bytes)
    }

    /// What the report has, if anything was to be answered.
    pub fn report(self) -> Option<AnswersReport> {
        Some(self.counts).filter(|counts| *counts != AnswersReport::default())
    }
}
