//! A program for a load balancer with sticky connections.

use io::capture::Record;
use nf::hash_bytes;

use super::fields::{Fields, field, fields};
use crate::program::{Consistency, Program, TableSpec};
use crate::trace::Parser;

/// A load balancer that remembers where it sent a connection, in four stages: after RAPID §6.4.
///
/// Stage 0 looks the connection up. Stages 1 and 2 choose a server for one that is new: the pool's version
/// first, then a server of it. Stage 3 rewrites the destination and decrements the time to live.
#[derive(Clone, Debug)]
pub struct NatBalancer {
    tables: [TableSpec; 1],
    servers: u64,
}

impl NatBalancer {
    /// With 16 servers.
    pub fn new(consistency: Consistency) -> NatBalancer {
        let table = TableSpec { consistency, ..TableSpec::new("connections", 0, 3) };
        NatBalancer { tables: [table], servers: 16 }
    }
}

impl Program for NatBalancer {
    type Phv = Fields;
    /// Number of the server, from 1; 0 for none.
    type State = u64;

    fn name(&self) -> &str {
        "nat-lb"
    }

    fn stages(&self) -> usize {
        4
    }

    fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    fn key(&self, _: usize, phv: &Fields) -> Option<u64> {
        Some(phv[field::FLOW])
    }

    fn read(&self, _: usize, server: &u64, phv: &mut Fields) {
        phv[field::STATE] = *server;
    }

    fn step(&self, stage: usize, phv: &mut Fields) {
        match stage {
            // The pool changes every millisecond: so a connection that forgot its server would lose it.
            1 => phv[field::SECOND] = phv[field::TIME_NS] / 1_000_000,
            2 => {
                let seed = phv[field::SECOND];
                let drawn = hash_bytes(&phv[field::FLOW].to_le_bytes(), seed) % self.servers + 1;
                phv[field::NEXT] = if phv[field::STATE] == 0 { drawn } else { phv[field::STATE] };
            }
            3 => phv[field::OUTPUT] = phv[field::NEXT] << 8 | phv[field::TTL].saturating_sub(1),
            _ => {}
        }
    }

    fn write(&self, _: usize, phv: &Fields) -> Option<u64> {
        Some(phv[field::NEXT])
    }

    fn output(&self, phv: &Fields) -> u64 {
        phv[field::OUTPUT]
    }
}

impl Parser for NatBalancer {
    fn parse(&self, record: &Record<'_>) -> Fields {
        fields(record)
    }
}
