//! A compiler from programs in P4 to XDP programs in C, and what tries them out in the kernel.
//!
//! | module | what it is |
//! |---|---|
//! | [`compile()`] | a program as C, if all that it has is in the [subset] |
//! | [`history`] | what replicas are told of packets that they do not get, and its bytes before a packet |
//! | [`sequencing`] | packets with that before them, as a switch would send them |
//! | [`state`] | how tables and registers lie in maps |
//! | [`tables`] | entries that come from outside, before a run and while it goes on |
//! | [`switch`] | the sequencer of a program for a switch, as P4 |
//! | [`clang`] | C to an object |
//! | [`live`] | an object at interfaces: the sequencer in front, a replica behind each CPU's queue |
//! | [`meter`] | what a program counts, read while it runs |
//! | [`trial`] | an object in the kernel beside the interpreter, packet by packet; [`traffic`] has packets for it |
//! | [`cost`] | what a packet and an item take in the kernel |
//! | [`rates`] | what some CPUs take of a traffic together |
//! | [`verdict`] | whether what left, and the state that is left behind, is what the interpreter says |
//! | [`load`] | an object in the kernel: packets by `BPF_PROG_TEST_RUN`, state read back from maps |
//!
//! docs/xdp.md says what is compiled and what is not.

mod addition;
mod body;
pub mod clang;
mod compile;
pub mod cost;
mod crc;
mod edited;
mod expression;
mod hint;
pub mod history;
pub mod live;
pub mod load;
mod logged;
mod map;
pub mod meter;
mod names;
mod outside;
mod parse;
mod program;
pub mod rates;
mod recovery;
mod sequencer;
pub mod sequencing;
mod shard;
pub mod state;
mod strategy;
pub mod subset;
mod sums;
pub mod switch;
mod table;
pub mod tables;
pub mod traffic;
pub mod trial;
pub mod verdict;
mod writer;

pub use compile::{Compiled, HEADERS, RegisterLayout, compile};
pub use strategy::Strategy;
pub use subset::Refusal;
