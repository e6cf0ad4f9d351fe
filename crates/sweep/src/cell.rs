//! The comparisons of a sweep one by one, so that they can be spread over processes and machines.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;

use crate::question::At;
use crate::workers::{Prepared, try_once};
use crate::{Outcome, Question, Row, Trial};

/// One comparison that a sweep is to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// The key that its [`Row`] will have.
    pub key: String,
    /// Its capture.
    pub capture: String,
    /// Its number among the comparisons of this capture, from 0: that of a question which asks for this capture alone.
    pub number: u64,
}

impl Question {
    /// All comparisons, capture by capture.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        let of_a_capture = self.runs_of_each() * (u64::from(self.mutations) + 1);
        (0..self.runs()).filter_map(move |number| {
            let at = self.at(number)?;
            Some(Cell {
                key: format!("{:016x}", self.key(at)),
                capture: self.sources[at.source].name(),
                number: number % of_a_capture,
            })
        })
    }

    /// Makes one comparison by its number. What [`sweep`](crate::sweep()) says of the same comparison is equal, but for
    /// captures that cannot be read: there one row stands for all comparisons, and here each has its own.
    /// `None` if `stop` ended it, or there is no such number.
    pub fn compare(&self, number: u64, time_limit: Duration, stop: &AtomicBool) -> Option<Row> {
        let at = self.at(number)?;
        let whole = self.sources[at.source].load(self.most_packets);
        let capture = whole.and_then(|whole| self.mutated(&whole, at.source, at.mutation));
        let capture = match capture {
            Ok(capture) => capture,
            Err(why) => return Some(self.unreadable(at, why)),
        };
        let cut_short = capture.cut_short.clone();
        let chain = self.chains[at.chain].chain.clone();
        let prepared = Prepared { capture, chain, setting: self.setting(at) };
        Some(Row::new(self, at, try_once(&prepared, time_limit, stop)?, cut_short))
    }

    fn unreadable(&self, at: At, why: String) -> Row {
        let trial = Trial { outcome: Outcome::Unreadable { why }, packets: 0, exact: false };
        Row::new(self, at, trial, None)
    }
}
