//! The journal of a sweep: comparisons that are done, a line of JSON each.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::question::At;
use crate::{Outcome, Question, Setting, Tables, Trial};

/// One comparison that is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Everything that decides it, as one number: capture, mutation, chain, setting, seed and version.
    pub key: String,
    /// The capture.
    pub capture: String,
    /// The mutation of it; 0 is the capture itself.
    pub mutation: u32,
    /// The chain.
    pub chain: String,
    /// Under what it ran.
    #[serde(flatten)]
    pub setting: SettingRow,
    /// The seed of the tables' hashes and of losses.
    pub seed: u64,
    /// Packets compared.
    pub packets: u64,
    /// Why the capture could not be read to its end; the packets before were compared.
    pub cut_short: Option<String>,
    /// Comparisons that it stands for: several where a capture cannot be read.
    pub runs: u64,
    /// Whether every answer, byte and state was compared, and all had to be the same: with the flows that full tables, and the
    /// packets that empty pools, turned away where the strategy ran.
    #[serde(default)]
    pub exact: bool,
    /// What it says.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// A [`Setting`] as people read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingRow {
    /// The strategy.
    pub strategy: String,
    /// Its cores.
    pub cores: usize,
    /// Flows that each core's table holds; null: as the chain says.
    pub flows: Option<usize>,
    /// What a full table does; null: as the chain says.
    pub table_full: Option<String>,
    /// Packets from one forced move to the next; null: moves as the loads ask for, or none.
    pub move_every: Option<u64>,
    /// Share of the packets that are lost behind a sequencer outside; null: there is none.
    pub loss: Option<String>,
    /// Whether the cores took turns on one thread, in an order that the comparison's seed drew.
    #[serde(default)]
    pub simulated: bool,
}

impl From<&Setting> for SettingRow {
    fn from(Setting { tables, way, cores, .. }: &Setting) -> SettingRow {
        let (flows, table_full) = match tables {
            Tables::AsWritten => (None, None),
            Tables::Of { flows, when_full } => (Some(*flows), Some(when_full.name().to_owned())),
        };
        SettingRow {
            strategy: way.strategy.name().to_owned(),
            cores: *cores,
            flows,
            table_full,
            move_every: way.move_every,
            loss: way.loss.map(|share| share.to_string()),
            simulated: way.is_simulated,
        }
    }
}

impl Row {
    pub(crate) fn new(question: &Question, at: At, trial: Trial, cut_short: Option<String>) -> Row {
        let setting = question.setting(at);
        Row {
            key: format!("{:016x}", question.key(at)),
            capture: question.sources[at.source].name(),
            mutation: at.mutation,
            chain: question.chains[at.chain].name.clone(),
            setting: SettingRow::from(&setting),
            seed: setting.seed,
            packets: trial.packets,
            cut_short,
            runs: 1,
            exact: trial.exact,
            outcome: trial.outcome,
        }
    }
}

impl Question {
    /// Whether this question asks for a comparison.
    pub fn asks_for(&self, row: &Row) -> bool {
        self.find(row).is_some()
    }

    /// Where a comparison is in this question, if it is.
    pub(crate) fn find(&self, row: &Row) -> Option<At> {
        let source = self.sources.iter().position(|source| source.name() == row.capture)?;
        let chain = self.chains.iter().position(|chain| chain.name == row.chain)?;
        let setting = self.settings.iter().position(|setting| SettingRow::from(setting) == row.setting)?;
        let at = At { source, mutation: row.mutation, chain, setting };
        (row.mutation <= self.mutations && format!("{:016x}", self.key(at)) == row.key).then_some(at)
    }
}

/// The file of comparisons that are done: a line of JSON for each.
pub struct Journal {
    path: PathBuf,
    file: File,
    done: HashSet<u64>,
}

/// Why a journal cannot be kept.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The file is there already, and nobody said to go on with it.
    #[error(
        "{} is there already\nAdd --resume to go on with that sweep, or name another folder with --out.",
        path.display()
    )]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read or written.
    #[error("cannot keep {}: {source}\nName a folder that can be written with --out.", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not one of ours.
    #[error("{}, line {line}: {source}\nIt was not written by this version; name another folder with --out.", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl Journal {
    /// Begins a journal at `path`, or goes on with it and shows what is done to `each`. A last line that was cut off
    /// is left out and overwritten.
    ///
    /// # Errors
    /// [`JournalError`]
    pub fn open(path: &Path, resume: bool, each: &mut dyn FnMut(Row)) -> Result<Journal, JournalError> {
        let failed = |source| JournalError::File { path: path.to_owned(), source };
        if !resume && path.exists() {
            return Err(JournalError::Exists { path: path.to_owned() });
        }
        let file = OpenOptions::new().create(true).truncate(false).read(true).append(true).open(path);
        let mut journal =
            Journal { path: path.to_owned(), file: file.map_err(failed)?, done: HashSet::new() };
        let mut reader = BufReader::new(journal.file.try_clone().map_err(failed)?);
        let (mut text, mut whole_bytes) = (String::new(), 0);
        for line in 1.. {
            text.clear();
            let len = reader.read_line(&mut text).map_err(failed)?;
            if len == 0 || !text.ends_with('\n') {
                break;
            }
            let row: Row = serde_json::from_str(&text).map_err(|source| JournalError::Line {
                path: path.to_owned(),
                line,
                source,
            })?;
            whole_bytes += len as u64;
            journal.note(&row);
            each(row);
        }
        journal.file.set_len(whole_bytes).map_err(failed)?;
        Ok(journal)
    }

    /// What is done, by key.
    pub fn done(&self) -> &HashSet<u64> {
        &self.done
    }

    /// Notes one more comparison.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn push(&mut self, row: &Row) -> Result<(), JournalError> {
        let mut line = serde_json::to_string(row).expect("a row is JSON");
        line.push('\n');
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|source| JournalError::File { path: self.path.clone(), source })?;
        self.note(row);
        Ok(())
    }

    fn note(&mut self, row: &Row) {
        self.done.extend(u64::from_str_radix(&row.key, 16));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A difference has a number of packets, and so has its row: one line of JSON has both.
    #[test]
    fn every_outcome_is_read_again() {
        let setting = SettingRow {
            strategy: "rss".to_owned(),
            cores: 2,
            flows: Some(4),
            table_full: Some("reject".to_owned()),
            move_every: None,
            loss: None,
            simulated: true,
        };
        let why = || "why".to_owned();
        let outcomes = [
            Outcome::Equal,
            Outcome::EqualUpTo { what: why() },
            Outcome::NothingCompared { why: why() },
            Outcome::Refused { why: why() },
            Outcome::Unreadable { why: why() },
            Outcome::Different { what: why(), packets: 3, first: Some(1) },
            Outcome::Panicked { why: why() },
            Outcome::TimedOut,
        ];
        for outcome in outcomes {
            let row = Row {
                key: "0".to_owned(),
                capture: "a.pcap".to_owned(),
                mutation: 0,
                chain: "a.toml".to_owned(),
                setting: setting.clone(),
                seed: 1,
                packets: 7,
                cut_short: None,
                runs: 1,
                exact: false,
                outcome,
            };
            let line = serde_json::to_string(&row).expect("a row is JSON");
            let read: Row = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert_eq!(read, row, "{line}");
        }
    }
}
