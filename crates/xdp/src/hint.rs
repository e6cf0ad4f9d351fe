//! Which muTables remember the entry that a packet read, so that its write need not look for it again.
//!
//! That is so where all uses of the table have the same keys. Where the program computes such a key, the entry is forgotten.

use std::collections::BTreeSet;

use p4::ir::{FieldId, Operand, Program, StatementKind};

/// For each muTable, the fields of its keys if it remembers entries.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    keys: Vec<Option<BTreeSet<FieldId>>>,
}

impl Hints {
    /// What the muTables of a program remember.
    pub fn of(program: &Program) -> Hints {
        let mut uses: Vec<BTreeSet<&[Operand]>> = vec![BTreeSet::new(); program.mu_tables.len()];
        // Fields that are set by anything but an operation, which is where entries are forgotten.
        let mut set_otherwise = BTreeSet::new();
        for body in program.bodies() {
            collect(program, body, &mut uses, &mut set_otherwise);
        }
        let fields = |keys: &[Operand]| {
            let fields = keys.iter().filter_map(|key| match key {
                Operand::Field(field) => Some(*field),
                Operand::Constant(_) => None,
            });
            fields.collect::<BTreeSet<_>>()
        };
        let keys = uses.into_iter().map(|uses| match uses.first() {
            Some(keys) if uses.len() == 1 => {
                Some(fields(keys)).filter(|keys| keys.is_disjoint(&set_otherwise))
            }
            _ => None,
        });
        Hints { keys: keys.collect() }
    }

    /// Whether a muTable remembers the entry that was read.
    pub fn remembers(&self, table: u32) -> bool {
        self.keys[table as usize].is_some()
    }

    /// The muTables that forget their entry where a field is computed.
    pub fn forgotten_by(&self, field: FieldId) -> impl Iterator<Item = usize> {
        let is_key =
            move |keys: &Option<BTreeSet<FieldId>>| keys.as_ref().is_some_and(|keys| keys.contains(&field));
        self.keys.iter().enumerate().filter(move |(_, keys)| is_key(keys)).map(|(at, _)| at)
    }
}

fn collect<'a>(
    program: &'a Program,
    body: &'a [p4::ir::Statement],
    uses: &mut [BTreeSet<&'a [Operand]>],
    set_otherwise: &mut BTreeSet<FieldId>,
) {
    for statement in body {
        match &statement.kind {
            StatementKind::If { then, otherwise, .. } => {
                collect(program, then, uses, set_otherwise);
                collect(program, otherwise, uses, set_otherwise);
            }
            StatementKind::Scope { body } => collect(program, body, uses, set_otherwise),
            StatementKind::Compute { .. } => {}
            kind => {
                if let StatementKind::MuRead { table, keys, .. }
                | StatementKind::MuWrite { table, keys, .. } = kind
                {
                    uses[*table as usize].insert(keys);
                }
                if let StatementKind::Apply { table, .. } = kind {
                    let actions = &program.tables[*table as usize].actions;
                    let parameters =
                        actions.iter().flat_map(|action| &program.actions[*action as usize].parameters);
                    set_otherwise.extend(parameters);
                }
                kind.writes(program, &mut |field| _ = set_otherwise.insert(field));
            }
        }
    }
}
