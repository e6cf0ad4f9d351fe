//! What a state of a compiled program may take.

/// Words of a state, besides the one that says that there is one.
pub const STATE_WORDS: usize = 5;

/// What a table holds for a key: words, and 1 if there is an entry.
pub type State = [u64; STATE_WORDS + 1];

/// Most keys of a table.
pub const MAX_KEYS: usize = 16;

/// Most entries of an object.
pub const MAX_ENTRIES: u32 = 1 << 22;

/// Words that a value takes.
pub fn words_of(width: u16) -> usize {
    if width > 64 { 2 } else { 1 }
}
