//! The oracle: a chain under a strategy, and under `single`, compared packet by packet.
//!
//! | file | what it is |
//! |---|---|
//! | `capture` | [`verify()`]: both runs over a capture |
//! | `runs` | one run, packet by packet, and what two of them differ in |
//! | `outside` | [`verify_external`]: packets that come with their history |
//! | `compare` | what is compared: answers, and what functions are left with |
//! | `answering`, `responder` | runs that are answered in their own endpoints |
//! | `judged` | functions that allocate: a judge of each run |
//! | `promises`, `mask` | what is promised where answers need not be the same |
//! | `full_tables` | `single` turns away what the strategy's full tables turned away |
//! | `verified` | the result |

mod answering;
mod capture;
mod compare;
mod full_tables;
mod judged;
mod mask;
mod outside;
#[cfg(test)]
mod planted;
mod promises;
mod responder;
mod runs;
#[cfg(test)]
mod samples;
mod verified;

pub use answering::Answered;
pub use capture::{Beside, verify, verify_answered, verify_reloading};
pub use outside::verify_external;
pub use verified::{
    Agreement, AllocationEvent, Answer, Broken, HistoryCheck, Judged, Mismatch, SharedCheck, Uncompared,
    UpTo, Verified, VerifyError, Wrong,
};
