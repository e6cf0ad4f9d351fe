//! The answer to a packet that is dropped: a TCP reset, or an ICMP error that says "administratively prohibited", where it is
//! rejected; the reply, where it is a ping.
//!
//! ```text
//! a reset, over the packet:       | link | IP, 20 or 40 | TCP, 20 |
//! an error, before the packet:    | link | IP, 20 or 40 | ICMP, 8 | the packet's own bytes from its IP header on
//!                                 |<---- Answer::head() --------->|
//! a reply, over the packet:       | link | IP, 20 or 40 | ICMP, 4 | the request from its identifier on
//! ```
//!
//! The link header is the packet's, with its VLAN tags, and with source and destination exchanged.

use core::ops::Range;

use crate::edits::has_segments_left;
use crate::icmp_error::{IcmpError, IcmpErrorKind, ip_header, transport_checksum};
use crate::{Addr, Checksums, Headers, LinkType, Marks, parse, protocol, tcp_flags, verify};

/// An answer to a packet, as what becomes of the packet's frame. See [`answer`](fn@answer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    head: [u8; Answer::HEAD_MAX],
    head_len: u8,
    /// The bytes of the frame that stay behind the head: from, to.
    quoted: (u16, u16),
    kind: AnswerKind,
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// A TCP reset.
    Reset,
    /// An ICMP or ICMPv6 error: administratively prohibited.
    Prohibited,
    /// The reply to an echo request.
    Echo,
}

/// What the sender of a dropped packet is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerTo {
    /// That the packet was rejected: [`answer`](fn@answer).
    Rejected,
    /// The reply to its echo request.
    Ping,
}

impl AnswerTo {
    /// The answer to a packet, if it may be answered.
    ///
    /// A ping gets an echo reply (RFC 792, RFC 4443 §4.2) from the address that it was sent to, with its identifier, number and
    /// data, and a TTL of 64; IP options are not sent back. `None` for fragments, requests that a capture has cut, those with a wrong
    /// checksum, those from or to what is not one host, and for all that is no echo request.
    pub fn answer(self, link: LinkType, frame: &[u8], wire_len: u32) -> Option<Answer> {
        match self {
            AnswerTo::Rejected => answer(link, frame, wire_len),
            AnswerTo::Ping => pong(link, frame, wire_len),
        }
    }
}

const PROHIBITED: IcmpErrorKind = IcmpErrorKind { ipv4: [3, 13], ipv6: [1, 1], rest: [0; 4] };
const TCP: usize = 20;
/// Linux cooked, version 2, with two VLAN tags.
const LINK_MAX: usize = 28;

impl Answer {
    const HEAD_MAX: usize = LINK_MAX + 40 + TCP;

    /// How many bytes an answer may reach into the room before its packet: IPv6 and ICMPv6 headers.
    pub const ROOM: usize = IcmpError::HEAD_MAX;

    /// What it says.
    pub fn kind(&self) -> AnswerKind {
        self.kind
    }

    /// Its bytes: what is written anew, and which bytes of the frame follow it. The second is empty for a reset.
    pub fn parts<'a>(&'a self, frame: &'a [u8]) -> [&'a [u8]; 2] {
        let quoted = frame.get(usize::from(self.quoted.0)..usize::from(self.quoted.1)).unwrap_or_default();
        [self.head(), quoted]
    }

    fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_len)]
    }

    /// Writes the answer in the place of the packet that it answers, which is at `data` in `buffer`, and says where the answer is.
    /// `None`, and nothing has changed, if there is not enough [room](Answer::ROOM) before the packet, or it is another packet.
    #[must_use]
    pub fn write(&self, buffer: &mut [u8], data: Range<usize>) -> Option<Range<usize>> {
        let (begin, end) = (usize::from(self.quoted.0), usize::from(self.quoted.1));
        // A reset begins where the packet does; a quote stays where it is.
        let behind = if begin == end { data.start + self.head().len() } else { data.start + begin };
        let start = behind.checked_sub(self.head().len())?;
        let end = behind + (end - begin);
        if end > data.end {
            return None;
        }
        buffer.get_mut(start..behind)?.copy_from_slice(self.head());
        Some(start..end)
    }

    fn push(&mut self, bytes: &[u8]) {
        let begin = usize::from(self.head_len);
        self.head[begin..begin + bytes.len()].copy_from_slice(bytes);
        self.head_len += bytes.len() as u8;
    }
}

/// The answer to a packet that is rejected, to be sent to where the packet came from: for TCP a reset (RFC 9293 §3.10.7.1), for
/// all else an ICMP error of type 3, code 13 (RFC 1812 §5.2.7.1) or an ICMPv6 error of type 1, code 1 (RFC 4443 §3.1). It comes
/// from the address that the packet was sent to.
///
/// `None` for what is not to be answered (RFC 1122 §3.2.2, RFC 4443 §2.4 e), so that answers neither loop nor multiply:
///
/// - a TCP reset; an ICMP error, or a message that may be one ([`may_be_answered`]);
/// - a later fragment, and a first one of TCP, whose length nobody knows;
/// - a packet that is not IP, malformed, or has a wrong checksum; one that its sender left to a card is right;
/// - a source or destination that is not one host: multicast, broadcast, loopback, unspecified, reserved;
/// - a group of stations as source or destination in the link header;
/// - TCP by way of a routing header that names hops to come: the connection is not with the address that it goes to now.
pub fn answer(link: LinkType, frame: &[u8], wire_len: u32) -> Option<Answer> {
    let headers = parse(link, frame, wire_len);
    if !may_be_answered(&headers) {
        return None;
    }
    let mut answer = begin(link, frame, &headers, AnswerKind::Prohibited)?;
    let l3 = usize::from(headers.l3_offset);
    let packet = frame.get(l3..)?;
    match headers.protocol {
        protocol::TCP => answer.reset(&headers, packet)?,
        _ => answer.prohibited(&headers, l3, packet),
    }
    Some(answer)
}

/// The reply to a ping.
fn pong(link: LinkType, frame: &[u8], wire_len: u32) -> Option<Answer> {
    let headers = parse(link, frame, wire_len);
    let (number, is_ipv6) = (headers.protocol, headers.marks.contains(Marks::IPV6));
    let kind = match headers.icmp().map(|icmp| [icmp.kind, icmp.code])? {
        [8, 0] if number == protocol::ICMP && !is_ipv6 => 0,
        [128, 0] if number == protocol::ICMPV6 && is_ipv6 => 129,
        _ => return None,
    };
    let (l3, l4) = (usize::from(headers.l3_offset), usize::from(headers.l4_offset));
    let is_on_its_way = is_ipv6 && has_segments_left(frame.get(l3..)?, l4.saturating_sub(l3));
    if headers.is_fragment() || headers.l3_len == u16::MAX || is_on_its_way {
        return None;
    }
    let (rest, end) = (l4 + 4, l3 + usize::from(headers.l3_len));
    let data = frame.get(rest..end)?;
    let mut answer = begin(link, frame, &headers, AnswerKind::Echo)?;
    let mut icmp = [kind, 0, 0, 0];
    let checksum = transport_checksum(headers.dst, headers.src, number, [&icmp, data]);
    icmp[2..].copy_from_slice(&checksum);
    // RFC 1122 §3.2.2.6 wants the request's service in the reply.
    let (ip, len) = ip_header(headers.dst, headers.src, number, headers.tos, icmp.len() + data.len());
    answer.push(&ip[..len]);
    answer.push(&icmp);
    answer.quoted = (u16::try_from(rest).ok()?, u16::try_from(end).ok()?);
    Some(answer)
}

/// An answer with its link header alone, to a packet that one host sent to one host, and whose checksums are right.
fn begin(link: LinkType, frame: &[u8], headers: &Headers, kind: AnswerKind) -> Option<Answer> {
    let is_right = match verify(frame, headers) {
        Checksums::Right | Checksums::Unverifiable => true,
        Checksums::Wrong { is_left_to_card, .. } => is_left_to_card,
        // Malformed, or IPv6 with a transport that has none.
        Checksums::Absent => headers.is_ip() && headers.is_well_formed(),
    };
    if !is_right || !is_one_host(headers.src) || !is_one_host(headers.dst) {
        return None;
    }
    let l3 = usize::from(headers.l3_offset);
    let mut answer = Answer { head: [0; Answer::HEAD_MAX], head_len: l3 as u8, quoted: (0, 0), kind };
    answer.head.get_mut(..l3)?.copy_from_slice(frame.get(..l3)?);
    turn_round(link, &mut answer.head[..l3])?;
    Some(answer)
}

/// Whether an ICMP error may be sent about a packet, as far as its headers say: not about an error, so that nothing loops, and not
/// about a later fragment (RFC 1122 §3.2.2, RFC 1812 §4.3.2.7, RFC 4443 §2.4 e). Of ICMP only messages that are known not to be
/// errors.
pub fn may_be_answered(headers: &Headers) -> bool {
    if headers.marks.contains(Marks::LATER_FRAGMENT) {
        return false;
    }
    match (headers.protocol, headers.marks.contains(Marks::IPV4)) {
        // Known queries, and no others: an unknown type may be an error.
        (protocol::ICMP, true) => {
            headers.icmp().is_some_and(|icmp| matches!(icmp.kind, 0 | 8..=10 | 13..=18))
        }
        // Redirects are informational by their number (RFC 4443 §2.4 e.2).
        (protocol::ICMPV6, false) => headers.icmp().is_some_and(|icmp| icmp.kind >= 128 && icmp.kind != 137),
        _ => true,
    }
}

/// Whether an address is that of one host, which can be told something from elsewhere.
fn is_one_host(address: Addr) -> bool {
    match address.to_v4() {
        // "This network", loopback, multicast, reserved and broadcast (RFC 1122 §3.2.1.3).
        Some([first, ..]) => !matches!(first, 0 | 127 | 224..),
        None => {
            let Addr(bytes) = address;
            let is_loopback = bytes == 1_u128.to_be_bytes();
            bytes[0] != 0xff && address != Addr::UNSPECIFIED && !is_loopback
        }
    }
}

/// Makes a packet's link header that of its answer. `None` if it names a group of stations, or none.
fn turn_round(link: LinkType, header: &mut [u8]) -> Option<()> {
    match link {
        LinkType::Ethernet => {
            let (to, from) = header.get_mut(..12)?.split_at_mut(6);
            if (to[0] | from[0]) & 1 != 0 || *from == [0; 6] {
                return None;
            }
            to.swap_with_slice(from);
        }
        // Whose address it is depends on the way: the answer goes out, and the interface's address is not known here.
        LinkType::LinuxSll => {
            turn_round_cooked(header.get_mut(..2)?.last_mut()?)?;
            header.get_mut(4..14)?.fill(0);
        }
        LinkType::LinuxSll2 => {
            turn_round_cooked(header.get_mut(10)?)?;
            header.get_mut(11..20)?.fill(0);
        }
        LinkType::Null | LinkType::Loop | LinkType::RawIp => {}
    }
    Some(())
}

/// The packet type of a cooked capture: a packet to this or another host becomes one from this host, and one from this host one to
/// it. `None` for broadcast and multicast.
fn turn_round_cooked(packet_type: &mut u8) -> Option<()> {
    const TO_US: u8 = 0;
    const TO_ANOTHER: u8 = 3;
    const FROM_US: u8 = 4;
    *packet_type = match *packet_type {
        TO_US | TO_ANOTHER => FROM_US,
        FROM_US => TO_US,
        _ => return None,
    };
    Some(())
}

impl Answer {
    /// A reset of the connection that a TCP segment is of.
    fn reset(&mut self, headers: &Headers, packet: &[u8]) -> Option<()> {
        let transport_offset = usize::from(headers.l4_offset).saturating_sub(usize::from(headers.l3_offset));
        let is_ipv6 = headers.marks.contains(Marks::IPV6);
        let is_endless = headers.is_fragment() || headers.l3_len == u16::MAX;
        let is_on_its_way = is_ipv6 && has_segments_left(packet, transport_offset);
        if headers.tcp_flags & tcp_flags::RST != 0 || is_endless || is_on_its_way {
            return None;
        }
        let has = |flag: u8| headers.tcp_flags & flag != 0;
        let (seq, ack, flags) = match has(tcp_flags::ACK) {
            true => (headers.ack, 0, tcp_flags::RST),
            false => {
                let len = u32::from(headers.payload_len())
                    + u32::from(has(tcp_flags::SYN))
                    + u32::from(has(tcp_flags::FIN));
                (0, headers.seq.wrapping_add(len), tcp_flags::RST | tcp_flags::ACK)
            }
        };
        self.kind = AnswerKind::Reset;
        let (ip, len) = ip_header(headers.dst, headers.src, protocol::TCP, 0, TCP);
        self.push(&ip[..len]);
        let begin = usize::from(self.head_len);
        self.push(&headers.dst_port.to_be_bytes());
        self.push(&headers.src_port.to_be_bytes());
        self.push(&seq.to_be_bytes());
        self.push(&ack.to_be_bytes());
        // No options; window, checksum and urgent pointer are 0.
        self.push(&[0x50, flags, 0, 0, 0, 0, 0, 0]);
        let segment = &self.head[begin..begin + TCP];
        let checksum = transport_checksum(headers.dst, headers.src, protocol::TCP, [segment, &[]]);
        self.head[begin + 16..begin + 18].copy_from_slice(&checksum);
        Some(())
    }

    /// An error about a packet that is at `l3` in its frame.
    fn prohibited(&mut self, headers: &Headers, l3: usize, packet: &[u8]) {
        // What pads the frame is not the packet's.
        let here = packet.len().min(usize::from(headers.l3_len));
        let error = IcmpError::about(&packet[..here], headers.tos, headers.dst, headers.src, PROHIBITED);
        self.quoted = (l3 as u16, (l3 + error.quoted()) as u16);
        self.push(error.head());
    }
}
