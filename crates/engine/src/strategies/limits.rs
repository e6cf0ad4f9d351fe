//! What a run can have: cores, and memory.

use std::fs;

use strategy::INDIRECTION_ENTRIES;

/// The most cores that a chain can be spread over: one entry of the smallest indirection table each.
pub const MAX_CORES: usize = INDIRECTION_ENTRIES;

/// Flows that a card looks up where nobody says how many: as many as the paper's (Dyssect §IV-C).
pub(crate) const CARD_FLOWS: usize = 10_000;

/// Memory that is free without swapping; `None` where the system does not say. Asked beforehand,
/// because a system that overcommits grants what it does not have and ends the program later.
pub fn free_bytes() -> Option<u64> {
    Some(kib(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")? << 10)
}

/// The number of a line such as `MemAvailable:   12345 kB`.
pub(crate) fn kib(lines: &str, name: &str) -> Option<u64> {
    let line = lines.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
