//! The control plane of a program in the kernel: entries of its tables, before a run and while it goes on.
//!
//! The interpreter's tables are what is asked and changed; what they come to is then written for the kernel. So a change that the
//! interpreter refuses is refused here in its words, and packets see what they would see there.

use std::os::fd::{AsFd, OwnedFd};

use p4::interpret::Machine;
use p4::stf::{self, StfError};

use crate::load::{LoadError, Loaded, failed};
use crate::map;
use crate::table::{ControlTable, NoRoom};

/// Why tables are not changed. They are as they were then.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// What is asked for cannot be.
    #[error("{0}")]
    Refused(String),
    /// A line of a file of entries cannot be done.
    #[error(transparent)]
    Line(#[from] StfError),
    /// There is no room in the kernel.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// A map cannot be written.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// What is in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The table's name in the program.
    pub name: String,
    /// The entries that it takes.
    pub size: u32,
    /// How many there are.
    pub entries: usize,
    /// The first of them, in the order in which they match, as `add` takes them.
    pub first: Vec<String>,
    /// What is done where nothing matches.
    pub default: String,
    /// Why it stays as it is while packets come, if it does.
    pub fixed: Option<String>,
}

/// The tables of a loaded program whose entries come from outside. It holds their maps: they are there as long as it is.
pub struct Tables {
    machine: Machine,
    tables: Vec<Held>,
    /// The map that says which half of each packets look at; absent where there are no tables.
    halves: Option<OwnedFd>,
    /// Whether packets come.
    is_running: bool,
}

/// A table, and its map.
struct Held {
    control: ControlTable,
    map: OwnedFd,
    /// The half that packets look at.
    half: u32,
}

impl Tables {
    /// The tables of a program, as its source has them.
    ///
    /// # Errors
    /// A map is not as it should be.
    pub fn new(loaded: &Loaded<'_>) -> Result<Tables, LoadError> {
        let held = |control: &ControlTable| {
            let map = loaded.shared(&control.name)?;
            Ok(Held { control: control.clone(), map, half: 0 })
        };
        let tables = loaded.controls().iter().map(held).collect::<Result<Vec<Held>, LoadError>>()?;
        let halves = if tables.is_empty() { None } else { Some(loaded.shared("halves")?) };
        Ok(Tables { machine: Machine::new(loaded.p4().clone()), tables, halves, is_running: false })
    }

    /// Gives tables the entries of a file, lines as test files have them: `add`, `remove`, `setdefault`.
    ///
    /// # Errors
    /// A line cannot be done, or the kernel has no room for it all.
    pub fn fill(&mut self, text: &str) -> Result<(), ChangeError> {
        let mut machine = self.machine.clone();
        stf::change_all(&mut machine, text)?;
        let images = self.tables.iter().map(|held| held.control.image(&machine));
        let images = images.collect::<Result<Vec<_>, _>>()?;
        (0..).zip(images).try_for_each(|(at, image)| self.write(at, &image))?;
        self.machine = machine;
        Ok(())
    }

    /// Says that packets come from here on: what state hangs on stays.
    pub fn run(&mut self) {
        self.is_running = true;
    }

    /// Does one line: packets see the table before it or behind it. Cost: that of writing the whole table, whatever changes.
    ///
    /// # Errors
    /// The line cannot be done, the table stays while packets come, or the kernel has no room.
    pub fn change(&mut self, line: &str) -> Result<(), ChangeError> {
        let mut machine = self.machine.clone();
        let table = stf::change(&mut machine, line).map_err(ChangeError::Refused)?;
        let Some(at) = self.tables.iter().position(|held| held.control.table == table) else {
            let declared = &machine.program().tables[table as usize];
            let why = if declared.keys.is_empty() { "it has no keys" } else { "its entries are const" };
            return Err(ChangeError::Refused(format!(
                "`{}` is compiled in: {why}, and what it does by default is part of the program in the kernel",
                declared.name
            )));
        };
        let control = &self.tables[at].control;
        if let Some(why) = control.fixed.as_ref().filter(|_| self.is_running) {
            return Err(ChangeError::Refused(format!("`{}` stays while packets come: {why}", control.shown)));
        }
        let image = control.image(&machine)?;
        self.write(at, &image)?;
        self.machine = machine;
        Ok(())
    }

    /// The tables whose names end like this, all without a name; so many entries of each at most.
    ///
    /// # Errors
    /// There is no such table.
    pub fn list(&self, name: Option<&str>, most: usize) -> Result<Vec<Listing>, ChangeError> {
        let (program, state) = (self.machine.program(), self.machine.state());
        let is_wanted = |held: &&Held| {
            name.is_none_or(|name| {
                let shown = &held.control.shown;
                shown == name || shown.strip_suffix(name).is_some_and(|before| before.ends_with('.'))
            })
        };
        let listing = |Held { control, .. }: &Held| {
            let entries = state.entries(control.table);
            let text = |entry| stf::entry_text(program, control.table, entry);
            Listing {
                name: control.shown.clone(),
                size: program.tables[control.table as usize].size,
                entries: entries.len(),
                first: entries.iter().take(most).map(text).collect(),
                default: stf::call_text(program, state.default_call(control.table)),
                fixed: control.fixed.clone(),
            }
        };
        let found: Vec<Listing> = self.tables.iter().filter(is_wanted).map(listing).collect();
        match (name, found.is_empty()) {
            (Some(name), true) => {
                let all: Vec<&str> = self.tables.iter().map(|held| &*held.control.shown).collect();
                let there = if all.is_empty() { "it has none" } else { &all.join(", ") };
                Err(ChangeError::Refused(format!(
                    "the program has no table `{name}` with entries from outside; there are: {there}"
                )))
            }
            _ => Ok(found),
        }
    }

    /// What does to packets what the kernel's tables do, for a comparison.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Writes a table into the half that packets do not look at, and has them look there.
    fn write(&mut self, at: usize, image: &[u8]) -> Result<(), LoadError> {
        let (held, Some(halves)) = (&mut self.tables[at], &self.halves) else { return Ok(()) };
        let half = 1 - held.half;
        // Packets that looked at this half when the table changed last have left it when this returns.
        map::wait_for_programs().map_err(|error| failed("cannot wait for packets on their way")(&error))?;
        let failed = failed(&format!("cannot write table `{}`", held.control.shown));
        map::write(held.map.as_fd(), half, image).map_err(|error| failed(&error))?;
        // One byte of it changes, so nobody sees a part.
        map::write(halves.as_fd(), at as u32, &half.to_ne_bytes()).map_err(|error| failed(&error))?;
        held.half = half;
        Ok(())
    }
}
