//! Packets of an interface without the kernel's network stack: AF_XDP.
//!
//! ```text
//!   interface, receive queue 3 ---> XDP program ---------> XdpSocket of queue 3 ---> this program
//!                                  (XdpProgram)  \
//!                                                 '-----> the host's network stack
//!                                                          (what a rule passes, and queues without a socket)
//! ```
//!
//! * [`Umem`] is memory in chunks, one packet in each. Packets do not move between the sockets of one memory: what one
//!   of them received, another one sends.
//! * [`XdpSocket`] is the socket of one receive and transmit queue.
//! * [`XdpProgram`] is the program at the interface, which steers packets to the sockets. It comes off when it is
//!   dropped, and when the process dies, however it dies.
//!
//! Each chunk is always in one place: with the caller, with the kernel to be filled ([`XdpSocket::fill`] to
//! [`XdpSocket::receive`]), or with the kernel to be sent ([`XdpSocket::transmit`] to [`XdpSocket::complete`]).
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

mod link;
mod mapping;
mod program;
mod ring;
mod socket;
mod steering;
mod umem;

pub use program::{Action, AttachMode, XdpProgram};
pub use socket::{BusyPoll, Descriptor, Mode, SocketOptions, Statistics, XdpSocket};
pub use steering::{HostPort, Steered, Steering};
pub use umem::Umem;

/// Each of them may move to the thread that uses it.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<XdpSocket>();
    is_send::<XdpProgram>();
    is_send::<Umem>();
};
