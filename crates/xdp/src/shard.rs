//! By which fields packets go to shards: fields that all state is looked up by, so that packets that share state share a core.

use std::collections::{BTreeMap, BTreeSet};

use p4::ir::{Compute, FieldId, FieldKind, Object, Operand, Program, Statement, StatementKind};

use crate::history::Slice;
use crate::subset::Refusal;

/// How the core of a packet is found.
#[derive(Clone, Debug, Default)]
pub struct Shards {
    /// What is hashed; nothing where packets share no state.
    pub fields: BTreeSet<FieldId>,
    /// What computes fields that these depend on in the ingress, if it does.
    pub slice: Option<Slice>,
    /// What is computed behind that, whichever way the packet takes through the ingress.
    pub steps: Vec<(FieldId, Compute)>,
}

impl Shards {
    /// How the core of a packet is found. Cost: uses of state times their keys.
    ///
    /// # Errors
    /// Two objects are looked up by nothing that they have in common, or by what state itself decides.
    pub fn of(program: &Program) -> Result<Shards, Refusal> {
        let mut computed = architecture(program);
        let mut note = |field| _ = computed.insert(field);
        program.visit_writes(&program.ingress, &mut note);
        program.visit_writes(&program.egress, &mut note);
        computed.extend(program.tables.iter().flat_map(|table| parameters(program, table)));
        let mut walk = Walk::new(program, &computed);
        walk.body(&program.ingress);
        walk.body(&program.egress);
        let is_written = |object: &Object| walk.uses.iter().any(|used| used.object == *object && used.writes);
        let objects: Vec<Object> = walk.uses.iter().map(|used| used.object).filter(is_written).collect();
        let mut common = BTreeMap::new();
        for (number, object) in objects.iter().enumerate() {
            let values = walk.values(*object);
            match number {
                0 => common = values,
                _ => common.retain(|value, _| values.contains_key(value)),
            }
            if common.is_empty() {
                let other = objects[..number].iter().find(|other| *other != object);
                return Err(refusal(program, *object, other));
            }
        }
        let mut common: Vec<Known> = common.into_values().collect();
        let slice = |common: &[Known]| {
            let leaves = common.iter().flat_map(|known| &known.leaves).copied();
            let leaves: BTreeSet<FieldId> = leaves.filter(|field| computed.contains(field)).collect();
            (!leaves.is_empty()).then(|| Slice::of_fields(program, &leaves))
        };
        let mut found = slice(&common);
        if found.as_ref().is_some_and(|slice| slice.reads_state(program)) {
            // Those that come with the packet do as well.
            common.retain(|known| known.leaves.is_disjoint(&computed));
            if let Some(object) = objects.first().filter(|_| common.is_empty()) {
                return Err(refusal(program, *object, None));
            }
            found = None;
        }
        Ok(Shards {
            fields: common.iter().map(|known| known.field).collect(),
            slice: found,
            steps: common.into_iter().flat_map(|known| known.steps).collect(),
        })
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

/// A value that is known before the ingress, or computed in it without state.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    /// What it is. Lowering makes a temporary for each use of an expression: those of the same expression have the same text.
    text: String,
    /// The field that has it.
    field: FieldId,
    /// Fields that it is computed from.
    leaves: BTreeSet<FieldId>,
    /// How it is computed from them.
    steps: Vec<(FieldId, Compute)>,
}

/// Steps of a value that is known, at most.
const MAX_STEPS: usize = 64;

/// Looks at statements in their order, which is that in which they are done: there are no loops.
struct Walk<'a> {
    program: &'a Program,
    /// Fields that the program or the architecture computes. All others are as the parser left them.
    computed: &'a BTreeSet<FieldId>,
    uses: Vec<Use<'a>>,
    /// Fields that are written behind a use of state: what it was looked up by may have been another value.
    late: BTreeSet<FieldId>,
    /// What a temporary is; nothing where it is more than one thing.
    known: BTreeMap<FieldId, Option<Known>>,
}

impl<'a> Walk<'a> {
    fn new(program: &'a Program, computed: &'a BTreeSet<FieldId>) -> Walk<'a> {
        Walk { program, computed, uses: Vec::new(), late: architecture(program), known: BTreeMap::new() }
    }

    fn body(&mut self, body: &'a [Statement]) {
        for statement in body {
            let program = self.program;
            let kind = &statement.kind;
            if let Some(object @ (Object::MuTable(_) | Object::Register(_))) = Object::of(kind) {
                self.uses.push(Use { object, keys: kind.state_keys(), writes: kind.writes_state() });
            }
            if let StatementKind::Compute { to, value } = kind {
                let computed = self.computation(*to, value);
                let known = self.known.entry(*to).or_insert_with(|| computed.clone());
                if *known != computed {
                    *known = None;
                }
            }
            let (is_used, late, all) = (!self.uses.is_empty(), &mut self.late, &mut self.known);
            let mut note = |field| {
                if is_used {
                    late.insert(field);
                }
                // What was computed from its last value is another thing now.
                let is_old = |known: &&mut Option<Known>| {
                    known.as_ref().is_some_and(|known| known.leaves.contains(&field))
                };
                all.values_mut().filter(is_old).for_each(|known| *known = None);
            };
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

    /// What is computed, in fields that are no temporaries.
    fn computation(&self, to: FieldId, value: &Compute) -> Option<Known> {
        let declared = &self.program.fields[to as usize];
        if declared.kind != FieldKind::Temporary {
            return None;
        }
        let operands = value.operands().map(|operand| self.of(operand)).collect::<Option<Vec<_>>>()?;
        let width = declared.width;
        let texts: Vec<&str> = operands.iter().map(|known| known.text.as_str()).collect();
        let texts = texts.join(" ");
        let text = match value {
            // The same number, with zeros in front.
            Compute::Copy { from } | Compute::Resize { from, signed: false }
                if self.program.width(*from) <= width =>
            {
                texts
            }
            Compute::Slice { high, low, .. } => format!("{texts}[{high}:{low}]"),
            Compute::Resize { signed, .. } => format!("({signed} {width} {texts})"),
            Compute::Binary { by, .. } => format!("({by:?} {width} {texts})"),
            Compute::Not { .. } => format!("(~ {texts})"),
            Compute::Select { .. } => format!("(select {width} {texts})"),
            _ => return None,
        };
        let leaves = operands.iter().flat_map(|known| known.leaves.iter().copied()).collect();
        let mut steps: Vec<_> = operands.into_iter().flat_map(|known| known.steps).collect();
        steps.push((to, *value));
        (steps.len() <= MAX_STEPS).then_some(Known { text, field: to, leaves, steps })
    }

    fn of(&self, operand: Operand) -> Option<Known> {
        match operand {
            Operand::Constant(constant) => {
                let text = format!("{}:{}", constant.value, constant.width);
                // No state is looked up by it.
                Some(Known { text, field: FieldId::MAX, leaves: BTreeSet::new(), steps: Vec::new() })
            }
            Operand::Field(field) if self.is_temporary(field) && self.computed.contains(&field) => {
                self.known.get(&field).cloned().flatten()
            }
            Operand::Field(field) => Some(leaf(field)),
        }
    }

    fn is_temporary(&self, field: FieldId) -> bool {
        self.program.fields[field as usize].kind == FieldKind::Temporary
    }

    /// What one of an object's keys is, the same one at each use.
    fn values(&self, object: Object) -> BTreeMap<String, Known> {
        let uses = self.uses.iter().filter(|used| used.object == object);
        let columns = uses.map(|used| {
            let value = |(at, key): (usize, &Operand)| {
                let Operand::Field(field) = key else { return None };
                let known = self.of(*key).unwrap_or_else(|| leaf(*field));
                // What a late field was, where a packet used state, it may not be at the end.
                let is_known = !known.leaves.is_empty() && known.leaves.is_disjoint(&self.late);
                is_known.then(|| ((at, known.text.clone()), known))
            };
            used.keys.iter().enumerate().filter_map(value).collect::<BTreeMap<_, _>>()
        });
        let common = columns.reduce(|mut a, b| {
            a.retain(|value, _| b.contains_key(value));
            a
        });
        common.unwrap_or_default().into_iter().map(|((_, text), known)| (text, known)).collect()
    }
}

/// A field that is what it is.
fn leaf(field: FieldId) -> Known {
    Known { text: format!("field {field}"), field, leaves: BTreeSet::from([field]), steps: Vec::new() }
}
