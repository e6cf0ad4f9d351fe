//! Whether a run did what the interpreter does: what came in, in the order of its stamps, through the interpreter, is what
//! left, and its state is that of each replica.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;

use p4::interpret::Machine;
use p4::ir::Program;

use crate::load::{LoadError, Loaded, ReadTable, TableEntries};
use crate::strategy::Strategy;

/// A packet as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Came {
    /// The sequencer's stamp, in ns.
    pub time_ns: u64,
    /// By which port it came.
    pub port: u16,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether its replica got it: else the queue was full.
    pub was_delivered: bool,
    /// Whether its replica did with it what the program says: else it was dropped before, and only its item counts.
    pub was_stepped: bool,
    /// With strategy `shared`: how many packets had the lock before it.
    pub turn: u64,
}

/// What a run came to beside the interpreter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Packets that came.
    pub came: u64,
    /// Packets that their replicas did not get, or dropped because one before them was not settled yet.
    pub lost: u64,
    /// Lost packets that no replica was told of: nothing steps them, nor does the interpreter.
    pub unknown: u64,
    /// Packets that should have left, without the lost ones.
    pub expected: u64,
    /// Packets that left as they should.
    pub left: u64,
    /// Packets that left and should not have: other bytes, another port, once too often.
    pub unexpected: u64,
    /// Packets that left by a port behind one that came after them. XDP restores no order.
    pub inversions: u64,
    /// The first difference of each replica whose state is not the interpreter's after the last packet that it stepped.
    pub differences: Vec<String>,
}

impl Verdict {
    /// Whether all that should have left did, nothing else, and all state is the interpreter's. The order does not count.
    pub fn is_equal(&self) -> bool {
        self.left == self.expected && self.unexpected == 0 && self.differences.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { came, lost, unknown, expected, left, unexpected, inversions, differences } = self;
        writeln!(f, "{came} packets came; lost: {lost}, of which no replica knows {unknown}")?;
        writeln!(f, "{left} of the {expected} others that should leave did, {unexpected} more left")?;
        writeln!(f, "inversions: {inversions}")?;
        differences.iter().try_for_each(|difference| writeln!(f, "{difference}"))?;
        f.write_str(if self.is_equal() { "EQUALS the reference" } else { "DOES NOT EQUAL the reference" })
    }
}

/// Takes what came through the interpreter, without what no replica was told of, and compares it with what left (port and
/// bytes, in any order) and with the state of all replicas, each as of the last packet that it stepped. Shards have parts of the
/// interpreter's state, each key in one of them. Packets that share state go through in the order in which they had the lock.
///
/// # Errors
/// A map cannot be read.
pub fn judge(
    program: &Program,
    loaded: &Loaded<'_>,
    replicas: u32,
    came: &[Came],
    left: &[(u16, Vec<u8>)],
) -> Result<Verdict, LoadError> {
    let mut machine = Machine::new(program.clone());
    let mut verdict = Verdict { came: came.len() as u64, ..Verdict::default() };
    let mut expected: HashMap<(u16, Vec<u8>), VecDeque<u64>> = HashMap::new();
    let mut numbers = Vec::new();
    let strategy = loaded.strategy();
    let mut came: Vec<(u64, &Came)> = (0..).zip(came).collect();
    if strategy == Strategy::Shared {
        came.sort_by_key(|(number, packet)| (packet.turn, *number));
    }
    let is_replicated = strategy == Strategy::Scr;
    for replica in (0..replicas).filter(|_| is_replicated) {
        let progress = loaded.progress(replica)?;
        numbers.push(progress.next);
        if progress.missed > 0 {
            let missed = progress.missed;
            verdict.differences.push(format!("replica {replica}: it stepped on without {missed} items"));
        }
    }
    for stepped in 0..=came.len() as u64 {
        for replica in (0..replicas).filter(|replica| numbers.get(*replica as usize) == Some(&stepped)) {
            verdict.differences.extend(state_differs(&machine, loaded, replica)?);
        }
        let Some((number, packet)) = came.get(stepped as usize).copied() else { break };
        verdict.lost += u64::from(!packet.was_stepped);
        // In a log are all of them. Else its own replica knows a packet, and so do those that get the next ones, which
        // carry its item. The sequencer has the last ones at the end.
        let told = came[stepped as usize..].iter().take(if is_replicated { replicas as usize } else { 1 });
        let is_last =
            loaded.is_logged() || is_replicated && stepped + u64::from(replicas) > came.len() as u64;
        if !is_last && !told.into_iter().any(|(_, packet)| packet.was_delivered) {
            verdict.unknown += 1;
            continue;
        }
        let outputs = machine.packet(packet.port, &packet.bytes, packet.time_ns);
        for output in outputs.into_iter().filter(|_| packet.was_stepped) {
            verdict.expected += 1;
            expected.entry((output.port, output.bytes)).or_default().push_back(number);
        }
    }
    match strategy {
        Strategy::Scr => {}
        Strategy::Shared => verdict.differences.extend(state_differs(&machine, loaded, 0)?),
        Strategy::Sharded => verdict.differences.extend(shards_differ(&machine, loaded, replicas)?),
    }
    let past = numbers.iter().filter(|number| **number > came.len() as u64);
    verdict
        .differences
        .extend(past.map(|number| format!("a replica expects packet {number}, which never came")));
    let mut latest: HashMap<u16, u64> = HashMap::new();
    for packet in left {
        match expected.get_mut(packet).and_then(VecDeque::pop_front) {
            Some(number) => {
                verdict.left += 1;
                let last = latest.entry(packet.0).or_default();
                verdict.inversions += u64::from(number < *last);
                *last = number.max(*last);
            }
            None => verdict.unexpected += 1,
        }
    }
    Ok(verdict)
}

/// The first difference between the interpreter's state and that of a replica, in words.
///
/// # Errors
/// A map cannot be read.
pub fn state_differs(
    machine: &Machine,
    loaded: &Loaded<'_>,
    replica: u32,
) -> Result<Option<String>, LoadError> {
    let what = format!("replica {replica}");
    differs(machine, &what, &|at| loaded.mu_table(at, replica), &|at| loaded.register(at, replica))
}

/// The first difference between the interpreter's state and that of all shards together, in words.
///
/// # Errors
/// A map cannot be read.
pub fn shards_differ(
    machine: &Machine,
    loaded: &Loaded<'_>,
    shards: u32,
) -> Result<Option<String>, LoadError> {
    for at in 0..machine.program().mu_tables.len() {
        let mut seen = BTreeSet::new();
        for shard in 0..shards {
            let keys = loaded.mu_table(at, shard)?.entries.into_keys();
            if let Some(twice) = keys.into_iter().find(|keys| !seen.insert(keys.clone())) {
                let name = &machine.program().mu_tables[at].name;
                return Ok(Some(format!("{name}{twice:?} is in two shards")));
            }
        }
    }
    let table = |at: usize| {
        let mut all = ReadTable::default();
        for shard in 0..shards {
            let part = loaded.mu_table(at, shard)?;
            all.entries.extend(part.entries);
            all.refused += part.refused;
            all.crowded += part.crowded;
        }
        Ok(all)
    };
    let register = |at: usize| {
        let mut all = loaded.register(at, 0)?;
        for shard in 1..shards {
            // No two shards have the same place.
            all.iter_mut()
                .zip(loaded.register(at, shard)?)
                .for_each(|(sum, value)| *sum = sum.wrapping_add(value));
        }
        Ok(all)
    };
    differs(machine, "the shards", &table, &register)
}

/// The first counter that all cores together count otherwise than the interpreter, in words. Each core counts its own packets.
///
/// # Errors
/// A map cannot be read.
pub fn counters_differ(
    machine: &Machine,
    loaded: &Loaded<'_>,
    cores: u32,
) -> Result<Option<String>, LoadError> {
    let elements = if loaded.strategy() == Strategy::Shared { 1 } else { cores };
    for (at, counter) in machine.program().counters.iter().enumerate() {
        let mut sum = loaded.counter(at, 0)?;
        for element in 1..elements {
            let more = loaded.counter(at, element)?;
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum = (sum.0 + more.0, sum.1 + more.1));
        }
        let expected = |index: u32| machine.state().counter(at as u32, index);
        if let Some((index, found)) =
            (0..counter.size).zip(sum).find(|(index, found)| *found != expected(*index))
        {
            let (name, expected) = (&counter.name, expected(index));
            return Ok(Some(format!("{name}[{index}] counted {found:?}, and the interpreter {expected:?}")));
        }
    }
    Ok(None)
}

/// Reads a muTable, or a register, by its number.
type Read<'a, T> = &'a dyn Fn(usize) -> Result<T, LoadError>;

fn differs(
    machine: &Machine,
    what: &str,
    table_of: Read<'_, ReadTable>,
    register_of: Read<'_, Vec<u128>>,
) -> Result<Option<String>, LoadError> {
    let (program, state) = (machine.program(), machine.state());
    let dump = state.dump(program);
    for (at, table) in program.mu_tables.iter().enumerate() {
        let entries = state.mu_entries(at as u32).map(|(keys, values)| (keys.to_vec(), values.to_vec()));
        let entries: TableEntries = entries.collect();
        let expected = ReadTable { entries, refused: dump.mu_tables[at].refused_writes, crowded: 0 };
        let found = table_of(at)?;
        if found != expected {
            let differs =
                expected.entries.iter().find(|(keys, values)| found.entries.get(*keys) != Some(values));
            let differs = differs.or_else(|| {
                found.entries.iter().find(|(keys, values)| expected.entries.get(*keys) != Some(values))
            });
            let name = &table.name;
            return Ok(Some(match differs {
                Some((keys, _)) => format!(
                    "{what}: {name}{keys:?} is {:?}, and the interpreter has {:?}",
                    found.entries.get(keys),
                    expected.entries.get(keys)
                ),
                None => format!(
                    "{what}: {name} refused {} writes ({} crowded), and the interpreter {}",
                    found.refused, found.crowded, expected.refused
                ),
            }));
        }
    }
    for (at, register) in program.registers.iter().enumerate() {
        let found = register_of(at)?;
        let differs = (0..).zip(&found).find(|(index, value)| state.register(at as u32, *index) != **value);
        if let Some((index, value)) = differs {
            let expected = state.register(at as u32, index);
            let name = &register.name;
            return Ok(Some(format!(
                "{what}: {name}[{index}] is {value}, and the interpreter has {expected}"
            )));
        }
    }
    Ok(None)
}
