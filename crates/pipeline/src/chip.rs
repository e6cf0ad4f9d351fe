//! What every model has: packets, state tables, and what a stage does to a packet.

use crate::packets::{Handle, Packet, Pool};
use crate::program::{Program, TableSpec};
use crate::report::{DropCause, Lost, Stats};
use crate::state::StateTable;

/// A stateful function: a table with a scheduler where it is read and one where it is written.
#[derive(Clone, Debug)]
pub struct Function {
    /// Number of the table.
    pub table: usize,
    /// Its number in the program, which each pipeline runs.
    pub in_program: usize,
    /// What the program says of the table, with the stages of this chip.
    pub spec: TableSpec,
}

/// What is not a function but done within a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atoms {
    /// A table of one stage is read and written in one cycle, as registers are.
    Update,
    /// Tables are read and never written: what is there is what the control plane put there.
    ReadOnly,
}

/// A table that is read, and perhaps written, in one stage.
#[derive(Clone, Copy, Debug)]
struct Atom {
    /// Number of the table.
    table: usize,
    /// Its number in the program.
    in_program: usize,
    /// That which has the memory: itself, unless it is a second port.
    memory: usize,
    is_written: bool,
}

/// What every model has.
pub struct Chip<P: Program> {
    /// What it runs.
    pub program: P,
    /// Packets inside.
    pub pool: Pool<P::Phv, P::State>,
    /// One for each table of the program, and so on for each pipeline.
    pub tables: Vec<StateTable<P::State>>,
    /// What the program says of each, with the stages of this chip.
    pub specs: Vec<TableSpec>,
    /// Functions, by the stage where they are read.
    pub functions: Vec<Function>,
    /// What happened so far.
    pub stats: Stats,
    /// Packets lost in this cycle, and why.
    pub lost: Vec<Lost>,
    /// By stage, tables that are no function's and read there.
    atoms: Vec<Vec<Atom>>,
    /// A bit for each stage that has any of these.
    stages_with_atoms: u32,
    atoms_are: Atoms,
    /// By stage, which of the program's it is; none behind the last.
    program_stage: Vec<Option<usize>>,
}

/// A table of the program as it is in one of so many pipelines, each of so many stages and tables.
fn in_pipeline(
    spec: &TableSpec,
    pipeline: usize,
    pipelines: usize,
    stages: usize,
    tables: usize,
) -> TableSpec {
    let name = match pipelines {
        1 => spec.name.clone(),
        _ => format!("{}[{pipeline}]", spec.name),
    };
    TableSpec {
        name,
        read_stage: spec.read_stage + pipeline * stages,
        write_stage: spec.write_stage + pipeline * stages,
        port_of: spec.port_of.map(|memory| memory + pipeline * tables),
        ..spec.clone()
    }
}

impl<P: Program> Chip<P> {
    /// A chip of pipelines of `stages` stages, one behind the other in its numbers, with the tables for which
    /// `is_function` says so behind schedulers.
    pub fn new(
        program: P,
        pipelines: usize,
        stages: usize,
        atoms_are: Atoms,
        is_function: impl Fn(&TableSpec) -> bool,
    ) -> Chip<P> {
        let program_tables = program.tables().len();
        let of_pipeline = |pipeline| {
            let of_program = program.tables().iter();
            of_program.map(move |spec| in_pipeline(spec, pipeline, pipelines, stages, program_tables))
        };
        let specs: Vec<TableSpec> = (0..pipelines).flat_map(of_pipeline).collect();
        let mut tables: Vec<StateTable<P::State>> = specs
            .iter()
            .map(|spec| StateTable::new(if spec.port_of.is_some() { 0 } else { spec.size }))
            .collect();
        for (number, table) in tables.iter_mut().enumerate() {
            program
                .entries(number % program_tables)
                .into_iter()
                .for_each(|(key, state)| table.set(key, state));
        }
        let mut atoms = vec![Vec::new(); pipelines * stages];
        let mut functions = Vec::new();
        for (table, spec) in specs.iter().enumerate() {
            let in_program = table % program_tables;
            match is_function(spec) {
                true => functions.push(Function { table, in_program, spec: spec.clone() }),
                false => {
                    let memory = spec.port_of.unwrap_or(table);
                    atoms[spec.read_stage].push(Atom {
                        table,
                        in_program,
                        memory,
                        is_written: spec.is_written,
                    });
                }
            }
        }
        functions.sort_by_key(|function| function.spec.read_stage);
        let stages_with_atoms = atoms
            .iter()
            .zip(0..)
            .fold(0, |bits, (tables, stage)| bits | u32::from(!tables.is_empty()) << stage);
        let program_stages = program.stages();
        let program_stage = |stage: usize| Some(stage % stages).filter(|stage| *stage < program_stages);
        let program_stage = (0..pipelines * stages).map(program_stage).collect();
        let (pool, lost) = (Pool::new(0), Vec::with_capacity(256));
        Chip {
            program,
            pool,
            tables,
            specs,
            functions,
            stats: Stats::default(),
            lost,
            atoms,
            stages_with_atoms,
            atoms_are,
            program_stage,
        }
    }

    /// A packet that arrives.
    pub fn insert(&mut self, phv: P::Phv, number: u64, arrived: u64) -> Handle {
        self.pool.insert(Packet {
            phv,
            number,
            arrived,
            key: 0,
            read: P::State::default(),
            next: Handle::NONE,
            atoms_done: 0,
            changed: 0,
            uses_table: false,
            is_alone: false,
            is_reserved: false,
        })
    }

    /// A packet that is lost.
    pub fn lose(&mut self, packet: Handle, cause: DropCause) {
        let &Packet { number, changed, .. } = self.pool.get(packet);
        self.stats.drops[cause as usize] += 1;
        for (table, lost) in self.stats.lost_behind.iter_mut().enumerate() {
            *lost += changed >> table & 1;
        }
        self.lost.push(Lost { number, cause, changed });
        self.pool.remove(packet);
    }

    /// The key that the packet has in a function, if it uses that.
    #[inline]
    pub fn key(&self, function: usize, packet: Handle) -> Option<u64> {
        self.program.key(self.functions[function].in_program, &self.pool.get(packet).phv)
    }

    /// The hash module before a function: finds the packet's key, and keeps it with the packet.
    #[inline]
    pub fn find_key(&mut self, function: usize, packet: Handle) -> Option<u64> {
        let key = self.key(function, packet);
        let packet = self.pool.get_mut(packet);
        packet.uses_table = key.is_some();
        packet.key = key.unwrap_or(0);
        key
    }

    /// Reads the packet's state at the entry of a function.
    #[inline]
    pub fn read_state(&mut self, function: usize, packet: Handle) {
        let Function { table, in_program, .. } = self.functions[function];
        let packet = self.pool.get_mut(packet);
        packet.read = self.tables[table].get(packet.key);
        self.program.read(in_program, &packet.read, &mut packet.phv);
    }

    /// The packet leaves a function with a new state, which is written.
    #[inline]
    pub fn has_changed(&mut self, function: usize, packet: Handle) {
        self.pool.get_mut(packet).changed |= 1 << self.functions[function].table;
    }

    /// The new state at the exit of a function, where it differs from what the packet read.
    #[inline]
    pub fn new_state(&self, function: usize, packet: Handle) -> Option<P::State> {
        let packet = self.pool.get(packet);
        let new = self.program.write(self.functions[function].in_program, &packet.phv)?;
        (new != packet.read).then_some(new)
    }

    /// A stage does its work on a packet that enters it.
    #[inline]
    pub fn enter(&mut self, stage: usize, packet: Handle) {
        let Some(step) = self.program_stage[stage] else { return };
        if self.stages_with_atoms >> stage & 1 == 0 {
            return self.program.step(step, &mut self.pool.get_mut(packet).phv);
        }
        self.enter_with_atoms(stage, step, packet);
    }

    /// A stage with tables does its work on a packet that enters it. A packet that was sent back has passed those
    /// already that packets write: it keeps what it read then, and they are not written twice. All are read before
    /// one is written.
    fn enter_with_atoms(&mut self, stage: usize, step: usize, packet: Handle) {
        let Packet { phv, atoms_done, changed, .. } = self.pool.get_mut(packet);
        for &Atom { table, in_program, memory, .. } in &self.atoms[stage] {
            if *atoms_done >> table & 1 == 0
                && let Some(key) = self.program.key(in_program, phv)
            {
                self.program.read(in_program, &self.tables[memory].get(key), phv);
            }
        }
        self.program.step(step, phv);
        for &Atom { table, in_program, is_written, .. } in &self.atoms[stage] {
            if *atoms_done >> table & 1 == 0
                && self.atoms_are == Atoms::Update
                && let Some(key) = self.program.key(in_program, phv)
                && let Some(new) = self.program.write(in_program, phv)
                && new != self.tables[table].get(key)
            {
                self.tables[table].set(key, new);
                *changed |= 1 << table;
            }
            *atoms_done |= u64::from(is_written) << table;
        }
    }
}
