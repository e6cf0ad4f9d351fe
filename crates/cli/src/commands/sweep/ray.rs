//! `paceline sweep --ray`: the sweep is handed over to Python's package, which knows Ray.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crate::explain::Code;
use crate::failure::Failure;

/// Prints which of the packages that the sweep takes are not there.
const WHAT_LACKS: &str = "import importlib.util as u
print(*[name for name in ('paceline', 'ray', 'pyarrow', 'tqdm') if u.find_spec(name) is None])";

const INSTALL: &str = "Install Python's package with Ray where `python3` finds it: pip install 'paceline[ray]' (docs/guides/python.md).";

/// Has `python3 -m paceline.ray` go on in place of this program, with the arguments that it was given. Returns only where that
/// cannot be.
pub fn hand_over() -> Result<ExitCode, Failure> {
    let lacks = |what: &str| Failure::usage(format!("--ray needs {what}\n{INSTALL}")).coded(Code::NoRay);
    let found = Command::new("python3").args(["-c", WHAT_LACKS]).output();
    let found = found.map_err(|error| lacks(&format!("python3, which does not start: {error}")))?;
    let said = String::from_utf8_lossy(&found.stdout);
    match said.trim() {
        "" if found.status.success() => {}
        "" => {
            return Err(lacks(&format!(
                "python3, which failed: {}",
                String::from_utf8_lossy(&found.stderr).trim()
            )));
        }
        names => {
            return Err(lacks(&format!(
                "Python's {}, which `python3` does not find",
                names.replace(' ', ", ")
            )));
        }
    }
    // Behind the program's name and `sweep`.
    let args = env::args_os().skip(2);
    let error = Command::new("python3").args(["-m", "paceline.ray"]).args(args).exec();
    Err(lacks(&format!("python3, which does not start: {error}")))
}
