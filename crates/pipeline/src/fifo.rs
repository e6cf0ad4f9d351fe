//! A queue with a bound, which remembers how full it was.

use std::collections::VecDeque;

/// First in, first out; at most a given number.
#[derive(Clone, Debug)]
pub struct Fifo<T> {
    items: VecDeque<T>,
    capacity: usize,
    most: usize,
}

impl<T: Copy + PartialEq> Fifo<T> {
    /// An empty queue with room for `capacity`.
    pub fn new(capacity: usize) -> Fifo<T> {
        Fifo { items: VecDeque::with_capacity(capacity), capacity, most: 0 }
    }

    /// Appends, unless it is full.
    #[inline]
    pub fn push(&mut self, item: T) -> bool {
        if self.is_full() {
            return false;
        }
        self.items.push_back(item);
        self.most = self.most.max(self.items.len());
        true
    }

    /// Takes the first.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    /// The first.
    #[inline]
    pub fn first(&self) -> Option<T> {
        self.items.front().copied()
    }

    /// Takes `item` out, wherever it is. O(n).
    pub fn remove(&mut self, item: T) {
        self.items.retain(|other| *other != item);
    }

    /// Whether it holds nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether nothing more fits.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.items.len() >= self.capacity
    }

    /// How much it holds.
    #[inline]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// How much it can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The most it ever held.
    pub fn most(&self) -> usize {
        self.most
    }

    /// What it holds, in order.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.items.iter().copied()
    }
}
