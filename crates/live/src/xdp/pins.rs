//! Programs that stay at their interfaces when their process dies: links that have a name in a BPF file system.
//!
//! The name says the network namespace, where the program runs, and the interface: `4026531840-native-eth0`. Removing it
//! takes the program off.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::net::if_::if_nametoindex;

use super::link::{self, AttachMode};
use crate::link_info;
use crate::{Interface, LiveError};

/// How deep a BPF file system is searched, in folders, and how many entries of it at most.
const DEPTH: usize = 8;
const ENTRIES: usize = 100_000;

/// The folder of such names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins(PathBuf);

impl Default for Pins {
    /// Where systemd mounts the BPF file system.
    fn default() -> Pins {
        Pins::at("/sys/fs/bpf/paceline")
    }
}

/// In the place of a mode: the program behind, in the network stack.
const GUARD: &str = "guard";

/// Where programs may run.
pub(super) const MODES: [AttachMode; 2] = [AttachMode::Native, AttachMode::Generic];

impl Pins {
    /// In a folder of a BPF file system, which is made when it is needed.
    pub fn at(folder: impl Into<PathBuf>) -> Pins {
        Pins(folder.into())
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Makes the folder.
    ///
    /// # Errors
    /// [`LiveError`] if there is no BPF file system, or this process may not write there.
    pub fn make(&self) -> Result<(), LiveError> {
        let made = match fs::create_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        };
        made.map_err(|error| cannot("make", &self.0, error))
    }

    /// Takes the program off that a dead process left at an interface of this network namespace, and says whether there
    /// was one. That the interface is gone matters not.
    ///
    /// # Errors
    /// [`LiveError`] if this process may not.
    pub fn unblock(&self, interface: &str) -> Result<bool, LiveError> {
        let mut was_there = false;
        for path in
            MODES.map(|mode| self.path(interface, mode)).into_iter().chain([self.path(interface, GUARD)])
        {
            match fs::remove_file(&path) {
                Ok(()) => was_there = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(cannot("remove", &path, error)),
            }
        }
        Ok(was_there)
    }

    /// The folders in which a process named the program that is at an interface of this network namespace, in all BPF file
    /// systems that are mounted here.
    pub fn search(interface: &str) -> Vec<Pins> {
        let Ok(index) = if_nametoindex(interface) else { return Vec::new() };
        let mut found = Vec::new();
        for mounted in Pins::file_systems() {
            let (mut folders, mut left) = (vec![(mounted, 0)], ENTRIES);
            while let Some((folder, depth)) = folders.pop() {
                let pins = Pins::at(&folder);
                let is_there =
                    |mode| link::pinned(&pins.path(interface, mode)).is_ok_and(|(_, of)| of == index);
                if MODES.into_iter().any(is_there) {
                    found.push(pins);
                }
                let entries = fs::read_dir(&folder).into_iter().flatten().flatten().take(left);
                let entries: Vec<fs::DirEntry> = entries.collect();
                left -= entries.len();
                let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
                let within = entries.iter().filter(|entry| depth < DEPTH && is_folder(entry));
                folders.extend(within.map(|entry| (entry.path(), depth + 1)));
            }
        }
        found
    }

    /// Where BPF file systems are mounted, as this process sees them.
    pub fn file_systems() -> Vec<PathBuf> {
        let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap_or_default();
        let of_line = |line: &str| {
            let mut words = line.split(' ').skip(1);
            let (folder, kind) = (words.next()?, words.next()?);
            (kind == "bpf").then(|| PathBuf::from(unescaped(folder)))
        };
        mounts.lines().filter_map(of_line).collect()
    }

    /// Whether an interface has an XDP program, whosever it is.
    pub fn is_any_at(interface: &str) -> bool {
        if_nametoindex(interface).map_err(io::Error::from).and_then(link_info::has_program).unwrap_or(false)
    }

    /// Puts a program in the place of the one that a dead process left at the interface, where that program runs, if one did.
    pub(super) fn take_over(
        &self,
        interface: &Interface,
        mode: AttachMode,
        program: BorrowedFd<'_>,
    ) -> Option<(OwnedFd, Pin)> {
        let path = self.path(&interface.name, mode);
        let (link, index) = link::pinned(&path).ok()?;
        // Of an interface that is gone, whatever has its name now.
        if index != interface.index || link::update(link.as_fd(), program).is_err() {
            let _ = fs::remove_file(&path);
            return None;
        }
        Some((link, Pin { path, outlives: true }))
    }

    /// Names a link.
    pub(super) fn pin(
        &self,
        interface: &Interface,
        link: BorrowedFd<'_>,
        mode: AttachMode,
    ) -> Result<Pin, LiveError> {
        self.make()?;
        let path = self.path(&interface.name, mode);
        link::pin(link, &path).map_err(|error| cannot("make", &path, error))?;
        Ok(Pin { path, outlives: false })
    }

    /// Names the link of the program behind, or removes the name that a dead process left.
    pub(super) fn pin_guard(
        &self,
        interface: &Interface,
        link: Option<BorrowedFd<'_>>,
    ) -> Result<Option<Pin>, LiveError> {
        let path = self.path(&interface.name, GUARD);
        let _ = fs::remove_file(&path);
        let Some(link) = link else { return Ok(None) };
        self.make()?;
        link::pin(link, &path).map_err(|error| cannot("make", &path, error))?;
        Ok(Some(Pin { path, outlives: false }))
    }

    fn path(&self, interface: &str, mode: impl fmt::Display) -> PathBuf {
        // Several namespaces may have interfaces of one name, and one BPF file system.
        let namespace = fs::metadata("/proc/thread-self/ns/net").map_or(0, |found| found.ino());
        // The kernel takes no names with dots there. No interface has a colon.
        self.0.join(format!("{namespace}-{mode}-{}", interface.replace('.', ":")))
    }
}

/// A path as `/proc/mounts` has it, where spaces and the like are octal: `\040`.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut path = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                path.push(char::from(byte));
                path.push_str(&part[3..]);
            }
            None => path.push_str(part),
        }
    }
    path
}

fn cannot(what: &str, path: &Path, error: io::Error) -> LiveError {
    let what = format!("cannot {what} {}, which keeps an XDP program when its process dies", path.display());
    match error.raw_os_error() {
        Some(libc::EACCES) => LiveError::helped(
            what,
            error,
            "This process may not write there: run it as root, or name a folder of its own in a BPF file system: --pins FOLDER",
        ),
        _ => LiveError::helped(
            what,
            error,
            "It has to be in a BPF file system that this process may write: mount -t bpf bpf /sys/fs/bpf",
        ),
    }
}

/// The name of a link, which is removed when this is dropped, unless it is to outlive the process.
pub(super) struct Pin {
    path: PathBuf,
    pub(super) outlives: bool,
}

impl Pin {
    pub(super) fn remove(mut self) {
        self.outlives = false;
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if !self.outlives {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounted_paths_are_read_back() {
        for (text, path) in
            [("/sys/fs/bpf", "/sys/fs/bpf"), ("/a\\040b/\\134c", "/a b/\\c"), ("\\04", "04"), ("", "")]
        {
            assert_eq!(unescaped(text), path, "{text}");
        }
    }
}
