//! A program for port knocking.

use io::capture::Record;

use super::fields::{Fields, field, fields};
use crate::program::{Consistency, Program, TableSpec};
use crate::trace::Parser;

/// Opens to pairs of addresses that knock on three ports in order: RAPID §6.4 and Fig. 25, in two stages.
///
/// Stage 0 reads how far the pair has come; stage 1 finds the next state by state and port.
#[derive(Clone, Debug)]
pub struct PortKnocking {
    tables: [TableSpec; 1],
    ports: [u64; 3],
}

/// All three knocks were right.
const OPEN: u64 = 3;

impl PortKnocking {
    /// With ports 7000, 8000 and 9000.
    pub fn new(consistency: Consistency) -> PortKnocking {
        let table = TableSpec { consistency, ..TableSpec::new("port_knocking", 0, 1) };
        PortKnocking { tables: [table], ports: [7_000, 8_000, 9_000] }
    }
}

impl Program for PortKnocking {
    type Phv = Fields;
    /// Right knocks so far.
    type State = u64;

    fn name(&self) -> &str {
        "port-knocking"
    }

    fn stages(&self) -> usize {
        2
    }

    fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    fn key(&self, _: usize, phv: &Fields) -> Option<u64> {
        Some(phv[field::PAIR])
    }

    fn read(&self, _: usize, state: &u64, phv: &mut Fields) {
        phv[field::STATE] = *state;
    }

    fn step(&self, stage: usize, phv: &mut Fields) {
        if stage == 1 {
            let state = phv[field::STATE];
            let is_right = self.ports.get(state as usize) == Some(&phv[field::DST_PORT]);
            phv[field::NEXT] = match state {
                OPEN => OPEN,
                _ if is_right => state + 1,
                _ => 0,
            };
            phv[field::OUTPUT] = u64::from(phv[field::NEXT] == OPEN);
        }
    }

    fn write(&self, _: usize, phv: &Fields) -> Option<u64> {
        Some(phv[field::NEXT])
    }

    fn output(&self, phv: &Fields) -> u64 {
        phv[field::OUTPUT]
    }
}

impl Parser for PortKnocking {
    fn parse(&self, record: &Record<'_>) -> Fields {
        fields(record)
    }
}
