//! A judge of plans. It knows what a plan must be, and nothing of how one is made: sizes and orders are worked out here anew.

use std::collections::BTreeMap;

use crate::ir::{Algorithm, FieldId, MatchKind, Matching, Object, Operand, Statement, StatementKind, Unit};
use crate::passes::allocate::fit::Share;

use super::need::Part;
use super::plan::Placed;
use super::profile::{Profile, RESOURCES};

/// What is wrong with a plan; nothing if it is sound.
///
/// | it must hold | |
/// |---|---|
/// | sizes | in no stage is more in use than there is, by the sizes that the program declares |
/// | whole | each table has all its entries somewhere, each state is in one stage, that which its statements are in |
/// | order | a value is written before it is read, a key before the first stage of its table; what is written later stays later |
/// | containers | none is in two fields' use past its count, and each field that is handed from stage to stage has as many bits as it needs |
pub fn check(placed: &Placed, profile: &Profile) -> Vec<String> {
    let mut wrong = Vec::new();
    let Some(layout) = &placed.program.layout else { return vec!["there are no stages".to_owned()] };
    if u32::from(layout.stages) > profile.stages.number {
        wrong.push(format!("{} stages, of {}", layout.stages, profile.stages.number));
    }
    sizes(placed, profile, &mut wrong);
    let mut walk = Walk {
        placed,
        fields: vec![(0, 0); placed.program.fields.len()],
        states: BTreeMap::new(),
        applied: BTreeMap::new(),
        hashes: 0,
        wrong: &mut wrong,
    };
    walk.body(&placed.program.ingress, 0);
    walk.body(&placed.program.egress, 0);
    walk.finish();
    containers(placed, profile, &mut wrong);
    wrong
}

/// Blocks for so many rows of so many bits.
fn blocks(bits: u64, rows: u64, block: (u32, u32)) -> u64 {
    let wide = bits / u64::from(block.1) + u64::from(!bits.is_multiple_of(block.1.into()));
    let deep = rows / u64::from(block.0) + u64::from(!rows.is_multiple_of(block.0.into()));
    wide * deep
}

fn sizes(placed: &Placed, profile: &Profile, wrong: &mut Vec<String>) {
    let mut stages: BTreeMap<u16, [u64; 6]> = BTreeMap::new();
    let mut entries: BTreeMap<u32, u64> = BTreeMap::new();
    let mut seen: Vec<(Part, u16)> = Vec::new();
    for share in &placed.shares {
        if share.stage == 0 || u32::from(share.stage) > profile.stages.number {
            wrong.push(format!("{:?} is in stage {}", share.part, share.stage));
        }
        if seen.contains(&(share.part, share.stage)) {
            wrong.push(format!("{:?} is in stage {} twice", share.part, share.stage));
        }
        seen.push((share.part, share.stage));
        if let Part::Table(at) = share.part {
            *entries.entry(at).or_default() += share.entries;
        }
        let all = stages.entry(share.stage).or_default();
        all.iter_mut().zip(taken(share, placed, profile)).for_each(|(all, more)| *all += more);
    }
    for (stage, all) in stages {
        for (at, resource) in RESOURCES.into_iter().enumerate() {
            if all[at] > profile.limits()[at] {
                wrong.push(format!(
                    "stage {stage}: {} {}, of {}",
                    all[at],
                    resource.name(),
                    profile.limits()[at]
                ));
            }
        }
    }
    for (at, found) in entries {
        let table = &placed.program.tables[at as usize];
        let declared = table.entries.len() as u64;
        let needed = if table.is_const { declared } else { declared.max(table.size.into()) };
        if !table.keys.is_empty() && found < needed {
            wrong.push(format!("table {}: room for {found} entries, of {needed}", table.name));
        }
    }
}

/// What a share takes, by the program's declarations.
fn taken(share: &Share, placed: &Placed, profile: &Profile) -> [u64; 6] {
    let program = &placed.program;
    let (sram, tcam) = (&profile.stage.sram, &profile.stage.tcam);
    let (sram, tcam) = ((sram.rows.number, sram.bits.number), (tcam.rows.number, tcam.bits.number));
    let alu = u64::from(profile.stage.alu_bits.number);
    let words = |bits: u64| bits / alu + u64::from(!bits.is_multiple_of(alu));
    let field = |id: &FieldId| u64::from(program.fields[*id as usize].width);
    match share.part {
        Part::Hash(_) => [0, 0, 1, 0, 0, 0],
        Part::Table(at) => {
            let table = &program.tables[at as usize];
            let key: u64 = table.keys.iter().map(|key| u64::from(program.width(key.value))).sum();
            if table.keys.is_empty() {
                return [0, 0, 0, 0, 1, 0];
            }
            let parameters = table.actions.iter().map(|action| &program.actions[*action as usize].parameters);
            let data = parameters.map(|list| list.iter().map(field).sum::<u64>()).max().unwrap_or(0);
            let mut choice = 0;
            while 1 << choice < table.actions.len() {
                choice += 1;
            }
            match table.keys.iter().all(|key| key.kind == MatchKind::Exact) {
                true => [blocks(key + 4 + choice + data, share.entries, sram), 0, 1, 0, 1, key],
                false => {
                    let ranges = table.keys.iter().filter(|key| key.kind == MatchKind::Range);
                    let ranges: u64 = ranges.map(|key| u64::from(program.width(key.value))).sum();
                    let in_tcam = blocks(key + ranges + 4, share.entries, tcam);
                    [blocks(choice + data, share.entries, sram), in_tcam, 0, 0, 1, key]
                }
            }
        }
        Part::Object(object) => {
            let (mut key, mut keys) = (0, Vec::new());
            for body in program.bodies() {
                program.visit(body, &mut |kind| {
                    if Object::of(kind) == Some(object) {
                        let bits: u64 =
                            kind.state_keys().iter().map(|key| u64::from(program.width(*key))).sum();
                        key = key.max(bits);
                        keys.push(kind.state_keys().to_vec());
                    }
                });
            }
            let uses = crate::uses::Uses::of(program);
            let copies = if uses.objects.iter().any(|used| used.object == object && used.is_second_key()) {
                2
            } else {
                1
            };
            match object {
                Object::Register(at) => {
                    let register = &program.registers[at as usize];
                    let width = u64::from(register.width);
                    let memory = blocks(width, register.size.into(), sram) * copies;
                    [memory, 0, 0, words(width), copies, key * copies]
                }
                Object::Counter(at) => {
                    let counter = &program.counters[at as usize];
                    let counts = if counter.unit == Unit::PacketsAndBytes { 2 } else { 1 };
                    [blocks(64 * counts, counter.size.into(), sram), 0, 0, 0, 1, key]
                }
                Object::Meter(at) => {
                    [blocks(256, program.meters[at as usize].size.into(), sram), 0, 0, 1, 1, key]
                }
                Object::MuTable(at) => {
                    let table = &program.mu_tables[at as usize];
                    let keys: u64 = table.keys.iter().map(|key| u64::from(key.width)).sum();
                    let values: u64 = table.values.iter().map(|value| u64::from(value.width)).sum();
                    let rows = table.size.into();
                    let is_register =
                        !uses.objects.iter().any(|used| used.object == object && used.is_flow_state());
                    let alus = if is_register { words(values) } else { 0 };
                    let (in_sram, in_tcam, hashes) = match table.matching {
                        Matching::Exact => (blocks(keys + values + 4, rows, sram), 0, copies),
                        Matching::Direct => (blocks(values, rows, sram), 0, 0),
                        Matching::Ternary | Matching::Lpm => {
                            (blocks(values, rows, sram), blocks(keys + 4, rows, tcam), 0)
                        }
                    };
                    [in_sram * copies, in_tcam * copies, hashes, alus, copies, key * copies]
                }
            }
        }
    }
}

/// A walk in the order of the program. Times are halves of stages.
struct Walk<'a> {
    placed: &'a Placed,
    /// When each field was written last, and read last.
    fields: Vec<(u16, u16)>,
    /// The stages of the statements that use an object.
    states: BTreeMap<Object, Vec<(u16, bool)>>,
    /// The stages in which tables are applied.
    applied: BTreeMap<u32, Vec<u16>>,
    /// Hashes that take a unit.
    hashes: usize,
    wrong: &'a mut Vec<String>,
}

impl Walk<'_> {
    /// Walks statements that stand under conditions known at this half.
    fn body(&mut self, body: &[Statement], known: u16) {
        let mut known = known;
        for statement in body {
            known = known.max(self.statement(statement, known));
        }
    }

    /// Walks a statement; gives when it is known whether what follows is done.
    fn statement(&mut self, statement: &Statement, known: u16) -> u16 {
        let program = &self.placed.program;
        let (half, kind) = (statement.half(), &statement.kind);
        match kind {
            StatementKind::If { condition, then, otherwise } => {
                let known = match condition {
                    Operand::Field(field) => known.max(self.fields[*field as usize].0),
                    Operand::Constant(_) => known,
                };
                let before = self.fields.clone();
                self.body(then, known);
                let after = std::mem::replace(&mut self.fields, before);
                self.body(otherwise, known);
                self.merge(&after);
                return if ends(then) || ends(otherwise) { known } else { 0 };
            }
            StatementKind::Scope { body } => {
                self.body(body, known);
                return 0;
            }
            StatementKind::Leave | StatementKind::Exit => return known,
            _ => {}
        }
        let looks_up = matches!(
            kind,
            StatementKind::Apply { .. }
                | StatementKind::MuRead { .. }
                | StatementKind::RegisterRead { .. }
                | StatementKind::Count { .. }
                | StatementKind::ExecuteMeter { .. }
        );
        let mut by = half;
        if looks_up {
            // Behind what is computed before the look-ups of its first stage.
            by = half - 1;
            if let StatementKind::Apply { table, .. } = kind {
                let shares = self.placed.shares.iter().filter(|share| share.part == Part::Table(*table));
                let first = shares.map(|share| share.stage).min().unwrap_or(statement.stage);
                by = by.min(2 * first);
                self.applied.entry(*table).or_default().push(statement.stage);
            }
        }
        if known > by {
            self.wrong.push(format!("{} is done at {by}, its condition is known at {known}", told(kind)));
        }
        let mut reads = Vec::new();
        kind.reads(program, &mut |field| reads.push(field));
        for field in reads {
            let (written, read) = &mut self.fields[field as usize];
            if *written > by {
                let name = &program.fields[field as usize].name;
                self.wrong.push(format!("{} has {name} at {by}, which is written at {written}", told(kind)));
            }
            *read = half.max(*read);
        }
        let mut writes = Vec::new();
        kind.writes(program, &mut |field| writes.push(field));
        for field in writes {
            let (written, read) = &mut self.fields[field as usize];
            if half < *written || half < *read {
                let name = &program.fields[field as usize].name;
                let before = (*written).max(*read);
                self.wrong.push(format!(
                    "{} writes {name} at {half}, and it is used at {before} before that",
                    told(kind)
                ));
            }
            *written = half;
        }
        if let Some(object) = Object::of(kind) {
            self.states.entry(object).or_default().push((statement.stage, kind.writes_state()));
        }
        match kind {
            StatementKind::Hash { algorithm, .. } | StatementKind::Checksum { algorithm, .. } => {
                self.hashes += usize::from(*algorithm != Algorithm::Identity);
            }
            StatementKind::Apply { table, .. } => {
                let mut after: Option<Vec<(u16, u16)>> = None;
                for action in &program.tables[*table as usize].actions {
                    let action = &program.actions[*action as usize];
                    let before = self.fields.clone();
                    action.parameters.iter().for_each(|field| self.fields[*field as usize] = (half, 0));
                    self.body(&action.body, half);
                    let done = std::mem::replace(&mut self.fields, before);
                    if let Some(other) = after.take() {
                        let before = std::mem::replace(&mut self.fields, done);
                        self.merge(&other);
                        after = Some(std::mem::replace(&mut self.fields, before));
                    } else {
                        after = Some(done);
                    }
                }
                if let Some(after) = after {
                    self.merge(&after);
                }
            }
            _ => {}
        }
        0
    }

    fn merge(&mut self, other: &[(u16, u16)]) {
        for ((written, read), (also_written, also_read)) in self.fields.iter_mut().zip(other) {
            *written = (*written).max(*also_written);
            *read = (*read).max(*also_read);
        }
    }

    fn finish(self) {
        let program = &self.placed.program;
        let stages_of = |part: Part| {
            let shares = self.placed.shares.iter().filter(move |share| share.part == part);
            shares.map(|share| share.stage).collect::<Vec<_>>()
        };
        for (object, uses) in &self.states {
            let reads = uses.iter().filter(|(_, writes)| !writes).map(|(stage, _)| *stage);
            let first = reads.clone().min().or_else(|| uses.iter().map(|(stage, _)| *stage).min());
            let described = object.describe(program);
            if stages_of(Part::Object(*object)) != Vec::from_iter(first) {
                self.wrong.push(format!("{described} is looked up in {first:?}, and is elsewhere"));
            }
            if reads.clone().any(|stage| Some(stage) != first) {
                self.wrong.push(format!("{described} is looked up in two stages"));
            }
            let is_early = |(stage, writes): &(u16, bool)| *writes && Some(*stage) < first;
            if uses.iter().any(is_early) {
                self.wrong.push(format!("{described} is written before it is read"));
            }
        }
        for (table, stages) in &self.applied {
            let last = stages_of(Part::Table(*table)).into_iter().max().unwrap_or_default();
            if stages.iter().any(|stage| *stage != stages[0] || *stage < last) {
                let name = &program.tables[*table as usize].name;
                self.wrong.push(format!("table {name} is applied in stages {stages:?}, and is in {last}"));
            }
        }
        let hashes = self.placed.shares.iter().filter(|share| matches!(share.part, Part::Hash(_))).count();
        if hashes < self.hashes {
            self.wrong.push(format!("{hashes} hashes have a unit, of {}", self.hashes));
        }
    }
}

/// Whether statements may end what they stand in.
fn ends(body: &[Statement]) -> bool {
    body.iter().any(|statement| match &statement.kind {
        StatementKind::Leave | StatementKind::Exit => true,
        StatementKind::If { then, otherwise, .. } => ends(then) || ends(otherwise),
        StatementKind::Scope { body } => ends(body),
        _ => false,
    })
}

fn told(kind: &StatementKind) -> String {
    let text = format!("{kind:?}");
    text.chars().take(60).collect()
}

fn containers(placed: &Placed, profile: &Profile, wrong: &mut Vec<String>) {
    let mut used: BTreeMap<u32, u64> = BTreeMap::new();
    for held in &placed.vector {
        held.containers.iter().for_each(|bits| *used.entry(*bits).or_default() += 1);
        let needed: u32 = held.fields.iter().map(|field| placed.program.fields[*field as usize].width).sum();
        if held.containers.iter().sum::<u32>() < needed {
            wrong.push(format!("{needed} bits are in containers of {:?}", held.containers));
        }
    }
    for (bits, used) in used {
        let kind = profile.containers.iter().find(|kind| kind.bits == bits);
        let of = kind.map_or(0, |kind| kind.count.number);
        if used > of.into() {
            wrong.push(format!("{used} containers of {bits} bits are in use, of {of}"));
        }
    }
    for header in &placed.program.headers {
        let is_held = |field: &&FieldId| !placed.vector.iter().any(|held| held.fields.contains(field));
        let mut is_emitted = false;
        placed.program.visit(&placed.program.deparser, &mut |kind| {
            if let StatementKind::Emit { header: at } = kind {
                is_emitted |= placed.program.headers[*at as usize] == *header;
            }
        });
        let mut is_extracted = false;
        for state in &placed.program.parser {
            placed.program.visit(&state.body, &mut |kind| {
                if let StatementKind::Extract { header: at } = kind {
                    is_extracted |= placed.program.headers[*at as usize] == *header;
                }
            });
        }
        if is_emitted
            && is_extracted
            && let Some(field) = header.fields.iter().find(is_held)
        {
            let name = &placed.program.fields[*field as usize].name;
            wrong.push(format!("{name} leaves with the packet, and has no container"));
        }
    }
}
