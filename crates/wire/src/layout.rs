//! Where each of [`Fields`] lies in [`Headers`], and what people call it.

use core::mem::offset_of;

use zerocopy::IntoBytes;

use crate::{Fields, Headers};

/// A field, what people call it, and where it is in [`Headers`].
struct Field {
    field: Fields,
    name: &'static str,
    /// Bit *i*: byte *i* is part of it.
    bytes: u64,
}

macro_rules! field {
    ($field:ident, $name:literal, $member:ident) => {
        Field {
            field: Fields::$field,
            name: $name,
            bytes: bytes_of(offset_of!(Headers, $member), |headers| &headers.$member),
        }
    };
    ($field:ident, $name:literal) => {
        Field { field: Fields::$field, name: $name, bytes: 0 }
    };
}

const FIELDS: [Field; 23] = [
    field!(SRC_ADDR, "source address", src),
    field!(DST_ADDR, "destination address", dst),
    field!(SRC_PORT, "source port", src_port),
    field!(DST_PORT, "destination port", dst_port),
    field!(PROTOCOL, "protocol", protocol),
    field!(VLAN, "VLAN", vlan),
    field!(TTL, "TTL", ttl),
    field!(TOS, "TOS", tos),
    field!(SRC_MAC, "source MAC"),
    field!(DST_MAC, "destination MAC"),
    field!(SEQ, "sequence number", seq),
    field!(ACK, "acknowledgment number", ack),
    field!(SACK, "SACK edge", sack),
    field!(WINDOW, "window", window),
    field!(L3_LEN, "IP length", l3_len),
    field!(L4_OFFSET, "transport offset", l4_offset),
    field!(TCP_FLAGS, "TCP flags", tcp_flags),
    field!(L3_OFFSET, "IP offset", l3_offset),
    field!(TCP_SHAPE, "TCP shape", tcp_shape),
    field!(MARKS, "marks", marks),
    field!(MALFORMED, "malformed", malformed_code),
    field!(MSS, "MSS"),
    field!(TUNNEL, "tunnel"),
];

/// The bytes of a member of [`Headers`]; `_of` only tells its type.
const fn bytes_of<T>(offset: usize, _of: fn(&Headers) -> &T) -> u64 {
    (u64::MAX >> (64 - size_of::<T>())) << offset
}

// No byte of `Headers` is without a name.
const _: () = assert!(Fields::all().header_bytes() == u64::MAX);

impl Fields {
    /// The bytes of [`Headers`] that the fields are in: bit *i* is byte *i*. MAC addresses, MSS and tunnel are not there.
    pub const fn header_bytes(self) -> u64 {
        let mut bytes = 0;
        let mut index = 0;
        while index < FIELDS.len() {
            if self.contains(FIELDS[index].field) {
                bytes |= FIELDS[index].bytes;
            }
            index += 1;
        }
        bytes
    }

    /// The names of the fields, for people: `source address, source port`.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        FIELDS.iter().filter(move |named| self.contains(named.field)).map(|named| named.name)
    }
}

impl Headers {
    /// Copies `fields` from other headers; see [`Fields::header_bytes`].
    pub fn copy_fields(&mut self, fields: Fields, from: &Headers) {
        let bytes = self.as_mut_bytes().iter_mut().zip(from.as_bytes());
        for (index, (byte, from)) in bytes.enumerate() {
            if fields.header_bytes() & (1 << index) != 0 {
                *byte = *from;
            }
        }
    }

    /// These headers in `fields`, and 0 in all others.
    pub fn only(&self, fields: Fields) -> Headers {
        let mut only = Headers::default();
        only.copy_fields(fields, self);
        only
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Addr, Marks};

    /// As drawn at [`Headers`].
    #[test]
    fn fields_are_where_headers_have_them() {
        let golden = [
            (Fields::SRC_ADDR, 0..16),
            (Fields::DST_ADDR, 16..32),
            (Fields::SEQ, 32..36),
            (Fields::ACK, 36..40),
            (Fields::SACK, 40..44),
            (Fields::SRC_PORT, 44..46),
            (Fields::DST_PORT, 46..48),
            (Fields::WINDOW, 48..50),
            (Fields::VLAN, 50..52),
            (Fields::L3_LEN, 52..54),
            (Fields::L4_OFFSET, 54..56),
            (Fields::PROTOCOL, 56..57),
            (Fields::TCP_FLAGS, 57..58),
            (Fields::TTL, 58..59),
            (Fields::TOS, 59..60),
            (Fields::L3_OFFSET, 60..61),
            (Fields::TCP_SHAPE, 61..62),
            (Fields::MARKS, 62..63),
            (Fields::MALFORMED, 63..64),
            (Fields::SRC_MAC, 0..0),
            (Fields::DST_MAC, 0..0),
            (Fields::MSS, 0..0),
            (Fields::TUNNEL, 0..0),
        ];
        let mut named = Fields::empty();
        for (field, bytes) in golden {
            let mask = bytes.fold(0_u64, |mask, byte| mask | 1 << byte);
            assert_eq!(field.header_bytes(), mask, "{field:?}");
            assert_eq!(field.names().count(), 1, "{field:?}");
            named |= field;
        }
        assert_eq!(named, Fields::all());
        assert_eq!(Fields::FIVE_TUPLE.header_bytes(), 0x0100_f000_ffff_ffff);
        assert_eq!(Fields::empty().header_bytes(), 0);
    }

    /// Each field's bytes are those that its member of [`Headers`] writes: two members exchanged in the
    /// table would not show in a mask of their sizes.
    #[test]
    fn a_field_is_the_member_that_it_is_named_after() {
        const ADDR: Addr = Addr([0xff; 16]);
        let none = Headers::default();
        let changed = [
            (Fields::SRC_ADDR, Headers { src: ADDR, ..none }),
            (Fields::DST_ADDR, Headers { dst: ADDR, ..none }),
            (Fields::SEQ, Headers { seq: u32::MAX, ..none }),
            (Fields::ACK, Headers { ack: u32::MAX, ..none }),
            (Fields::SACK, Headers { sack: u32::MAX, ..none }),
            (Fields::SRC_PORT, Headers { src_port: u16::MAX, ..none }),
            (Fields::DST_PORT, Headers { dst_port: u16::MAX, ..none }),
            (Fields::WINDOW, Headers { window: u16::MAX, ..none }),
            (Fields::VLAN, Headers { vlan: u16::MAX, ..none }),
            (Fields::L3_LEN, Headers { l3_len: u16::MAX, ..none }),
            (Fields::L4_OFFSET, Headers { l4_offset: u16::MAX, ..none }),
            (Fields::PROTOCOL, Headers { protocol: u8::MAX, ..none }),
            (Fields::TCP_FLAGS, Headers { tcp_flags: u8::MAX, ..none }),
            (Fields::TTL, Headers { ttl: u8::MAX, ..none }),
            (Fields::TOS, Headers { tos: u8::MAX, ..none }),
            (Fields::L3_OFFSET, Headers { l3_offset: u8::MAX, ..none }),
            (Fields::TCP_SHAPE, Headers { tcp_shape: u8::MAX, ..none }),
            (Fields::MARKS, Headers { marks: Marks::all(), ..none }),
            (Fields::MALFORMED, Headers { malformed_code: u8::MAX, ..none }),
        ];
        for (field, headers) in changed {
            let bytes = headers.as_bytes().iter().enumerate();
            let written = bytes.fold(0_u64, |mask, (i, byte)| mask | u64::from(*byte != 0) << i);
            assert_eq!(field.header_bytes(), written, "{field:?}");
        }
    }
}
