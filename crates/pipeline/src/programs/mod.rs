//! Programs written by hand, as a compiler would lay them out: for tests, benches and examples.
//!
//! | program | stages | tables |
//! |---|---|---|
//! | [`FlowCounter`] | 1 | packets and bytes of a flow: an atom |
//! | [`PortKnocking`] | 2 | how far a source has come: stages 0 to 1 (RAPID §6.4, Fig. 25) |
//! | [`TokenBucket`] | 2 | tokens and time: stages 0 to 1; every packet updates it |
//! | [`SynCookie`] | 3 | access list: stages 0 to 2; Bloom filter: an atom in stage 1 (RAPID §6.4) |
//! | [`NatBalancer`] | 4 | connections: stages 0 to 3 (RAPID §6.4) |
//! | [`Synthetic`] | any | one, over all stages; packets say whether they update it |

mod counter;
mod fields;
mod knocking;
mod nat;
mod syn_cookie;
mod synthetic;
mod token_bucket;

pub use counter::FlowCounter;
pub use fields::{Fields, field, fields};
pub use knocking::PortKnocking;
pub use nat::NatBalancer;
pub use syn_cookie::SynCookie;
pub use synthetic::{Recorded, Synthetic, SyntheticPhv};
pub use token_bucket::TokenBucket;
