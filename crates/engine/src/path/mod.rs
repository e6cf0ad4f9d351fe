//! A packet's way on one core. The files, in the order in which a packet goes:
//!
//! | file | what it is |
//! |---|---|
//! | `run` | the story: one turn of a core |
//! | `receive` | what stands between the port and the chain |
//! | `parse`, `checks` | bytes become headers; wrong checksums and refused fragments are found |
//! | `core` | the chain on this core: its groups, in the order of the packet's side |
//! | `group` | what a group of functions can do; groups with states are in [`store`](crate::store) |
//! | `step`, `pools` | one function's step of a packet, with what it has beside flows; `step/outcome`: what becomes of the packet |
//! | `edit` | edits become bytes |
//!
//! `portion` is how a core is asked for its flows while it works, and `answer` what it does then.
//!
//! `tracing` shows which way single packets take; functions are asked there what they know (`look`), in
//! batches that are cut for it (`cut`), and what comes of it is told (`traced`).
//!
//! The others are what goes along: `batch` with its sets of packets (`packets`), what a core is told of packets that other
//! cores have (`items`), `sides`, `counters`, `moves`, `laps`, what a card says of flows (`referred`), what `verify` notes of full tables (`turned_away`), and `parcel`, which leaves for another core.

mod answer;
pub(crate) mod batch;
pub(crate) mod checks;
pub(crate) mod core;
pub(crate) mod counters;
mod cut;
mod edit;
pub(crate) mod group;
pub(crate) mod items;
pub(crate) mod laps;
pub(crate) mod look;
pub(crate) mod moves;
#[cfg(test)]
pub(crate) mod no_packets;
pub(crate) mod packets;
pub(crate) mod parcel;
mod parse;
pub(crate) mod pools;
pub(crate) mod portion;
pub(crate) mod receive;
pub(crate) mod referred;
pub(crate) mod run;
pub(crate) mod sides;
pub(crate) mod step;
pub(crate) mod traced;
pub(crate) mod tracing;
pub(crate) mod turned_away;
