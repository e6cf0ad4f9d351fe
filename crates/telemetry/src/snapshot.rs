use std::sync::Arc;
use std::time::Duration;

use crate::counts::{CoreCounts, FunctionCounts};
use crate::layout::Layout;

/// What the cores had published at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What the counters are called.
    pub layout: Arc<Layout>,
    /// Since the run began; 0 before that.
    pub elapsed: Duration,
    /// Each core.
    pub cores: Vec<CoreSnapshot>,
    /// The network interfaces, where packets come from some.
    pub interfaces: Vec<InterfaceSnapshot>,
}

/// What an interface had counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceSnapshot {
    /// Its name.
    pub name: String,
    /// Packets received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that did not come in or did not leave, by reason.
    pub lost: Vec<(&'static str, u64)>,
}

/// What one core had published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreSnapshot {
    /// The core itself.
    pub counts: CoreCounts,
    /// Malformed packets, dropped or not, in the order of [`Layout::malformed`].
    pub malformed: Vec<u64>,
    /// Its functions, in the order of [`Layout::functions`].
    pub functions: Vec<FunctionSnapshot>,
}

/// What one function on one core had published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionSnapshot {
    /// The function itself.
    pub counts: FunctionCounts,
    /// By drop reason, in the order of its layout.
    pub drops: Vec<u64>,
    /// By event, in the order of its layout.
    pub events: Vec<u64>,
}
