//! What a host answers to a packet as it left a chain: bytes that follow from those of the packet alone, and MAC addresses from
//! how it came.

use wire::{Headers, IcmpPorts, LinkType, Marks, internet_checksum, protocol, tcp_flags};

/// Time to live of what is answered.
const TTL: u8 = 64;
/// The router that says that a packet was too long has the address of routers that have none (RFC 7600).
const ROUTER: [u8; 4] = [192, 0, 0, 8];
/// EtherType of a frame that stands for no answer: local experimental (IEEE 802).
const NO_PROTOCOL: [u8; 2] = [0x88, 0xb5];
const IPV4_BYTES: usize = 20;

/// A packet as it left.
pub(super) struct Sent<'a> {
    link: LinkType,
    bytes: &'a [u8],
    /// As it came to the chain.
    came: &'a [u8],
    headers: Headers,
    src: [u8; 4],
    dst: [u8; 4],
}

impl<'a> Sent<'a> {
    /// `None` for a packet that cannot be answered: one without whole IPv4 and transport headers, or a fragment. `came` are the
    /// bytes as they came to the chain.
    pub(super) fn of(link: LinkType, bytes: &'a [u8], wire_len: u32, came: &'a [u8]) -> Option<Sent<'a>> {
        let headers = wire::parse(link, bytes, wire_len);
        let is_whole = headers.has_transport() && headers.marks.contains(Marks::IPV4);
        let (src, dst) = (headers.src.to_v4()?, headers.dst.to_v4()?);
        (is_whole && !headers.is_fragment()).then_some(Sent { link, bytes, came, headers, src, dst })
    }

    /// What its receiver answers. TCP goes on from where the sender says that it is: `fill` says how many bytes the answer
    /// to a segment brings, and with which number the answer to a SYN begins.
    pub(super) fn answer(&self, fill: u32) -> Option<Vec<u8>> {
        let headers = &self.headers;
        let transport = match headers.protocol {
            protocol::TCP => self.segment(fill),
            protocol::UDP => {
                let mut datagram = vec![0; 16];
                datagram[..2].copy_from_slice(&headers.dst_port.to_be_bytes());
                datagram[2..4].copy_from_slice(&headers.src_port.to_be_bytes());
                datagram[5] = 16;
                datagram
            }
            protocol::ICMP if headers.icmp_ports() == Some(IcmpPorts::Request) => {
                let mut echo = self.bytes.get(usize::from(headers.l4_offset)..)?.to_vec();
                let len = usize::from(headers.l3_len).checked_sub(self.l4_offset())?;
                echo.truncate(len);
                let [kind, _, sum @ ..] = echo.first_chunk_mut::<4>()?;
                // An echo's, or a time stamp's.
                *kind = if *kind == 8 { 0 } else { 14 };
                *sum = [0; 2];
                echo
            }
            _ => return None,
        };
        Some(self.packet(self.dst, headers.protocol, transport))
    }

    /// A router's word that it was too long: type 3, code 4 (RFC 1191).
    pub(super) fn error(&self) -> Option<Vec<u8>> {
        let l3 = usize::from(self.headers.l3_offset);
        let quoted = self.bytes.get(l3..l3 + self.l4_offset() + 8)?;
        let mut error = vec![3, 4, 0, 0, 0, 0, 5, 0];
        error.extend(quoted);
        Some(self.packet(ROUTER, protocol::ICMP, error))
    }

    /// Where the transport header begins in the IP packet.
    fn l4_offset(&self) -> usize {
        usize::from(self.headers.l4_offset).saturating_sub(self.headers.l3_offset.into())
    }

    fn segment(&self, fill: u32) -> Vec<u8> {
        let Headers { seq, ack, tcp_flags: flags, src_port, dst_port, .. } = self.headers;
        let is = |flag: u8| flags & flag != 0;
        let begins = is(tcp_flags::SYN) && !is(tcp_flags::ACK);
        let (own, bytes) = if begins { (fill, 0) } else { (ack, fill) };
        let taken = u32::from(self.headers.payload_len())
            + u32::from(is(tcp_flags::SYN))
            + u32::from(is(tcp_flags::FIN));
        let also = match () {
            () if begins => tcp_flags::SYN,
            () if is(tcp_flags::FIN) => tcp_flags::FIN,
            () => 0,
        };
        let mut segment = Vec::with_capacity(20 + bytes as usize);
        segment.extend(dst_port.to_be_bytes());
        segment.extend(src_port.to_be_bytes());
        segment.extend(own.to_be_bytes());
        segment.extend(seq.wrapping_add(taken).to_be_bytes());
        segment.extend([5 << 4, tcp_flags::ACK | also, 0xff, 0xff, 0, 0, 0, 0]);
        segment.resize(20 + bytes as usize, 0);
        segment
    }

    /// A packet to the sender, with right checksums.
    fn packet(&self, src: [u8; 4], protocol: u8, mut transport: Vec<u8>) -> Vec<u8> {
        let len = (IPV4_BYTES + transport.len()) as u16;
        let mut ip = [0; IPV4_BYTES];
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&len.to_be_bytes());
        // It may not be fragmented.
        ip[6] = 0x40;
        (ip[8], ip[9]) = (TTL, protocol);
        ip[12..16].copy_from_slice(&src);
        ip[16..].copy_from_slice(&self.src);
        let sum = internet_checksum(&[&ip]);
        ip[10..12].copy_from_slice(&sum);
        let (field, is_seeded) = match protocol {
            protocol::TCP => (16, true),
            protocol::UDP => (6, true),
            _ => (2, false),
        };
        let [high, low] = (transport.len() as u16).to_be_bytes();
        let pseudo = [0, protocol, high, low];
        let parts: [&[u8]; 3] =
            if is_seeded { [&ip[12..], &pseudo, &transport] } else { [&[], &[], &transport] };
        let sum = match (internet_checksum(&parts), protocol) {
            // A sum of 0 would say that there is none (RFC 768).
            ([0, 0], protocol::UDP) => [0xff; 2],
            (sum, _) => sum,
        };
        transport[field..field + 2].copy_from_slice(&sum);
        let mut frame = self.bytes[..usize::from(self.headers.l3_offset)].to_vec();
        // By the way on which it came: who got it may have another MAC address in another run.
        if let (LinkType::Ethernet, Some(macs)) = (self.link, self.came.get(..12)) {
            frame[..12].copy_from_slice(macs);
            frame[..12].rotate_left(6);
        }
        frame.extend(ip);
        frame.extend(transport);
        frame
    }
}

/// What stands in the place of an answer that there is not: a frame that says nothing to anyone.
pub(super) fn silence(link: LinkType) -> Vec<u8> {
    let mut frame = vec![0; if link == LinkType::Ethernet { 60 } else { 20 }];
    if link == LinkType::Ethernet {
        frame[12..14].copy_from_slice(&NO_PROTOCOL);
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

    /// IPv4 from 10.0.0.1 to 192.0.2.9 with wrong checksums, which a responder does not look at.
    fn sent(protocol: u8, transport: &[u8]) -> Vec<u8> {
        let mut bytes = [&MACS[..], &[8, 0, 0x45, 0, 0, 20 + transport.len() as u8]].concat();
        bytes.extend([0, 0, 0, 0, 9, protocol, 0, 0, 10, 0, 0, 1, 192, 0, 2, 9]);
        bytes.extend(transport);
        bytes
    }

    fn answered(bytes: &[u8], fill: u32) -> (Headers, Vec<u8>) {
        let sent =
            Sent::of(LinkType::Ethernet, bytes, bytes.len() as u32, bytes).expect("it can be answered");
        let answer = sent.answer(fill).expect("it is answered");
        let headers = wire::parse(LinkType::Ethernet, &answer, answer.len() as u32);
        assert_eq!(wire::verify(&answer, &headers), wire::Checksums::Right, "{answer:02x?}");
        assert_eq!([&answer[6..12], &answer[..6]].concat(), MACS);
        assert_eq!([headers.src.to_v4(), headers.dst.to_v4()], [Some([192, 0, 2, 9]), Some([10, 0, 0, 1])]);
        (headers, answer)
    }

    #[test]
    fn tcp_is_answered_as_a_peer_would() {
        let tcp = |seq: u32, ack: u32, flags: u8, payload: &[u8]| {
            let mut bytes = vec![0x13, 0x88, 0, 80];
            bytes.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
            bytes.extend([0x50, flags, 0, 9, 0, 0, 0, 0]);
            bytes.extend(payload);
            sent(protocol::TCP, &bytes)
        };
        let seen = |bytes: &[u8], fill| {
            let (Headers { seq, ack, tcp_flags, src_port, dst_port, .. }, answer) = answered(bytes, fill);
            assert_eq!([src_port, dst_port], [80, 5000]);
            (seq, ack, tcp_flags, answer.len() - 54)
        };
        use tcp_flags::{ACK, FIN, SYN};
        assert_eq!(seen(&tcp(7, 0, SYN, b""), 500), (500, 8, SYN | ACK, 0));
        assert_eq!(seen(&tcp(8, 501, ACK, b"abc"), 10), (501, 11, ACK, 10));
        assert_eq!(seen(&tcp(u32::MAX, 511, ACK | FIN, b"ab"), 0), (511, 2, ACK | FIN, 0));
    }

    #[test]
    fn datagrams_and_queries_are_answered() {
        let (headers, _) = answered(&sent(protocol::UDP, &[0x13, 0x88, 0, 53, 0, 9, 0, 0, 1]), 0);
        assert_eq!([headers.src_port, headers.dst_port, headers.payload_len()], [53, 5000, 8]);
        let (headers, answer) = answered(&sent(protocol::ICMP, &[8, 0, 9, 9, 0, 7, 0, 1, b'x']), 0);
        assert_eq!((headers.icmp_ports(), headers.dst_port), (Some(IcmpPorts::Reply), 7));
        assert!(answer.ends_with(&[0, 7, 0, 1, b'x']));
    }

    #[test]
    fn an_error_quotes_what_was_sent() {
        let bytes = sent(protocol::UDP, &[0x13, 0x88, 0, 53, 0, 9, 0, 0, 1]);
        let sent =
            Sent::of(LinkType::Ethernet, &bytes, bytes.len() as u32, &bytes).expect("it can be answered");
        let error = sent.error().expect("there is enough to quote");
        let headers = wire::parse(LinkType::Ethernet, &error, error.len() as u32);
        assert_eq!(wire::verify(&error, &headers), wire::Checksums::Right);
        let of = IcmpPorts::Error { protocol: protocol::UDP, is_from_destination: false };
        assert_eq!((headers.icmp_ports(), headers.dst_port, headers.src_port), (Some(of), 5000, 53));
    }

    /// A first fragment, a packet that a capture cut in its transport header, and one that is not IPv4.
    #[test]
    fn what_is_not_whole_is_not_answered() {
        let datagram = sent(protocol::UDP, &[0x13, 0x88, 0, 53, 0, 9, 0, 0, 1]);
        let is_answered =
            |bytes: &[u8]| Sent::of(LinkType::Ethernet, bytes, datagram.len() as u32, &datagram).is_some();
        assert!(is_answered(&datagram));
        let mut fragment = datagram.clone();
        fragment[20] |= 0x20;
        assert!(!is_answered(&fragment));
        assert!(!is_answered(&datagram[..14 + IPV4_BYTES + 4]));
        assert!(!is_answered(&silence(LinkType::Ethernet)));
    }

    #[test]
    fn silence_is_no_ip() {
        for link in [LinkType::Ethernet, LinkType::RawIp, LinkType::LinuxSll, LinkType::Null] {
            let frame = silence(link);
            assert!(!wire::parse(link, &frame, frame.len() as u32).is_ip(), "{link:?}");
            // As long as the shortest frame, or header of IP, so that it is no malformed one either.
            let (len, is_ethernet) = (frame.len(), link == LinkType::Ethernet);
            assert_eq!((len, frame[12..14] == NO_PROTOCOL), (if is_ethernet { 60 } else { 20 }, is_ethernet));
            assert!(Sent::of(link, &frame, frame.len() as u32, &frame).is_none());
        }
    }
}
