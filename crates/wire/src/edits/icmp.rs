//! Edits of ICMP messages: identifiers of queries over IPv4, and what errors quote.

use zerocopy::FromBytes;

use super::Edits;
use super::apply::{Ipv4, Ipv6};
use crate::checksum::Difference;
use crate::icmp::{QUOTE_OFFSET, Quote, Quoted, Shape};
use crate::{Fields, Headers, Marks};

impl Edits {
    /// Writes what applies into an ICMP message, as far as captured, and updates its checksums: that of the quoted
    /// IPv4 header, that of the quoted transport where it is quoted, and the message's own, which is over all of it.
    #[cold]
    pub(super) fn write_icmp(&self, set: Fields, headers: &Headers, message: &mut [u8]) {
        let mut difference = Difference::default();
        match Shape::of(headers) {
            Some(Shape::Request) if set.contains(Fields::SRC_PORT) => {
                write_identifier(self.line.src_port, message, &mut difference);
            }
            Some(Shape::Reply) if set.contains(Fields::DST_PORT) => {
                write_identifier(self.line.dst_port, message, &mut difference);
            }
            Some(Shape::Error { .. }) => self.write_quote(set, message, &mut difference),
            _ => return,
        }
        if let Some(checksum) = message.get_mut(2..).and_then(|rest| rest.first_chunk_mut()) {
            difference.mend(checksum);
        }
    }

    /// The quoted packet went the other way: its source is the error's destination.
    fn write_quote(&self, set: Fields, message: &mut [u8], difference: &mut Difference) {
        let Some(Quote { transport, quoted }) = Quote::find(message) else { return };
        let Some((before, transport)) = message.split_at_mut_checked(transport) else { return };
        let Some(Ok((ip, _))) = before.get_mut(QUOTE_OFFSET..).map(Ipv4::mut_from_prefix) else { return };
        let mut addresses = Difference::default();
        if set.contains(Fields::SRC_ADDR) {
            addresses.write4(&mut ip.dst, self.line.src.last4());
        }
        if set.contains(Fields::DST_ADDR) {
            addresses.write4(&mut ip.src, self.line.dst.last4());
        }
        // All that changes in the quote changes the sum over the message, checksums too.
        *difference = difference.and(addresses);
        update(&mut ip.checksum, addresses, Difference::mend, difference);

        self.write_quoted_transport(set, quoted, transport, addresses, difference);
    }

    /// Edits an ICMPv6 message, the packet that it quotes included. Its checksum covers the packet's `addresses`,
    /// too.
    #[cold]
    pub(super) fn write_icmpv6(
        &self,
        set: Fields,
        headers: &Headers,
        message: &mut [u8],
        addresses: Difference,
    ) {
        let mut difference = addresses;
        if Shape::of(headers).is_some() {
            self.write_quote_v6(set, message, &mut difference);
        }
        if headers.marks.contains(Marks::IPV6)
            && let Some(checksum) = message.get_mut(2..).and_then(|rest| rest.first_chunk_mut())
        {
            difference.mend(checksum);
        }
    }

    fn write_quote_v6(&self, set: Fields, message: &mut [u8], difference: &mut Difference) {
        let Some(Quote { transport, quoted }) = Quote::find_v6(message) else { return };
        let Some((before, transport)) = message.split_at_mut_checked(transport) else { return };
        let Some(Ok((ip, _))) = before.get_mut(QUOTE_OFFSET..).map(Ipv6::mut_from_prefix) else { return };
        let mut addresses = Difference::default();
        if set.contains(Fields::SRC_ADDR) {
            addresses.write16(&mut ip.dst, self.line.src.0);
        }
        if set.contains(Fields::DST_ADDR) {
            addresses.write16(&mut ip.src, self.line.dst.0);
        }
        *difference = difference.and(addresses);
        self.write_quoted_transport(set, quoted, transport, addresses, difference);
    }

    /// The quoted packet's ports, and its checksum, which covers its `addresses`.
    fn write_quoted_transport(
        &self,
        set: Fields,
        quoted: Quoted,
        transport: &mut [u8],
        addresses: Difference,
        difference: &mut Difference,
    ) {
        let mut ports = Difference::default();
        let source = set.contains(Fields::DST_PORT).then_some(self.line.dst_port);
        let destination = set.contains(Fields::SRC_PORT).then_some(self.line.src_port);
        match quoted {
            Quoted::Tcp | Quoted::Udp => {
                write_port(source, transport, 0, &mut ports);
                write_port(destination, transport, 2, &mut ports);
            }
            Quoted::Request => write_port(source, transport, 4, &mut ports),
            Quoted::Reply => write_port(destination, transport, 4, &mut ports),
        }
        *difference = difference.and(ports);
        let (at, covered) = match quoted {
            Quoted::Tcp => (16, addresses.and(ports)),
            Quoted::Udp => (6, addresses.and(ports)),
            // ICMP for IPv4 has no pseudo-header.
            Quoted::Request | Quoted::Reply => (2, ports),
        };
        if let Some(checksum) = transport.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
            let mend = |covered: Difference, checksum: &mut [u8; 2]| match quoted {
                Quoted::Udp => covered.mend_udp(checksum),
                _ => covered.mend(checksum),
            };
            update(checksum, covered, mend, difference);
        }
    }
}

/// Updates a checksum that itself lies in what `all` is of.
fn update(
    checksum: &mut [u8; 2],
    covered: Difference,
    mend: impl Fn(Difference, &mut [u8; 2]),
    all: &mut Difference,
) {
    let mut mended = *checksum;
    mend(covered, &mut mended);
    all.write2(checksum, mended);
}

fn write_identifier(identifier: u16, message: &mut [u8], difference: &mut Difference) {
    write_port(Some(identifier), message, 4, difference);
}

/// Writes a port at an even offset, if there is one to write, and notes the change.
fn write_port(port: Option<u16>, bytes: &mut [u8], at: usize, difference: &mut Difference) {
    let field = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut());
    if let (Some(port), Some(field)) = (port, field) {
        difference.write2(field, port.to_be_bytes());
    }
}
