//! Packets of network interfaces.
//!
//! | module | what it is |
//! |---|---|
//! | [`Interface`] | an interface of this machine: what the kernel says of it |
//! | [`LivePort`] | one or two interfaces as a port |
//! | [`InterfaceCounters`] | what an interface received and sent, and why packets did not leave |
//! | [`route`] | route mode: where a frame goes next, by the kernel's routes and neighbours |
//! | [`LiveError`] | why an interface cannot be used, and what to do |

#[cfg(not(target_os = "linux"))]
compile_error!("packets of network interfaces need Linux");

mod clock;
mod counters;
mod error;
mod interface;
mod link;
mod packet_socket;
mod port;
mod segment;
pub mod route;

pub use counters::{InterfaceCounters, Lost};
pub use error::LiveError;
pub use interface::Interface;
pub use port::{LivePort, Mode};
