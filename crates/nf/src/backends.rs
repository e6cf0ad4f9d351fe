//! Backends of a function that spreads flows over them, as those see them who list, change and check them while a run goes on.

use alloc::string::String;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

/// A backend of a service, as the chain file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Where it stands in the chain file: the number of its service, and its own among the service's backends, from 0.
    pub place: (usize, usize),
    /// The service, for people: `tcp 192.0.2.80:80`.
    pub service: String,
    /// What it is: `198.51.100.10:8080`.
    pub name: String,
    /// Its address; `None` if it is known by its MAC address alone.
    pub address: Option<IpAddr>,
    /// What the chain file, or a hand, says that it takes: `active`, `drain` or `down`.
    pub state: &'static str,
    /// Its share of new flows, relative to the others'. 0: none.
    pub weight: u32,
    /// Whether checks found it down.
    pub is_failed: bool,
    /// How it is checked, if it is.
    pub check: Option<Check>,
}

/// How a backend is checked while a run on interfaces goes on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Check {
    /// Where to connect to.
    pub at: SocketAddr,
    /// What to ask for by HTTP once connected; without it the connection is all.
    pub http: Option<HttpCheck>,
    /// From the begin of a check to the begin of the next.
    pub interval: Duration,
    /// How long a check may take as a whole.
    pub timeout: Duration,
    /// After so many good checks in a row a backend that failed takes flows again.
    pub rise: u32,
    /// After so many bad checks in a row a backend has failed.
    pub fall: u32,
}

/// A request by HTTP that a backend has to answer with a status from 200 to 399.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HttpCheck {
    /// The host that the request names; empty: where it connects to.
    pub host: String,
    /// What is asked for, from its first `/` on.
    pub path: String,
}
