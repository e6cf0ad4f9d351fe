//! What a program in the kernel counts, read from its maps while it runs, by any thread.

use std::os::fd::{AsFd, OwnedFd};

use aya::util::nr_cpus;

use crate::load::{LoadError, Loaded, Outside, PROGRESS_BYTES, Progress, failed, number};
use crate::map::{self, Window};
use crate::strategy::Strategy;

/// Words of `struct traffic`.
const TRAFFIC_WORDS: usize = 5;

/// What came and left by a port of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets that came.
    pub came: u64,
    /// Their bytes.
    pub came_bytes: u64,
    /// Packets that were given to the port's interface.
    pub left: u64,
    /// Their bytes.
    pub left_bytes: u64,
    /// Packets among those that came that had no room in front of them for the header: dropped, without a number.
    pub no_room: u64,
}

/// How full a muTable is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Entries in use.
    pub entries: u64,
    /// Writes that found no room.
    pub refused: u64,
    /// Refused writes for which the table had room, but not where their keys may be.
    pub crowded: u64,
}

/// What was counted up to one time. Counts are read one by one: one of them may be some packets ahead of another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Each replica, or shard.
    pub replicas: Vec<Progress>,
    /// The ports that were asked for, in their order.
    pub ports: Vec<Traffic>,
    /// What came with history from outside.
    pub outside: Outside,
    /// Each muTable: its fill in each replica, or one where all share it.
    pub tables: Vec<Vec<Fill>>,
}

/// Reads what a program counts. It holds the maps: they are there as long as it is.
pub struct Meter {
    progress: OwnedFd,
    traffic: OwnedFd,
    /// What came with history, and the bytes of its map's element; with `scr` alone.
    outside: Option<(OwnedFd, usize)>,
    tables: Vec<Vec<Window>>,
    replicas: u32,
    ports: Vec<u16>,
    cpus: usize,
}

impl Meter {
    /// Reads the counts of so many replicas, and of some ports.
    ///
    /// # Errors
    /// A map is not as it should be.
    pub(crate) fn new(loaded: &Loaded<'_>, replicas: u32, ports: Vec<u16>) -> Result<Meter, LoadError> {
        let elements = if loaded.strategy() == Strategy::Shared { 1 } else { replicas as usize };
        let windows = |layout: &crate::state::TableLayout| {
            let map = loaded.shared(&layout.name)?;
            let window = |element: usize| {
                Window::open(map.as_fd(), element * layout.bytes(), 3)
                    .map_err(|error| failed(&layout.name)(&error))
            };
            (0..elements).map(window).collect::<Result<Vec<_>, LoadError>>()
        };
        let tables = loaded.tables().iter().map(windows).collect::<Result<_, _>>()?;
        let cpus = nr_cpus().map_err(|(what, error)| failed(what)(&error))?;
        let (progress, traffic) = (loaded.shared("progress")?, loaded.shared("traffic")?);
        let outside = match loaded.strategy() {
            Strategy::Scr => Some((loaded.shared("outside")?, loaded.whole("outside", 0)?.len())),
            _ => None,
        };
        Ok(Meter { progress, traffic, outside, tables, replicas, ports, cpus })
    }

    /// What is counted now.
    ///
    /// # Errors
    /// A map cannot be read.
    pub fn read(&self) -> Result<Counts, LoadError> {
        let progress = |replica| {
            let mut value = [0; PROGRESS_BYTES];
            map::read(self.progress.as_fd(), replica, &mut value)
                .map_err(|error| failed("progress_map")(&error))?;
            Ok(Progress::read(&value))
        };
        let fill = |window: &Window| Fill {
            entries: window.word(0),
            refused: window.word(1),
            crowded: window.word(2),
        };
        let outside = match &self.outside {
            Some((map, bytes)) => {
                let mut value = vec![0; bytes.next_multiple_of(8)];
                map::read(map.as_fd(), 0, &mut value).map_err(|error| failed("outside_map")(&error))?;
                Outside::read(&value)
            }
            None => Outside::default(),
        };
        Ok(Counts {
            outside,
            replicas: (0..self.replicas).map(progress).collect::<Result<_, LoadError>>()?,
            ports: self.ports.iter().map(|port| self.traffic(*port)).collect::<Result<_, _>>()?,
            tables: self.tables.iter().map(|windows| windows.iter().map(fill).collect()).collect(),
        })
    }

    /// A port on all CPUs.
    fn traffic(&self, port: u16) -> Result<Traffic, LoadError> {
        let mut value = vec![0; TRAFFIC_WORDS * 8 * self.cpus];
        map::read(self.traffic.as_fd(), port.into(), &mut value)
            .map_err(|error| failed("traffic_map")(&error))?;
        let word = |at: usize| {
            let each = value.chunks_exact(TRAFFIC_WORDS * 8);
            each.map(|cpu| number(&cpu[at * 8..at * 8 + 8]) as u64).sum()
        };
        Ok(Traffic {
            came: word(0),
            came_bytes: word(1),
            left: word(2),
            left_bytes: word(3),
            no_room: word(4),
        })
    }
}
