//! Route mode: Paceline as a router, with the kernel's routes and neighbours.
//!
//! The kernel stays the control plane. Routing daemons, DHCP clients and `ip route` write its tables, and it speaks ARP
//! and neighbour discovery. [`Tables`] mirrors them on a control thread; each thread that forwards packets has a
//! [`Forwarder`], which says what becomes of a frame.
//!
//! ```text
//!   kernel ──rtnetlink──► Tables (control thread) ──Snapshot──► Forwarder (one per thread)
//!     ▲                     │ update()                            │ forward() -> Decision
//!     └──── resolve, use ───┘ ◄──────────── rings ────────────────┘
//! ```
//!
//! | type | what it is |
//! |---|---|
//! | [`Tables`] | the mirror: dumped once, then kept up to date by notifications |
//! | [`Snapshot`] | what the mirror held at one time; never changes |
//! | [`Forwarder`] | decides on frames, and edits those that are sent |
//! | [`Unresolved`] | packets whose next hop the kernel is still resolving |
//! | [`RouteDrop`] | why a packet was not forwarded |
//!
//! A forwarder looks for a new snapshot once a batch, by one atomic load. It takes no lock that it would have to wait
//! for, allocates nothing, and makes no system call.
//!
//! What is mirrored: the tables `local` and `main`, which the kernel asks where no `ip rule` says
//! otherwise. Not followed are policy rules, other tables and VRFs, routes with a TOS, source-specific routes (IPv6),
//! encapsulations, and learned path MTUs. Packets are not checked against reverse paths (`rp_filter`); those with a source
//! address of this host, and those with a source route, are dropped before the chain sees them. Multicast is left to the host. Packets above the MTU are not fragmented; their sender is told the MTU.

mod ask;
mod board;
mod compile;
mod forwarder;
mod icmp;
mod limit;
mod message;
mod mirror;
mod netlink;
mod next;
mod reason;
mod screen;
mod snapshot;
mod tables;
mod unresolved;

pub use forwarder::{Came, Decision, Forwarder};
pub use reason::{RouteCounters, RouteDrop};
pub use snapshot::{Link, Neighbour, Path, Route, Snapshot};
pub use tables::Tables;
pub use unresolved::{UNRESOLVED, UNRESOLVED_EACH, Unresolved, WAIT_NS};

#[cfg(test)]
mod tests;
