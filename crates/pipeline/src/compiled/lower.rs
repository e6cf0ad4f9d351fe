//! From statements in stages to operations, stage by stage.
//!
//! A packet comes to a stage with its keys. So what a stage does before its look-ups is done at the end of the stage
//! before it, or by the parser; and then the packet asks for what the stage holds:
//!
//! ```text
//! stage s:  copies of fields | look-ups of s, what is behind them | before the look-ups of s + 1 | keys of s + 1
//! ```

use std::collections::HashMap;

use p4::ir::{self, FieldId, Operand, Program, Statement, StatementKind};
use p4::uses::{Object, Use};

use super::code::{Compute, Lists, Op, Place, Range, Source};
use super::limits::words_of;

/// Where things are in a header vector.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Places of the fields that the stages use; `None` for the others.
    pub fields: Vec<Option<Place>>,
    /// Word of the action that was chosen, for each table.
    pub chosen: Vec<u16>,
    /// Words that are taken.
    pub words: usize,
}

impl Places {
    /// A place for each field that the ingress, its tables and its copies use, from this word on.
    pub fn new(program: &Program, first_word: usize) -> Places {
        let mut is_used = vec![false; program.fields.len()];
        let mut uses = |field: FieldId| is_used[field as usize] = true;
        program.visit(&program.ingress, &mut |kind| {
            kind.reads(program, &mut uses);
            kind.writes(program, &mut uses);
        });
        for renamed in copies(program) {
            uses(renamed.field);
            uses(renamed.to);
        }
        uses(program.standard.packet_length);
        let mut places = Places { words: first_word, ..Places::default() };
        for (field, is_used) in program.fields.iter().zip(is_used) {
            let place = is_used.then(|| places.take(field.width));
            places.fields.push(place);
        }
        places.chosen = program.tables.iter().map(|_| places.take(64).word).collect();
        places
    }

    fn take(&mut self, width: u32) -> Place {
        // A program that takes more words than a number of 16 bits counts is refused by its size.
        let place = Place { word: self.words as u16, width: width as u16 };
        self.words += words_of(place.width);
        place
    }
}

/// Copies of fields that the ingress makes.
pub fn copies(program: &Program) -> impl Iterator<Item = &ir::Renamed> {
    program.layout.iter().flat_map(|layout| &layout.renamed).filter(|renamed| !renamed.in_egress)
}

/// Lowers the ingress.
pub struct Lowering<'a> {
    pub program: &'a Program,
    pub places: &'a Places,
    pub uses: &'a [Use],
    pub lists: Lists,
    ops: Vec<Op>,
    wide: HashMap<u128, u32>,
    /// Jumps to behind the innermost scope, and to the end of the part.
    leaves: Vec<usize>,
    exits: Vec<usize>,
}

/// Which statements are done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Those of a half of a stage.
    Half(u16),
    /// Those that look objects up in a stage ask for them.
    Asking(u16),
}

impl<'a> Lowering<'a> {
    pub fn new(program: &'a Program, places: &'a Places, uses: &'a [Use]) -> Lowering<'a> {
        Lowering {
            program,
            places,
            uses,
            lists: Lists::default(),
            ops: Vec::new(),
            wide: HashMap::new(),
            leaves: Vec::new(),
            exits: Vec::new(),
        }
    }

    /// What is done before the first stage.
    pub fn arrival(&mut self) -> Vec<Op> {
        self.before(1);
        std::mem::take(&mut self.ops)
    }

    /// What a stage does, from 1.
    pub fn stage(&mut self, stage: u16) -> Vec<Op> {
        for renamed in copies(self.program).filter(|renamed| renamed.stage == stage) {
            let compute = Compute::Copy(self.source(Operand::Field(renamed.field)));
            let to = self.place(renamed.to);
            self.ops.push(Op::Compute { to, compute });
        }
        let objects = self.looked_up_in(stage);
        if objects != 0 {
            self.ops.push(Op::ForgetWritten { objects });
        }
        self.part(Part::Half(2 * stage + 1));
        self.before(stage + 1);
        std::mem::take(&mut self.ops)
    }

    fn before(&mut self, stage: u16) {
        self.part(Part::Half(2 * stage));
        let objects = self.looked_up_in(stage);
        if objects != 0 {
            self.ops.push(Op::ForgetAsked { objects });
        }
        self.part(Part::Asking(stage));
    }

    fn looked_up_in(&self, stage: u16) -> u64 {
        let objects = self.uses.iter().enumerate().filter(|(_, used)| used.reads == stage);
        objects.fold(0, |objects, (at, _)| objects | 1 << at)
    }

    fn part(&mut self, part: Part) {
        let start = self.ops.len();
        let program = self.program;
        let does_anything = self.body(&program.ingress, part);
        if !does_anything {
            self.ops.truncate(start);
            self.exits.clear();
        }
        let end = self.ops.len();
        for exit in std::mem::take(&mut self.exits) {
            self.aim(exit, end);
        }
        self.leaves.clear();
    }

    /// Lowers what is due; whether that does anything but jump.
    fn body(&mut self, body: &[Statement], part: Part) -> bool {
        let mut does_anything = false;
        for statement in body {
            match &statement.kind {
                StatementKind::If { condition, then, otherwise } => {
                    does_anything |= self.branch(*condition, then, otherwise, part);
                }
                StatementKind::Scope { body } => {
                    let outer = std::mem::take(&mut self.leaves);
                    does_anything |= self.body(body, part);
                    self.end_scope(outer);
                }
                StatementKind::Leave => {
                    self.leaves.push(self.ops.len());
                    self.ops.push(Op::Jump { target: 0 });
                }
                StatementKind::Exit => {
                    self.exits.push(self.ops.len());
                    self.ops.push(Op::Jump { target: 0 });
                }
                StatementKind::Apply { table, hit, action_run } => {
                    if part == Part::Half(statement.half()) {
                        self.look_up(*table, [*hit, *action_run]);
                        does_anything = true;
                    }
                    does_anything |= self.act(*table, part);
                }
                kind => {
                    let before = self.ops.len();
                    match part {
                        Part::Half(half) if half == statement.half() => self.simple(kind),
                        Part::Asking(stage) if stage == statement.stage && !kind.writes_state() => {
                            self.ask(kind, Some(stage));
                        }
                        _ => {}
                    }
                    does_anything |= self.ops.len() > before;
                }
            }
        }
        does_anything
    }

    fn branch(
        &mut self,
        condition: Operand,
        then: &[Statement],
        otherwise: &[Statement],
        part: Part,
    ) -> bool {
        let start = self.ops.len();
        let condition = self.source(condition);
        self.ops.push(Op::UnlessSet { condition, target: 0 });
        let mut does_anything = self.body(then, part);
        let skip = self.ops.len();
        self.ops.push(Op::Jump { target: 0 });
        self.aim(start, skip + 1);
        does_anything |= self.body(otherwise, part);
        match self.ops.len() {
            // Nothing where it is 1, nothing where it is 0.
            end if end == start + 2 => self.ops.truncate(start),
            end if end == skip + 1 => {
                self.ops.pop();
                self.aim(start, skip);
                // Jumps past what is gone lead to where it was.
            }
            end => self.aim(skip, end),
        }
        does_anything
    }

    fn end_scope(&mut self, outer: Vec<usize>) {
        let end = self.ops.len();
        for leave in std::mem::replace(&mut self.leaves, outer) {
            self.aim(leave, end);
        }
    }

    fn aim(&mut self, at: usize, to: usize) {
        match &mut self.ops[at] {
            Op::Jump { target } | Op::UnlessSet { target, .. } | Op::UnlessChosen { target, .. } => {
                *target = to as u32;
            }
            _ => {}
        }
    }

    fn act(&mut self, table: u32, part: Part) -> bool {
        let program = self.program;
        let mut does_anything = false;
        let mut done = Vec::new();
        for action in &program.tables[table as usize].actions {
            let start = self.ops.len();
            let word = self.places.chosen[table as usize];
            self.ops.push(Op::UnlessChosen { word, action: *action, target: 0 });
            let outer = std::mem::take(&mut self.leaves);
            does_anything |= self.body(&program.actions[*action as usize].body, part);
            self.end_scope(outer);
            if self.ops.len() == start + 1 {
                self.ops.pop();
                continue;
            }
            done.push(self.ops.len());
            self.ops.push(Op::Jump { target: 0 });
            self.aim(start, self.ops.len());
        }
        let end = self.ops.len();
        done.into_iter().for_each(|jump| self.aim(jump, end));
        does_anything
    }

    fn look_up(&mut self, table: u32, [hit, action_run]: [Option<FieldId>; 2]) {
        let declared = &self.program.tables[table as usize];
        let keys: Vec<Operand> = declared.keys.iter().map(|key| key.value).collect();
        let keys = self.sources(&keys);
        let chosen = self.places.chosen[table as usize];
        let (hit, action_run) = (hit.map(|id| self.place(id)), action_run.map(|id| self.place(id)));
        self.ops.push(Op::LookUp { table, keys, chosen, hit, action_run });
    }

    /// Asks for what a look-up will use. Copies that the stage makes are not there yet: what they are made of is.
    fn ask(&mut self, kind: &StatementKind, stage: Option<u16>) {
        let Some(object) = self.object(kind) else { return };
        let keys: Vec<Operand> = kind.state_keys().iter().map(|key| self.uncopied(*key, stage)).collect();
        let keys = self.sources(&keys);
        self.ops.push(Op::Ask { object, keys });
    }

    fn uncopied(&self, operand: Operand, stage: Option<u16>) -> Operand {
        let copy = copies(self.program)
            .find(|renamed| Some(renamed.stage) == stage && operand == Operand::Field(renamed.to));
        copy.map_or(operand, |renamed| Operand::Field(renamed.field))
    }

    fn object(&self, kind: &StatementKind) -> Option<u16> {
        let object = Object::of(kind)?;
        let is_second = |used: &Use| used.second_key.iter().any(|second| second == kind.state_keys());
        let second = self.uses.iter().position(|used| used.object == object && is_second(used));
        let at = second.or_else(|| self.uses.iter().position(|used| used.object == object))?;
        Some(at as u16)
    }

    fn simple(&mut self, kind: &StatementKind) {
        let object = self.object(kind).unwrap_or_default();
        match kind {
            StatementKind::Compute { to, value } => {
                let compute = self.compute(*value);
                let to = self.place(*to);
                self.ops.push(Op::Compute { to, compute });
            }
            StatementKind::MuRead { to, .. } => self.recall(object, to),
            StatementKind::RegisterRead { to, .. } => self.recall(object, &[*to]),
            StatementKind::MuWrite { values, .. } => self.keep(kind, object, values),
            StatementKind::RegisterWrite { value, .. } => self.keep(kind, object, &[*value]),
            StatementKind::Count { .. } => self.ops.push(Op::Count { object }),
            StatementKind::ExecuteMeter { to, .. } => {
                let to = self.place(*to);
                self.ops.push(Op::Mark { object, to });
            }
            StatementKind::Hash { algorithm, base, max, data, to } => {
                let operands: Vec<Operand> = [*base, *max].into_iter().chain(data.iter().copied()).collect();
                let operands = self.sources(&operands);
                let to = self.place(*to);
                self.ops.push(Op::Hash { algorithm: *algorithm, operands, to });
            }
            StatementKind::Checksum { algorithm, data, to, .. } => {
                let data = self.sources(data);
                let to = self.place(*to);
                self.ops.push(Op::Checksum { algorithm: *algorithm, data, to });
            }
            StatementKind::Random { low, high, to } => {
                let (low, high) = (self.source(*low), self.source(*high));
                let to = self.place(*to);
                self.ops.push(Op::Random { low, high, to });
            }
            // What the parser and the deparser do is not in the ingress.
            _ => {}
        }
    }

    fn recall(&mut self, object: u16, to: &[FieldId]) {
        let start = self.lists.places.len() as u32;
        let places: Vec<Place> = to.iter().map(|field| self.place(*field)).collect();
        self.lists.places.extend(places);
        let to = Range { start, end: self.lists.places.len() as u32 };
        self.ops.push(Op::Recall { object, to });
    }

    fn keep(&mut self, kind: &StatementKind, object: u16, values: &[Operand]) {
        if self.uses.get(usize::from(object)).is_some_and(|used| used.is_written_unread) {
            self.ask(kind, None);
        }
        let values = self.sources(values);
        self.ops.push(Op::Keep { object, values });
    }

    fn compute(&mut self, value: ir::Compute) -> Compute {
        let width = |operand| self.program.width(operand) as u16;
        match value {
            ir::Compute::Copy { from } => Compute::Copy(self.source(from)),
            ir::Compute::Resize { from, signed } => {
                let width = width(from);
                Compute::Resize { from: self.source(from), width, signed }
            }
            ir::Compute::Not { from } => Compute::Not(self.source(from)),
            ir::Compute::Negate { from } => Compute::Negate(self.source(from)),
            ir::Compute::Slice { from, high, low } => {
                Compute::Slice { from: self.source(from), high: high as u16, low: low as u16 }
            }
            ir::Compute::Insert { into, from, high, low } => {
                let (into, from) = (self.source(into), self.source(from));
                Compute::Insert { into, from, high: high as u16, low: low as u16 }
            }
            ir::Compute::Binary { by, a, b } => {
                let (width, b_width) = (width(a), width(b));
                Compute::Binary { by, a: self.source(a), b: self.source(b), width, b_width }
            }
            ir::Compute::Select { condition, then, otherwise } => Compute::Select {
                condition: self.source(condition),
                then: self.source(then),
                otherwise: self.source(otherwise),
            },
        }
    }

    fn place(&self, field: FieldId) -> Place {
        self.places.fields[field as usize].expect("a field that the ingress uses has a place")
    }

    fn source(&mut self, operand: Operand) -> Source {
        match operand {
            Operand::Field(field) => match self.place(field) {
                Place { word, width } if width > 64 => Source::Pair(word),
                Place { word, .. } => Source::Word(word),
            },
            Operand::Constant(constant) => match u64::try_from(constant.value) {
                Ok(value) => Source::Constant(value),
                Err(_) => {
                    let wide = &mut self.lists.wide;
                    let at = *self.wide.entry(constant.value).or_insert_with(|| {
                        wide.push(constant.value);
                        wide.len() as u32 - 1
                    });
                    Source::Wide(at)
                }
            },
        }
    }

    fn sources(&mut self, operands: &[Operand]) -> Range {
        let start = self.lists.sources.len() as u32;
        for operand in operands {
            let source = self.source(*operand);
            self.lists.sources.push(source);
            self.lists.widths.push(self.program.width(*operand) as u16);
        }
        Range { start, end: self.lists.sources.len() as u32 }
    }
}
