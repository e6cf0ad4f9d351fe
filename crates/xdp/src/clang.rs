//! C to an object, by clang.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use thiserror::Error;

use crate::compile::{Compiled, HEADERS};

/// Why there is no object.
#[derive(Debug, Error)]
pub enum BuildError {
    /// A file cannot be written.
    #[error("cannot write {path}: {error}")]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What was built cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is no clang.
    #[error(
        "cannot run `{clang}`: {error}\nInstall clang (apt-get install clang), or name it in the variable CLANG."
    )]
    NoClang {
        /// What was run.
        clang: String,
        /// Why not.
        error: io::Error,
    },
    /// Clang refuses C that the compiler wrote: a defect of the compiler.
    #[error("clang refuses {source_file}, which is a defect of Paceline:\n{log}")]
    Refused {
        /// The C.
        source_file: PathBuf,
        /// What clang says.
        log: String,
    },
}

/// The content of a program's object, built in a folder that is gone afterwards, and that only this user can change.
///
/// # Errors
/// As [`write()`] and [`build`].
pub fn object(compiled: &Compiled) -> Result<Vec<u8>, BuildError> {
    let folder = tempfile::tempdir().map_err(|error| BuildError::Write { path: env::temp_dir(), error })?;
    let object = build(&write(compiled, folder.path())?)?;
    fs::read(&object).map_err(|error| BuildError::Read { path: object, error })
}

/// Writes a program's C and what it includes into a folder, which is made if it is not there. Gives its path.
///
/// # Errors
/// A file cannot be written.
pub fn write(compiled: &Compiled, folder: &Path) -> Result<PathBuf, BuildError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| BuildError::Write { path, error }
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let name = format!("{}.bpf.c", compiled.name);
    for (name, text) in HEADERS.into_iter().chain([(&*name, &*compiled.c)]) {
        let path = folder.join(name);
        fs::write(&path, text).map_err(failed(&path))?;
    }
    Ok(folder.join(name))
}

/// Builds the files that [`write()`] wrote. Gives the object's path.
///
/// # Errors
/// There is no clang, or it refuses the C.
pub fn build(source_file: &Path) -> Result<PathBuf, BuildError> {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let object = source_file.with_extension("o");
    // -g is for the maps: their definitions are types, which the loader reads from BTF.
    let flags = [
        "-O2",
        "-g",
        "-target",
        "bpf",
        "-mcpu=v3",
        "-Wall",
        "-Wextra",
        "-Wno-unused-parameter",
        "-Wno-unused-function",
        // A program may compare a field with itself, or assign it to itself.
        "-Wno-tautological-compare",
        "-Wno-self-assign",
        "-Werror",
        "-c",
    ];
    let output = Command::new(&clang).args(flags).arg(source_file).arg("-o").arg(&object).output();
    let output = output.map_err(|error| BuildError::NoClang { clang, error })?;
    match output.status.success() {
        true => Ok(object),
        false => {
            let log = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(BuildError::Refused { source_file: source_file.to_owned(), log })
        }
    }
}
