//! What a pipeline runs: the trait through which a compiled program, or one written by hand, plugs in.

use std::collections::BTreeMap;
use std::fmt::Debug;

use thiserror::Error;

/// A program, laid out in stages.
///
/// A packet is its header vector (PHV): 64-bit containers, plain old data. In each stage [`step`](Program::step)
/// edits it. A stateful table is read where its packet enters the stage [`TableSpec::read_stage`], and written
/// where it leaves [`TableSpec::write_stage`]:
///
/// ```text
///           read_stage                          write_stage
///  ------> | key, read | step | -> | step | -> | step | write | ------>
///                ^                                        |
///                +------------- the new state ------------+
/// ```
///
/// A packet that has read a state that was about to change goes through the stages again, with what its PHV
/// holds by then. So what a step reads *before* it is edited must not be edited in place between the read and the
/// write: the edit goes to a container of its own (RAPID §5.2, field renaming), and so does what the key is made of.
pub trait Program {
    /// Header vector: plain old data.
    type Phv: AsRef<[u64]> + AsMut<[u64]> + Copy + Debug;
    /// What a table holds for a key. `Default` is the state of a key not yet written.
    type State: Copy + Default + PartialEq + Debug;

    /// Name for reports.
    fn name(&self) -> &str;

    /// Stages that the program takes.
    fn stages(&self) -> usize;

    /// Its stateful tables. The same for every call.
    fn tables(&self) -> &[TableSpec];

    /// What selects the packet's state in `table`; `None` if the packet does not use the table.
    fn key(&self, table: usize, phv: &Self::Phv) -> Option<u64>;

    /// Takes over what the table holds.
    fn read(&self, table: usize, state: &Self::State, phv: &mut Self::Phv);

    /// Does what stage `stage` does.
    fn step(&self, stage: usize, phv: &mut Self::Phv);

    /// The state to be written under the packet's key, if the packet writes one. One that equals what
    /// was read is no update.
    fn write(&self, table: usize, phv: &Self::Phv) -> Option<Self::State>;

    /// What a table holds before the first packet, by key. Nothing, unless a control plane has put it there.
    fn entries(&self, _table: usize) -> BTreeMap<u64, Self::State> {
        BTreeMap::new()
    }

    /// The words of a state of `table`, where hardware is held to the model. Nothing in a program for which there is
    /// none.
    fn state_words(&self, _table: usize, _state: &Self::State) -> Vec<u64> {
        Vec::new()
    }

    /// A number that stands for everything that leaves the pipeline: verdict and header fields.
    fn output(&self, phv: &Self::Phv) -> u64;
}

impl<P: Program> Program for &P {
    type Phv = P::Phv;
    type State = P::State;

    fn name(&self) -> &str {
        (**self).name()
    }

    #[inline]
    fn stages(&self) -> usize {
        (**self).stages()
    }

    #[inline]
    fn tables(&self) -> &[TableSpec] {
        (**self).tables()
    }

    #[inline]
    fn key(&self, table: usize, phv: &P::Phv) -> Option<u64> {
        (**self).key(table, phv)
    }

    #[inline]
    fn read(&self, table: usize, state: &P::State, phv: &mut P::Phv) {
        (**self).read(table, state, phv);
    }

    #[inline]
    fn step(&self, stage: usize, phv: &mut P::Phv) {
        (**self).step(stage, phv);
    }

    #[inline]
    fn write(&self, table: usize, phv: &P::Phv) -> Option<P::State> {
        (**self).write(table, phv)
    }

    fn entries(&self, table: usize) -> BTreeMap<u64, P::State> {
        (**self).entries(table)
    }

    fn state_words(&self, table: usize, state: &P::State) -> Vec<u64> {
        (**self).state_words(table, state)
    }

    #[inline]
    fn output(&self, phv: &P::Phv) -> u64 {
        (**self).output(phv)
    }
}

/// A stateful table of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    /// Name for reports.
    pub name: String,
    /// The stage at whose entry it is read, from 0.
    pub read_stage: usize,
    /// The stage at whose exit it is written; the same stage for an atom.
    pub write_stage: usize,
    /// What packets behind an update may see.
    pub consistency: Consistency,
    /// Keys it can hold.
    pub size: usize,
    /// Whether packets change it. What no packet changes is read anew by one that is sent back.
    pub is_written: bool,
    /// The table whose memory it reads by a port of its own, where packets read that under a second key in the one
    /// stage that it has. Such a port holds nothing and is never written.
    pub port_of: Option<usize>,
}

impl TableSpec {
    /// A table.
    pub fn new(name: &str, read_stage: usize, write_stage: usize) -> TableSpec {
        let consistency = Consistency::Strict;
        TableSpec {
            name: name.to_owned(),
            read_stage,
            write_stage,
            consistency,
            size: 1 << 16,
            is_written: true,
            port_of: None,
        }
    }

    /// Stages from the read to the write, both included: m in RAPID §4.4.
    pub fn span(&self) -> usize {
        self.write_stage - self.read_stage + 1
    }

    /// Whether it is read and written within one stage, in one cycle: a register with its ALU.
    pub fn is_atom(&self) -> bool {
        self.read_stage == self.write_stage
    }
}

/// What packets that follow a state update may see (RAPID §4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Every packet sees all updates of the packets of its flow before it.
    #[default]
    Strict,
    /// After an update at most this many packets of the flow pass that have not seen it.
    BoundedStaleness(u32),
    /// Packets see an update some time.
    Weak,
}

/// What is wrong with a program's tables.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LayoutError {
    /// A table is outside the program, or ends before it begins.
    #[error(
        "table {table:?} is read in stage {read_stage} and written in stage {write_stage} of a program of {stages} stages; the write cannot come first, and stages count from 0"
    )]
    Outside {
        /// The table.
        table: String,
        /// Where it is read.
        read_stage: usize,
        /// Where it is written.
        write_stage: usize,
        /// Stages of the program.
        stages: usize,
    },
    /// Two tables with spans that meet.
    #[error(
        "tables {first:?} and {second:?} both span stage {stage}; a packet sent back for one would take the other's steps twice, so their stages must be apart"
    )]
    Overlap {
        /// The one that is read first.
        first: String,
        /// The other.
        second: String,
        /// A stage of both.
        stage: usize,
    },
    /// A port that reads what is not in its stage.
    #[error(
        "table {port:?} reads by a port of its own what another table of one stage holds, and there is none in stage {stage}"
    )]
    Port {
        /// The port.
        port: String,
        /// Where it is.
        stage: usize,
    },
    /// More tables than a packet has marks for.
    #[error("{tables} tables; a program has at most {MAX_TABLES}")]
    TooMany {
        /// Tables of the program.
        tables: usize,
    },
    /// No stages, or too many.
    #[error("{stages} stages; a pipeline has 1 to {MAX_STAGES}")]
    Stages {
        /// Stages asked for.
        stages: usize,
    },
}

/// Most tables of a program: a packet carries one bit for each.
pub const MAX_TABLES: usize = 64;

/// Most stages of a pipeline. RAPID's ring addresses 8; "in general designs" there are fewer than 16 (§4.4).
pub const MAX_STAGES: usize = 16;

/// Checks what every model relies on: tables within the stages, and those of several stages apart.
///
/// # Errors
/// [`LayoutError`] names the tables.
pub fn check_layout(stages: usize, tables: &[TableSpec]) -> Result<(), LayoutError> {
    if stages == 0 || stages > MAX_STAGES {
        return Err(LayoutError::Stages { stages });
    }
    if tables.len() > MAX_TABLES {
        return Err(LayoutError::TooMany { tables: tables.len() });
    }
    for table in tables {
        let TableSpec { read_stage, write_stage, .. } = *table;
        if read_stage > write_stage || write_stage >= stages {
            let table = table.name.clone();
            return Err(LayoutError::Outside { table, read_stage, write_stage, stages });
        }
        let has_memory = |memory: usize| {
            tables.get(memory).is_some_and(|memory| {
                memory.port_of.is_none() && memory.is_atom() && memory.read_stage == read_stage
            })
        };
        if table.port_of.is_some_and(|memory| !table.is_atom() || !has_memory(memory)) {
            return Err(LayoutError::Port { port: table.name.clone(), stage: read_stage });
        }
    }
    let mut spans: Vec<&TableSpec> = tables.iter().filter(|table| !table.is_atom()).collect();
    spans.sort_by_key(|table| table.read_stage);
    for pair in spans.windows(2) {
        if pair[1].read_stage <= pair[0].write_stage {
            let (first, second) = (pair[0].name.clone(), pair[1].name.clone());
            return Err(LayoutError::Overlap { first, second, stage: pair[1].read_stage });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_meet_are_refused() {
        let tables = [TableSpec::new("b", 1, 2), TableSpec::new("a", 0, 1)];
        let error = check_layout(4, &tables).unwrap_err();
        assert_eq!(error, LayoutError::Overlap { first: "a".into(), second: "b".into(), stage: 1 });
        assert_eq!(check_layout(4, &[TableSpec::new("a", 0, 1), TableSpec::new("b", 2, 3)]), Ok(()));
        // An atom may lie within a span: see docs/rapid.md.
        assert_eq!(check_layout(4, &[TableSpec::new("a", 0, 2), TableSpec::new("bloom", 1, 1)]), Ok(()));
    }

    #[test]
    fn a_port_is_where_its_memory_is() {
        let port = |stage, of| TableSpec { port_of: Some(of), ..TableSpec::new("port", stage, stage) };
        assert_eq!(check_layout(2, &[TableSpec::new("a", 1, 1), port(1, 0)]), Ok(()));
        for tables in [
            [TableSpec::new("a", 1, 1), port(0, 0)],
            [TableSpec::new("a", 0, 1), port(0, 0)],
            [port(1, 1), port(1, 0)],
            [TableSpec::new("a", 1, 1), port(1, 7)],
        ] {
            assert!(matches!(check_layout(2, &tables), Err(LayoutError::Port { .. })), "{tables:?}");
        }
    }

    #[test]
    fn tables_outside_the_program_are_refused() {
        assert!(matches!(check_layout(2, &[TableSpec::new("a", 1, 2)]), Err(LayoutError::Outside { .. })));
        assert!(matches!(check_layout(3, &[TableSpec::new("a", 2, 1)]), Err(LayoutError::Outside { .. })));
        assert!(matches!(check_layout(17, &[]), Err(LayoutError::Stages { stages: 17 })));
    }
}
