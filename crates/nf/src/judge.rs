//! Judges: what says of a function's answers, one by one, whether they are right.

use alloc::string::String;
use alloc::vec::Vec;

use wire::{Edits, LinkType, Stamp};

/// Judges a run of a function whose answers depend on how its pool is shared out, so that no two runs need agree on them:
/// see [`Pooled::judge`](crate::Pooled::judge). It sees what came and what became of it, and nothing of the function.
pub trait Judge {
    /// Sees a packet that came to the function. Packets come in order of arrival, each once.
    fn packet(&mut self, passage: &Passage<'_>) -> Ruling;

    /// Sees what the function counted on all cores of the run, behind the last packet. Each sentence says what is wrong
    /// with that.
    fn end(&mut self, counted: &Counted<'_>) -> Vec<String>;
}

/// How the run goes that a judge sees.
#[derive(Clone, Copy, Debug)]
pub struct Hearing {
    /// Whether each core gives out its own share of the pool.
    pub is_divided: bool,
    /// How many shares of the pool there are.
    pub shares: u64,
    /// Whether packets are spread by a port alone, which both sides of a connection have:
    /// [`Sides::keeps_ports`](crate::Sides::keeps_ports).
    pub spreads_by_port: bool,
    /// Whether a full table evicts flows, which then end early.
    pub evicts: bool,
    /// How many packets may come to one core ahead of an earlier one on another; 0 where all see each other in order.
    pub in_flight: u64,
}

/// A packet that came to a function.
#[derive(Clone, Copy, Debug)]
pub struct Passage<'a> {
    /// Its number and time.
    pub stamp: Stamp,
    /// What its bytes begin with.
    pub link: LinkType,
    /// Its bytes on the wire, as it came to the chain; more than `came` has where the capture cut it.
    pub wire_len: u32,
    /// Its bytes as it came to the chain.
    pub came: &'a [u8],
    /// What became of it.
    pub left: Left<'a>,
}

/// What became of a packet that came to a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left<'a> {
    /// The function dropped it, for this reason: an index into [`About::drop_reasons`](crate::About::drop_reasons).
    Dropped(u8),
    /// It passed the function, and left the chain with these bytes.
    Sent(&'a [u8]),
    /// It passed the function, and another one ended its way: what the function made of it does not show.
    Unseen,
}

/// What a packet is to hosts that answer on the far side of a function: see [`Pooled::role`](crate::Pooled::role).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It goes to one of these hosts, which may answer.
    Asks,
    /// It comes from one of these hosts, or says of a packet to one what became of it.
    Answers,
    /// Neither.
    Other,
}

/// What a judge says of a packet.
#[derive(Clone, Debug)]
pub struct Ruling {
    /// Why the answer is wrong, if it is.
    pub wrong: Option<String>,
    /// Which allocation the packet's sender has: one more than the number of the packet that it was made for. 0: none.
    pub own: u64,
    /// Which allocation the packet is for, as it came: it means others in other runs. 0: none.
    pub meant: u64,
    /// The answer is one that only the order in which cores came to packets in flight allows.
    pub in_flight: bool,
    /// Edits of the sent packet that put in place of what was allocated what it stands for: packets of two runs are alike
    /// behind them.
    pub rename: Edits,
}

impl Ruling {
    /// Nothing was allocated for the packet, and it is right.
    pub const NONE: Ruling = Ruling { wrong: None, own: 0, meant: 0, in_flight: false, rename: Edits::NONE };
}

/// What a function counted in a run, on all cores.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// By index of [`About::events`](crate::About::events).
    pub events: &'a [u64],
    /// Flows that a full table evicted.
    pub evicted: u64,
    /// Flows that a full table did not take.
    pub rejected: u64,
}
