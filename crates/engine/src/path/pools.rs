//! The pools of a function on a core: one for all packets, or one for each entry of the indirection table.

/// A function's pools on a core.
#[derive(Clone)]
pub(crate) enum Pools<P> {
    /// One pool for all entries.
    One(P),
    /// By entry of the indirection table, of which those are here whose entry is. A power of two: where packets come with more
    /// bits of the hash, the lowest count.
    ByEntry(Box<[Option<P>]>),
}

impl<P> Pools<P> {
    /// One pool for all entries.
    pub(crate) fn one(pool: P) -> Self {
        Pools::One(pool)
    }

    /// By entry.
    pub(crate) fn by_entry(pools: Vec<Option<P>>) -> Self {
        Pools::ByEntry(pools.into())
    }

    /// The pool of an entry that is here.
    #[inline(always)]
    pub(crate) fn of(&mut self, entry: u16) -> &mut P {
        self.get_mut(entry).expect("an entry's packets come where its pool is")
    }

    #[inline(always)]
    pub(crate) fn peek(&self, entry: u16) -> Option<&P> {
        match self {
            Pools::One(pool) => Some(pool),
            Pools::ByEntry(pools) => pools[usize::from(entry) & (pools.len() - 1)].as_ref(),
        }
    }

    /// The pool of an entry, if it is here.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, entry: u16) -> Option<&mut P> {
        match self {
            Pools::One(pool) => Some(pool),
            Pools::ByEntry(pools) => pools[usize::from(entry) & (pools.len() - 1)].as_mut(),
        }
    }

    /// The pool of an entry that goes; `None` if it is for all.
    pub(crate) fn take(&mut self, entry: u16) -> Option<P> {
        match self {
            Pools::One(_) => None,
            Pools::ByEntry(pools) => pools[usize::from(entry)].take(),
        }
    }

    /// The pool of an entry that comes.
    pub(crate) fn put(&mut self, entry: u16, pool: P) {
        match self {
            Pools::One(one) => *one = pool,
            Pools::ByEntry(pools) => pools[usize::from(entry)] = Some(pool),
        }
    }
}
