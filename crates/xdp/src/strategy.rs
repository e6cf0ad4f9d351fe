//! How state is divided among cores.

use std::fmt;
use std::str::FromStr;

/// How a program's state is divided among cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Each core has the flows that come to it.
    Sharded,
    /// All cores have one state, under a lock.
    Shared,
    /// Each core has all flows, and replays what it does not get (State-Compute Replication, NSDI'25).
    Scr,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Strategy::Sharded => "sharded",
            Strategy::Shared => "shared",
            Strategy::Scr => "scr",
        })
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Strategy, String> {
        match text {
            "sharded" => Ok(Strategy::Sharded),
            "scr" => Ok(Strategy::Scr),
            "shared" => Ok(Strategy::Shared),
            _ => Err("a strategy of XDP programs is `sharded`, `shared` or `scr`".to_owned()),
        }
    }
}
