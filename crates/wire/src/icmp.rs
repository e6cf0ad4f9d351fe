//! What an ICMP message has in place of ports: the identifier of a query, the ports of the packet that an error
//! quotes.

use crate::{Addr, Fields, Headers, Marks, protocol};

/// What [`Headers::src_port`] and [`Headers::dst_port`] are of an ICMP message over IPv4, and of an ICMPv6 error that quotes
/// TCP or UDP.
///
/// | message | `src_port` | `dst_port` |
/// |---|---|---|
/// | request: echo, timestamp | the identifier | 0 |
/// | reply to one | 0 | the identifier |
/// | error that quotes TCP or UDP | the quoted destination port | the quoted source port |
/// | error that quotes a request or reply | what the quoted one has as `dst_port` | as `src_port` |
///
/// So requests are told apart by their sender, and an answer or an error is of the same two ends as a packet that
/// answers: its destination is who sent what it is about (RFC 5508 §3, §4).
///
/// Errors are types 3, 4, 11 and 12 (RFC 792). A quote can be read if it has the whole IPv4 header, is no later
/// fragment, has 8 bytes behind the header of TCP, UDP or a query, and was sent by the host that the error goes to.
///
/// ICMPv6 errors are types 1 to 4 (RFC 4443). There TCP or UDP has to follow the quoted IPv6 header at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpPorts {
    /// A query's request.
    Request,
    /// A query's reply.
    Reply,
    /// An error.
    Error {
        /// Protocol of the quoted packet: TCP, UDP or ICMP.
        protocol: u8,
        /// Whether the error comes from the quoted packet's destination; a router's does not.
        is_from_destination: bool,
    },
}

const REQUEST: u8 = 1;
const REPLY: u8 = 2;
/// With the index in [`QUOTED`]. An error has this bit, [`FROM_ANOTHER`], or both.
const ERROR: u8 = 4;
/// The error comes from a router. Without [`ERROR`]: its quoted destination was
/// [forgotten](Headers::forget_quoted_destination).
const FROM_ANOTHER: u8 = 8;

/// What an error may quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quoted {
    Tcp,
    Udp,
    Request,
    Reply,
}

const QUOTED: [Quoted; 4] = [Quoted::Tcp, Quoted::Udp, Quoted::Request, Quoted::Reply];

/// A message of either kind, as the low nibble of [`Headers::tcp_shape`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Request,
    Reply,
    Error { quoted: Quoted, is_from_destination: bool },
}

/// Whether this is ICMP over IPv4, or ICMPv6 over IPv6.
#[inline]
pub(crate) fn is_icmp(headers: &Headers) -> bool {
    match headers.protocol {
        protocol::ICMP => headers.marks.contains(Marks::IPV4),
        protocol::ICMPV6 => headers.marks.contains(Marks::IPV6),
        _ => false,
    }
}

impl Shape {
    /// That of a query of this type; `None` for other types.
    pub(crate) fn of_query(kind: u8) -> Option<Shape> {
        match kind {
            8 | 13 => Some(Shape::Request),
            0 | 14 => Some(Shape::Reply),
            _ => None,
        }
    }

    /// What the headers say.
    #[inline]
    pub(crate) fn of(headers: &Headers) -> Option<Shape> {
        if !is_icmp(headers) || !headers.has_flow() {
            return None;
        }
        match headers.tcp_shape & 0x0f {
            REQUEST => Some(Shape::Request),
            REPLY => Some(Shape::Reply),
            error if error & (ERROR | FROM_ANOTHER) != 0 => Some(Shape::Error {
                quoted: QUOTED[usize::from(error & 3)],
                is_from_destination: error & FROM_ANOTHER == 0,
            }),
            _ => None,
        }
    }

    /// The low nibble of [`Headers::tcp_shape`].
    pub(crate) fn nibble(self) -> u8 {
        match self {
            Shape::Request => REQUEST,
            Shape::Reply => REPLY,
            Shape::Error { quoted, is_from_destination } => {
                let from = if is_from_destination { 0 } else { FROM_ANOTHER };
                ERROR | from | quoted as u8
            }
        }
    }
}

/// Where an error's quote lies in the ICMP message: the IP header begins at [`QUOTE_OFFSET`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quote {
    /// Offset of the quoted transport header.
    pub(crate) transport: usize,
    pub(crate) quoted: Quoted,
}

/// Behind type, code, checksum and what the type has there (RFC 792).
pub(crate) const QUOTE_OFFSET: usize = 8;

impl Quote {
    /// Finds the quote in an ICMP message, if it is an error with one that can be read. Who sent the quoted
    /// packet is for the caller to ask.
    pub(crate) fn find(message: &[u8]) -> Option<Quote> {
        if !matches!(message.first()?, 3 | 4 | 11 | 12) {
            return None;
        }
        let ip = message.get(QUOTE_OFFSET..)?.first_chunk::<20>()?;
        let header_len = usize::from(ip[0] & 0x0f) * 4;
        let fragment_offset = u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff;
        if ip[0] >> 4 != 4 || header_len < 20 || fragment_offset != 0 {
            return None;
        }
        let transport = QUOTE_OFFSET + header_len;
        let start = message.get(transport..)?.first_chunk::<8>()?;
        let quoted = match ip[9] {
            protocol::TCP => Quoted::Tcp,
            protocol::UDP => Quoted::Udp,
            protocol::ICMP => match Shape::of_query(start[0])? {
                Shape::Request => Quoted::Request,
                _ => Quoted::Reply,
            },
            _ => return None,
        };
        Some(Quote { transport, quoted })
    }
}

impl Quote {
    /// Finds the quote of an ICMPv6 error. `None` if the message is no error, or its quote cannot be read.
    pub(crate) fn find_v6(message: &[u8]) -> Option<Quote> {
        if !matches!(message.first()?, 1..=4) {
            return None;
        }
        let ip = message.get(QUOTE_OFFSET..)?.first_chunk::<40>()?;
        let transport = QUOTE_OFFSET + ip.len();
        let has_ports = message.len() >= transport + 8;
        let quoted = match ip[6] {
            protocol::TCP => Quoted::Tcp,
            protocol::UDP => Quoted::Udp,
            _ => return None,
        };
        (ip[0] >> 4 == 6 && has_ports).then_some(Quote { transport, quoted })
    }
}

impl Headers {
    /// An address as 32 bits, by which [`Headers::ack`] tells the destination that an ICMP error quotes: of IPv4 the address, of IPv6
    /// a digest of it.
    #[inline]
    pub fn word_of(address: Addr) -> u32 {
        match address.to_v4() {
            Some(octets) => u32::from_be_bytes(octets),
            None => Headers::digest(address),
        }
    }

    /// Equal on all machines. Addresses of a network differ in few bits: a multiplication brings each of them into the high half.
    #[cold]
    fn digest(Addr(bytes): Addr) -> u32 {
        let bits = u128::from_be_bytes(bytes);
        let mixed = ((bits >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) ^ bits as u64;
        (mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32) as u32
    }

    /// Low nibble of [`Headers::tcp_shape`] of an ICMP reply, for who makes headers and has no packet.
    pub const ICMP_REPLY: u8 = REPLY;

    /// What the ports of an ICMP message are; `None` for other packets, and for messages without.
    #[inline]
    pub fn icmp_ports(&self) -> Option<IcmpPorts> {
        Some(match Shape::of(self)? {
            Shape::Request => IcmpPorts::Request,
            Shape::Reply => IcmpPorts::Reply,
            Shape::Error { quoted, is_from_destination } => {
                let protocol = match quoted {
                    Quoted::Tcp => protocol::TCP,
                    Quoted::Udp => protocol::UDP,
                    Quoted::Request | Quoted::Reply => protocol::ICMP,
                };
                IcmpPorts::Error { protocol, is_from_destination }
            }
        })
    }

    /// The destination of the packet that an ICMP error quotes: the sender of the error or, over IPv4, a host behind the
    /// router that sent it. `None` for other packets, for errors whose quote cannot be read, where it was
    /// [forgotten](Headers::forget_quoted_destination), and for errors that a router sent over IPv6: headers have no room for
    /// a third address of that length.
    #[inline]
    pub fn quoted_destination(&self) -> Option<Addr> {
        let of_ipv4 = Addr::v4(self.ack.to_be_bytes());
        match Shape::of(self)? {
            Shape::Error { is_from_destination: true, .. } => Some(self.src),
            Shape::Error { .. } if !self.marks.contains(Marks::IPV4) => None,
            Shape::Error { .. } => (self.tcp_shape & ERROR != 0).then_some(of_ipv4),
            Shape::Request | Shape::Reply => None,
        }
    }

    /// Forgets [`Headers::quoted_destination`] of an error that a router sent. [`Headers::ack`] stays.
    #[inline]
    pub fn forget_quoted_destination(&mut self) {
        if self.protocol == protocol::ICMP && self.tcp_shape & (ERROR | FROM_ANOTHER) == ERROR | FROM_ANOTHER
        {
            self.tcp_shape &= !ERROR;
        }
    }

    /// The source or the ports of an ICMP message become these, as far as they are among `edited`: what else it says of
    /// them follows.
    #[cold]
    pub(crate) fn follow_icmp_edits(&mut self, edited: Fields, src: Addr, src_port: u16, dst_port: u16) {
        let identifier = match Shape::of(self) {
            Some(Shape::Request) if edited.contains(Fields::SRC_PORT) => src_port,
            Some(Shape::Reply) if edited.contains(Fields::DST_PORT) => dst_port,
            Some(Shape::Error { .. }) if edited.contains(Fields::SRC_ADDR) => {
                // The quoted destination is now the error's sender.
                self.tcp_shape = (self.tcp_shape | ERROR) & !FROM_ANOTHER;
                self.ack = Headers::word_of(src);
                return;
            }
            _ => return,
        };
        self.seq = self.seq & 0xffff_0000 | u32::from(identifier);
    }
}
