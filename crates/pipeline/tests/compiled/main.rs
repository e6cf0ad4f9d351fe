//! Compiled programs on the models give what the reference gives.

mod examples;
mod support;
