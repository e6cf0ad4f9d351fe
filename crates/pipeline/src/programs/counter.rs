//! A program that counts packets and bytes of each flow.

use io::capture::Record;

use super::fields::{Fields, field, fields};
use crate::program::{Program, TableSpec};
use crate::trace::Parser;

/// Counts packets and bytes of each flow, in one stage.
#[derive(Clone, Debug)]
pub struct FlowCounter {
    tables: [TableSpec; 1],
}

impl Default for FlowCounter {
    fn default() -> FlowCounter {
        FlowCounter { tables: [TableSpec::new("counts", 0, 0)] }
    }
}

impl Program for FlowCounter {
    type Phv = Fields;
    /// Packets, bytes.
    type State = [u64; 2];

    fn name(&self) -> &str {
        "flow-counter"
    }

    fn stages(&self) -> usize {
        1
    }

    fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    fn key(&self, _: usize, phv: &Fields) -> Option<u64> {
        Some(phv[field::FLOW])
    }

    fn read(&self, _: usize, [packets, bytes]: &[u64; 2], phv: &mut Fields) {
        (phv[field::STATE], phv[field::SECOND]) = (*packets, *bytes);
    }

    fn step(&self, _: usize, phv: &mut Fields) {
        phv[field::NEXT] = phv[field::STATE] + 1;
        phv[field::OUTPUT] = phv[field::SECOND] + phv[field::BYTES];
    }

    fn write(&self, _: usize, phv: &Fields) -> Option<[u64; 2]> {
        Some([phv[field::NEXT], phv[field::OUTPUT]])
    }

    fn output(&self, phv: &Fields) -> u64 {
        phv[field::OUTPUT]
    }
}

impl Parser for FlowCounter {
    fn parse(&self, record: &Record<'_>) -> Fields {
        fields(record)
    }
}
