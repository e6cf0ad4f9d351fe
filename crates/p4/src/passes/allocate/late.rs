//! Late reads: a table of flow states is read as late as takes no more stages.
//!
//! From the read to the write of a state no other packet of the flow can have a newer one: the fewer stages these are,
//! the fewer packets are done over. Read where it is written, the table is a register, and none is.
//!
//! What a packet asks before that is asked in the order of arrival. A packet that is held back for its flow comes later
//! to what lies behind, and packets of other flows before it: a register that flows share would show them something
//! else than a single core. So a register, a meter or a muTable of one stage that does not depend on the flow's state
//! goes before the read, even if that takes more stages. A counter does not care who counts first.

use crate::ir::Program;

use super::Stages;
use super::spans::{MAX_SPANS, Order, meet, spans};

/// Stages that a pipeline has, at most: more are not taken to put registers first.
const MAX_STAGES: u32 = 16;

/// Moves the reads of tables of several stages. Cost: some ten walks through the program for each.
pub(super) fn read_late(program: &Program, stages: Stages, order: Order) -> Stages {
    let found = spans(&stages);
    if found.is_empty() || found.len() > MAX_SPANS || meet(&found) {
        return stages;
    }
    let (mut stages, mut order) = (stages, order);
    // The last first: it leaves room to those before it.
    for table in found.iter().rev().map(|span| span.table) {
        let most = stages.all.max(MAX_STAGES);
        let behind = behind_shared(program, &stages, &order, table);
        if let Some(moved) = moved(program, &stages, &order.reading(table, behind), most) {
            order = order.reading(table, behind);
            stages = moved;
        }
        (stages, order) = latest(program, stages, order, table);
    }
    stages
}

/// Stages in this order, if there are no more than `most`.
fn moved(program: &Program, stages: &Stages, order: &Order, most: u32) -> Option<Stages> {
    let mut moved = stages.clone();
    let is_settled = moved.settle(program, order);
    (is_settled && moved.all <= most && !meet(&spans(&moved))).then_some(moved)
}

/// The stage behind all that flows share and that stays where it is, however late the state is read.
fn behind_shared(program: &Program, stages: &Stages, order: &Order, table: u32) -> u32 {
    let reads = stages.mu_reads[table as usize];
    let mut late = stages.clone();
    if !late.settle(program, &order.reading(table, stages.ingress + 1)) {
        return reads;
    }
    let mu_tables = [&stages.mu_reads, &stages.mu_writes, &late.mu_reads];
    let registers = [&stages.register_reads, &stages.register_writes, &late.register_reads];
    let meters = [&stages.meters, &stages.meters, &late.meters];
    let places = [mu_tables, registers, meters].into_iter().flat_map(|[reads, writes, late]| {
        reads.iter().zip(writes).zip(late).filter(|((reads, writes), late)| reads == writes && reads == late)
    });
    let shared =
        places.map(|((reads, _), _)| *reads).filter(|stage| (reads..=stages.ingress).contains(stage));
    shared.max().map_or(reads, |stage| stage + 1)
}

/// As late as takes no more stages.
fn latest(program: &Program, stages: Stages, order: Order, table: u32) -> (Stages, Order) {
    let (mut stages, mut order) = (stages, order);
    let mut from = stages.mu_reads[table as usize];
    let mut beyond = stages.ingress + 1;
    while from + 1 < beyond {
        let middle = from.midpoint(beyond);
        let later = order.reading(table, middle);
        match moved(program, &stages, &later, stages.all) {
            Some(moved) => (stages, order, from) = (moved, later, middle),
            None => beyond = middle,
        }
    }
    (stages, order)
}
