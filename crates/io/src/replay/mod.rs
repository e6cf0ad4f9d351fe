//! A port with several queues that is fed from memory: what a network card does, in software.
//!
//! ```text
//!            send(queue, frame)                      send(done)
//!   Feeder ───────────────────────► ReplayPort 0 ──────────────────┐
//!     ▲   ├───────────────────────► ReplayPort 1 ──────────────────┤
//!     │   └───────────────────────► ReplayPort … ──────────────────┴──► Collector
//!     │                                                                    │
//!     └────────────── the arena: bytes, taken and given back in order ◄────┘
//! ```
//!
//! With [`replay_one_queue`] all ports receive from one queue, each the next packets that nobody has.
//!
//! Every frame comes out of the [`Collector`] once, dropped or not, in the order in which the
//! [`Feeder`] took them: so the output is the same for any number of queues. Or, with [`replay_as_ready`], in
//! the order in which queues send them: no packet waits for another. Each arrow is a bounded
//! single-producer ring. A side that goes away, by ending or by panic, is noticed by the others; no
//! one waits for ever.

mod arena;
mod collector;
mod ends;

pub use collector::Collector;
pub use ends::{
    Feeder, QUEUE_FRAMES_MAX, REPLAY_FRAMES_MAX, ReplayPort, as_ready, replay, replay_as_ready,
    replay_in_any_order, replay_one_queue, replay_restamped,
};
