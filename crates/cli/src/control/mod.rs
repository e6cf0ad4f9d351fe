//! The control socket of a run on interfaces: `docs/control.md`.
//!
//! | file | what it is |
//! |---|---|
//! | `words` | requests and answers, as JSON lines |
//! | `flow`, `wanted` | a flow as a user writes it; which flows are wanted |
//! | `subject`, `replies` | what is controlled: a run of a chain; what it answers |
//! | `in_kernel` | how a program in the kernel goes on, as data and as text |
//! | `expiries` | when addresses leave a chain's sets |
//! | `sets` | addresses that come into a chain's sets and leave them |
//! | `backends` | backends of a chain's functions that come and go |
//! | `health`, `checks` | how backends answer checks; the thread that checks them |
//! | `chain_file` | a chain file's functions and backends, as tables |
//! | `server` | the run's end |
//! | `streams` | answers of many lines, each in a thread of its own |
//! | `client` | the asking end |
//! | `inspect` | what the page of a run asks |

mod backends;
mod chain_file;
mod checks;
mod client;
mod expiries;
mod flow;
mod health;
mod in_kernel;
mod inspect;
mod replies;
mod server;
mod sets;
mod streams;
mod subject;
mod unwritten;
mod wanted;
mod words;

pub use self::checks::Checking;
pub use self::client::{ask, follow};
pub use self::expiries::Changes;
pub use self::flow::FlowWords;
pub use self::health::Health;
pub use self::in_kernel::{CpuStatus, FillStatus, KernelStatus, TableListing, TableStatus};
pub use self::server::{Control, Controlled, Hangups, Reply, default_path};
pub use self::subject::{Subject, external};
pub use self::unwritten::Unwritten;
pub use self::wanted::FlowFilter;
pub use self::words::{
    Answer, BackendChange, BackendStatus, COUNT, COUNT_MAX, CoreStatus, InterfaceCounts, Line, ListEnd,
    MEMBERS, MEMBERS_MAX, PER_SECOND, Request, RuleLine, SetStatus, Status, TunableLine, program_of,
};
