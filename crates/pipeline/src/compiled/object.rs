//! muTables, registers, counters and meters: keys, values, and what they hold before the first packet.

use std::collections::BTreeMap;

use p4::interpret::{Machine, Marker};
use p4::ir::{Matching, Program, Unit};
use p4::uses::{Object, Use};

use super::error::CompileError;
use super::limits::{MAX_ENTRIES, MAX_KEYS, STATE_WORDS, State, words_of};

/// An object of a program, and where a packet holds what it has to do with it.
#[derive(Clone, Debug)]
pub struct Held {
    pub used: Use,
    /// The packet's key.
    pub key_word: usize,
    /// What it has read.
    pub read_words: usize,
    /// What it writes.
    pub new_words: usize,
    /// Words of the state.
    pub words: usize,
    /// Bits of its values.
    pub widths: Vec<u16>,
    /// The places of a meter that have rates.
    pub markers: BTreeMap<u32, Marker>,
    /// Whether a meter counts bytes.
    pub counts_bytes: bool,
    /// Entries at most.
    pub size: u32,
    keys: Keys,
}

/// How keys become one of 64 bits.
#[derive(Clone, Debug)]
enum Keys {
    /// A place in an array.
    Index,
    /// Bits of keys of these widths, side by side.
    Packed(Vec<u32>),
    /// A hash of all their bits; that two flows share one is as likely as 64 bits make it.
    Hashed,
    /// A hash of all their bits, but keys that match one entry with a mask share it.
    Masked,
}

impl Held {
    /// An object whose words begin there.
    ///
    /// # Errors
    /// It has more keys, wider values or more entries than a state table has room for.
    pub fn new(used: &Use, machine: &Machine, first_word: usize) -> Result<Held, CompileError> {
        let program = machine.program();
        let (widths, size, keys): (Vec<u16>, u32, Keys) = match used.object {
            Object::MuTable(at) => {
                let declared = &program.mu_tables[at as usize];
                let widths: Vec<u32> = declared.keys.iter().map(|key| key.width).collect();
                let has_masks = machine.state().masked_mu_entries(at).len() > 0;
                let keys = match declared.matching {
                    Matching::Direct => Keys::Index,
                    _ if has_masks => Keys::Masked,
                    _ if widths.iter().sum::<u32>() <= 64 => Keys::Packed(widths.clone()),
                    _ => Keys::Hashed,
                };
                if widths.len() > MAX_KEYS {
                    let object = used.object.describe(program);
                    return Err(CompileError::Keys { object, keys: widths.len() });
                }
                let values = declared.values.iter().map(|value| value.width as u16).collect();
                (values, declared.size, keys)
            }
            Object::Register(at) => {
                let declared = &program.registers[at as usize];
                (vec![declared.width as u16], declared.size, Keys::Index)
            }
            Object::Counter(at) => (vec![64, 64], program.counters[at as usize].size, Keys::Index),
            Object::Meter(at) => (vec![64; STATE_WORDS], program.meters[at as usize].size, Keys::Index),
        };
        let words: usize = widths.iter().map(|width| words_of(*width)).sum();
        if words > STATE_WORDS {
            return Err(CompileError::WideState { object: used.object.describe(program), words });
        }
        if size > MAX_ENTRIES {
            return Err(CompileError::ManyEntries { object: used.object.describe(program), size });
        }
        let markers: BTreeMap<u32, Marker> = match used.object {
            Object::Meter(at) => machine.state().markers(at).map(|(at, marker)| (at, *marker)).collect(),
            _ => BTreeMap::new(),
        };
        Ok(Held {
            used: used.clone(),
            key_word: first_word,
            read_words: first_word + 1,
            new_words: first_word + 1 + words,
            words,
            widths,
            markers,
            counts_bytes: counts_bytes(program, used.object),
            size,
            keys,
        })
    }

    /// Words that it takes in a header vector.
    pub fn phv_words(&self) -> usize {
        1 + 2 * self.words
    }

    /// Bits of a key.
    pub fn key_bits(&self) -> u32 {
        self.key_widths().map_or(64, |widths| widths.iter().sum()).max(1)
    }

    /// Bits of each key, where they stand side by side.
    pub fn key_widths(&self) -> Option<Vec<u32>> {
        match &self.keys {
            Keys::Packed(widths) => Some(widths.clone()),
            _ => None,
        }
    }

    /// The key of a packet; none past the end of an array.
    pub fn key(&self, machine: &Machine, keys: &[u128]) -> Option<u64> {
        match (&self.keys, self.used.object) {
            (Keys::Index, _) => {
                keys.first().filter(|key| **key < u128::from(self.size)).map(|key| *key as u64)
            }
            (Keys::Packed(widths), _) => {
                let join = |joined: u128, (key, width): (&u128, &u32)| joined << width | key;
                Some(keys.iter().zip(widths).fold(0, join) as u64)
            }
            (Keys::Masked, Object::MuTable(table)) => {
                match machine.state().masked_match(machine.program(), table, keys) {
                    Some(entry) => Some(masked_key(entry)),
                    None => Some(hashed(keys, 0)),
                }
            }
            _ => Some(hashed(keys, 0)),
        }
    }

    /// A state with these values.
    pub fn state(&self, values: &[u128]) -> State {
        let mut state = State::default();
        let mut at = 0;
        for (value, width) in values.iter().zip(&self.widths) {
            state[at] = *value as u64;
            if *width > 64 {
                state[at + 1] = (value >> 64) as u64;
            }
            at += words_of(*width);
        }
        state[STATE_WORDS] = 1;
        state
    }

    /// What a machine holds in it, by key. A register holds what is not 0.
    pub fn contents(&self, machine: &Machine) -> BTreeMap<u64, State> {
        let state = machine.state();
        match self.used.object {
            Object::MuTable(table) => {
                let exact = state.mu_entries(table).filter_map(|(keys, values)| {
                    // An entry that has all bits of its keys comes before those with masks.
                    let key = match self.keys {
                        Keys::Masked => Some(hashed(keys, 0)),
                        _ => self.key(machine, keys),
                    };
                    Some((key?, self.state(values)))
                });
                let masked = state.masked_mu_entries(table).enumerate();
                let masked = masked.map(|(at, values)| (masked_key(at), self.state(values)));
                exact.chain(masked).collect()
            }
            Object::Register(register) => {
                let values = (0..).zip(state.register_values(register)).filter(|(_, value)| **value != 0);
                values.map(|(at, value)| (at, self.state(&[*value]))).collect()
            }
            Object::Counter(counter) => {
                let counts = state.counts(counter);
                counts
                    .map(|(at, (packets, bytes))| (at.into(), self.state(&[packets.into(), bytes.into()])))
                    .collect()
            }
            Object::Meter(meter) => {
                let markers = state.markers(meter);
                markers
                    .map(|(at, marker)| (at.into(), self.state(&marker.memory().map(u128::from))))
                    .collect()
            }
        }
    }
}

fn counts_bytes(program: &Program, object: Object) -> bool {
    match object {
        Object::Meter(at) => program.meters[at as usize].unit == Unit::Bytes,
        _ => false,
    }
}

fn masked_key(entry: usize) -> u64 {
    hashed(&[entry as u128], 1)
}

fn hashed(keys: &[u128], seed: u64) -> u64 {
    let mut bytes = [0; 16 * MAX_KEYS];
    for (room, key) in bytes.chunks_exact_mut(16).zip(keys) {
        room.copy_from_slice(&key.to_le_bytes());
    }
    nf::hash_bytes(&bytes[..16 * keys.len()], seed)
}
