//! All tests over whole frames, as one test program. A new file is named here.

#[path = "capture.rs"]
mod capture;
#[path = "checksums.rs"]
mod checksums;
#[path = "edit_properties.rs"]
mod edit_properties;
#[path = "golden.rs"]
mod golden;
#[path = "icmp.rs"]
mod icmp;
#[path = "parse_properties.rs"]
mod parse_properties;
#[path = "plain.rs"]
mod plain;
