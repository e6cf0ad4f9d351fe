//! The pcapng file format (draft-ietf-opsawg-pcapng): blocks, in sections of one byte order each.
//!
//! ```text
//!  block, of `length` bytes, a multiple of 4
//!   0 type                     0a0d0d0a section header   1 interface description
//!   4 length                            2 packet (old)   3 simple packet   6 enhanced packet
//!   8 body, see below
//!  length-4  length again
//!
//!  section header    8 1a2b3c4d in the section's order, 12 u16 major 1, u16 minor
//!  interface         8 u16 link type, 12 longest captured length or 0, 16 options
//!  enhanced packet   8 interface,     12 time, high and low half, 20 captured length,
//!                                     24 length on the wire, 28 captured bytes, then options
//!  packet (old)      8 u16 interface, the rest as in an enhanced packet
//!  simple packet     8 length on the wire, 12 captured bytes
//! ```
//! All other blocks are skipped, however long; only their frame is checked.

mod clock;
mod inside;

use std::collections::BTreeMap;

use wire::{LinkType, Side};

use self::clock::Clock;
use self::inside::Inside;
use super::MAX_PACKET_BYTES;
use super::error::Fault;
use super::order::Order;
use super::record::Packet;
use super::window::Window;

/// The longest block of a kind that is read (not skipped), in bytes: the longest packet and room for
/// its options.
pub const MAX_BLOCK_BYTES: usize = 1 << 20;

/// The most interfaces in one section.
pub const MAX_INTERFACES: usize = 1 << 16;

pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(super) const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub(super) const ENHANCED_PACKET: u32 = 6;

pub(super) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Type, length and length again: the shortest block there is.
const FRAME_LEN: usize = 12;
const TRAILER_LEN: usize = 4;

/// Whether a file that begins so is pcapng.
pub(super) fn is_pcapng(first: [u8; 4]) -> bool {
    u32::from_be_bytes(first) == SECTION_HEADER
}

/// The section being read.
pub(super) struct Pcapng {
    order: Order,
    interfaces: Vec<Interface>,
    /// Given to packets that carry no time of their own.
    last_time_ns: u64,
    /// Packets of interfaces whose link type is not supported, by its number.
    pub skipped: BTreeMap<u32, u64>,
    /// Where the first of them is, and its link type.
    pub first_skipped: Option<(u64, u32)>,
    /// Packets whose time is past the year 2554.
    pub too_late: u64,
    /// Packets of which more is captured than was on the wire.
    pub overlong: u64,
    inside: Option<Inside>,
}

struct Interface {
    side: Option<Side>,
    /// The number, if Paceline cannot parse it.
    link: Result<LinkType, u32>,
    /// 0: without limit.
    snap_len: u32,
    clock: Clock,
}

/// The frame of the block at the window's start.
#[derive(Clone, Copy)]
struct Block {
    offset: u64,
    kind: u32,
    len: usize,
}

impl Pcapng {
    pub fn new() -> Pcapng {
        Pcapng {
            order: Order::Little,
            interfaces: Vec::new(),
            last_time_ns: 0,
            skipped: BTreeMap::new(),
            first_skipped: None,
            too_late: 0,
            overlong: 0,
            inside: None,
        }
    }

    /// From here on the interface of this name, or with this number in its section, is inside, and all others are outside.
    pub fn has_inside(&mut self, interface: &str) {
        self.inside = Some(Inside::new(interface));
    }

    pub fn next(&mut self, window: &mut Window) -> Result<Option<Packet>, Fault> {
        while let Some(block) = self.read_frame(window)? {
            let packet = match block.kind {
                SECTION_HEADER => self.read_section(block, window).map(|()| None)?,
                INTERFACE => self.read_interface(block, window).map(|()| None)?,
                ENHANCED_PACKET | OLD_PACKET => self.read_packet(block, window)?,
                SIMPLE_PACKET => self.read_simple_packet(block, window)?,
                _ => self.skip(block, window).map(|()| None)?,
            };
            if packet.is_some() {
                return Ok(packet);
            }
        }
        Ok(None)
    }

    /// Type and length of the next block; for a section header, also sets the byte order.
    fn read_frame(&mut self, window: &mut Window) -> Result<Option<Block>, Fault> {
        let offset = window.offset();
        let frame = window.peek(FRAME_LEN)?;
        let Some(&frame) = frame.first_chunk::<FRAME_LEN>() else {
            let present = frame.len();
            return if present == 0 { Ok(None) } else { Err(cut(offset, FRAME_LEN, present)) };
        };
        if frame.starts_with(&SECTION_HEADER.to_be_bytes()) {
            let orders = [Order::Little, Order::Big];
            let order = orders.into_iter().find(|order| order.u32(&frame, 8) == BYTE_ORDER_MAGIC);
            self.order = order.ok_or_else(|| {
                let found = Order::Big.u32(&frame, 8);
                corrupt(offset + 8, "the byte-order magic 1a2b3c4d", format!("{found:08x}"))
            })?;
        }
        let kind = self.order.u32(&frame, 0);
        let len = self.order.u32(&frame, 4);
        if len < FRAME_LEN as u32 || !len.is_multiple_of(4) {
            let expected = format!("a block length of at least {FRAME_LEN} and a multiple of 4");
            return Err(corrupt(offset + 4, expected, len));
        }
        Ok(Some(Block { offset, kind, len: len as usize }))
    }

    /// The whole of a block, `min_len` bytes or more.
    fn read_whole<'a>(
        &self,
        block: Block,
        min_len: usize,
        window: &'a mut Window,
    ) -> Result<&'a [u8], Fault> {
        let Block { offset, len, kind } = block;
        if !(min_len..=MAX_BLOCK_BYTES).contains(&len) {
            let expected = format!("a block of type {kind} with a length of {min_len} to {MAX_BLOCK_BYTES}");
            return Err(corrupt(offset + 4, expected, len));
        }
        let whole = window.peek(len)?;
        if whole.len() < len {
            return Err(cut(offset, len, whole.len()));
        }
        self.check_trailer(block, &whole[len - TRAILER_LEN..])?;
        Ok(whole)
    }

    fn check_trailer(&self, block: Block, trailer: &[u8]) -> Result<(), Fault> {
        let again = self.order.u32(trailer, 0);
        if again as usize != block.len {
            let at = block.offset + (block.len - TRAILER_LEN) as u64;
            return Err(corrupt(at, format!("the block's length, {}, again", block.len), again));
        }
        Ok(())
    }

    fn read_section(&mut self, block: Block, window: &mut Window) -> Result<(), Fault> {
        let whole = self.read_whole(block, 28, window)?;
        // Minor version 2 was written by mistake and means 0 (pcapng §4.1).
        match (self.order.u16(whole, 12), self.order.u16(whole, 14)) {
            (1, 0 | 2) => {}
            (major, minor) => return Err(Fault::Dialect(format!("pcapng of version {major}.{minor}"))),
        }
        self.interfaces.clear();
        window.take(block.len);
        Ok(())
    }

    fn read_interface(&mut self, block: Block, window: &mut Window) -> Result<(), Fault> {
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(corrupt(block.offset, format!("at most {MAX_INTERFACES} interfaces"), "one more"));
        }
        let whole = self.read_whole(block, 20, window)?;
        let number = u32::from(self.order.u16(whole, 8));
        let snap_len = self.order.u32(whole, 12);
        let options = &whole[16..block.len - TRAILER_LEN];
        let clock = Clock::from_options(self.order, options)
            .map_err(|(at, expected, found)| corrupt(block.offset + 16 + at as u64, expected, found))?;
        let inside = self.inside.as_mut();
        let side = inside.map(|inside| inside.side_of(self.order, self.interfaces.len(), options));
        let link = LinkType::from_pcap(number).ok_or(number);
        self.interfaces.push(Interface { side, link, snap_len, clock });
        window.take(block.len);
        Ok(())
    }

    /// `None` if it is skipped for its link type.
    fn read_packet(&mut self, block: Block, window: &mut Window) -> Result<Option<Packet>, Fault> {
        const DATA: usize = 28;
        let order = self.order;
        let whole = self.read_whole(block, DATA + TRAILER_LEN, window)?;
        let id = match block.kind {
            OLD_PACKET => u32::from(order.u16(whole, 8)),
            _ => order.u32(whole, 8),
        };
        let ticks = u64::from(order.u32(whole, 12)) << 32 | u64::from(order.u32(whole, 16));
        let captured = order.u32(whole, 20) as usize;
        let wire_len = order.u32(whole, 24);
        check_captured(block, block.offset + 20, captured, DATA)?;

        let interface = self.interface(block, id)?;
        let (side, link, time_ns) = (interface.side, interface.link, interface.clock.time_ns(ticks));
        self.last_time_ns = time_ns;
        let data = take_data(block, DATA, captured, window);
        let Some(link) = self.supported(link, block) else { return Ok(None) };
        self.too_late += u64::from(time_ns == u64::MAX);
        let mut packet = Packet { time_ns, wire_len, link, side, data };
        self.overlong += u64::from(packet.end_on_the_wire());
        Ok(Some(packet))
    }

    /// As [`Pcapng::read_packet`].
    fn read_simple_packet(&mut self, block: Block, window: &mut Window) -> Result<Option<Packet>, Fault> {
        const DATA: usize = 12;
        let whole = self.read_whole(block, DATA + TRAILER_LEN, window)?;
        let wire_len = self.order.u32(whole, 8);
        let interface = self.interface(block, 0)?;
        let (side, link) = (interface.side, interface.link);
        // The captured length is not stored: it is the wire's, cut at the interface's limit.
        let captured = match interface.snap_len {
            0 => wire_len,
            limit => wire_len.min(limit),
        } as usize;
        check_captured(block, block.offset + 8, captured, DATA)?;
        let time_ns = self.last_time_ns;
        let data = take_data(block, DATA, captured, window);
        let packet = |link| Packet { time_ns, wire_len, link, side, data };
        Ok(self.supported(link, block).map(packet))
    }

    /// Counts the packet as skipped if its link type is not supported.
    fn supported(&mut self, link: Result<LinkType, u32>, block: Block) -> Option<LinkType> {
        let count = |number| {
            self.first_skipped.get_or_insert((block.offset, number));
            *self.skipped.entry(number).or_insert(0) += 1;
        };
        link.map_err(count).ok()
    }

    fn interface(&self, block: Block, id: u32) -> Result<&Interface, Fault> {
        if let Some((wanted, known)) = self.inside.as_ref().and_then(Inside::missing) {
            return Err(Fault::Interface { wanted, known });
        }
        self.interfaces.get(id as usize).ok_or_else(|| {
            let known = self.interfaces.len();
            corrupt(
                block.offset,
                format!("a packet of one of the section's {known} interfaces"),
                format!("interface {id}"),
            )
        })
    }

    fn skip(&self, block: Block, window: &mut Window) -> Result<(), Fault> {
        let skipped = window.skip((block.len - TRAILER_LEN) as u64)? as usize;
        let trailer = window.peek(TRAILER_LEN)?;
        if trailer.len() < TRAILER_LEN {
            return Err(cut(block.offset, block.len, skipped + trailer.len()));
        }
        self.check_trailer(block, trailer)?;
        window.take(TRAILER_LEN);
        Ok(())
    }
}

/// The captured bytes must fit both the bound and their block.
fn check_captured(block: Block, field_offset: u64, captured: usize, data: usize) -> Result<(), Fault> {
    let room = (block.len - TRAILER_LEN - data).min(MAX_PACKET_BYTES);
    if captured > room {
        return Err(corrupt(field_offset, format!("a captured length of at most {room}"), captured));
    }
    Ok(())
}

/// Takes the block; the range is that of the captured bytes, `data` bytes from its start.
fn take_data(block: Block, data: usize, captured: usize, window: &mut Window) -> std::ops::Range<usize> {
    let start = window.take(block.len).start + data;
    start..start + captured
}

fn cut(offset: u64, needed: usize, present: usize) -> Fault {
    Fault::Truncated { offset, item: "a block", needed: needed as u64, present: present as u64 }
}

fn corrupt(offset: u64, expected: impl Into<String>, found: impl ToString) -> Fault {
    Fault::Corrupt { offset, expected: expected.into(), found: found.to_string() }
}
