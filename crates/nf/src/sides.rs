//! The inside and the outside of a chain, as network prefixes.

use crate::FixedEnds;
use crate::prefix::PrefixSet;

/// The two sides that a function such as a NAT stands between: see
/// [`TwoSided::sides`](crate::TwoSided::sides).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    /// Hosts of the inside.
    pub inside: PrefixSet,
    /// The function's own addresses on the outside: what is sent to them is for hosts inside.
    pub external: PrefixSet,
    /// Whether an external port is the inside host's own wherever that is free.
    pub keeps_ports: bool,
    /// External ends that always stand for the same inside ends. What is sent to one goes to the core of the inside end, where
    /// its answers come: so functions on the inside see both directions of a connection.
    pub fixed: FixedEnds,
}
