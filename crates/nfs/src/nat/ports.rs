//! The pool: which external ports are free, and whose the others are.

use core::sync::atomic::{AtomicU64, Ordering};

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use nf::hash_bytes;
use wire::protocol;

use super::options::PortRange;

/// Any number; the same on every core, so that a host gets one address on all of them.
const HOST_HASH_SEED: u64 = 0x706f_6f6c;

/// An external port, for one protocol: an external address by its index, and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct External {
    pub(super) address: u8,
    pub(super) protocol: u8,
    pub(super) port: u16,
}

/// One core's external ports.
///
/// Takes no memory after it was made: each queue has room for all of the core's ports of its kind.
#[derive(Clone, Debug)]
pub struct Pool {
    ports: PortTable,
    /// External addresses of which this core has ports, ascending.
    addresses: Vec<u8>,
    /// By [`PortTable::kind`]: free even ports and free odd ones, the one free for longest in front.
    free: Vec<[VecDeque<u16>; 2]>,
}

impl Pool {
    /// One pool for each core. `core_of` says to which core packets to an external port come from
    /// outside: that core gets it.
    pub(super) fn divide(
        addresses: usize,
        range: PortRange,
        cores: usize,
        core_of: impl Fn(External) -> usize,
    ) -> Vec<Pool> {
        let ports = PortTable::new(addresses, range);
        let empty = || Pool {
            ports: ports.share(),
            addresses: Vec::new(),
            free: (0..2 * addresses).map(|_| [VecDeque::new(), VecDeque::new()]).collect(),
        };
        let mut pools: Vec<Pool> = (0..cores).map(|_| empty()).collect();
        for address in (0..=u8::MAX).take(addresses) {
            for protocol in [protocol::UDP, protocol::TCP] {
                for port in range.iter() {
                    let external = External { address, protocol, port };
                    // A port whose packets come to no core is of no use to any.
                    if let Some(pool) = pools.get_mut(core_of(external)) {
                        pool.queue(external).push_back(port);
                        if pool.addresses.last() != Some(&address) {
                            pool.addresses.push(address);
                        }
                    }
                }
            }
        }
        pools
    }

    /// Takes a port for an inside host's endpoint; `O(1)`. The address is the host's own (RFC 4787
    /// REQ-2), the port's parity is that of `inside.1` if there is such a port (REQ-4). `random` picks
    /// among the half that has been free for longest; without it, the very oldest is taken.
    pub(super) fn take(
        &mut self,
        protocol: u8,
        inside: ([u8; 4], u16),
        random: Option<u64>,
    ) -> Option<External> {
        let address = self.address_of_host(inside.0)?;
        let kind = PortTable::kind(address, protocol);
        let wanted = usize::from(inside.1 % 2);
        let queues = self.free.get_mut(kind)?;
        let queue = if queues[wanted].is_empty() { &mut queues[1 - wanted] } else { &mut queues[wanted] };
        if let Some(random) = random {
            let picked = scaled(random, queue.len().div_ceil(2));
            if picked > 0 {
                queue.swap(0, picked);
            }
        }
        let external = External { address, protocol, port: queue.pop_front()? };
        self.ports.set(external, inside);
        Some(external)
    }

    /// Gives a port back; it is the last of its kind to be taken again.
    pub(super) fn give_back(&mut self, external: External) {
        debug_assert!(self.ports.inside(external).is_some(), "{external:?} is free already");
        self.ports.clear(external);
        self.queue(external).push_back(external.port);
    }

    /// The inside endpoint that an external port stands for.
    #[inline]
    pub(super) fn inside(&self, external: External) -> Option<([u8; 4], u16)> {
        self.ports.inside(external)
    }

    /// Where [`Pool::inside`] looks; null for a port that it does not look up.
    #[inline]
    pub(super) fn line(&self, external: External) -> *const u8 {
        self.ports.slot(external).map_or(core::ptr::null(), |slot| core::ptr::from_ref(slot).cast())
    }

    /// How many ports are free, for each kind the even ones and the odd ones.
    #[cfg(test)]
    pub(super) fn free(&self) -> impl Iterator<Item = [&VecDeque<u16>; 2]> {
        self.free.iter().map(|[even, odd]| [even, odd])
    }

    /// One inside host has one external address (RFC 4787 REQ-2). Cores whose ports are of the same
    /// addresses agree on which.
    fn address_of_host(&self, host: [u8; 4]) -> Option<u8> {
        let index = scaled(hash_bytes(&host, HOST_HASH_SEED), self.addresses.len());
        self.addresses.get(index).copied()
    }

    fn queue(&mut self, external: External) -> &mut VecDeque<u16> {
        let kind = PortTable::kind(external.address, external.protocol);
        &mut self.free[kind][usize::from(external.port % 2)]
    }
}

/// A random number as one below `count`; 0 if `count` is.
fn scaled(random: u64, count: usize) -> usize {
    ((u128::from(random) * count as u128) >> 64) as usize
}

/// Whose every external port is; one table, which all cores of a run share.
///
/// An entry is written by the core that owns the port and by no other. Only hairpinned packets read
/// entries of other cores.
///
/// ```text
///  63        49     48    47           16 15           0
///  | zero     | taken | inside address  | inside port  |
/// ```
///
/// All accesses are relaxed. An entry is one word, so that a read is never of two halves, and whoever
/// has read it needs nothing else that its writer wrote: there is nothing to order. A core sees its own
/// writes at once, and the others' soon.
#[derive(Debug)]
struct PortTable {
    entries: Arc<[AtomicU64]>,
    range: PortRange,
}

const TAKEN: u64 = 1 << 48;

/// A table of its own with what is in this one.
impl Clone for PortTable {
    fn clone(&self) -> PortTable {
        let entries = self.entries.iter().map(|entry| AtomicU64::new(entry.load(Ordering::Relaxed)));
        PortTable { entries: entries.collect(), range: self.range }
    }
}

impl PortTable {
    fn new(addresses: usize, range: PortRange) -> PortTable {
        let entries = (0..2 * addresses * range.len()).map(|_| AtomicU64::new(0)).collect();
        PortTable { entries, range }
    }

    /// The same table once more.
    fn share(&self) -> PortTable {
        PortTable { entries: Arc::clone(&self.entries), range: self.range }
    }

    /// Counts through addresses and protocols.
    #[inline]
    fn kind(address: u8, protocol: u8) -> usize {
        usize::from(address) * 2 + usize::from(protocol == protocol::TCP)
    }

    #[inline]
    fn slot(&self, external: External) -> Option<&AtomicU64> {
        let offset = self.range.offset(external.port)?;
        let kind = PortTable::kind(external.address, external.protocol);
        self.entries.get(kind * self.range.len() + offset)
    }

    #[inline]
    fn inside(&self, external: External) -> Option<([u8; 4], u16)> {
        let entry = self.slot(external)?.load(Ordering::Relaxed);
        (entry & TAKEN != 0).then(|| (((entry >> 16) as u32).to_be_bytes(), entry as u16))
    }

    fn set(&self, external: External, (addr, port): ([u8; 4], u16)) {
        let entry = TAKEN | u64::from(u32::from_be_bytes(addr)) << 16 | u64::from(port);
        self.write(external, entry);
    }

    fn clear(&self, external: External) {
        self.write(external, 0);
    }

    fn write(&self, external: External, entry: u64) {
        if let Some(slot) = self.slot(external) {
            slot.store(entry, Ordering::Relaxed);
        }
    }
}
