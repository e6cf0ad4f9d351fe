//! What can go wrong with an interface.

use std::io;

use thiserror::Error;

/// Why an interface cannot be used. Each says what to do.
#[derive(Debug, Error)]
pub enum LiveError {
    /// There is none of that name.
    #[error("there is no interface `{name}`\n{}", others(.there))]
    NoInterface {
        /// What was asked for.
        name: String,
        /// Those that there are.
        there: Vec<String>,
    },
    /// It is not up.
    #[error("interface `{name}` is down\nTake it up first: ip link set {name} up")]
    Down {
        /// Its name.
        name: String,
    },
    /// It has no Ethernet header.
    #[error(
        "interface `{name}` carries no Ethernet frames (its hardware type is {hardware})\nUse an Ethernet interface."
    )]
    NotEthernet {
        /// Its name.
        name: String,
        /// `ARPHRD_*` of the kernel.
        hardware: u16,
    },
    /// This program may not do that.
    #[error(
        "{what} needs more rights: {error}\nRun as root, or with CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF."
    )]
    Rights {
        /// What was tried.
        what: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// A system call failed.
    #[error("{what}: {error}{}", help.as_ref().map(|help| format!("\n{help}")).unwrap_or_default())]
    System {
        /// What was tried, on which interface.
        what: String,
        /// What the kernel said.
        error: io::Error,
        /// What to do, where that is known.
        help: Option<String>,
    },
    /// It cannot be done this way, whatever the rights.
    #[error("{what}\n{help}")]
    Refused {
        /// What cannot be done, and why.
        what: String,
        /// What to do.
        help: String,
    },
}

impl LiveError {
    /// Whether somebody else has what is asked for: another program at the interface, or a socket at its queue.
    pub(crate) fn is_in_the_way(&self) -> bool {
        let LiveError::System { error, .. } = self else { return false };
        matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
    }

    /// The last error of the system, of what was tried.
    pub(crate) fn last(what: impl Into<String>) -> LiveError {
        LiveError::of(what, io::Error::last_os_error())
    }

    /// An error of the system, of what was tried.
    pub(crate) fn of(what: impl Into<String>, error: io::Error) -> LiveError {
        let what = what.into();
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => LiveError::Rights { what, error },
            _ => LiveError::System { what, error, help: None },
        }
    }

    /// An error of the system, of what was tried, and what to do about it.
    pub(crate) fn helped(what: impl Into<String>, error: io::Error, help: impl Into<String>) -> LiveError {
        LiveError::System { what: what.into(), error, help: Some(help.into()) }
    }

    /// Something that cannot be done this way, and what to do.
    pub(crate) fn refused(what: impl Into<String>, help: impl Into<String>) -> LiveError {
        LiveError::Refused { what: what.into(), help: help.into() }
    }
}

fn others(there: &[String]) -> String {
    match there {
        [] => "There is none at all.".to_owned(),
        there => format!("There are: {}.", there.join(", ")),
    }
}
