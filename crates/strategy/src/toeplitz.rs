//! The Toeplitz hash, as network cards compute it for receive-side scaling.
//!
//! For each bit of the input that is set, the 32 bits of the key from that position on are added
//! (exclusive or). Linear, so a table per input byte gives the same in one look-up a byte.

use std::sync::{Arc, LazyLock};

/// Bytes of a key: 36 of input (two IPv6 addresses, two ports) and 32 bits.
pub const KEY_BYTES: usize = 40;

/// Bytes of the longest input.
const INPUT_BYTES: usize = KEY_BYTES - 4;

/// A key of period 16 bits: exchanging two addresses, or two ports, leaves the hash unchanged (Woo
/// and Park, "Scalable TCP Session Monitoring with Symmetric Receive-side Scaling", 2012).
///
/// The price: the hash depends on nothing but the exclusive or of the input's 16-bit words, so that
/// addresses and ports that count up in step cancel out and meet on one core.
pub const SYMMETRIC_KEY: [u8; KEY_BYTES] = {
    let mut key = [0x6d; KEY_BYTES];
    let mut i = 1;
    while i < KEY_BYTES {
        key[i] = 0x5a;
        i += 2;
    }
    key
};

/// The hash for one key.
#[derive(Clone)]
pub struct Toeplitz {
    /// For each input byte position, the hash of each value.
    by_byte: Arc<[[u32; 256]; INPUT_BYTES]>,
}

impl Toeplitz {
    /// Prepares a key: 36 KiB of tables.
    pub fn new(key: &[u8; KEY_BYTES]) -> Toeplitz {
        let mut by_byte = [[0; 256]; INPUT_BYTES];
        for (position, table) in by_byte.iter_mut().enumerate() {
            let window =
                key[position..position + 5].iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
            // A value's lowest bit is added to what is known of the others.
            for value in 1..table.len() {
                let of_lowest_bit = (window >> (1 + value.trailing_zeros())) as u32;
                table[value] = table[value & (value - 1)] ^ of_lowest_bit;
            }
        }
        Toeplitz { by_byte: Arc::new(by_byte) }
    }

    /// With [`SYMMETRIC_KEY`]: all have the same tables, which are made once.
    pub fn symmetric() -> Toeplitz {
        static SYMMETRIC: LazyLock<Toeplitz> = LazyLock::new(|| Toeplitz::new(&SYMMETRIC_KEY));
        SYMMETRIC.clone()
    }

    /// What a 16-bit word of the input adds to the hash, by the value of its first byte and of its second: wherever the word
    /// stands, for a key whose period is 16 bits; `None` for another key.
    pub fn by_word(&self) -> Option<Box<[[u32; 256]; 2]>> {
        let (words, _) = self.by_byte.as_chunks::<2>();
        words.iter().all(|word| *word == words[0]).then(|| Box::new(words[0]))
    }

    /// The hash of `input`, the first byte first.
    ///
    /// # Panics
    /// If `input` is longer than 36 bytes.
    #[inline]
    pub fn hash(&self, input: &[u8]) -> u32 {
        assert!(input.len() <= INPUT_BYTES, "{} bytes to hash, at most {INPUT_BYTES}", input.len());
        let hashes = input.iter().zip(self.by_byte.iter()).map(|(byte, table)| table[usize::from(*byte)]);
        hashes.fold(0, |hash, part| hash ^ part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of Microsoft's "Verifying the RSS hash calculation", against which cards are tested.
    const VERIFICATION_KEY: [u8; KEY_BYTES] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
        0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
        0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    fn input(src: &str, dst: &str, ports: Option<(u16, u16)>) -> Vec<u8> {
        use std::net::IpAddr;
        let mut bytes = Vec::new();
        for addr in [src, dst] {
            match addr.parse().unwrap() {
                IpAddr::V4(v4) => bytes.extend(v4.octets()),
                IpAddr::V6(v6) => bytes.extend(v6.octets()),
            }
        }
        if let Some((src_port, dst_port)) = ports {
            bytes.extend(src_port.to_be_bytes());
            bytes.extend(dst_port.to_be_bytes());
        }
        bytes
    }

    #[test]
    fn it_gives_the_published_hashes() {
        // Source, destination, ports, hash of addresses and ports, hash of addresses.
        let published = [
            ("66.9.149.187", "161.142.100.80", (2794, 1766), 0x51cc_c178, 0x323e_8fc2),
            ("199.92.111.2", "65.69.140.83", (14230, 4739), 0xc626_b0ea, 0xd718_262a),
            ("24.19.198.95", "12.22.207.184", (12898, 38024), 0x5c2b_394a, 0xd2d0_a5de),
            ("38.27.205.30", "209.142.163.6", (48228, 2217), 0xafc7_327f, 0x8298_9176),
            ("153.39.163.191", "202.188.127.2", (44251, 1303), 0x10e8_28a2, 0x5d18_09c5),
            ("3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", (2794, 1766), 0x4020_7d3d, 0x2cc1_8cd5),
            ("3ffe:501:8::260:97ff:fe40:efab", "ff02::1", (14230, 4739), 0xdde5_1bbf, 0x0f0c_461c),
        ];
        let toeplitz = Toeplitz::new(&VERIFICATION_KEY);
        for (src, dst, ports, with_ports, addresses) in published {
            assert_eq!(toeplitz.hash(&input(src, dst, Some(ports))), with_ports, "{src} {dst}");
            assert_eq!(toeplitz.hash(&input(src, dst, None)), addresses, "{src} {dst}");
        }
    }

    #[test]
    fn a_word_adds_the_same_wherever_it_stands_with_the_symmetric_key_alone() {
        let toeplitz = Toeplitz::new(&SYMMETRIC_KEY);
        let [first, second] = *toeplitz.by_word().expect("its period is 16 bits");
        let input: Vec<u8> = (0..36_u8).map(|byte| byte.wrapping_mul(37)).collect();
        let hashes = input.as_chunks::<2>().0.iter();
        let all = hashes.fold(0, |hash, [a, b]| hash ^ first[usize::from(*a)] ^ second[usize::from(*b)]);
        assert_eq!(all, toeplitz.hash(&input));
        assert!(Toeplitz::new(&VERIFICATION_KEY).by_word().is_none());
        let mut wrong = SYMMETRIC_KEY;
        wrong[17] ^= 1;
        assert!(Toeplitz::new(&wrong).by_word().is_none(), "planted: a wrong byte");
    }

    #[test]
    fn the_symmetric_key_hashes_both_directions_alike() {
        // The paper's key.
        assert!(SYMMETRIC_KEY.as_chunks::<2>().0.iter().all(|word| *word == [0x6d, 0x5a]));
        let toeplitz = Toeplitz::new(&SYMMETRIC_KEY);
        let there = toeplitz.hash(&input("10.1.2.3", "192.0.2.77", Some((40000, 443))));
        let back = toeplitz.hash(&input("192.0.2.77", "10.1.2.3", Some((443, 40000))));
        assert_eq!(there, back);
        let other = toeplitz.hash(&input("10.1.2.4", "192.0.2.77", Some((40000, 443))));
        assert_ne!(there, other);
        let plain = Toeplitz::new(&VERIFICATION_KEY);
        assert_ne!(
            plain.hash(&input("10.1.2.3", "192.0.2.77", Some((40000, 443)))),
            plain.hash(&input("192.0.2.77", "10.1.2.3", Some((443, 40000)))),
        );
    }
}
