//! Options of a function: what is said of them, and what is wrong with one.

use core::fmt;

use alloc::string::String;

/// One option of a function, as `paceline nfs` prints it. A test holds these to what
/// [`NetworkFunction::Options`](crate::NetworkFunction::Options) accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionDoc {
    /// As chain files write it, unit last: `window_ms`.
    pub name: &'static str,
    /// The default, as TOML.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// An option with a value that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// Which option.
    pub option: &'static str,
    /// What is wrong, and what would be right: `must be at least 1`.
    pub message: String,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.option, self.message)
    }
}

impl core::error::Error for OptionError {}
