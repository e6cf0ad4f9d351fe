//! The reference: a program without a pipeline, packet by packet, in order of arrival. Every model is held to it.

use std::collections::BTreeMap;

use crate::program::Program;

/// Runs a program packet by packet.
#[derive(Debug)]
pub struct Reference<P: Program> {
    program: P,
    tables: Vec<BTreeMap<u64, P::State>>,
}

impl<P: Program> Reference<P> {
    /// With the program's entries in its tables, which have no bound here.
    pub fn new(program: P) -> Reference<P> {
        let tables = (0..program.tables().len()).map(|table| program.entries(table)).collect();
        Reference { program, tables }
    }

    /// What leaves the pipeline for this packet.
    pub fn packet(&mut self, mut phv: P::Phv) -> P::Phv {
        let specs = self.program.tables();
        let mut used = vec![None; specs.len()];
        for stage in 0..self.program.stages() {
            for (table, spec) in specs.iter().enumerate() {
                if spec.read_stage == stage
                    && let Some(key) = self.program.key(table, &phv)
                {
                    let state =
                        self.tables[spec.port_of.unwrap_or(table)].get(&key).copied().unwrap_or_default();
                    self.program.read(table, &state, &mut phv);
                    used[table] = Some((key, state));
                }
            }
            self.program.step(stage, &mut phv);
            for (table, spec) in specs.iter().enumerate() {
                if spec.write_stage == stage
                    && let Some((key, old)) = used[table]
                    && let Some(new) = self.program.write(table, &phv)
                    && new != old
                {
                    self.tables[table].insert(key, new);
                }
            }
        }
        phv
    }

    /// What a packet's output is: [`Program::output`].
    pub fn output(&mut self, phv: P::Phv) -> u64 {
        let phv = self.packet(phv);
        self.program.output(&phv)
    }

    /// What each table holds, by key.
    pub fn tables(&self) -> &[BTreeMap<u64, P::State>] {
        &self.tables
    }
}
