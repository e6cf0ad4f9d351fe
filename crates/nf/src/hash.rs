use rapidhash::v3::{RapidSecrets, rapidhash_v3_nano_inline};

const SECRETS: [u64; 7] = RapidSecrets::seed_cpp(0).secrets;

/// Hash of plain bytes: tables, digests and [`Cx::random`](crate::Cx::random) all use this one.
///
/// The same on every core, run and machine of one byte order. `seed` keeps an outsider from
/// choosing keys that collide; it is the chain's, so replicas agree.
#[inline]
pub fn hash_bytes(bytes: &[u8], seed: u64) -> u64 {
    // The secrets are constants, so building this costs nothing; with avalanche, unprotected.
    let secrets = RapidSecrets { seed, secrets: SECRETS };
    rapidhash_v3_nano_inline::<true, false>(bytes, &secrets)
}
