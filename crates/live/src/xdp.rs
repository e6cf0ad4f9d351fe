//! AF_XDP: packets of an interface, past the kernel's network stack.
//!
//! ```text
//!   interface, receive queue 3 ---> XDP program ---------> XdpSocket of queue 3 ---> this program
//!                                  (XdpProgram)  \
//!                                                 '-----> the host's network stack
//!                                                          (packets that a rule passes, and queues without a socket)
//! ```
//!
//! * [`Umem`] is packet memory in chunks, one packet in each, or a part of a longer one. Several sockets use one memory: a packet that one of them
//!   received can be sent by another without a copy.
//! * [`XdpSocket`] is the socket of one receive and transmit queue.
//!   Several sockets may have one queue ([`XdpSocket::beside`]): then [`Spread`] says which of them gets a packet.
//! * [`XdpProgram`] is the program at the interface, which steers packets to the sockets. The kernel detaches it when it
//!   is dropped, and when the process ends in any way, unless [`OnDeath`] says otherwise.
//!
//! Each chunk has one holder: the caller; or the kernel, for a packet to arrive (from [`XdpSocket::fill`] to
//! [`XdpSocket::receive`]); or the kernel, for a packet to be sent (from [`XdpSocket::transmit`] to
//! [`XdpSocket::complete`]). [`XdpSocket::to_receive`] and [`XdpSocket::to_send`] count the kernel's.
//!
//! Things to know about interfaces:
//!
//! * An interface in a bridge or router also has to be promiscuous or own the destination address; AF_XDP changes
//!   nothing about what a network card accepts.
//! * A card that takes VLAN tags off, or merges packets (LRO), does so before AF_XDP sees them:
//!   `ethtool -K IF rxvlan off lro off`. [`LivePort`](crate::LivePort) does the first itself.
//! * A virtual interface (veth) passes a tag on as its sender has it, in the frame or beside it. The program asks for
//!   those beside it ([`XdpProgram::asks_for_tags`]), and puts them back.
//! * A virtual interface (veth) leaves checksums to be filled in by the card that never comes:
//!   `ethtool -K PEER tx off` at the sender.
//! * What a socket sends into a veth needs nothing at the peer. Frames that a program redirects there (`XDP_REDIRECT`)
//!   need an XDP program at the peer, or GRO there; the kernel drops them otherwise.
//!
//! ```no_run
//! # use paceline_live::{Interface, LiveError};
//! # use paceline_live::xdp::{SocketOptions, Steering, Umem, XdpProgram, XdpSocket};
//! # fn example(umem: &Umem) -> Result<(), LiveError> {
//! let interface = Interface::open("eth0")?;
//! let mut program = XdpProgram::attach(&interface, &Steering::default())?;
//! let mut socket = XdpSocket::open(umem, &interface, 0, &SocketOptions::default())?;
//! let mut chunks: Vec<u64> = umem.chunks().collect();
//! socket.fill(&mut chunks);
//! program.insert(&socket)?;
//! let mut packets = Vec::with_capacity(64);
//! socket.receive(64, &mut packets);
//! # Ok(())
//! # }
//! ```

mod bound;
mod grace;
mod held;
mod link;
mod mapping;
mod options;
mod pins;
mod program;
mod ring;
mod setup;
mod socket;
mod spread;
mod steering;
mod umem;

pub use grace::GracePeriod;
pub use held::{Held, Holding};
pub use link::AttachMode;
pub use options::{BusyPoll, Mode, SocketOptions};
pub use pins::Pins;
pub(crate) use program::HOLDS_TAGS;
pub use program::{Action, XdpProgram};
pub(crate) use setup::LINK_BYTES;
pub use socket::{Descriptor, QueueRings, Statistics, XdpSocket};
pub use spread::Spread;
pub use steering::{HostPort, OnDeath, Steered, Steering};
pub use umem::Umem;
pub(crate) use umem::{XDP_HEADROOM, page_bytes};

/// The kernel's side of an XDP program in C, without libbpf: types, sections of maps, and helper
/// functions. For programs that other crates compile.
pub const BPF_HEADER: &str = include_str!("../bpf/bpf.h");

/// Each of them may move to the thread that uses it.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<XdpSocket>();
    is_send::<XdpProgram>();
    is_send::<Umem>();
};
