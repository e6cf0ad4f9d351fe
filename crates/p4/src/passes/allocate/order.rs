//! Where a look-up or a write has to wait longer than the program asks.

use std::collections::HashMap;

use crate::uses::Object;

use super::stages::Stages;

/// What is asked of stages beyond what the program needs.
#[derive(Clone, Default)]
pub(super) struct Order {
    /// For each muTable, the first stage that may read it.
    from: Vec<u32>,
    /// The muTable whose last write an object is used behind.
    behind: HashMap<Object, u32>,
    /// Whether each muTable is read where it is written, and stays a register.
    mu_registers: Vec<bool>,
    /// Whether each register is read where it is written, and stays a register.
    registers: Vec<bool>,
    /// The first stage that may use an object, where there is no room for it earlier.
    at_least: HashMap<Object, u32>,
    /// Stages before its last one over which a table is spread.
    spread: HashMap<u32, u32>,
}

impl Order {
    /// Keeps what has one stage in one stage: what it waits for, its read waits for too.
    pub(super) fn of(stages: &Stages) -> Order {
        let in_one = |reads: &[u32], writes: &[u32]| {
            reads.iter().zip(writes).map(|(reads, writes)| reads == writes).collect()
        };
        let tables = stages.mu_reads.len();
        Order {
            from: vec![0; tables],
            behind: HashMap::new(),
            mu_registers: in_one(&stages.mu_reads, &stages.mu_writes),
            registers: in_one(&stages.register_reads, &stages.register_writes),
            ..Order::default()
        }
    }

    /// This order, and this muTable is not read before this stage.
    pub(super) fn reading(&self, table: u32, from: u32) -> Order {
        let mut order = self.clone();
        order.from[table as usize] = from;
        order
    }

    /// This order, and this object is used behind the last write of this muTable.
    pub(super) fn behind(&self, object: Object, table: u32) -> Order {
        let mut order = self.clone();
        order.behind.insert(object, table);
        order
    }

    /// This order, and this object is not used before this stage.
    pub(super) fn not_before(&self, object: Object, stage: u32) -> Order {
        let mut order = self.clone();
        order.at_least.insert(object, stage);
        order
    }

    /// This order, and this table is spread over one stage more.
    pub(super) fn spread_further(&self, table: u32) -> Order {
        let mut order = self.clone();
        *order.spread.entry(table).or_default() += 1;
        order
    }

    /// Stages before its last one over which a table is spread.
    pub(super) fn spread(&self, table: u32) -> u32 {
        self.spread.get(&table).copied().unwrap_or_default()
    }

    /// The first stage that may use an object, as far as is known.
    pub(super) fn first(&self, object: Object, stages: &Stages) -> u32 {
        let at_least = self.at_least.get(&object).copied().unwrap_or_default();
        let behind = self.behind.get(&object).map_or(0, |table| stages.mu_writes[*table as usize] + 1);
        at_least.max(behind)
    }

    /// The first stage that may read a muTable, as far as is known.
    pub(super) fn mu_read(&self, table: u32, stages: &Stages) -> u32 {
        let at = table as usize;
        let from = self.from.get(at).copied().unwrap_or_default();
        let own = if self.mu_registers.get(at) == Some(&true) { stages.mu_writes[at] } else { 0 };
        from.max(self.first(Object::MuTable(table), stages)).max(own)
    }

    /// The first stage that may read a register, as far as is known.
    pub(super) fn register_read(&self, register: u32, stages: &Stages) -> u32 {
        let at = register as usize;
        let own = if self.registers.get(at) == Some(&true) { stages.register_writes[at] } else { 0 };
        self.first(Object::Register(register), stages).max(own)
    }
}
