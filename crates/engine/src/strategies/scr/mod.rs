pub(crate) mod log;
pub(crate) mod outside;
pub(crate) mod replicator;
