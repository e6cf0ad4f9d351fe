//! Programs that stay at their interfaces when their process dies: links that have a name in a BPF file system.
//!
//! The name says the network namespace, where the program runs, and the interface: `4026531840-native-eth0`. Removing it
//! takes the program off.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::link::{self, AttachMode};
use crate::{Interface, LiveError};

/// The folder of such names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins(PathBuf);

impl Default for Pins {
    /// Where systemd mounts the BPF file system.
    fn default() -> Pins {
        Pins::at("/sys/fs/bpf/paceline")
    }
}

const MODES: [AttachMode; 2] = [AttachMode::Native, AttachMode::Generic];

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
        for path in MODES.map(|mode| self.path(interface, mode)) {
            match fs::remove_file(&path) {
                Ok(()) => was_there = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(cannot("remove", &path, error)),
            }
        }
        Ok(was_there)
    }

    /// Puts a program in the place of the one that a dead process left at the interface, if one did.
    pub(super) fn take_over<'a>(
        &self,
        interface: &Interface,
        program: impl Fn(AttachMode) -> BorrowedFd<'a>,
    ) -> Option<(OwnedFd, AttachMode, Pin)> {
        MODES.into_iter().find_map(|mode| {
            let path = self.path(&interface.name, mode);
            let (link, index) = link::pinned(&path).ok()?;
            // Of an interface that is gone, whatever has its name now.
            if index != interface.index || link::update(link.as_fd(), program(mode)).is_err() {
                let _ = fs::remove_file(&path);
                return None;
            }
            Some((link, mode, Pin { path, outlives: true }))
        })
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

    fn path(&self, interface: &str, mode: AttachMode) -> PathBuf {
        // Several namespaces may have interfaces of one name, and one BPF file system.
        let namespace = fs::metadata("/proc/thread-self/ns/net").map_or(0, |found| found.ino());
        // The kernel takes no names with dots there. No interface has a colon.
        self.0.join(format!("{namespace}-{mode}-{}", interface.replace('.', ":")))
    }
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
