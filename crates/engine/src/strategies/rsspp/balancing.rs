//! Who moves entries of a table that spreads packets over ports of cores' own.
//!
//! ```text
//!   the cores' counts ──► RssPlusPlus: which entries go where
//!                              │
//!                   the table changes; wait until all packets that went by the table before are in some core's queue
//!                              │
//!                   orders to the old cores ──► flows go to the new ones ──► settled: the next look
//! ```
//!
//! The protocol is [`control`]'s. No entry is moved while another is on its way.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use control::{Order, Orders};
use strategy::{Assign, Move, RssPlusPlus};
use wire::Stamp;

use crate::strategies::account::Account;
use crate::strategies::dispatch::{Rebalancer, Table, TableError};
use crate::strategies::rsspp::own::Loads;
use crate::strategies::rsspp::updates::Updates;

/// See the module.
pub(crate) struct Balancing {
    rsspp: RssPlusPlus,
    /// By entry, its core at first.
    home: Box<[u16]>,
    orders: Orders,
    /// By core, what it counts.
    counts: Vec<Loads>,
    /// By entry, packets on all cores, as of the last look.
    seen: Box<[u64]>,
    /// Packets that came before these.
    first: u64,
    updates: Arc<Updates>,
    account: Arc<Account>,
}

impl Balancing {
    /// Looks at what cores count, of packets from number `first` on, and has `rsspp` decide.
    pub(crate) fn new(
        rsspp: RssPlusPlus,
        home: &[u16],
        (orders, counts, first): (Orders, Vec<Loads>, u64),
        updates: Arc<Updates>,
        account: Arc<Account>,
    ) -> Balancing {
        Balancing {
            rsspp,
            home: home.into(),
            orders,
            counts,
            seen: vec![0; home.len()].into(),
            first,
            updates,
            account,
        }
    }

    /// Has the packets counted that came since the last look. Says how many came so far.
    fn count(&mut self) -> u64 {
        for (entry, seen) in self.seen.iter_mut().enumerate() {
            let now = self.counts.iter().map(|counts| counts[entry].load(Ordering::Relaxed)).sum();
            self.rsspp.count(entry as u16, now - *seen);
            *seen = now;
        }
        self.first + self.seen.iter().sum::<u64>()
    }

    fn carry_out(&mut self, moves: &[Move], stamp: Stamp, table: &mut dyn Table) -> Result<(), TableError> {
        self.account.moved(moves, stamp);
        // No core ends before all of them are carried out.
        self.orders.announce(moves.len());
        moves.iter().for_each(|moved| self.updates.give(moved.entry));
        let given = table.give(moves);
        for Move { entry, from, to } in moves.iter().copied() {
            // None is moved whose order before is not carried out, so there is room for one of each entry.
            let order =
                Order { entry, to, after: Order::UNMARKED, since_seq: u64::MAX, since_ns: stamp.time_ns };
            let room = self.orders.give_announced(from.into(), order);
            debug_assert!(room.is_ok(), "an order for each entry");
        }
        given
    }
}

impl Rebalancer for Balancing {
    fn is_settled(&self) -> bool {
        self.orders.are_carried_out()
    }

    fn look(&mut self, time_ns: u64, table: &mut dyn Table) -> Result<(), TableError> {
        let stamp = Stamp { seq: self.count(), time_ns };
        match self.rsspp.moves(stamp).to_vec() {
            moves if moves.is_empty() => Ok(()),
            moves => self.carry_out(&moves, stamp, table),
        }
    }

    fn go_home(&mut self, time_ns: u64, table: &mut dyn Table) -> Result<bool, TableError> {
        let stamp = Stamp { seq: self.count(), time_ns };
        let moves = self.rsspp.give(&self.home).to_vec();
        if moves.is_empty() {
            return Ok(false);
        }
        self.carry_out(&moves, stamp, table).map(|()| true)
    }
}
