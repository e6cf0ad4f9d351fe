//! What is compiled to XDP does what the interpreter does; programs of one file, so that they are linked once.

#[path = "common.rs"]
mod common;
#[path = "refused.rs"]
mod refused;
#[path = "scr.rs"]
mod scr;
#[path = "sharded.rs"]
mod sharded;
