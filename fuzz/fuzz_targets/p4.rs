//! Any text as a program in P4: no panic, an answer within bounds; what is taken compiles and takes packets.
//!
//! Seeds are the programs of examples/p4: copy them to fuzz/corpus/p4.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_p4::interpret::Machine;
use paceline_p4::{Options, lower, passes};

fuzz_target!(|text: &str| {
    let options = Options { no_files: true, ..Options::default() };
    match lower("fuzz.p4", text, &options) {
        Ok((mut program, _)) => {
            assert!(!program.to_text().is_empty());
            passes::compile(&mut program);
            let mut machine = Machine::new(program);
            machine.packet(1, &[0x45; 60], 0);
            machine.packet(1, &[], 1);
        }
        Err(errors) => {
            assert!(errors.errors() > 0);
            assert!(!miette::Report::new(errors).to_string().is_empty());
        }
    }
});
