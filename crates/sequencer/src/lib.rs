//! The packet history sequencer (SCR §3.2, §3.3): sprays packets over cores, and puts before each the
//! history that its core has not seen.
//!
//! ```
//! # use paceline_sequencer as sequencer;
//! use sequencer::{History, ItemLayout, Receiver, Sequencer};
//! use wire::{Headers, LinkType};
//!
//! // Three cores; functions that read the destination port, bytes 46 and 47 of `Headers`.
//! let layout = ItemLayout::new(0b11 << 46);
//! let mut sequencer = Sequencer::new(layout.clone(), 3)?;
//! let mut prefix = vec![0; sequencer.prefix_len()];
//! for (time_ns, dst_port) in [(10, 22), (20, 53), (30, 80)] {
//!     sequencer.next(&Headers { dst_port, ..Headers::default() }, time_ns);
//! }
//! sequencer.prefix(LinkType::Ethernet, &mut prefix);
//! let frame = [&prefix[..], b"the third packet"].concat();
//!
//! let history = History::parse(&frame, &layout)?;
//! let arrival = Receiver::starting_at(0).accept(&history)?;
//! assert!(arrival.lost.is_empty());
//! let ports: Vec<u16> = history.items().map(|(_, headers)| headers.dst_port).collect();
//! assert_eq!(ports, [22, 53]);
//! assert_eq!(history.stamp().seq, 2);
//! assert_eq!(&frame[history.packet_offset()..], b"the third packet");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | part | what it is |
//! |---|---|
//! | [`Layout`] | what items hold, which the [`Version`] of the format says |
//! | [`ItemLayout`] | version 1: which bytes of [`wire::Headers`] an item of history holds, and how they are packed |
//! | [`TypedLayout`] | version 2: where an item has the keys of a chain, and what its functions read |
//! | [`NamedLayout`], [`NamedSequencer`], [`NamedHistory`] | version 3: items are named fields of a P4 program |
//! | [`Sequencer`] | stamps, the ring of the last items, round robin; writes prefixes |
//! | [`History`] | a prefix as it was received: checked once, then read in place |
//! | [`Receiver`] | follows the packets of one core: what is new, what is lost, what goes back |
//! | [`Rejected`] | why a packet is not taken |
//!
//! The format is drawn in `docs/history-format.md`, which C, P4 and RTL cite. Nothing here allocates once it is made, and
//! nothing panics on bytes that were received. This crate is `no_std`.
#![no_std]

extern crate alloc;

mod form;
mod format;
mod history;
mod layout;
mod named;
mod receiver;
mod rejected;
mod sequencer;
mod typed;

pub use form::{Form, Layout, time_ns};
pub use format::{
    ETHERNET_LEN, ETHERTYPE, HEADER_LEN, Kind, MAGIC, MAX_CORES, MAX_RING_ITEMS, Version, outer_ethernet,
};
pub use history::{History, Items};
pub use layout::ItemLayout;
pub use named::{
    NAMED_HEADER_LEN, NAMED_VERSION, NamedFront, NamedHistory, NamedLayout, NamedPart, NamedSequencer,
};
pub use receiver::{Arrival, Receiver};
pub use rejected::Rejected;
pub use sequencer::{CoresOutOfRange, Placed, Sequencer};
pub use typed::{Part, Place, TooLong, TypedLayout, write_key};
