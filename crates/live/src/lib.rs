//! Packets of network interfaces.
//!
//! | module | what it is |
//! |---|---|
//! | [`Interface`] | an interface of this machine: what the kernel says of it |
//! | [`xdp`] | its packets past the kernel's network stack: sockets of AF_XDP, and the program that steers to them |
//! | [`LiveError`] | why an interface cannot be used, and what to do |

#[cfg(not(target_os = "linux"))]
compile_error!("packets of network interfaces need Linux");

mod error;
mod interface;
pub mod xdp;

pub use error::LiveError;
pub use interface::Interface;
