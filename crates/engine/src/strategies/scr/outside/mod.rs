//! Packets that a sequencer outside of this program has put history before (SCR §3.3.1): a card, a switch, or
//! `paceline sequence`, which writes them into a file for each core.
//!
//! | file | what it is |
//! |---|---|
//! | `sequencing` | a capture's packets with history before them |
//! | `arrivals` | what comes to the cores: files merged, or a capture sequenced on the way, less what is lost |
//! | `items` | what items hold for a chain: bytes of headers, or what its functions read |
//! | `intake` | one core: history in front of its own packets, losses recovered or counted |
//! | `lane` | items that hold what functions read, on their way into the columns of a log |
//! | `on_loss`, `rebuild` | what a core does about losses; one that lags by more than the logs goes on with another's state |
//! | `line` | what cores hear beside their packets |
//! | `loss`, `files` | packets lost on purpose; the names of the files |

pub(crate) mod arrivals;
pub(crate) mod files;
pub(crate) mod intake;
pub(crate) mod items;
mod lane;
pub(crate) mod line;
pub(crate) mod loss;
pub(crate) mod on_loss;
pub(crate) mod rebuild;
pub(crate) mod sequencing;
#[cfg(test)]
mod tests;
