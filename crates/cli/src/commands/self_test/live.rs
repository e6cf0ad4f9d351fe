//! The check on interfaces: in a network namespace of its own, frames from one virtual interface to another.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ::io::capture::CaptureReader;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::signal::{self, Signal};
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{self, AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};
use nix::sys::time::TimeVal;
use nix::unistd::{Pid, Uid};
use serde_json::Value;

use super::outcome::Outcome;
use super::own::Own;
use crate::failure::{self, Failure};
use crate::output::{self, count};

/// Frames that go through.
const FRAMES: usize = 1_000;
/// Frames on their way at one time: fewer than any queue between the two ends holds.
const BURST: usize = 32;
/// How long an end waits for what has to come. A machine that is busy takes its time.
const PATIENCE: Duration = Duration::from_secs(30);
/// The two hosts' ends, and the two that the run has.
const INTERFACES: [(&str, &str); 2] = [("host-in", "pace-in"), ("host-out", "pace-out")];

/// Runs this program in a network namespace, where it runs itself between two interfaces.
pub fn check(own: &Own) -> Outcome {
    if let Err(why) = own.output(&mut apart("true"), "unshare --net -- true", 0) {
        return Outcome::NotTried(format!("it takes a network namespace, and this user gets none: {why}"));
    }
    let mut command = apart(own.program());
    command.args(["self-test", "--in-namespace"]).arg(own.folder());
    match own.output(&mut command, "unshare --net -- paceline self-test --in-namespace .", 0) {
        Ok(line) => match line.trim().split_once(' ') {
            Some(("ok", what)) => Outcome::Holds(what.to_owned()),
            Some(("left-out", why)) => Outcome::NotTried(why.to_owned()),
            _ => Outcome::Fails(format!("it wrote {line:?}")),
        },
        Err(why) => Outcome::Fails(why),
    }
}

/// A program in a network namespace of its own. A user who is not root gets rights over it from a user namespace, where the
/// kernel lets users have one.
fn apart(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("unshare");
    command.arg("--net");
    if !Uid::effective().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.arg("--").arg(program);
    command
}

/// The check itself, within the namespace. Prints one line; returns the exit status.
pub fn inside(folder: &Path) -> Result<u8, Failure> {
    let line = match interfaces() {
        Err(why) => format!("left-out {why}"),
        Ok(()) => match through(folder) {
            Ok(what) => format!("ok {what}"),
            Err(error) => {
                eprintln!("{error}");
                return Ok(failure::DIFFERENT);
            }
        },
    };
    output::print(&format!("{line}\n"))?;
    Ok(0)
}

/// Makes two pairs of virtual interfaces.
fn interfaces() -> Result<(), String> {
    for (host, own) in INTERFACES {
        ip(&["link", "add", host, "type", "veth", "peer", "name", own])?;
        for name in [host, own] {
            // The kernel's own packets are not in the way; without IPv6 there is nothing to turn off.
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
            ip(&["link", "set", name, "up"])?;
        }
    }
    Ok(())
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output();
    let output = output.map_err(|error| format!("it takes the program `ip` (iproute2): {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("no virtual interfaces here: `ip {}`: {}", arguments.join(" "), said.trim()))
}

/// Runs a chain between the two interfaces and sends frames through it.
fn through(folder: &Path) -> Result<String, String> {
    let notices = Notices::open(folder)?;
    let [(from, inside), (to, outside)] = INTERFACES;
    let report = folder.join("live.json");
    let log = folder.join("live.log");
    let mut run = Command::new(std::env::current_exe().map_err(text)?);
    run.args(["run", "statistics.toml", "--inside", inside, "--outside", outside, "--control"])
        .arg(folder.join("control.sock"))
        .arg("--json")
        .arg(&report)
        .current_dir(folder)
        .env("NOTIFY_SOCKET", &notices.path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).map_err(text)?);
    let mut run = Run(run.spawn().map_err(text)?);
    let said = || fs::read_to_string(&log).unwrap_or_default().trim().to_owned();
    notices.ready(&mut run).map_err(|why| format!("{why}: {}", said()))?;
    let frames = frames(folder)?;
    let came = exchange(&socket(from)?, &socket(to)?, &frames)?;
    let ended = run.end()?;
    if !ended.success() {
        return Err(format!("the run ends with {ended}: {}", said()));
    }
    if came < frames.len() {
        return Err(format!("{came} of {} frames came through as they were sent: {}", frames.len(), said()));
    }
    let report: Value =
        fs::read(&report).map_err(text).and_then(|bytes| serde_json::from_slice(&bytes).map_err(text))?;
    let kind = report["interfaces"][0]["socket"].as_str().unwrap_or("sockets of an unknown kind");
    Ok(format!(
        "{} of {} frames came through between two interfaces, by {kind}",
        count(came as u64),
        count(came as u64)
    ))
}

/// The first frames of the capture.
fn frames(folder: &Path) -> Result<Vec<Vec<u8>>, String> {
    let mut reader = CaptureReader::open(folder.join("capture.pcap")).map_err(text)?;
    let mut frames = Vec::new();
    while let Some(record) = reader.next().map_err(text)?
        && frames.len() < FRAMES
    {
        frames.push(record.data.to_vec());
    }
    Ok(frames)
}

/// Sends every frame, and returns how many of them came.
fn exchange(from: &OwnedFd, to: &OwnedFd, frames: &[Vec<u8>]) -> Result<usize, String> {
    let mut buffer = vec![0; 1 << 16];
    let mut came = 0;
    for burst in frames.chunks(BURST) {
        let mut missing: HashMap<&[u8], usize> = HashMap::new();
        for frame in burst {
            *missing.entry(frame.as_slice()).or_default() += 1;
            socket::send(from.as_raw_fd(), frame, MsgFlags::empty()).map_err(text)?;
        }
        let end = Instant::now() + PATIENCE;
        while !missing.is_empty() {
            let length = match socket::recv(to.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(length) => length,
                Err(Errno::EAGAIN | Errno::EINTR) if Instant::now() < end => continue,
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok(came),
                Err(error) => return Err(text(error)),
            };
            // Other frames, such as the kernel's own, are nobody's.
            if let Some(left) = missing.get_mut(&buffer[..length]) {
                *left -= 1;
                came += 1;
                if *left == 0 {
                    missing.remove(&buffer[..length]);
                }
            }
        }
    }
    Ok(came)
}

/// A socket of an interface's frames.
fn socket(interface: &str) -> Result<OwnedFd, String> {
    let family = AddressFamily::Packet;
    let fd =
        socket::socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll).map_err(text)?;
    let all = getifaddrs().map_err(text)?;
    let address = all
        .filter(|one| one.interface_name == interface)
        .find_map(|one| one.address?.as_link_addr().copied())
        .ok_or_else(|| format!("the interface {interface} is gone"))?;
    socket::bind(fd.as_raw_fd(), &address).map_err(text)?;
    socket::setsockopt(&fd, ReceiveTimeout, &TimeVal::new(0, 100_000)).map_err(text)?;
    Ok(fd)
}

/// Where the run says that it is ready, as to a service manager.
struct Notices {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Notices {
    fn open(folder: &Path) -> Result<Notices, String> {
        let path = folder.join("notify.sock");
        let socket = UnixDatagram::bind(&path).map_err(text)?;
        socket.set_read_timeout(Some(Duration::from_millis(100))).map_err(text)?;
        Ok(Notices { socket, path })
    }

    /// Waits until the run is ready.
    fn ready(&self, run: &mut Run) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        let mut notice = [0; 4096];
        while Instant::now() < end {
            match self.socket.recv(&mut notice) {
                Ok(length) if notice[..length].starts_with(b"READY=1") => return Ok(()),
                Err(error)
                    if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
                {
                    return Err(text(error));
                }
                _ => {}
            }
            if let Some(ended) = run.0.try_wait().map_err(text)? {
                return Err(format!("the run ends with {ended} at its start"));
            }
        }
        Err(format!("the run is not ready after {} s", PATIENCE.as_secs()))
    }
}

/// A run that does not outlive the check.
struct Run(Child);

impl Run {
    /// Has it end as Ctrl-C does.
    fn end(&mut self) -> Result<ExitStatus, String> {
        signal::kill(Pid::from_raw(self.0.id() as i32), Signal::SIGINT).map_err(text)?;
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(ended) = self.0.try_wait().map_err(text)? {
                return Ok(ended);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Err(format!("the run did not end within {} s of Ctrl-C", PATIENCE.as_secs()))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // It may have ended, and then there is nobody to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
