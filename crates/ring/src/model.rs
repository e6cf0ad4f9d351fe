//! The ring under the model checker, which runs each of these in every order that the memory model
//! allows. Run them with
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p paceline-ring --release --lib --target-dir target/loom
//! ```
