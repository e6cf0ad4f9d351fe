//! A program in P4, and its test file.

use std::path::{Path, PathBuf};

use clap::Args;
use p4::Options;
use p4::interpret::Machine;
use p4::ir::Program;
use p4::stf::{self, StfReport};

use crate::explain::Code;
use crate::failure::Failure;
use crate::input::read_text;

#[derive(Args)]
pub struct ProgramArgs {
    /// The program
    #[arg(value_name = "PROG.p4")]
    pub program: PathBuf,
    /// Look for included files here, after the program's own folder
    #[arg(short = 'I', value_name = "DIR")]
    pub include: Vec<PathBuf>,
    /// Define a macro, as `#define NAME VALUE` does
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,
}

impl ProgramArgs {
    /// The program.
    ///
    /// # Errors
    /// As of [`read_program`].
    pub fn read(&self) -> Result<Program, Failure> {
        read_program(&self.program, &self.include, &self.define)
    }
}

/// The program; its mistakes are the failure, and warnings go to standard error.
pub fn read_program(path: &Path, include: &[PathBuf], define: &[String]) -> Result<Program, Failure> {
    let text = read_text("the program", path)?;
    let one = |define: &String| match define.split_once('=') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (define.clone(), "1".to_owned()),
    };
    let defines = define.iter().map(one).collect();
    let options = Options { include_dirs: include.to_vec(), defines, no_files: false };
    match p4::lower(&path.display().to_string(), &text, &options) {
        Ok((program, warnings)) => {
            if warnings.warnings() > 0 {
                eprintln!("{:?}", miette::Report::new(warnings));
            }
            Ok(program)
        }
        Err(errors) => Err(Failure::mistake(errors)),
    }
}

/// Runs a test file.
pub fn run_test(machine: &mut Machine, path: &Path) -> Result<StfReport, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::usage(format!("{}: {error}", path.display())).coded(Code::TestFile)
    };
    let text = read_text("the test file", path)?;
    stf::run(machine, &text).map_err(|error| failed(&error))
}
