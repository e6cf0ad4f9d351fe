//! What is compiled to XDP does what the interpreter does; programs of one file, so that they are linked once.

#[path = "additions.rs"]
mod additions;
#[path = "common.rs"]
mod common;
#[path = "external.rs"]
mod external;
#[path = "../../live/tests/lab/mod.rs"]
mod lab;
#[path = "live.rs"]
mod live;
#[path = "logged.rs"]
mod logged;
#[path = "programs.rs"]
mod programs;
#[path = "random.rs"]
mod random;
#[path = "refused.rs"]
mod refused;
#[path = "rig.rs"]
mod rig;
#[path = "scr.rs"]
mod scr;
#[path = "sharded.rs"]
mod sharded;
#[path = "sums.rs"]
mod sums;
#[path = "switch.rs"]
mod switch;
#[path = "tables.rs"]
mod tables;
