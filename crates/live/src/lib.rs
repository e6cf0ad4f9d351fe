//! Packets of network interfaces.
//!
//! | module | what it is |
//! |---|---|
//! | [`Interface`] | an interface of this machine: what the kernel says of it |
//! | [`LivePort`] | one or two interfaces as a port |
//! | [`SpreadTable`] | by which table packets are spread over the ports of several cores, while entries of it move |
//! | [`CardRules`] | what XDP programs say of flows before their packets |
//! | [`TapDevice`] | an interface whose wire is this program |
//! | [`Board`] | what the interfaces of a port count, to be read while it works |
//! | [`CardHash`] | how a card is to pick the queue of a packet |
//! | [`AnswerCounters`] | what became of packets that the chain rejected |
//! | [`InterfaceCounters`] | what an interface received and sent, and why packets did not leave |
//! | [`Redirected`] | what becomes of packets that XDP programs redirect to an interface |
//! | [`Routes`] | the thread that follows the kernel's routes |
//! | [`rights`] | what this process may do, and giving up what it does not need |
//! | [`route`] | route mode: where a frame goes next, by the kernel's routes and neighbours |
//! | [`xdp`] | its packets past the kernel's network stack: sockets of AF_XDP, and the program that steers to them |
//! | [`LiveError`] | why an interface cannot be used, and what to do |

#[cfg(not(target_os = "linux"))]
compile_error!("packets of network interfaces need Linux");

mod answers;
mod board;
mod card;
mod clock;
mod counters;
mod error;
mod external;
mod heap;
mod host;
mod interface;
mod link;
mod link_info;
mod link_monitor;
mod long;
mod marks;
mod offload;
mod packet_socket;
mod parts;
mod port;
mod redirected;
pub mod rights;
pub mod route;
mod routes;
mod rules;
mod segment;
mod side;
mod table;
mod tags;
mod tap_link;
pub mod xdp;
mod xdp_link;

pub use answers::AnswerCounters;
pub use board::{Board, InterfaceStatus};
pub use card::CardHash;
pub use counters::{InterfaceCounters, Lost};
pub use error::LiveError;
pub use external::ExternalAddresses;
pub use heap::give_back_heap;
pub use interface::{Interface, host_addresses};
pub use port::{LivePort, Mode, Poll, PortOptions, Sockets};
pub use redirected::Redirected;
pub use routes::Routes;
pub use rules::CardRules;
pub use table::SpreadTable;
pub use tap_link::TapDevice;
