//! The run's end of the control socket.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use nix::sys::stat::{Mode, fchmod};

use super::sets::Expiring;
use super::streams::Streams;
use super::subject::Subject;
use super::words::{Answer, REQUEST_MAX, Request, filter_of};
use crate::failure::Failure;

/// How long a client that is connected may say nothing: others wait meanwhile.
const SILENCE: Duration = Duration::from_secs(2);

/// Longer than anybody waits, seconds.
const YEAR: u64 = 366 * 86_400;

/// A socket that answers, as long as this is held; then it is gone.
pub struct Control {
    path: PathBuf,
    is_over: Arc<AtomicBool>,
    streams: Arc<Streams>,
    thread: Option<JoinHandle<()>>,
    /// Takes prefixes out of sets when their time is over. It sleeps till then, and ends with the program.
    expiring: Expiring,
}

impl Control {
    /// Makes the socket, with mode 0600, and answers all that may connect. One that is left of a run that died is
    /// replaced.
    pub fn start(path: &Path, subject: Arc<Subject>) -> Result<Control, Failure> {
        let listener = listen(path).map_err(|error| {
            let help = match error.kind() {
                ErrorKind::AddrInUse => {
                    "Another run has it, or it is no socket: give another with --control."
                }
                _ => "Give a path where a socket can be made with --control.",
            };
            Failure::usage(format!("cannot make the control socket {}: {error}\n{help}", path.display()))
        })?;
        let expiring = Expiring::start(&subject);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let streams = Arc::new(Streams::default());
        let own = Arc::clone(&streams);
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                // Who went away in the middle hears nothing, and that is all.
                let _ = stream.and_then(|stream| serve(stream, &subject, &own, &over));
            }
        });
        Ok(Control { path: path.to_owned(), is_over, streams, thread: Some(thread), expiring })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.expiring.end();
        // So that it looks.
        let woken = UnixStream::connect(&self.path).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
        self.streams.join();
        let _ = fs::remove_file(&self.path);
    }
}

/// Made beside its place and moved there, so that nobody ever finds it with another mode.
fn listen(path: &Path) -> std::io::Result<UnixListener> {
    if let Ok(found) = fs::symlink_metadata(path) {
        if !found.file_type().is_socket() || UnixStream::connect(path).is_ok() {
            return Err(ErrorKind::AddrInUse.into());
        }
        fs::remove_file(path)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", process::id()));
    let beside = PathBuf::from(beside);
    let _ = fs::remove_file(&beside);
    let listener = private(&beside)?;
    match fs::rename(&beside, path) {
        Ok(()) => Ok(listener),
        Err(error) => {
            let _ = fs::remove_file(&beside);
            Err(error)
        }
    }
}

/// A socket of mode 0600 from the moment that it has a name, whatever the process's umask: the kernel gives the name the
/// mode that the socket has (`unix_bind`, Linux).
fn private(path: &Path) -> std::io::Result<UnixListener> {
    let address = UnixAddr::new(path)?;
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    socket::bind(socket.as_raw_fd(), &address)?;
    // As many may wait to be answered as with the standard library's listener.
    socket::listen(&socket, Backlog::new(128)?)?;
    Ok(UnixListener::from(socket))
}

/// Answers one client, line by line, until it goes or the run ends.
fn serve(
    stream: UnixStream,
    subject: &Arc<Subject>,
    streams: &Streams,
    is_over: &Arc<AtomicBool>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while !is_over.load(Ordering::Relaxed) {
        let mut line = String::new();
        if reader.by_ref().take(REQUEST_MAX).read_line(&mut line)? == 0 {
            break;
        }
        subject.wait();
        let answer = match serde_json::from_str(&line) {
            Ok(Request::Status) => Answer { status: subject.status(), ..Answer::done() },
            Ok(Request::Reload { name, text }) => match subject.reload(&name, &text) {
                Ok(report) => Answer::reloaded(&report),
                Err(why) => Answer::refused(why),
            },
            Ok(Request::Cores { cores }) => Answer::told(subject.cores(cores)),
            Ok(Request::Move { entry, core }) => Answer::told(subject.put(entry, core, false)),
            Ok(Request::Pin { entry, core }) => Answer::told(subject.put(entry, core, true)),
            Ok(Request::Unpin { entry }) => Answer::told(subject.unpin(entry)),
            Ok(Request::Why { flow }) => match subject.why(flow.as_ref()) {
                Ok(why) => Answer { why: Some(Box::new(why)), ..Answer::done() },
                Err(why) => Answer::refused(why),
            },
            Ok(Request::Set { name, add, remove, seconds }) => {
                let lasts = seconds.map(|seconds| Duration::from_secs(seconds.min(YEAR)));
                match subject.change_set(&name, &add, &remove, lasts) {
                    Ok((told, report)) => {
                        let reload = report.and_then(|report| serde_json::to_value(report).ok());
                        Answer { told: Some(told), reload, ..Answer::done() }
                    }
                    Err(why) => Answer::refused(why),
                }
            }
            Ok(Request::Sets { name, most }) => match subject.sets(name.as_deref(), most) {
                Ok(sets) => Answer { sets: Some(sets), ..Answer::done() },
                Err(why) => Answer::refused(why),
            },
            Ok(Request::Stop) => {
                subject.progress.stop.store(true, Ordering::Relaxed);
                Answer::done()
            }
            // Lines follow from a thread of its own, and others are listened to.
            Ok(Request::Trace { filter, program, count, seconds }) => {
                let traces = filter_of(&filter, &program).and_then(|filter| subject.trace(filter, count));
                let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.min(YEAR)));
                match traces {
                    Ok(traces) => {
                        let subject = Arc::clone(subject);
                        return streams.begin(writer, is_over, move |stream| {
                            stream.trace(&subject, &traces, count, until)
                        });
                    }
                    Err(why) => Answer::refused(why),
                }
            }
            Ok(Request::Drops { per_second, seconds }) => {
                let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.min(YEAR)));
                match subject.tap.start(per_second) {
                    Ok(tapped) => {
                        let subject = Arc::clone(subject);
                        return streams
                            .begin(writer, is_over, move |stream| stream.drops(&subject, &tapped, until));
                    }
                    Err(taken) => Answer::refused(taken),
                }
            }
            Ok(Request::Rules) => match subject.rules() {
                Ok(rules) => Answer { rules: Some(rules), ..Answer::done() },
                Err(why) => Answer::refused(why),
            },
            Ok(Request::KillFlows { filter }) => Answer::told(subject.kill(&filter)),
            Ok(Request::Flows { filter, limit }) => match subject.flows(&filter) {
                Ok((mut flows, wanted)) => {
                    let subject = Arc::clone(subject);
                    return streams.begin(writer, is_over, move |stream| {
                        stream.flows(&subject, &mut flows, &wanted, limit.unwrap_or(u64::MAX))
                    });
                }
                Err(why) => Answer::refused(why),
            },
            Err(error) => Answer::refused(format!("this is no request: {error}")),
        };
        let mut answer = serde_json::to_string(&answer)?;
        answer.push('\n');
        writer.write_all(answer.as_bytes())?;
    }
    Ok(())
}

/// SIGHUP, kept from ending the program: it has the chain file read again.
pub struct Hangups(SigSet);

impl Hangups {
    /// Ahead of all other threads, which do as this one does.
    pub fn keep() -> Hangups {
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGHUP);
        // Where that fails the signal does what it did before.
        let _ = signals.thread_block();
        Hangups(signals)
    }

    /// Reloads at each, on a thread of its own that ends with the program.
    pub fn reload(self, subject: Arc<Subject>) {
        thread::spawn(move || {
            while self.0.wait().is_ok() {
                subject.wait();
                // Where standard error is closed nobody reads this.
                let _ = match subject.reload_own_file() {
                    Ok(report) => write!(std::io::stderr(), "{}", report.text()),
                    Err(why) => writeln!(std::io::stderr(), "no reload, the chain before goes on: {why}"),
                };
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Looked at by another thread all the while. No usual umask makes it 0600 by itself.
    #[test]
    fn nobody_ever_finds_the_socket_with_another_mode() {
        let path = std::env::temp_dir().join(format!("paceline-{}-mode", process::id()));
        let is_over = AtomicBool::new(false);
        let seen = thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let mut modes = std::collections::BTreeSet::new();
                while !is_over.load(Ordering::Relaxed) {
                    modes.extend(fs::symlink_metadata(&path).map(|found| found.permissions().mode() & 0o777));
                }
                modes
            });
            let makes = scope.spawn(|| {
                for _ in 0..2_000 {
                    let listener = private(&path).expect("a temporary folder");
                    UnixStream::connect(&path).expect("it listens");
                    drop(listener);
                    fs::remove_file(&path).expect("it is there");
                }
            });
            makes.join().expect("no panic");
            is_over.store(true, Ordering::Relaxed);
            looks.join().expect("no panic")
        });
        assert_eq!(seen, [0o600].into(), "{seen:?}");
    }
}
