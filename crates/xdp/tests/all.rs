//! What is compiled to XDP does what the interpreter does; programs of one file, so that they are linked once.

mod common;
mod refused;
mod scr;
mod sharded;
