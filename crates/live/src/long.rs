//! Packets that are longer than the MTU, by AF_XDP: what a sender on this machine left to a card to be segmented, and what
//! the kernel merged (GRO) below the interface.
//!
//! The kernel copies such a packet into several chunks, and does not say how it is to be segmented. TCP is cut so that each
//! segment fits the MTU, which any sender may do with its bytes; the ends of merged datagrams cannot be told, and they are lost.

use io::{Frame, Lent, Pool};
use wire::{LinkType, Stamp, parse};

use crate::counters::{InterfaceCounters, Lost};
use crate::packet_socket::{WAITING, fill};
use crate::segment::segment_to_fit;
use crate::xdp::Descriptor;

/// Packets taken from the kernel at a time, at most.
const AT_A_TIME: usize = 1_024;

/// The longest packet with its link header, and what the kernel may put there beside.
const LONGEST_BYTES: usize = 65_536 + 22;

/// What is known of the long packets of one link.
pub(crate) struct Long {
    /// The longest IP packet that leaves whole, bytes.
    mtu: usize,
    /// By receive queue, the packet that is not whole yet.
    begun: Vec<Begun>,
    /// One segment.
    segment: Vec<u8>,
    /// Packets and segments, in order, that were not handed out yet, without numbers.
    pub(crate) waiting: Vec<Frame>,
}

/// What has arrived of a packet.
struct Begun {
    bytes: Vec<u8>,
    /// It is lost, and what still comes of it with it.
    is_spoilt: bool,
}

impl Begun {
    fn nothing() -> Begun {
        Begun { bytes: Vec::with_capacity(LONGEST_BYTES), is_spoilt: false }
    }
}

impl Long {
    pub(crate) fn new(mtu: usize, queues: u32) -> Long {
        Long {
            mtu,
            begun: (0..queues).map(|_| Begun::nothing()).collect(),
            segment: Vec::with_capacity(LONGEST_BYTES),
            waiting: Vec::with_capacity(WAITING + AT_A_TIME),
        }
    }

    /// The link has one more receive queue.
    pub(crate) fn add_queue(&mut self) {
        self.begun.push(Begun::nothing());
    }

    /// Takes all that came by a queue.
    pub(crate) fn receive(
        &mut self,
        pool: &mut Pool,
        queue: usize,
        descriptors: &mut Vec<Descriptor>,
        counters: &mut InterfaceCounters,
    ) {
        for Descriptor { address, len, goes_on } in descriptors.drain(..) {
            let part = pool.receive_lent(Stamp::default(), LinkType::Ethernet, Lent { address, len });
            match part {
                Some(frame) if !self.takes(queue, len, goes_on) => {
                    counters.received += 1;
                    counters.received_bytes += u64::from(len);
                    self.waiting.push(frame);
                }
                part => self.take(pool, queue, part, goes_on, counters),
            }
        }
    }

    /// Whether what comes next by a queue is to be taken: it is part of a packet, or it is longer than may leave.
    fn takes(&self, queue: usize, len: u32, goes_on: bool) -> bool {
        // With two tags a packet of the MTU is longer, and is looked at for nothing.
        goes_on || len as usize > self.mtu + 14 || !self.begun[queue].bytes.is_empty()
    }

    /// Takes a part; `None` where the kernel named no chunk that it had. With its last part the packet is segmented.
    fn take(
        &mut self,
        pool: &mut Pool,
        queue: usize,
        part: Option<Frame>,
        goes_on: bool,
        counters: &mut InterfaceCounters,
    ) {
        let Begun { bytes, is_spoilt } = &mut self.begun[queue];
        match part {
            Some(frame) => {
                let part = pool.bytes(&frame);
                let fits = bytes.len() + part.len() <= LONGEST_BYTES;
                *is_spoilt |= !fits;
                if fits {
                    bytes.extend_from_slice(part);
                }
                pool.give_back([frame].into_iter());
            }
            None => *is_spoilt = true,
        }
        if goes_on {
            return;
        }
        counters.received += 1;
        counters.received_bytes += bytes.len() as u64;
        let waiting = &mut self.waiting;
        let headers = parse(LinkType::Ethernet, bytes, bytes.len() as u32);
        if bytes.is_empty() {
            counters.lose(Lost::Refused);
        } else if *is_spoilt {
            counters.lose(Lost::TooLong);
        } else if usize::from(headers.l3_len) <= self.mtu {
            fill(pool, bytes, counters, waiting);
        } else {
            let mut take = |segment: &mut [u8]| {
                counters.completed += 1;
                fill(pool, segment, counters, waiting);
            };
            if !segment_to_fit(bytes, self.mtu, &mut self.segment, &mut take) {
                counters.lose(Lost::NotSegmented);
            }
        }
        bytes.clear();
        *is_spoilt = false;
    }

    /// Gives back what waits.
    pub(crate) fn close(&mut self, pool: &mut Pool) {
        pool.give_back(self.waiting.drain(..));
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use wire::{Checksums, verify};

    use super::*;

    fn frame(payload: usize, is_tcp: bool) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let (mut frame, data) = (Vec::new(), vec![7; payload]);
        match is_tcp {
            true => builder.tcp(1_000, 80, 7, 500).write(&mut frame, &data),
            false => builder.udp(1_000, 53).write(&mut frame, &data),
        }
        .expect("a packet");
        frame
    }

    /// In chunks, as the kernel does it.
    fn give(long: &mut Long, pool: &mut Pool, bytes: &[u8], counters: &mut InterfaceCounters) {
        let parts: Vec<&[u8]> = bytes.chunks(1_792).collect();
        for (at, part) in parts.iter().enumerate() {
            let goes_on = at + 1 < parts.len();
            assert!(long.takes(0, part.len() as u32, goes_on));
            let frame = pool.fill(Stamp::default(), LinkType::Ethernet, part.len() as u32, part);
            long.take(pool, 0, Some(frame.expect("a frame is free")), goes_on, counters);
        }
    }

    #[test]
    fn tcp_is_segmented_to_the_mtu_and_what_cannot_be_is_counted() {
        let (mut pool, _) = Pool::chunks(128, 2_048, 0);
        let (mut long, mut counters) = (Long::new(1_500, 1), InterfaceCounters::default());
        let free = pool.free();
        assert!(!long.takes(0, 1_514, false), "an ordinary packet");
        give(&mut long, &mut pool, &frame(14_600, true), &mut counters);
        assert_eq!((long.waiting.len(), counters.received, counters.completed), (10, 1, 10));
        for waiting in &long.waiting {
            let bytes = pool.bytes(waiting);
            let headers = parse(LinkType::Ethernet, bytes, bytes.len() as u32);
            assert_eq!((verify(bytes, &headers), bytes.len()), (Checksums::Right, 1_514));
        }
        long.close(&mut pool);
        // Each where it belongs: datagrams, a chunk that is none, and more than there can be.
        give(&mut long, &mut pool, &frame(3_000, false), &mut counters);
        assert_eq!(counters.lost[Lost::NotSegmented as usize], 1);
        long.take(&mut pool, 0, None, false, &mut counters);
        give(&mut long, &mut pool, &[0; 70_000], &mut counters);
        assert_eq!((counters.lost[Lost::Refused as usize], counters.lost[Lost::TooLong as usize]), (1, 1));
        assert!(!long.takes(0, 60, false), "nothing is left of it");
        assert_eq!((pool.free(), long.waiting.len()), (free, 0));
    }
}
