//! Where packets come from and where they go.
//!
//! | module | what it is |
//! |---|---|
//! | [`capture`] | pcap and pcapng files, read and written |
//! | [`filter`] | which packets to pick: expressions of pcap-filter(7) |
//! | [`Port`] | one queue, received from and sent to in batches: the contract |
//! | [`Pool`] | the frames of a port, which other ports may send |
//! | [`contract`] | a test that holds a port to the contract |
//! | [`Tap`] | dropped packets, copied on demand |
//! | [`replay()`] | a port with several queues that is fed packet by packet |
//! | [`Relay`] | rings between a core that has ports and cores behind it that have none |
//! | [`MemoryPort`] | a port that replays a [`Trace`] in memory, for benchmarks |
//! | [`Simulation`] | threads that are simulated on one, which take turns in an order that a seed draws |
//! | [`nic`] | a simulated network card: packets of a trace at an offered rate, descriptors, drops |

pub mod capture;
pub mod contract;
pub mod filter;
mod followed;
mod frame;
mod memory_port;
pub mod nic;
mod packets;
mod pool;
mod port;
mod receive;
mod reference;
mod relay;
mod replay;
mod simulation;
mod stamping;
mod tap;
mod trace;
mod unedited;
mod waiting;

pub use followed::Followed;
pub use frame::{Frame, Note};
pub use memory_port::MemoryPort;
pub use packets::Packets;
pub use pool::{Lent, Pool};
pub use port::{Closed, Done, EngineDrop, Fate, Foreign, MarkedDrops, Port, Queue, Received};
pub use reference::Reference;
pub use relay::{Relay, RelayPort};
pub use replay::{
    Collector, Feeder, QUEUE_FRAMES_MAX, REPLAY_FRAMES_MAX, ReplayPort, as_ready, replay, replay_as_ready,
    replay_in_any_order, replay_one_queue, replay_restamped,
};
pub use simulation::{Simulation, Task, give_way};
pub use stamping::StampClock;
pub use tap::{Dropped, Taken, Tap, Tapped, Why};
pub use trace::Trace;
pub use unedited::Unedited;
pub use waiting::Waiting;
