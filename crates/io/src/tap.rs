//! Copies of dropped packets, for one listener at a time: [`Tap`].

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wire::{LinkType, Malformed, Stamp};

use crate::Fate;

/// The most packets that are copied and not taken yet.
const ROOM: usize = 1_024;

/// Where a port leaves copies of packets that are dropped. Without a listener it is one load for each dropped packet;
/// with one, the port copies so many packets a second and counts the others. It never waits.
#[derive(Default)]
pub struct Tap {
    is_on: AtomicBool,
    active: Mutex<Option<Active>>,
    left_out: AtomicU64,
}

/// A packet that was dropped.
#[derive(Clone, Debug)]
pub struct Dropped {
    /// Its number, and when it came.
    pub stamp: Stamp,
    /// The number of the interface by which it came.
    pub interface: usize,
    /// Its bytes on the wire.
    pub wire_len: u32,
    /// What its bytes begin with.
    pub link: LinkType,
    /// Its bytes when it was dropped.
    pub bytes: Box<[u8]>,
    /// Why.
    pub why: Why,
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The chain did, with this fate, or since the packet was refused where it entered.
    Chain(Fate, Option<Malformed>),
    /// What stands behind the chain dropped it, for a reason with a name: `router`, `no-route`.
    Behind(&'static str, &'static str),
}

struct Active {
    sender: SyncSender<Dropped>,
    per_second: u64,
    /// A second, and how many packets were copied in it.
    second: (u64, u64),
}

/// Copies of dropped packets, as long as this is held.
pub struct Tapped {
    tap: Arc<Tap>,
    receiver: Receiver<Dropped>,
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").field("is_on", &self.is_on).finish_non_exhaustive()
    }
}

/// The tap has a listener already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another command already gets these packets\nWait until it ends, or end it.")]
pub struct Taken;

impl Tap {
    /// Has dropped packets copied: at most so many of each second, by their time stamps.
    ///
    /// # Errors
    /// [`Taken`] while others have.
    pub fn start(self: &Arc<Self>, per_second: u64) -> Result<Tapped, Taken> {
        let (sender, receiver) = sync_channel(ROOM);
        let mut place = lock(&self.active);
        if place.is_some() {
            return Err(Taken);
        }
        *place = Some(Active { sender, per_second, second: (0, 0) });
        self.left_out.store(0, Ordering::Relaxed);
        self.is_on.store(true, Ordering::Relaxed);
        Ok(Tapped { tap: Arc::clone(self), receiver })
    }

    /// Whether anyone asks.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// A packet is dropped. `copy` makes its copy, if that is wanted.
    #[cold]
    pub fn drop_packet(&self, stamp: Stamp, copy: impl FnOnce() -> Dropped) {
        // Another thread holds it while a listener comes or goes, and while another core copies: no reason to wait.
        let taken = self.active.try_lock().ok().and_then(|mut place| place.as_mut()?.take(stamp, copy));
        if taken.is_none() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Active {
    /// Takes a copy, if its second and the channel have room.
    fn take(&mut self, stamp: Stamp, copy: impl FnOnce() -> Dropped) -> Option<()> {
        let second = stamp.time_ns / 1_000_000_000;
        if self.second.0 != second {
            self.second = (second, 0);
        }
        if self.second.1 == self.per_second {
            return None;
        }
        self.sender.try_send(copy()).ok()?;
        self.second.1 += 1;
        Some(())
    }
}

impl Tapped {
    /// The next packet, if one is there within `patience`.
    pub fn next(&self, patience: Duration) -> Option<Dropped> {
        self.receiver.recv_timeout(patience).ok()
    }

    /// Packets that were dropped and not copied so far.
    pub fn left_out(&self) -> u64 {
        self.tap.left_out.load(Ordering::Relaxed)
    }
}

impl Drop for Tapped {
    fn drop(&mut self) {
        self.tap.is_on.store(false, Ordering::Relaxed);
        *lock(&self.tap.active) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropped(stamp: Stamp) -> Dropped {
        let why = Why::Behind("router", "no-route");
        Dropped {
            stamp,
            interface: 0,
            wire_len: 3,
            link: LinkType::Ethernet,
            bytes: Box::new([1, 2, 3]),
            why,
        }
    }

    #[test]
    fn so_many_of_each_second_are_copied_and_the_others_counted() {
        let tap = Arc::new(Tap::default());
        let stamp = |seq: u64| Stamp { seq, time_ns: seq * 100_000_000 };
        let drop_packet = |seq| tap.drop_packet(stamp(seq), || dropped(stamp(seq)));
        assert!(!tap.is_on());
        let tapped = tap.start(3).expect("nobody else");
        assert!(tap.is_on() && tap.start(3).is_err());
        (0..25).for_each(drop_packet);
        let copied: Vec<u64> =
            std::iter::from_fn(|| tapped.next(Duration::ZERO)).map(|dropped| dropped.stamp.seq).collect();
        assert_eq!(copied, [0, 1, 2, 10, 11, 12, 20, 21, 22]);
        assert_eq!(tapped.left_out(), 16);
        drop(tapped);
        assert!(!tap.is_on());
        // A listener that takes none stalls nobody.
        let tapped = tap.start(u64::MAX).expect("the one before is gone");
        (0..2_000).for_each(drop_packet);
        assert_eq!(tapped.left_out(), 2_000 - ROOM as u64);
    }
}
