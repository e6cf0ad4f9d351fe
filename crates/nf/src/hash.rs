//! Hashes: a seeded one for the keys of tables, a plain one for digests, and one that outsiders cannot foretell.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_nano_inline};
use siphasher::sip::SipHasher24;

/// Hash of plain bytes, for digests and for what nobody gains by collisions.
///
/// The result is equal on every core, run and machine of one byte order. It multiplies by constants that everybody
/// knows, so an outsider
/// can choose bytes that collide, whatever the seed: tables have a [`Hasher`], and what nobody may foretell is [`drawn`].
#[inline]
pub fn hash_bytes(bytes: &[u8], seed: u64) -> u64 {
    // Mixes the seed first: unmixed, a word of the input that equals it (0, say) makes a product 0
    // and what it is multiplied with vanish. With avalanche, unprotected.
    rapidhash_v3_nano_inline::<true, false>(bytes, &RapidSecrets::seed_cpp(seed))
}

/// What [`hash_bytes`] gives for the number's 16 bytes, least significant first. Its length being known, there is no call.
#[inline]
pub fn hash_u128(bits: u128, seed: u64) -> u64 {
    Hasher(RapidSecrets::seed_cpp(seed)).hash_u128(bits)
}

/// A number that depends on `bytes` and the seed. An outsider who does not know the seed cannot tell it, however
/// many others under that seed are known: SipHash-2-4, a pseudorandom function (Aumasson and Bernstein, INDOCRYPT
/// 2012). The same on every core, run and machine. Takes some 100 instructions more than a hash.
#[inline(never)]
pub fn drawn(bytes: &[u8], seed: u64) -> u64 {
    SipHasher24::new_with_keys(seed, 0).hash(bytes)
}

/// The hash of tables' keys. An outsider who does not know the seed cannot choose keys that collide: what keys are multiplied by is drawn
/// from the seed, too. With constants there, a word that equals one of them makes a product 0, and all that was hashed before
/// vanishes.
///
/// Its results are equal on every core, run and machine of one byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hasher(RapidSecrets);

impl Hasher {
    /// Draws from the seed what keys are multiplied by.
    #[inline]
    pub const fn new(seed: u64) -> Hasher {
        Hasher(RapidSecrets::seed(seed))
    }

    /// Hash of plain bytes.
    #[inline]
    pub fn hash_bytes(&self, bytes: &[u8]) -> u64 {
        // With avalanche, unprotected.
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
mod tests;
