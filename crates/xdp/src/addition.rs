//! Steps that are one addition: `x += constant or field`, whose result may be read. Cores that share a state then need no lock.
//!
//! A register's one read and one write stand in one list of statements, under the same index, and what is written is what was
//! read and something that does not depend on it. What computes that goes before the read; the read becomes an atomic addition
//! that gives the old value, and the write goes. Counters are added to anyhow.

use std::collections::{BTreeMap, BTreeSet};

use p4::ir::{
    Binary, Compute, FieldId, FieldKind, Object, Operand, Program, Statement, StatementKind, visit_numbered,
};

/// The registers of a program that are only added to.
#[derive(Clone, Debug, Default)]
pub struct Additions {
    /// What is added to each, which is known before it is read.
    pub added: BTreeMap<u32, Operand>,
    /// The one whose result decides anything, if all state can do without a lock: its order is that of the packets.
    pub ordered: Option<u32>,
    /// Whether some state has to be under a lock.
    pub needs_lock: bool,
}

/// A read and a write that are one addition.
struct Addition {
    register: u32,
    added: Operand,
    /// Where the write is in its list.
    write: usize,
    /// Statements between the two that go before the read.
    before: Vec<usize>,
    /// Fields that hold the old value, the new one, or what is computed from them on the way.
    results: BTreeSet<FieldId>,
}

impl Additions {
    /// Finds additions, and orders the program's statements for them. Cost: the square of the longest list of statements.
    pub fn of(program: &Program) -> (Program, Additions) {
        let mut changed = program.clone();
        let mut found = Finder {
            program,
            uses: uses(program),
            additions: Additions::default(),
            results: BTreeMap::new(),
        };
        let mut ingress = std::mem::take(&mut changed.ingress);
        found.list(&mut ingress);
        changed.ingress = ingress;
        let Finder { mut additions, results, .. } = found;
        let is_added = |object: &Object| match object {
            Object::Counter(_) => true,
            Object::Register(register) => additions.added.contains_key(register),
            _ => false,
        };
        let used: Vec<Object> = objects(program).into_iter().collect();
        let decide: Vec<u32> = results
            .iter()
            .filter(|(register, fields)| decides(&changed, **register, fields))
            .map(|(register, _)| *register)
            .collect();
        // With two results that decide something, packets may have passed each other between the two.
        additions.needs_lock = !used.iter().all(is_added) || decide.len() > 1;
        match additions.needs_lock {
            // All of it is under the lock, as it stands.
            true => (program.clone(), Additions { needs_lock: true, ..Additions::default() }),
            false => {
                additions.ordered = decide.first().copied();
                (changed, additions)
            }
        }
    }
}

/// How often each register is read and written.
fn uses(program: &Program) -> BTreeMap<u32, (u32, u32)> {
    let mut uses: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    visit_numbered(program.bodies(), &mut |_, statement| match &statement.kind {
        StatementKind::RegisterRead { register, .. } => uses.entry(*register).or_default().0 += 1,
        StatementKind::RegisterWrite { register, .. } => uses.entry(*register).or_default().1 += 1,
        _ => {}
    });
    uses
}

/// All objects that ingress, egress and actions use.
fn objects(program: &Program) -> BTreeSet<Object> {
    let mut objects = BTreeSet::new();
    visit_numbered(program.bodies(), &mut |_, statement| objects.extend(Object::of(&statement.kind)));
    objects
}

/// Whether anything but the addition itself reads these fields.
fn decides(program: &Program, register: u32, fields: &BTreeSet<FieldId>) -> bool {
    let outlives = |field: &FieldId| {
        !matches!(program.fields[*field as usize].kind, FieldKind::Temporary | FieldKind::Metadata)
    };
    if fields.iter().any(outlives) {
        return true;
    }
    let mut is_read = false;
    let mut look = |_, statement: &Statement| match &statement.kind {
        // The way from the old value to the new one.
        StatementKind::Compute { to, .. } if fields.contains(to) => {}
        StatementKind::RegisterWrite { register: written, .. } if *written == register => {}
        kind => kind.reads(program, &mut |field| is_read |= fields.contains(&field)),
    };
    let blocks = [&program.compute_checksum, &program.deparser];
    visit_numbered(program.bodies().chain(blocks), &mut look);
    is_read
}

struct Finder<'a> {
    program: &'a Program,
    uses: BTreeMap<u32, (u32, u32)>,
    additions: Additions,
    results: BTreeMap<u32, BTreeSet<FieldId>>,
}

impl Finder<'_> {
    /// Orders a list of the ingress. Lists of actions are left alone: a packet may come to one of them twice.
    fn list(&mut self, body: &mut Vec<Statement>) {
        let mut at = 0;
        while at < body.len() {
            match &mut body[at].kind {
                StatementKind::If { then, otherwise, .. } => {
                    self.list(then);
                    self.list(otherwise);
                }
                StatementKind::Scope { body } => self.list(body),
                _ => {}
            }
            if let Some(addition) = self.addition(body, at) {
                self.additions.added.insert(addition.register, addition.added);
                self.results.insert(addition.register, addition.results);
                body.remove(addition.write);
                for (moved, from) in addition.before.iter().enumerate() {
                    let statement = body.remove(*from);
                    body.insert(at + moved, statement);
                }
                at += addition.before.len();
            }
            at += 1;
        }
    }

    /// The addition that a read begins, if it does.
    fn addition(&self, body: &[Statement], at: usize) -> Option<Addition> {
        let StatementKind::RegisterRead { register, index, to } = body[at].kind else { return None };
        let width = self.program.registers[register as usize].width;
        if self.uses.get(&register) != Some(&(1, 1)) || self.program.fields[to as usize].width != width {
            return None;
        }
        // What each field is that is written behind the read: the old value, that and something, or anything that depends on it.
        let mut old = BTreeSet::from([to]);
        let mut sums: BTreeMap<FieldId, Operand> = BTreeMap::new();
        let mut results = BTreeSet::from([to]);
        let (mut before, mut written, mut read) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        read.extend(match index {
            Operand::Field(field) => Some(field),
            Operand::Constant(_) => None,
        });
        for (number, statement) in body.iter().enumerate().skip(at + 1) {
            if let StatementKind::RegisterWrite { register: other, index: second, value } = &statement.kind
                && *other == register
            {
                let Operand::Field(value) = value else { return None };
                let added = *sums.get(value)?;
                let is_same = self.text(body, index, at)? == self.text(body, *second, number)?;
                return is_same.then_some(Addition { register, added, write: number, before, results });
            }
            let StatementKind::Compute { to, value } = &statement.kind else { return None };
            let is_result =
                |operand: &Operand| matches!(operand, Operand::Field(field) if results.contains(field));
            let depends = value.operands().any(|operand| is_result(&operand));
            if !depends {
                // It goes before the read, so nothing may be there that it changes for others.
                let is_own =
                    self.program.fields[*to as usize].kind == FieldKind::Temporary && written.insert(*to);
                if !is_own || read.contains(to) {
                    return None;
                }
                statement.kind.reads(self.program, &mut |field| _ = read.insert(field));
                before.push(number);
                continue;
            }
            statement.kind.reads(self.program, &mut |field| _ = read.insert(field));
            let sum = match *value {
                Compute::Binary { by: Binary::Add, a, b }
                    if self.program.fields[*to as usize].width == width =>
                {
                    match (is_result(&a), is_result(&b)) {
                        (true, false) => Some((a, b)),
                        (false, true) => Some((b, a)),
                        _ => None,
                    }
                }
                _ => None,
            };
            let sum = sum.filter(|(from, _)| matches!(from, Operand::Field(field) if old.contains(field)));
            // What is computed from it and not on its way is computed behind it.
            old.remove(to);
            sums.remove(to);
            if let Some((_, added)) = sum {
                sums.insert(*to, added);
            }
            results.insert(*to);
        }
        None
    }

    /// What an operand is before a statement of a list, in fields that nothing writes between their reading and that statement.
    fn text(&self, body: &[Statement], operand: Operand, before: usize) -> Option<String> {
        let field = match operand {
            Operand::Constant(constant) => return Some(format!("{}:{}", constant.value, constant.width)),
            Operand::Field(field) => field,
        };
        let is_written = |statement: &Statement| {
            let mut is_written = false;
            let one = std::slice::from_ref(statement);
            self.program.visit_writes(one, &mut |written| is_written |= written == field);
            is_written
        };
        let Some(at) = body[..before].iter().rposition(is_written) else {
            return Some(format!("field {field}"));
        };
        let StatementKind::Compute { value, .. } = &body[at].kind else {
            return Some(format!("field {field} of {at}"));
        };
        let operands: Option<Vec<String>> =
            value.operands().map(|operand| self.text(body, operand, at)).collect();
        let width = self.program.fields[field as usize].width;
        let shape = match value {
            Compute::Copy { .. } => "copy".to_owned(),
            Compute::Resize { signed, .. } => format!("resize {signed}"),
            Compute::Slice { high, low, .. } => format!("slice {high} {low}"),
            Compute::Binary { by, .. } => format!("{by:?}"),
            _ => return None,
        };
        Some(format!("({shape} {width} {})", operands?.join(" ")))
    }
}
