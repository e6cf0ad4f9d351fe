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
}

impl LiveError {
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
}

fn others(there: &[String]) -> String {
    match there {
        [] => "There is none at all.".to_owned(),
        there => format!("There are: {}.", there.join(", ")),
    }
}
