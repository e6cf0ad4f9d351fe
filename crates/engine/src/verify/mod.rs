//! The oracle: a chain under a strategy, and under `single`, compared packet by packet.
//!
//! | file | what it is |
//! |---|---|
//! | `capture` | [`verify()`]: both runs over a capture |
//! | `outside` | [`verify_external`]: packets that come with their history |
//! | `compare` | what is compared: answers, and what functions are left with |
//! | `promises`, `mask` | what is promised where answers need not be the same |
//! | `verified` | the result |

mod capture;
mod compare;
mod mask;
mod outside;
#[cfg(test)]
mod planted;
mod promises;
mod verified;

pub use capture::{Beside, verify, verify_reloading};
pub use outside::verify_external;
pub use verified::{
    AllocationEvent, Answer, Broken, HistoryCheck, Mismatch, SharedCheck, Verified, VerifyError,
};
