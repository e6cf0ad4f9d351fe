//! Whether a run did what the interpreter does: what came in, in the order of its stamps, through the interpreter, is what
//! left, and its state is that of each replica.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use p4::interpret::Machine;
use p4::ir::Program;

use crate::load::{LoadError, Loaded, ReadTable, TableEntries};

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

/// Takes what came through the interpreter, without what no replica was told of, and compares it with what left (port and bytes, in any order) and with the state
/// of all replicas, each as of the last packet that it stepped.
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
    for replica in 0..replicas {
        let progress = loaded.progress(replica)?;
        numbers.push(progress.next);
        if progress.missed > 0 {
            let missed = progress.missed;
            verdict.differences.push(format!("replica {replica}: it stepped on without {missed} items"));
        }
    }
    for stepped in 0..=came.len() as u64 {
        for replica in (0..replicas).filter(|replica| numbers[*replica as usize] == stepped) {
            verdict.differences.extend(state_differs(&machine, loaded, replica)?);
        }
        let Some(packet) = came.get(stepped as usize) else { break };
        verdict.lost += u64::from(!packet.was_stepped);
        // Its own replica knows a packet, and so do those that get the next ones, which carry its item.
        let told = came[stepped as usize..].iter().take(replicas as usize);
        if !told.into_iter().any(|packet| packet.was_delivered) {
            verdict.unknown += 1;
            continue;
        }
        let outputs = machine.packet(packet.port, &packet.bytes, packet.time_ns);
        for output in outputs.into_iter().filter(|_| packet.was_stepped) {
            verdict.expected += 1;
            expected.entry((output.port, output.bytes)).or_default().push_back(stepped);
        }
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
    let (program, state) = (machine.program(), machine.state());
    let dump = state.dump(program);
    for (at, table) in program.mu_tables.iter().enumerate() {
        let entries = state.mu_entries(at as u32).map(|(keys, values)| (keys.to_vec(), values.to_vec()));
        let entries: TableEntries = entries.collect();
        let expected = ReadTable { entries, refused: dump.mu_tables[at].refused_writes, crowded: 0 };
        let found = loaded.mu_table(at, replica)?;
        if found != expected {
            let differs =
                expected.entries.iter().find(|(keys, values)| found.entries.get(*keys) != Some(values));
            let differs = differs.or_else(|| {
                found.entries.iter().find(|(keys, values)| expected.entries.get(*keys) != Some(values))
            });
            let name = &table.name;
            return Ok(Some(match differs {
                Some((keys, _)) => format!(
                    "replica {replica}: {name}{keys:?} is {:?}, and the interpreter has {:?}",
                    found.entries.get(keys),
                    expected.entries.get(keys)
                ),
                None => format!(
                    "replica {replica}: {name} refused {} writes ({} crowded), and the interpreter {}",
                    found.refused, found.crowded, expected.refused
                ),
            }));
        }
    }
    for (at, register) in program.registers.iter().enumerate() {
        let found = loaded.register(at, replica)?;
        let differs = (0..).zip(&found).find(|(index, value)| state.register(at as u32, *index) != **value);
        if let Some((index, value)) = differs {
            let expected = state.register(at as u32, index);
            let name = &register.name;
            return Ok(Some(format!(
                "replica {replica}: {name}[{index}] is {value}, and the interpreter has {expected}"
            )));
        }
    }
    Ok(None)
}
