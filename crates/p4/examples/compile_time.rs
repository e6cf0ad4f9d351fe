//! How long a program of some 2,000 lines takes to compile: `cargo run --release -p paceline-p4 --example
//! compile_time`. Prints the machine's own figure; nothing is tested here.

use std::time::Instant;

use paceline_p4::{Options, lower, passes};

#[path = "../tests/common/mod.rs"]
mod common;

fn main() {
    let source = common::large(160);
    let start = Instant::now();
    let lowered = lower("large.p4", &source, &Options::default());
    let (mut program, _) = lowered.unwrap_or_else(|errors| panic!("{:?}", miette::Report::new(errors)));
    let checked = start.elapsed();
    passes::compile(&mut program);
    let (lines, fields) = (source.lines().count(), program.fields.len());
    let stages = program.layout.map_or(0, |layout| layout.stages);
    println!(
        "{lines} lines: checked in {checked:?}, compiled in {:?}; {fields} fields, {stages} stages",
        start.elapsed()
    );
}
