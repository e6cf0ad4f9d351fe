//! Stages of the pipeline that advance together.

use std::ops::Range;

use crate::chip::Chip;
use crate::packets::Handle;
use crate::program::Program;

/// Some stages in a row, each of the same number of cycles: registers through which packets move by one
/// in each cycle in which the segment advances.
///
/// Packets do not move in memory. Row `at` has one cell for each stage, with the packet that has been in it
/// for as many cycles as there are rows: in a tick they move on by a stage within the row.
#[derive(Debug)]
pub struct Segment {
    /// The function whose span this is.
    pub function: Option<usize>,
    first_stage: usize,
    stages: usize,
    rows: usize,
    at: usize,
    cells: Vec<Handle>,
    packets: usize,
}

impl Segment {
    /// Stages `first_stage..first_stage + stages`, empty.
    pub fn new(first_stage: usize, stages: usize, stage_cycles: usize, function: Option<usize>) -> Segment {
        let cells = vec![Handle::NONE; stages * stage_cycles];
        Segment { function, first_stage, stages, rows: stage_cycles, at: 0, cells, packets: 0 }
    }

    /// The packet in the last register.
    #[inline]
    pub fn leaving(&self) -> Handle {
        self.cells[(self.at + 1) * self.stages - 1]
    }

    /// All registers are clocked: the last packet is gone, `entering` is in the first stage.
    #[inline]
    pub fn tick<P: Program>(&mut self, entering: Handle, chip: &mut Chip<P>) {
        if self.packets > 0 || entering.is_some() {
            let row = &mut self.cells[self.at * self.stages..][..self.stages];
            let mut moving = entering;
            for (stage, cell) in row.iter_mut().enumerate() {
                std::mem::swap(cell, &mut moving);
                if cell.is_some() {
                    chip.enter(self.first_stage + stage, *cell);
                }
            }
            self.packets = self.packets + usize::from(entering.is_some()) - usize::from(moving.is_some());
        }
        self.at += 1;
        if self.at == self.rows {
            self.at = 0;
        }
    }

    /// Cycles from the first register to behind the last.
    pub fn cycles(&self) -> usize {
        self.cells.len()
    }

    /// By stage, the packets in it, the one that entered last first; and its number.
    pub fn held(&self) -> impl Iterator<Item = (usize, Vec<Handle>)> + '_ {
        (0..self.stages).map(move |stage| {
            let rows = (1..=self.rows).map(move |age| (self.at + self.rows - age) % self.rows);
            let cells = rows.map(|row| self.cells[row * self.stages + stage]);
            (self.first_stage + stage, cells.collect())
        })
    }
}

/// Cuts the pipeline of these stages into segments: the span of each function is one, and what lies between.
pub fn segments<P: Program>(chip: &Chip<P>, stages: Range<usize>, stage_cycles: usize) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut next = stages.start;
    for (number, function) in chip.functions.iter().enumerate() {
        let spec = &function.spec;
        if !stages.contains(&spec.read_stage) {
            continue;
        }
        if spec.read_stage > next {
            segments.push(Segment::new(next, spec.read_stage - next, stage_cycles, None));
        }
        segments.push(Segment::new(spec.read_stage, spec.span(), stage_cycles, Some(number)));
        next = spec.write_stage + 1;
    }
    if stages.end > next {
        segments.push(Segment::new(next, stages.end - next, stage_cycles, None));
    }
    segments
}
