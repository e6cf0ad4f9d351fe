//! Any text as a program in P4: no panic, an answer within bounds; what is taken compiles and takes packets.
//!
//! Seeds are the programs of examples/p4: copy them to fuzz/corpus/p4.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/p4/tests/invariants/mod.rs"]
mod invariants;

fuzz_target!(|text: &str| invariants::survive(text));
