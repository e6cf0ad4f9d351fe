use alloc::string::String;
use alloc::vec::Vec;

/// What a function has to tell after a run, beside the counters: a small table for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionReport {
    /// One line above the table, which says what the rows are of: `Sources blocked now: 3`.
    pub title: String,
    /// Column names, units last: `bytes`, `rate_bytes_per_s`.
    pub columns: Vec<&'static str>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<String>>,
}
