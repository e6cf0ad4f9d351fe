//! Buffers and consistency of pipelines.

use std::fmt;
use std::str::FromStr;

use clap::Args;
use pipeline::{Consistency, RapidOptions};
use serde::Serialize;

use super::number;

const BUFFERS: &str = "Buffers of the models";

/// Buffers of RAPID, where all queues of flows are as long as dTable.
#[derive(Args)]
pub struct RapidArgs {
    /// rapid: packets in the buffer for those sent back [default: 16]
    #[arg(help_heading = BUFFERS, long, value_name = "N", value_parser = size)]
    pub rb: Option<usize>,
    /// rapid: packets in the PHV buffer [default: 32]
    #[arg(help_heading = BUFFERS, long, value_name = "N", value_parser = size)]
    pub pb: Option<usize>,
    /// rapid: flows in dTable [default: 64]
    #[arg(help_heading = BUFFERS, long, value_name = "N", value_parser = number(1..=8_192))]
    pub dtable: Option<usize>,
    /// rapid: packets in each of the two buffers of a ring node [default: 8]
    #[arg(help_heading = BUFFERS, long, value_name = "N", value_parser = size)]
    pub ring_buffer: Option<usize>,
    /// rapid: updates after which a flow is blocked, or never [default: 4]
    #[arg(help_heading = BUFFERS, long, value_name = "N|never", value_parser = threshold)]
    pub blocking_threshold: Option<Threshold>,
}

impl RapidArgs {
    /// These options; what is not given is `own`.
    pub fn options(&self, own: RapidOptions) -> RapidOptions {
        let flows = self.dtable.unwrap_or(own.dirty_table);
        let ring = self.ring_buffer.unwrap_or(own.ring_from_ring);
        RapidOptions {
            resubmitted_buffer: self.rb.unwrap_or(own.resubmitted_buffer),
            phv_buffer: self.pb.unwrap_or(own.phv_buffer),
            dirty_table: flows,
            block_queue: flows,
            suspend_queue: flows,
            schedule_queue: flows,
            ring_from_pipeline: ring,
            ring_from_ring: ring,
            blocking_threshold: match &self.blocking_threshold {
                Some(threshold) => threshold.0,
                None => own.blocking_threshold,
            },
            consistency: own.consistency,
            pipelines: own.pipelines,
        }
    }
}

/// [`Consistency`] as options have it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(into = "String")]
pub struct Level(pub Consistency);

/// Updates after which a flow is blocked, or never.
#[derive(Clone, Debug)]
pub struct Threshold(pub Option<u32>);

/// Packets or flows of a buffer.
pub fn size(text: &str) -> Result<usize, String> {
    number(1..=1 << 20)(text)
}

pub fn threshold(text: &str) -> Result<Threshold, String> {
    match text.parse() {
        Ok(updates) => Ok(Threshold(Some(updates))),
        _ if text == "never" => Ok(Threshold(None)),
        _ => Err("a number of updates, or never".to_owned()),
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Consistency::Strict => f.write_str("strict"),
            Consistency::BoundedStaleness(packets) => write!(f, "bs{packets}"),
            Consistency::Weak => f.write_str("weak"),
        }
    }
}

impl From<Level> for String {
    fn from(level: Level) -> String {
        level.to_string()
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Level, String> {
        let level = match text.to_ascii_lowercase().as_str() {
            "strict" => Some(Consistency::Strict),
            "weak" => Some(Consistency::Weak),
            other => other.strip_prefix("bs").and_then(|k| k.parse().ok()).map(Consistency::BoundedStaleness),
        };
        level
            .map(Level)
            .ok_or_else(|| "strict, weak, or bs and how many stale packets may pass, such as bs2".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_they_are_written() {
        for text in ["strict", "bs1", "bs12", "weak"] {
            assert_eq!(text.parse::<Level>().map(|level| level.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "bs", "bs-1", "eventual"] {
            assert!(text.parse::<Level>().is_err(), "{text}");
        }
    }
}
