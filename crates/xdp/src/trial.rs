//! Packets through a program in the kernel, one by one, beside the interpreter: what leaves, and the state that is left behind.
//!
//! Tests and `paceline p4 matrix` call it. Nothing leaves the machine: the kernel runs each packet with `BPF_PROG_TEST_RUN`.

use p4::interpret::Machine;
use p4::ir::Program;
use p4::stf;

use crate::compile::Compiled;
use crate::history::{Arrival, prefix};
use crate::load::{FLUSH, LOG_FLUSH, LOG_TRY, LOGGER, LoadError, Loaded, RECEIVER, SEQUENCER, Settings, TRY};
use crate::strategy::Strategy;
use crate::tables::{ChangeError, Tables};
use crate::verdict::{counters_differ, shards_differ, state_differs};

/// Rounds of flushing at the end: in each of them every replica steps what it can.
const MAX_FLUSHES: u32 = 1000;

/// A packet and when it came, in ns, and by which port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it came, in ns. Times do not run back.
    pub time_ns: u64,
    /// By which port, 0 to 510.
    pub port: u16,
    /// Its bytes, 14 at least.
    pub bytes: Vec<u8>,
}

/// How packets come to the cores.
pub struct Course<'a> {
    /// How many cores there are; replicas, with `scr`.
    pub cores: u16,
    /// What comes, in order.
    pub packets: &'a [Packet],
    /// Whether a packet is lost before its core, by its number. Replicas have to [recover](load) then.
    pub is_lost: &'a dyn Fn(u64) -> bool,
    /// Changes what a core gets, by the packet's number.
    pub damage: &'a dyn Fn(u64, &mut Vec<u8>),
    /// Lines that change [tables](Tables::change) ahead of packets, in the order of these packets' numbers.
    pub changes: &'a [(u64, String)],
}

impl<'a> Course<'a> {
    /// Packets of which none is lost or damaged.
    pub fn new(cores: u16, packets: &'a [Packet]) -> Course<'a> {
        Course { cores, packets, is_lost: &|_| false, damage: &|_, _| (), changes: &[] }
    }
}

/// Loads what a trial needs of an object, for so many cores.
///
/// # Errors
/// This process has no rights, or the kernel refuses a program.
pub fn load<'a>(
    compiled: &'a Compiled,
    object: &[u8],
    cores: u16,
    recovers: bool,
) -> Result<Loaded<'a>, LoadError> {
    let programs: &[&str] = match compiled.strategy {
        Strategy::Sharded => &[TRY, SEQUENCER],
        Strategy::Shared => &[TRY],
        Strategy::Scr => &[TRY, FLUSH],
    };
    let (replicas, recovers) = ([u32::from(cores)], [u32::from(recovers)]);
    let globals: &[(&str, &[u32])] = &[("replicas", &replicas), ("recovers", &recovers)];
    let settings = Settings { replicas: cores.into(), globals, sizes: &[], programs, is_log_whole: false };
    Loaded::with(compiled, object, &settings)
}

/// Loads what a trial with the history in a log needs, for so many cores, each of which steps so many items for one packet.
///
/// # Errors
/// This process has no rights, or the kernel refuses a program.
pub fn load_logged<'a>(
    compiled: &'a Compiled,
    object: &[u8],
    cores: u16,
    steps: u32,
) -> Result<Loaded<'a>, LoadError> {
    let (replicas, steps) = ([u32::from(cores)], [steps]);
    let globals: &[(&str, &[u32])] = &[("replicas", &replicas), ("steps", &steps)];
    let programs = [LOGGER, LOG_TRY, LOG_FLUSH];
    let settings =
        Settings { replicas: cores.into(), globals, sizes: &[], programs: &programs, is_log_whole: false };
    Loaded::with(compiled, object, &settings)
}

/// Takes packets through a program whose history is in a log, as [`difference`] does: the sequencer in the kernel numbers them, and
/// gives them their times. The interpreter steps all of them, also those that are lost: their items are in the log.
///
/// # Errors
/// A map cannot be read.
pub fn logged_difference(
    program: &Program,
    loaded: &Loaded<'_>,
    course: &Course<'_>,
) -> Result<Option<String>, LoadError> {
    let mut machine = Machine::new(program.clone());
    let cores = u64::from(course.cores);
    let total = course.packets.len() as u64;
    let waited = |core: u64| Ok::<_, LoadError>(loaded.progress(core as u32)?.waited);
    for (number, packet) in (0..).zip(course.packets) {
        let mut bytes = loaded.log(&packet.bytes)?;
        let time_ns = number_of(&bytes[8..16]);
        let expected = machine.packet(0, &packet.bytes, time_ns).into_iter().next();
        (course.damage)(number, &mut bytes);
        if (course.is_lost)(number) {
            continue;
        }
        let before = waited(number % cores)?;
        let answer = loaded.logged(&bytes)?;
        let expected = expected.map(|output| (output.port, output.bytes));
        // It may be dropped because those before it are more than are stepped for one packet.
        if answer != expected && (answer.is_some() || waited(number % cores)? == before) {
            return Ok(Some(format!("packet {number}: expected {expected:?}, came {answer:?}")));
        }
    }
    for replica in 0..course.cores {
        loaded.flush_log(total, replica.into(), MAX_FLUSHES)?;
        let progress = loaded.progress(replica.into())?;
        if progress.next != total {
            let next = progress.next;
            return Ok(Some(format!("replica {replica} stepped up to packet {next} of {total} at the end")));
        }
        if let Some(differs) = state_differs(&machine, loaded, replica.into())? {
            return Ok(Some(format!("at the end, {differs}")));
        }
    }
    Ok(None)
}

/// A number in network order.
fn number_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Loads what a trial of packets with history from outside needs, for so many cores.
///
/// # Errors
/// This process has no rights, or the kernel refuses a program.
pub fn load_receiving<'a>(
    compiled: &'a Compiled,
    object: &[u8],
    cores: u16,
) -> Result<Loaded<'a>, LoadError> {
    let replicas = [u32::from(cores)];
    let (globals, programs) = ([("replicas", &replicas[..])], [TRY, FLUSH, RECEIVER]);
    let settings = Settings {
        replicas: cores.into(),
        globals: &globals,
        sizes: &[],
        programs: &programs,
        is_log_whole: false,
    };
    Loaded::with(compiled, object, &settings)
}

/// What comes before each packet of a stream: the sequencer, in user space.
pub struct Sequencer<'a> {
    compiled: &'a Compiled,
    /// Parses packets as the program does.
    parser: Machine,
    cores: u16,
    ring: Vec<u8>,
    sequence: u64,
    time_ns: u64,
}

impl<'a> Sequencer<'a> {
    /// The sequencer of a program for so many cores.
    pub fn new(compiled: &'a Compiled, program: &Program, cores: u16) -> Sequencer<'a> {
        let slots = usize::from(cores) - 1;
        let ring = vec![0; slots * compiled.item.bytes];
        Sequencer { compiled, parser: Machine::new(program.clone()), cores, ring, sequence: 0, time_ns: 0 }
    }

    /// A packet with its history, for a core, or for the next one in turn. Gives the core, too.
    pub fn next(&mut self, packet: &Packet, core: Option<u16>) -> (Vec<u8>, u16) {
        let item = &self.compiled.item;
        self.time_ns = self.time_ns.max(packet.time_ns);
        let replica = core.unwrap_or((self.sequence % u64::from(self.cores)) as u16);
        let mut bytes = self.front(replica, packet.port, false);
        bytes.extend(&packet.bytes);
        if let Some(slot) = self.sequence.checked_rem(self.slots()) {
            let phv = self.parser.parse(packet.port, &packet.bytes, self.time_ns);
            let at = slot as usize * item.bytes;
            self.ring[at..at + item.bytes].copy_from_slice(&item.of(&phv.values));
        }
        self.sequence += 1;
        (bytes, replica)
    }

    /// Header and ring, as they are before the next packet.
    fn front(&self, replica: u16, port: u16, is_flush: bool) -> Vec<u8> {
        let arrival = Arrival { sequence: self.sequence, time_ns: self.time_ns, replica, port, is_flush };
        prefix(&self.compiled.item, arrival, &self.ring, self.sequence.min(self.slots()) as u16)
    }

    fn slots(&self) -> u64 {
        self.ring.len().checked_div(self.compiled.item.bytes).unwrap_or_default() as u64
    }
}

/// Takes packets through a program in the kernel and through the interpreter; gives the first difference, of packets or of
/// the state that they leave. A sharded program's own dispatcher says to which shard a packet goes. The interpreter leaves out
/// packets that are lost together with all that would have told of them. Counters are compared where nothing is lost.
///
/// # Errors
/// A map cannot be read.
pub fn difference(
    program: &Program,
    compiled: &Compiled,
    loaded: &Loaded<'_>,
    course: &Course<'_>,
) -> Result<Option<String>, LoadError> {
    let cores = course.cores;
    let total = course.packets.len() as u64;
    let mut machine = Machine::new(program.clone());
    let mut tables = Tables::new(loaded)?;
    let mut changes = course.changes.iter().peekable();
    let mut sequencer = Sequencer::new(compiled, program, cores);
    // What each replica has at the end: the state after its last packet.
    let mut states = vec![machine.clone(); usize::from(cores)];
    let (mut lost, mut waited) = (0, vec![0; usize::from(cores)]);
    for (number, packet) in (0..).zip(course.packets) {
        while let Some((_, line)) = changes.next_if(|(at, _)| *at <= number) {
            let said = (stf::change(&mut machine, line).map(drop), tables.change(line));
            match said {
                (Ok(()), Ok(())) | (Err(_), Err(ChangeError::Refused(_))) => {}
                (_, Err(ChangeError::Load(error))) => return Err(error),
                (expected, said) => {
                    return Ok(Some(format!("`{line}`: expected {expected:?}, came {said:?}")));
                }
            }
        }
        let shard = match compiled.strategy {
            Strategy::Sharded if cores > 1 => Some(loaded.shard(&packet.bytes)?),
            _ => None,
        };
        let (mut bytes, core) = sequencer.next(packet, shard);
        (course.damage)(number, &mut bytes);
        // The sequencer has the last ones at the end.
        let told = number..(number + u64::from(cores)).min(total);
        let is_known =
            number + u64::from(cores) > total || told.into_iter().any(|other| !(course.is_lost)(other));
        let expected =
            if is_known { machine.packet(packet.port, &packet.bytes, packet.time_ns) } else { Vec::new() };
        if (course.is_lost)(number) {
            lost += 1;
            continue;
        }
        let expected = expected.into_iter().next().map(|output| (output.port, output.bytes));
        let answer = match loaded.packet(&bytes, 1) {
            Ok(answer) => answer.out,
            Err(error) => return Ok(Some(format!("packet {number}: {error}"))),
        };
        if answer != expected {
            // It may be dropped because one before it is not settled yet.
            let now = loaded.progress(core.into())?.waited;
            if answer.is_some() || now == std::mem::replace(&mut waited[usize::from(core)], now) {
                return Ok(Some(format!("packet {number}: expected {expected:?}, came {answer:?}")));
            }
        } else if lost > 0 {
            waited[usize::from(core)] = loaded.progress(core.into())?.waited;
        }
        if total - number <= u64::from(cores) {
            states[usize::from(core)] = machine.clone();
        }
    }
    match compiled.strategy {
        Strategy::Sharded => {
            if let Some(differs) = shards_differ(&machine, loaded, cores.into())? {
                return Ok(Some(differs));
            }
        }
        Strategy::Shared => {
            if let Some(differs) = state_differs(&machine, loaded, 0)? {
                return Ok(Some(differs));
            }
        }
        Strategy::Scr => {
            for replica in (0..cores).filter(|replica| lost == 0 && u64::from(*replica) < total) {
                if let Some(differs) = state_differs(&states[usize::from(replica)], loaded, replica.into())? {
                    return Ok(Some(differs));
                }
            }
            if let Some(differs) = flushed(&sequencer, loaded, &machine)? {
                return Ok(Some(differs));
            }
        }
    }
    if lost > 0 { Ok(None) } else { counters_differ(&machine, loaded, cores.into()) }
}

/// Has all replicas step what they have not stepped, and compares their states with that of the interpreter.
fn flushed(
    sequencer: &Sequencer<'_>,
    loaded: &Loaded<'_>,
    machine: &Machine,
) -> Result<Option<String>, LoadError> {
    let mut before = Vec::new();
    for _ in 0..MAX_FLUSHES {
        let steps = (0..sequencer.cores).map(|replica| Ok(loaded.progress(replica.into())?.next));
        let steps = steps.collect::<Result<Vec<u64>, LoadError>>()?;
        if steps == before || steps.iter().all(|next| *next >= sequencer.sequence) {
            break;
        }
        before = steps;
        for replica in 0..sequencer.cores {
            loaded.flush(&sequencer.front(replica, 0, true), 1)?;
        }
    }
    for replica in 0..sequencer.cores {
        let next = loaded.progress(replica.into())?.next;
        if next != sequencer.sequence {
            let total = sequencer.sequence;
            return Ok(Some(format!("replica {replica} stepped up to packet {next} of {total} at the end")));
        }
        if let Some(differs) = state_differs(machine, loaded, replica.into())? {
            return Ok(Some(format!("at the end, {differs}")));
        }
    }
    Ok(None)
}
