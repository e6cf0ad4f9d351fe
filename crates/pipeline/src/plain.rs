//! PISA and Banzai: nothing stands between the stages.

use crate::chip::Chip;
use crate::kernel::Scheme;
use crate::packets::Handle;
use crate::program::Program;
use crate::snapshot::Snapshot;

/// No schedulers.
#[derive(Debug)]
pub struct Plain;

impl<P: Program> Scheme<P> for Plain {
    fn places(&self) -> usize {
        0
    }

    fn comb(&mut self, _: &mut Chip<P>) {}

    fn can_take(&self, _: usize, _: Handle, _: &Chip<P>) -> bool {
        true
    }

    fn can_finish(&self, _: usize, _: Handle, _: &Chip<P>) -> bool {
        true
    }

    fn read_gate(&mut self, _: usize, arriving: Handle, _: &mut Chip<P>) -> Handle {
        arriving
    }

    fn write_gate(&mut self, _: usize, leaving: Handle, _: &mut Chip<P>) -> Handle {
        leaving
    }

    fn tick(&mut self) {}

    fn is_idle(&self) -> bool {
        true
    }

    fn occupancy(&self, _: &Chip<P>, _: &mut dyn FnMut(String, u64)) {}

    fn snapshot(&self, _: &Chip<P>, _: &mut Snapshot) {}
}
