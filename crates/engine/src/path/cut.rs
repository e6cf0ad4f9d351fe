//! A batch on a core that traces: cut around the packets that are to be told of. See [`tracing`](super::tracing).

use std::sync::Arc;

use io::Port;
use wire::Headers;

use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::laps::Laps;
use crate::path::look::Look;
use crate::path::packets::{all_bits, bits};
use crate::path::traced::{Traced, TracedNames, TracedStep, edits_between, steps_of};
use crate::path::tracing::{Tracer, Tracing};

impl ChainCore {
    /// Has this core, with this number, trace what is asked for.
    pub(crate) fn trace(&mut self, tracing: &Arc<Tracing>, core: usize, names: &Arc<TracedNames>) {
        self.tracer = Some(Box::new(Tracer::new(tracing, core, names)));
    }

    /// The same as [`ChainCore::process`] where packets may have to be traced.
    #[cold]
    pub(crate) fn process_traced(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        let Some(mut tracer) = self.tracer.take() else { return };
        let mut rest = all_bits(batch.len());
        for packet in bits(tracer.choose(batch, port)) {
            self.pass_some(rest & all_bits(packet), batch, port, laps);
            rest &= !all_bits(packet + 1);
            let steps = self.trace_one(packet, &tracer.names, batch, port, laps);
            let (frame, headers) = (&batch.frames[packet], steps.1);
            let traced = Traced {
                stamp: frame.stamp,
                core: tracer.core,
                headers,
                wire_len: frame.wire_len,
                steps: steps.0,
                fate: batch.fates[packet],
                names: Arc::clone(&tracer.names),
            };
            tracer.pending.push((packet, traced));
        }
        self.pass_some(rest, batch, port, laps);
        self.tracer = Some(tracer);
    }

    /// Tells of the packets of the batch that were traced, once their fate is known.
    #[inline]
    pub(crate) fn tell_traced(&mut self, batch: &Batch) {
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

    /// Takes one packet through the chain, group by group. Also says what its headers were.
    fn trace_one(
        &mut self,
        packet: usize,
        names: &TracedNames,
        batch: &mut Batch,
        port: &dyn Port,
        laps: &mut dyn Laps,
    ) -> (Vec<TracedStep>, Headers) {
        let received = batch.headers[packet];
        let mut steps = Vec::new();
        let aside = batch.live & !(1 << packet);
        batch.live &= 1 << packet;
        let is_met = batch.live != 0;
        let (outside, crossing) = match &self.checks.sides {
            Some(sides) if !self.between.is_empty() => sides.of(batch),
            _ => (0, u64::MAX),
        };
        let followers = batch.runs.put_aside(packet);
        batch.is_reversed = outside != 0;
        for index in 0..self.groups.len() {
            let index = if batch.is_reversed { self.groups.len() - 1 - index } else { index };
            let is_past = self.between.get(index).is_some_and(|is_between| *is_between) && crossing == 0;
            if batch.live == 0 || is_past {
                continue;
            }
            let now_ns = batch.frames[packet].stamp.time_ns;
            let (headers, edits) = (batch.headers[packet], batch.edits[packet]);
            let members = self.places.iter().enumerate().filter(|(_, place)| place.group == index);
            let mut members: Vec<(usize, usize)> =
                members.map(|(function, place)| (function, place.member)).collect();
            if batch.is_reversed {
                members.reverse();
            }
            let group = &mut self.groups[index];
            let before: Vec<Look> =
                members.iter().map(|(_, member)| group.look(*member, &headers, now_ns)).collect();
            group.process(batch, port, laps);
            let after = members.iter().map(|(_, member)| group.look(*member, &headers, now_ns));
            let edited = edits_between(&received, &edits, &batch.edits[packet]);
            let functions = members.iter().map(|(function, _)| *function);
            steps_of(functions.zip(before.into_iter().zip(after)), edited, names, &mut steps);
        }
        batch.is_reversed = false;
        if followers > 0 && is_met {
            // History behind it that shares its entry; the packet's own fate is decided.
            let live = batch.live;
            batch.runs.put_back(packet, followers);
            batch.live = 1 << packet;
            self.pass(batch, port, laps);
            batch.live = live;
        }
        batch.live |= aside;
        (steps, received)
    }
}
