//! Pins: entries that an operator has put on a core by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Which core an operator has pinned each entry of the indirection table, or each shard, to. Clones share the pins.
/// The strategy looks at them at the end of each period.
#[derive(Clone, Debug)]
pub struct Pins(Arc<[AtomicU32]>);

/// Nobody asked for anything.
const FREE: u32 = u32::MAX;

/// It goes to the core, and may go on from there.
const ONCE: u32 = 1 << 16;

impl Pins {
    /// For so many entries, none of which is pinned.
    pub fn new(entries: usize) -> Pins {
        Pins((0..entries).map(|_| AtomicU32::new(FREE)).collect())
    }

    /// The entry goes to the core at the end of the period, and stays there. `false` if there is no such entry.
    pub fn pin(&self, entry: u16, core: u16) -> bool {
        self.set(entry, core.into())
    }

    /// The entry goes to the core at the end of the period, and goes on as loads ask for. `false` if there is no such entry.
    pub fn move_once(&self, entry: u16, core: u16) -> bool {
        self.set(entry, u32::from(core) | ONCE)
    }

    /// The entry goes as loads ask for. `false` if there is no such entry.
    pub fn free(&self, entry: u16) -> bool {
        self.set(entry, FREE)
    }

    /// The core that an entry is to stay on, if it is pinned to one.
    pub fn of(&self, entry: u16) -> Option<u16> {
        let asked = self.0.get(usize::from(entry))?.load(Ordering::Relaxed);
        (asked & ONCE == 0).then_some(asked as u16)
    }

    /// Puts entries where they are asked to be, if that is one of the first `cores`. Says which are asked for, or nothing if none is:
    /// these are not to be moved otherwise. What is asked for once is forgotten. A pin to a core that is parked is forgotten, too.
    pub fn put(&self, owners: &mut [u16], cores: usize) -> Vec<bool> {
        let mut asked = Vec::new();
        for (entry, owner) in owners.iter_mut().enumerate() {
            let Some(place) = self.0.get(entry) else { break };
            let seen = place.load(Ordering::Relaxed);
            if seen == FREE {
                continue;
            }
            let core = seen as u16;
            if seen & ONCE != 0 || usize::from(core) >= cores {
                // What was asked for meanwhile holds on.
                let _ = place.compare_exchange(seen, FREE, Ordering::Relaxed, Ordering::Relaxed);
            }
            if usize::from(core) < cores {
                asked.resize(self.0.len(), false);
                (*owner, asked[entry]) = (core, true);
            }
        }
        asked
    }

    fn set(&self, entry: u16, asked: u32) -> bool {
        let place = self.0.get(usize::from(entry));
        place.inspect(|place| place.store(asked, Ordering::Relaxed)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_holds_a_move_does_not_and_neither_goes_to_a_parked_core() {
        let pins = Pins::new(4);
        let mut owners = [0, 0, 0, 0];
        assert!(pins.put(&mut owners, 2).is_empty());
        assert!(pins.pin(1, 1) && pins.clone().move_once(2, 1) && pins.pin(3, 2));
        assert!(!pins.pin(4, 0), "there is no entry 4");
        assert_eq!(pins.put(&mut owners, 2), [false, true, true, false]);
        assert_eq!(owners, [0, 1, 1, 0]);
        assert_eq!([0, 1, 2, 3].map(|entry| pins.of(entry)), [None, Some(1), None, None]);
        let mut owners = [0, 0, 0, 0];
        assert_eq!(pins.put(&mut owners, 2), [false, true, false, false]);
        pins.free(1);
        assert!(pins.put(&mut owners, 2).is_empty());
    }
}
