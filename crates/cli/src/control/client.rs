//! Asks a run something.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::words::{Answer, Line, Request};
use crate::explain::Code;
use crate::failure::{Failure, INTERRUPTED};

/// How long an answer may take: a chain with large tables is made meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks the run whose socket is at `path`.
pub fn ask(path: &Path, request: &Request) -> Result<Answer, Failure> {
    send(path, request).map(|(answer, _)| answer)
}

/// Asks the run whose socket is at `path` for lines, and shows them to `see`, the last one included; says whether that came.
/// Ctrl-C ends the run's lines, and a second one the program.
pub fn follow(
    path: &Path,
    request: &Request,
    see: &mut dyn FnMut(Line) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let (answer, mut reader) = send(path, request)?;
    if let Some(error) = answer.error {
        return Err(Failure::usage(error).coded(Code::RunRefused));
    }
    let cannot = |error: std::io::Error| {
        Failure::usage(format!("the run at {} is gone: {error}", path.display())).coded(Code::NoRun)
    };
    reader.get_ref().set_read_timeout(None).map_err(cannot)?;
    let writer = reader.get_ref().try_clone().map_err(cannot)?;
    let is_again = AtomicBool::new(false);
    // Without a handler Ctrl-C ends the program.
    let _ = ctrlc::set_handler(move || {
        if is_again.swap(true, Ordering::Relaxed) {
            process::exit(i32::from(INTERRUPTED));
        }
        let _ = writer.shutdown(Shutdown::Write);
    });
    let mut text = String::new();
    while reader.read_line(&mut text).map_err(cannot)? > 0 {
        let line: Line = serde_json::from_str(&text).map_err(|error| {
            Failure::usage(format!(
                "the run answered what nobody understands: {error}\nIs it of another version?"
            ))
            .coded(Code::NoRun)
        })?;
        let is_last = line.end.is_some();
        see(line)?;
        if is_last {
            return Ok(true);
        }
        text.clear();
    }
    Ok(false)
}

/// Sends a request, and reads its answer; lines may follow.
fn send(path: &Path, request: &Request) -> Result<(Answer, BufReader<UnixStream>), Failure> {
    let cannot = |error: std::io::Error| {
        let help = match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                "No run has this socket. If the run was started with --control, give the same here."
            }
            ErrorKind::PermissionDenied => "Ask as the user that the run belongs to, as with sudo.",
            _ => "The run may have ended meanwhile.",
        };
        Failure::usage(format!("cannot ask the run at {}: {error}\n{help}", path.display()))
            .coded(Code::NoRun)
    };
    let mut stream = UnixStream::connect(path).map_err(cannot)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(cannot)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(cannot)?;
    let line = serde_json::to_string(request).map_err(Failure::defect)?;
    stream.write_all(format!("{line}\n").as_bytes()).map_err(cannot)?;
    let mut answer = String::new();
    let mut reader = BufReader::new(stream);
    reader.read_line(&mut answer).map_err(cannot)?;
    let answer = serde_json::from_str(&answer).map_err(|error| {
        Failure::usage(format!(
            "the run at {} answered what nobody understands: {error}\nIs it of another version?",
            path.display()
        ))
        .coded(Code::NoRun)
    })?;
    Ok((answer, reader))
}
