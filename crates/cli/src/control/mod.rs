//! The control socket of a run on interfaces: `docs/control.md`.
//!
//! | file | what it is |
//! |---|---|
//! | `words` | requests and answers, as JSON lines |
//! | `server` | the run's end |
//! | `client` | the end of who asks |

mod client;
mod server;
mod words;

use std::env;
use std::path::PathBuf;

pub use self::client::ask;
pub use self::server::{Control, Hangups, Subject};
pub use self::words::Request;

/// Where the socket is if nobody says.
pub fn default_path() -> PathBuf {
    let folder = env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    folder.map_or_else(|| PathBuf::from("/run"), PathBuf::from).join("paceline.sock")
}
