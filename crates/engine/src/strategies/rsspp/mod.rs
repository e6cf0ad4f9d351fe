pub(crate) mod mover;
