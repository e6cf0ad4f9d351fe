//! Tests of the hashes: fixed values, and keys that an outsider would choose to make them collide.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::*;
use crate::{AddrPair, Connection, DstAddr, FiveTuple, FlowKey, Short, SrcAddr, SrcEndpoint};

#[test]
fn a_number_hashes_as_its_bytes_do() {
    let mut word = 1;
    let mut next = || {
        word = hash_bytes(&u64::to_le_bytes(word), 9);
        word
    };
    for round in 0..10_000 {
        // Among them words and seeds that are 0.
        let [low, high, seed] = core::array::from_fn(|bit| if round >> bit & 1 == 0 { next() } else { 0 });
        let bits = u128::from(low) | u128::from(high) << 64;
        let hasher = Hasher::new(seed);
        assert_eq!(hasher.hash_u128(bits), hasher.hash_bytes(&bits.to_le_bytes()));
        assert_eq!(hash_u128(bits, seed), hash_bytes(&bits.to_le_bytes(), seed));
    }
}

/// Tables, digests in documents and recorded runs rely on these.
#[test]
fn hashes_stay_what_they_are() {
    assert_eq!(hash_bytes(b"paceline", 0), 0x4c65_b6a4_82fc_f2fa);
    assert_eq!(hash_bytes(&[0; 16], 7), 0x5f22_988f_b15a_0091);
    assert_eq!(hash_bytes(&[0xa5; 40], u64::MAX), 0xce94_6494_5959_640b);
    assert_eq!(Hasher::new(7).hash_u128(0), 0xe460_96a1_6e35_f05f);
    assert_eq!(Hasher::new(u64::MAX).hash_bytes(&[0xa5; 40]), 0xf6ae_6ad0_ef21_3517);
}

/// Made by another program, which was held to the vectors of SipHash's authors.
#[test]
fn what_is_drawn_stays_what_it_is() {
    assert_eq!(drawn(b"", 0), 0x1e92_4b9d_7377_00d7);
    assert_eq!(drawn(b"paceline", 7), 0x4413_5088_69b5_341e);
    assert_eq!(drawn(&[0; 8], u64::MAX), 0x298a_0ec0_60aa_1c1c);
}

/// Words that a product becomes 0 by, if it is with a constant that everybody knows: the constants themselves, also with what is
/// mixed into them on the way, the lengths of keys.
fn known_words() -> Vec<u64> {
    let RapidSecrets { seed, secrets } = RapidSecrets::seed_cpp(0);
    let constants = secrets.into_iter().chain([0, FINISH, seed]);
    let mixed = |constant: u64| [0, 8, 16, 20, 24, 32, 40].map(|len| constant ^ len);
    constants.flat_map(mixed).collect()
}

/// How many keys of one hash a known word gives, among [`TRIED`] that are alike in that word alone: the most of all words at all
/// places in keys of so many bytes.
fn most_that_collide(bytes: usize, hash: impl Fn(&[u8]) -> u32) -> usize {
    let mut most = 0;
    for word in known_words() {
        for at in 0..=bytes - 8 {
            let hashes: BTreeSet<u32> = (0..TRIED as u64)
                .map(|key| {
                    let words = (0..bytes.div_ceil(8) as u64).map(|at| hash_bytes(&at.to_le_bytes(), key));
                    let mut key: Vec<u8> = words.flat_map(u64::to_le_bytes).take(bytes).collect();
                    key[at..at + 8].copy_from_slice(&word.to_le_bytes());
                    hash(&key)
                })
                .collect();
            most = most.max(1 + TRIED - hashes.len());
        }
    }
    most
}

const TRIED: usize = 16;

/// How a table hashes a key: what stands for it where that is exact, else its bytes.
fn of_key<K: FlowKey>(hasher: &Hasher) -> impl Fn(&[u8]) -> u32 {
    |bytes| {
        let key = K::read_from_bytes(bytes).expect("any bytes are a key");
        match key.short() {
            Short { bits, is_exact: true } => hasher.hash_u128(bits) as u32,
            Short { is_exact: false, .. } => hasher.hash_bytes(key.as_bytes()) as u32,
        }
    }
}

/// An outsider knows the program, and not the seed. What stands for keys with IPv4 addresses has 16 bytes, as one address has.
#[test]
fn no_word_that_outsiders_know_has_keys_collide() {
    for seed in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX] {
        let hasher = Hasher::new(seed);
        let found = [
            most_that_collide(size_of::<FiveTuple>(), of_key::<FiveTuple>(&hasher)),
            most_that_collide(size_of::<Connection>(), of_key::<Connection>(&hasher)),
            most_that_collide(size_of::<AddrPair>(), of_key::<AddrPair>(&hasher)),
            most_that_collide(size_of::<SrcEndpoint>(), of_key::<SrcEndpoint>(&hasher)),
            most_that_collide(size_of::<SrcAddr>(), of_key::<SrcAddr>(&hasher)),
            most_that_collide(size_of::<DstAddr>(), of_key::<DstAddr>(&hasher)),
            most_that_collide(16, |short| {
                hasher.hash_u128(u128::from_le_bytes(short.try_into().expect("16 bytes"))) as u32
            }),
        ];
        // Of some 300,000 pairs one in 2^32 is alike.
        assert!(found.iter().all(|most| *most <= 2), "seed {seed:x}: {found:?}");
    }
}

/// The planted fault: constants that everybody knows, and a seed that nobody does.
#[test]
fn known_constants_have_keys_collide_whatever_the_seed() {
    for seed in [1, 0x0123_4567_89ab_cdef] {
        let found =
            [16, 20, 32, 40].map(|bytes| most_that_collide(bytes, |key| hash_bytes(key, seed) as u32));
        assert_eq!(found, [TRIED; 4], "seed {seed:x}");
    }
}

/// What a seed has said tells nothing of what it says next, and two seeds have nothing in common.
#[test]
fn what_is_drawn_is_spread_evenly() {
    for seed in [0, 1, u64::MAX] {
        let ones: u32 = (0..1_000_u64).map(|number| drawn(&number.to_le_bytes(), seed).count_ones()).sum();
        assert!((31_500..32_500).contains(&ones), "{ones} of 64,000 bits");
    }
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
