//! A card's reference to the states of a packet's flow, which lies before the packet.

use crate::frame::HEADROOM_BYTES;

/// What a card that looks flows up says of a packet: where the states of its flow are (Dyssect §IV-C). It says nothing to ports,
/// which carry it; the core that steps the packet knows what the bits mean, and checks what they say.
///
/// It lies in the packet's buffer, in the 8 bytes before the packet as it was received:
///
/// ```text
///   buffer:  | ... | reference, little-endian | packet ... |
///                  data.start - 8             data.start
/// ```
///
/// There XDP puts the metadata that a program adds (`bpf_xdp_adjust_meta`), and some cards theirs. A frame is no larger for it,
/// and a buffer goes from core to core with it. Where no card wrote one these bytes mean nothing, so that a reference has to be harmless
/// whatever it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reference(pub u64);

impl Reference {
    /// The reference that names no flow.
    pub const NONE: Reference = Reference(0);

    /// Bytes that it takes.
    pub const LEN: usize = 8;

    /// The one before the packet that begins at `start` of its buffer, as long as nothing was put there.
    #[inline]
    pub(crate) fn read(buffer: &[u8], start: usize) -> Reference {
        let bytes = buffer[..start].last_chunk();
        Reference(bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes)))
    }

    /// Writes it there.
    #[inline]
    pub(crate) fn write(self, buffer: &mut [u8], start: usize) {
        if let Some(bytes) = buffer[..start].last_chunk_mut() {
            *bytes = self.0.to_le_bytes();
        }
    }
}

const _: () = assert!(Reference::LEN <= HEADROOM_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lies_before_the_packet() {
        let mut buffer = [0xee; 20];
        Reference(0x0123_4567_89ab_cdef).write(&mut buffer, 12);
        let expected = [0xee, 0xee, 0xee, 0xee, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, 0xee, 0xee];
        assert_eq!(buffer[..14], expected);
        assert_eq!(Reference::read(&buffer, 12), Reference(0x0123_4567_89ab_cdef));
    }

    #[test]
    fn where_there_is_no_room_there_is_none() {
        let mut buffer = [0xee; 20];
        Reference(1).write(&mut buffer, 7);
        assert_eq!((buffer, Reference::read(&buffer, 7)), ([0xee; 20], Reference::NONE));
    }
}
