//! What stage allocation looks for: a stage for each object and each statement.

use crate::ir::{Layout, Memory, MuPlace, Program, Statement, StatementKind};
use crate::uses::Object;

/// In which stages things are, as far as is known.
#[derive(Clone, PartialEq)]
pub(super) struct Stages {
    pub(super) tables: Vec<u32>,
    pub(super) mu_reads: Vec<u32>,
    pub(super) mu_writes: Vec<u32>,
    pub(super) register_reads: Vec<u32>,
    pub(super) register_writes: Vec<u32>,
    pub(super) counters: Vec<u32>,
    pub(super) meters: Vec<u32>,
    /// The last stage of the ingress, and that of all.
    pub(super) ingress: u32,
    pub(super) all: u32,
    /// Half of every statement, in the order in which they are walked; 0 where it has none yet.
    pub(super) statements: Vec<u32>,
}

impl Stages {
    pub(super) fn new(program: &Program) -> Stages {
        Stages {
            tables: vec![0; program.tables.len()],
            mu_reads: vec![0; program.mu_tables.len()],
            mu_writes: vec![0; program.mu_tables.len()],
            register_reads: vec![0; program.registers.len()],
            register_writes: vec![0; program.registers.len()],
            counters: vec![0; program.counters.len()],
            meters: vec![0; program.meters.len()],
            ingress: 0,
            all: 0,
            statements: vec![0; program.bodies().map(|body| count(body)).sum()],
        }
    }

    /// What keeps state, and where it is read and written; 0 where it is not.
    pub(super) fn objects(&self) -> impl Iterator<Item = (Object, (u32, u32))> {
        let both = |(reads, writes): (&u32, &u32)| (*reads, *writes);
        let one = |stage: &u32| (*stage, *stage);
        let mu_tables = (0..).map(Object::MuTable).zip(self.mu_reads.iter().zip(&self.mu_writes).map(both));
        let registers = self.register_reads.iter().zip(&self.register_writes).map(both);
        let registers = (0..).map(Object::Register).zip(registers);
        let counters = (0..).map(Object::Counter).zip(self.counters.iter().map(one));
        let meters = (0..).map(Object::Meter).zip(self.meters.iter().map(one));
        mu_tables.chain(registers).chain(counters).chain(meters)
    }

    pub(super) fn layout(&self) -> Layout {
        let place = |reads: u32, writes: u32| {
            let is_single = writes == 0 || reads == 0 || reads == writes;
            let memory = if is_single { Memory::Register } else { Memory::FlowState };
            MuPlace { reads: narrow(reads), writes: narrow(writes), memory }
        };
        let places = |reads: &[u32], writes: &[u32]| {
            reads.iter().zip(writes).map(|(reads, writes)| place(*reads, *writes)).collect::<Vec<_>>()
        };
        let mu_tables = places(&self.mu_reads, &self.mu_writes);
        let registers = places(&self.register_reads, &self.register_writes);
        let first = mu_tables.iter().map(|place| place.reads).filter(|stage| *stage > 0).min();
        let last = mu_tables.iter().map(|place| place.writes).max().unwrap_or_default();
        let span = first.map_or(0, |first| if last == 0 { 0 } else { (last + 1).saturating_sub(first) });
        Layout {
            stages: narrow(self.all),
            egress_from: narrow(self.ingress).saturating_add(1),
            tables: self.tables.iter().map(|stage| narrow(*stage)).collect(),
            notes: Vec::new(),
            warnings: Vec::new(),
            mu_tables,
            registers,
            span,
            renamed: Vec::new(),
            unsettled: Vec::new(),
        }
    }
}

/// A number of a stage or a half; past [`MAX_LAYOUT_STAGES`](super::MAX_LAYOUT_STAGES) they mean nothing.
pub(super) fn narrow(stage: u32) -> u16 {
    u16::try_from(stage).unwrap_or(u16::MAX)
}

/// How many statements there are, those that others hold included.
pub(super) fn count(body: &[Statement]) -> usize {
    let inside = |statement: &Statement| match &statement.kind {
        StatementKind::If { then, otherwise, .. } => count(then) + count(otherwise),
        StatementKind::Scope { body } => count(body),
        _ => 0,
    };
    body.iter().map(|statement| 1 + inside(statement)).sum()
}
