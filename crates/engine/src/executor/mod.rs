//! One way to run cores.
//!
//! | file | what it is |
//! |---|---|
//! | `capture` | a chain over a capture |
//! | `outside` | a chain over packets that come with their history |
//! | `threads` | a thread for each core, and one that feeds them |
//! | `collect`, `leaving`, `reordering` | packets as they leave, and in which order |
//! | `input`, `seen`, `outcome` | what goes in, one packet as it comes out, what is left |
//! | `pace`, `publish`, `oddities` | the capture's own speed; metrics; what is odd about the input |

pub(crate) mod capture;
mod collect;
pub(crate) mod input;
pub(crate) mod leaving;
pub(crate) mod oddities;
pub(crate) mod outcome;
pub(crate) mod outside;
pub(crate) mod pace;
pub(crate) mod publish;
pub(crate) mod reordering;
pub(crate) mod seen;
pub(crate) mod threads;
