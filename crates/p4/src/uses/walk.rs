//! A walk through the ingress in the order of the program: which values are one, and what depends on which state.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::ir::{Compute, FieldId, Object, Operand, Program, Statement, StatementKind};

use super::fault::Fault;
use super::ports::{self, Key, Keys, Value};

/// What was found.
#[derive(Default)]
pub struct Found {
    /// What no pipeline can do.
    pub faults: Vec<Fault>,
    /// Objects that a packet may write without having read them.
    pub blind: BTreeSet<Object>,
    /// For each object, the muTables on whose state it depends what it is asked.
    pub depends: HashMap<Object, u64>,
    /// For objects that packets read under a second key, how that is written.
    pub second_keys: HashMap<Object, Vec<Vec<Operand>>>,
    /// Which objects packets with one key come to in the order of arrival.
    pub order: Order,
}

/// How uses of states of several stages go with those of others.
#[derive(Default)]
pub struct Order {
    /// Values of the keys under which an object is used, without constants, for all its uses.
    keys: HashMap<Object, BTreeSet<BTreeSet<Value>>>,
    /// A use of the second that not all packets come to which have read the first.
    apart: BTreeSet<(Object, Object)>,
    /// States that not all packets read.
    missed: BTreeSet<Object>,
}

impl Order {
    /// Whether packets with one key in `behind` have one key in `waits`, and all read that.
    pub fn keeps(&self, waits: Object, behind: Object) -> bool {
        let keys = |object: Object| self.keys.get(&object).into_iter().flatten();
        let is_finer = keys(waits).all(|first| keys(behind).all(|second| first.is_subset(second)));
        let is_read = !self.apart.contains(&(waits, behind)) || !self.missed.contains(&waits);
        is_finer && is_read
    }
}

/// Walks through the ingress.
pub fn walk(program: &Program, is_flow_state: &dyn Fn(Object) -> bool) -> Found {
    let mut walk = Walk {
        program,
        is_flow_state,
        found: Found::default(),
        next: 1,
        computed: HashMap::new(),
        left: Vec::new(),
        left_taint: 0,
        exit_taint: 0,
        keys: BTreeMap::new(),
        flow_states: Vec::new(),
    };
    walk.flow_states = (0..program.mu_tables.len() as u32)
        .map(Object::MuTable)
        .filter(|object| is_flow_state(*object))
        .collect();
    // All fields are 0 when a packet arrives, but for what the parser wrote.
    let values = program.fields.iter().map(|_| walk.fresh()).collect();
    let state = State { values, taints: vec![0; program.fields.len()], asked: HashMap::new() };
    let end = walk.body(&program.ingress, state, 0);
    end.iter().for_each(|end| walk.ends(end));
    let Walk { mut found, keys, .. } = walk;
    for (object, keys) in keys {
        match ports::second_key(&keys) {
            Ok(second) if second.is_empty() => {}
            Ok(second) => {
                found.second_keys.insert(object, second);
            }
            Err(ports::Refused::Ports) => found.faults.push(Fault::Ports(object)),
            Err(ports::Refused::ReadBehindWrite) => found.faults.push(Fault::ReadBehindWrite(object)),
        }
    }
    found
}

/// muTables on whose state something depends, a bit for each; the last stands for all from there on.
type Taint = u64;

/// The bit of a muTable.
pub fn bit(table: u32) -> u64 {
    1 << table.min(63)
}

/// What is known at a place of the program.
#[derive(Clone)]
struct State {
    values: Vec<Value>,
    taints: Vec<Taint>,
    /// For each object, the keys under which a packet may have used it by now.
    asked: HashMap<Object, BTreeMap<Key, Asked>>,
}

impl State {
    /// Whether all packets that come here have read the object.
    fn has_read(&self, object: Object) -> bool {
        self.asked.get(&object).is_some_and(|keys| keys.values().any(|asked| asked.is_read))
    }
}

/// How packets have used an object under a key.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    /// Whether all that come here have read it.
    is_read: bool,
    /// Whether one may have written it.
    is_written: bool,
}

struct Walk<'a> {
    program: &'a Program,
    is_flow_state: &'a dyn Fn(Object) -> bool,
    found: Found,
    next: Value,
    /// Numbers of what was computed, by how.
    computed: HashMap<String, Value>,
    /// States where the innermost scope was left.
    left: Vec<State>,
    /// What decides whether a packet has left the innermost scope by now.
    left_taint: Taint,
    /// What decides whether it has left the block.
    exit_taint: Taint,
    /// Under which keys objects are used that may have two.
    keys: BTreeMap<Object, Keys>,
    /// muTables of several stages.
    flow_states: Vec<Object>,
}

impl Walk<'_> {
    /// The block ends here.
    fn ends(&mut self, state: &State) {
        let missed = self.flow_states.iter().filter(|object| !state.has_read(**object));
        self.found.order.missed.extend(missed);
    }

    fn fresh(&mut self) -> Value {
        self.next += 1;
        self.next
    }

    fn number(&mut self, how: String) -> Value {
        if let Some(value) = self.computed.get(&how) {
            return *value;
        }
        let value = self.fresh();
        self.computed.insert(how, value);
        value
    }

    fn value(&mut self, state: &State, operand: Operand) -> Value {
        match operand {
            Operand::Field(field) => state.values[field as usize],
            Operand::Constant(constant) => self.number(format!("{constant}")),
        }
    }

    fn taint(&self, state: &State, operands: impl IntoIterator<Item = Operand>, control: Taint) -> Taint {
        let fields = operands.into_iter().filter_map(field_of);
        let control = control | self.left_taint | self.exit_taint;
        fields.fold(control, |taint, field| taint | state.taints[field as usize])
    }

    /// Walks through statements; gives what is known behind them, unless they never end.
    fn body(&mut self, body: &[Statement], state: State, control: Taint) -> Option<State> {
        let mut state = state;
        for statement in body {
            state = self.statement(&statement.kind, state, control)?;
        }
        Some(state)
    }

    fn statement(&mut self, kind: &StatementKind, mut state: State, control: Taint) -> Option<State> {
        match kind {
            StatementKind::If { condition, then, otherwise } => {
                let inside = self.taint(&state, [*condition], control);
                let then = self.body(then, state.clone(), inside);
                let otherwise = self.body(otherwise, state, inside);
                self.join(then.into_iter().chain(otherwise))
            }
            StatementKind::Scope { body } => self.scope([&body[..]].into_iter(), state, control),
            StatementKind::Leave => {
                self.left_taint |= control;
                self.left.push(state);
                None
            }
            StatementKind::Exit => {
                self.exit_taint |= control;
                self.ends(&state);
                None
            }
            StatementKind::Apply { table, hit, action_run } => {
                let declared = &self.program.tables[*table as usize];
                let inside = self.taint(&state, declared.keys.iter().map(|key| key.value), control);
                for field in hit.iter().chain(action_run) {
                    self.set(&mut state, *field, None, inside);
                }
                let actions = declared.actions.iter().map(|at| &self.program.actions[*at as usize]);
                for parameter in actions.clone().flat_map(|action| &action.parameters) {
                    self.set(&mut state, *parameter, None, inside);
                }
                self.scope(actions.map(|action| &action.body[..]), state, inside)
            }
            kind => {
                self.simple(kind, &mut state, control);
                Some(state)
            }
        }
    }

    /// Bodies of which one is run, and that may be left.
    fn scope<'b>(
        &mut self,
        bodies: impl Iterator<Item = &'b [Statement]>,
        state: State,
        control: Taint,
    ) -> Option<State> {
        let outer = std::mem::take(&mut self.left);
        let outer_taint = self.left_taint;
        let mut ends = Vec::new();
        for body in bodies {
            ends.extend(self.body(body, state.clone(), control));
        }
        let left = std::mem::replace(&mut self.left, outer);
        self.left_taint = outer_taint;
        self.join(ends.into_iter().chain(left))
    }

    /// What is known where paths meet.
    fn join(&mut self, states: impl Iterator<Item = State>) -> Option<State> {
        let states: Vec<State> = states.collect();
        let (first, others) = states.split_first()?;
        let mut joined = first.clone();
        let mut met: HashMap<Vec<Value>, Value> = HashMap::new();
        for field in 0..joined.values.len() {
            if others.iter().any(|other| other.values[field] != joined.values[field]) {
                let values = states.iter().map(|state| state.values[field]).collect();
                joined.values[field] = match met.get(&values) {
                    Some(value) => *value,
                    None => {
                        let value = self.fresh();
                        met.insert(values, value);
                        value
                    }
                };
            }
            joined.taints[field] |= others.iter().fold(0, |taint, other| taint | other.taints[field]);
        }
        let used: BTreeSet<(Object, &Key)> = states
            .iter()
            .flat_map(|state| &state.asked)
            .flat_map(|(object, keys)| keys.keys().map(|key| (*object, key)))
            .collect();
        for (object, key) in used {
            let asked = states.iter().map(|state| state.asked.get(&object).and_then(|keys| keys.get(key)));
            let asked = asked.map(|asked| asked.copied().unwrap_or_default());
            let is_read = asked.clone().all(|asked| asked.is_read);
            let is_written = asked.clone().any(|asked| asked.is_written);
            joined.asked.entry(object).or_default().insert(key.clone(), Asked { is_read, is_written });
        }
        Some(joined)
    }

    fn set(&mut self, state: &mut State, field: FieldId, value: Option<Value>, taint: Taint) {
        state.values[field as usize] = value.unwrap_or_else(|| self.fresh());
        state.taints[field as usize] = taint;
    }

    fn simple(&mut self, kind: &StatementKind, state: &mut State, control: Taint) {
        if let Some(object) = Object::of(kind) {
            self.ask(object, kind, state, control);
        }
        let mut read = Vec::new();
        kind.reads(self.program, &mut |field| read.push(Operand::Field(field)));
        let mut taint = self.taint(state, read, control);
        if let StatementKind::MuRead { table, .. } = kind
            && (self.is_flow_state)(Object::MuTable(*table))
        {
            taint |= bit(*table);
        }
        let value = match kind {
            StatementKind::Compute { to, value } => Some(self.compute(state, *to, *value)),
            _ => None,
        };
        let mut written = Vec::new();
        kind.writes(self.program, &mut |field| written.push(field));
        for field in written {
            self.set(state, field, value, taint);
        }
    }

    fn compute(&mut self, state: &State, to: FieldId, value: Compute) -> Value {
        if let Compute::Copy { from } = value {
            return self.value(state, from);
        }
        let operands: Vec<Value> = value.operands().map(|operand| self.value(state, operand)).collect();
        let widths: Vec<u32> = value.operands().map(|operand| self.program.width(operand)).collect();
        let how = match value {
            Compute::Copy { .. } => String::new(),
            Compute::Resize { signed, .. } => format!("resize {signed}"),
            Compute::Not { .. } => "not".to_owned(),
            Compute::Negate { .. } => "negate".to_owned(),
            Compute::Slice { high, low, .. } => format!("slice {high} {low}"),
            Compute::Insert { high, low, .. } => format!("insert {high} {low}"),
            Compute::Binary { by, .. } => format!("{by:?}"),
            Compute::Select { .. } => "select".to_owned(),
        };
        let width = self.program.fields[to as usize].width;
        self.number(format!("{how} {operands:?} {widths:?} {width}"))
    }

    /// A packet uses an object.
    fn ask(&mut self, object: Object, kind: &StatementKind, state: &mut State, control: Taint) {
        let keys = kind.state_keys();
        let values: &[Operand] = match kind {
            StatementKind::MuWrite { values, .. } => values,
            StatementKind::RegisterWrite { value, .. } => std::slice::from_ref(value),
            _ => &[],
        };
        let taint = self.taint(state, keys.iter().chain(values).copied(), control);
        *self.found.depends.entry(object).or_default() |= taint;
        let key: Key = keys.iter().map(|key| self.value(state, *key)).collect();
        let varying = keys.iter().filter(|key| field_of(**key).is_some());
        let varying = varying.map(|key| self.value(state, *key)).collect();
        let order = &mut self.found.order;
        order.keys.entry(object).or_default().insert(varying);
        order.apart.extend(
            self.flow_states.iter().filter(|first| !state.has_read(**first)).map(|first| (*first, object)),
        );
        let is_write = kind.writes_state();
        let is_counted = matches!(object, Object::Counter(_) | Object::Meter(_));
        let is_flow_state = (self.is_flow_state)(object);
        let before = state.asked.entry(object).or_default();
        let others = before.keys().filter(|other| **other != key);
        let is_behind_write = before.values().any(|asked| asked.is_written);
        let mut faults = Vec::new();
        if is_counted && !before.is_empty() {
            faults.push(Fault::CountedTwice(object));
        } else if is_flow_state && others.clone().next().is_some() {
            faults.push(Fault::TwoKeys(object));
        } else if !is_counted && !is_flow_state {
            let noted = self.keys.entry(object).or_default();
            others.for_each(|other| noted.meet(other, &key));
            noted.note(&key, keys, is_write, is_behind_write);
        }
        let is_refused = !faults.is_empty() || self.keys.get(&object).is_some_and(Keys::is_full);
        if is_refused {
            // Nothing more can be said of it, and the keys of a long program take long to compare.
            before.clear();
        }
        let asked = before.entry(key).or_default();
        if is_write && !asked.is_read {
            self.found.blind.insert(object);
            if is_flow_state && faults.is_empty() {
                faults.push(Fault::WrittenUnread(object));
            }
        }
        if !is_write && is_behind_write && is_flow_state {
            faults.push(Fault::ReadBehindWrite(object));
        }
        asked.is_read |= !is_write;
        asked.is_written |= is_write;
        for fault in faults {
            if !self.found.faults.contains(&fault) {
                self.found.faults.push(fault);
            }
        }
    }
}

/// The operand's field.
fn field_of(operand: Operand) -> Option<FieldId> {
    match operand {
        Operand::Field(field) => Some(field),
        Operand::Constant(_) => None,
    }
}
