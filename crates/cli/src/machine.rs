//! What a figure was measured on, and by which command.

use std::fs;

use measure::Labels;
use schemars::JsonSchema;
use serde::Serialize;
use table::Reach;

use crate::failure::Failure;

/// The environment variable that says how tables ask for cache lines, on a machine that was not measured yet.
const PREFETCH: &str = "PACELINE_PREFETCH";

/// What a figure was measured on.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Machine {
    /// Processor model, as the kernel names it.
    pub processor: String,
    /// Logical processors.
    pub processors: usize,
    /// Kernel release.
    pub kernel: String,
    /// How memory is backed: the mode of transparent huge pages.
    pub huge_pages: String,
    /// How near to the core tables have cache lines brought: `near`, `far` or `off`.
    pub prefetches: &'static str,
}

impl Machine {
    pub fn here() -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned());
        let modes = read("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        let mode = modes.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        Machine {
            processor: model.map_or("unknown", |(_, name)| name).to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_else(|_| "unknown".to_owned()),
            huge_pages: mode.map_or("unknown", |(mode, _)| mode).to_owned(),
            prefetches: match Reach::here() {
                Reach::Near => "near",
                Reach::Far => "far",
                Reach::Off => "off",
            },
        }
    }

    pub fn describe(&self) -> String {
        format!(
            "{}, {} logical processors, Linux {}, transparent huge pages: {}, prefetches: {}",
            self.processor, self.processors, self.kernel, self.huge_pages, self.prefetches
        )
    }
}

/// Has tables ask for cache lines as the environment says, if it does.
pub fn prefer_prefetches() -> Result<(), Failure> {
    let Some(value) = std::env::var_os(PREFETCH) else { return Ok(()) };
    let reach = match value.to_str() {
        Some("near") => Reach::Near,
        Some("far") => Reach::Far,
        Some("off") => Reach::Off,
        _ => {
            return Err(Failure::usage(format!(
                "the environment variable {PREFETCH} is {value:?}; write near, far or off, or leave it out"
            )));
        }
    };
    // A program that runs several commands has decided with the first.
    let _ = reach.prefer();
    Ok(())
}

/// What a measurement of `source` here is labelled with.
pub fn labels(source: String) -> Labels {
    Labels {
        paceline: env!("CARGO_PKG_VERSION").to_owned(),
        command: command_line(),
        machine: Machine::here().describe(),
        source,
    }
}

/// Bytes of the last-level cache that the first processor has; `None` where the system does not say.
pub fn last_level_cache_bytes() -> Option<u64> {
    let caches = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let of = |cache: fs::DirEntry| {
        let read = |name: &str| fs::read_to_string(cache.path().join(name)).ok();
        let level: u32 = read("level")?.trim().parse().ok()?;
        Some((level, cache_bytes(&read("size")?)?))
    };
    caches.flatten().filter_map(of).max().map(|(_, bytes)| bytes)
}

/// `48K`, `32M` or a number of bytes, as the kernel writes them.
fn cache_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, shift) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(number) if text.ends_with('K') => (number, 10),
        Some(number) if text.ends_with('M') => (number, 20),
        Some(number) => (number, 30),
        None => (text, 0),
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The command line, as it would be typed again.
pub fn command_line() -> String {
    let quote = |word: String| match word.contains(|c: char| c.is_whitespace() || "'\"$&|;()".contains(c)) {
        true => format!("'{}'", word.replace('\'', r"'\''")),
        false => word,
    };
    let words = std::env::args().skip(1).map(quote);
    ["paceline".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_caches() {
        let sizes = ["48K\n", "32M", "1G", "512", "", "K", "12X"].map(cache_bytes);
        assert_eq!(sizes, [Some(48 << 10), Some(32 << 20), Some(1 << 30), Some(512), None, None, None]);
    }
}
