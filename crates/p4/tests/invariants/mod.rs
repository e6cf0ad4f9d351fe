//! What must hold for any text that is read as a program. Shared by the property tests and the fuzz target.

use paceline_p4::interpret::Machine;
use paceline_p4::{Options, lower, passes};

/// There is an answer: what is taken is written as text, compiles and takes two packets; what is refused is told.
pub fn survive(text: &str) {
    let options = Options { no_files: true, ..Options::default() };
    match lower("soup.p4", text, &options) {
        Ok((mut program, _)) => {
            assert!(!program.to_text().is_empty());
            passes::compile(&mut program);
            let mut machine = Machine::new(program);
            machine.packet(1, &[0x45; 60], 0);
            machine.packet(1, &[], 1);
        }
        Err(errors) => {
            assert!(errors.errors() > 0);
            for finding in errors.findings() {
                assert!(!finding.to_string().is_empty());
            }
            assert!(!miette::Report::new(errors).to_string().is_empty());
        }
    }
}
