//! How a program uses what it keeps from packet to packet, and which uses no pipeline can do.
//!
//! A pipeline asks a muTable, register, counter or meter once for each packet, under one key, and writes it under
//! that key. Only a muTable or register that is written in the stage that reads it may be read there under a second
//! key as well: the memory of a stage can have two ports for reads, and nothing happens between them and the write.
//! What lies between the read and the write of a muTable of several stages is done once even if the packet
//! is done over (RAPID §4.2): so what it is asked must not depend on the state that may have been stale.
//!
//! Keys are compared by value numbers: two are one if they are computed in the same way from the same values.

use std::collections::{BTreeSet, HashMap};

use crate::ir::{Consistency, Layout, Operand, Program, Statement, StatementKind};

pub use crate::ir::Object;

use crate::passes::allocate::MAX_LAYOUT_STAGES;

mod fault;
mod ports;
mod walk;

pub use fault::{Fault, Overtaken};

/// How an object is used under one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Which.
    pub object: Object,
    /// The keys of the reads under a second key; none where this is the object's first or only key, which is that
    /// under which packets write.
    pub second_key: Vec<Vec<Operand>>,
    /// The stage that looks it up; that which writes it first if none does.
    pub reads: u16,
    /// The last stage that writes it; that which reads it if none does.
    pub writes: u16,
    /// Whether packets change it.
    pub is_written: bool,
    /// Whether a packet may write it that has not read it.
    pub is_written_unread: bool,
    /// muTables of several stages between whose read and write it is, and on whose state it depends what it is
    /// asked.
    pub follows: Vec<u32>,
}

impl Use {
    /// Whether this is a second key of the object.
    pub fn is_second_key(&self) -> bool {
        !self.second_key.is_empty()
    }

    /// Whether it is written in a later stage than it is read.
    pub fn is_flow_state(&self) -> bool {
        self.is_written && self.reads != self.writes
    }

    /// This use of the object where it is read under another key.
    fn under_second_key(&self, second_key: Vec<Vec<Operand>>) -> Use {
        Use { second_key, is_written_unread: false, ..self.clone() }
    }
}

/// All that a program keeps, and which uses no pipeline can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// What the ingress uses, by the stage that looks it up.
    pub objects: Vec<Use>,
    /// What cannot be done.
    pub faults: Vec<Fault>,
    /// What is not asked in the order of arrival.
    pub overtaken: Vec<Overtaken>,
}

impl Uses {
    /// What a compiled program uses. Cost: linear in the statements, times the fields where branches meet.
    pub fn of(program: &Program) -> Uses {
        if program.layout.is_none() {
            return Uses::default();
        }
        let is_unsettled = |layout: &&Layout| u32::from(layout.stages) > MAX_LAYOUT_STAGES;
        if let Some(layout) = program.layout.as_ref().filter(is_unsettled) {
            let faults = vec![Fault::Unsettled(layout.unsettled.clone())];
            return Uses { faults, ..Uses::default() };
        }
        let mut places = Places::default();
        places.collect(program, &program.ingress);
        let found = walk::walk(program, &|object| places.is_flow_state(object));
        let mut uses = Uses { faults: found.faults, ..Uses::default() };
        for (object, place) in &places.found {
            let first = place.as_use(*object, found.blind.contains(object));
            let second = found.second_keys.get(object).map(|keys| first.under_second_key(keys.clone()));
            uses.objects.extend([first].into_iter().chain(second));
        }
        uses.objects.sort_by_key(|used| (used.reads, used.object, used.is_second_key()));
        uses.follow(&found.depends);
        uses.overtake(program, &found.order);
        uses.check_spans();
        uses.check_egress(program);
        uses
    }

    /// Finds what depends on a state within its span.
    fn follow(&mut self, depends: &HashMap<Object, u64>) {
        let spans: HashMap<u32, (u16, u16)> = self
            .objects
            .iter()
            .filter(|used| used.is_flow_state())
            .filter_map(|used| match used.object {
                Object::MuTable(table) => Some((table, (used.reads, used.writes))),
                _ => None,
            })
            .collect();
        for used in self.objects.iter_mut().filter(|used| !used.is_flow_state()) {
            let depends = depends.get(&used.object).copied().unwrap_or_default();
            let is_within = |(table, (reads, writes)): &(&u32, &(u16, u16))| {
                depends & walk::bit(**table) != 0 && (*reads..=*writes).contains(&used.reads)
            };
            used.follows = spans.iter().filter(is_within).map(|(table, _)| *table).collect();
            used.follows.sort_unstable();
        }
    }

    /// Finds what packets of one key come to in another order than they arrived in.
    fn overtake(&mut self, program: &Program, order: &walk::Order) {
        let is_weak = |object: Object| match object {
            Object::MuTable(at) => program.mu_tables[at as usize].consistency == Consistency::Weak,
            _ => false,
        };
        // Counts do not depend on the order.
        let is_shared = |used: &&Use| used.is_written && !matches!(used.object, Object::Counter(_));
        for waits in self.objects.iter().filter(|used| used.is_flow_state() && !is_weak(used.object)) {
            let behind = self.objects.iter().filter(|used| used.object != waits.object);
            for behind in behind.filter(is_shared).filter(|used| used.reads >= waits.reads) {
                let overtaken = Overtaken { waits: waits.object, behind: behind.object };
                if !is_weak(behind.object)
                    && !order.keeps(waits.object, behind.object)
                    && !self.overtaken.contains(&overtaken)
                {
                    self.overtaken.push(overtaken);
                }
            }
        }
    }

    fn check_spans(&mut self) {
        for used in &self.objects {
            if used.is_flow_state() && !matches!(used.object, Object::MuTable(_)) {
                let Use { object, reads, writes, .. } = *used;
                self.faults.push(Fault::NotARegister { object, reads, writes });
            }
        }
        let spans: Vec<&Use> = self.objects.iter().filter(|used| used.is_flow_state()).collect();
        for pair in spans.windows(2) {
            if pair[1].reads <= pair[0].writes {
                let (first, second, stage) = (pair[0].object, pair[1].object, pair[1].reads);
                self.faults.push(Fault::SpansMeet { first, second, stage });
            }
        }
    }

    fn check_egress(&mut self, program: &Program) {
        let mut found = BTreeSet::new();
        program.visit(&program.egress, &mut |kind| found.extend(Object::of(kind)));
        self.faults.extend(found.into_iter().map(Fault::InEgress));
    }
}

/// In which stages objects are used.
#[derive(Default)]
struct Places {
    found: HashMap<Object, Place>,
}

#[derive(Default)]
struct Place {
    reads: Option<u16>,
    first_write: Option<u16>,
    last_write: Option<u16>,
}

impl Place {
    fn as_use(&self, object: Object, is_written_unread: bool) -> Use {
        let reads = self.reads.or(self.first_write).unwrap_or_default();
        let writes = self.last_write.unwrap_or(reads);
        let is_written = self.last_write.is_some();
        let (second_key, follows) = (Vec::new(), Vec::new());
        Use { object, second_key, reads, writes, is_written, is_written_unread, follows }
    }
}

impl Places {
    fn is_flow_state(&self, object: Object) -> bool {
        self.found.get(&object).is_some_and(|place| place.as_use(object, false).is_flow_state())
    }

    fn collect(&mut self, program: &Program, body: &[Statement]) {
        for statement in body {
            match &statement.kind {
                StatementKind::If { then, otherwise, .. } => {
                    self.collect(program, then);
                    self.collect(program, otherwise);
                }
                StatementKind::Scope { body } => self.collect(program, body),
                StatementKind::Apply { table, .. } => {
                    for action in &program.tables[*table as usize].actions {
                        self.collect(program, &program.actions[*action as usize].body);
                    }
                }
                kind => self.note(kind, statement.stage),
            }
        }
    }

    fn note(&mut self, kind: &StatementKind, stage: u16) {
        let Some(object) = Object::of(kind) else { return };
        let place = self.found.entry(object).or_default();
        let is_counted = matches!(object, Object::Counter(_) | Object::Meter(_));
        let is_write = kind.writes_state();
        if !is_write {
            place.reads = Some(stage);
        }
        if is_write || is_counted {
            place.first_write = Some(place.first_write.map_or(stage, |first| first.min(stage)));
            place.last_write = place.last_write.max(Some(stage));
        }
    }
}

/// Notes on a compiled program: what no pipeline can do, and what RAPID cannot.
pub fn notes(program: &Program) -> Vec<String> {
    let uses = Uses::of(program);
    let mut notes: Vec<String> = uses.faults.iter().map(|fault| fault.describe(program)).collect();
    for used in uses.objects.iter().filter(|used| used.is_written) {
        for table in &used.follows {
            let (name, table) = (used.object.describe(program), Object::MuTable(*table).describe(program));
            notes.push(follows(&name, &table));
        }
    }
    notes
}

/// What a compiled program's pipeline may do in another order than that in which packets arrive.
pub fn warnings(program: &Program) -> Vec<String> {
    Uses::of(program).overtaken.iter().map(|overtaken| overtaken.describe(program)).collect()
}

/// Why a pipeline that does packets over cannot have such an object.
pub fn follows(object: &str, table: &str) -> String {
    format!(
        "{object} lies between the read and the write of {table}, which waits for it, and what it is asked depends on the \
         state read there: a packet that is done over may have asked for what was never so; ask it for every packet, \
         or write what does not depend on it"
    )
}
