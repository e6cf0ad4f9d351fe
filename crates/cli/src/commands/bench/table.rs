//! `paceline bench table`: the flow table alone, at full load, in random order.

use std::hint::black_box;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use clap::Args;
use engine::Registry;
use nf::{FlowKey, SrcAddr, hash_bytes};
use schemars::JsonSchema;
use serde::Serialize;
use table::{FlowTable, Layout, Part, Reach, Slot, Wanted, Watermark, WhenFull};
use wire::Addr;

use crate::args::number;
use crate::explain::Code;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::output::{Reports, count, table};
use crate::progress::{go_on, interruptible};

#[derive(Args)]
pub struct BenchTableArgs {
    /// Sizes of the table, entries
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "131072,1048576,4194304", value_parser = number(1..=1 << 26))]
    pub entries: Vec<usize>,
    /// Rounds of which the median is shown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number(1..=1000))]
    pub rounds: usize,
    /// Write the figures as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What a look-up touches: a cache line of state.
type State = [u64; 8];

/// Keys looked up per measurement, so that each takes a good part of a second.
const LOOKUPS: usize = 8 << 20;

/// Operations, in the order in which each table undergoes them.
const OPERATIONS: [&str; 4] = ["insert", "lookup", "lookup+touch", "remove"];

/// The most keys looked up together.
const BATCH_MAX: usize = 64;

/// A table's figures, as JSON.
#[derive(Serialize, JsonSchema)]
pub struct TableBench {
    /// Version of Paceline.
    paceline: &'static str,
    /// Where it was measured.
    machine: Machine,
    /// Bytes of a key.
    key_bytes: usize,
    /// Bytes of a flow's state.
    state_bytes: usize,
    /// One row per size, operation and batch.
    rows: Vec<Row>,
}

/// One figure.
#[derive(Clone, Serialize, JsonSchema)]
struct Row {
    /// Entries in the table, all that it holds.
    entries: usize,
    /// Keys looked up together.
    batch: usize,
    /// `insert`, `lookup`, `lookup+touch`, `remove`.
    operation: &'static str,
    /// Million operations per second, measured: the median of the rounds.
    mops: f64,
    /// Why that is not to be relied on; absent if it is.
    note: Option<String>,
}

pub fn command(args: &BenchTableArgs, _: &Registry) -> Result<ExitCode, Failure> {
    let reports = Reports::open(&[], None, args.json.as_deref())?;
    let progress = interruptible(None);
    let mut rows = Vec::new();
    for entries in &args.entries {
        rows.extend(measure(*entries, args.rounds, &progress.stop)?);
    }
    let bench = TableBench {
        paceline: env!("CARGO_PKG_VERSION"),
        machine: Machine::here(),
        key_bytes: size_of::<SrcAddr>(),
        state_bytes: size_of::<State>(),
        rows,
    };
    reports.write(&bench, &render(&bench))?;
    Ok(ExitCode::SUCCESS)
}

fn render(bench: &TableBench) -> String {
    let cell = |row: &Row| {
        vec![
            count(row.entries as u64),
            row.batch.to_string(),
            row.operation.to_owned(),
            format!("{:.1}{}", row.mops, if row.note.is_some() { "*" } else { "" }),
        ]
    };
    let note = |row: &Row| {
        let Row { entries, batch, operation, note, .. } = row;
        let note = note.as_ref()?;
        Some(format!(
            "* {operation} of {} by {batch} is not to be relied on: {note}\n",
            count(*entries as u64)
        ))
    };
    let rows: Vec<_> = bench.rows.iter().map(cell).collect();
    let notes: String = bench.rows.iter().filter_map(note).collect();
    format!(
        "flow table, {} byte keys, {} bytes of state, full, random order (measured)\non {}\n\n{}{notes}",
        bench.key_bytes,
        bench.state_bytes,
        bench.machine.describe(),
        table(&["entries", "batch", "operation", "million/s"], &rows, 0)
    )
}

fn key(number: u64) -> SrcAddr {
    let (high, low) = (hash_bytes(&number.to_le_bytes(), 1), hash_bytes(&number.to_le_bytes(), 2));
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&high.to_le_bytes());
    bytes[8..].copy_from_slice(&low.to_le_bytes());
    SrcAddr(Addr(bytes))
}

fn measure(entries: usize, rounds: usize, stop: &AtomicBool) -> Result<Vec<Row>, Failure> {
    // The order in which keys are looked up is that of neither insertion nor memory.
    let keys: Vec<SrcAddr> = (0..entries as u64).map(key).collect();
    let mut shuffled = keys.clone();
    for i in (1..shuffled.len()).rev() {
        let j = hash_bytes(&i.to_le_bytes(), 3) % (i as u64 + 1);
        shuffled.swap(i, j as usize);
    }
    let mut layout = Layout::new();
    let part = layout.add::<State>();
    let table = FlowTable::new(&layout, entries, WhenFull::Reject, 0).map_err(|table| {
        Failure::usage(format!("no memory for a table of {} MiB", table.bytes >> 20)).coded(Code::Memory)
    })?;
    let mut flows = Flows { table, part };
    let mut rows: Vec<Row> = Vec::new();
    for batch in [1, 32, BATCH_MAX] {
        let mut figures: Vec<Vec<f64>> = vec![Vec::new(); OPERATIONS.len()];
        for _ in 0..rounds {
            figures[0].push(timed(keys.len(), || insert(&mut flows, &keys, batch)));
            go_on(stop)?;
            let repeats = (LOOKUPS / entries).max(1);
            figures[1].push(timed(keys.len() * repeats, || {
                (0..repeats).for_each(|_| lookup::<false>(&mut flows, &shuffled, batch));
            }));
            go_on(stop)?;
            figures[2].push(timed(keys.len() * repeats, || {
                (0..repeats).for_each(|_| lookup::<true>(&mut flows, &shuffled, batch));
            }));
            go_on(stop)?;
            figures[3].push(timed(keys.len(), || remove(&mut flows, &shuffled, batch)));
            go_on(stop)?;
        }
        for (operation, mut figures) in OPERATIONS.into_iter().zip(figures) {
            figures.sort_by(f64::total_cmp);
            let note = measure::spread_note("rounds found", &figures, "million operations a second");
            rows.push(Row { entries, batch, operation, mops: figures[figures.len() / 2], note });
        }
    }
    Ok(rows)
}

/// Million operations per second.
fn timed(operations: usize, work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    operations as f64 / begin.elapsed().as_secs_f64() / 1e6
}

/// A table of one function's flows.
struct Flows {
    table: FlowTable<SrcAddr>,
    part: Part<State>,
}

/// A batch on its way to its flows.
struct LookUps {
    wanted: [Wanted; BATCH_MAX],
    slots: [Slot; BATCH_MAX],
}

impl LookUps {
    /// Made once, as filling it would be most of the work for a batch of one.
    fn new() -> LookUps {
        LookUps { wanted: [Wanted::NONE; BATCH_MAX], slots: [Slot::NONE; BATCH_MAX] }
    }

    /// All three passes.
    #[inline(always)]
    fn find(&mut self, table: &FlowTable<SrcAddr>, keys: &[SrcAddr]) -> u64 {
        match Reach::here() {
            Reach::Near => self.find_to::<{ Reach::NEAR }>(table, keys),
            Reach::Far => self.find_to::<{ Reach::FAR }>(table, keys),
            Reach::Off => self.find_to::<{ Reach::OFF }>(table, keys),
        }
    }

    #[inline(always)]
    fn find_to<const REACH: u8>(&mut self, table: &FlowTable<SrcAddr>, keys: &[SrcAddr]) -> u64 {
        for (wanted, key) in self.wanted.iter_mut().zip(keys) {
            let short = key.short();
            *wanted = Wanted::new(short, table.hash(short, || *key));
            table.prefetch_bucket_to::<REACH>(wanted.hash());
        }
        let (all, wanted) = (u64::MAX >> (BATCH_MAX - keys.len()), &self.wanted[..keys.len()]);
        table.candidates(all, wanted, &mut self.slots);
        table.find_all(all, wanted, &mut self.slots, |index| keys[index])
    }
}

fn insert(Flows { table, part }: &mut Flows, keys: &[SrcAddr], size: usize) {
    let mut batch = LookUps::new();
    for keys in keys.chunks(size) {
        let found = batch.find(table, keys);
        for (key, wanted) in keys.iter().zip(&batch.wanted) {
            let slot = table.insert(wanted.hash(), wanted.short(), key);
            assert!(found == 0 && slot.is_some(), "every key is new and fits");
            table.cell_mut(slot, *part).set([0; 8], u64::MAX);
        }
    }
}

fn lookup<const TOUCH: bool>(Flows { table, part }: &mut Flows, keys: &[SrcAddr], size: usize) {
    let mut batch = LookUps::new();
    for keys in keys.chunks(size) {
        let found = batch.find(table, keys);
        if !TOUCH {
            black_box((found, &batch.slots));
            continue;
        }
        let mut cells = table.cells_mut(*part);
        for slot in batch.slots[..keys.len()].iter().filter(|slot| slot.is_some()) {
            let cell = cells.at(*slot);
            if let Some(mut state) = cell.state().copied() {
                state.iter_mut().for_each(|word| *word += 1);
                cell.set(state, u64::MAX);
            }
        }
    }
}

fn remove(Flows { table, part }: &mut Flows, keys: &[SrcAddr], size: usize) {
    let mut batch = LookUps::new();
    for keys in keys.chunks(size) {
        batch.find(table, keys);
        for slot in batch.slots[..keys.len()].iter().copied() {
            if slot.is_some() {
                table.cell_mut(slot, *part).clear();
                table.has_lost_a_state(slot);
            }
            if table.count_steps(1) {
                table.maintain(Watermark::claim(0), |_, _| ());
            }
        }
    }
    table.settle(Watermark::claim(0), |_, _| ());
    assert!(table.is_empty(), "every key was found");
}
