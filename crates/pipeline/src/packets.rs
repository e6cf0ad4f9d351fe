//! Packets inside a pipeline: they lie in a pool, and registers and buffers hold their numbers.

/// Number of a packet in the pool, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(u32);

impl Handle {
    /// No packet: a bubble.
    pub const NONE: Handle = Handle(u32::MAX);

    /// Whether there is no packet.
    #[inline]
    pub fn is_none(self) -> bool {
        self.0 == u32::MAX
    }

    /// Whether there is a packet.
    #[inline]
    pub fn is_some(self) -> bool {
        !self.is_none()
    }
}

/// A packet: its header vector, and what the hardware keeps beside it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<Phv, State> {
    /// Header vector.
    pub phv: Phv,
    /// Number by arrival, from 0.
    pub number: u64,
    /// The cycle in which it was accepted.
    pub arrived: u64,
    /// Key of the table in whose span the packet is, if it uses it: see [`Packet::uses_table`].
    pub key: u64,
    /// What it read there.
    pub read: State,
    /// The next packet of a list.
    pub next: Handle,
    /// Tables that are atoms and that it has passed, one bit each.
    pub atoms_done: u64,
    /// Tables whose state it has changed, one bit each.
    pub changed: u64,
    /// Whether `key` and `read` mean something.
    pub uses_table: bool,
    /// The packet has the flow for itself: RAPID's blocking mode, §4.6.
    pub is_alone: bool,
    /// Places are kept for its return: see the lossless mode of the RAPID model.
    pub is_reserved: bool,
}

/// All packets in a pipeline. Memory is taken once; giving out and taking back is O(1).
#[derive(Debug)]
pub struct Pool<Phv, State> {
    packets: Vec<Packet<Phv, State>>,
    free: Vec<Handle>,
}

impl<Phv, State> Pool<Phv, State> {
    /// Room for `capacity` packets.
    pub fn new(capacity: usize) -> Self {
        Pool { packets: Vec::with_capacity(capacity), free: Vec::with_capacity(capacity) }
    }

    /// Takes a packet in.
    #[inline]
    pub fn insert(&mut self, packet: Packet<Phv, State>) -> Handle {
        if let Some(handle) = self.free.pop() {
            self.packets[handle.0 as usize] = packet;
            return handle;
        }
        debug_assert!(
            self.packets.len() < self.packets.capacity(),
            "more packets than the pipeline has places"
        );
        self.packets.push(packet);
        Handle(self.packets.len() as u32 - 1)
    }

    /// Lets a packet go.
    #[inline]
    pub fn remove(&mut self, handle: Handle) {
        debug_assert!(!self.free.contains(&handle), "a packet leaves once");
        self.free.push(handle);
    }

    /// Packets inside.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len() - self.free.len()
    }

    /// The packet.
    #[inline]
    pub fn get(&self, handle: Handle) -> &Packet<Phv, State> {
        &self.packets[handle.0 as usize]
    }

    /// The packet, to be changed.
    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> &mut Packet<Phv, State> {
        &mut self.packets[handle.0 as usize]
    }
}

/// Packets linked in a list.
#[derive(Clone, Copy, Debug)]
pub struct List {
    head: Handle,
    tail: Handle,
}

impl Default for List {
    fn default() -> List {
        List { head: Handle::NONE, tail: Handle::NONE }
    }
}

impl List {
    /// Whether there is nothing in it.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.head.is_none()
    }

    /// What it holds, in order.
    pub fn iter<Phv, State>(self, pool: &Pool<Phv, State>) -> impl Iterator<Item = &Packet<Phv, State>> {
        let first = self.head.is_some().then(|| pool.get(self.head));
        std::iter::successors(first, |packet| packet.next.is_some().then(|| pool.get(packet.next)))
    }

    /// Appends a packet.
    pub fn push<Phv, State>(&mut self, packet: Handle, pool: &mut Pool<Phv, State>) {
        pool.get_mut(packet).next = Handle::NONE;
        match self.is_empty() {
            true => self.head = packet,
            false => pool.get_mut(self.tail).next = packet,
        }
        self.tail = packet;
    }

    /// Takes the first packet.
    pub fn pop<Phv, State>(&mut self, pool: &Pool<Phv, State>) -> Handle {
        let packet = self.head;
        if packet.is_some() {
            self.head = pool.get(packet).next;
        }
        packet
    }

    /// Puts `first` before this list, and empties it.
    pub fn prepend<Phv, State>(&mut self, first: &mut List, pool: &mut Pool<Phv, State>) {
        if first.is_empty() {
            return;
        }
        pool.get_mut(first.tail).next = self.head;
        if self.is_empty() {
            self.tail = first.tail;
        }
        self.head = first.head;
        *first = List::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(packets: u64) -> (Pool<[u64; 1], u64>, Vec<Handle>) {
        let mut pool = Pool::new(packets as usize);
        let packet = |number| Packet {
            phv: [number],
            number,
            arrived: 0,
            key: 0,
            read: 0,
            next: Handle::NONE,
            atoms_done: 0,
            changed: 0,
            uses_table: false,
            is_alone: false,
            is_reserved: false,
        };
        let handles = (0..packets).map(|number| pool.insert(packet(number))).collect();
        (pool, handles)
    }

    fn drain(list: &mut List, pool: &Pool<[u64; 1], u64>) -> Vec<u64> {
        std::iter::from_fn(|| Some(list.pop(pool)).filter(|h| h.is_some()))
            .map(|handle| pool.get(handle).number)
            .collect()
    }

    #[test]
    fn a_list_before_a_list_keeps_both_orders() {
        let (mut pool, handles) = pool(5);
        let (mut sent_back, mut newer) = (List::default(), List::default());
        newer.prepend(&mut sent_back, &mut pool);
        assert!(newer.is_empty());
        handles[..2].iter().for_each(|h| sent_back.push(*h, &mut pool));
        newer.prepend(&mut sent_back, &mut pool);
        assert!(sent_back.is_empty());
        handles[2..4].iter().for_each(|h| newer.push(*h, &mut pool));
        sent_back.push(handles[4], &mut pool);
        newer.prepend(&mut sent_back, &mut pool);
        assert_eq!(drain(&mut newer, &pool), [4, 0, 1, 2, 3]);
    }

    #[test]
    fn a_place_is_given_out_again() {
        let (mut pool, handles) = pool(2);
        pool.remove(handles[1]);
        assert_eq!(pool.len(), 1);
        let again = *pool.get(handles[0]);
        assert_eq!(pool.insert(again), handles[1]);
    }
}
