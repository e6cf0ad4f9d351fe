//! Packets of network interfaces.
//!
//! | module | what it is |
//! |---|---|
//! | [`Interface`] | an interface of this machine: what the kernel says of it |
//! | [`route`] | route mode: where a frame goes next, by the kernel's routes and neighbours |
//! | [`LiveError`] | why an interface cannot be used, and what to do |

#[cfg(not(target_os = "linux"))]
compile_error!("packets of network interfaces need Linux");

mod error;
mod interface;
pub mod route;

pub use error::LiveError;
pub use interface::Interface;
