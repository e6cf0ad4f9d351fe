//! Programs in P4 on the models: what [`p4::passes::compile`] makes of one is lowered to a list of operations for
//! each stage, over a header vector of 64-bit words.
//!
//! | | |
//! |---|---|
//! | [`Image`] | a compiled program with the entries of its tables |
//! | [`Compiled`] | the same as a [`Program`](crate::Program), with header vectors of a fixed size |
//! | [`emulate_p4`] | runs one over packets; [`Watcher`] sees what leaves |
//! | [`Hardware`] | the program as `rtl/rapid` needs it, in SystemVerilog |
//! | [`Check`] | compares that with the reference, packet by packet and state by state |
//!
//! A header vector has the fields that the ingress uses. Packets are parsed when they arrive, and what the stages do
//! not use waits outside; egress and deparser run when a packet leaves.

mod check;
mod code;
mod error;
mod execute;
mod hardware;
mod image;
mod layout;
mod limits;
mod lower;
mod object;
mod run;
mod verilog;

pub use check::{Check, Differences};
pub use error::{CompileError, RunError};
pub use hardware::{Hardware, HardwareError};
pub use image::{Image, MAX_WORDS};
pub use limits::State;
pub use run::{Compiled, Input, Watcher, emulate_p4};
