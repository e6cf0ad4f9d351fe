//! What the registers of a pipeline hold in one cycle.

use std::fmt;

/// What stages, buffers and ring nodes hold at the beginning of a cycle. Packets go by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The cycle.
    pub cycle: u64,
    /// By stage, its registers from entry to exit.
    pub stages: Vec<(usize, Vec<Option<u64>>)>,
    /// Buffers and ring nodes that hold anything, in words.
    pub others: Vec<(String, String)>,
}

impl Snapshot {
    pub(crate) fn new(cycle: u64) -> Snapshot {
        Snapshot { cycle, stages: Vec::new(), others: Vec::new() }
    }

    pub(crate) fn stage(&mut self, stage: usize, packets: Vec<Option<u64>>) {
        self.stages.push((stage, packets));
    }

    /// Says what a buffer holds, if anything.
    pub(crate) fn buffer(
        &mut self,
        name: impl Into<String>,
        held: impl IntoIterator<Item = impl fmt::Display>,
    ) {
        let held: Vec<String> = held.into_iter().map(|item| item.to_string()).collect();
        if !held.is_empty() {
            self.others.push((name.into(), held.join(" ")));
        }
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "cycle {}", self.cycle)?;
        for (stage, packets) in &self.stages {
            write!(f, "  stage {stage}:")?;
            for packet in packets {
                match packet {
                    Some(number) => write!(f, " {number}")?,
                    None => f.write_str(" .")?,
                }
            }
            writeln!(f)?;
        }
        for (name, held) in &self.others {
            writeln!(f, "  {name}: {held}")?;
        }
        Ok(())
    }
}
