//! Network namespaces for tests, which end with the threads that are in them.

#![allow(unsafe_code)]

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Runs a test in a network namespace of its own, on a thread of its own: the namespace is gone when the thread is, also
/// after a panic. Without the rights for that the test is skipped, and says so.
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(|| match enter() {
        Ok(()) => {
            ip("link set lo up");
            test();
        }
        Err(reason) => println!("skipped: {reason}"),
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Moves this thread into a new network namespace.
fn enter() -> Result<(), String> {
    if Command::new("ip").arg("-V").output().is_err() {
        return Err("there is no `ip` (iproute2)".to_owned());
    }
    // SAFETY: changes the namespace of this thread alone, and takes a plain number.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(format!("no rights to make a network namespace: {}", std::io::Error::last_os_error())),
    }
}

/// Another namespace, whose thread waits until this is dropped.
pub struct Other {
    pub thread_id: i32,
    commands: Sender<(String, Sender<Output>)>,
}

impl Other {
    pub fn new() -> Other {
        let (commands, orders) = channel::<(String, Sender<Output>)>();
        let (told, hears) = channel();
        thread::spawn(move || {
            enter().expect("rights as the first one had");
            // SAFETY: takes nothing and always succeeds.
            told.send(unsafe { libc::gettid() }).expect("whoever waits");
            for (command, answer) in orders {
                let _ = answer.send(run(&command));
            }
        });
        Other { thread_id: hears.recv().expect("a namespace"), commands }
    }

    /// Runs `ip` there.
    pub fn ip(&self, arguments: &str) -> String {
        good(arguments, self.run(&format!("ip {arguments}")))
    }

    /// Runs a command there.
    pub fn run(&self, command: &str) -> Output {
        let (answer, hears) = channel();
        self.commands.send((command.to_owned(), answer)).expect("its thread");
        hears.recv().expect("an answer")
    }
}

fn run(command: &str) -> Output {
    let (program, arguments) = command.split_once(' ').expect("a program and what it takes");
    Command::new(program).args(arguments.split_whitespace()).output().expect("the program")
}

fn good(arguments: &str, output: Output) -> String {
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Runs `ip` here; what it prints.
pub fn ip(arguments: &str) -> String {
    good(arguments, run(&format!("ip {arguments}")))
}

/// Runs `ip`; what it prints, or complains.
pub fn try_ip(arguments: &str) -> Result<String, String> {
    let output = run(&format!("ip {arguments}"));
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).expect("text")),
        false => Err(String::from_utf8(output.stderr).expect("text")),
    }
}

/// Runs many commands of `ip`, one a line; those that fail are left out.
pub fn ip_batch(lines: &str) {
    let mut child = Command::new("ip")
        .args(["-force", "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("ip");
    child.stdin.take().expect("its input").write_all(lines.as_bytes()).expect("written");
    child.wait().expect("ended");
}

/// A busy machine takes its time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Tries until it holds, for a minute at most.
pub fn soon(holds: impl FnMut() -> bool) -> bool {
    within(PATIENCE, holds)
}

/// Tries until it holds, for so long at most.
pub fn within(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + patience;
    while Instant::now() < end {
        if holds() {
            return true;
        }
        thread::sleep(Duration::from_millis(5));
    }
    false
}
