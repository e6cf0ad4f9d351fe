//! The `paceline` program, with the stock functions.

use std::process::ExitCode;

use paceline::Registry;

fn main() -> ExitCode {
    paceline::main(&Registry::stock())
}
