//! An interface that takes VLAN tags off what it receives is told to leave them in the frames, as long as a port has it.
//!
//! The program at the interface does not see a tag that was taken off, and the frame would leave as one of no VLAN.

use nix::net::if_::if_nametoindex;

use crate::{Interface, LiveError};

/// The interface takes tags off again when this is dropped, if it did before. That takes the right that switching it off
/// took, so the thread that looks after interfaces has it.
#[derive(Debug)]
pub(crate) struct TagsStay(Option<Interface>);

impl TagsStay {
    /// Has the interface leave tags in frames.
    ///
    /// # Errors
    /// [`LiveError`] if it cannot be switched off.
    pub(crate) fn in_frames_of(interface: &Interface) -> Result<TagsStay, LiveError> {
        if !interface.takes_tags_off() {
            return Ok(TagsStay(None));
        }
        interface.take_tags_off(false)?;
        Ok(TagsStay(Some(interface.clone())))
    }
}

impl Drop for TagsStay {
    fn drop(&mut self) {
        let Some(interface) = &self.0 else { return };
        // Another one may have its name now.
        if if_nametoindex(interface.name.as_str()) == Ok(interface.index) {
            let _ = interface.take_tags_off(true);
        }
    }
}
