//! Checksums updated incrementally (RFC 1624): what changed in the data decides what changes in the checksum, so a
//! checksum that was wrong, or left to the network card, stays wrong by the same difference. And the sum in full, for
//! [`verify`](fn@crate::verify).

/// The one's complement sum of `bytes`, not folded: fewer than 2^32 words of 32 bits in this machine's order (RFC 1071
/// §2 B, C). The last word is filled up with zeros.
#[inline]
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    // Four sums, so that additions need not wait for each other; compilers make vectors of them.
    let (blocks, rest) = bytes.as_chunks::<16>();
    let mut sums = [0_u64; 4];
    for block in blocks {
        let (words, _) = block.as_chunks::<4>();
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum += u64::from(u32::from_ne_bytes(*word));
        }
    }
    let (words, last) = rest.as_chunks::<4>();
    let mut word = [0; 4];
    word[..last.len()].copy_from_slice(last);
    let rest: u64 = words.iter().chain([&word]).map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    sums.iter().sum::<u64>() + rest
}

/// The 16 bits of a sum, in this machine's order: 0xffff where data and its checksum are right.
#[inline]
pub(crate) fn fold(sum: u64) -> u16 {
    // Folds in halves: where both halves of `x` are added, the carry out of the lower sum goes into the upper one.
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

/// The Internet checksum (RFC 1071) of `parts`, one behind the other, as it stands in a header: 0 where they hold their
/// own checksum and it is right. Each part but the last has an even length. At most 2^32 bytes.
///
/// ```
/// # use paceline_wire as wire;
/// let header = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
/// assert_eq!(wire::internet_checksum(&[&header]), [0xb8, 0x61]);
/// assert_eq!(wire::internet_checksum(&[&header[..10], &[0xb8, 0x61], &header[12..]]), [0, 0]);
/// ```
#[inline]
pub fn internet_checksum(parts: &[&[u8]]) -> [u8; 2] {
    (!fold(parts.iter().map(|part| sum(part)).sum())).to_ne_bytes()
}

/// How the one's complement sum of some data changes (RFC 1624 §3): `m' - m`, summed over its words.
///
/// A sum of 16-bit words is, modulo 65,535, a sum of wider words, and of words in either byte order as
/// long as it is folded and stored in the same one (RFC 1071 §2 B, C). So words are 32 bits wide, in
/// this machine's order, and there is no carry to mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Difference(i64);

impl Difference {
    /// Writes `new` over two bytes at an even offset of the data, and notes the change.
    #[inline]
    pub(crate) fn write2(&mut self, field: &mut [u8; 2], new: [u8; 2]) {
        self.0 += i64::from(u16::from_ne_bytes(new)) - i64::from(u16::from_ne_bytes(*field));
        *field = new;
    }

    /// Writes `new` over four bytes, and adds the difference.
    #[inline]
    pub(crate) fn write4(&mut self, field: &mut [u8; 4], new: [u8; 4]) {
        self.0 += i64::from(u32::from_ne_bytes(new)) - i64::from(u32::from_ne_bytes(*field));
        *field = new;
    }

    /// Writes `new` over sixteen bytes, and adds the difference.
    pub(crate) fn write16(&mut self, field: &mut [u8; 16], new: [u8; 16]) {
        let (fields, _) = field.as_chunks_mut::<4>();
        let (news, _) = new.as_chunks::<4>();
        for (field, new) in fields.iter_mut().zip(news) {
            self.write4(field, *new);
        }
    }

    /// Both changes.
    pub(crate) fn and(self, other: Difference) -> Difference {
        Difference(self.0 + other.0)
    }

    /// The change as a sum that others are added to.
    #[inline]
    pub(crate) fn sum(self) -> Sum {
        // Divisible by 65,535, and larger than what 2^16 words can add up to: no sum is negative.
        const NOTHING: u64 = 0xffff << 47;
        Sum(NOTHING.wrapping_add_signed(self.0))
    }

    /// Mends a checksum after the change: see [`Change::mend`].
    #[inline]
    pub(crate) fn mend(self, checksum: &mut [u8; 2]) {
        self.sum().folded().mend(checksum);
    }

    /// Writes the change to a UDP checksum: see [`Change::mend_udp`].
    #[inline]
    pub(crate) fn mend_udp(self, checksum: &mut [u8; 2]) {
        self.sum().folded().mend_udp(checksum);
    }
}

/// What a [`Difference`] is, of eight bytes at a time: a one's complement sum of 64 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Where eight bytes at an even offset of the data become others.
    #[inline]
    pub(crate) fn of_change(old: u64, new: u64) -> Sum {
        // In one's complement a borrow goes round to the other end, as a carry does.
        let (difference, is_less) = new.overflowing_sub(old);
        Sum(difference.wrapping_sub(is_less.into()))
    }

    /// Both changes.
    #[inline]
    pub(crate) fn plus(self, other: Sum) -> Sum {
        let (sum, is_over) = self.0.overflowing_add(other.0);
        Sum(sum.wrapping_add(is_over.into()))
    }

    /// What is to be added to checksums.
    #[inline]
    pub(crate) fn folded(self) -> Change {
        match fold(self.0) {
            0xffff => Change(0),
            change => Change(change),
        }
    }
}

/// A [`Sum`] in 16 bits, of this machine's order; less than 0xffff, which is 0, too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change(u16);

impl Change {
    /// Mends a checksum after the change: RFC 1624 eqn. 3, `HC' = ~(~HC + ~m + m')`. One that need not
    /// change stays, also where it is 0xffff, which the equation would make 0x0000.
    #[inline]
    pub(crate) fn mend(self, checksum: &mut [u8; 2]) {
        // As eqn. 4 has it, `HC' = HC - ~m - m'`: with a borrow that goes round.
        let (sum, is_less) = u16::from_ne_bytes(*checksum).overflowing_sub(self.0);
        *checksum = sum.wrapping_sub(is_less.into()).to_ne_bytes();
    }

    /// Writes the change to a UDP checksum (RFC 768): 0 says that there is no checksum, and one that becomes 0 is
    /// sent as 0xffff.
    #[inline]
    pub(crate) fn mend_udp(self, checksum: &mut [u8; 2]) {
        if *checksum != [0, 0] {
            self.mend(checksum);
            if *checksum == [0, 0] {
                *checksum = [0xff, 0xff];
            }
        }
    }
}

/// CRC32c's polynomial (RFC 9260 appendix A), bit-reversed: bit 31 is the coefficient of x^0.
const CRC32C: u32 = 0x82f6_3b78;

/// The CRC32c of `data` (RFC 9260 appendix A). An SCTP packet holds it with its least significant byte first.
pub(crate) fn crc32c(data: &[u8]) -> u32 {
    let next = |crc: u32, byte: &u8| BY_BYTE[usize::from(crc as u8 ^ byte)] ^ crc >> 8;
    !data.iter().fold(!0, next)
}

/// By the lowest byte of the register: what eight steps of one bit XOR into it.
const BY_BYTE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ CRC32C } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

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

    fn mended(difference: Difference, checksum: u16) -> u16 {
        let mut field = checksum.to_be_bytes();
        difference.mend(&mut field);
        u16::from_be_bytes(field)
    }

    #[test]
    fn rfc_1624_section_4() {
        // The example that RFC 1141's equation gets wrong: HC = 0xdd2f, m = 0x5555, m' = 0x3285.
        let mut difference = Difference::default();
        let mut field = [0x55, 0x55];
        difference.write2(&mut field, [0x32, 0x85]);
        assert_eq!(field, [0x32, 0x85]);
        assert_eq!(mended(difference, 0xdd2f), 0x0000);
    }

    /// RFC 1071 §3: 00 01 f2 03 f4 f5 f6 f7 sums to ddf2, whatever the order of bytes.
    #[test]
    fn rfc_1071_section_3_in_full() {
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&data)).to_ne_bytes(), [0xdd, 0xf2]);
        assert_eq!(fold(sum(&data[..3])).to_ne_bytes(), [0xf2, 0x01]);
        assert_eq!((fold(sum(&[])), fold(sum(&[0xff; 64]))), (0, 0xffff));
    }

    /// Word by word, at every length and with the largest sums.
    #[test]
    fn the_sum_is_that_of_16_bit_words() {
        let data: [u8; 300] = core::array::from_fn(|index| if index % 7 == 3 { 0xff } else { index as u8 });
        for (len, data) in (0..=300).flat_map(|len| [(len, data), (len, [0xff; 300])]) {
            let words =
                data[..len].chunks(2).map(|w| u64::from(w[0]) << 8 | w.get(1).map_or(0, |b| u64::from(*b)));
            let expected = words.sum::<u64>();
            let found = u16::from_be_bytes(fold(sum(&data[..len])).to_ne_bytes());
            assert_eq!(u64::from(found) % 0xffff, expected % 0xffff, "{len}");
            assert_eq!(found == 0, expected == 0, "{len}: one form of zero");
        }
    }

    #[test]
    fn rfc_1071_section_3() {
        // 00 01 f2 03 f4 f5 f6 f7 sums to ddf2: building it up word by word from zeros gives ~ddf2.
        let mut difference = Difference::default();
        difference.write4(&mut [0; 4], [0x00, 0x01, 0xf2, 0x03]);
        difference.write2(&mut [0; 2], [0xf4, 0xf5]);
        difference.write2(&mut [0; 2], [0xf6, 0xf7]);
        assert_eq!(mended(difference, 0xffff), 0x220d);
        let mut address = Difference::default();
        let mut new = [0; 16];
        new[8..].copy_from_slice(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        address.write16(&mut [0; 16], new);
        assert_eq!(mended(address, 0xffff), 0x220d);
    }

    #[test]
    fn writing_what_is_there_changes_nothing() {
        let mut difference = Difference::default();
        difference.write4(&mut [1, 2, 3, 4], [1, 2, 3, 4]);
        assert_eq!(difference, Difference::default());
        assert_eq!(mended(difference, 0xffff), 0xffff);
        assert_eq!(mended(difference, 0x0000), 0x0000);
    }

    /// By the equation, one word at a time: every checksum, words at and around their ends.
    #[test]
    fn mended_as_rfc_1624_has_it() {
        let ends = [0, 1, 2, 0x7fff, 0x8000, 0xfffe, 0xffff];
        let add = |a: u16, b: u16| {
            let (sum, carry) = a.overflowing_add(b);
            sum + u16::from(carry)
        };
        for checksum in 0..=0xffff_u16 {
            for (m, new) in ends.iter().flat_map(|m| ends.map(|new| (*m, new))) {
                let expected = if m == new { checksum } else { !add(add(!checksum, !m), new) };
                let mut two = Difference::default();
                two.write2(&mut m.to_be_bytes(), new.to_be_bytes());
                // -0 and 0 are one number; the equation has 0xffff where nothing is added to it.
                assert_eq!(mended(two, checksum) % 0xffff, expected % 0xffff, "{checksum} {m} {new}");
                let ([a, b], [c, d]) = (m.to_be_bytes(), new.to_be_bytes());
                let mut four = Difference::default();
                four.write4(&mut [a, b, 0x12, 0x34], [c, d, 0x12, 0x34]);
                assert_eq!(mended(four, checksum), mended(two, checksum), "{checksum} {m} {new}");
                let eight = |word: u16| u64::from(word) << 16 | 0x1234 << 48;
                let mut field = checksum.to_ne_bytes();
                Sum::of_change(eight(m), eight(new)).folded().mend(&mut field);
                let mut two = Difference::default();
                two.write2(&mut m.to_ne_bytes(), new.to_ne_bytes());
                let mut same = checksum.to_ne_bytes();
                two.mend(&mut same);
                assert_eq!(field, same, "{checksum} {m} {new}");
            }
        }
    }

    /// The most that can be noted of one packet, in both directions.
    #[test]
    fn no_sum_is_out_of_range() {
        for (old, new) in [([0; 16], [0xff; 16]), ([0xff; 16], [0; 16])] {
            let mut difference = Difference::default();
            for _ in 0..1_000 {
                difference.write16(&mut old.clone(), new);
            }
            assert_eq!(mended(difference, 0x1234), 0x1234);
        }
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
