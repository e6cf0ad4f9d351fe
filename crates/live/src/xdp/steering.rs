//! Which packets the XDP program passes to the host, and what it counts.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::pins::Pins;
use super::spread::Spread;
use crate::LiveError;

/// Which packets go to the host's own network stack. By default only packets of queues without a socket do; they do not where
/// [`Steering::drops_unserved`] is set.
///
/// The rules skip up to two VLAN tags. Frames that are malformed, or too short for a rule, go to the socket.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Steering {
    /// Pass ARP frames, and IPv6 router and neighbour discovery (ICMPv6 types 133 to 137 with hop limit 255): the host
    /// then answers for its addresses, and learns those of its neighbours.
    pub pass_neighbours: bool,
    /// Pass frames to several stations, multicast and broadcast: routers forward none, and the host's own protocols
    /// (routing, DHCP, listener discovery) want theirs. Counted with the neighbours'.
    pub pass_groups: bool,
    /// Pass packets whose destination is one of `host_addresses`.
    pub pass_host_addresses: bool,
    /// Pass packets to these destination ports. If there are `host_addresses`, only packets to those. Not passed: later
    /// fragments, which have no ports, and IPv6 packets with extension headers.
    pub pass_ports: Vec<HostPort>,
    /// The host's own addresses, at most 1,024; they can be [replaced](crate::xdp::XdpProgram::set_host_addresses)
    /// later.
    pub host_addresses: Vec<IpAddr>,
    /// Addresses of the host's own, beside those, of which only packets to `pass_ports` pass: the chain has the others.
    pub port_addresses: Vec<IpAddr>,
    /// How packets are spread over cores that have a socket each at every queue; without it there is one socket a queue.
    pub spread: Option<Spread>,
    /// For how many flows the program says before their packets where their states are, as it is
    /// [told](crate::xdp::XdpProgram::set_reference); those whose last packet is longest ago make room for others. 0: nothing is
    /// said, and nothing is before packets.
    pub card_flows: u32,
    /// Whether packets of queues without a socket are dropped, in place of going to the host, as long as the program is at the
    /// interface: queues that the interface gets later bypass nobody then. [`OnDeath::Block`] has it so in any case.
    pub drops_unserved: bool,
    /// What becomes of packets that no rule passes when this process dies.
    pub on_death: OnDeath,
    /// Where programs are named that outlive their process.
    pub pins: Pins,
}

/// What becomes of packets when the process that has the sockets dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnDeath {
    /// The host gets them.
    #[default]
    Pass,
    /// They are dropped, until the next program is attached, or a command [unblocks](crate::xdp::Pins::unblock) the
    /// interface.
    Block,
}

/// A destination port whose packets go to the host. Written as `tcp/22`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostPort {
    /// Destination port of TCP.
    Tcp(u16),
    /// Destination port of UDP.
    Udp(u16),
}

// As in bpf/steer.bpf.c.
const PASS_NEIGHBOURS: u32 = 1;
const PASS_HOST_ADDRESSES: u32 = 2;
const PASS_PORTS: u32 = 4;
const PORTS_OF_HOST: u32 = 8;
const PASS_GROUPS: u32 = 16;

impl Steering {
    /// As the program has it.
    pub(super) fn rules(&self) -> u32 {
        let bit = |is_set: bool, bit| if is_set { bit } else { 0 };
        let has_addresses = !self.host_addresses.is_empty() || !self.port_addresses.is_empty();
        bit(self.pass_neighbours, PASS_NEIGHBOURS)
            | bit(self.pass_groups, PASS_GROUPS)
            | bit(self.pass_host_addresses, PASS_HOST_ADDRESSES)
            | bit(!self.pass_ports.is_empty(), PASS_PORTS)
            | bit(!self.pass_ports.is_empty() && has_addresses, PORTS_OF_HOST)
    }
}

impl HostPort {
    /// The protocol in the upper half, the port in the lower.
    pub(super) fn key(self) -> u32 {
        match self {
            HostPort::Tcp(port) => 6 << 16 | u32::from(port),
            HostPort::Udp(port) => 17 << 16 | u32::from(port),
        }
    }
}

impl FromStr for HostPort {
    type Err = LiveError;

    fn from_str(text: &str) -> Result<HostPort, LiveError> {
        let port = match text.split_once('/') {
            Some(("tcp", port)) => port.parse().ok().map(HostPort::Tcp),
            Some(("udp", port)) => port.parse().ok().map(HostPort::Udp),
            _ => None,
        };
        port.ok_or_else(|| {
            LiveError::refused(
                format!("`{text}` is no port"),
                "Write it as in tcp/22 or udp/53, up to 65535.",
            )
        })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPort::Tcp(port) => write!(f, "tcp/{port}"),
            HostPort::Udp(port) => write!(f, "udp/{port}"),
        }
    }
}

/// Counts of packets that the program has seen, by what it did with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Steered {
    /// Redirected to a socket. [`Statistics`](crate::xdp::Statistics) counts those that the socket then dropped.
    pub redirected: u64,
    /// Passed to the host, or dropped ([`Steering::drops_unserved`]): there is no socket for their queue.
    pub no_socket: u64,
    /// Passed to the host: ARP, and discovery of IPv6.
    pub neighbours: u64,
    /// Passed to the host: to one of its addresses.
    pub host_addresses: u64,
    /// Passed to the host: to one of the ports.
    pub host_ports: u64,
    /// Lost: the kernel could not look a socket up, or a VLAN tag had no room before the frame.
    pub failed: u64,
    /// Packets among `redirected` without what was to be said of their flows, since the driver has no XDP metadata.
    /// What is before them means nothing.
    pub without_metadata: u64,
}

impl Steered {
    pub(super) const COUNTERS: u32 = 7;

    /// From the program's counters, in its order.
    pub(super) fn new(of: [u64; Self::COUNTERS as usize]) -> Steered {
        let [redirected, no_socket, neighbours, host_addresses, host_ports, failed, without_metadata] = of;
        Steered { redirected, no_socket, neighbours, host_addresses, host_ports, failed, without_metadata }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_written_as_protocol_and_number() {
        for (text, port) in [("tcp/22", HostPort::Tcp(22)), ("udp/65535", HostPort::Udp(65_535))] {
            assert_eq!(text.parse::<HostPort>().expect(text), port);
            assert_eq!(port.to_string(), text);
        }
        for text in ["", "22", "tcp/", "tcp/65536", "sctp/1", "tcp/22/1"] {
            let error = text.parse::<HostPort>().expect_err(text).to_string();
            assert!(error.contains("tcp/22"), "{error}");
        }
    }
}
