//! A compiled program in the kernel: packets go through it one by one, and its state is read back.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use aya::maps::Map;
use aya::programs::{ProgramError, Xdp};
use aya::{Ebpf, EbpfLoader, TestRun, TestRunAttrs, TestRunOptions, VerifierLogLevel};
use p4::ir::{Program, ones};

use crate::compile::{Compiled, RegisterLayout};
use crate::history::{HEADER_BYTES, Item};
use crate::logged::FRONT_BYTES;
use crate::map;
use crate::outside::{FLUSHED_AT, REASONS, RING_AT};
use crate::state::{Member, TABLE_HEAD_BYTES, TableLayout};
use crate::strategy::Strategy;
use crate::table::ControlTable;

/// `XDP_DROP` and `XDP_TX` of linux/bpf.h.
const DROP: u32 = 1;
const TX: u32 = 3;

/// The longest packet that `BPF_PROG_TEST_RUN` takes in one piece, with its history.
pub const MAX_BYTES: usize = 3520;

/// The program that `BPF_PROG_TEST_RUN` runs.
pub(crate) const TRY: &str = "paceline_try";

/// The program behind a cpumap, one on each CPU.
pub const CORE: &str = "paceline_core";

/// The program of an interface whose packets are replicated.
pub const SEQUENCER: &str = "paceline_sequencer";

/// The sequencer whose history is in a log, and what is behind it: on each CPU, in a trial, and at the end.
pub(crate) const LOGGER: &str = "paceline_logger";
pub(crate) const LOG_CORE: &str = "paceline_log_core";
pub(crate) const LOG_TRY: &str = "paceline_log_try";
pub(crate) const LOG_FLUSH: &str = "paceline_log_flush";

/// The program of an interface whose packets come with their history.
pub(crate) const RECEIVER: &str = "paceline_receiver";

/// The program in front of it, where nothing is to pass once user space is gone.
pub(crate) const WHILE_RUNNING: &str = "paceline_while_running";

/// The program that steps what a replica has not stepped at the end.
pub(crate) const FLUSH: &str = "paceline_flush";

/// Why a program is not in the kernel, or gives no answer.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// This process has no rights to load programs.
    #[error(
        "the kernel does not let this process load BPF programs: {0}\nIt needs root, or CAP_BPF and CAP_NET_ADMIN."
    )]
    NoRights(String),
    /// The verifier refuses it: a defect of the compiler.
    #[error("the kernel's verifier refuses `{program}`, which is a defect of Paceline:\n{log}")]
    Refused {
        /// Which program of the object.
        program: String,
        /// What the verifier says.
        log: String,
    },
    /// Anything else.
    #[error("{what}: {error}")]
    Failed {
        /// What was tried.
        what: String,
        /// What came.
        error: String,
    },
}

pub(crate) fn failed(what: &str) -> impl Fn(&dyn std::fmt::Display) -> LoadError + use<> {
    let what = what.to_owned();
    move |error| LoadError::Failed { what: what.clone(), error: error.to_string() }
}

/// What a packet came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The port by which it leaves and its bytes; nothing if it is dropped.
    pub out: Option<(u16, Vec<u8>)>,
    /// How long a run took.
    pub took: Duration,
}

/// The entries of a muTable: keys to values.
pub type TableEntries = BTreeMap<Vec<u128>, Vec<u128>>;

/// A muTable of a replica as it was read back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadTable {
    /// Its entries.
    pub entries: TableEntries,
    /// Writes that found no room.
    pub refused: u64,
    /// Refused writes for which the table had room, but not where their keys may be.
    pub crowded: u64,
}

/// How far a replica is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of the packet that it expects next.
    pub next: u64,
    /// Packets that it stepped on without: neither they nor their items came, and no log had them.
    pub missed: u64,
    /// Its own packets, behind a cpumap.
    pub packets: u64,
    /// Own packets that it sent on.
    pub sent: u64,
    /// Items that it took from the logs of others.
    pub recovered: u64,
    /// Packets that no replica got, nor their items: none of them steps these.
    pub nobody: u64,
    /// Own packets that it dropped, because one before them was not settled yet. Their items it steps later.
    pub waited: u64,
    /// Own packets that it sent by a port behind one that came after them, as far as they were counted. Replicas that send at the
    /// same moment may leave some out.
    pub inversions: u64,
    /// Bytes of its own packets.
    pub bytes: u64,
    /// Own packets that it sent by the port by which they came.
    pub back: u64,
    /// Own packets that it dropped, because no interface is at the port by which they were to leave.
    pub no_port: u64,
    /// Packets that the full queue of its CPU lost, as far as packets behind them have come.
    pub lost: u64,
}

/// What came of a packet with history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// It goes to a core's queue, with its history, as it is here.
    Packet(Vec<u8>),
    /// It was a flush.
    Flush,
    /// It was not taken, for this reason.
    Rejected(&'static str),
}

/// What came with history from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outside {
    /// Packets that were not taken, in the order of [`Outside::reasons`].
    pub rejected: [u64; REASONS.len()],
    /// Flushes.
    pub flushes: u64,
    /// The number that a flush told last, and the items of its ring.
    pub(crate) flushed: (u64, Vec<u8>),
}

impl Outside {
    /// Reads `struct outside`.
    pub(crate) fn read(value: &[u8]) -> Outside {
        let word = |at: usize| number(&value[at..at + 8]) as u64;
        let mut rejected = [0; REASONS.len()];
        rejected.iter_mut().enumerate().for_each(|(at, count)| *count = word(at * 8));
        let ring = value.get(RING_AT..).unwrap_or_default().to_vec();
        Outside { rejected, flushes: word(FLUSHED_AT - 8), flushed: (word(FLUSHED_AT), ring) }
    }

    /// Why packets were not taken, each with how many, those that are not 0.
    pub fn reasons(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REASONS.into_iter().zip(self.rejected).filter(|(_, count)| *count > 0)
    }
}

/// Bytes of `struct progress`.
pub(crate) const PROGRESS_BYTES: usize = 128;

impl Progress {
    /// Reads `struct progress`.
    pub(crate) fn read(value: &[u8]) -> Progress {
        let word = |at: usize| number(&value[at * 8..at * 8 + 8]) as u64;
        Progress {
            next: word(0),
            missed: word(1),
            packets: word(2),
            sent: word(3),
            recovered: word(4),
            nobody: word(5),
            waited: word(6),
            inversions: word(7),
            bytes: word(8),
            back: word(9),
            no_port: word(10),
            lost: word(11),
        }
    }

    /// Own packets that left by another port than the one by which they came.
    pub fn forward(&self) -> u64 {
        self.sent.saturating_sub(self.back)
    }

    /// Own packets that the program dropped.
    pub fn dropped(&self) -> u64 {
        self.packets.saturating_sub(self.sent + self.waited + self.no_port)
    }
}

impl LoadError {
    /// Whether the verifier gave up: there were too many ways through a program.
    pub fn is_too_large(&self) -> bool {
        matches!(self, LoadError::Refused { log, .. } if log.contains("BPF program is too large"))
    }
}

/// What is loaded of an object, and with what.
pub struct Settings<'s> {
    /// Replicas that have state.
    pub replicas: u32,
    /// Values of its constants.
    pub globals: &'s [(&'s str, &'s [u32])],
    /// Elements of its other maps.
    pub sizes: &'s [(&'s str, u32)],
    /// Its programs.
    pub programs: &'s [&'s str],
    /// Whether the verifier's log of a program that it refuses has all that it looked at. That takes it several looks.
    pub is_log_whole: bool,
}

/// A program in the kernel, with the state of some replicas.
pub struct Loaded<'a> {
    compiled: &'a Compiled,
    ebpf: Ebpf,
}

impl<'a> Loaded<'a> {
    /// Loads all programs of an object. With `repeats`, items are replayed even if they were before, to measure them.
    ///
    /// # Errors
    /// This process has no rights, or the kernel refuses a program.
    pub fn load(
        compiled: &'a Compiled,
        object: &[u8],
        replicas: u32,
        repeats: bool,
    ) -> Result<Loaded<'a>, LoadError> {
        let repeats = [u32::from(repeats)];
        // Where there is no sequencer, history does not fit in front of packets.
        let has_sequencer = compiled.c.contains(&format!("int {SEQUENCER}("));
        let has_flush = compiled.strategy == Strategy::Scr;
        let programs = [
            (TRY, true),
            (CORE, true),
            (SEQUENCER, has_sequencer),
            (FLUSH, has_flush),
            (RECEIVER, has_flush),
            (LOGGER, has_flush),
            (LOG_CORE, has_flush),
            (LOG_FLUSH, has_flush),
        ];
        let programs: Vec<&str> =
            programs.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect();
        Loaded::with(
            compiled,
            object,
            &Settings {
                replicas,
                globals: &[("repeats", &repeats)],
                sizes: &[],
                programs: &programs,
                is_log_whole: true,
            },
        )
    }

    /// Loads some programs of an object.
    ///
    /// # Errors
    /// This process has no rights, or the kernel refuses a program.
    pub fn with(
        compiled: &'a Compiled,
        object: &[u8],
        settings: &Settings<'_>,
    ) -> Result<Loaded<'a>, LoadError> {
        let names = maps(compiled);
        let mut loader = EbpfLoader::new();
        if !settings.is_log_whole {
            loader.verifier_log_level(VerifierLogLevel::STATS);
        }
        let is_shared = compiled.strategy == Strategy::Shared;
        for name in &names {
            let elements = if is_shared && name != "progress_map" { 1 } else { settings.replicas };
            loader.map_max_entries(name, elements);
        }
        settings.sizes.iter().for_each(|(name, size)| _ = loader.map_max_entries(name, *size));
        settings.globals.iter().for_each(|(name, value)| _ = loader.override_global(name, *value, true));
        let mut ebpf = loader.load(object).map_err(|error| match is_refused_right(&error) {
            true => LoadError::NoRights(error.to_string()),
            false => failed("cannot load the object")(&with_causes(&error)),
        })?;
        for name in settings.programs {
            let program: &mut Xdp = ebpf
                .program_mut(name)
                .ok_or(ProgramError::NotLoaded)
                .and_then(TryInto::try_into)
                .map_err(|error| failed(name)(&error))?;
            program.load().map_err(|error| not_loaded(name, error))?;
        }
        let loaded = Loaded { compiled, ebpf };
        for ControlTable { name, initial, .. } in &compiled.controls {
            let map = loaded.shared(name)?;
            map::write(map.as_fd(), 0, initial).map_err(|error| failed(name)(&error))?;
        }
        Ok(loaded)
    }

    /// Shows a packet to the sequencer whose history is in a log: the packet as its replica gets it, with number and time in front.
    ///
    /// # Errors
    /// The kernel refuses the packet, or the program was not loaded.
    pub fn log(&self, bytes: &[u8]) -> Result<Vec<u8>, LoadError> {
        let mut out = vec![0; bytes.len() + FRONT_BYTES];
        // Its queue is not there, so it drops the packet, behind the front.
        match self.run(LOGGER, bytes, &mut out)? {
            (DROP, length) if length == out.len() => Ok(out),
            (other, _) => Err(failed(LOGGER)(&other)),
        }
    }

    /// Takes a packet that the sequencer [logged](Loaded::log) through the program.
    pub(crate) fn logged(&self, bytes: &[u8]) -> Result<Option<(u16, Vec<u8>)>, LoadError> {
        let mut out = vec![0; bytes.len()];
        match self.run(LOG_TRY, bytes, &mut out)? {
            (DROP, _) => Ok(None),
            (TX, length) if length == out.len() => {
                Ok(Some((u16::from_be_bytes([out[0], out[1]]), out[FRONT_BYTES..].to_vec())))
            }
            (other, _) => Err(failed(LOG_TRY)(&other)),
        }
    }

    /// Has a replica step what it has not stepped of the packets before a number, by the log; `times` times as much as one packet may.
    ///
    /// # Errors
    /// The kernel refuses it, or the program was not loaded.
    pub fn flush_log(&self, until: u64, replica: u32, times: u32) -> Result<(), LoadError> {
        let front = [until.to_be_bytes(), u64::from(replica).to_be_bytes()].concat();
        self.step_rest(LOG_FLUSH, &front, times)
    }

    /// Runs a program that steps a portion of what is left, so many times. A signal ends such a run between two portions; then it
    /// begins again, and steps what is left still.
    fn step_rest(&self, name: &str, front: &[u8], times: u32) -> Result<(), LoadError> {
        let result = loop {
            let options = TestRunOptions { data_in: Some(front), repeat: times, ..TestRunOptions::default() };
            match self.program(name)?.test_run(options) {
                Err(ProgramError::SyscallError(error))
                    if error.io_error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        match result.map_err(|error| failed(name)(&with_causes(&error)))?.return_value {
            DROP => Ok(()),
            other => Err(failed(name)(&other)),
        }
    }

    /// Runs a program once; gives what it returned and how long the packet was then.
    fn run(&self, name: &str, bytes: &[u8], out: &mut [u8]) -> Result<(u32, usize), LoadError> {
        let options = TestRunOptions {
            data_in: Some(bytes),
            data_out: Some(out),
            repeat: 1,
            ..TestRunOptions::default()
        };
        let result = self.program(name)?.test_run(options);
        let result = result.map_err(|error| failed(name)(&with_causes(&error)))?;
        Ok((result.return_value, result.data_size_out as usize))
    }

    /// Takes a packet with its history before it through the program, `times` times.
    ///
    /// # Errors
    /// The kernel refuses the packet, or the program does not know the history.
    pub fn packet(&self, bytes: &[u8], times: u32) -> Result<Answer, LoadError> {
        let program = self.program(TRY)?;
        let mut out = vec![0; MAX_BYTES + 512];
        let options = TestRunOptions {
            data_in: Some(bytes),
            data_out: Some(&mut out),
            repeat: times,
            ..TestRunOptions::default()
        };
        let result =
            program.test_run(options).map_err(|error| failed("BPF_PROG_TEST_RUN")(&with_causes(&error)))?;
        out.truncate(result.data_size_out as usize);
        let before = HEADER_BYTES + ring_bytes(bytes);
        match (result.return_value, out.get(44..46), out.get(before..)) {
            (DROP, ..) => Ok(Answer { out: None, took: result.duration }),
            (TX, Some(port), Some(packet)) => {
                let port = u16::from_be_bytes([port[0], port[1]]);
                Ok(Answer { out: Some((port, packet.to_vec())), took: result.duration })
            }
            (other, ..) => Err(failed("the program's answer")(&other)),
        }
    }

    /// ns of a packet with its history: the mean of these, each of which goes through the program so many times.
    ///
    /// # Errors
    /// The kernel refuses a packet, or the program does not know the history.
    pub(crate) fn mean_ns(&self, packets: &[Vec<u8>], times: u32) -> Result<f64, LoadError> {
        let mut sum = 0;
        for bytes in packets {
            sum += self.packet(bytes, times)?.took.as_nanos();
        }
        Ok(sum as f64 / packets.len() as f64)
    }

    /// ns in which the kernel brings a frame of 60 bytes to a program as a driver does, and takes it away again: the mean of so many.
    /// The frames have no history, so that the program drops them at once.
    ///
    /// # Errors
    /// The kernel has no live frames (they are there since Linux 5.18).
    pub fn dispatch(&self, frames: u32) -> Result<f64, LoadError> {
        let attrs = TestRunAttrs::new().xdp_live_frames(64);
        let options =
            TestRunOptions { data_in: Some(&[0; 60]), repeat: frames, attrs, ..TestRunOptions::default() };
        let result = self.program(TRY)?.test_run(options);
        let result = result.map_err(|error| failed("live frames")(&with_causes(&error)))?;
        Ok(result.duration.as_nanos() as f64)
    }

    /// The shard to which the dispatcher gives a packet.
    ///
    /// # Errors
    /// The kernel refuses the packet.
    pub(crate) fn shard(&self, bytes: &[u8]) -> Result<u16, LoadError> {
        let mut out = vec![0; bytes.len() + HEADER_BYTES];
        let (returned, length) = self.run(SEQUENCER, bytes, &mut out)?;
        // Its queue is not there, so it drops the packet, behind the header.
        match (returned, out.get(40..42)) {
            (DROP, Some(replica)) if length == out.len() => Ok(u16::from_be_bytes([replica[0], replica[1]])),
            (other, _) => Err(failed(SEQUENCER)(&other)),
        }
    }

    /// Shows a packet with history to the program for those from outside: what goes to a core's queue, or the name of the reason for
    /// which it is not taken; nothing for a flush.
    ///
    /// # Errors
    /// The kernel refuses the packet, or the program was not loaded.
    pub fn receive(&self, bytes: &[u8]) -> Result<Received, LoadError> {
        let before = self.outside()?;
        let mut out = vec![0; bytes.len()];
        let (_, length) = self.run(RECEIVER, bytes, &mut out)?;
        let after = self.outside()?;
        let why = (0..REASONS.len()).find(|at| after.rejected[*at] > before.rejected[*at]);
        Ok(match why {
            Some(why) => Received::Rejected(REASONS[why]),
            None if after.flushes > before.flushes => Received::Flush,
            // Its queue is not there, so it is dropped, without the outer header.
            None => {
                out.truncate(length);
                Received::Packet(out)
            }
        })
    }

    /// What came with history from outside; nothing without `scr`.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn outside(&self) -> Result<Outside, LoadError> {
        if self.compiled.strategy != Strategy::Scr {
            return Ok(Outside::default());
        }
        Ok(Outside::read(&self.whole("outside", 0)?))
    }

    /// Steps what a replica has not stepped of the packets before the one that a header in front of `ring` says, with its last
    /// items in `ring`; `times` times as much as one packet may.
    ///
    /// # Errors
    /// The kernel refuses the header, or the program was not loaded.
    pub fn flush(&self, bytes: &[u8], times: u32) -> Result<(), LoadError> {
        self.step_rest(FLUSH, bytes, times)
    }

    /// A muTable of a replica.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn mu_table(&self, at: usize, replica: u32) -> Result<ReadTable, LoadError> {
        let replica = self.element(replica);
        let layout = &self.compiled.mu_tables[at];
        let bytes = self.read(&layout.name, replica, layout.bytes())?;
        Ok(read_table(layout, &bytes))
    }

    /// The values of a register of a replica.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn register(&self, at: usize, replica: u32) -> Result<Vec<u128>, LoadError> {
        let replica = self.element(replica);
        let RegisterLayout { name, width, bytes, places } = &self.compiled.registers[at];
        let value = self.read(name, replica, bytes * *places as usize)?;
        Ok(value.chunks_exact(*bytes).map(|value| number(value) & ones(*width)).collect())
    }

    /// Packets and bytes of each count of a counter, of one replica's own packets.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn counter(&self, at: usize, replica: u32) -> Result<Vec<(u64, u64)>, LoadError> {
        let replica = self.element(replica);
        let (name, size) = &self.compiled.counters[at];
        let value = self.read(name, replica, 16 * *size as usize)?;
        Ok(value
            .chunks_exact(16)
            .map(|pair| (number(&pair[..8]) as u64, number(&pair[8..]) as u64))
            .collect())
    }

    /// How far a replica is.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn progress(&self, replica: u32) -> Result<Progress, LoadError> {
        Ok(Progress::read(&self.read("progress", replica, PROGRESS_BYTES)?))
    }

    /// Where the state of a replica is: shared state is there once.
    fn element(&self, replica: u32) -> u32 {
        if self.compiled.strategy == Strategy::Shared { 0 } else { replica }
    }

    /// What replicas are told of a packet.
    pub(crate) fn item(&self) -> &Item {
        &self.compiled.item
    }

    /// How state is divided among cores.
    pub fn strategy(&self) -> Strategy {
        self.compiled.strategy
    }

    /// Packets whose item never came to a replica.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn missed(&self, replica: u32) -> Result<u64, LoadError> {
        self.progress(replica).map(|progress| progress.missed)
    }

    /// Whether its history is in a log.
    pub(crate) fn is_logged(&self) -> bool {
        self.program(LOG_CORE).is_ok_and(|program| program.fd().is_ok())
    }

    /// A program of the object that was loaded.
    pub(crate) fn program(&self, name: &str) -> Result<&Xdp, LoadError> {
        let program = self.ebpf.program(name).ok_or(ProgramError::NotLoaded);
        program.and_then(TryInto::try_into).map_err(|error| failed(name)(&error))
    }

    /// A map of the object.
    pub(crate) fn map_mut(&mut self, name: &str) -> Result<&mut Map, LoadError> {
        self.ebpf.map_mut(name).ok_or_else(|| failed(name)(&"the object has no such map"))
    }

    /// The map of this name, without its `_map`, for another thread to read.
    pub(crate) fn shared(&self, name: &str) -> Result<OwnedFd, LoadError> {
        let name = format!("{name}_map");
        match self.ebpf.map(&name) {
            Some(Map::Array(data) | Map::PerCpuArray(data)) => {
                data.fd().as_fd().try_clone_to_owned().map_err(|error| failed(&name)(&error))
            }
            _ => Err(failed(&name)(&"the object has no such map")),
        }
    }

    /// What was compiled.
    pub(crate) fn p4(&self) -> &Program {
        &self.compiled.program
    }

    /// The tables whose entries come from outside.
    pub(crate) fn controls(&self) -> &[ControlTable] {
        &self.compiled.controls
    }

    /// How muTables lie in their maps, and how many elements these have.
    pub(crate) fn tables(&self) -> &[TableLayout] {
        &self.compiled.mu_tables
    }

    /// An element of the array map of this name, without its `_map`, as long as it is.
    pub(crate) fn whole(&self, name: &str, at: u32) -> Result<Vec<u8>, LoadError> {
        let Some(Map::Array(data)) = self.ebpf.map(&format!("{name}_map")) else {
            return Err(failed(name)(&"the object has no such map"));
        };
        let info = data.info().map_err(|error| failed(name)(&with_causes(&error)))?;
        self.read(name, at, info.value_size() as usize)
    }

    /// An element of the array map of this name, without its `_map`.
    fn read(&self, name: &str, at: u32, bytes: usize) -> Result<Vec<u8>, LoadError> {
        let name = format!("{name}_map");
        let failed = failed(&format!("cannot read the map `{name}`"));
        let Some(Map::Array(data)) = self.ebpf.map(&name) else { return Err(failed(&"it is not there")) };
        // The kernel writes values in whole words.
        let mut value = vec![0; bytes.next_multiple_of(8)];
        map::read(data.fd().as_fd(), at, &mut value).map_err(|error| failed(&error))?;
        value.truncate(bytes);
        Ok(value)
    }
}

/// The maps that have an element for each replica.
fn maps(compiled: &Compiled) -> Vec<String> {
    let tables = compiled.mu_tables.iter().map(|layout| &layout.name);
    let registers = compiled.registers.iter().map(|register| &register.name);
    let counters = compiled.counters.iter().map(|(name, _)| name);
    let all = tables.chain(registers).chain(counters).map(String::as_str);
    // The last of them is there with `scr` alone.
    let has_log = compiled.c.contains("} log_map SEC");
    all.chain(["progress"]).chain(has_log.then_some("log")).map(|name| format!("{name}_map")).collect()
}

/// Bytes of the ring in front of a packet, as its header says.
fn ring_bytes(bytes: &[u8]) -> usize {
    let field = |at: usize| {
        bytes.get(at..at + 2).map_or(0, |pair| usize::from(u16::from_be_bytes([pair[0], pair[1]])))
    };
    field(32) * field(34)
}

fn read_table(layout: &TableLayout, bytes: &[u8]) -> ReadTable {
    let (head, slots) = bytes.split_at(TABLE_HEAD_BYTES);
    let of = |entry: &[u8], members: &[Member]| {
        members.iter().map(|member| number(&entry[member.offset..member.offset + member.bytes])).collect()
    };
    let slots = slots.chunks_exact(layout.entry_bytes).take(layout.slots as usize);
    let used = slots.filter(|entry| entry[layout.used.offset] != 0);
    ReadTable {
        entries: used.map(|entry| (of(entry, &layout.keys), of(entry, &layout.values))).collect(),
        refused: number(&head[8..16]) as u64,
        crowded: number(&head[16..24]) as u64,
    }
}

/// A number as this machine has it in memory.
pub(crate) fn number(bytes: &[u8]) -> u128 {
    let byte = |value: u128, byte: &u8| value << 8 | u128::from(*byte);
    if cfg!(target_endian = "little") { bytes.iter().rev().fold(0, byte) } else { bytes.iter().fold(0, byte) }
}

fn not_loaded(name: &str, error: ProgramError) -> LoadError {
    match error {
        ProgramError::LoadError { io_error, .. }
            if io_error.kind() == io::ErrorKind::PermissionDenied
                && io_error.raw_os_error() == Some(libc::EPERM) =>
        {
            LoadError::NoRights(io_error.to_string())
        }
        ProgramError::LoadError { verifier_log, .. } => {
            LoadError::Refused { program: name.to_owned(), log: verifier_log.to_string() }
        }
        error => failed(&format!("cannot load `{name}`"))(&with_causes(&error)),
    }
}

/// Whether an error is the kernel's EPERM.
fn is_refused_right(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|cause| {
        let error = cause.downcast_ref::<io::Error>();
        error.is_some_and(|error| error.raw_os_error() == Some(libc::EPERM))
    })
}

pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source())
}
