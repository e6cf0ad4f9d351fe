//! The digest of a trace.

use std::fmt;

use nf::hash_bytes;

/// Hash of a trace: its packets with their times, in order. Shown as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    /// Takes the next packet.
    pub fn packet(&mut self, time_ns: u64, frame: &[u8]) {
        self.0 = hash_bytes(frame, hash_bytes(&time_ns.to_le_bytes(), self.0));
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
