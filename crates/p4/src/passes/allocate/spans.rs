//! Spans apart: of two muTables of several stages, one is read behind the write of the other.
//!
//! A packet that is done over for one state would do another one's steps twice, so no two spans may meet. Where they
//! do with everything as early as it can be, this finds an order for them.
//!
//! The write of `a` *needs* the read of `b` if a later read makes a later write, be it through values, conditions, or
//! a table that is in one stage: then `b` goes first. Two that need each other, or more in a circle, cannot be told
//! apart, and stay as they are. Any order that this leaves open can be had.

use std::collections::HashMap;

use crate::ir::Program;
use crate::uses::Object;

use super::Stages;

/// Most spans that are told apart. A pipeline of 16 stages has room for 8.
pub(super) const MAX_SPANS: usize = 16;

/// What is asked of stages beyond what the program needs.
#[derive(Clone, Default)]
pub(super) struct Order {
    /// For each muTable, the first stage that may read it.
    from: Vec<u32>,
    /// The muTable whose last write an object is used behind.
    behind: HashMap<Object, u32>,
    /// Whether each muTable is read where it is written, and stays a register.
    mu_registers: Vec<bool>,
    /// The same for each register.
    registers: Vec<bool>,
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
        }
    }

    /// The same, and this muTable is not read before this stage.
    pub(super) fn reading(&self, table: u32, from: u32) -> Order {
        let mut order = self.clone();
        order.from[table as usize] = from;
        order
    }

    /// The same, and this object is used behind the last write of this muTable.
    pub(super) fn behind(&self, object: Object, table: u32) -> Order {
        let mut order = self.clone();
        order.behind.insert(object, table);
        order
    }

    /// The first stage that may use an object, as far as is known.
    pub(super) fn first(&self, object: Object, stages: &Stages) -> u32 {
        self.behind.get(&object).map_or(0, |table| stages.mu_writes[*table as usize] + 1)
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

/// A muTable of several stages.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub table: u32,
    pub reads: u32,
    pub writes: u32,
}

/// Those of the ingress, by the stages that read them.
pub(super) fn spans(stages: &Stages) -> Vec<Span> {
    let places = (0..).zip(stages.mu_reads.iter().zip(&stages.mu_writes));
    let spans = places.map(|(table, (reads, writes))| Span { table, reads: *reads, writes: *writes });
    let is_span = |span: &Span| 0 < span.reads && span.reads < span.writes && span.writes <= stages.ingress;
    let mut spans: Vec<Span> = spans.filter(is_span).collect();
    spans.sort_by_key(|span| (span.reads, span.writes));
    spans
}

pub(super) fn meet(spans: &[Span]) -> bool {
    spans.windows(2).any(|pair| pair[1].reads <= pair[0].writes)
}

/// Stages in which no spans meet, where they do in these, which are the earliest; `None` if they do not, or must.
/// Cost: a few walks through the program for each span.
pub(super) fn apart(program: &Program, stages: &Stages) -> Option<(Stages, Order)> {
    let spans = spans(stages);
    if !meet(&spans) || spans.len() > MAX_SPANS {
        return None;
    }
    let needs = needs(program, stages, &spans)?;
    // Which is better depends on why a span is long: it may begin early for no reason.
    let by_read = chain(&spans, &needs, |span| (span.reads, span.writes))?;
    let by_write = chain(&spans, &needs, |span| (span.writes, span.reads))?;
    let is_one = by_read == by_write;
    let orders = [Some(by_read), (!is_one).then_some(by_write)].into_iter().flatten();
    orders.filter_map(|order| laid_out(program, stages, &order)).min_by_key(|(stages, _)| stages.all)
}

/// For each span, which others' reads its write needs. `None` if stages do not settle.
fn needs(program: &Program, stages: &Stages, spans: &[Span]) -> Option<Vec<Vec<bool>>> {
    let mut needs = vec![vec![false; spans.len()]; spans.len()];
    for (read, late) in spans.iter().enumerate() {
        // Behind all that there is, so that what moves, moves there.
        let order = Order::of(stages).reading(late.table, stages.ingress + 1);
        let mut moved = stages.clone();
        if !moved.settle_moved(program, &order, 1) {
            return None;
        }
        for (write, span) in spans.iter().enumerate().filter(|(write, _)| *write != read) {
            needs[write][read] = moved.mu_writes[span.table as usize] > stages.ingress;
        }
    }
    Some(needs)
}

/// An order in which each span comes behind those whose reads it needs, and else the one with the least key first.
/// `None` if some need each other.
fn chain<K: Ord>(spans: &[Span], needs: &[Vec<bool>], key: impl Fn(&Span) -> K) -> Option<Vec<u32>> {
    let mut left: Vec<usize> = (0..spans.len()).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let is_free = |at: &&usize| left.iter().all(|other| !needs[**at][*other]);
        let next = *left.iter().filter(is_free).min_by_key(|at| key(&spans[**at]))?;
        left.retain(|at| *at != next);
        order.push(spans[next].table);
    }
    Some(order)
}

/// Stages with the spans in this order.
fn laid_out(program: &Program, stages: &Stages, tables: &[u32]) -> Option<(Stages, Order)> {
    let mut order = Order::of(stages);
    for pair in tables.windows(2) {
        order = order.behind(Object::MuTable(pair[1]), pair[0]);
    }
    let mut laid_out = stages.clone();
    let is_settled = laid_out.settle_moved(program, &order, tables.len());
    (is_settled && !meet(&spans(&laid_out))).then_some((laid_out, order))
}
