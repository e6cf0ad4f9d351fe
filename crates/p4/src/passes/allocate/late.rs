//! Late reads, and what lies around them: a table of flow states is read as late as takes no more stages.
//!
//! From the read to the write of a state no other packet of the flow can have a newer one: the fewer stages these are,
//! the fewer packets are done over. Read where it is written, the table is a register, and none is.
//!
//! What a packet asks before that is asked in the order of arrival. A packet that is held back for its flow comes later
//! to what lies behind, and packets of other flows before it: a register that flows share would show them something
//! else than a single core. So a register, a meter or a muTable of one stage that does not depend on the flow's state
//! goes before the read, even if that takes more stages. A counter does not care who counts first.
//!
//! What does depend on the state is asked behind the write, unless that needs it: a packet that is done over would have
//! asked for what was never so.

use crate::ir::Program;
use crate::uses::Object;

use super::order::Order;
use super::spans::{MAX_SPANS, meet, spans};
use super::stages::Stages;

/// Stages that a pipeline has, at most: more are not taken to keep spans free.
const PIPELINE_STAGES: u32 = 16;

/// Reads states late, and moves what is asked around them. Cost: some ten walks through the program for each, and one or
/// two for each object in a span.
pub(super) fn around_spans(program: &Program, stages: Stages, order: Order) -> (Stages, Order) {
    let found = spans(&stages);
    if found.is_empty() || found.len() > MAX_SPANS || meet(&found) {
        return (stages, order);
    }
    let (mut stages, mut order) = (stages, order);
    // The last first: it leaves room to those before it.
    for table in found.iter().rev().map(|span| span.table) {
        let behind = behind_shared(program, &stages, &order, table);
        let most = stages.all.max(PIPELINE_STAGES);
        if let Some(moved) = moved(program, &stages, &order.reading(table, behind), most) {
            order = order.reading(table, behind);
            stages = moved;
        }
        (stages, order) = latest(program, stages, order, table);
    }
    for table in found.iter().map(|span| span.table) {
        (stages, order) = behind_write(program, stages, order, table);
    }
    (stages, order)
}

/// Stages in this order, if there are no more than `most`.
pub(super) fn moved(program: &Program, stages: &Stages, order: &Order, most: u32) -> Option<Stages> {
    let mut moved = stages.clone();
    let is_settled = moved.settle(program, order, most);
    (is_settled && !meet(&spans(&moved))).then_some(moved)
}

/// The stage behind all that flows share and that stays where it is, however late the state is read.
fn behind_shared(program: &Program, stages: &Stages, order: &Order, table: u32) -> u32 {
    let reads = stages.mu_reads[table as usize];
    let mut late = stages.clone();
    if !late.settle_moved(program, &order.reading(table, stages.ingress + 1), 1) {
        return reads;
    }
    let stays = objects(stages).zip(objects(&late)).filter(|(now, late)| now == late).map(|(now, _)| now);
    let shared = stays.filter(|(object, _)| !matches!(object, Object::Counter(_)));
    let stages = shared.map(|(_, stage)| stage).filter(|stage| (reads..=stages.ingress).contains(stage));
    stages.max().map_or(reads, |stage| stage + 1)
}

/// What packets change, and in which stage; 0 where that is several or none.
fn objects(stages: &Stages) -> impl Iterator<Item = (Object, u32)> {
    let in_one = |(reads, writes): (u32, u32)| if [0, writes].contains(&reads) { writes } else { 0 };
    stages.objects().map(move |(object, places)| (object, in_one(places)))
}

/// What depends on the state and is asked before it is written is asked behind that, if the write does not wait for it.
fn behind_write(program: &Program, stages: Stages, order: Order, table: u32) -> (Stages, Order) {
    let (mut stages, mut order) = (stages, order);
    let span = |stages: &Stages| (stages.mu_reads[table as usize], stages.mu_writes[table as usize]);
    let (reads, writes) = span(&stages);
    let mut late = stages.clone();
    if reads == writes || !late.settle_moved(program, &order.reading(table, stages.ingress + 1), 1) {
        return (stages, order);
    }
    let depends: Vec<Object> = objects(&stages)
        .zip(objects(&late))
        .filter(|((_, now), (_, late))| now != late && (reads..=writes).contains(now))
        .map(|((object, _), _)| object)
        .collect();
    for object in depends {
        let behind = order.behind(object, table);
        let most = stages.all.max(PIPELINE_STAGES);
        if let Some(moved) =
            moved(program, &stages, &behind, most).filter(|moved| span(moved) == (reads, writes))
        {
            (stages, order) = (moved, behind);
        }
    }
    (stages, order)
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
