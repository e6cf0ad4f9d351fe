//! The control socket of a run on interfaces: `docs/control.md`.
//!
//! | file | what it is |
//! |---|---|
//! | `words` | requests and answers, as JSON lines |
//! | `flow`, `wanted` | a flow as a user writes it; which flows are wanted |
//! | `subject` | what is controlled: a run |
//! | `expiries` | when addresses leave a chain's sets |
//! | `sets` | addresses that come into a chain's sets and leave them |
//! | `server` | the run's end |
//! | `streams` | answers of many lines, each in a thread of its own |
//! | `client` | the asking end |
//! | `inspect` | what the page of a run asks |

mod client;
mod expiries;
mod flow;
mod inspect;
mod server;
mod sets;
mod streams;
mod subject;
mod unwritten;
mod wanted;
mod words;

use std::env;
use std::path::PathBuf;

pub use self::client::{ask, follow};
pub use self::expiries::Changes;
pub use self::flow::FlowWords;
pub use self::server::{Control, Hangups};
pub use self::subject::{Subject, external};
pub use self::unwritten::Unwritten;
pub use self::wanted::FlowFilter;
pub use self::words::{
    COUNT, COUNT_MAX, Line, ListEnd, MEMBERS, MEMBERS_MAX, PER_SECOND, Request, RuleLine, SetStatus,
    program_of,
};

/// Where the socket is if nobody says.
pub fn default_path() -> PathBuf {
    let folder = env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    folder.map_or_else(|| PathBuf::from("/run"), PathBuf::from).join("paceline.sock")
}
