//! A small network for tests: namespaces, pairs of virtual Ethernet interfaces, and commands that run in them.
//!
//! ```no_run
//! let Some(mut lab) = Lab::new("forward") else { return }; // it has printed why it cannot
//! let (left, right) = (lab.namespace("left"), lab.namespace("right"));
//! lab.pair((&left, "l0"), (&right, "r0"));
//! left.ip("addr add 192.0.2.1/24 dev l0");
//! left.inside(|| Interface::open("l0"));
//! assert!(left.ping("192.0.2.2", 3));
//! ```
//!
//! The names carry the process's number. Dropping the lab removes all of it, after a panic, too; what a killed process
//! left behind is removed by the next lab.

#![allow(unsafe_code, dead_code)]

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What the names of all namespaces of tests begin with.
const PREFIX: &str = "paceline-";
const NAMESPACES: &str = "/run/netns";
/// So soon a program that is being started has let go of the sockets that it got copies of, on a busy machine.
const LETS_GO: Duration = Duration::from_secs(10);

/// The namespaces of one test.
pub struct Lab {
    label: String,
    names: Vec<String>,
}

/// One network namespace. It lives as long as its lab.
#[derive(Clone, Debug)]
pub struct Namespace {
    name: String,
}

impl Lab {
    /// An empty lab; `None`, with the reason printed, where this machine lets nobody have one.
    pub fn new(label: &str) -> Option<Lab> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        remove_stale();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let label = format!("{PREFIX}{}-{number}-{label}", std::process::id());
        let mut lab = Lab { label, names: Vec::new() };
        match lab.try_out() {
            Ok(()) => Some(lab),
            Err(reason) => {
                println!("skipped: {reason}");
                None
            }
        }
    }

    fn try_out(&mut self) -> Result<(), String> {
        // SAFETY: it only reads this process's number of its user.
        if unsafe { libc::geteuid() } != 0 {
            return Err("network namespaces need root".to_owned());
        }
        if Command::new("ping").arg("-V").output().is_err() {
            return Err("`ping` (package iputils-ping) does not run".to_owned());
        }
        let name = format!("{}-try", self.label);
        ip_says(&format!("netns add {name}"))?;
        self.names.push(name.clone());
        ip_says(&format!("-n {name} link add veth0 type veth peer name veth1"))
    }

    /// A new namespace, with its loopback up.
    ///
    /// What a TCP connection has in flight there is less than a receive queue holds. So nothing is lost where a core has no
    /// processor for a while, which happens to a test on a busy machine.
    pub fn namespace(&mut self, label: &str) -> Namespace {
        let name = format!("{}-{label}", self.label);
        ip(&format!("netns add {name}"));
        self.names.push(name.clone());
        let namespace = Namespace { name };
        namespace.ip("link set lo up");
        namespace.write("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 524288");
        namespace
    }

    /// A pair of interfaces, one end in each of two namespaces, both up.
    pub fn pair(&self, left: (&Namespace, &str), right: (&Namespace, &str)) {
        self.pair_of(left, right, 1);
    }

    /// A pair of interfaces, one end in each of two namespaces, with so many receive and transmit queues at each
    /// end.
    ///
    /// Checksums are computed by the sender: virtual interfaces leave them out otherwise, and who takes the frames by
    /// AF_XDP sees wrong ones. IPv6 is silent until an address is added: nothing but the test's packets travels.
    pub fn pair_of(&self, left: (&Namespace, &str), right: (&Namespace, &str), queues: u32) {
        let many = format!("numrxqueues {queues} numtxqueues {queues}");
        ip(&format!(
            "link add {} netns {} {many} type veth peer name {} netns {} {many}",
            left.1, left.0.name, right.1, right.0.name
        ));
        for (namespace, interface) in [left, right] {
            namespace.write(&format!("/proc/sys/net/ipv6/conf/{interface}/addr_gen_mode"), "1");
            namespace.write(&format!("/proc/sys/net/ipv6/conf/{interface}/accept_ra"), "0");
            namespace.inside(|| set_checksum_offload(interface, false));
        }
        for (namespace, interface) in [left, right] {
            namespace.ip(&format!("link set {interface} up"));
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for name in self.names.drain(..).rev() {
            let _ = ip_says(&format!("netns del {name}"));
        }
    }
}

impl Namespace {
    /// Its name, as `ip netns` shows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Leaves checksums and segments of an interface to the receiver of its frames, as virtual interfaces do by
    /// default.
    pub fn offload(&self, interface: &str) {
        self.inside(|| set_checksum_offload(interface, true));
    }

    /// Runs `ip` in it, with arguments separated by blanks.
    ///
    /// # Panics
    /// If `ip` fails.
    pub fn ip(&self, arguments: &str) -> String {
        ip(&format!("-n {} {arguments}", self.name))
    }

    /// A command that is going to run in it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs a command in it, with arguments separated by blanks, to its end.
    pub fn run(&self, program: &str, arguments: &str) -> Output {
        let mut command = self.command(program);
        command.args(arguments.split_whitespace());
        command.output().expect("`ip` is there")
    }

    /// Starts a command in it, with arguments separated by blanks; nobody reads what it prints.
    pub fn start(&self, program: &str, arguments: &str) -> Running {
        let mut command = self.command(program);
        command.args(arguments.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.spawn().expect("`ip` is there"))
    }

    /// Whether all of `count` echo requests are answered, in one of three attempts, each more patient than the one before:
    /// on a busy machine each thread on the way of a packet may be late by tens of milliseconds.
    pub fn ping(&self, address: &str, count: u32) -> bool {
        ["0.3", "1", "3"].iter().any(|interval| self.ping_with(address, count, interval))
    }

    /// Whether all of `count` echo requests are answered within 300 ms.
    pub fn ping_once(&self, address: &str, count: u32) -> bool {
        self.ping_with(address, count, "0.3")
    }

    /// So many seconds are between two requests, and so long `ping` waits for the last answer.
    fn ping_with(&self, address: &str, count: u32, interval: &str) -> bool {
        let output = self.run("ping", &format!("-n -q -i {interval} -W 1 -c {count} {address}"));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let are_answered = output.status.success() && said.contains(" 0% packet loss");
        if !are_answered {
            println!("{said}{}", String::from_utf8_lossy(&output.stderr));
        }
        are_answered
    }

    /// Calls `what` on a thread of its own, whose network namespace is this one. What it opens there stays there.
    pub fn inside<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                self.enter();
                what()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A socket that `bind` binds to an address of this namespace. It is waited for, up to [`LETS_GO`], where the
    /// address was another socket's a moment ago: a program that a test beside this one starts holds copies of all
    /// sockets of this process, until the kernel has replaced it by what it is to execute.
    pub fn bound<S: Send>(&self, bind: impl Fn() -> io::Result<S> + Sync) -> S {
        let until = Instant::now() + LETS_GO;
        loop {
            match self.inside(&bind) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                    thread::sleep(Duration::from_millis(1));
                }
                bound => return bound.unwrap_or_else(|error| panic!("an address of {}: {error}", self.name)),
            }
        }
    }

    /// Moves the calling thread into it, for good.
    pub fn enter(&self) {
        let file = File::open(Path::new(NAMESPACES).join(&self.name)).expect("the lab has made it");
        // SAFETY: the file outlives the call, which changes the network namespace of this thread alone.
        let entered = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
        assert_eq!(entered, 0, "cannot enter {}: {}", self.name, io::Error::last_os_error());
    }

    /// Writes a file of the kernel's settings (`/proc/sys/net/...`) as this namespace has it.
    pub fn write(&self, path: &str, value: &str) {
        self.inside(|| fs::write(path, value)).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

/// A command that is still running. Dropping it ends it.
pub struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `ip` with arguments separated by blanks.
fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().expect("`ip` is there");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn ip_says(arguments: &str) -> Result<(), String> {
    match Command::new("ip").args(arguments.split_whitespace()).output() {
        Err(error) => Err(format!("`ip` (package iproute2) does not run: {error}")),
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Removes namespaces of processes that are gone.
fn remove_stale() {
    let Ok(entries) = fs::read_dir(NAMESPACES) else { return };
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        let pid = rest.split('-').next().unwrap_or_default();
        if pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists() {
            let _ = ip_says(&format!("netns del {name}"));
        }
    }
}

/// `ethtool -K INTERFACE tx on|off`, without the program.
fn set_checksum_offload(interface: &str, is_on: bool) {
    const ETHTOOL_STXCSUM: u32 = 0x17;
    // SAFETY: all arguments are plain numbers; the descriptor is closed below.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    assert!(socket >= 0, "{}", io::Error::last_os_error());
    let mut value = [ETHTOOL_STXCSUM, u32::from(is_on)];
    // SAFETY: all bytes 0 is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name.iter_mut().zip(interface.bytes()).for_each(|(to, byte)| *to = byte as libc::c_char);
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    // SAFETY: the request and its value (`struct ethtool_value`) outlive the call.
    let done = unsafe { libc::ioctl(socket, libc::SIOCETHTOOL as _, &mut request) };
    assert_eq!(done, 0, "checksums of {interface}: {}", io::Error::last_os_error());
    // SAFETY: it was opened above.
    unsafe { libc::close(socket) };
}
