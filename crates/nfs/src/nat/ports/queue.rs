//! The free ports of a share, in the order in which they became free.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Ports by their index in a share, the one free for longest in front. Any of them can be taken out.
///
/// All that it does is `O(1)`, and takes no memory: there is room for all ports of the share.
#[derive(Clone, Debug)]
pub(super) struct FreeQueue {
    queue: VecDeque<u16>,
    /// How many have been taken, modulo 2^32: the number of the one in front.
    taken: u32,
    /// The number of each port that is in the queue: numbers are given in the order of the queue.
    numbers: Vec<u32>,
}

impl FreeQueue {
    /// All of `len` ports.
    pub(super) fn full(len: usize) -> FreeQueue {
        FreeQueue { queue: (0..=u16::MAX).take(len).collect(), taken: 0, numbers: (0..len as u32).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Puts a port, which is not there, at the end.
    pub(super) fn push(&mut self, port: usize) {
        self.numbers[port] = self.taken.wrapping_add(self.queue.len() as u32);
        self.queue.push_back(port as u16);
    }

    /// Takes the port at `position`, from 0 at the front. The one in front goes to where it was.
    pub(super) fn take(&mut self, position: usize) -> Option<usize> {
        let front = *self.queue.front()?;
        if position > 0 {
            self.queue.swap(0, position);
            self.numbers[usize::from(front)] = self.taken.wrapping_add(position as u32);
        }
        self.taken = self.taken.wrapping_add(1);
        self.queue.pop_front().map(usize::from)
    }

    /// Takes a port that is there.
    pub(super) fn remove(&mut self, port: usize) {
        let position = self.numbers[port].wrapping_sub(self.taken) as usize;
        debug_assert_eq!(self.queue.get(position), Some(&(port as u16)));
        self.take(position);
    }

    #[cfg(test)]
    pub(super) fn len_and_capacity(&self) -> (usize, usize) {
        (self.queue.len(), self.queue.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As a plain list has it, on which the same is done.
        #[test]
        fn a_queue_is_the_list_that_it_stands_for(
            steps in proptest::collection::vec((0..3_u8, 0..9_usize), 0..300),
        ) {
            let mut list: Vec<usize> = (0..9).collect();
            let mut queue = FreeQueue { taken: u32::MAX - 20, ..FreeQueue::full(9) };
            queue.numbers.iter_mut().for_each(|number| *number = number.wrapping_add(u32::MAX - 20));
            for (what, port) in steps {
                let at = list.iter().position(|other| *other == port);
                match (what, at) {
                    (0, None) => {
                        list.push(port);
                        queue.push(port);
                    }
                    (1, Some(at)) => {
                        list.swap(0, at);
                        list.remove(0);
                        queue.remove(port);
                    }
                    (2, _) if !list.is_empty() => {
                        let at = port % list.len();
                        list.swap(0, at);
                        prop_assert_eq!(queue.take(at), Some(list.remove(0)));
                    }
                    _ => {}
                }
                prop_assert_eq!(queue.queue.iter().map(|port| usize::from(*port)).collect::<Vec<_>>(), &list[..]);
            }
        }
    }
}
