//! A compiled program: operations by stage, tables, and where everything is in a header vector.

use std::cell::RefCell;

use p4::interpret::{Machine, Output, Phv, Writer};
use p4::ir::{FieldId, Program, StatementKind};
use p4::uses::{Object, Uses, follows};

use super::code::{ASKED, FIRST_FREE, Lists, NUMBER, Op, Place, TIME_NS, WRITTEN, get, put};
use super::error::{CompileError, RunError};
use super::limits::{STATE_WORDS, State};
use super::lower::{Lowering, Places};
use super::object::Held;
use crate::options::Model;
use crate::program::{Consistency, MAX_STAGES, MAX_TABLES, TableSpec};

/// Most words of a header vector.
pub const MAX_WORDS: usize = 256;

/// A compiled program with the entries of its tables, for any pipeline.
#[derive(Clone, Debug)]
pub struct Image {
    pub(super) machine: Machine,
    pub(super) objects: Vec<Held>,
    pub(super) lists: Lists,
    /// Where each action's parameters go; nowhere if nothing reads them.
    pub(super) parameters: Vec<Vec<Option<Place>>>,
    pub(super) packet_length: u16,
    pub(super) scratch: RefCell<Scratch>,
    pub(super) arrival: Vec<Op>,
    pub(super) stages: Vec<Vec<Op>>,
    tables: Vec<TableSpec>,
    /// Fields that the stages use.
    pub(super) fields: Vec<(FieldId, Place)>,
    pub(super) words: usize,
    name: String,
}

/// Room for what is hashed; a copy of an image begins with room of its own.
#[derive(Debug, Default)]
pub(super) struct Scratch(pub Writer);

impl Clone for Scratch {
    fn clone(&self) -> Scratch {
        Scratch::default()
    }
}

impl Image {
    /// Compiles the program of a machine, which has been through [`p4::passes::compile`]. What its tables hold now
    /// is what a run begins with.
    ///
    /// # Errors
    /// [`CompileError`] says what a pipeline cannot do. Cost: linear in the statements, times stages.
    pub fn new(machine: Machine) -> Result<Image, CompileError> {
        let program = machine.program();
        let uses = Uses::of(program);
        let faults: Vec<String> = uses.faults.iter().map(|fault| fault.describe(program)).collect();
        if !faults.is_empty() {
            return Err(CompileError::Fault(faults.join("; ")));
        }
        check_statements(program)?;
        let stages = program.layout.as_ref().map_or(0, |layout| usize::from(layout.stages)).max(1);
        if stages > MAX_STAGES {
            return Err(CompileError::Stages { stages, most: MAX_STAGES });
        }
        if uses.objects.len() > MAX_TABLES {
            return Err(CompileError::Objects { objects: uses.objects.len(), most: MAX_TABLES });
        }
        let mut objects = Vec::new();
        let mut words = FIRST_FREE;
        for used in &uses.objects {
            let held = Held::new(used, &machine, words)?;
            words += held.phv_words();
            objects.push(held);
        }
        let places = Places::new(program, words);
        if places.words > MAX_WORDS {
            return Err(CompileError::Wide { words: places.words, most: MAX_WORDS });
        }
        let mut lowering = Lowering::new(program, &places, &uses.objects);
        let arrival = lowering.arrival();
        let code = (1..=stages as u16).map(|stage| lowering.stage(stage)).collect();
        let lists = lowering.lists;
        let parameter = |field: &FieldId| places.fields[*field as usize];
        let parameters =
            program.actions.iter().map(|action| action.parameters.iter().map(parameter).collect());
        let fields = (0..).zip(&places.fields).filter_map(|(id, place)| Some((id, (*place)?)));
        let packet_length = parameter(&program.standard.packet_length).map_or(0, |place| place.word);
        Ok(Image {
            lists,
            parameters: parameters.collect(),
            packet_length,
            scratch: RefCell::default(),
            arrival,
            stages: code,
            tables: objects.iter().map(|held| spec(program, &objects, held)).collect(),
            fields: fields.collect(),
            words: places.words,
            name: program.name.clone(),
            objects,
            machine,
        })
    }

    /// The program's file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Stages that the program takes.
    pub fn stages(&self) -> usize {
        self.stages.len()
    }

    /// Its muTables, registers, counters and meters.
    pub fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    /// 64-bit words that a packet takes.
    pub fn words(&self) -> usize {
        self.words
    }

    /// The program, with what its tables hold before the first packet.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether the model can run it.
    ///
    /// # Errors
    /// [`RunError::Unsupported`] names the object and says what to do.
    pub fn check(&self, model: &Model) -> Result<(), RunError> {
        let program = self.machine.program();
        let unsupported = |what| Err(RunError::Unsupported { model: model.name(), what });
        for (held, spec) in self.objects.iter().zip(&self.tables) {
            let used = &held.used;
            let name = used.object.describe(program);
            let (reads, writes) = (used.reads, used.writes);
            let resubmits = |table: &&u32| match model {
                Model::Rapid(rapid) => {
                    let at =
                        self.objects.iter().position(|other| other.used.object == Object::MuTable(**table));
                    let declared = at.map_or(Consistency::Strict, |at| self.tables[at].consistency);
                    rapid.consistency.unwrap_or(declared) != Consistency::Weak
                }
                _ => false,
            };
            match model {
                Model::Pisa if used.is_written => {
                    return unsupported(format!(
                        "{name} is written by packets, and here tables are read only"
                    ));
                }
                Model::Banzai | Model::FlowBlaze(_) if !spec.is_atom() => {
                    return unsupported(format!(
                        "{name} is read in stage {reads} and written from stage {writes}; a state is written in the \
                         stage that reads it here"
                    ));
                }
                Model::FlowBlaze(_) if used.is_second_key() => {
                    return unsupported(format!(
                        "{name} is read under two keys by one packet, and packets wait for one state here"
                    ));
                }
                Model::FlowBlaze(_) if used.is_written_unread => {
                    return unsupported(format!(
                        "{name} may be written by a packet that has not read it, and packets wait for what they \
                         read here; read it first"
                    ));
                }
                Model::Rapid(_) if used.is_written => {
                    if let Some(table) = used.follows.iter().find(resubmits) {
                        return unsupported(follows(&name, &Object::MuTable(*table).describe(program)));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The header vector of a packet as it comes to the first stage.
    pub(super) fn arrive(&self, parsed: &Phv, number: u64, time_ns: u64, phv: &mut [u64]) {
        phv[NUMBER] = number;
        phv[TIME_NS] = time_ns;
        for (field, place) in &self.fields {
            put(phv, *place, parsed.values[*field as usize]);
        }
        self.run(&self.arrival, phv);
    }

    /// What leaves: the parsed packet with what the stages have made of it goes through egress and deparser.
    pub(super) fn leave(&self, machine: &mut Machine, mut parsed: Phv, phv: &[u64]) -> Vec<Output> {
        for (field, place) in &self.fields {
            parsed.values[*field as usize] = get(phv, *place);
        }
        machine.leave(&parsed)
    }

    pub(super) fn step(&self, stage: usize, phv: &mut [u64]) {
        self.run(&self.stages[stage], phv);
    }

    pub(super) fn key(&self, table: usize, phv: &[u64]) -> Option<u64> {
        (phv[ASKED] >> table & 1 == 1).then(|| phv[self.objects[table].key_word])
    }

    pub(super) fn read(&self, table: usize, state: &State, phv: &mut [u64]) {
        let held = &self.objects[table];
        phv[WRITTEN] &= !(1 << table);
        phv[held.read_words..held.read_words + held.words].copy_from_slice(&state[..held.words]);
    }

    pub(super) fn write(&self, table: usize, phv: &[u64]) -> Option<State> {
        if phv[WRITTEN] >> table & 1 == 0 {
            return None;
        }
        let held = &self.objects[table];
        let mut state = State::default();
        state[..held.words].copy_from_slice(&phv[held.new_words..held.new_words + held.words]);
        state[STATE_WORDS] = 1;
        Some(state)
    }

    /// The words of a state, and 1 if there is an entry.
    pub(super) fn state_words(&self, table: usize, state: &State) -> Vec<u64> {
        let values = &state[..self.objects[table].words];
        values.iter().copied().chain([state[STATE_WORDS]]).collect()
    }

    pub(super) fn output(&self, phv: &[u64]) -> u64 {
        let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.fields.iter().fold(0, |hash, (_, place)| {
            let value = get(phv, *place);
            mix(mix(hash, value as u64), (value >> 64) as u64)
        })
    }
}

fn spec(program: &Program, objects: &[Held], held: &Held) -> TableSpec {
    let used = &held.used;
    let is_memory = |other: &Held| other.used.object == used.object && !other.used.is_second_key();
    let port_of = objects.iter().position(is_memory).filter(|_| used.is_second_key());
    let (name, consistency) = match used.object {
        Object::MuTable(at) => {
            let declared = &program.mu_tables[at as usize];
            (&declared.name, declared.consistency)
        }
        Object::Register(at) => (&program.registers[at as usize].name, p4::ir::Consistency::Strict),
        Object::Counter(at) => (&program.counters[at as usize].name, p4::ir::Consistency::Strict),
        Object::Meter(at) => (&program.meters[at as usize].name, p4::ir::Consistency::Strict),
    };
    let consistency = match consistency {
        p4::ir::Consistency::Strict => Consistency::Strict,
        p4::ir::Consistency::Weak => Consistency::Weak,
        p4::ir::Consistency::BoundedStaleness(packets) => Consistency::BoundedStaleness(packets),
    };
    let stage = |stage: u16| usize::from(stage.max(1)) - 1;
    let size = held.size as usize;
    TableSpec {
        name: if used.is_second_key() { format!("{name}, second key") } else { name.clone() },
        read_stage: stage(used.reads),
        write_stage: stage(used.writes),
        consistency,
        size,
        is_written: used.is_written,
        port_of,
    }
}

fn check_statements(program: &Program) -> Result<(), CompileError> {
    let (mut draws, mut has_payload) = (0, false);
    program.visit(&program.ingress, &mut |kind| match kind {
        StatementKind::Random { .. } => draws += 1,
        StatementKind::Checksum { with_payload: true, .. } => has_payload = true,
        _ => {}
    });
    match (draws > 1, has_payload) {
        (true, _) => Err(CompileError::Random { draws }),
        (_, true) => Err(CompileError::Payload),
        _ => Ok(()),
    }
}
