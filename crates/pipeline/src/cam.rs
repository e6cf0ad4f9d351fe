//! Content-addressable memory of a few 64-bit keys, as the dirty-flow tables are made of.

/// Keys in numbered places. Hardware compares them all at once; here a hash leads to them in O(1).
#[derive(Clone, Debug)]
pub struct Cam {
    keys: Vec<u64>,
    free: Vec<u16>,
    /// Open addressing with linear probing: place + 1, or 0. At most a quarter full.
    index: Vec<u16>,
    len: usize,
    most: usize,
}

/// Most keys of a [`Cam`].
pub const MAX_CAM_KEYS: usize = 8_192;

impl Cam {
    /// Room for `capacity` keys, at most [`MAX_CAM_KEYS`].
    pub fn new(capacity: usize) -> Cam {
        assert!(capacity <= MAX_CAM_KEYS);
        let slots = (capacity * 4).next_power_of_two().max(4);
        let free = (0..capacity as u16).rev().collect();
        Cam { keys: vec![0; capacity], free, index: vec![0; slots], len: 0, most: 0 }
    }

    /// Where `key` is.
    #[inline]
    pub fn find(&self, key: u64) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let mut slot = self.home(key);
        loop {
            match self.index[slot] {
                0 => return None,
                place if self.keys[usize::from(place) - 1] == key => return Some(usize::from(place) - 1),
                _ => slot = self.after(slot),
            }
        }
    }

    /// Puts `key`, which must not be there, in a free place; `None` if there is none.
    pub fn insert(&mut self, key: u64) -> Option<usize> {
        debug_assert!(self.find(key).is_none());
        let place = self.free.pop()?;
        self.keys[usize::from(place)] = key;
        let mut slot = self.home(key);
        while self.index[slot] != 0 {
            slot = self.after(slot);
        }
        self.index[slot] = place + 1;
        self.len += 1;
        self.most = self.most.max(self.len);
        Some(usize::from(place))
    }

    /// Takes out what is in `place`, which must be in use.
    pub fn remove(&mut self, place: usize) {
        let mut hole = self.home(self.keys[place]);
        while usize::from(self.index[hole]) != place + 1 {
            hole = self.after(hole);
        }
        self.index[hole] = 0;
        // What was pushed on by the key that is gone moves back, so that probes find no gap.
        let mut slot = self.after(hole);
        while self.index[slot] != 0 {
            let home = self.home(self.keys[usize::from(self.index[slot]) - 1]);
            let mask = self.index.len() - 1;
            if slot.wrapping_sub(home) & mask >= slot.wrapping_sub(hole) & mask {
                self.index[hole] = std::mem::take(&mut self.index[slot]);
                hole = slot;
            }
            slot = self.after(slot);
        }
        self.free.push(place as u16);
        self.len -= 1;
    }

    /// The key in `place`.
    pub fn key(&self, place: usize) -> u64 {
        self.keys[place]
    }

    /// The places that are in use, in no particular order.
    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.index.iter().filter(|place| **place > 0).map(|place| usize::from(*place) - 1)
    }

    /// Keys inside.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many keys fit.
    pub fn capacity(&self) -> usize {
        self.keys.len()
    }

    /// The most keys that were ever inside.
    pub fn most(&self) -> usize {
        self.most
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.index.len() - 1)
    }

    #[inline]
    fn after(&self, slot: usize) -> usize {
        (slot + 1) & (self.index.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_map(capacity in 1_usize..20, turns in prop::collection::vec((any::<bool>(), 0_u64..24), 0..300)) {
            let mut cam = Cam::new(capacity);
            let mut model = BTreeMap::new();
            for (insert, key) in turns {
                match (insert, model.get(&key).copied()) {
                    (true, None) => match cam.insert(key) {
                        Some(place) => prop_assert!(model.insert(key, place).is_none()),
                        None => prop_assert_eq!(model.len(), capacity),
                    },
                    (false, Some(place)) => {
                        cam.remove(place);
                        model.remove(&key);
                    }
                    _ => {}
                }
                prop_assert_eq!(cam.len(), model.len());
                for key in 0..24 {
                    prop_assert_eq!(cam.find(key), model.get(&key).copied());
                }
            }
        }
    }
}
