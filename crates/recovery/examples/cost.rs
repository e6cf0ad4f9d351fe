//! What recovery adds to the work of a core that replays history, for each packet it receives. usage:
//! `cargo run --release -p paceline-recovery --example cost [ROUNDS]`
//!
//! The cores take turns on one thread, so lines that go from core to core are not in the figures; a step adds the
//! item's words up, which is next to nothing. The median of the rounds is printed, with the least and the most.

use std::hint::black_box;
use std::time::Instant;

use paceline_recovery::{Arrival, Gaps, replicas};

/// Packets, of all cores, in a round.
const PACKETS: u64 = 2_000_000;

/// As many as in the paper.
const RECORDS: usize = 1024;

/// Items in memory, which are used over and over: a power of two.
const ITEMS: u64 = 4096;

const LINE_BYTES: usize = 64;

fn main() {
    let rounds = std::env::args().nth(1).map_or(5, |rounds| rounds.parse().expect("a number of rounds"));
    println!("{}", machine());
    println!("{PACKETS} packets a round, {rounds} rounds, logs of {RECORDS} records");
    println!(
        "{:>5} {:>10} {:>7} {:>23} {:>23} {:>11} {:>12} {:>14}",
        "cores",
        "item bytes",
        "loss",
        "off, ns/packet",
        "on, ns/packet",
        "more, ns",
        "per item, ns",
        "lines written"
    );
    for item_bytes in [16, 24, 32] {
        for cores in [1, 2, 4, 7, 14] {
            report(Case { cores, item_bytes, loss_ppm: 0 }, rounds);
        }
    }
    for loss_ppm in [100, 1_000, 10_000] {
        report(Case { cores: 7, item_bytes: 24, loss_ppm }, rounds);
    }
}

#[derive(Clone, Copy)]
struct Case {
    cores: usize,
    item_bytes: usize,
    loss_ppm: u64,
}

fn report(case: Case, rounds: usize) {
    let Case { cores, item_bytes, loss_ppm } = case;
    let items: Vec<u8> = (0..ITEMS as usize * item_bytes).map(|at| at as u8).collect();
    let (mut off, mut on) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        off.push(case.without(&items));
        on.push(case.with(&items));
    }
    let (off, on) = (Spread::of(off), Spread::of(on));
    let more = on.median - off.median;
    let lines = (cores * (8 + item_bytes.next_multiple_of(8))) as f64 / LINE_BYTES as f64;
    println!(
        "{cores:>5} {item_bytes:>10} {:>6}% {off:>23} {on:>23} {more:>11.1} {:>12.2} {lines:>14.2}",
        loss_ppm as f64 / 1e4,
        more / cores as f64
    );
}

impl Case {
    /// ns per packet received, with gaps counted.
    fn without(self, items: &[u8]) -> f64 {
        let mut cores = vec![Gaps::default(); self.cores];
        self.time(|core, first, end| {
            for seq in cores[core].arrive(first..end) {
                step(item(items, seq, self.item_bytes));
            }
        })
    }

    /// ns per packet received, with losses recovered.
    fn with(self, items: &[u8]) -> f64 {
        let mut cores = replicas(self.cores, RECORDS, self.item_bytes);
        self.time(|core, first, end| {
            let brought = (first as usize..end as usize).map(|seq| item(items, seq as u64, self.item_bytes));
            let (arrival, _) = cores[core].receive(first, brought, usize::MAX, |_, item| step(item));
            assert_ne!(arrival, Arrival::Full, "a log too short");
        })
    }

    fn time(self, mut packet: impl FnMut(usize, u64, u64)) -> f64 {
        let history = self.cores as u64 - 1;
        let (mut core, mut received) = (0, 0u64);
        let start = Instant::now();
        for seq in 0..PACKETS {
            // Which packets are lost is a hash of their numbers.
            if seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44 >= (self.loss_ppm << 20) / 1_000_000 {
                packet(core, seq.saturating_sub(history), seq + 1);
                received += 1;
            }
            core = if core + 1 == self.cores { 0 } else { core + 1 };
        }
        start.elapsed().as_nanos() as f64 / received as f64
    }
}

#[inline(always)]
fn item(items: &[u8], seq: u64, item_bytes: usize) -> &[u8] {
    let at = (seq & (ITEMS - 1)) as usize * item_bytes;
    &items[at..at + item_bytes]
}

#[inline(always)]
fn step(item: &[u8]) {
    let words = item.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
    black_box(words.fold(0, u64::wrapping_add));
}

struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        Spread { median: values[values.len() / 2], least: values[0], most: values[values.len() - 1] }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{:.1} ({:.1} to {:.1})", self.median, self.least, self.most))
    }
}

fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cores} cores", model.map_or("unknown processor", |(_, model)| model))
}
