use std::fs;

use schemars::JsonSchema;
use serde::Serialize;

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
        }
    }

    pub fn describe(&self) -> String {
        format!(
            "{}, {} logical processors, Linux {}, transparent huge pages: {}",
            self.processor, self.processors, self.kernel, self.huge_pages
        )
    }
}
