//! Hashes and checksums.

use crate::ir::Algorithm;

/// The hash of some bytes.
pub fn hash(algorithm: Algorithm, bytes: &[u8]) -> u128 {
    match algorithm {
        Algorithm::Crc32 => u128::from(!reflected_crc(bytes, 0xedb8_8320, !0)),
        Algorithm::Crc16 => u128::from(reflected_crc(bytes, 0xa001, 0)),
        Algorithm::Csum16 => u128::from(internet_checksum(bytes)),
        Algorithm::Xor16 => u128::from(words(bytes).fold(0, |sum, word| sum ^ word)),
        // The last 16 bytes as a number.
        Algorithm::Identity => bytes.iter().fold(0, |value, byte| value << 8 | u128::from(*byte)),
    }
}

fn reflected_crc(bytes: &[u8], polynomial: u32, start: u32) -> u32 {
    let bit = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ polynomial } else { crc >> 1 };
    bytes.iter().fold(start, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or_default()]))
}

/// RFC 1071.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let sum: u64 = words(bytes).map(u64::from).sum();
    let folded = (0..4).fold(sum, |sum, _| (sum & 0xffff) + (sum >> 16));
    !(folded as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check values of the catalogue of CRCs, and the example of RFC 1071 §3.
    #[test]
    fn known_values() {
        assert_eq!(hash(Algorithm::Crc32, b"123456789"), 0xcbf4_3926);
        assert_eq!(hash(Algorithm::Crc16, b"123456789"), 0xbb3d);
        assert_eq!(hash(Algorithm::Csum16, &[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2 & 0xffff);
        assert_eq!(hash(Algorithm::Xor16, &[0x12, 0x34, 0x56]), 0x1234 ^ 0x5600);
        assert_eq!(hash(Algorithm::Identity, &[1, 2, 3]), 0x010203);
    }
}
