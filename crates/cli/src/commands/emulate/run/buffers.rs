//! How large each buffer of a model is.

use pipeline::Model;

/// The size of a buffer that a report names: `FUNCTION.BUFFER`, or `ring.NODE.BUFFER`.
pub fn size(model: &Model, name: &str) -> Option<usize> {
    let (_, buffer) = name.rsplit_once('.')?;
    match (model, buffer) {
        (Model::Blocking(own) | Model::FlowBlaze(own), "flow_queue") => Some(own.depth),
        (Model::Rapid(own), "rb") => Some(own.resubmitted_buffer),
        (Model::Rapid(own), "pb") => Some(own.phv_buffer),
        (Model::Rapid(own), "dtable_read" | "dtable_write") => Some(own.dirty_table),
        (Model::Rapid(own), "block_queue") => Some(own.block_queue),
        (Model::Rapid(own), "suspend_queue") => Some(own.suspend_queue),
        (Model::Rapid(own), "schedule_queue") => Some(own.schedule_queue),
        // Only a dirty flow is blocked.
        (Model::Rapid(own), "blocked_flows") => Some(own.dirty_flows()),
        (Model::Rapid(own), "from_pipeline") => Some(own.ring_from_pipeline),
        (Model::Rapid(own), "from_ring") => Some(own.ring_from_ring),
        _ => None,
    }
}
