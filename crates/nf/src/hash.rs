use rapidhash::v3::{RapidSecrets, rapidhash_v3_nano_inline};

/// Hash of plain bytes: tables, digests and [`Cx::random`](crate::Cx::random) all use this one.
///
/// The same on every core, run and machine of one byte order. `seed` keeps an outsider from
/// choosing keys that collide; it is the chain's, so replicas agree.
#[inline]
pub fn hash_bytes(bytes: &[u8], seed: u64) -> u64 {
    // Mixes the seed first: unmixed, a word of the input that equals it (0, say) makes a product 0 and
    // what it is multiplied with vanish. With avalanche, unprotected.
    rapidhash_v3_nano_inline::<true, false>(bytes, &RapidSecrets::seed_cpp(seed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

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
