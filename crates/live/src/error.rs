//! What can go wrong with an interface.

use std::io;

use caps::{CapSet, Capability};
use thiserror::Error;

/// What sockets at interfaces and programs take.
const FOR_INTERFACES: [Capability; 3] =
    [Capability::CAP_NET_RAW, Capability::CAP_NET_ADMIN, Capability::CAP_BPF];

/// Why an interface cannot be used. Each says what to do.
#[derive(Debug, Error)]
pub enum LiveError {
    /// There is none of that name.
    #[error("there is no interface `{name}`\n{}", others(.name, .there))]
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
    #[error("{what}: {error}\n{}", remedy(.lacks))]
    Rights {
        /// What was tried.
        what: String,
        /// What the kernel said.
        error: io::Error,
        /// The capabilities for it that this thread does not have, such as `CAP_NET_RAW`. None: something else refuses.
        lacks: Vec<String>,
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
    /// Whether what is asked for is taken: another program is at the interface, or a socket at its queue.
    pub(crate) fn is_in_the_way(&self) -> bool {
        let LiveError::System { error, .. } = self else { return false };
        matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
    }

    /// The last error of the system, of what was tried.
    pub(crate) fn last(what: impl Into<String>) -> LiveError {
        LiveError::of(what, io::Error::last_os_error())
    }

    /// An error of the system, of what was tried. It may take any of the rights that interfaces take.
    pub(crate) fn of(what: impl Into<String>, error: io::Error) -> LiveError {
        LiveError::of_rights(what, error, &FOR_INTERFACES)
    }

    /// An error of the system, of what was tried and takes these rights.
    pub(crate) fn of_rights(what: impl Into<String>, error: io::Error, takes: &[Capability]) -> LiveError {
        let what = what.into();
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                let has = caps::read(None, CapSet::Effective).unwrap_or_default();
                let lacks = takes.iter().filter(|takes| !has.contains(*takes)).map(ToString::to_string);
                LiveError::Rights { what, error, lacks: lacks.collect() }
            }
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

/// What to do where the kernel says that this process may not.
fn remedy(lacks: &[String]) -> String {
    match lacks {
        [] => "This process has the capabilities that it takes, so something else refuses: a security module or a filter of \
               system calls (of a container, a service), or a user namespace that does not own the network namespace."
            .to_owned(),
        lacks => format!(
            "This process lacks {}: run it as root, or give it that. In a container root may lack it, too.",
            lacks.join(" and ")
        ),
    }
}

fn others(name: &str, there: &[String]) -> String {
    let near = names::nearest(name, there.iter().map(String::as_str));
    let near = near.map_or_else(String::new, |near| format!("Did you mean `{near}`? "));
    match there {
        [] => "There is none at all.".to_owned(),
        there => format!("{near}There are: {}.", there.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rights are not blamed where they are there.
    #[test]
    fn what_refuses_is_not_guessed() {
        let of = |code, takes: &[Capability]| {
            LiveError::of_rights("cannot", io::Error::from_raw_os_error(code), takes).to_string()
        };
        let other = of(libc::EPERM, &[]);
        assert!(other.contains("something else refuses") && !other.contains("run it as root"), "{other}");
        let busy = of(libc::EBUSY, &FOR_INTERFACES);
        assert_eq!(busy, "cannot: Device or resource busy (os error 16)");
        assert_eq!(remedy(&["CAP_A".to_owned(), "CAP_B".to_owned()]).matches("CAP_A and CAP_B").count(), 1);
    }
}
