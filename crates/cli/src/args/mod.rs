//! Options that several commands take, each with what it stands for. Nothing here knows a command.

mod address;
mod card;
mod packets;
mod ports;
mod program;
mod reloads;
mod source;
mod strategy;
mod tables;

use std::ops::RangeBounds;

use clap::builder::RangedU64ValueParser;

pub use self::address::Address;
pub use self::card::{CardArgs, indirection_size};
pub use self::packets::{ChainArgs, HistoryArgs, HistoryVersionArg, Packets, Setting, prepare, size_bytes};
pub use self::ports::{PortOf, Ports};
pub use self::program::{ProgramArgs, read_program, run_test};
pub use self::reloads::ReloadArgs;
pub use self::source::{ReplayArgs, Source, generate};
pub use self::strategy::StrategyArg;
pub use self::tables::TableArgs;

/// A number of things, within `range`.
pub fn number(range: impl RangeBounds<u64>) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(range)
}
