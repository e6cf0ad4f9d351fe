//! `paceline p4 compile --target xdp`: a program as XDP programs in C, built, and tried in the kernel.

use std::path::Path;

use ::p4::ir::Program;
use xdp::Strategy;
use xdp::load::{LoadError, Loaded};

use crate::failure::Failure;
use crate::object::{Built, build, not_loaded};

/// Writes and builds the program, and has the kernel check it. Says what was made.
pub fn compile(program: &Program, strategy: Strategy, folder: &Path) -> Result<String, Failure> {
    let Built { compiled, source, object, bytes } = build(program, strategy, folder)?;
    let mut text =
        format!("{}: strategy {strategy}\n  {}\n  {}\n", program.name, source.display(), object.display());
    if strategy == Strategy::Scr {
        let item = &compiled.item;
        text += &format!("item of a packet: {} bytes: {}\n", item.bytes, item.layout());
    }
    match Loaded::load(&compiled, &bytes, 1, false) {
        Ok(_) => text += "the kernel loads it\n",
        Err(LoadError::NoRights(why)) => {
            text += &format!("not tried in the kernel: this process may not load BPF programs: {why}\n");
        }
        Err(error) => return Err(not_loaded(error)),
    }
    Ok(text)
}
