//! Which fields a packet takes along through the stages, and the containers that hold them.
//!
//! A field has a container if it is read in a later stage than it is first written in: fields of headers from the parser to the deparser,
//! metadata and temporaries where a stage hands them on. It has its containers to itself, for all stages. Fields of one bit share them.

use crate::ir::{FieldId, FieldKind, Operand, Program, Statement, StatementKind};

use super::profile::Containers;

/// From when to when a field is needed, in halves of stages.
#[derive(Clone, Copy, Debug)]
struct Life {
    written: Option<u16>,
    read: Option<u16>,
}

/// Behind all stages.
const END: u16 = u16::MAX;

/// A field, or all that have one bit, in containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which.
    pub fields: Vec<FieldId>,
    /// Bits of each container that it takes.
    pub containers: Vec<u32>,
}

/// What finds no container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crowded {
    /// The first such field.
    pub field: FieldId,
    /// Bits of all fields.
    pub bits: u64,
    /// Bits that are too many.
    pub over: u64,
}

/// Fields that need a container in a compiled program.
pub fn carried(program: &Program) -> Vec<FieldId> {
    let mut lives = vec![Life { written: None, read: None }; program.fields.len()];
    let arrives = program.parser.iter().map(|state| &state.body).chain([&program.verify_checksum]);
    for body in arrives {
        program.visit(body, &mut |kind| kind.writes(program, &mut |field| lives[field as usize].write(0)));
    }
    for (id, field) in program.fields.iter().enumerate() {
        if field.kind == FieldKind::Standard {
            lives[id].write(0);
        }
    }
    for body in [&program.ingress, &program.egress] {
        walk(program, body, &mut lives);
    }
    // A renamed field goes on as its copy, and comes back at the end.
    for renamed in program.layout.iter().flat_map(|layout| &layout.renamed) {
        lives[renamed.field as usize].read(renamed.half());
        lives[renamed.to as usize].write(renamed.half());
        lives[renamed.to as usize].read(END);
    }
    for body in [&program.compute_checksum, &program.deparser] {
        program.visit(body, &mut |kind| kind.reads(program, &mut |field| lives[field as usize].read(END)));
    }
    // What says where a packet goes is needed at the end, where the program says it.
    let standard = &program.standard;
    let mut decides = vec![false; program.fields.len()];
    for body in program.bodies() {
        program.visit(body, &mut |kind| kind.writes(program, &mut |field| decides[field as usize] = true));
    }
    for field in [standard.egress_spec, standard.mcast_grp] {
        if decides.get(field as usize) == Some(&true) {
            lives[field as usize].read(END);
        }
    }
    let is_carried = |life: &Life| match (life.written, life.read) {
        (Some(written), Some(read)) => read / 2 > written / 2,
        _ => false,
    };
    (0..).zip(&lives).filter(|(_, life)| is_carried(life)).map(|(id, _)| id).collect()
}

impl Life {
    fn write(&mut self, half: u16) {
        self.written = Some(self.written.map_or(half, |written| written.min(half)));
    }

    fn read(&mut self, half: u16) {
        self.read = Some(self.read.map_or(half, |read| read.max(half)));
    }
}

/// Notes what statements read and write; gives the last half of them, in which conditions around them are read.
fn walk(program: &Program, body: &[Statement], lives: &mut [Life]) -> u16 {
    let mut last = 0;
    for statement in body {
        let mut half = statement.half();
        match &statement.kind {
            StatementKind::If { condition, then, otherwise } => {
                half = walk(program, then, lives).max(walk(program, otherwise, lives));
                if let Operand::Field(field) = condition {
                    lives[*field as usize].read(half);
                }
            }
            StatementKind::Scope { body } => half = walk(program, body, lives),
            kind => {
                kind.reads(program, &mut |field| lives[field as usize].read(half));
                kind.writes(program, &mut |field| lives[field as usize].write(half));
                if let StatementKind::Apply { table, .. } = kind {
                    for action in &program.tables[*table as usize].actions {
                        let action = &program.actions[*action as usize];
                        action.parameters.iter().for_each(|field| lives[*field as usize].write(half));
                        walk(program, &action.body, lives);
                    }
                }
            }
        }
        last = last.max(half);
    }
    last
}

/// Gives the fields containers: the widest first, each the smallest that is free and holds the rest of it, else the largest free ones.
///
/// # Errors
/// What finds none.
pub fn held(program: &Program, fields: &[FieldId], containers: &[Containers]) -> Result<Vec<Held>, Crowded> {
    let width = |field: &FieldId| program.fields[*field as usize].width;
    let (single, mut wide): (Vec<FieldId>, Vec<FieldId>) = fields.iter().partition(|field| width(field) == 1);
    wide.sort_by_key(|field| (std::cmp::Reverse(width(field)), *field));
    let groups = wide.into_iter().map(|field| vec![field]).chain((!single.is_empty()).then_some(single));
    let mut free: Vec<(u32, u64)> =
        containers.iter().map(|kind| (kind.bits, kind.count.number.into())).collect();
    free.sort_unstable();
    let (mut found, mut crowded) = (Vec::new(), None::<(FieldId, u64)>);
    for fields in groups {
        let mut left: u32 = fields.iter().map(width).sum();
        let mut taken = Vec::new();
        while left > 0 {
            let fits = free.iter().position(|(bits, count)| *bits >= left && *count > 0);
            let Some(at) = fits.or_else(|| free.iter().rposition(|(_, count)| *count > 0)) else {
                crowded.get_or_insert((fields[0], 0)).1 += u64::from(left);
                break;
            };
            free[at].1 -= 1;
            taken.push(free[at].0);
            left = left.saturating_sub(free[at].0);
        }
        found.push(Held { fields, containers: taken });
    }
    match crowded {
        None => Ok(found),
        Some((field, over)) => {
            let bits = found.iter().flat_map(|held| &held.fields).map(|field| u64::from(width(field))).sum();
            Err(Crowded { field, bits, over })
        }
    }
}
