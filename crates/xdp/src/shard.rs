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
    /// What computes these fields in the ingress, if it does.
    pub slice: Option<Slice>,
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
        let fields: BTreeSet<FieldId> = common.into_values().collect();
        if fields.is_disjoint(&computed) {
            return Ok(Shards { fields, slice: None });
        }
        let slice = Slice::of_fields(program, &fields);
        if !slice.reads_state(program) {
            return Ok(Shards { fields, slice: Some(slice) });
        }
        // Those that come with the packet do as well.
        let fields: BTreeSet<FieldId> = fields.difference(&computed).copied().collect();
        match objects.first().filter(|_| fields.is_empty()) {
            Some(object) => Err(refusal(program, *object, None)),
            None => Ok(Shards { fields, slice: None }),
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
    /// Fields that the program or the architecture computes. All others are as the parser left them.
    computed: &'a BTreeSet<FieldId>,
    uses: Vec<Use<'a>>,
    /// Fields that are written behind a use of state: what it was looked up by may have been another value.
    late: BTreeSet<FieldId>,
    /// What a temporary is, in fields that nothing computes; nothing where it is more than one thing. Lowering makes one for each
    /// use of an expression: those of the same expression have the same text.
    texts: BTreeMap<FieldId, Option<String>>,
}

impl<'a> Walk<'a> {
    fn new(program: &'a Program, computed: &'a BTreeSet<FieldId>) -> Walk<'a> {
        Walk { program, computed, uses: Vec::new(), late: architecture(program), texts: BTreeMap::new() }
    }

    fn body(&mut self, body: &'a [Statement]) {
        for statement in body {
            let program = self.program;
            let kind = &statement.kind;
            if let Some(object @ (Object::MuTable(_) | Object::Register(_))) = Object::of(kind) {
                self.uses.push(Use { object, keys: kind.state_keys(), writes: kind.writes_state() });
            }
            if let StatementKind::Compute { to, value } = kind {
                let text = self.computation(*to, value);
                let known = self.texts.entry(*to).or_insert_with(|| text.clone());
                if *known != text {
                    *known = None;
                }
            }
            let (is_used, late) = (!self.uses.is_empty(), &mut self.late);
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

    /// What is computed, in fields that nothing computes.
    fn computation(&self, to: FieldId, value: &Compute) -> Option<String> {
        let to = &self.program.fields[to as usize];
        if to.kind != FieldKind::Temporary {
            return None;
        }
        let operands = value.operands().map(|operand| self.text(operand)).collect::<Option<Vec<_>>>()?;
        match value {
            // The same number, with zeros in front.
            Compute::Copy { from } | Compute::Resize { from, signed: false }
                if self.program.width(*from) <= to.width =>
            {
                operands.into_iter().next()
            }
            // All operands in the text are replaced by those that are known.
            Compute::Slice { high, low, .. } => Some(format!("{}[{high}:{low}]", operands.join(" "))),
            Compute::Resize { signed, .. } => Some(format!("({signed} {} {})", to.width, operands.join(" "))),
            Compute::Binary { by, .. } => Some(format!("({by:?} {} {})", to.width, operands.join(" "))),
            Compute::Not { .. } => Some(format!("(~ {})", operands.join(" "))),
            _ => None,
        }
    }

    fn text(&self, operand: Operand) -> Option<String> {
        match operand {
            Operand::Constant(constant) => Some(format!("{}:{}", constant.value, constant.width)),
            Operand::Field(field) if !self.computed.contains(&field) => Some(format!("field {field}")),
            Operand::Field(field) => self.texts.get(&field).cloned().flatten(),
        }
    }

    /// What one of an object's keys is, the same one at each use, with a field that has it.
    fn values(&self, object: Object) -> BTreeMap<String, FieldId> {
        let uses = self.uses.iter().filter(|used| used.object == object);
        let columns = uses.map(|used| {
            let value = |(at, key): (usize, &Operand)| {
                let Operand::Field(field) = key else { return None };
                let of_its_own = || (!self.late.contains(field)).then(|| format!("field {field}"));
                Some(((at, self.text(*key).or_else(of_its_own)?), *field))
            };
            used.keys.iter().enumerate().filter_map(value).collect::<BTreeMap<_, _>>()
        });
        let common = columns.reduce(|mut a, b| {
            a.retain(|value, _| b.contains_key(value));
            a
        });
        // The first use's field: a temporary is computed once, wherever.
        let parsed = |text: &str, field| {
            let number = text.strip_prefix("field ").and_then(|number| number.parse().ok());
            number.unwrap_or(field)
        };
        let common = common.unwrap_or_default().into_iter();
        common.map(|((_, text), field)| (text.clone(), parsed(&text, field))).collect()
    }
}
