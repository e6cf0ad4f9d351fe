//! The run's end of the control socket.

use std::env;
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
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use nix::sys::stat::{Mode, fchmod};

use super::sets::Expiring;
use super::streams::{Stream, Streams};
use super::subject::Subject;
use super::words::{Answer, REQUEST_MAX, Request};
use crate::explain::Code;
use crate::failure::Failure;

/// How long a client that is connected may say nothing: others wait meanwhile.
const SILENCE: Duration = Duration::from_secs(2);

/// What is controlled, and answers requests.
pub trait Controlled: Send + Sync + 'static {
    /// Waits until it goes on: a client that asks at once need not ask again.
    fn wait(&self);

    /// Does what is asked, or says why not.
    fn reply(self: &Arc<Self>, request: Request) -> Reply;

    /// What ends some of it in time, where something does.
    fn expiring(self: &Arc<Self>) -> Option<Expiring> {
        None
    }
}

/// Tells lines, one after the other, on a thread of its own.
type Telling = Box<dyn FnOnce(&mut Stream) -> std::io::Result<()> + Send>;

/// What is said to a request.
pub enum Reply {
    /// One answer.
    Answer(Box<Answer>),
    /// That all is well, and lines behind it.
    Lines(Telling),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Reply {
        Reply::Answer(Box::new(answer))
    }
}

/// A socket that answers, as long as this is held; then it is gone.
pub struct Control {
    path: PathBuf,
    is_over: Arc<AtomicBool>,
    streams: Arc<Streams>,
    thread: Option<JoinHandle<()>>,
    /// Takes prefixes out of sets when their time is over. It sleeps till then, and ends with the program.
    expiring: Option<Expiring>,
}

impl Control {
    /// Makes the socket, with mode 0600, and answers all that may connect. One that is left of a run that died is
    /// replaced.
    pub fn start<S: Controlled>(path: &Path, subject: Arc<S>) -> Result<Control, Failure> {
        let listener = listen(path).map_err(|error| {
            let help = match error.kind() {
                ErrorKind::AddrInUse => {
                    "Another run has it, or it is no socket: give another with --control."
                }
                _ => "Give a path where a socket can be made with --control.",
            };
            Failure::usage(format!("cannot make the control socket {}: {error}\n{help}", path.display()))
                .coded(Code::CannotListen)
        })?;
        let expiring = subject.expiring();
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

    /// Makes the socket that was asked for; else the one where everybody looks, if it is free.
    pub fn start_at<S: Controlled>(
        path: Option<&Path>,
        subject: &Arc<S>,
    ) -> Result<Option<Control>, Failure> {
        match Control::start(&path.map_or_else(default_path, Path::to_owned), Arc::clone(subject)) {
            Ok(control) => Ok(Some(control)),
            Err(failure) if path.is_some() => Err(failure),
            Err(failure) => {
                eprintln!("note: no `paceline ctl` for this run: {failure}");
                Ok(None)
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.expiring.iter().for_each(Expiring::end);
        // So that it looks.
        let woken = UnixStream::connect(&self.path).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
        self.streams.join();
        let _ = fs::remove_file(&self.path);
    }
}

/// Where the socket is if nobody says.
pub fn default_path() -> PathBuf {
    let folder = env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    folder.map_or_else(|| PathBuf::from("/run"), PathBuf::from).join("paceline.sock")
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
fn serve<S: Controlled>(
    stream: UnixStream,
    subject: &Arc<S>,
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
        let reply = match serde_json::from_str(&line) {
            Ok(request) => subject.reply(request),
            Err(error) => Answer::refused(format!("this is no request: {error}")).into(),
        };
        let answer = match reply {
            Reply::Answer(answer) => answer,
            // Lines follow from a thread of its own, and others are listened to.
            Reply::Lines(tell) => return streams.begin(writer, is_over, tell),
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
        self.each(move || {
            subject.wait();
            match subject.reload_own_file() {
                Ok(report) => report.text(),
                Err(why) => format!("no reload, the chain before goes on: {why}\n"),
            }
        });
    }

    /// Does this at each, on a thread of its own that ends with the program, and says what came of it.
    pub fn each(self, what: impl Fn() -> String + Send + 'static) {
        thread::spawn(move || {
            while self.0.wait().is_ok() {
                // Where standard error is closed nobody reads this.
                let _ = write!(std::io::stderr(), "{}", what());
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
