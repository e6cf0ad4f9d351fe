//! How a program in the kernel goes on: what a run of a chain does not have.

use serde::{Deserialize, Serialize};

use xdp::tables::Listing;

use crate::output::{count, plural_of};

/// What a run with `--backend xdp` says of itself beside what all runs do.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct KernelStatus {
    /// Each CPU, in the order of `cores`.
    pub cpus: Vec<CpuStatus>,
    /// Each muTable of the program.
    pub tables: Vec<TableStatus>,
}

/// What happened on the way to a CPU, and to its state.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CpuStatus {
    /// The CPU's number.
    pub cpu: u32,
    /// Packets that its full queue lost, as far as packets behind them have come.
    pub lost: u64,
    /// Dropped, because no interface is at the port to which the program sent them.
    pub no_port: u64,
    /// Dropped, because one before them was not settled yet; their items are stepped later.
    pub waited: u64,
    /// Items of lost packets that were taken from the logs of others.
    pub recovered: u64,
    /// Lost packets that no replica knew.
    pub unknown: u64,
    /// Packets that it stepped on without: its state may differ from that of others.
    pub missed: u64,
    /// Packets that left behind one that came after them.
    pub inversions: u64,
}

/// How full a muTable is.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TableStatus {
    /// Its name in the program.
    pub name: String,
    /// The entries that it takes.
    pub size: u64,
    /// That of each CPU; one for all under `shared`.
    pub each: Vec<FillStatus>,
}

/// What is in one of them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FillStatus {
    /// Entries.
    pub entries: u64,
    /// Writes that found no room.
    pub refused: u64,
    /// Refused writes for which there was room, but not where their keys may be.
    pub crowded: u64,
}

/// What is in a table whose entries come from outside.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TableListing {
    /// Its name in the program.
    pub name: String,
    /// The entries that it takes.
    pub size: u32,
    /// How many it has.
    pub entries: usize,
    /// The first of them, in the order in which they match, as `add` takes them.
    pub first: Vec<String>,
    /// What is done where nothing matches.
    pub default: String,
    /// Why it stays as it is while packets come, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<String>,
}

impl From<Listing> for TableListing {
    fn from(Listing { name, size, entries, first, default, fixed }: Listing) -> TableListing {
        TableListing { name, size, entries, first, default, fixed }
    }
}

impl TableListing {
    /// For people.
    pub fn text(&self) -> String {
        let TableListing { name, size, entries, first, default, fixed } = self;
        let stays = if fixed.is_some() { ", stays while packets come" } else { "" };
        let mut text = format!(
            "{name}: {} of {}, else {default}{stays}\n",
            count(*entries as u64),
            plural_of((*size).into(), "entry", "entries")
        );
        first.iter().for_each(|entry| text += &format!("  {entry}\n"));
        match entries - first.len() {
            0 => text,
            more => format!("{text}  and {} more\n", count(more as u64)),
        }
    }
}

impl CpuStatus {
    /// What is not 0, for people: behind the line of its core.
    fn text(&self) -> String {
        let counts = [
            (self.lost, "lost before it"),
            (self.no_port, "for a port without interface"),
            (self.waited, "not settled in time"),
            (self.recovered, "recovered"),
            (self.unknown, "known to none"),
            (self.missed, "missed"),
            (self.inversions, "sent behind a later one"),
        ];
        let some = counts.into_iter().filter(|(number, _)| *number > 0);
        let some: Vec<String> = some.map(|(number, what)| format!(", {} {what}", count(number))).collect();
        if some.is_empty() { String::new() } else { format!("CPU {}{}\n", self.cpu, some.concat()) }
    }
}

impl KernelStatus {
    /// For people.
    pub fn text(&self) -> String {
        let table = |TableStatus { name, size, each }: &TableStatus| {
            let entries: Vec<String> = each.iter().map(|fill| count(fill.entries)).collect();
            let refused: u64 = each.iter().map(|fill| fill.refused).sum();
            let refused =
                if refused > 0 { format!(", {} writes refused", count(refused)) } else { String::new() };
            let place = if each.len() > 1 { " (by CPU)" } else { "" };
            format!("table {name}: {} of {} entries{place}{refused}\n", entries.join(", "), count(*size))
        };
        self.cpus.iter().map(CpuStatus::text).chain(self.tables.iter().map(table)).collect()
    }
}
