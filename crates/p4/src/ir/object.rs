//! What keeps state from packet to packet.

use super::{Mentions, Program, SourcePlace, StatementKind};

/// Uses of an object that are named at most.
const MAX_PLACES: usize = 6;

/// Something that keeps state, as an index in the list of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Object {
    /// A muTable.
    MuTable(u32),
    /// A register.
    Register(u32),
    /// A counter.
    Counter(u32),
    /// A meter.
    Meter(u32),
}

impl Object {
    /// Which object a statement uses, if it uses one.
    pub fn of(kind: &StatementKind) -> Option<Object> {
        match *kind {
            StatementKind::MuRead { table, .. } | StatementKind::MuWrite { table, .. } => {
                Some(Object::MuTable(table))
            }
            StatementKind::RegisterRead { register, .. } | StatementKind::RegisterWrite { register, .. } => {
                Some(Object::Register(register))
            }
            StatementKind::Count { counter, .. } => Some(Object::Counter(counter)),
            StatementKind::ExecuteMeter { meter, .. } => Some(Object::Meter(meter)),
            _ => None,
        }
    }

    /// What it is, its name in the program, and where it is declared.
    pub fn describe(self, program: &Program) -> String {
        let (kind, name) = match self {
            Object::MuTable(at) => ("muTable", &program.mu_tables[at as usize].name),
            Object::Register(at) => ("register", &program.registers[at as usize].name),
            Object::Counter(at) => ("counter", &program.counters[at as usize].name),
            Object::Meter(at) => ("meter", &program.meters[at as usize].name),
        };
        match &self.mentions(program).declared {
            SourcePlace { line: 0, .. } => format!("{kind} {name}"),
            declared => format!("{kind} {name} ({declared})"),
        }
    }

    /// What it is, as [`describe`](Object::describe) says it, and where the program uses it.
    pub fn describe_uses(self, program: &Program) -> String {
        let used = &self.mentions(program).used;
        let places: Vec<String> = used.iter().take(MAX_PLACES).map(SourcePlace::to_string).collect();
        let more = if used.len() > MAX_PLACES { ", ..." } else { "" };
        match places.is_empty() {
            true => self.describe(program),
            false => format!("{}, used at {}{more},", self.describe(program), places.join(", ")),
        }
    }

    /// Where the program names it.
    pub fn mentions(self, program: &Program) -> &Mentions {
        match self {
            Object::MuTable(at) => &program.mu_tables[at as usize].mentions,
            Object::Register(at) => &program.registers[at as usize].mentions,
            Object::Counter(at) => &program.counters[at as usize].mentions,
            Object::Meter(at) => &program.meters[at as usize].mentions,
        }
    }

    pub(crate) fn mentions_mut(self, program: &mut Program) -> &mut Mentions {
        match self {
            Object::MuTable(at) => &mut program.mu_tables[at as usize].mentions,
            Object::Register(at) => &mut program.registers[at as usize].mentions,
            Object::Counter(at) => &mut program.counters[at as usize].mentions,
            Object::Meter(at) => &mut program.meters[at as usize].mentions,
        }
    }
}
