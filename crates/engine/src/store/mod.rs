//! Where the states of functions are, and who may forget what, as of when.
//!
//! | file | what it is |
//! |---|---|
//! | `private` | a group of functions with one key: a table on each core; `private/moving`: its flows leave for another core |
//! | `tables_by_shard`, `shards` | the same with a table for each shard of packets, and for each part of a shard |
//! | `referred` | the same where a card says which block a packet's flow has |
//! | `function`, `member` | one function of a group: its part of each flow's block; `function/hits`: steps of packets of known flows |
//! | `replay`, `replay_function` | the same for packets of other cores, from what is told of them |
//! | `history` | what is told of a packet: its keys, and what functions read |
//! | `typed` | the same as bytes, for a wire |
//! | `slow_path` | one packet through all functions of a group: new flows, and full tables |
//! | `stateless` | a function without states |
//! | `striped`, `clocks` | one table for all cores, in stripes with a lock each |
//! | `shared_states`, `shared_member` | one function's states for all cores, each with a lock |
//! | `told` | for `verify`: a group that turns away what full tables turned away in another run |
//! | `follow`, `watched_member`, `passed` | for `verify`: a function that answers as in another run, and what passed |
//! | `listed` | flows of a group are listed, and removed |
//! | `build` | groups, function by function |

pub(crate) mod build;
pub(crate) mod clocks;
pub(crate) mod follow;
pub(crate) mod function;
pub(crate) mod history;
mod listed;
pub(crate) mod member;
pub(crate) mod passed;
pub(crate) mod private;
pub(crate) mod referred;
mod replay;
mod replay_function;
mod shards;
pub(crate) mod shared_member;
pub(crate) mod shared_states;
pub(crate) mod slow_path;
pub(crate) mod stateless;
pub(crate) mod striped;
pub(crate) mod tables_by_shard;
mod told;
pub(crate) mod typed;
pub(crate) mod watched_member;
