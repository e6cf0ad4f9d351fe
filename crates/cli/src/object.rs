//! A program in P4 as an object for the kernel: C, clang, and what failures of both come to.

use std::fs;
use std::path::{Path, PathBuf};

use ::p4::ir::Program;
use xdp::clang::{self, BuildError};
use xdp::load::LoadError;
use xdp::{Compiled, Refusal, Strategy};

use crate::explain::Code;
use crate::failure::Failure;

/// A program as C, and the object that was built from it.
pub struct Built {
    pub compiled: Compiled,
    pub source: PathBuf,
    pub object: PathBuf,
    /// The object's content.
    pub bytes: Vec<u8>,
}

/// Writes a program's C into a folder, which is made if it is not there, and builds it.
///
/// # Errors
/// The program is not in the subset, or there is no clang. That clang refuses the C is a defect.
pub fn build(program: &Program, strategy: Strategy, folder: &Path) -> Result<Built, Failure> {
    let compiled = compile(program, strategy)?;
    let source = clang::write(&compiled, folder).map_err(Failure::usage)?;
    let object = clang::build(&source).map_err(not_built)?;
    let bytes = fs::read(&object).map_err(|error| {
        Failure::usage(format!("cannot read {}: {error}", object.display())).coded(Code::CannotRead)
    })?;
    Ok(Built { compiled, source, object, bytes })
}

/// A program as C.
///
/// # Errors
/// It is not in the subset.
pub fn compile(program: &Program, strategy: Strategy) -> Result<Compiled, Failure> {
    xdp::compile(program, strategy).map_err(|refusals| refused(&refusals))
}

/// Why there is no object. That clang refuses the C is a defect.
pub fn not_built(error: BuildError) -> Failure {
    match error {
        error @ BuildError::Refused { .. } => Failure::defect(error),
        error => Failure::usage(error),
    }
}

/// Why an object is not in the kernel. That its verifier refuses it is a defect.
pub fn not_loaded(error: LoadError) -> Failure {
    match error {
        error @ LoadError::Refused { .. } => Failure::defect(error),
        error => Failure::usage(error),
    }
}

/// Why a program is not compiled: all that it has and that is not in the subset.
pub fn refused(refusals: &[Refusal]) -> Failure {
    let list: Vec<String> = refusals.iter().map(Refusal::to_string).collect();
    let message = format!("the program is not in the subset that is compiled to XDP: {}", list[0]);
    let rest = list[1..].iter().map(|line| format!("{line}\n")).collect::<String>();
    Failure::usage(format!("{message}\n{rest}docs/xdp.md lists what is compiled.")).coded(Code::NotInXdp)
}
