//! An object at interfaces: the sequencer in front, and behind each CPU's queue a replica, or a shard, that sends packets on.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use aya::maps::{CpuMap, DevMap, MapError, ProgramArray};
use aya::programs::ProgramError;
use live::xdp::{Held, Holding, Pins};
use live::{Interface, Redirected};

use crate::compile::Compiled;
use crate::history::{Arrival, HEADER_BYTES, MAX_RING_ITEMS, prefix};
use crate::load::{
    CORE, FLUSH, LOG_CORE, LOG_FLUSH, LOGGER, LoadError, Loaded, Outside, Progress, RECEIVER, SEQUENCER,
    Settings, WHILE_RUNNING, failed, number, with_causes,
};
use crate::logged::MAX_LOGGED;
use crate::meter::Meter;
use crate::sequencer::most_replicas;
pub use crate::sequencer::{HEADROOM, WITNESS_BYTES};
use crate::strategy::Strategy;
use crate::tables::{ChangeError, Tables};
use crate::verdict::Came;

/// CPUs that the kernel's list may have: what bounds reading it.
const MOST_CPUS: u32 = 1024;

/// Packets that the kernel lets the queue of a CPU hold.
const MOST_QUEUED: u32 = 16384;

/// How long packets that are on their way may take to come out of the queues of the CPUs.
const DRAINS_IN: Duration = Duration::from_secs(5);

/// Bytes of `struct sequencer` before the ring of items.
const BEFORE_RING: usize = 24 + HEADER_BYTES;

/// What a replica steps in one call at the end, as a number of packets: with 16 items for each, all that a log holds.
const FLUSHED_AT_ONCE: u32 = 512;

/// Items that a replica steps by a log for one packet, at least.
const LEAST_STEPS: u32 = 16;

/// Bytes of `struct witness` before a packet's.
const WITNESS_HEAD: usize = 32;

/// Where a program runs, and with what.
#[derive(Clone, Debug)]
pub struct Wiring {
    /// The interfaces whose packets the program gets, each with the program's port of them: 0, or 1. With `scr` it is one.
    pub receives: Vec<(u16, String)>,
    /// The interface by which the packets of each port leave; none with [`Way::Mirror`].
    pub sends: Vec<(u16, String)>,
    /// How packets go on.
    pub way: Way,
    /// Whether packets come with their history, from a sequencer outside; with `scr` alone.
    pub is_sequenced: bool,
    /// Where replicas of `scr` find the items of the packets that they do not get.
    pub history: HistoryIn,
    /// The CPU of each replica. Replicas may share one.
    pub cpus: Vec<u32>,
    /// Packets that the queue of a CPU holds; what comes to a full one is lost.
    pub queue: u32,
    /// Packets that are kept as they came, from the first one on, for a comparison with the interpreter.
    pub witnesses: u32,
    /// Whether replicas of `scr` recover what full queues lose, from each other's logs.
    pub recovers: bool,
    /// Whether packets that leave behind later ones are counted: replicas then write one word for each packet.
    pub counts_order: bool,
    /// Entries of tables ahead of the first packet, as lines of [`Tables::fill`].
    pub entries: String,
    /// What becomes of packets when this process dies.
    pub on_death: OnDeath,
    /// Where what stays then has its name.
    pub pins: Pins,
}

/// How packets go on that the program sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// Out of the interface of their port, as the program leaves them.
    #[default]
    Bridge,
    /// By the kernel's routes: out of the one interface again, past the kernel's stack where it has a neighbour for them, else by it.
    /// What goes to the host's own addresses, to groups, or is not IP is the host's, and not the program's.
    Route,
    /// Nowhere. The host gets all packets as they came, whatever the program says.
    Mirror,
}

/// Where replicas find the items of the packets that they do not get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistoryIn {
    /// In front of each packet if those of all other replicas fit there, else in a log.
    #[default]
    Any,
    /// In a log, which the sequencer alone writes. What full queues lose is in it, too.
    Log,
}

/// What becomes of packets when the process of a run dies, by SIGKILL too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDeath {
    /// The program is gone, and the kernel gets them.
    #[default]
    Pass,
    /// They are dropped, until the next run, or [`Pins::unblock`].
    Block,
    /// The program goes on, with its state, until the next run, or [`Pins::unblock`].
    Keep,
}

/// Why a program does not run at interfaces.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The object is not in the kernel.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// What is asked for cannot be.
    #[error("{0}")]
    Refused(String),
    /// The entries that it was to begin with.
    #[error("entries: {0}")]
    Entries(ChangeError),
    /// An interface cannot be used.
    #[error(transparent)]
    Interface(#[from] live::LiveError),
    /// The kernel refuses it.
    #[error("{what}: {error}")]
    Failed {
        /// What was tried.
        what: String,
        /// Why not.
        error: io::Error,
    },
}

/// What the sequencer has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequenced {
    /// Packets that got a number, from 0.
    pub packets: u64,
    /// Packets before which there was no room for history: dropped, without a number.
    pub no_room: u64,
}

/// A program that runs at interfaces. Dropping it takes it off them.
pub struct Live<'a> {
    loaded: Loaded<'a>,
    /// They hold the sequencer at its interfaces.
    links: Vec<Held>,
    replicas: u32,
    is_sequenced: bool,
    is_logged: bool,
    /// Its ports that have an interface.
    ports: Vec<u16>,
    /// Until [`Live::take_tables`].
    tables: Option<Tables>,
    notes: Vec<String>,
}

impl<'a> Live<'a> {
    /// Loads an object and attaches its sequencer, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// The interface has more than one receive queue, items of the other replicas do not fit in front of packets, a CPU or
    /// an interface is not there, this process has no rights, or the driver has no XDP.
    pub fn start(compiled: &'a Compiled, object: &[u8], wiring: &Wiring) -> Result<Live<'a>, LiveError> {
        let failed_io = |what: String| move |error| LiveError::Failed { what, error };
        if wiring.is_sequenced && compiled.strategy != Strategy::Scr {
            let strategy = compiled.strategy;
            return Err(LiveError::Refused(format!("history is for strategy scr, and this is {strategy}")));
        }
        check_cpus(compiled, &wiring.cpus, wiring.is_sequenced)?;
        let fits =
            wiring.cpus.len() <= most_replicas(&compiled.item) as usize && most_replicas(&compiled.item) > 1;
        let is_logged = compiled.strategy == Strategy::Scr
            && !wiring.is_sequenced
            && (wiring.history == HistoryIn::Log || !fits);
        if !(1..=MOST_QUEUED).contains(&wiring.queue) {
            return Err(LiveError::Refused(format!("the queue of a CPU holds 1 to {MOST_QUEUED} packets")));
        }
        let receives = opened(&wiring.receives)?;
        if compiled.strategy == Strategy::Scr {
            check_sequenced(&receives)?;
        }
        let sends = opened(&wiring.sends)?;
        let mut notes = Vec::new();
        for (_, interface) in &sends {
            notes.extend(check_arrival(interface)?);
        }
        let replicas = wiring.cpus.len() as u32;
        let mut cpu_of = wiring.cpus.clone();
        cpu_of.resize(MAX_LOGGED as usize, 0);
        let outside =
            receives.iter().find(|(port, _)| *port == 1).map_or(0, |(_, interface)| interface.index);
        let globals: [(&str, &[u32]); 9] = [
            // As many as there are others, and some to catch up.
            ("steps", &[replicas.clamp(LEAST_STEPS, MAX_LOGGED)]),
            ("mirrors", &[u32::from(wiring.way == Way::Mirror)]),
            ("routes", &[u32::from(wiring.way == Way::Route)]),
            ("replicas", &[replicas]),
            ("cpu_of", &cpu_of),
            ("outside", &[outside]),
            ("witnesses", &[wiring.witnesses]),
            ("recovers", &[u32::from(wiring.recovers)]),
            ("counts_order", &[u32::from(wiring.counts_order)]),
        ];
        // The kernel refuses a map of more CPUs than it was built for.
        let places = wiring.cpus.iter().max().map_or(1, |cpu| cpu + 1);
        let sizes = [("cpus", places), ("witness_map", wiring.witnesses.max(1)), ("sequencer_map", 1)];
        let is_replicated = compiled.strategy == Strategy::Scr;
        let blocks = wiring.on_death == OnDeath::Block;
        let flush = if is_logged { LOG_FLUSH } else { FLUSH };
        let more = [(flush, is_replicated), (WHILE_RUNNING, blocks)];
        let more = more.into_iter().filter(|(_, is_needed)| *is_needed).map(|(name, _)| name);
        let entry = match (wiring.is_sequenced, is_logged) {
            (true, _) => RECEIVER,
            (false, true) => LOGGER,
            (false, false) => SEQUENCER,
        };
        let core_name = if is_logged { LOG_CORE } else { CORE };
        let programs: Vec<&str> = [core_name, entry].into_iter().chain(more).collect();
        let settings =
            Settings { replicas, globals: &globals, sizes: &sizes, programs: &programs, is_log_whole: true };
        let mut loaded = Loaded::with(compiled, object, &settings)?;
        let mut tables = Tables::new(&loaded)?;
        tables.fill(&wiring.entries).map_err(LiveError::Entries)?;
        tables.run();
        let core = loaded.program(core_name)?.fd().map_err(program_failed(core_name))?.try_clone();
        let core = core.map_err(failed_io(core_name.to_owned()))?;
        let mut by_cpu = CpuMap::try_from(loaded.map_mut("cpus")?).map_err(map_failed("the map of CPUs"))?;
        for cpu in &wiring.cpus {
            let set = by_cpu.set(*cpu, wiring.queue, Some(&core), 0);
            set.map_err(|error| failed(&format!("a queue of CPU {cpu}"))(&with_causes(&error)))?;
        }
        let mut by_port =
            DevMap::try_from(loaded.map_mut("ports")?).map_err(map_failed("the map of ports"))?;
        for (port, Interface { name, index, .. }) in &sends {
            let set = by_port.set((*port).into(), *index, None, 0);
            set.map_err(|error| failed(&format!("port {port} at {name}"))(&with_causes(&error)))?;
        }
        let program = loaded.program(entry)?.fd().map_err(program_failed(entry))?;
        let program = program.try_clone().map_err(failed_io(entry.to_owned()))?;
        if blocks {
            let mut running =
                ProgramArray::try_from(loaded.map_mut("running")?).map_err(map_failed("what runs"))?;
            running.set(0, &program, 0).map_err(map_failed("what runs"))?;
        }
        let front = if blocks { WHILE_RUNNING } else { entry };
        let front = loaded.program(front)?.fd().map_err(program_failed(front))?;
        // What a dead run left where this one gets no packets.
        let others = sends.iter().filter(|(_, to)| receives.iter().all(|(_, from)| from.index != to.index));
        for (_, interface) in others {
            wiring.pins.unblock(&interface.name)?;
        }
        let stays = wiring.on_death != OnDeath::Pass;
        let holding = Holding { stays, sees_all: wiring.way != Way::Route };
        let attached =
            |(_, interface): &(u16, Interface)| Held::attach(front.as_fd(), interface, &wiring.pins, holding);
        let mut links = receives.iter().map(attached).collect::<Result<Vec<Held>, _>>()?;
        // All of them are there: from here on, whatever happens but a good end.
        links.iter_mut().for_each(|link| link.outlive(stays));
        let ports: BTreeSet<u16> =
            wiring.receives.iter().chain(&wiring.sends).map(|(port, _)| *port).collect();
        let ports = ports.into_iter().collect();
        let is_sequenced = wiring.is_sequenced;
        Ok(Live { loaded, links, replicas, is_sequenced, is_logged, ports, tables: Some(tables), notes })
    }

    /// What reads the counts while packets pass; its ports are those that have an interface.
    ///
    /// # Errors
    /// A map is not as it should be.
    pub fn meter(&self) -> Result<Meter, LoadError> {
        Meter::new(&self.loaded, self.replicas, self.ports.clone())
    }

    /// The tables whose entries come from outside, once, to change them while packets pass.
    pub fn take_tables(&mut self) -> Option<Tables> {
        self.tables.take()
    }

    /// What could not be checked at the start, and what to look at.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How many replicas there are.
    pub fn replicas(&self) -> u32 {
        self.replicas
    }

    /// Whether the history is in a log, and not in front of packets.
    pub fn is_logged(&self) -> bool {
        self.is_logged
    }

    /// What is in the kernel, to read state back.
    pub fn loaded(&self) -> &Loaded<'a> {
        &self.loaded
    }

    /// What the sequencer has done so far.
    ///
    /// # Errors
    /// Its map cannot be read.
    pub fn sequenced(&self) -> Result<Sequenced, LoadError> {
        let value = self.loaded.whole("sequencer", 0)?;
        let word = |at: usize| number(&value[at * 8..at * 8 + 8]) as u64;
        Ok(Sequenced { packets: word(0), no_room: word(2) })
    }

    /// What came with history from outside.
    ///
    /// # Errors
    /// Its map cannot be read.
    pub fn outside(&self) -> Result<Outside, LoadError> {
        self.loaded.outside()
    }

    /// How far each replica is.
    ///
    /// # Errors
    /// Its map cannot be read.
    pub fn progress(&self) -> Result<Vec<Progress>, LoadError> {
        (0..self.replicas).map(|replica| self.loaded.progress(replica)).collect()
    }

    /// A packet as it came, if it was among those to keep and no longer than [`WITNESS_BYTES`].
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn witness(&self, sequence: u32) -> Result<Option<Came>, LoadError> {
        let value = self.loaded.whole("witness", sequence)?;
        let length = number(&value[12..16]) as usize;
        let bytes = value.get(WITNESS_HEAD..WITNESS_HEAD + length).filter(|bytes| !bytes.is_empty());
        Ok(bytes.map(|bytes| Came {
            time_ns: number(&value[..8]) as u64,
            port: number(&value[8..12]) as u16,
            bytes: bytes.to_vec(),
            was_delivered: value[16] & 1 != 0,
            was_stepped: value[16] & 2 != 0,
            turn: number(&value[24..32]) as u64,
        }))
    }

    /// Takes the sequencer off its interfaces, and waits until the replicas have had all packets that are in their queues. Those of
    /// `scr` then step what no packet brings any more: their states are equal, unless they missed packets.
    ///
    /// # Errors
    /// A map cannot be read.
    pub fn stop(&mut self) -> Result<(), LoadError> {
        self.links.iter_mut().for_each(|link| link.outlive(false));
        self.links.clear();
        self.drain()?;
        if self.loaded.strategy() == Strategy::Scr { self.flush() } else { Ok(()) }
    }

    fn drain(&self) -> Result<(), LoadError> {
        let until = Instant::now() + DRAINS_IN;
        let mut before = None;
        loop {
            let now = (self.sequenced()?, self.progress()?);
            let taken: u64 = now.1.iter().map(|progress| progress.packets).sum();
            // What is lost never comes: then nothing changes any more.
            if taken == now.0.packets || before.as_ref() == Some(&now) || Instant::now() > until {
                return Ok(());
            }
            before = Some(now);
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Has replicas step what they have not stepped. One that has to wait for the log of another goes on in the next round.
    fn flush(&self) -> Result<(), LoadError> {
        let total = self.sequenced()?.packets;
        let item = self.loaded.item();
        let slots = self.replicas as usize - 1;
        let count = total.min(slots as u64) as u16;
        let (known, at) = match self.is_sequenced {
            true => (self.loaded.outside()?.flushed, 0),
            false => ((total, self.loaded.whole("sequencer", 0)?), BEFORE_RING),
        };
        // Without a flush behind the last packet nobody tells of it but logs.
        let (count, ring) = match known.0 == total {
            true => (count, known.1.get(at..at + slots * item.bytes).unwrap_or_default()),
            false => (0, &*vec![0; slots * item.bytes]),
        };
        let steps_of =
            || self.progress().map(|all| all.iter().map(|progress| progress.next).collect::<Vec<_>>());
        let mut before = Vec::new();
        loop {
            let steps = steps_of()?;
            if steps == before || steps.iter().all(|next| *next >= total) {
                return Ok(());
            }
            before = steps;
            if self.is_logged {
                (0..self.replicas)
                    .try_for_each(|replica| self.loaded.flush_log(total, replica, FLUSHED_AT_ONCE))?;
                continue;
            }
            for replica in 0..self.replicas as u16 {
                let arrival = Arrival { sequence: total, time_ns: 0, replica, port: 0, is_flush: true };
                self.loaded.flush(&prefix(item, arrival, ring, count), FLUSHED_AT_ONCE)?;
            }
        }
    }
}

/// Interfaces of these names, each with its port.
fn opened(interfaces: &[(u16, String)]) -> Result<Vec<(u16, Interface)>, LiveError> {
    interfaces.iter().map(|(port, name)| Ok((*port, Interface::open(name)?))).collect()
}

/// A sequencer numbers the packets of one queue of one interface.
fn check_sequenced(receives: &[(u16, Interface)]) -> Result<(), LiveError> {
    let [(_, interface)] = receives else {
        let many = receives.len();
        return Err(LiveError::Refused(format!("a sequencer is at one interface, and these are {many}")));
    };
    let Interface { name, queues, .. } = interface;
    match queues {
        1 => Ok(()),
        _ => Err(LiveError::Refused(format!(
            "{name} has {queues} receive queues, and a sequencer numbers the packets of one\nSet it: `ethtool -L {name} \
             combined 1` (a virtual pair: `rx 1`)"
        ))),
    }
}

/// What is redirected to an interface has to leave by it. Gives a note where that cannot be looked up.
fn check_arrival(interface: &Interface) -> Result<Option<String>, LiveError> {
    let name = &interface.name;
    let looked = interface.redirected().map_err(|error| LiveError::Failed {
        what: format!("cannot look up what the other end of {name} does with packets"),
        error,
    })?;
    match looked {
        Redirected::Leaves => Ok(None),
        Redirected::Unknown => Ok(Some(format!(
            "the other end of {name} is in another network namespace, and was not looked at: packets vanish unless it has GRO \
             (`ethtool -K PEER gro on`) or an XDP program"
        ))),
        Redirected::Vanishes { peer } => Err(LiveError::Refused(format!(
            "packets that leave by {name} would vanish: its other end {peer} has neither GRO nor an XDP program\nSet it: \
             `ethtool -K {peer} gro on`"
        ))),
    }
}

/// CPUs of replicas: online, and no more than there may be.
fn check_cpus(compiled: &Compiled, cpus: &[u32], is_sequenced: bool) -> Result<(), LiveError> {
    let refused = |message: String| Err(LiveError::Refused(message));
    let asked = cpus.len();
    let most = most_cpus(compiled, is_sequenced);
    if asked == 0 {
        return refused("a sequencer takes at least one CPU".to_owned());
    }
    if asked > most {
        return refused(format!("{asked} CPUs, and {most} are the most here\nGive fewer."));
    }
    let online = online_cpus();
    match cpus.iter().find(|cpu| !online.is_empty() && !online.contains(cpu)) {
        Some(cpu) => refused(format!("CPU {cpu} is not online")),
        None => Ok(()),
    }
}

/// Replicas, or shards, that a program has at most.
pub fn most_cpus(compiled: &Compiled, is_sequenced: bool) -> usize {
    match compiled.strategy {
        Strategy::Scr if !is_sequenced => MAX_LOGGED as usize,
        _ => MAX_RING_ITEMS as usize + 1,
    }
}

/// The CPUs that are online; none where the kernel does not tell.
pub fn online_cpus() -> BTreeSet<u32> {
    online(&fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default())
}

/// Numbers of a list of the kernel's: `0-3,5`.
fn online(list: &str) -> BTreeSet<u32> {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().take(MOST_CPUS as usize).collect()
}

fn map_failed(what: &str) -> impl Fn(MapError) -> LoadError {
    let what = what.to_owned();
    move |error| failed(&what)(&with_causes(&error))
}

fn program_failed(what: &str) -> impl Fn(ProgramError) -> LoadError {
    let what = what.to_owned();
    move |error| failed(&what)(&with_causes(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(online("0-2,5\n"), BTreeSet::from([0, 1, 2, 5]));
        assert_eq!(online(""), BTreeSet::new());
    }
}
