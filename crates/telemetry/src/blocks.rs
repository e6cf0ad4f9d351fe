//! Blocks of counters, one for each core, which that core alone writes and other threads read.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::counts::{CORE_CELLS, CoreCounts, FUNCTION_CELLS, FunctionCounts, UNKNOWN};
use crate::layout::{FunctionLayout, Layout};
use crate::snapshot::{
    CoreSnapshot, FunctionSnapshot, InterfaceSnapshot, RuleSnapshot, Snapshot, StrategySnapshot,
};

/// Two cache lines: processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line([AtomicU64; CELLS_PER_LINE]);

const CELLS_PER_LINE: usize = 16;

// What is stored after every batch is in one place.
const _: () = assert!(CORE_CELLS <= CELLS_PER_LINE);

/// What one core publishes: written by it alone.
#[derive(Debug)]
struct Block {
    lines: Box<[Line]>,
}

impl Block {
    fn new(cells: usize) -> Block {
        let lines = (0..cells.div_ceil(CELLS_PER_LINE)).map(|_| Line::default()).collect();
        let block = Block { lines };
        block.store_core(&CoreCounts { queue_depth: UNKNOWN, ..CoreCounts::default() });
        block
    }

    #[inline]
    fn store_core(&self, counts: &CoreCounts) {
        let values: [u64; CORE_CELLS] = zerocopy::transmute!(*counts);
        for (cell, value) in self.lines[0].0.iter().zip(values) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    fn store(&self, first: usize, values: &[u64]) {
        for (cell, value) in (first..).zip(values) {
            self.cell(cell).store(*value, Ordering::Relaxed);
        }
    }

    fn load(&self, cells: Range<usize>) -> Vec<u64> {
        cells.map(|cell| self.cell(cell).load(Ordering::Relaxed)).collect()
    }

    fn load_some<const N: usize>(&self, first: usize) -> [u64; N] {
        std::array::from_fn(|cell| self.cell(first + cell).load(Ordering::Relaxed))
    }

    #[inline]
    fn cell(&self, cell: usize) -> &AtomicU64 {
        &self.lines[cell / CELLS_PER_LINE].0[cell % CELLS_PER_LINE]
    }
}

/// The blocks of a run's cores, for readers.
#[derive(Debug)]
pub struct Telemetry {
    layout: Arc<Layout>,
    /// See [`Layout::function_cells`].
    function_cells: Arc<[usize]>,
    blocks: Vec<(Arc<Block>, AtomicBool)>,
    begin: OnceLock<Instant>,
    interfaces: OnceLock<Teller<Vec<InterfaceSnapshot>>>,
    strategy: OnceLock<Teller<StrategySnapshot>>,
    rules: OnceLock<Teller<Vec<RuleSnapshot>>>,
}

/// Who says what is published elsewhere: what interfaces count, or what the strategy decides.
struct Teller<T>(Box<dyn Fn() -> T + Send + Sync>);

impl<T> fmt::Debug for Teller<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Teller")
    }
}

impl Telemetry {
    /// Blocks for `cores` cores, with all counters at 0. All memory is taken here.
    pub fn new(layout: Layout, cores: usize) -> Telemetry {
        let function_cells: Arc<[usize]> = layout.function_cells().into();
        let cells = function_cells[function_cells.len() - 1];
        let block = |_| (Arc::new(Block::new(cells)), AtomicBool::new(false));
        Telemetry {
            layout: Arc::new(layout),
            function_cells,
            blocks: (0..cores).map(block).collect(),
            begin: OnceLock::new(),
            interfaces: OnceLock::new(),
            strategy: OnceLock::new(),
            rules: OnceLock::new(),
        }
    }

    /// The end of a core's block that the core writes to. There is one: `None` for a second call, and
    /// where there is no such core.
    pub fn writer(&self, core: usize) -> Option<CoreWriter> {
        let (block, is_taken) = self.blocks.get(core)?;
        let writer = || CoreWriter {
            block: Arc::clone(block),
            layout: Arc::clone(&self.layout),
            function_cells: Arc::clone(&self.function_cells),
        };
        (!is_taken.swap(true, Ordering::Relaxed)).then(writer)
    }

    /// The run begins: its clock starts, if it has not.
    pub fn begin(&self) {
        self.begin.get_or_init(Instant::now);
    }

    /// Since the run began; 0 before that.
    pub fn elapsed(&self) -> Duration {
        self.begin.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// From now on snapshots have what this says of interfaces. The first one that is given counts.
    pub fn tell_interfaces(&self, interfaces: impl Fn() -> Vec<InterfaceSnapshot> + Send + Sync + 'static) {
        self.interfaces.get_or_init(|| Teller(Box::new(interfaces)));
    }

    /// From now on snapshots have what this says of the strategy. The first one that is given counts.
    pub fn tell_strategy(&self, strategy: impl Fn() -> StrategySnapshot + Send + Sync + 'static) {
        self.strategy.get_or_init(|| Teller(Box::new(strategy)));
    }

    /// From now on [`Telemetry::whole_snapshot`] has what this says of rules. The first one that is given counts.
    pub fn tell_rules(&self, rules: impl Fn() -> Vec<RuleSnapshot> + Send + Sync + 'static) {
        self.rules.get_or_init(|| Teller(Box::new(rules)));
    }

    /// A snapshot with what rules have decided, for which cores are asked: not for a core to call, since it waits for their answers.
    pub fn whole_snapshot(&self) -> Snapshot {
        Snapshot { rules: self.rules(), ..self.snapshot() }
    }

    /// What rules have decided, for which cores are asked: it waits for their answers. Nothing where no function has rules.
    pub fn rules(&self) -> Vec<RuleSnapshot> {
        self.rules.get().map_or_else(Vec::new, |rules| (rules.0)())
    }

    /// What has been published by now. Takes memory and time in proportion to the number of counters.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            layout: Arc::clone(&self.layout),
            elapsed: self.elapsed(),
            cores: self.blocks.iter().map(|(block, _)| self.core(block)).collect(),
            interfaces: self.interfaces.get().map_or_else(Vec::new, |interfaces| (interfaces.0)()),
            strategy: self.strategy.get().map_or_else(StrategySnapshot::default, |strategy| (strategy.0)()),
            rules: Vec::new(),
        }
    }

    fn core(&self, block: &Block) -> CoreSnapshot {
        let function = |(layout, first): (&FunctionLayout, &usize)| {
            let drops = first + FUNCTION_CELLS;
            let events = drops + layout.drop_reasons.len();
            let counts: FunctionCounts = zerocopy::transmute!(block.load_some::<FUNCTION_CELLS>(*first));
            FunctionSnapshot {
                counts,
                drops: block.load(drops..events),
                events: block.load(events..events + layout.events.len()),
            }
        };
        CoreSnapshot {
            counts: zerocopy::transmute!(block.load_some::<CORE_CELLS>(0)),
            malformed: block.load(self.layout.malformed_cells()),
            strategy_events: block.load(self.layout.strategy_cells()),
            functions: self.layout.functions.iter().zip(&*self.function_cells).map(function).collect(),
        }
    }
}

/// The end of a core's block that the core writes to. Writing allocates nothing and never waits.
#[derive(Debug)]
pub struct CoreWriter {
    block: Arc<Block>,
    layout: Arc<Layout>,
    function_cells: Arc<[usize]>,
}

impl CoreWriter {
    /// Publishes what the core counts: one store for each field.
    #[inline]
    pub fn core(&mut self, counts: &CoreCounts) {
        self.block.store_core(counts);
    }

    /// Publishes malformed packets by reason, in the order of [`Layout::malformed`].
    ///
    /// # Panics
    /// If there are not as many as reasons.
    pub fn malformed(&mut self, counts: &[u64]) {
        assert_eq!(counts.len(), self.layout.malformed.len(), "a count for each reason");
        self.block.store(CORE_CELLS, counts);
    }

    /// Publishes what the strategy counts of its own; `of` gives the count by name, one of [`Layout::strategy_events`].
    pub fn strategy(&mut self, of: impl Fn(&str) -> u64) {
        for (cell, name) in self.layout.strategy_cells().zip(&self.layout.strategy_events) {
            self.block.cell(cell).store(of(name), Ordering::Relaxed);
        }
    }

    /// Publishes what function number `index` counts; its drops and events in the order of its
    /// [`FunctionLayout`].
    ///
    /// # Panics
    /// If there is no such function, or not as many drops and events as names.
    pub fn function(&mut self, index: usize, counts: &FunctionCounts, drops: &[u64], events: &[u64]) {
        let layout = &self.layout.functions[index];
        assert_eq!(drops.len(), layout.drop_reasons.len(), "a count for each drop reason");
        assert_eq!(events.len(), layout.events.len(), "a count for each event");
        let first = self.function_cells[index];
        let values: [u64; FUNCTION_CELLS] = zerocopy::transmute!(*counts);
        self.block.store(first, &values);
        self.block.store(first + FUNCTION_CELLS, drops);
        self.block.store(first + FUNCTION_CELLS + drops.len(), events);
    }
}

#[cfg(test)]
mod tests;
