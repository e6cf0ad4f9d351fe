//! A collector of IPFIX messages: `--connections udp:HOST:PORT`.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::explain::Code;
use crate::failure::Failure;

/// So many messages go out at once, and then none for [`PAUSE`]: a collector's socket holds about a hundred by default.
const AT_ONCE: usize = 16;
const PAUSE: Duration = Duration::from_millis(2);
/// How long the host of a collector may take to say that nobody listens.
const REFUSED_WITHIN: Duration = Duration::from_millis(100);

pub(super) struct Collector {
    socket: UdpSocket,
    address: SocketAddr,
}

impl Collector {
    /// The collector that `udp:HOST:PORT` names; `None` for another name.
    pub(super) fn named(path: &Path) -> Option<Result<Collector, Failure>> {
        let name = path.to_str()?.strip_prefix("udp:")?;
        Some(Collector::connected(name).map_err(|error| {
            let text =
                format!("no collector at `{name}`: {error}\nGive its address and port: udp:192.0.2.1:4739");
            Failure::usage(text).coded(Code::CannotWrite)
        }))
    }

    fn connected(name: &str) -> io::Result<Collector> {
        let nothing = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let address = name.to_socket_addrs()?.next().ok_or_else(nothing)?;
        let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(any)?;
        socket.connect(address)?;
        Ok(Collector { socket, address })
    }

    /// Sends the messages, a datagram each, and returns the address that they went to.
    ///
    /// # Errors
    /// The host of the collector says that nobody listens, or there is no way to it.
    pub(super) fn send(self, messages: &[Vec<u8>]) -> Result<SocketAddr, Failure> {
        self.sent(messages).map(|()| self.address).map_err(|error| {
            let text =
                format!("the collector at {} took no connections: {error}\nIs it running?", self.address);
            Failure::usage(text).coded(Code::CannotWrite)
        })
    }

    fn sent(&self, messages: &[Vec<u8>]) -> io::Result<()> {
        for some in messages.chunks(AT_ONCE) {
            for message in some {
                self.socket.send(message)?;
            }
            thread::sleep(PAUSE);
        }
        // What the host answers is an error of the socket, and comes after the datagram.
        thread::sleep(REFUSED_WITHIN);
        self.socket.take_error()?.map_or(Ok(()), Err)
    }
}
