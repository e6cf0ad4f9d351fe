//! Asks a run something.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::words::{Answer, Request};
use crate::failure::Failure;

/// How long an answer may take: a chain with large tables is made meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks the run whose socket is at `path`.
pub fn ask(path: &Path, request: &Request) -> Result<Answer, Failure> {
    let cannot = |error: std::io::Error| {
        let help = match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                "No run has this socket. A run on interfaces says at start which it has; give it as --control."
            }
            ErrorKind::PermissionDenied => "Ask as the user that the run belongs to, as with sudo.",
            _ => "The run may have ended meanwhile.",
        };
        Failure::usage(format!("cannot ask the run at {}: {error}\n{help}", path.display()))
    };
    let mut stream = UnixStream::connect(path).map_err(cannot)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(cannot)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(cannot)?;
    let line = serde_json::to_string(request).map_err(Failure::defect)?;
    stream.write_all(format!("{line}\n").as_bytes()).map_err(cannot)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(cannot)?;
    serde_json::from_str(&answer).map_err(|error| {
        Failure::usage(format!(
            "the run at {} answered what nobody understands: {error}\nIs it of another version?",
            path.display()
        ))
    })
}
