use rapidhash::v3::{RapidSecrets, rapidhash_v3_nano_inline};

/// Hash of plain bytes: tables, digests and [`Cx::random`](crate::Cx::random) all use this one.
///
/// The same on every core, run and machine of one byte order. `seed` keeps an outsider from
/// choosing keys that collide; it is the chain's, so replicas agree.
#[inline]
pub fn hash_bytes(bytes: &[u8], seed: u64) -> u64 {
    Hasher::new(seed).hash_bytes(bytes)
}

/// [`hash_bytes`] with one seed for many inputs: what is made of the seed is made once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hasher(RapidSecrets);

impl Hasher {
    /// Prepares the seed.
    #[inline]
    pub const fn new(seed: u64) -> Hasher {
        Hasher(RapidSecrets::seed_cpp(seed))
    }

    /// Hash of plain bytes.
    #[inline]
    pub fn hash_bytes(&self, bytes: &[u8]) -> u64 {
        // Mixes the seed first: unmixed, a word of the input that equals it (0, say) makes a product 0
        // and what it is multiplied with vanish. With avalanche, unprotected.
        rapidhash_v3_nano_inline::<true, false>(bytes, &self.0)
    }

    /// What [`Hasher::hash_bytes`] gives for the number's 16 bytes, least significant first: a
    /// [`Short`](crate::Short)'s hash. Its length being known, there are two products and no call.
    #[inline]
    pub fn hash_u128(&self, bits: u128) -> u64 {
        let RapidSecrets { seed, secrets: [_, secret, ..] } = self.0;
        let (first, last) = (bits as u64, (bits >> 64) as u64);
        let product = multiply(first ^ secret, last ^ seed ^ 16);
        let folded = multiply(product as u64 ^ FINISH, (product >> 64) as u64 ^ secret ^ 16);
        folded as u64 ^ (folded >> 64) as u64
    }
}

/// What rapidhash version 3 begins its last product with.
const FINISH: u64 = 0xaaaa_aaaa_aaaa_aaaa;

#[inline]
fn multiply(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    #[test]
    fn a_number_hashes_as_its_bytes_do() {
        let mut word = 1;
        let mut next = || {
            word = hash_bytes(&u64::to_le_bytes(word), 9);
            word
        };
        for round in 0..10_000 {
            // Among them words and seeds that are 0.
            let [low, high, seed] =
                core::array::from_fn(|bit| if round >> bit & 1 == 0 { next() } else { 0 });
            let bits = u128::from(low) | u128::from(high) << 64;
            assert_eq!(Hasher::new(seed).hash_u128(bits), hash_bytes(&bits.to_le_bytes(), seed));
        }
    }

    /// Tables, digests in documents and recorded runs rely on these.
    #[test]
    fn hashes_stay_what_they_are() {
        assert_eq!(hash_bytes(b"paceline", 0), 0x4c65_b6a4_82fc_f2fa);
        assert_eq!(hash_bytes(&[0; 16], 7), 0x5f22_988f_b15a_0091);
        assert_eq!(hash_bytes(&[0xa5; 40], u64::MAX), 0xce94_6494_5959_640b);
    }

    /// Inputs with a word that is 0, or that is the seed, such as addresses without an interface part.
    #[test]
    fn plain_inputs_do_not_collide() {
        for seed in [0, 1, 0xff] {
            for len in [2, 3, 8, 16, 24, 40, 64] {
                let mut hashes = BTreeSet::new();
                let mut inputs = 0;
                for at in 0..len {
                    for value in 1..=255u8 {
                        for rest in [0u8, seed as u8] {
                            let mut input: Vec<u8> = alloc::vec![rest; len];
                            input[at] = value;
                            if rest != 0 && (seed == 0 || value == rest) {
                                continue;
                            }
                            inputs += usize::from(hashes.insert((hash_bytes(&input, seed), input)));
                        }
                    }
                }
                let distinct: BTreeSet<u64> = hashes.iter().map(|(hash, _)| *hash).collect();
                assert_eq!(distinct.len(), inputs, "seed {seed}, {len} bytes");
            }
        }
    }
}
