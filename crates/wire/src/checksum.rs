//! Checksums mended, not computed: what changed in the data decides what changes in the checksum,
//! so a checksum that was wrong, or left to the network card, stays wrong by the same difference.

/// How the one's complement sum of some data changes (RFC 1624 §3): the sum of `~m + m'` over words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Difference(u32);

impl Difference {
    /// Writes `new` over `field`, which begins at an even offset of the data, and notes the change.
    pub(crate) fn write(&mut self, field: &mut [u8], new: &[u8]) {
        for (old, new) in field.chunks_exact_mut(2).zip(new.chunks_exact(2)) {
            // Equal words add -0, which would make 0x0000 of a checksum 0xffff for nothing.
            if old != new {
                let (before, after) = (word(old), word(new));
                self.0 += u32::from(!before) + u32::from(after);
                old.copy_from_slice(new);
            }
        }
    }

    /// Both changes.
    pub(crate) fn and(self, other: Difference) -> Difference {
        Difference(self.0 + other.0)
    }

    /// Whether no checksum changes by this.
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The checksum after the change: RFC 1624 eqn. 3, `HC' = ~(~HC + ~m + m')`.
    pub(crate) fn mend(self, checksum: u16) -> u16 {
        let mut sum = u32::from(!checksum) + self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

fn word(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

/// CRC32c's polynomial (RFC 9260 appendix A), bit-reversed: bit 31 is the coefficient of x^0.
const CRC32C: u32 = 0x82f6_3b78;

/// What to XOR into the CRC32c of data of `len` bytes when its first 4 bytes are XORed with `change`.
///
/// A CRC is linear: the CRCs of two messages of one length differ by the CRC, without the constants
/// put in at the start and the end, of their difference. Here that is 4 bytes followed by zeros, and
/// n zero bytes multiply by x^8n: time grows with the logarithm of `len`, no payload is read.
pub(crate) fn crc32c_change(change: [u8; 4], len: u16) -> u32 {
    // Four message bytes through an empty register: their polynomial times x^32, reduced.
    let mut crc = multiply(u32::from_le_bytes(change), X_POW[2]);
    let mut zeros = len.saturating_sub(4);
    let mut power = 0;
    while zeros > 0 {
        if zeros & 1 != 0 {
            crc = multiply(crc, X_POW[power]);
        }
        zeros >>= 1;
        power += 1;
    }
    crc
}

/// `X_POW[k]` is x^(8 * 2^k), reduced: `2^k` zero bytes.
const X_POW: [u32; 16] = {
    let mut powers = [1 << (31 - 8); 16];
    let mut k = 1;
    while k < powers.len() {
        powers[k] = multiply(powers[k - 1], powers[k - 1]);
        k += 1;
    }
    powers
};

/// The product of two polynomials, reduced.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut bit = 1 << 31;
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = if b & 1 != 0 { b >> 1 ^ CRC32C } else { b >> 1 };
        bit >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_1624_section_4() {
        // The example that RFC 1141's equation gets wrong: HC = 0xdd2f, m = 0x5555, m' = 0x3285.
        let mut difference = Difference::default();
        let mut field = [0x55, 0x55];
        difference.write(&mut field, &[0x32, 0x85]);
        assert_eq!(field, [0x32, 0x85]);
        assert_eq!(difference.mend(0xdd2f), 0x0000);
    }

    #[test]
    fn rfc_1071_section_3() {
        // 00 01 f2 03 f4 f5 f6 f7 sums to ddf2: building it up word by word from zeros gives ~ddf2.
        let mut data = [0; 8];
        let mut difference = Difference::default();
        difference.write(&mut data, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(difference.mend(0xffff), 0x220d);
    }

    #[test]
    fn writing_what_is_there_changes_nothing() {
        let mut difference = Difference::default();
        difference.write(&mut [1, 2, 3, 4], &[1, 2, 3, 4]);
        assert!(difference.is_none());
        assert_eq!(difference.mend(0xffff), 0xffff);
    }

    /// Bit by bit, as the definition says.
    fn crc32c(data: &[u8]) -> u32 {
        let mut crc = !0;
        for byte in data {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = if crc & 1 != 0 { crc >> 1 ^ CRC32C } else { crc >> 1 };
            }
        }
        !crc
    }

    #[test]
    fn crc32c_of_rfc_3720_appendix_b_4() {
        assert_eq!(crc32c(&[0; 32]).to_le_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(crc32c(&[0xff; 32]).to_le_bytes(), [0x43, 0xab, 0xa8, 0x62]);
        // The first 4 bytes of one pattern in the other: mended equals computed.
        let mut mixed = [0; 32];
        mixed[..4].fill(0xff);
        assert_eq!(crc32c(&[0; 32]) ^ crc32c_change([0xff; 4], 32), crc32c(&mixed));
    }

    #[test]
    fn crc32c_mended_is_crc32c_computed_at_every_length() {
        let data: [u8; 2_000] = core::array::from_fn(|index| (index * 7 + index / 256) as u8);
        let change = [0x12, 0x00, 0xfe, 0x81];
        for len in 4..data.len() {
            let mut changed = data;
            changed.iter_mut().zip(change).for_each(|(byte, change)| *byte ^= change);
            let mended = crc32c(&data[..len]) ^ crc32c_change(change, len as u16);
            assert_eq!(mended, crc32c(&changed[..len]), "{len} bytes");
        }
    }
}
