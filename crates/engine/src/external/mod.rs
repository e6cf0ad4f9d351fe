//! Packets that a sequencer outside of this program has put history before (SCR §3.3.1): a card, a switch, or
//! `paceline sequence`, which writes them into a file for each core.
//!
//! | file | what it is |
//! |---|---|
//! | `sequencing` | a capture's packets with history before them |
//! | `arrivals` | what comes to the cores: files merged, or a capture sequenced on the way, less what is lost |
//! | `custody` | one core: history in front of its own packets, losses recovered or counted |
//! | `rebuild` | a core that lags by more than the logs goes on with another's state |
//! | `run`, `verify` | all cores, and the comparison with one |

mod arrivals;
mod custody;
mod files;
mod line;
mod loss;
mod rebuild;
mod run;
mod sequencing;
#[cfg(test)]
mod tests;
mod verify;

pub use arrivals::InputError;
pub(crate) use custody::ExternalEnd;
pub use custody::{External, HistoryCounters};
pub use files::{core_file, core_files};
pub use loss::{Loss, LossShare, LossShareError};
pub use run::{ExternalInput, ExternalPackets, HistoryOutcome, Recovery, replay_external};
pub use sequencing::{Sequenced, Sequencing};
pub use verify::{HistoryCheck, verify_external};
