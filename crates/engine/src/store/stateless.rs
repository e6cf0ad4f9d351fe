//! A group of one function that keeps no state.

use std::any::Any;

use io::Port;
use nf::NetworkFunction;
use table::Watermark;
use wire::{Headers, Stamp};

use crate::path::batch::Batch;
use crate::path::counters::{FlowCounters, StageCounters};
use crate::path::group::Group;
use crate::path::items::Items;
use crate::path::laps::{Lap, Laps};
use crate::path::look::Look;
use crate::path::packets::bits;
use crate::path::step::Stepper;

/// A function that keeps no state: it has no table.
pub(crate) struct StatelessGroup<F: NetworkFunction>(pub(crate) Stepper<F>);

impl<F: NetworkFunction> Group for StatelessGroup<F> {
    fn process(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        for packet in bits(batch.live) {
            let Some(meta) = F::project(&batch.headers[packet]) else { continue };
            let verdict = self.0.step(&mut None, &meta, packet, batch);
            self.0.conclude(packet, verdict, &meta, batch, port);
        }
        laps.lap(Lap::Function(self.0.index()), batch);
    }

    fn replay(&mut self, items: &mut Items<'_>, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        let metas = items.metas::<F::Meta>(self.0.index());
        for item in bits(items.live) {
            let Some(meta) = &metas[item] else { continue };
            if items.is_own(item) {
                let packet = items.packet(item);
                let verdict = self.0.step(&mut None, meta, packet, batch);
                self.0.conclude(packet, verdict, meta, batch, port);
                items.sync(item, batch);
            } else {
                let verdict = self.0.step_item(&mut None, meta, items.stamp(item), None);
                items.conclude(item, verdict);
            }
        }
        laps.lap(Lap::Function(self.0.index()), batch);
    }

    fn settle(&mut self, _: Watermark) {}

    fn digest(&self, _: usize, _: Stamp) -> u64 {
        0
    }

    fn audit(&self, _: usize, _: Stamp) -> u64 {
        0
    }

    fn look(&self, member: usize, headers: &Headers, now_ns: u64) -> Look {
        Look::of(&*self.0.function, headers, now_ns, &self.counters(member), |_| None)
    }

    fn counters(&self, _: usize) -> StageCounters<'_> {
        self.0.counters(FlowCounters::default())
    }

    fn copy_from(&mut self, other: &dyn Group) {
        let StatelessGroup(other) = (other as &dyn Any).downcast_ref::<Self>().expect("the same group");
        self.0.copy_from(other);
    }

    fn take_over(&mut self, other: &mut dyn Group) {
        let StatelessGroup(other) =
            (other as &mut dyn Any).downcast_mut::<Self>().expect("the same function");
        self.0.take_over(other);
    }
}
