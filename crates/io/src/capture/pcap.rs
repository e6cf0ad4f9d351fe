//! The pcap file format (draft-ietf-opsawg-pcap).
//!
//! ```text
//!  file header, 24 bytes                         record, 16 bytes and the packet
//!   0 magic    a1b2c3d4: microseconds             0 seconds since 1970
//!              a1b23c4d: nanoseconds              4 micro- or nanoseconds
//!              (its byte order is the file's)     8 captured length
//!   4 version  u16 major 2, u16 minor 4          12 length on the wire
//!   8 reserved, 8 bytes                          16 captured bytes
//!  16 longest captured length (not binding)
//!  20 link type, low 26 bits
//! ```

use wire::LinkType;

use super::MAX_PACKET_BYTES;
use super::error::Fault;
use super::order::Order;
use super::record::Packet;
use super::window::Window;

pub(super) const HEADER_LEN: usize = 24;
pub(super) const RECORD_LEN: usize = 16;
pub(super) const MAGIC_MICRO: u32 = 0xa1b2_c3d4;
pub(super) const MAGIC_NANO: u32 = 0xa1b2_3c4d;
/// A dialect of old Linux distributions, with longer records.
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;
/// Above these bits are the length of a frame check sequence and reserved bits.
const LINK_TYPE_BITS: u32 = 0x03ff_ffff;

/// What the file header says about all records.
pub(super) struct Pcap {
    order: Order,
    unit_ns: u64,
    link: LinkType,
    /// Packets of which more is captured than was on the wire.
    pub overlong: u64,
}

/// The byte order and unit of time that a magic number stands for.
fn magic(first: [u8; 4]) -> Option<(Order, u32)> {
    let known = [MAGIC_MICRO, MAGIC_NANO, MAGIC_MODIFIED];
    [Order::Little, Order::Big]
        .into_iter()
        .map(|order| (order, order.u32(&first, 0)))
        .find(|(_, number)| known.contains(number))
}

/// Whether a file that begins so is pcap.
pub(super) fn is_pcap(first: [u8; 4]) -> bool {
    magic(first).is_some()
}

impl Pcap {
    pub fn read_header(window: &mut Window) -> Result<Pcap, Fault> {
        let header = window.peek(HEADER_LEN)?;
        let Some(&header) = header.first_chunk::<HEADER_LEN>() else {
            let present = header.len() as u64;
            return Err(Fault::Truncated {
                offset: 0,
                item: "the file header",
                needed: HEADER_LEN as u64,
                present,
            });
        };
        window.take(HEADER_LEN);

        let [a, b, c, d, ..] = header;
        let (order, unit_ns) = match magic([a, b, c, d]) {
            Some((order, MAGIC_MICRO)) => (order, 1_000),
            Some((order, MAGIC_NANO)) => (order, 1),
            _ => return Err(Fault::Dialect("\"modified\" pcap (magic number a1b2cd34)".into())),
        };
        let version = (order.u16(&header, 4), order.u16(&header, 6));
        if version != (2, 4) {
            return Err(Fault::Dialect(format!("pcap of version {}.{}", version.0, version.1)));
        }
        let number = order.u32(&header, 20) & LINK_TYPE_BITS;
        let link = LinkType::from_pcap(number).ok_or(Fault::LinkType { offset: 20, number })?;
        Ok(Pcap { order, unit_ns, link, overlong: 0 })
    }

    pub fn next(&mut self, window: &mut Window) -> Result<Option<Packet>, Fault> {
        let offset = window.offset();
        let cut = |needed: usize, present: usize| {
            let (needed, present) = (needed as u64, present as u64);
            Fault::Truncated { offset, item: "a packet record", needed, present }
        };

        let header = window.peek(RECORD_LEN)?;
        let Some(&header) = header.first_chunk::<RECORD_LEN>() else {
            return if header.is_empty() { Ok(None) } else { Err(cut(RECORD_LEN, header.len())) };
        };
        let field = |at| self.order.u32(&header, at);
        let captured = field(8) as usize;
        if captured > MAX_PACKET_BYTES {
            return Err(Fault::Corrupt {
                offset: offset + 8,
                expected: format!("a captured length of at most {MAX_PACKET_BYTES}"),
                found: captured.to_string(),
            });
        }
        let needed = RECORD_LEN + captured;
        let present = window.peek(needed)?.len();
        if present < needed {
            return Err(cut(needed, present));
        }
        window.take(RECORD_LEN);
        let mut packet = Packet {
            // At most 2^32 seconds and 2^32 microseconds: far below 2^64 ns.
            time_ns: u64::from(field(0)) * 1_000_000_000 + u64::from(field(4)) * self.unit_ns,
            wire_len: field(12),
            link: self.link,
            side: None,
            data: window.take(captured),
        };
        self.overlong += u64::from(packet.end_on_the_wire());
        Ok(Some(packet))
    }
}
