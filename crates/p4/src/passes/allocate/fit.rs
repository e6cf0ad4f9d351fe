//! Stage allocation for a chip with limits: what is too much for a stage goes to a later one, and tables are split.
//!
//! It begins with the stages that [`allocate`](super) gives. In the first stage that has too little of something, each part that takes of
//! it is tried a stage later, and the one that makes the fewest stages more stays there. A table is spread over one stage more instead:
//! its entries fill what the stages before leave, its key has to be there before the first of them, and its result comes from the last.
//! So every plan keeps all dependencies, and no table is moved past room that it could use.
//!
//! This is a heuristic: what it refuses may fit in another order.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::{Object, Program, StatementKind, visit_numbered};
use crate::resources::need::{Need, Part, needs};
use crate::resources::profile::{Amounts, Profile, RESOURCES, Resource};
use crate::uses::Uses;

use super::late::moved;
use super::order::Order;
use super::stages::Stages;

/// Parts that are tried a stage later, where one is too much.
const MAX_TRIED: usize = 8;

/// Parts that are moved, at most.
const MAX_MOVES: usize = 4096;

/// A part, or some of its entries, in a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which part.
    pub part: Part,
    /// The stage, from 1.
    pub stage: u16,
    /// How many of its entries, where it may be split; else 0.
    pub entries: u64,
    /// What it takes there.
    pub taken: Amounts,
}

/// What does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// A part that no stage has room for, or a table that all stages together have no room for.
    Large {
        /// Which.
        part: Part,
        /// The resource that there is too little of.
        resource: Resource,
        /// What it takes.
        taken: u64,
        /// What there is in a stage, or in all of them.
        most: u64,
        /// Whether that is of all stages.
        is_of_all: bool,
    },
    /// A part that finds no room in a stage, and can be in no later one.
    Full {
        /// Which.
        part: Part,
        /// The resource that there is too little of.
        resource: Resource,
        /// What it takes there; of a table that is split, what its last entries take.
        taken: u64,
        /// What the others leave.
        free: u64,
        /// The stage.
        stage: u16,
        /// How many of its entries that is, of a table that may be split; else 0.
        entries: u64,
    },
    /// Dependencies that take more stages than there are, whatever their size.
    Stages {
        /// Stages of the program.
        stages: u32,
        /// What is in the last one.
        last: Vec<Part>,
    },
    /// There are no stages for the orders in which these are used.
    Unsettled(Vec<String>),
}

/// A defect to be planted: one that a judge of plans must notice.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None.
    Sound,
    /// A limit is not looked at.
    Ignores(Resource),
    /// A table that is split begins a stage before its key is there.
    BeginsEarly,
    /// Some of a table's entries are nowhere.
    LosesEntries,
}

/// Runs the pass.
///
/// # Errors
/// What does not fit. The program then has the stages that it would have without limits.
pub fn run(program: &mut Program, profile: &Profile) -> Result<Vec<Share>, Misfit> {
    run_with(program, profile, Fault::Sound)
}

/// Runs the pass with a defect.
///
/// # Errors
/// As [`run`].
#[doc(hidden)]
pub fn run_with(program: &mut Program, profile: &Profile, fault: Fault) -> Result<Vec<Share>, Misfit> {
    super::own_actions(program);
    super::own_conditions(program);
    let (stages, order) = super::found(program, true);
    super::write(program, &stages, order.is_some());
    let Some(order) = order else {
        let unsettled = program.layout.as_ref().map(|layout| layout.unsettled.clone());
        return Err(Misfit::Unsettled(unsettled.unwrap_or_default()));
    };
    let second = Uses::of(program).objects.into_iter().filter(|used| used.is_second_key());
    let twice = second.map(|used| used.object).collect();
    let mut writes: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    visit_numbered(program.bodies(), &mut |number, statement| {
        if let StatementKind::MuWrite { table, .. } = &statement.kind {
            writes.entry(*table).or_default().push(number as usize);
        }
    });
    let placer = Placer { program, profile, twice, writes, fault };
    let (stages, shares) = placer.place(stages, order)?;
    super::write(program, &stages, true);
    Ok(shares)
}

struct Placer<'a> {
    program: &'a Program,
    profile: &'a Profile,
    twice: BTreeSet<Object>,
    /// The statements that write each muTable, by their number.
    writes: BTreeMap<u32, Vec<usize>>,
    fault: Fault,
}

/// Too much in a stage.
struct Over {
    misfit: Misfit,
    stage: u32,
    /// Parts that may be moved, the best first.
    parts: Vec<Part>,
}

impl Placer<'_> {
    fn place(&self, stages: Stages, order: Order) -> Result<(Stages, Vec<Share>), Misfit> {
        self.check_sizes(&stages)?;
        let most = self.profile.stages.number;
        if stages.all > most {
            let is_last = |need: &Need| self.stage(need.part, &stages) == stages.all;
            let last = self.needs(&stages).into_iter().filter(is_last).map(|need| need.part).collect();
            return Err(Misfit::Stages { stages: stages.all, last });
        }
        let (mut stages, mut order) = (stages, order);
        for _ in 0..MAX_MOVES {
            let over = match self.filled(&stages, &order) {
                Ok(shares) => return Ok((stages, shares)),
                Err(over) => over,
            };
            let tried = over.parts.iter().take(MAX_TRIED);
            let tried = tried.filter_map(|part| self.later(*part, over.stage, &stages, &order));
            match tried.min_by_key(|(stages, _)| stages.all) {
                Some(better) => (stages, order) = better,
                None => return Err(over.misfit),
            }
        }
        match self.filled(&stages, &order) {
            Ok(shares) => Ok((stages, shares)),
            Err(over) => Err(over.misfit),
        }
    }

    /// What each part takes with the program in these stages.
    fn needs(&self, stages: &Stages) -> Vec<Need> {
        let is_on_ring = |table: &u32| {
            let held = self.stage(Part::Object(Object::MuTable(*table)), stages);
            held > 0 && held < stages.mu_writes[*table as usize]
        };
        let over_the_ring = (0..stages.mu_reads.len() as u32).filter(is_on_ring).collect();
        let mut needs = needs(self.program, self.profile, &self.twice, &over_the_ring);
        // What no table applies has no stage.
        needs.retain(|need| self.stage(need.part, stages) > 0);
        needs
    }

    /// The stage of a part; of a table its last one.
    fn stage(&self, part: Part, stages: &Stages) -> u32 {
        let first = |reads: u32, writes: u32| if reads > 0 { reads } else { writes };
        match part {
            Part::Table(at) => stages.tables[at as usize],
            Part::Hash(at) => stages.statements[at as usize] / 2,
            // One that is not read is where it is written first.
            Part::Object(Object::MuTable(at)) => {
                let writes = self.writes.get(&at).into_iter().flatten();
                let writes = writes.map(|number| stages.statements[*number] / 2).filter(|stage| *stage > 0);
                first(stages.mu_reads[at as usize], writes.min().unwrap_or_default())
            }
            Part::Object(Object::Register(at)) => {
                first(stages.register_reads[at as usize], stages.register_writes[at as usize])
            }
            Part::Object(Object::Counter(at)) => stages.counters[at as usize],
            Part::Object(Object::Meter(at)) => stages.meters[at as usize],
        }
    }

    fn limits(&self) -> Amounts {
        let mut limits = self.profile.limits();
        if let Fault::Ignores(resource) = self.fault {
            limits[resource as usize] = u64::from(u32::MAX);
        }
        limits
    }

    /// No part is larger than a stage, and no table than all of them.
    fn check_sizes(&self, stages: &Stages) -> Result<(), Misfit> {
        let limits = self.limits();
        let all = u64::from(self.profile.stages.number);
        for need in self.needs(stages) {
            // A row of blocks of a table is in one stage.
            let (one, whole) = (need.with(u64::from(need.entries.is_some())), need.whole());
            for (at, resource) in RESOURCES.into_iter().enumerate() {
                let (part, most) = (need.part, limits[at]);
                if one[at] > most {
                    return Err(Misfit::Large { part, resource, taken: one[at], most, is_of_all: false });
                }
                if whole[at] > most * all {
                    let (taken, most) = (whole[at], most * all);
                    return Err(Misfit::Large { part, resource, taken, most, is_of_all: true });
                }
            }
        }
        Ok(())
    }

    /// What is where, if there is room for it.
    fn filled(&self, stages: &Stages, order: &Order) -> Result<Vec<Share>, Over> {
        let limits = self.limits();
        let mut used = vec![Amounts::default(); stages.all as usize + 1];
        let mut shares = Vec::new();
        let mut take = |used: &mut Vec<Amounts>, part: Part, stage: u32, entries: u64, taken: Amounts| {
            let all = &mut used[stage as usize];
            all.iter_mut().zip(taken).for_each(|(all, more)| *all += more);
            shares.push(Share { part, stage: super::narrow(stage), entries, taken });
        };
        let needs = self.needs(stages);
        let (tables, others): (Vec<&Need>, Vec<&Need>) =
            needs.iter().partition(|need| need.entries.is_some());
        for need in &others {
            take(&mut used, need.part, self.stage(need.part, stages), 0, need.fixed);
        }
        let in_stage = |stage: u32, at: usize| {
            let parts = others.iter().rev().filter(move |need| need.fixed[at] > 0);
            parts.filter(move |need| self.stage(need.part, stages) == stage)
        };
        for stage in 1..=stages.all {
            for (at, resource) in RESOURCES.into_iter().enumerate() {
                let all = used[stage as usize][at];
                if all > limits[at]
                    && let Some(need) = in_stage(stage, at).next()
                {
                    let parts: Vec<Part> = in_stage(stage, at).map(|need| need.part).collect();
                    let (part, taken) = (need.part, need.fixed[at]);
                    let free = (limits[at] + taken).saturating_sub(all);
                    let misfit =
                        Misfit::Full { part, resource, taken, free, stage: super::narrow(stage), entries: 0 };
                    return Err(Over { misfit, stage, parts });
                }
            }
        }
        let mut tables = tables;
        tables.sort_by_key(|need| self.stage(need.part, stages));
        for need in &tables {
            let (Part::Table(table), Some(entries)) = (need.part, need.entries) else { continue };
            let last = self.stage(need.part, stages);
            let early = u32::from(self.fault == Fault::BeginsEarly && order.spread(table) > 0);
            let first = last.saturating_sub(order.spread(table) + early).max(1);
            let mut left = entries.number;
            let free = |used: &[Amounts], stage: u32| -> Amounts {
                std::array::from_fn(|at| limits[at].saturating_sub(used[stage as usize][at]))
            };
            for stage in first..=last {
                let free = free(&used, stage);
                let has_room = need.fixed.iter().zip(free).all(|(taken, free)| *taken <= free);
                let room = entries.room(free[Resource::Sram as usize], free[Resource::Tcam as usize]);
                let number = if has_room { room.min(left) } else { 0 };
                if number > 0 {
                    let lost = u64::from(self.fault == Fault::LosesEntries && number > 1);
                    take(&mut used, need.part, stage, number - lost, need.with(number - lost));
                    left -= number;
                }
            }
            if left > 0 {
                let (free, taken) = (free(&used, last), need.with(left));
                let lacks = |at: &usize| taken[*at] > free[*at];
                let at = (0..RESOURCES.len()).find(lacks).unwrap_or_default();
                let others = in_stage(last, at).map(|need| need.part);
                let is_beside = |other: &&&Need| {
                    let Part::Table(beside) = other.part else { return false };
                    let stage = self.stage(other.part, stages);
                    beside != table && (stage.saturating_sub(order.spread(beside))..=stage).contains(&last)
                };
                let beside = tables.iter().filter(is_beside).map(|need| need.part);
                let parts = std::iter::once(need.part).chain(beside).chain(others).collect();
                let (taken, free, stage) = (taken[at], free[at], super::narrow(last));
                let (part, resource, entries) = (need.part, RESOURCES[at], left);
                let misfit = Misfit::Full { part, resource, taken, free, stage, entries };
                return Err(Over { misfit, stage: last, parts });
            }
        }
        Ok(shares)
    }

    /// The program with a part a stage later, if there are stages for that.
    fn later(&self, part: Part, stage: u32, stages: &Stages, order: &Order) -> Option<(Stages, Order)> {
        let most = self.profile.stages.number;
        let (order, mut from) = match part {
            Part::Table(table) => (order.spread_further(table), stages.clone()),
            Part::Object(object) => (order.not_before(object, stage + 1), stages.clone()),
            Part::Hash(_) => (order.clone(), stages.clone()),
        };
        if let Part::Hash(at) = part {
            from.statements[at as usize] = 2 * (stage + 1);
        }
        moved(self.program, &from, &order, most).map(|stages| (stages, order))
    }
}
