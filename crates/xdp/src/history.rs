//! What a replica has to know of other replicas' packets: *f(p)* of SCR's §3, found by a slice of the program.
//!
//! The slice holds what state is written from: the writes, what they read, what that is computed from, and under which
//! conditions. Fields that it reads and that the parser or the architecture sets are the item of a packet.

use std::collections::BTreeSet;

use sequencer::{NAMED_HEADER_LEN, NamedFront, NamedLayout};
use wire::Stamp;

use p4::ir::{FieldId, FieldKind, Program, Standard, Statement, StatementKind};

use crate::writer::Writer;

/// Bytes of the header before the ring of items.
pub const HEADER_BYTES: usize = NAMED_HEADER_LEN;

/// Items in a ring at most: there is a replica for each of them, and one more. It is a mask of 4 bits, too.
pub const MAX_RING_ITEMS: u32 = 15;

/// A field of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which field of the program.
    pub field: FieldId,
    /// Its name in the program.
    pub name: String,
    /// Its bits.
    pub width: u32,
    /// Where it is in an item, in bytes.
    pub offset: usize,
    /// Its bytes in an item, big-endian.
    pub bytes: usize,
}

/// What is told of a packet to replicas that do not get it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// Its fields, in the order of the program's declarations.
    pub parts: Vec<Part>,
    /// Its bytes, 1 at least.
    pub bytes: usize,
}

impl Item {
    /// How the format has it.
    pub fn named(&self) -> NamedLayout {
        NamedLayout::new(self.parts.iter().map(|part| (&*part.name, part.width)))
    }

    /// The layout's name: `hdr.ipv4.src_addr:32 hdr.tcp.dst_port:16`.
    pub fn layout(&self) -> String {
        self.named().text()
    }

    /// The layout's number in the header.
    pub fn number(&self) -> u64 {
        self.named().number()
    }

    /// The item of a packet whose fields have these values before the ingress.
    pub fn of(&self, values: &[u128]) -> Vec<u8> {
        let value = |part: &Part| values.get(part.field as usize).copied().unwrap_or_default();
        let named = self.named();
        let mut item = vec![0; named.item_len()];
        named.write(self.parts.iter().map(value), &mut item);
        item.truncate(self.bytes);
        item
    }
}

/// Where a packet stands in the stream, and who gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number, from 0.
    pub sequence: u64,
    /// When it came, in ns.
    pub time_ns: u64,
    /// The replica that gets it.
    pub replica: u16,
    /// The port by which it came.
    pub port: u16,
    /// Whether no packet follows: then the number is that of the next one.
    pub is_flush: bool,
}

/// Writes what reads the numbers of a history's header at `data` into `h`.
pub fn header_fields(out: &mut Writer<'_>) {
    out.line("h->sequence = be64(data + 8);");
    out.line("h->time_ns = be64(data + 16);");
    out.line("h->ring_items = be16(data + 34);");
    out.line("h->count = be16(data + 36);");
    out.line("h->oldest = be16(data + 38);");
    out.line("h->replica = be16(data + 40);");
    out.line("h->port = be16(data + 42);");
}

/// The history before a packet as bytes, of version 3 ([`sequencer::NamedFront`]): header and ring. `ring` has its slots one after
/// the other, `count` of them valid. Where items have no bytes there is the header alone.
pub fn prefix(item: &Item, arrival: Arrival, ring: &[u8], count: u16) -> Vec<u8> {
    let stamp = Stamp { seq: arrival.sequence, time_ns: arrival.time_ns };
    let front =
        NamedFront { stamp, core: arrival.replica, port: arrival.port, turn: 0, is_flush: arrival.is_flush };
    let mut bytes = vec![0; HEADER_BYTES + ring.len()];
    let layout = item.named();
    match item.bytes {
        0 => front.write_bare(layout.number(), &mut bytes),
        _ => front.write(&layout, ring, count.into(), &mut bytes),
    };
    bytes
}

/// The part of a program that state, or some fields, depend on.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    fields: BTreeSet<FieldId>,
    /// Whether it has the writes of state.
    is_of_state: bool,
}

impl Slice {
    /// The slice of a program's ingress. Cost: the statements times the fields that state depends on.
    pub fn of(program: &Program) -> Slice {
        Slice { is_of_state: true, ..Slice::default() }.grown(program)
    }

    /// The slice of a program's ingress that computes these fields. Cost: as of [`Slice::of`].
    pub fn of_fields(program: &Program, fields: &BTreeSet<FieldId>) -> Slice {
        Slice { fields: fields.clone(), is_of_state: false }.grown(program)
    }

    fn grown(mut self, program: &Program) -> Slice {
        loop {
            let before = self.fields.len();
            self.grow(program, &program.ingress);
            if self.fields.len() == before {
                return self;
            }
        }
    }

    /// Whether it looks something up in a table.
    pub fn applies(&self, program: &Program, wanted: u32) -> bool {
        self.has(
            program,
            &program.ingress,
            &|kind| matches!(kind, StatementKind::Apply { table, .. } if *table == wanted),
        )
    }

    /// Whether it reads state.
    pub fn reads_state(&self, program: &Program) -> bool {
        self.has(program, &program.ingress, &|kind| {
            matches!(kind, StatementKind::MuRead { .. } | StatementKind::RegisterRead { .. })
        })
    }

    /// Whether any statement that it keeps of these is such a one.
    fn has(&self, program: &Program, body: &[Statement], is_such: &dyn Fn(&StatementKind) -> bool) -> bool {
        let mut kept = body.iter().filter(|statement| self.keeps(program, statement));
        kept.any(|statement| match &statement.kind {
            StatementKind::If { then, otherwise, .. } => {
                self.has(program, then, is_such) || self.has(program, otherwise, is_such)
            }
            StatementKind::Scope { body } => self.has(program, body, is_such),
            StatementKind::Apply { table, .. } => {
                let actions = &program.tables[*table as usize].actions;
                is_such(&statement.kind)
                    || actions
                        .iter()
                        .any(|action| self.has(program, &program.actions[*action as usize].body, is_such))
            }
            kind => is_such(kind),
        })
    }

    /// Whether replay has to do a statement.
    pub fn keeps(&self, program: &Program, statement: &Statement) -> bool {
        let any = |body: &[Statement]| body.iter().any(|statement| self.keeps(program, statement));
        match &statement.kind {
            // What ends a block or an action decides on all behind it.
            StatementKind::Leave | StatementKind::Exit => true,
            StatementKind::If { then, otherwise, .. } => any(then) || any(otherwise),
            StatementKind::Scope { body } => any(body),
            StatementKind::Apply { table, hit, action_run } => {
                let actions = &program.tables[*table as usize].actions;
                let mut actions = actions.iter().map(|action| &program.actions[*action as usize]);
                let told = hit.iter().chain(action_run).any(|field| self.fields.contains(field));
                told || actions.any(|action| {
                    any(&action.body) || action.parameters.iter().any(|field| self.fields.contains(field))
                })
            }
            kind => {
                let mut is_read = false;
                kind.writes(program, &mut |field| is_read |= self.fields.contains(&field));
                is_read || (self.is_of_state && kind.writes_state())
            }
        }
    }

    /// The item of a packet.
    pub fn item(&self, program: &Program) -> Item {
        let inputs = inputs(program);
        let mut item = Item::default();
        for field in self.fields.iter().filter(|field| inputs.contains(field)) {
            let declared = &program.fields[*field as usize];
            let bytes = declared.width.div_ceil(8) as usize;
            let (name, width, offset) = (declared.name.clone(), declared.width, item.bytes);
            item.parts.push(Part { field: *field, name, width, offset, bytes });
            item.bytes += bytes;
        }
        // That a packet came is something, too.
        item.bytes = item.bytes.max(1);
        item
    }

    fn grow(&mut self, program: &Program, body: &[Statement]) {
        for statement in body {
            if !self.keeps(program, statement) {
                continue;
            }
            let fields = &mut self.fields;
            statement.kind.reads(program, &mut |field| _ = fields.insert(field));
            match &statement.kind {
                StatementKind::If { then, otherwise, .. } => {
                    self.grow(program, then);
                    self.grow(program, otherwise);
                }
                StatementKind::Scope { body } => self.grow(program, body),
                StatementKind::Apply { table, .. } => {
                    for action in &program.tables[*table as usize].actions {
                        self.grow(program, &program.actions[*action as usize].body);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Fields that may be anything but 0 before the ingress: what parser, checksums and architecture set.
fn inputs(program: &Program) -> BTreeSet<FieldId> {
    let Standard { ingress_port, packet_length, ingress_global_timestamp, parser_error, .. } =
        program.standard;
    let mut inputs = BTreeSet::from([ingress_port, packet_length, ingress_global_timestamp, parser_error]);
    let bodies = program.parser.iter().map(|state| &state.body).chain([&program.verify_checksum]);
    for body in bodies {
        program.visit_writes(body, &mut |field| _ = inputs.insert(field));
    }
    debug_assert!(inputs.iter().all(|field| program.fields[*field as usize].kind != FieldKind::Renamed));
    inputs
}
