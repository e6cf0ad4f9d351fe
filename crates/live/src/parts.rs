//! Frames that are longer than what a kernel fills at a time (jumbo frames).
//!
//! The kernel puts such a frame into several chunks of a page each, and says of each but the last that the frame goes on.
//!
//! ```text
//!   kernel's chunks, a page each    | part 1 |   | part 2 |   | part 3 |      the first page of three frames of the pool
//!                                        |           |            |
//!   a frame of the pool             | part 1   part 2   part 3            |   the others are free again
//! ```
//!
//! So a frame of the pool is several pages long, and the kernel is given the first page of each. What arrives in further
//! parts is copied behind the first one. To be sent, a frame of the pool is already in one piece: the kernel is told of it
//! page by page, and nothing is copied.

use io::{Frame, Lent, Pool};

use crate::counters::Lost;
use crate::xdp::{Descriptor, Umem};

/// What is known of the frames of one link that have several parts.
pub(crate) struct Parts {
    /// By receive queue, the frame that is not whole yet.
    begun: Vec<Begun>,
    /// By frame of the pool, how many of its parts the kernel still has to send.
    to_send: Box<[u8]>,
    /// Parts that the kernel has to send, but for one of each frame.
    further: usize,
    /// How long the kernel's chunks are, bytes: a power of two.
    chunk_bytes: u64,
    /// How long the pool's are.
    frame_bytes: u64,
}

/// A frame of which some parts have arrived.
enum Begun {
    /// There is none.
    Nothing,
    Frame(Frame),
    /// It is lost, and what still comes of it with it.
    Spoilt(Lost),
}

impl Parts {
    /// For this memory of a pool, whose frames have so many bytes each.
    pub(crate) fn new(umem: &Umem, frame_bytes: usize, queues: u32) -> Parts {
        Parts {
            begun: (0..queues).map(|_| Begun::Nothing).collect(),
            to_send: vec![0; umem.bytes() / frame_bytes].into(),
            further: 0,
            chunk_bytes: u64::from(umem.chunk_bytes()),
            frame_bytes: frame_bytes as u64,
        }
    }

    /// The interface has one receive queue more.
    pub(crate) fn add_queue(&mut self) {
        self.begun.push(Begun::Nothing);
    }

    /// Takes what arrived by a queue: a part, or `None` where the kernel named no chunk that it had. The frame comes out
    /// with its last part; a frame that is lost is told then, once.
    pub(crate) fn join(
        &mut self,
        pool: &mut Pool,
        queue: usize,
        part: Option<Frame>,
        goes_on: bool,
    ) -> Option<Result<Frame, Lost>> {
        let begun = match (std::mem::replace(&mut self.begun[queue], Begun::Nothing), part) {
            (Begun::Nothing, Some(part)) => Begun::Frame(part),
            (Begun::Frame(mut frame), Some(part)) => match pool.append(&mut frame, part) {
                true => Begun::Frame(frame),
                false => {
                    pool.give_back([frame].into_iter());
                    Begun::Spoilt(Lost::TooLong)
                }
            },
            (Begun::Spoilt(why), part) => {
                pool.give_back(part.into_iter());
                Begun::Spoilt(why)
            }
            (begun, None) => {
                pool.give_back(begun.frame().into_iter());
                Begun::Spoilt(Lost::Refused)
            }
        };
        if goes_on {
            self.begun[queue] = begun;
            return None;
        }
        match begun {
            Begun::Frame(frame) => Some(Ok(frame)),
            Begun::Spoilt(why) => Some(Err(why)),
            Begun::Nothing => None,
        }
    }

    /// Appends a lent frame to what the kernel is to send, chunk by chunk.
    pub(crate) fn split(&mut self, Lent { address, len }: Lent, descriptors: &mut Vec<Descriptor>) {
        let (mut at, end, mut parts) = (address, address + u64::from(len), 0);
        while at < end {
            let border = (at | (self.chunk_bytes - 1)) + 1;
            let to = border.min(end);
            descriptors.push(Descriptor { address: at, len: (to - at) as u32, goes_on: to < end });
            (at, parts) = (to, parts + 1);
        }
        self.further += parts - 1;
        self.to_send[(address / self.frame_bytes) as usize] = parts as u8;
    }

    /// The frame that the kernel did not take: its first part, and the ones behind it in `rest`.
    pub(crate) fn unsplit(&mut self, first: Descriptor, rest: &mut impl Iterator<Item = Descriptor>) -> Lent {
        let (mut last, mut len, mut parts) = (first, first.len, 1);
        while last.goes_on
            && let Some(next) = rest.next()
        {
            (last, len, parts) = (next, len + next.len, parts + 1);
        }
        self.further -= parts - 1;
        self.to_send[(first.address / self.frame_bytes) as usize] = 0;
        Lent { address: first.address, len }
    }

    /// A part was sent, by any address in it. Whether that was the last one of its frame, which is free now.
    pub(crate) fn is_sent(&mut self, address: u64) -> bool {
        let left = usize::try_from(address / self.frame_bytes).ok().and_then(|at| self.to_send.get_mut(at));
        match left {
            Some(left @ 1) => {
                *left = 0;
                true
            }
            Some(left @ 2..) => {
                *left -= 1;
                self.further -= 1;
                false
            }
            // The kernel never had it.
            _ => false,
        }
    }

    /// Parts that the kernel has to send beside the first of each frame.
    pub(crate) fn further(&self) -> usize {
        self.further
    }

    /// Gives back the frames that are not whole.
    pub(crate) fn close(&mut self, pool: &mut Pool) {
        for begun in &mut self.begun {
            pool.give_back(std::mem::replace(begun, Begun::Nothing).frame().into_iter());
        }
    }
}

impl Begun {
    fn frame(self) -> Option<Frame> {
        match self {
            Begun::Frame(frame) => Some(frame),
            Begun::Nothing | Begun::Spoilt(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
