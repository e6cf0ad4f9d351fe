//! One way to run cores.
//!
//! | file | what it is |
//! |---|---|
//! | `capture` | a chain over a capture |
//! | `outside` | a chain over packets that come with their history |
//! | `live`, `front` | a chain on the ports of a machine; the core that dispatches their packets to others |
//! | `moving` | the thread that moves entries of the table in front of cores' own ports |
//! | `cores` | one core at its work, and what all of them leave behind |
//! | `threads` | a thread for each core, and one that feeds them |
//! | `simulated` | which of these: threads, or turns on one, in an order that a seed draws |
//! | `listing` | the flows of a live run, listed while it goes on |
//! | `reload`, `reloads` | one chain takes over from another between two packets; how that is asked for |
//! | `collect`, `leaving`, `reordering` | packets as they leave, and in which order |
//! | `input`, `seen`, `outcome` | what goes in, one packet as it comes out, what is left |
//! | `pace`, `publish`, `oddities` | the capture's own speed; metrics; what is odd about the input |

pub(crate) mod capture;
mod collect;
pub(crate) mod cores;
mod front;
pub(crate) mod input;
pub(crate) mod leaving;
pub(crate) mod listing;
pub(crate) mod live;
mod moving;
pub(crate) mod oddities;
pub(crate) mod outcome;
pub(crate) mod outside;
pub(crate) mod pace;
pub(crate) mod publish;
pub(crate) mod reload;
pub(crate) mod reloads;
pub(crate) mod reordering;
pub(crate) mod seen;
mod simulated;
pub(crate) mod threads;
