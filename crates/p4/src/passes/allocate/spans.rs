//! Spans apart: of two muTables of several stages, one is read behind the write of the other.
//!
//! A packet that is done over for one state would do another one's steps twice, so no two spans may meet. Where they
//! do with everything as early as it can be, this finds an order for them.
//!
//! The write of `a` *needs* the read of `b` if a later read makes a later write, be it through values, conditions, or
//! a table that is in one stage: then `b` goes first. Two that need each other, or more in a circle, cannot be told
//! apart, and stay as they are. Any order that this leaves open is possible.

use crate::ir::Program;
use crate::uses::Object;

use super::order::Order;
use super::stages::Stages;

/// Most spans that are told apart. A pipeline of 16 stages has room for 8.
pub(super) const MAX_SPANS: usize = 16;

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
