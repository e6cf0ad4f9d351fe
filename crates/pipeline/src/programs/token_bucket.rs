//! A program that polices flows with token buckets.

use io::capture::Record;

use super::fields::{Fields, field, fields};
use crate::program::{Consistency, Program, TableSpec};
use crate::trace::Parser;

/// Polices the bytes of each flow, in two stages: stage 0 refills, stage 1 takes or drops.
///
/// Every packet updates its flow's state, which is the worst there is for speculation.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    tables: [TableSpec; 1],
    bytes_per_us: u64,
    burst_bytes: u64,
}

impl TokenBucket {
    /// 10 MB/s, a burst of 15,000 bytes.
    pub fn new(consistency: Consistency) -> TokenBucket {
        let table = TableSpec { consistency, ..TableSpec::new("buckets", 0, 1) };
        TokenBucket { tables: [table], bytes_per_us: 10, burst_bytes: 15_000 }
    }
}

impl Program for TokenBucket {
    type Phv = Fields;
    /// Bytes taken since the bucket was full, and when that was counted.
    type State = [u64; 2];

    fn name(&self) -> &str {
        "token-bucket"
    }

    fn stages(&self) -> usize {
        2
    }

    fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    fn key(&self, _: usize, phv: &Fields) -> Option<u64> {
        Some(phv[field::FLOW])
    }

    fn read(&self, _: usize, [taken, time_ns]: &[u64; 2], phv: &mut Fields) {
        (phv[field::STATE], phv[field::SECOND]) = (*taken, *time_ns);
    }

    fn step(&self, stage: usize, phv: &mut Fields) {
        if stage == 0 {
            let elapsed_us = phv[field::TIME_NS].saturating_sub(phv[field::SECOND]) / 1_000;
            let refilled = elapsed_us.saturating_mul(self.bytes_per_us);
            phv[field::NEXT] = phv[field::STATE].saturating_sub(refilled);
        } else {
            let taken = phv[field::NEXT] + phv[field::BYTES];
            phv[field::OUTPUT] = u64::from(taken <= self.burst_bytes);
            if taken <= self.burst_bytes {
                phv[field::NEXT] = taken;
            }
        }
    }

    fn write(&self, _: usize, phv: &Fields) -> Option<[u64; 2]> {
        Some([phv[field::NEXT], phv[field::TIME_NS]])
    }

    fn output(&self, phv: &Fields) -> u64 {
        phv[field::OUTPUT]
    }
}

impl Parser for TokenBucket {
    fn parse(&self, record: &Record<'_>) -> Fields {
        fields(record)
    }
}
