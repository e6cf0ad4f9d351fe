//! A port of your own: datagrams of a UDP socket, sent on to another one.
//!
//! ```sh
//! cargo run -p paceline-io --example own_port
//! ```
//!
//! All of the port is `UdpPort`. The rest holds it to the contract, and takes a few datagrams through it.

use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

use paceline_io::{Closed, Fate, Foreign, Frame, Pool, Port, Received};
use wire::{LinkType, Stamp};

/// The longest datagram that is received, bytes; the rest of a longer one is cut.
const LONGEST_BYTES: usize = 2_048;

/// A UDP socket as a port: each datagram is an IP packet. What is forwarded goes to `to`.
struct UdpPort {
    socket: UdpSocket,
    to: SocketAddr,
    pool: Pool,
    started: Instant,
    received: u64,
    buffer: Box<[u8]>,
}

impl UdpPort {
    fn new(pool: Pool, to: SocketAddr) -> Result<UdpPort, Error> {
        let socket = UdpSocket::bind(("127.0.0.1", 0))?;
        socket.set_nonblocking(true)?;
        let buffer = vec![0; LONGEST_BYTES].into();
        Ok(UdpPort { socket, to, pool, started: Instant::now(), received: 0, buffer })
    }
}

impl Port for UdpPort {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        let max = max.min(self.pool.free());
        for count in 0..max {
            let Ok(len) = self.socket.recv(&mut self.buffer) else {
                return if count == 0 { Received::Idle } else { Received::Frames };
            };
            let stamp = Stamp { seq: self.received, time_ns: self.started.elapsed().as_nanos() as u64 };
            frames.extend(self.pool.fill(stamp, LinkType::RawIp, len as u32, &self.buffer[..len]));
            self.received += 1;
        }
        if max == 0 { Received::Idle } else { Received::Frames }
    }

    fn consumed(&self) -> u64 {
        self.received
    }

    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.pool.bytes(frame)
    }

    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.pool.buffer_mut(frame)
    }

    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        assert_eq!(frames.len(), fates.len(), "a fate for each frame");
        let leaves = |frame: &Frame, fate: &Fate| match fate {
            Fate::Forward => self.socket.send_to(self.pool.bytes(frame), self.to).map(drop),
            _ => Ok(()),
        };
        let is_full =
            |sent: Result<(), Error>| sent.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        let full = frames.iter().zip(fates).position(|(frame, fate)| is_full(leaves(frame, fate)));
        let taken = full.unwrap_or(frames.len());
        self.pool.give_back(frames.drain(..taken));
        Ok(taken)
    }

    fn take_over(&mut self, frames: &[Frame]) -> Result<(), Foreign> {
        self.pool.take_over(frames)
    }

    fn hand_over(&mut self, frames: &[Frame]) {
        self.pool.hand_over(frames);
    }
}

/// Two ports that send each other's frames, and the sockets from which packets come and to which they go.
fn two_ports(frames: usize) -> Result<(Vec<UdpPort>, UdpSocket), Error> {
    let outside = UdpSocket::bind(("127.0.0.1", 0))?;
    outside.set_nonblocking(true)?;
    let to = outside.local_addr()?;
    let ports = Pool::shared(2, frames, LONGEST_BYTES).into_iter().map(|pool| UdpPort::new(pool, to));
    Ok((ports.collect::<Result<_, _>>()?, outside))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut ports, outside) = two_ports(64)?;
    for number in 0..10u8 {
        outside.send_to(&[number; 20], ports[0].socket.local_addr()?)?;
    }
    // In at the first port, out at the second, but for every third.
    let mut frames = Vec::new();
    ports[0].receive(&mut frames, 64);
    let drop_third = |frame: &Frame| match frame.stamp.seq % 3 {
        2 => Fate::DropBy { function: 0, reason: 0 },
        _ => Fate::Forward,
    };
    let fates: Vec<Fate> = frames.iter().map(drop_third).collect();
    ports[0].hand_over(&frames);
    ports[1].take_over(&frames)?;
    ports[1].send(&mut frames, &fates)?;
    let mut left = 0;
    while outside.recv(&mut [0; 64]).is_ok() {
        left += 1;
    }
    println!("{} datagrams came in at one port, {left} left by the other", ports[0].consumed());
    Ok(())
}

#[cfg(test)]
mod tests {
    use paceline_io::contract::{Lab, port_contract};

    use super::*;

    struct Loopback {
        ports: Vec<UdpPort>,
        outside: UdpSocket,
        left: u64,
    }

    impl Lab for Loopback {
        fn port(&mut self, number: usize) -> &mut dyn Port {
            &mut self.ports[number]
        }

        fn arrive(&mut self, number: usize, packets: usize) {
            let to = self.ports[number].socket.local_addr().expect("bound");
            for packet in 0..packets {
                self.outside.send_to(&[packet as u8; 30], to).expect("loopback takes it");
            }
        }

        fn left(&mut self) -> u64 {
            while self.outside.recv(&mut [0; 64]).is_ok() {
                self.left += 1;
            }
            self.left
        }

        fn frames(&self) -> usize {
            8
        }
    }

    #[test]
    fn it_keeps_the_contract() {
        port_contract(|| {
            let (ports, outside) = two_ports(8).expect("sockets on the loopback interface");
            Loopback { ports, outside, left: 0 }
        });
    }
}
