//! All tests over whole P4 programs, as one test program. A new file is named here.

#[path = "calls.rs"]
mod calls;
#[path = "calls_random.rs"]
mod calls_random;
mod common;
#[path = "examples.rs"]
mod examples;
#[path = "expressions.rs"]
mod expressions;
#[path = "golden.rs"]
mod golden;
#[path = "late.rs"]
mod late;
#[path = "mistakes.rs"]
mod mistakes;
#[path = "random_tree.rs"]
mod random_tree;
#[path = "resources.rs"]
mod resources;
#[path = "robust.rs"]
mod robust;
#[path = "spans.rs"]
mod spans;
#[path = "stages.rs"]
mod stages;
#[path = "structures.rs"]
mod structures;
#[path = "tables.rs"]
mod tables;
mod tree;
#[path = "uses.rs"]
mod uses;
