//! What a data path asks of memory: arrays on huge pages, whole cache lines, prefetching.

mod array;
mod fresh;
mod line;
mod prefetch;

pub use array::Array;
pub use fresh::FreshLines;
pub use line::{LINE_BYTES, Line};
pub use prefetch::{prefetch, prefetch_lines};
