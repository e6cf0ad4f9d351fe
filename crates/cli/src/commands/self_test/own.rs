//! The program itself as a child process, in a temporary folder that has what it reads and writes.

use std::cell::RefCell;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::explain::Code;
use crate::failure::Failure;

/// Runs commands of the program that is running.
pub struct Own {
    program: PathBuf,
    folder: TempDir,
    pub packets: usize,
    commands: RefCell<Vec<String>>,
}

impl Own {
    /// Makes the folder, with the chains in it.
    ///
    /// # Errors
    /// Where the folder for temporary files cannot be written.
    pub fn new(packets: usize) -> Result<Own, Failure> {
        let cannot = |error| {
            Failure::usage(format!("there is no folder for temporary files: {error}\nset TMPDIR to one"))
                .coded(Code::CannotWrite)
        };
        let program = env::current_exe().map_err(Failure::usage)?;
        let folder = tempfile::tempdir().map_err(cannot)?;
        for (name, text) in
            [("edge.toml", include_str!("edge.toml")), ("statistics.toml", include_str!("statistics.toml"))]
        {
            fs::write(folder.path().join(name), text).map_err(cannot)?;
        }
        Ok(Own { program, folder, packets, commands: RefCell::default() })
    }

    /// The folder in which commands run.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The program's file.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Runs the program with these arguments, blanks between them, and returns what it wrote on standard output.
    ///
    /// # Errors
    /// What it said, where it ends with another status than `status`.
    pub fn run(&self, arguments: &str, status: u8) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        command.args(arguments.split(' '));
        self.output(&mut command, &format!("paceline {arguments}"), status)
    }

    /// Runs a command in the folder, as [`Own::run`] does. `name` is what is shown of it.
    ///
    /// # Errors
    /// As [`Own::run`].
    pub fn output(&self, command: &mut Command, name: &str, status: u8) -> Result<String, String> {
        self.commands.borrow_mut().push(name.to_owned());
        let output = command.current_dir(self.folder()).stdin(Stdio::null()).output();
        let Output { status: ended, stdout, stderr } =
            output.map_err(|error| format!("`{name}`: {error}"))?;
        if ended.code() != Some(i32::from(status)) {
            let said = String::from_utf8_lossy(if stderr.is_empty() { &stdout } else { &stderr });
            return Err(format!("`{name}` ends with {ended}, not with {status}: {}", said.trim()));
        }
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    }

    /// What was run since they were last forgotten.
    pub fn commands(&self) -> Vec<String> {
        self.commands.borrow().clone()
    }

    pub fn forget_commands(&self) {
        self.commands.borrow_mut().clear();
    }
}
