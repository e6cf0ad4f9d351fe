//! For `verify`: what full tables and empty pools turned away on many cores, noted, to be turned away again on one.
//!
//! Which flow a full table refuses or evicts is its own choice, and so is for whom a share of a pool has nothing left. All
//! else is not: given these choices one core has to do the same. So they are noted where the strategy runs, and `single`
//! is told of them. A table that is told has room for all flows, and decides nothing by itself.
//!
//! Cores are not in step, so that the time at which a flow was evicted is told in one of two ways. Where a table steps all packets
//! that come to it in order, be they a core's or those of a replica, the flow was evicted before the packet that wanted its
//! block, or from which on other flows came. Where flows that come from other cores find their packets waiting, these are
//! stepped behind later ones of other flows. Then the packets of the flow's own entry of the indirection table tell it,
//! which are stepped in order wherever they are: it was evicted behind the last of them so far.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use table::MAX_FLOWS;

/// What the tables of a chain turned away in a run, on all cores.
#[derive(Debug)]
pub(crate) struct Notes {
    /// By function: under which number its table notes. Behind them, for each function, under which it notes where cores
    /// share its states.
    heads: Vec<usize>,
    by_head: Vec<Head>,
}

/// What one table, or those of one group of functions on all cores, note.
#[derive(Debug, Default)]
struct Head {
    turned_away: Mutex<TurnedAway>,
    /// By entry: the number of the packet behind the last one that was stepped.
    stepped: OnceLock<Box<[AtomicU64]>>,
}

#[derive(Debug, Default)]
struct TurnedAway {
    /// Packets, by sequence number, whose new flow found no room.
    refused: HashSet<u64>,
    /// Packets that came when their flow had no block.
    absent: HashSet<u64>,
    /// Keys of flows that had to go while they lived, with the packets before which they were gone.
    evicted: HashMap<Vec<u8>, BTreeSet<u64>>,
}

impl Notes {
    /// For a chain of so many functions with these groups. `is_striped`: all cores share the groups' tables.
    pub(crate) fn new(functions: usize, groups: &[Range<usize>], is_striped: bool) -> Notes {
        let group = |function| groups.iter().find(|group| group.contains(&function));
        let head = |function| group(function).map_or(function, |group| group.start);
        let shared = |function| if is_striped { head(function) } else { functions + function };
        let heads = (0..functions).map(head).chain((0..functions).map(shared)).collect();
        Notes { heads, by_head: (0..2 * functions).map(|_| Head::default()).collect() }
    }
}

impl Head {
    fn turned_away(&self) -> MutexGuard<'_, TurnedAway> {
        self.turned_away.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a table notes what it turns away.
#[derive(Clone, Debug)]
pub(crate) struct Noting {
    notes: Arc<Notes>,
    head: usize,
    /// Whether all packets that come to the table are stepped in order.
    is_in_step: bool,
    /// Packets before this number are stepped.
    since: u64,
}

impl Noting {
    /// For the table of a function's group, which steps all packets in order or not.
    pub(crate) fn of(notes: &Arc<Notes>, function: usize, is_in_step: bool) -> Noting {
        let head = notes.heads[function];
        if !is_in_step {
            let none = || (0..=u16::MAX).map(|_| AtomicU64::new(0)).collect();
            notes.by_head[head].stepped.get_or_init(none);
        }
        Noting { notes: Arc::clone(notes), head, is_in_step, since: 0 }
    }

    /// For a function's states that all cores share.
    pub(crate) fn of_shared(notes: &Arc<Notes>, function: usize) -> Noting {
        Noting::of(notes, notes.heads.len() / 2 + function, true)
    }

    /// Packets before number `seq` are stepped, on all cores. From there on the table steps all that come to it in order, or not.
    pub(crate) fn since(&mut self, seq: u64, is_in_step: bool) {
        (self.since, self.is_in_step) = (seq, is_in_step);
    }

    fn noted(&self) -> MutexGuard<'_, TurnedAway> {
        self.notes.by_head[self.head].turned_away()
    }

    /// A packet has come whose flow has no block.
    #[cold]
    pub(crate) fn absent(&self, seq: u64) {
        self.noted().absent.insert(seq);
    }

    /// The packet's new flow has found no room.
    #[cold]
    pub(crate) fn refused(&self, seq: u64) {
        self.noted().refused.insert(seq);
    }

    /// A packet of this entry has been stepped.
    pub(crate) fn stepped(&self, entry: u16, seq: u64) {
        if let Some(stepped) = self.stepped_of(entry) {
            stepped.fetch_max(seq + 1, Ordering::Relaxed);
        }
    }

    /// A flow that lived had to go. `entry` brings its packets, and `seq` is the packet that wanted its block, or from which on
    /// the flows came that did; `None` if nobody knows.
    #[cold]
    pub(crate) fn evicted(&self, key: &[u8], entry: u16, seq: Option<u64>) {
        let behind = self.stepped_of(entry).map(|stepped| stepped.load(Ordering::Relaxed).max(self.since));
        self.noted().evicted.entry(key.to_vec()).or_default().extend(behind.or(seq));
    }

    fn stepped_of(&self, entry: u16) -> Option<&AtomicU64> {
        let stepped = self.notes.by_head[self.head].stepped.get().filter(|_| !self.is_in_step)?;
        stepped.get(usize::from(entry))
    }
}

/// What one core is told to turn away.
#[derive(Debug)]
pub(crate) struct Told {
    /// As the notes' heads.
    functions: Vec<Arc<ToldOf>>,
    /// Why a function dropped a packet for which its pool had nothing, by the packet's sequence number and the function.
    starved: Arc<Starved>,
    /// The most flows that there can be.
    flows: usize,
}

#[derive(Debug)]
struct ToldOf {
    noted: TurnedAway,
    /// Evictions in the order of the packets for which they were.
    in_order: Vec<(u64, Vec<u8>)>,
    /// Keys of flows that were evicted and had not come back by the end.
    gone: Vec<Vec<u8>>,
}

/// Which function of a chain before left its flows to a function, if one did.
pub(crate) type LeftBy<'a> = &'a dyn Fn(usize) -> Option<usize>;

/// See [`Told`].
pub(crate) type Starved = HashMap<(u64, usize), u8>;

impl Told {
    /// What `notes` say of a run of so many packets, which takes it from them. `is_there` says whether a function's flow is
    /// in the table of some core at the end, and `before` which function of a chain before this one left its flows to it.
    pub(crate) fn new(
        notes: &Notes,
        is_there: impl Fn(usize, &[u8]) -> bool,
        before: Option<(&Told, LeftBy<'_>)>,
        starved: Arc<Starved>,
        packets: u64,
    ) -> Told {
        let functions = notes.heads.len() / 2;
        let of = |head: usize| {
            let mut noted = mem::take(&mut *notes.by_head[head].turned_away());
            if let Some((told, left_by)) = before
                && let Some(left_by) = (head < functions).then(|| left_by(head)).flatten()
            {
                let left = told.functions[left_by].noted.evicted.keys();
                left.for_each(|key| _ = noted.evicted.entry(key.clone()).or_default());
            }
            let each = |(key, packets): (&Vec<u8>, &BTreeSet<u64>)| {
                packets.iter().map(|packet| (*packet, key.clone())).collect::<Vec<_>>()
            };
            let mut in_order: Vec<(u64, Vec<u8>)> = noted.evicted.iter().flat_map(each).collect();
            in_order.sort_unstable();
            let gone = |key: &&Vec<u8>| head < functions && !is_there(head, key);
            let gone = noted.evicted.keys().filter(gone).cloned().collect();
            Arc::new(ToldOf { noted, in_order, gone })
        };
        let by_head: Vec<Arc<ToldOf>> = (0..notes.by_head.len()).map(of).collect();
        let functions = notes.heads.iter().map(|head| Arc::clone(&by_head[*head])).collect();
        let flows = usize::try_from(packets).unwrap_or(usize::MAX).clamp(1, MAX_FLOWS);
        Told { functions, starved, flows }
    }

    /// For how many flows a table needs room to take all that come.
    pub(crate) fn flows(&self) -> usize {
        self.flows
    }
}

/// What a table on one core is told to turn away.
#[derive(Debug)]
pub(crate) struct Telling {
    told: Arc<Told>,
    of: Arc<ToldOf>,
    /// How many of the evictions in order are over.
    over: usize,
    /// Those to come that a flow's own packets told of.
    ahead: HashSet<(u64, Vec<u8>)>,
}

impl Telling {
    /// The table of a function's group.
    pub(crate) fn of(told: &Arc<Told>, function: usize) -> Telling {
        let of = Arc::clone(&told.functions[function]);
        Telling { told: Arc::clone(told), of, over: 0, ahead: HashSet::new() }
    }

    /// A function that answers what it answered where cores shared its states.
    pub(crate) fn of_shared(told: &Arc<Told>, function: usize) -> Telling {
        Telling::of(told, told.functions.len() / 2 + function)
    }

    /// Keys of flows that have to go before this packet, one after the other.
    pub(crate) fn evicted_before(&mut self, seq: u64) -> Option<Vec<u8>> {
        while let Some(eviction) = self.of.in_order.get(self.over)
            && eviction.0 <= seq
        {
            self.over += 1;
            if !self.ahead.remove(eviction) {
                return Some(eviction.1.clone());
            }
        }
        None
    }

    /// Whether the packet came when its flow had no block.
    pub(crate) fn is_absent(&self, seq: u64) -> bool {
        self.of.noted.absent.contains(&seq)
    }

    /// Whether the packet's new flow found no room.
    pub(crate) fn is_refused(&self, seq: u64) -> bool {
        self.of.noted.refused.contains(&seq)
    }

    /// Whether a flow had to go at some time while it lived: then it goes now, since its packet has come and it was not
    /// there.
    pub(crate) fn is_evicted_ahead(&mut self, key: &[u8], seq: u64) -> bool {
        let Some(packets) = self.of.noted.evicted.get(key) else { return false };
        let later = packets.range(seq + 1..).map(|packet| (*packet, key.to_vec()));
        let next = later.into_iter().find(|eviction| !self.ahead.contains(eviction));
        self.ahead.extend(next);
        true
    }

    /// Keys of flows that were evicted and had not come back by the end.
    pub(crate) fn gone(&self) -> &[Vec<u8>] {
        &self.of.gone
    }

    /// Why a function dropped the packet, if its pool had nothing for it.
    pub(crate) fn starved(&self, seq: u64, function: usize) -> Option<u8> {
        self.told.starved.get(&(seq, function)).copied()
    }
}
