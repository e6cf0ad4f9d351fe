//! Traces: what is in one ([`Analysis`]: flows, skew, how closely the packets of a flow follow each other), and
//! models that generate one ([`Model`]).
//!
//! ```
//! use paceline_traffic::Analysis;
//! use wire::{LinkType, parse};
//!
//! let mut analysis = Analysis::new(16);
//! let frame = [0; 60];
//! analysis.packet(&parse(LinkType::Ethernet, &frame, 60), 60, 0);
//! assert_eq!(analysis.profile().protocols.not_ip, 1);
//! ```
//!
//! **Flows.** A flow is the packets that agree in a key: the 5-tuple, or the pair of addresses (RAPID's
//! "sIP-dIP", §2.3). Both keys are directed: the two directions of a connection are two flows. Later
//! fragments and protocols without ports have ports 0 in the 5-tuple. A packet that is not IP, or is
//! malformed, belongs to no flow; it still counts as a packet and takes its turn in the pipeline.
//!
//! **Conflict ratio.** RAPID (NSDI'24) §2.3 feeds the packets of a trace back to back, without regard
//! to their times, into a pipeline that updates state with a latency of n cycles, and asks how many come
//! "spaced less than n clock cycles" after another of their flow: these might read state that is about
//! to change. Here:
//! - A packet *conflicts* if it enters the pipeline fewer than n cycles after the packet before it of the
//!   same flow did (distance < n; a packet right behind its predecessor has distance 1 at least).
//! - The ratio is conflicting packets over **all** packets of the trace, those without a flow included:
//!   all pass the pipeline. The first packet of a flow never conflicts.
//! - How many cycles a packet takes depends on the pipeline. [`Profile::conflict_ratio`] is for one that
//!   takes a packet's header vector each cycle. [`Profile::conflict_ratio_by_length`] is for one that
//!   takes 64 bytes each cycle, so that a long packet keeps the next one waiting: n bytes are
//!   ⌈n / 64⌉ cycles. RAPID's pipeline is "1GHz×64Byte", and its Table 6 counts so: the share of packets
//!   within 36 cycles at 256 bytes, 54 at 384 and 72 at 512 is one number, that of 9 packets. So this is
//!   the one to hold against its Table 8, where n is 16.
#![forbid(unsafe_code)]

mod analysis;
mod estimate;
mod flows;
mod model;
mod profile;

pub use analysis::{Analysis, FLOWS_MAX};
pub use model::{Digest, Kind, Model, ModelError, Options, Share, Sizes};
pub use profile::{
    AddressPairs, BYTES_PER_CYCLE, Beyond, FlowCounts, FlowShare, FlowSizePoint, PacketSizes, Profile,
    Protocols, SizeClass, TOP_FLOWS,
};
