//! Captures: pcap and pcapng are read; pcap is written, and pcapng where packets have comments.
//!
//! ```no_run
//! use paceline_io::capture::{CaptureError, CaptureReader, CaptureWriter};
//!
//! # fn main() -> Result<(), CaptureError> {
//! let mut from = CaptureReader::open("in.pcapng.zst")?;
//! let mut to = CaptureWriter::create("out.pcap", wire::LinkType::Ethernet)?;
//! while let Some(record) = from.next()? {
//!     to.write(record.time_ns, record.wire_len, record.data)?;
//! }
//! to.finish()
//! # }
//! ```
//!
//! | layer | what it does |
//! |---|---|
//! | `packing` | gzip and zstd, recognised by their first bytes, become plain bytes |
//! | `window` | a bounded buffer that slides over those bytes and knows its offset |
//! | `pcap`, `pcapng` | find the next packet in the window |
//! | [`CaptureReader`] | names the file in every error, stops after the first |
//! | [`CaptureWriter`] | writes beside the output, renames when whole |
//! | [`CommentedWriter`] | the same in pcapng, with a comment for each packet |
//!
//! Memory is bounded whatever a file claims: [`MAX_PACKET_BYTES`] a packet, [`MAX_BLOCK_BYTES`] a
//! pcapng block, [`MAX_INTERFACES`] a pcapng section, [`MAX_WINDOW_BYTES`] a zstd window.
//!
//! Files are read, not mapped into memory: a mapped file that another process cuts short kills the
//! reader (SIGBUS), and reading through a window that stays in the cache is no slower.

mod commented;
mod error;
mod leaps;
mod link_names;
mod order;
mod packing;
mod pcap;
mod pcapng;
mod reader;
mod record;
mod whole;
mod window;
mod writer;

pub use commented::CommentedWriter;
pub use error::{At, CaptureError};
pub use leaps::HeldStamps;
pub use link_names::of as link_name;
pub use packing::MAX_WINDOW_BYTES;
pub use pcapng::{MAX_BLOCK_BYTES, MAX_INTERFACES};
pub use reader::{CaptureReader, Remarks};
pub use record::Record;
pub use writer::CaptureWriter;

/// The longest packet that is read or written, in captured bytes; libpcap's own limit.
pub const MAX_PACKET_BYTES: usize = 262_144;

const _: () = assert!(MAX_PACKET_BYTES + 64 <= MAX_BLOCK_BYTES, "a block holds any packet and its fields");
