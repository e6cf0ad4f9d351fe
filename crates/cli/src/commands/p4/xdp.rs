//! `paceline p4 compile --target xdp`: a program as XDP programs in C, built, and tried in the kernel.

use std::fs;
use std::path::Path;

use ::p4::ir::Program;
use xdp::clang::{self, BuildError};
use xdp::load::{LoadError, Loaded};
use xdp::{Refusal, Strategy};

use crate::failure::Failure;

/// Writes and builds the program, and has the kernel check it. Says what was made.
pub fn compile(program: &Program, strategy: Strategy, folder: &Path) -> Result<String, Failure> {
    let compiled = xdp::compile(program, strategy).map_err(|refusals| refused(&refusals))?;
    let source = clang::write(&compiled, folder).map_err(Failure::usage)?;
    let object = clang::build(&source).map_err(|error| match error {
        BuildError::Refused { .. } => Failure::defect(error),
        error => Failure::usage(error),
    })?;
    let mut text =
        format!("{}: strategy {strategy}\n  {}\n  {}\n", program.name, source.display(), object.display());
    if strategy == Strategy::Scr {
        let item = &compiled.item;
        text += &format!("item of a packet: {} bytes: {}\n", item.bytes, item.layout());
    }
    compiled.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
    let bytes = fs::read(&object)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", object.display())))?;
    match Loaded::load(&compiled, &bytes, 1, false) {
        Ok(_) => text += "the kernel loads it\n",
        Err(error @ LoadError::Refused { .. }) => return Err(Failure::defect(error)),
        Err(LoadError::NoRights(why)) => {
            text += &format!("not tried in the kernel: this process may not load BPF programs: {why}\n");
        }
        Err(error) => return Err(Failure::usage(error)),
    }
    Ok(text)
}

fn refused(refusals: &[Refusal]) -> Failure {
    let list: Vec<String> = refusals.iter().map(Refusal::to_string).collect();
    let message = format!("the program is not in the subset that is compiled to XDP: {}", list[0]);
    let rest = list[1..].iter().map(|line| format!("{line}\n")).collect::<String>();
    Failure::usage(format!("{message}\n{rest}docs/xdp.md lists what is compiled."))
}
