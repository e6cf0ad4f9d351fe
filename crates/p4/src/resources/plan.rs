//! A program placed on a chip, as a report; or what does not fit, and by how much.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::need::{self, Part};
use super::profile::{Amounts, Profile, RESOURCES, Resource};
use super::vector::{self, Held};
use crate::ir::{Memory, Program};
use crate::passes::allocate::fit::{self, Fault, Misfit, Share};
use crate::passes::{dead, fold, rename};
use crate::uses::{self, Uses};

/// Bits on the ring beside a state's values: the function's number, and the index of the flow's state (RAPID §4.4).
const STATE_HEAD_BITS: u64 = 8 + 64;

/// A program with the place of all its parts.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The program, compiled: each statement has its stage.
    pub program: Program,
    /// What is in which stage.
    pub shares: Vec<Share>,
    /// What is in which container.
    pub vector: Vec<Held>,
}

/// Places a program, as [`lower`](crate::lower) gives it. Cost: some walks through the program for each part that is moved.
///
/// # Errors
/// What does not fit.
pub fn plan(program: &Program, profile: &Profile) -> Result<Placed, Unfit> {
    plan_with(program, profile, Fault::Sound)
}

/// [`plan`] with a defect of the placer.
///
/// # Errors
/// As [`plan`].
#[doc(hidden)]
pub fn plan_with(program: &Program, profile: &Profile, fault: Fault) -> Result<Placed, Unfit> {
    let mut program = program.clone();
    fold::run(&mut program);
    dead::run(&mut program);
    let shares = fit::run_with(&mut program, profile, fault);
    let mut unfit = Vec::new();
    // What has no stages has no other problem yet.
    if !matches!(shares, Err(Misfit::Unsettled(_))) {
        rename::run(&mut program);
        unfit.extend(Uses::of(&program).faults.iter().map(|fault| fault.describe(&program)));
        unfit.extend(off_ring(&program, profile));
    }
    let shares = shares.map_err(|misfit| unfit.insert(0, told(&misfit, &program, profile)));
    let carried = vector::carried(&program);
    let held = vector::held(&program, &carried, &profile.containers).map_err(|crowded| {
        let vector::Crowded { field, bits, over } = crowded;
        let field = &program.fields[field as usize];
        unfit.push(format!(
            "the header vector: fields of {bits} bits go through the stages, and {over} of them find no container of the {} bits; the \
             first is {} of {} bits",
            profile.vector_bits(),
            field.name,
            field.width
        ));
    });
    match (shares, held) {
        (Ok(shares), Ok(vector)) if unfit.is_empty() => {
            let (notes, warnings) = (uses::notes(&program), uses::warnings(&program));
            if let Some(layout) = &mut program.layout {
                layout.notes.extend(notes);
                layout.warnings.extend(warnings);
            }
            Ok(Placed { program, shares, vector })
        }
        _ => Err(Unfit { profile: profile.name.clone(), what: unfit }),
    }
}

/// What does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The profile.
    pub profile: String,
    /// Each in a line, with its place in the sources.
    pub what: Vec<String>,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it does not fit `{}`: {}", self.profile, self.what.join("; "))
    }
}

impl std::error::Error for Unfit {}

fn told(misfit: &Misfit, program: &Program, profile: &Profile) -> String {
    match misfit {
        Misfit::Large { part, resource, taken, most, is_of_all } => format!(
            "{} takes {}, {} more than the {most} of {}",
            need::describe(*part, program),
            amount(*taken, *resource),
            taken - most,
            if *is_of_all { format!("all {} stages", profile.stages.number) } else { "a stage".to_owned() },
        ),
        Misfit::Full { part, resource, taken, free, stage, entries } => format!(
            "{}{}{}, {} more than are left of the {} of stage {stage}, and there is no room in a later stage: the profile has {}",
            need::describe(*part, program),
            if *entries > 0 { format!(": its last {entries} entries take ") } else { " takes ".to_owned() },
            amount(*taken, *resource),
            taken.saturating_sub(*free),
            profile.limits()[*resource as usize],
            profile.stages.number,
        ),
        Misfit::Stages { stages, last } => {
            let last: Vec<String> = last.iter().take(3).map(|part| need::describe(*part, program)).collect();
            let in_last =
                if last.is_empty() { String::new() } else { format!(" (there: {})", last.join(", ")) };
            let most = profile.stages.number;
            format!("it takes {stages} stages{in_last}, {} more than {most}", stages - most)
        }
        Misfit::Unsettled(names) => {
            format!("there are no stages for the orders in which it uses {}", names.join(", "))
        }
    }
}

/// `24 SRAM blocks`.
fn amount(number: u64, resource: Resource) -> String {
    let name = resource.name();
    format!("{number} {}", if number == 1 { name.trim_end_matches('s') } else { name })
}

/// What the ring cannot carry, or what would need one.
fn off_ring(program: &Program, profile: &Profile) -> Vec<String> {
    let Some(layout) = &program.layout else { return Vec::new() };
    let places = (0..).zip(&layout.mu_tables).filter(|(_, place)| place.memory == Memory::FlowState);
    let mut unfit = Vec::new();
    for (at, place) in places {
        let described = need::describe(Part::Object(crate::ir::Object::MuTable(at)), program);
        let Some(ring) = &profile.ring else {
            unfit.push(format!(
                "{described} is read in stage {} and written from stage {}, which takes a ring, and there is none",
                place.reads, place.writes
            ));
            continue;
        };
        let (bits, most) = (state_bits(program, at), u64::from(ring.payload_bits.number));
        if bits > most {
            unfit.push(format!(
                "a state of {described} takes {bits} bits on the ring, {} more than its payload",
                bits - most
            ));
        }
        let vector: u64 = vector::carried(program)
            .iter()
            .map(|field| u64::from(program.fields[*field as usize].width))
            .sum();
        if vector > most {
            unfit.push(format!(
                "a packet of {described} that is sent back takes {vector} bits on the ring, {} more than its payload",
                vector - most
            ));
        }
    }
    unfit
}

fn state_bits(program: &Program, mu_table: u32) -> u64 {
    let values = &program.mu_tables[mu_table as usize].values;
    STATE_HEAD_BITS + values.iter().map(|value| u64::from(value.width)).sum::<u64>()
}

/// The JSON of `paceline p4 resources --json`. Documented by `docs/p4-resources.schema.json`; fields are added, never renamed or removed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Plan {
    /// Version of Paceline.
    pub paceline: String,
    /// The program's file.
    pub program: String,
    /// The chip.
    pub profile: Profile,
    /// What each stage has in use, from stage 1.
    pub stages: Vec<Taken>,
    /// What is where.
    pub parts: Vec<PartPlace>,
    /// The header vector.
    pub vector: Vector,
    /// The ring, where the program uses it.
    pub ring: Option<OnRing>,
    /// What may be done in another order than that in which packets arrive.
    pub warnings: Vec<String>,
}

/// How much of each resource is in use.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Taken {
    /// Blocks of SRAM.
    pub sram_blocks: u64,
    /// Blocks of TCAM.
    pub tcam_blocks: u64,
    /// Hash units.
    pub hash_units: u64,
    /// Stateful ALUs.
    pub alus: u64,
    /// Tables.
    pub tables: u64,
    /// Bits of keys.
    pub key_bits: u64,
}

impl From<Amounts> for Taken {
    fn from(amounts: Amounts) -> Taken {
        let [sram_blocks, tcam_blocks, hash_units, alus, tables, key_bits] = amounts;
        Taken { sram_blocks, tcam_blocks, hash_units, alus, tables, key_bits }
    }
}

impl Taken {
    /// In the order of [`RESOURCES`].
    pub fn amounts(&self) -> Amounts {
        [self.sram_blocks, self.tcam_blocks, self.hash_units, self.alus, self.tables, self.key_bits]
    }
}

/// A table, a state or a hash.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PartPlace {
    /// `table`, `muTable`, `register`, `counter`, `meter` or `hash`.
    pub kind: String,
    /// Its name in the program.
    pub name: String,
    /// The last stage that writes it over the ring, if one does.
    pub written_from: Option<u16>,
    /// What it has in each of its stages.
    pub stages: Vec<PartStage>,
}

/// What a part has in a stage.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PartStage {
    /// The stage, from 1.
    pub stage: u16,
    /// Entries that are there, of a table with keys.
    pub entries: u64,
    /// What it takes.
    #[serde(flatten)]
    pub taken: Taken,
}

/// The header vector.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Vector {
    /// Bits of the fields that go through the stages.
    pub field_bits: u64,
    /// Bits of the containers that hold them.
    pub container_bits: u64,
    /// Bits of all containers.
    pub of_bits: u64,
    /// By size.
    pub containers: Vec<InUse>,
}

/// Containers of one size.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InUse {
    /// Bits of each.
    pub bits: u32,
    /// How many hold something.
    pub used: u64,
    /// How many there are.
    pub of: u64,
}

/// What goes over the ring.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OnRing {
    /// Bits of the payload.
    pub payload_bits: u64,
    /// Bits of the bus.
    pub bus_bits: u64,
    /// Bits of a header vector that is sent back: those of its fields.
    pub packet_bits: u64,
    /// Bits of the largest state, with the function's number and the state's index.
    pub state_bits: u64,
}

impl Plan {
    /// The report of a placed program.
    pub fn new(placed: &Placed, profile: &Profile, paceline: &str) -> Plan {
        let Placed { program, shares, vector } = placed;
        let layout = program.layout.clone().unwrap_or_default();
        let mut stages = vec![Amounts::default(); layout.stages.into()];
        for share in shares {
            if let Some(all) = stages.get_mut(usize::from(share.stage) - 1) {
                all.iter_mut().zip(share.taken).for_each(|(all, more)| *all += more);
            }
        }
        let mut sorted: Vec<&Share> = shares.iter().collect();
        sorted.sort_by_key(|share| (share.part, share.stage));
        let written_from = |part: Part| match part {
            Part::Object(crate::ir::Object::MuTable(at)) => {
                let place = layout.mu_tables[at as usize];
                (place.memory == Memory::FlowState).then_some(place.writes)
            }
            _ => None,
        };
        let parts = sorted.chunk_by(|a, b| a.part == b.part).filter_map(|shares| {
            let part = shares.first()?.part;
            let in_stage = |share: &&Share| PartStage {
                stage: share.stage,
                entries: share.entries,
                taken: share.taken.into(),
            };
            Some(PartPlace {
                kind: need::kind(part).to_owned(),
                name: need::name(part, program),
                written_from: written_from(part),
                stages: shares.iter().map(in_stage).collect(),
            })
        });
        let mut parts: Vec<PartPlace> = parts.collect();
        parts.sort_by_key(|part| part.stages.first().map(|stage| stage.stage));
        let width = |field: &u32| u64::from(program.fields[*field as usize].width);
        let field_bits = vector.iter().flat_map(|held| &held.fields).map(width).sum();
        let all = || vector.iter().flat_map(|held| &held.containers);
        let in_use = |kind: &super::profile::Containers| InUse {
            bits: kind.bits,
            used: all().filter(|bits| **bits == kind.bits).count() as u64,
            of: kind.count.number.into(),
        };
        let on_ring = (0..).zip(&layout.mu_tables).filter(|(_, place)| place.memory == Memory::FlowState);
        let most = on_ring.map(|(at, _)| state_bits(program, at)).max();
        let ring = profile.ring.as_ref().zip(most).map(|(ring, state_bits)| OnRing {
            payload_bits: ring.payload_bits.number.into(),
            bus_bits: ring.bus_bits.number.into(),
            packet_bits: field_bits,
            state_bits,
        });
        Plan {
            paceline: paceline.to_owned(),
            program: program.name.clone(),
            profile: profile.clone(),
            stages: stages.into_iter().map(Taken::from).collect(),
            parts,
            vector: Vector {
                field_bits,
                container_bits: all().map(|bits| u64::from(*bits)).sum(),
                of_bits: profile.vector_bits(),
                containers: profile.containers.iter().map(in_use).collect(),
            },
            ring,
            warnings: layout.warnings,
        }
    }

    /// All of each resource that is in use.
    pub fn total(&self) -> Amounts {
        let mut total = Amounts::default();
        for stage in &self.stages {
            total.iter_mut().zip(stage.amounts()).for_each(|(total, more)| *total += more);
        }
        total
    }

    /// The share of a resource that is in use, over all stages of the chip, as SCR's Table 3 counts it.
    pub fn share(&self, resource: Resource) -> f64 {
        let all = self.profile.limits()[resource as usize] * u64::from(self.profile.stages.number);
        let at = RESOURCES.iter().position(|other| *other == resource).unwrap_or_default();
        if all == 0 { 0.0 } else { self.total()[at] as f64 / all as f64 }
    }
}
