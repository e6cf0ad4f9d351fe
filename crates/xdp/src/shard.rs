//! By which fields packets go to shards: fields that all state is looked up by, so that packets that share state share a core.

use std::collections::BTreeSet;

use p4::ir::{FieldId, Object, Operand, Program, Statement, StatementKind};

use crate::history::Slice;
use crate::subset::Refusal;

/// How the core of a packet is found.
#[derive(Clone, Debug, Default)]
pub struct Shards {
    /// What is hashed; nothing where packets share no state.
    pub fields: BTreeSet<FieldId>,
    /// What computes these fields in the ingress, if it does.
    pub slice: Option<Slice>,
}

impl Shards {
    /// How the core of a packet is found. Cost: uses of state times their keys.
    ///
    /// # Errors
    /// Two objects are looked up by nothing that they have in common, or by what state itself decides.
    pub fn of(program: &Program) -> Result<Shards, Refusal> {
        let mut walk = Walk { program, uses: Vec::new(), is_used: false, late: architecture(program) };
        walk.body(&program.ingress);
        walk.body(&program.egress);
        let is_written = |object: &Object| walk.uses.iter().any(|used| used.object == *object && used.writes);
        let mut objects: Vec<Object> = walk.uses.iter().map(|used| used.object).filter(is_written).collect();
        objects.dedup();
        let mut shards = Shards::default();
        for (number, object) in objects.iter().enumerate() {
            let fields = walk.fields(*object);
            shards.fields = match number {
                0 => fields,
                _ => shards.fields.intersection(&fields).copied().collect(),
            };
            if shards.fields.is_empty() {
                return Err(refusal(program, *object, objects[..number].first()));
            }
        }
        let mut computed = BTreeSet::new();
        let mut note = |field| _ = computed.insert(field);
        program.visit_writes(&program.ingress, &mut note);
        computed.extend(program.tables.iter().flat_map(|table| parameters(program, table)));
        if shards.fields.is_disjoint(&computed) {
            return Ok(shards);
        }
        let slice = Slice::of_fields(program, &shards.fields);
        if !slice.reads_state(program) {
            shards.slice = Some(slice);
            return Ok(shards);
        }
        // Those that come with the packet do as well.
        shards.fields = shards.fields.difference(&computed).copied().collect();
        match objects.first().filter(|_| shards.fields.is_empty()) {
            Some(object) => Err(refusal(program, *object, None)),
            None => Ok(shards),
        }
    }
}

/// Fields that the architecture sets behind the ingress.
fn architecture(program: &Program) -> BTreeSet<FieldId> {
    let standard = program.standard;
    let behind =
        [standard.egress_port, standard.egress_rid, standard.instance_type, standard.egress_global_timestamp];
    BTreeSet::from(behind)
}

fn parameters(program: &Program, table: &p4::ir::Table) -> Vec<FieldId> {
    let actions = table.actions.iter().map(|action| &program.actions[*action as usize]);
    actions.flat_map(|action| action.parameters.iter().copied()).collect()
}

fn refusal(program: &Program, object: Object, other: Option<&Object>) -> Refusal {
    let what = object.describe_uses(program);
    let why = match other {
        Some(other) => format!(
            "{what} and {} are looked up by no field that both have: packets that share state would come to different cores",
            other.describe(program)
        ),
        None => format!(
            "{what} is looked up by no field that is known before: packets that share state would come to different cores"
        ),
    };
    Refusal {
        place: object.mentions(program).declared.clone(),
        text: String::new(),
        message: format!("{why}. Use strategy scr or shared"),
    }
}

/// A use of state.
struct Use<'a> {
    object: Object,
    keys: &'a [Operand],
    writes: bool,
}

/// Looks at statements in their order, which is that in which they are done: there are no loops.
struct Walk<'a> {
    program: &'a Program,
    uses: Vec<Use<'a>>,
    is_used: bool,
    /// Fields that are written behind a use of state: what it was looked up by may have been another value.
    late: BTreeSet<FieldId>,
}

impl<'a> Walk<'a> {
    fn body(&mut self, body: &'a [Statement]) {
        for statement in body {
            let program = self.program;
            let kind = &statement.kind;
            if let Some(object @ (Object::MuTable(_) | Object::Register(_))) = Object::of(kind) {
                self.uses.push(Use { object, keys: kind.state_keys(), writes: kind.writes_state() });
                self.is_used = true;
            }
            let (is_used, late) = (self.is_used, &mut self.late);
            let mut note = |field| _ = is_used && late.insert(field);
            kind.writes(program, &mut note);
            match kind {
                StatementKind::If { then, otherwise, .. } => {
                    self.body(then);
                    self.body(otherwise);
                }
                StatementKind::Scope { body } => self.body(body),
                StatementKind::Apply { table, .. } => {
                    let table = &program.tables[*table as usize];
                    parameters(program, table).into_iter().for_each(note);
                    for action in &table.actions {
                        self.body(&program.actions[*action as usize].body);
                    }
                }
                _ => {}
            }
        }
    }

    /// Fields that are one of an object's keys, the same one at each use.
    fn fields(&self, object: Object) -> BTreeSet<FieldId> {
        let uses = self.uses.iter().filter(|used| used.object == object);
        let columns = uses.map(|used| {
            let field = |(at, key): (usize, &Operand)| match key {
                Operand::Field(field) if !self.late.contains(field) => Some((at, *field)),
                _ => None,
            };
            used.keys.iter().enumerate().filter_map(field).collect::<BTreeSet<_>>()
        });
        let common = columns.reduce(|a, b| a.intersection(&b).copied().collect()).unwrap_or_default();
        common.into_iter().map(|(_, field)| field).collect()
    }
}
