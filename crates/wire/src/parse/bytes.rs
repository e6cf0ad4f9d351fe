//! Numbers of headers, as all layers read them.

/// A length of a header field that has 16 bits: 65,535 stands for all that is longer.
#[inline]
pub(super) fn saturate(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// The big-endian number at `offset` of a header of known length: the check is done at compile time
/// once inlined.
#[inline(always)]
pub(super) fn be16<const LEN: usize>(header: &[u8; LEN], offset: usize) -> u16 {
    u16::from_be_bytes([header[offset], header[offset + 1]])
}

/// [`be16`], of 32 bits.
#[inline(always)]
pub(super) fn be32<const LEN: usize>(header: &[u8; LEN], offset: usize) -> u32 {
    u32::from(be16(header, offset)) << 16 | u32::from(be16(header, offset + 2))
}
