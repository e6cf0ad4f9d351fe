//! Packets as Paceline sees them.
//!
//! | layer | what it is |
//! |---|---|
//! | [`parse`](fn@parse) | one pass over a frame's bytes gives one [`Headers`], 64 bytes, plain old data |
//! | [`Headers`] | the parsed header vector: everything that state may depend on |
//! | [`verify`](fn@verify) | whether a frame's checksums are right, on demand |
//! | [`internet_checksum`] | the checksum of headers that are built anew |
//! | [`answer`](fn@answer) | the TCP reset or ICMP error that answers a packet which is rejected |
//! | [`AnswerTo`] | that, or the reply to a ping |
//! | [`IcmpError`] | an ICMP or ICMPv6 error about a packet |
//! | [`fragment`](fn@fragment) | which part of which datagram a fragment carries, on demand |
//! | [`Edits`] | header changes as data; [`apply`] writes them and updates checksums (RFC 1624) |
//! | [`Tunnel`] | outer headers, IP in IP or IP in UDP: an edit that makes a packet longer |
//! | [`Stamp`] | a packet's sequence number and time, given once, by the sequencer |
//!
//! Parsing never panics and never reads outside the frame, on any bytes.
//! This crate is `no_std` and allocates nothing.
#![no_std]

mod addr;
mod answer;
mod checksum;
mod complete;
mod edits;
mod fields;
mod first;
mod fragment;
mod headers;
mod icmp;
mod icmp_error;
mod inside;
mod layout;
mod link;
mod malformed;
mod parse;
mod stamp;
mod tunnel;
mod verify;

pub use addr::{Addr, Side, SidePrefix};
pub use answer::{Answer, AnswerKind, AnswerTo, answer, may_be_answered};
pub use checksum::internet_checksum;
pub use complete::{complete, complete_at, renew};
pub use edits::{ApplyError, Edits, EditsMark, VlanEdit, apply, apply_by_layers, apply_plain};
pub use fields::Fields;
pub use first::First;
pub use fragment::{Datagram, Fragment, fragment};
pub use headers::{Headers, Icmp, Marks, protocol, tcp_flags};
pub use icmp::IcmpPorts;
pub use icmp_error::{IcmpError, IcmpErrorKind};
pub use inside::{Inside, inside};
pub use link::LinkType;
pub use malformed::Malformed;
#[doc(hidden)]
pub use parse::parse_by_layers;
pub use parse::{ParsedBatch, Raw, parse, parse_batch, parse_into};
pub use stamp::{RanBack, Stamp, Stamper};
pub use tunnel::{Tunnel, TunnelVia, leave_tunnel};
pub use verify::{Checksums, verify, verify_into};
