//! The `paceline` program, with the stock functions and strategies.

use std::process::ExitCode;

use paceline::Program;

fn main() -> ExitCode {
    Program::stock().main()
}
