//! A batch on a core that traces: cut around the packets that are to be told of. See [`tracing`](super::tracing).

use std::sync::Arc;

use io::Port;
use wire::Headers;

use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::group::Group;
use crate::path::items::Items;
use crate::path::laps::Laps;
use crate::path::look::Look;
use crate::path::packets::{all_bits, bits};
use crate::path::traced::{Traced, TracedNames, TracedStep, edits_between, steps_of};
use crate::path::tracing::{Tracer, Tracing};

/// Between which sides a packet goes.
#[derive(Clone, Copy)]
struct Course {
    is_from_outside: bool,
    crosses: bool,
}

impl ChainCore {
    /// Has this core, with this number, trace what is asked for.
    pub(crate) fn trace(&mut self, tracing: &Arc<Tracing>, core: usize, names: &Arc<TracedNames>) {
        self.tracer = Some(Box::new(Tracer::new(tracing, core, names)));
    }

    /// Does what [`ChainCore::process`] does where packets may have to be traced.
    #[cold]
    pub(super) fn process_traced(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        let Some(mut tracer) = self.tracer.take() else { return };
        let mut rest = all_bits(batch.len());
        for packet in bits(tracer.choose(batch.own(), batch, port)) {
            self.pass_some(rest & all_bits(packet), batch, port, laps);
            rest &= !all_bits(packet + 1);
            let aside = batch.live & !(1 << packet);
            batch.live &= 1 << packet;
            let course = match &self.checks.sides {
                Some(sides) if !self.between.is_empty() => {
                    let (outside, crossing) = sides.of(batch);
                    Course { is_from_outside: outside != 0, crosses: crossing != 0 }
                }
                _ => Course { is_from_outside: false, crosses: true },
            };
            batch.is_reversed = course.is_from_outside;
            let step = &mut |group: &mut dyn Group, batch: &mut Batch| group.process(batch, port, laps);
            self.trace_one(packet, course, &mut tracer, batch, step);
            batch.is_reversed = false;
            batch.live |= aside;
        }
        self.pass_some(rest, batch, port, laps);
        self.tracer = Some(tracer);
    }

    /// Does what [`ChainCore::replay`] does: own packets may have to be traced, history is not.
    #[cold]
    pub(super) fn replay_traced(
        &mut self,
        items: &mut Items<'_>,
        batch: &mut Batch,
        port: &dyn Port,
        laps: &mut dyn Laps,
    ) {
        let Some(mut tracer) = self.tracer.take() else { return };
        let own = bits(items.own).fold(0, |own, item| own | 1 << items.packet(item));
        let chosen = tracer.choose(own, batch, port);
        let mut rest = all_bits(items.len());
        for item in bits(items.own) {
            let packet = items.packet(item);
            if chosen >> packet & 1 == 0 {
                continue;
            }
            self.replay_some(rest & all_bits(item), items, batch, port, laps);
            rest &= !all_bits(item + 1);
            let aside = items.live & !(1 << item);
            items.live &= 1 << item;
            let course = Course { is_from_outside: false, crosses: true };
            let step = &mut |group: &mut dyn Group, batch: &mut Batch| group.replay(items, batch, port, laps);
            self.trace_one(packet, course, &mut tracer, batch, step);
            items.live |= aside;
        }
        self.replay_some(rest, items, batch, port, laps);
        self.tracer = Some(tracer);
    }

    /// Tells of the packets of the batch that were traced, once their fate is known.
    #[inline]
    pub(super) fn tell_traced(&mut self, batch: &Batch) {
        if let Some(tracer) = &mut self.tracer
            && !tracer.pending.is_empty()
        {
            tracer.tell(batch);
        }
    }

    /// Takes some packets of the batch through the chain.
    fn pass_some(&mut self, packets: u64, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        let aside = batch.live & !packets;
        batch.live &= packets;
        if batch.live != 0 {
            self.pass(batch, port, laps);
        }
        batch.live |= aside;
    }

    /// Takes some items through the chain.
    fn replay_some(
        &mut self,
        packets: u64,
        items: &mut Items<'_>,
        batch: &mut Batch,
        port: &dyn Port,
        laps: &mut dyn Laps,
    ) {
        let aside = items.live & !packets;
        items.live &= packets;
        self.replay_all(items, batch, port, laps);
        items.live |= aside;
    }

    /// Takes one packet through the chain, group by group: `step` takes it, and no other, through one of them.
    fn trace_one(
        &mut self,
        packet: usize,
        Course { is_from_outside, crosses }: Course,
        tracer: &mut Tracer,
        batch: &mut Batch,
        step: &mut dyn FnMut(&mut dyn Group, &mut Batch),
    ) {
        let (received, now_ns) = (batch.headers[packet], batch.frames[packet].stamp.time_ns);
        let mut steps = Vec::new();
        for index in 0..self.groups.len() {
            let index = if is_from_outside { self.groups.len() - 1 - index } else { index };
            let is_past = self.between.get(index).is_some_and(|is_between| *is_between) && !crosses;
            if batch.live >> packet & 1 == 0 || is_past {
                continue;
            }
            let (headers, edits) = (batch.headers[packet], batch.edits[packet]);
            let mut members = self.members_of(index);
            if is_from_outside {
                members.reverse();
            }
            let group = &mut self.groups[index];
            let look = |group: &dyn Group| -> Vec<Look> {
                members.iter().map(|(_, member)| group.look(*member, &headers, now_ns)).collect()
            };
            let before = look(&**group);
            step(&mut **group, batch);
            let after = look(&**group);
            let edited = edits_between(&received, &edits, &batch.edits[packet]);
            let functions = members.iter().map(|(function, _)| *function);
            steps_of(functions.zip(before.into_iter().zip(after)), edited, &tracer.names, &mut steps);
        }
        let traced = traced(packet, received, steps, tracer, batch);
        tracer.pending.push((packet, traced));
    }

    /// The functions of a group, in the order of the chain, each with its number there.
    fn members_of(&self, group: usize) -> Vec<(usize, usize)> {
        let places = self.places.iter().enumerate().filter(|(_, place)| place.group == group);
        places.map(|(function, place)| (function, place.member)).collect()
    }
}

/// What is told of a packet, but for its fate, which is not known yet.
fn traced(packet: usize, headers: Headers, steps: Vec<TracedStep>, tracer: &Tracer, batch: &Batch) -> Traced {
    let frame = &batch.frames[packet];
    Traced {
        stamp: frame.stamp,
        core: tracer.core,
        headers,
        wire_len: frame.wire_len,
        steps,
        fate: batch.fates[packet],
        names: Arc::clone(&tracer.names),
    }
}
