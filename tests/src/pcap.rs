//! Captures in memory: the beginning of a recorded one, or packets made up.

use std::path::Path;

pub use sweep::Capture as Pcap;

use crate::Packet;

/// The first packets of a recorded capture, at most so many.
pub fn first_of(capture: &Path, most: usize) -> Pcap {
    let pcap = Pcap::load(capture, most).expect("a capture");
    assert_eq!(pcap.cut_short, None);
    pcap
}

/// Packets made up.
pub fn of(packets: &[Packet]) -> Pcap {
    let mut pcap = Pcap::new();
    packets.iter().for_each(|packet| pcap.push(packet.time_ns, packet.bytes.len() as u32, &packet.bytes));
    pcap
}
