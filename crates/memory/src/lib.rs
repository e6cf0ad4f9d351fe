//! What a data path asks of memory: arrays on huge pages, pages that the system gives as they are used, whole cache lines,
//! prefetching.

mod array;
mod fresh;
mod line;
mod prefetch;

pub use array::{Array, on_demand};
pub use fresh::FreshLines;
pub use line::{LINE_BYTES, Line};
pub use prefetch::{Reach, prefetch, prefetch_lines, prefetch_lines_to};
