//! Options that several commands take, each with what it stands for. Nothing here knows a command.

mod address;
pub mod buffers;
mod card;
mod packets;
mod ports;
mod program;
mod reloads;
mod source;
mod strategy;
mod tables;

use std::ops::{Bound, RangeBounds};

pub use self::address::Address;
pub use self::card::{CardArgs, indirection_size, tuning};
pub use self::packets::{
    ChainArgs, HistoryArgs, HistoryVersionArg, Packets, SequencerArg, Setting, prepare, size_bytes,
    tell_unchecked,
};
pub use self::ports::{PortOf, Ports};
pub use self::program::{ProgramArgs, read_program, run_test};
pub use self::reloads::ReloadArgs;
pub use self::source::{ReplayArgs, Source, generate};
pub use self::strategy::{StrategyArg, name_strategies};
pub use self::tables::TableArgs;

/// A number of things, within `range`.
pub fn number(
    range: impl RangeBounds<u64> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number: Option<usize> = text.parse().ok();
        number.filter(|number| range.contains(&(*number as u64))).ok_or_else(|| {
            let least = match range.start_bound() {
                Bound::Included(least) | Bound::Excluded(least) => *least,
                Bound::Unbounded => 0,
            };
            match range.end_bound() {
                Bound::Included(most) | Bound::Excluded(most) => {
                    format!("must be a whole number, {least} to {most}")
                }
                Bound::Unbounded => format!("must be a whole number, at least {least}"),
            }
        })
    }
}
