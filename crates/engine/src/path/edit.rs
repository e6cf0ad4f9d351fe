//! Edits become bytes: the last step of a packet's way before it is sent.

use io::{EngineDrop, Fate, Port};

use crate::path::batch::Batch;

pub(super) fn apply_edits(port: &mut impl Port, batch: &mut Batch) {
    for i in 0..batch.len() {
        if batch.edits[i].is_empty() {
            continue;
        }
        if batch.is_own(i) && !matches!(batch.fates[i], Fate::Drop(_) | Fate::DropBy { .. }) {
            let Batch { frames, headers, edits, .. } = &mut *batch;
            let (frame, headers, edits) = (&mut frames[i], &headers[i], &edits[i]);
            let (data, link) = (frame.data(), frame.link);
            let bytes = port.buffer_mut(frame).get_mut(data);
            if !bytes.is_some_and(|bytes| wire::apply_plain(edits, headers, link, bytes)) {
                apply_any(i, port, batch);
            }
        }
        batch.edits[i].clear();
    }
}

/// Edits that may move the packet's borders in its buffer, as a VLAN tag does, or a packet that is not plain.
#[inline(never)]
fn apply_any(packet: usize, port: &mut impl Port, batch: &mut Batch) {
    let frame = &mut batch.frames[packet];
    let (mut data, link) = (frame.data(), frame.link);
    let buffer = port.buffer_mut(frame);
    match wire::apply_by_layers(&batch.edits[packet], &batch.headers[packet], link, buffer, &mut data) {
        Ok(()) => frame.set_data(data),
        Err(wire::ApplyError::NoRoom) => batch.end(packet, Fate::Drop(EngineDrop::NoRoom)),
    }
}
