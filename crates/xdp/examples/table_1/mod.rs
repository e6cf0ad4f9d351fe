//! SCR's programs of Table 1, read and built for each strategy.

use std::error::Error;
use std::fs;
use std::path::Path;

use p4::ir::Program;
use p4::{Options, lower};
use paceline_xdp::{Compiled, Strategy, clang, compile};

/// Where they are below `examples/p4`.
pub const PROGRAMS: [&str; 5] =
    ["scr/ddos", "scr/heavy_hitter", "scr/connection_tracker", "scr/token_bucket", "scr/port_knocking"];

/// A program by its name.
pub fn program(name: &str) -> Result<Program, Box<dyn Error>> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4");
    let path = examples.join(name).with_extension("p4");
    let options = Options { include_dirs: vec![examples], ..Options::default() };
    Ok(lower(&path.display().to_string(), &fs::read_to_string(&path)?, &options)?.0)
}

/// A program and its object for one strategy.
pub fn build(program: &Program, strategy: Strategy) -> Result<(Compiled, Vec<u8>), Box<dyn Error>> {
    let compiled = compile(program, strategy).map_err(|refusals| format!("{refusals:?}"))?;
    let object = clang::object(&compiled)?;
    Ok((compiled, object))
}
