//! Where packets come from and where they go.
//!
//! | module | what it is |
//! |---|---|
//! | [`capture`] | pcap and pcapng files, read and written |
//! | [`Port`] | one queue, received from and sent to in batches; frames live in the port's own pool |
//! | [`replay()`] | a port with several queues that is fed packet by packet |
//! | [`MemoryPort`] | a port that replays a [`Trace`] in memory, for benchmarks |
//! | [`nic`] | a simulated network card: packets of a trace at an offered rate, descriptors, drops |

pub mod capture;
mod frame;
mod memory_port;
pub mod nic;
mod packets;
mod pool;
mod port;
mod replay;
mod trace;
mod waiting;

pub use frame::Frame;
pub use memory_port::MemoryPort;
pub use packets::Packets;
pub use port::{Closed, Done, EngineDrop, Fate, Port, Queue, Received};
pub use replay::{
    Collector, Feeder, QUEUE_FRAMES_MAX, REPLAY_FRAMES_MAX, ReplayPort, replay, replay_as_ready,
    replay_in_any_order, replay_restamped,
};
pub use trace::Trace;
pub use waiting::Waiting;
