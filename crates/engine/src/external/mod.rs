//! Packets that a sequencer outside of this program has put history before (SCR §3.3.1): a card, a switch, or
//! `paceline sequence`, which writes them into a file for each core.

mod files;
mod sequencing;

pub use files::{core_file, core_files};
pub use sequencing::{Sequenced, Sequencing};
