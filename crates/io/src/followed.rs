//! What the first fragment of a later one's datagram says, which lies before the later one.

use wire::First;

use crate::{Frame, Reference};

/// Puts what a first fragment says before a later one of its datagram, in the same buffer, so that the core to which the later one goes
/// knows its flow. The packet's [note](crate::Note) says whether there is any:
///
/// ```text
///   buffer:  | ... | First | reference | packet ... |
///                  - 24    - 8         data.start
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Followed;

/// With the reference behind it.
const BEFORE: usize = First::LEN + Reference::LEN;

impl Followed {
    /// Writes it before the packet that begins at `start` of its buffer, and says whether there was room.
    pub fn write(first: &First, buffer: &mut [u8], start: usize) -> bool {
        let place = buffer.get_mut(..start).and_then(|before| before.last_chunk_mut::<BEFORE>());
        let Some(place) = place.and_then(|place| place.first_chunk_mut::<{ First::LEN }>()) else {
            return false;
        };
        *place = first.to_bytes();
        true
    }

    /// What was written there; `None` of a packet whose note says that nothing was.
    pub fn read<'a>(
        frame: &'a mut Frame,
        buffer: impl FnOnce(&'a mut Frame) -> &'a mut [u8],
    ) -> Option<First> {
        if !frame.note.is_followed() {
            return None;
        }
        let start = frame.data().start;
        let place = buffer(frame).get(..start)?.last_chunk::<BEFORE>()?.first_chunk()?;
        Some(First::from_bytes(place))
    }
}

const _: () = assert!(BEFORE <= crate::frame::HEADROOM_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lies_before_the_reference() {
        let bytes = [1, 0, 0, 8, 2, 0, 0, 0, 0x35, 0, 0x90, 0x1f, 17, 1, 0, 0];
        let mut buffer = [0xee; 40];
        assert!(Followed::write(&First::from_bytes(&bytes), &mut buffer, 32));
        assert_eq!(buffer[..8], [0xee; 8]);
        assert_eq!(buffer[8..24], bytes);
        assert_eq!(buffer[24..], [0xee; 16], "the reference and the packet stay");
    }

    #[test]
    fn where_there_is_no_room_nothing_is_written() {
        let mut buffer = [0xee; 40];
        assert!(!Followed::write(&First::default(), &mut buffer, 23));
        assert_eq!(buffer, [0xee; 40]);
    }
}
