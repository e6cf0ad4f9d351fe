//! Edits become bytes: the last step of a packet's way before it is sent.

use io::{EngineDrop, Fate, Port};

use crate::path::batch::Batch;

pub(super) fn apply_edits(port: &mut impl Port, batch: &mut Batch) {
    for i in 0..batch.len() {
        if batch.edits[i].is_empty() {
            continue;
        }
        if batch.is_own(i) && !matches!(batch.fates[i], Fate::Drop(_) | Fate::DropBy { .. }) {
            let frame = &mut batch.frames[i];
            let (before, link) = (frame.data(), frame.link);
            let mut data = before.clone();
            let buffer = port.buffer_mut(frame);
            match wire::apply(&batch.edits[i], &batch.headers[i], link, buffer, &mut data) {
                // Only a VLAN tag moves the borders.
                Ok(()) if data == before => (),
                Ok(()) => frame.set_data(data),
                Err(wire::ApplyError::NoRoom) => batch.end(i, Fate::Drop(EngineDrop::NoRoom)),
            }
        }
        batch.edits[i].clear();
    }
}
