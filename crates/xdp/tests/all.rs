//! What is compiled to XDP does what the interpreter does; programs of one file, so that they are linked once.

#[path = "common.rs"]
mod common;
#[path = "../../live/tests/lab/mod.rs"]
mod lab;
#[path = "live.rs"]
mod live;
#[path = "refused.rs"]
mod refused;
#[path = "rig.rs"]
mod rig;
#[path = "scr.rs"]
mod scr;
#[path = "sharded.rs"]
mod sharded;
