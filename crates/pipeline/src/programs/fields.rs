//! The header vector of the programs by hand.

use io::capture::Record;
use nf::{FiveTuple, FlowKey, hash_bytes};
use wire::{Headers, parse};
use zerocopy::IntoBytes;

/// Header fields and metadata in twelve containers: see [`field`].
pub type Fields = [u64; 12];

/// What each container of [`Fields`] holds. The first eight come from the parser and are never edited.
pub mod field {
    /// Hash of the 5-tuple.
    pub const FLOW: usize = 0;
    /// Hash of the two addresses.
    pub const PAIR: usize = 1;
    /// Destination port.
    pub const DST_PORT: usize = 2;
    /// TCP flags.
    pub const FLAGS: usize = 3;
    /// TCP acknowledgment number.
    pub const ACK: usize = 4;
    /// Bytes on the wire.
    pub const BYTES: usize = 5;
    /// Time in ns.
    pub const TIME_NS: usize = 6;
    /// Time to live.
    pub const TTL: usize = 7;
    /// What was read from the first table.
    pub const STATE: usize = 8;
    /// A second word of it, or what was read from the second table.
    pub const SECOND: usize = 9;
    /// The new state.
    pub const NEXT: usize = 10;
    /// What leaves the pipeline.
    pub const OUTPUT: usize = 11;
}

/// Fills the first eight containers.
pub fn fields(record: &Record<'_>) -> Fields {
    let headers: Headers = parse(record.link, record.data, record.wire_len);
    let tuple = FiveTuple::of(&headers);
    let mut fields = [0; 12];
    fields[field::FLOW] = hash_bytes(tuple.as_bytes(), 0);
    fields[field::PAIR] = hash_bytes(&[tuple.src.as_bytes(), tuple.dst.as_bytes()].concat(), 0);
    fields[field::DST_PORT] = headers.dst_port.into();
    fields[field::FLAGS] = headers.tcp_flags.into();
    fields[field::ACK] = headers.ack.into();
    fields[field::BYTES] = record.wire_len.into();
    fields[field::TIME_NS] = record.time_ns;
    fields[field::TTL] = headers.ttl.into();
    fields
}
