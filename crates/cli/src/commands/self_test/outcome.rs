//! How a check ended.

/// What a check came to, in words.
pub enum Outcome {
    Holds(String),
    Fails(String),
    /// A right or a program is not here.
    NotTried(String),
}
