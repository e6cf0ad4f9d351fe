//! Captures are read and written exactly, and no file, however cut or damaged, loses a whole packet
//! in silence, or makes the reader panic, hang or take memory without bound.

#[path = "capture/real.rs"]
mod real;
