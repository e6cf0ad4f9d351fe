//! Tables whose entries come from outside: what holds them in maps, what looks them up, and their bytes.
//!
//! A table lies in its map twice. User space writes all of it into the half that packets do not look at, then a number says which
//! half they look at: each packet sees a table before a change or behind it, never in between.
//!
//! | keys | how an entry is found |
//! |---|---|
//! | `exact` alone | by a hash of all keys |
//! | one `lpm`, and `exact` | by a hash for each length of a prefix, the longest first |
//! | others | one after the other, [`MAX_SCANNED`] at most |

use p4::interpret::{Machine, TableEntry};
use p4::ir::{ActionCall, KeySet, MatchKind, Program, Table, has_priorities, ones};

use crate::expression::{self, Expressions};
use crate::names::Names;
use crate::writer::Writer;

/// Entries that are compared one after the other.
pub const MAX_SCANNED: usize = 64;

/// Slots that an entry may be in.
const PROBES: usize = 8;

/// Slots for each entry.
const SLOTS_PER_ENTRY: u64 = 4;

/// Prefixes of up to 64 bits, and none.
const MAX_LENGTHS: usize = 65;

/// Seeds that are tried until each entry is in one of its slots.
const SEEDS: u64 = 1000;

/// Bytes of a word of an entry.
const WORD: usize = 8;

/// How an entry is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    Exact,
    /// The key of this number is a prefix.
    Longest(usize),
    Scan,
}

/// How a table lies in each half of its map.
#[derive(Clone, Debug)]
pub struct ControlTable {
    /// Its number in the program.
    pub table: u32,
    /// Its name in the program.
    pub shown: String,
    /// The name of its struct, and of its map without `_map`.
    pub name: String,
    /// Why it stays as it is while packets come, if it does.
    pub fixed: Option<String>,
    /// Its bytes with the entries of the source.
    pub initial: Vec<u8>,
    search: Search,
    keys: usize,
    arguments: usize,
    slots: u64,
}

/// Whether the entries of a table come from outside.
pub fn is_open(table: &Table) -> bool {
    !table.keys.is_empty() && !table.is_const
}

/// Bytes of both halves of a table.
pub fn bytes(program: &Program, table: u32) -> u64 {
    let layout = ControlTable::new(program, table, "");
    2 * (layout.head_words() + (layout.slots as usize + 1) * layout.entry_words()) as u64 * WORD as u64
}

/// A table that does not fit into its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// It has entries that are compared one after the other.
    #[error(
        "`{0}` takes {MAX_SCANNED} entries in the kernel: with a key that is matched by a mask, a range or as an option, they are \
         compared one after the other"
    )]
    Scanned(String),
    /// No seed puts each entry in one of its slots.
    #[error("`{0}` has entries of which too many have one place in the kernel")]
    Crowded(String),
}

impl ControlTable {
    /// A table of a program that [has no refusals](crate::subset::refusals).
    ///
    /// # Errors
    /// It has more entries in the source than it takes.
    pub fn of(
        program: &Program,
        names: &Names,
        table: u32,
        fixed: Option<String>,
    ) -> Result<ControlTable, NoRoom> {
        let mut layout = ControlTable::new(program, table, &names.controls[table as usize]);
        layout.fixed = fixed;
        layout.initial = layout.image(&Machine::new(program.clone()))?;
        Ok(layout)
    }

    fn new(program: &Program, table: u32, name: &str) -> ControlTable {
        let declared = &program.tables[table as usize];
        let prefix = declared.keys.iter().position(|key| key.kind == MatchKind::Lpm);
        let search = match prefix {
            _ if has_priorities(&declared.keys) => Search::Scan,
            Some(at) if declared.keys.iter().filter(|key| key.kind == MatchKind::Lpm).count() == 1 => {
                Search::Longest(at)
            }
            Some(_) => Search::Scan,
            None => Search::Exact,
        };
        let actions = declared.actions.iter().map(|action| &program.actions[*action as usize]);
        ControlTable {
            table,
            shown: declared.name.clone(),
            name: name.to_owned(),
            fixed: None,
            initial: Vec::new(),
            search,
            keys: declared.keys.len(),
            arguments: actions.map(|action| action.parameters.len()).max().unwrap_or_default(),
            slots: match search {
                Search::Scan => MAX_SCANNED as u64,
                _ => (u64::from(declared.size.max(1)) * SLOTS_PER_ENTRY).max(64).next_power_of_two(),
            },
        }
    }

    /// Words of an entry that say what it matches.
    fn key_words(&self) -> usize {
        match self.search {
            Search::Exact => self.keys,
            Search::Longest(_) => self.keys + 1,
            Search::Scan => self.keys * 3,
        }
    }

    fn entry_words(&self) -> usize {
        1 + self.key_words() + self.arguments
    }

    /// Words before the entry of what is done where nothing matches.
    fn head_words(&self) -> usize {
        2 + if matches!(self.search, Search::Longest(_)) { MAX_LENGTHS } else { 0 }
    }

    /// The bytes of a half that does what the interpreter's table does.
    ///
    /// # Errors
    /// It has more entries than there is room for.
    pub fn image(&self, machine: &Machine) -> Result<Vec<u8>, NoRoom> {
        let (program, state) = (machine.program(), machine.state());
        let declared = &program.tables[self.table as usize];
        let entries = state.entries(self.table);
        let otherwise = self.entry(declared, &[], state.default_call(self.table));
        let slots = match self.search {
            Search::Scan if entries.len() > MAX_SCANNED => return Err(NoRoom::Scanned(self.shown.clone())),
            Search::Scan => None,
            _ => Some((0..SEEDS).find_map(|seed| Some((seed, self.placed(entries, seed)?)))),
        };
        let (seed, places) = match slots {
            None => (0, (0..entries.len()).collect()),
            Some(found) => found.ok_or_else(|| NoRoom::Crowded(self.shown.clone()))?,
        };
        let mut words = vec![0; self.head_words() + (self.slots as usize + 1) * self.entry_words()];
        words[0] = seed;
        if let Search::Longest(at) = self.search {
            let mut masks: Vec<u64> = entries.iter().map(|entry| mask(&entry.keys[at])).collect();
            // The longest first: its mask is the greatest number.
            masks.sort_unstable_by(|a, b| b.cmp(a));
            masks.dedup();
            words[1] = masks.len() as u64;
            words[2..2 + masks.len()].copy_from_slice(&masks);
        }
        let mut put = |place: usize, entry: &[u64]| {
            let at = self.head_words() + place * self.entry_words();
            words[at..at + entry.len()].copy_from_slice(entry);
        };
        put(0, &otherwise);
        for (entry, place) in entries.iter().zip(places) {
            put(1 + place, &self.entry(declared, &self.matched(entry), &entry.call));
        }
        Ok(words.into_iter().flat_map(u64::to_ne_bytes).collect())
    }

    /// What is done, what is matched, and what the action is given.
    fn entry(&self, declared: &Table, matched: &[u64], call: &ActionCall) -> Vec<u64> {
        let at = declared.actions.iter().position(|action| *action == call.action).unwrap_or_default();
        let mut words = vec![1 + at as u64];
        words.extend(matched);
        words.resize(1 + self.key_words(), 0);
        words.extend(call.arguments.iter().map(|argument| argument.value as u64));
        words
    }

    /// The words by which an entry is found.
    fn matched(&self, entry: &TableEntry) -> Vec<u64> {
        let values = entry.keys.iter().map(value);
        match self.search {
            Search::Exact => values.collect(),
            Search::Longest(at) => values.chain([mask(&entry.keys[at])]).collect(),
            Search::Scan => entry.keys.iter().flat_map(bounds).collect(),
        }
    }

    /// The slot of each entry with this seed; nothing if one has none.
    fn placed(&self, entries: &[TableEntry], seed: u64) -> Option<Vec<usize>> {
        let slots = self.slots as usize;
        let mut used = vec![false; slots];
        let place = |entry: &TableEntry| {
            let hash = self.matched(entry).into_iter().fold(seed, spread) as usize;
            let free =
                (0..PROBES).map(|probe| (hash.wrapping_add(probe)) % slots).find(|slot| !used[*slot])?;
            used[free] = true;
            Some(free)
        };
        entries.iter().map(place).collect()
    }

    /// Writes the struct, its map, and the function that finds the slot of keys; past the slots where no entry matches.
    pub fn write(&self, program: &Program, out: &mut Writer<'_>) {
        let (name, slots) = (&self.name, self.slots);
        let keys = 0..self.keys;
        let declared = &program.tables[self.table as usize];
        out.line(format!("// table {}: its entries come from user space", declared.name));
        out.line(format!("struct {name}_entry {{"));
        out.line("u64 call; // 1 more than the action's place in the table; 0: no entry is here");
        match self.search {
            Search::Exact => out.line(format!("u64 key[{}];", self.keys)),
            Search::Longest(_) => out.line(format!("u64 key[{}], mask;", self.keys)),
            Search::Scan => out.line(format!("struct {{ u64 mask, low, high; }} key[{}];", self.keys)),
        }
        if self.arguments > 0 {
            out.line(format!("u64 argument[{}];", self.arguments));
        }
        out.line("};");
        out.line(format!("struct {name} {{"));
        out.line("u64 seed, lengths;");
        if let Search::Longest(_) = self.search {
            out.line(format!(
                "u64 masks[{MAX_LENGTHS}]; // of the prefixes that there are, the longest first"
            ));
        }
        out.line(format!("struct {name}_entry otherwise, slots[{slots}];"));
        out.line("};");
        out.line(format!(
            "_Static_assert(sizeof(struct {name}) == {}, \"as it is written\");",
            self.initial.len()
        ));
        out.line("struct {");
        out.line("NUMBER(type, MAP_ARRAY);");
        out.line("NUMBER(max_entries, 2); // halves");
        out.line("TYPE(key, u32);");
        out.line(format!("TYPE(value, struct {name});"));
        out.line(format!("}} {name}_map SEC(\".maps\");"));
        out.line("");
        out.line(format!("struct {name}_key {{"));
        out.line(format!("u64 key[{}];", self.keys));
        out.line("};");
        out.line(format!("APART u32 {name}_find(struct {name} *table, struct {name}_key *wanted) {{"));
        out.line("if (!table || !wanted)");
        out.line(format!("    return {slots};"));
        let entry = format!("struct {name}_entry *entry = &table->slots[slot];");
        match self.search {
            Search::Scan => {
                out.line(format!("for (u32 slot = 0; slot < {slots}; slot++) {{"));
                out.line(entry);
                out.line("if (!entry->call)");
                out.line("    break;");
                let within = keys.map(|at| {
                    let masked = format!("(wanted->key[{at}] & entry->key[{at}].mask)");
                    format!("{masked} >= entry->key[{at}].low && {masked} <= entry->key[{at}].high")
                });
                out.line(format!("if ({})", within.collect::<Vec<_>>().join(" && ")));
                out.line("    return slot;");
                out.line("}");
            }
            Search::Exact => {
                let of = |at| format!("wanted->key[{at}]");
                self.probe(keys.map(of).collect(), &entry, out);
            }
            Search::Longest(prefix) => {
                out.line(format!("for (u32 at = 0; at < {MAX_LENGTHS} && at < table->lengths; at++) {{"));
                out.line("u64 mask = table->masks[at];");
                let of = |at| match at == prefix {
                    true => format!("(wanted->key[{at}] & mask)"),
                    false => format!("wanted->key[{at}]"),
                };
                self.probe(keys.map(of).chain(["mask".to_owned()]).collect(), &entry, out);
                out.line("}");
            }
        }
        out.line(format!("return {slots};"));
        out.end();
    }

    /// Looks into all slots where an entry of these words may be.
    fn probe(&self, words: Vec<String>, entry: &str, out: &mut Writer<'_>) {
        out.line(format!("u64 hash = {};", expression::spread("table->seed", &words)));
        out.line(format!("for (u32 probe = 0; probe < {PROBES}; probe++) {{"));
        out.line(format!("u32 slot = (hash + probe) & {:#x};", self.slots - 1));
        out.line(entry);
        out.line("if (!entry->call)");
        out.line("    break;");
        let place = |at| if at < self.keys { format!("entry->key[{at}]") } else { "entry->mask".to_owned() };
        let equal: Vec<String> =
            words.iter().enumerate().map(|(at, word)| format!("{} == {word}", place(at))).collect();
        out.line(format!("if ({})", equal.join(" && ")));
        out.line("    return slot;");
        out.line("}");
    }

    /// Writes what a table's function does: it finds the entry, and calls its action of the functions that begin with `prefix`.
    pub fn apply(&self, program: &Program, names: &Names, prefix: &str, out: &mut Writer<'_>) {
        let (name, slots) = (&self.name, self.slots);
        let declared = &program.tables[self.table as usize];
        let of = Expressions { program, names };
        let keys: Vec<String> = declared.keys.iter().map(|key| of.operand(key.value)).collect();
        out.line(format!("struct {name}_key wanted = {{{{{}}}}};", keys.join(", ")));
        out.line(format!("u64 slot = {name}_find(s->{name}, &wanted);"));
        out.line(format!("struct {name}_entry *entry = &s->{name}->otherwise;"));
        out.line(format!("*hit = slot < {slots};"));
        out.line(format!("if (slot < {slots}) {{"));
        out.line(format!("BOUNDED(slot, {:#x});", slots - 1));
        out.line(format!("entry = &s->{name}->slots[slot];"));
        out.line("}");
        for (at, action) in declared.actions.iter().enumerate() {
            out.line(format!("if (entry->call == {}) {{", at + 1));
            out.line(format!("*action_run = {at};"));
            for (number, field) in program.actions[*action as usize].parameters.iter().enumerate() {
                out.line(format!("p->{} = entry->argument[{number}];", names.field(*field)));
            }
            out.line(format!("return {prefix}action_{}(p, s);", names.actions[*action as usize]));
            out.line("}");
        }
        out.line("*action_run = 0;");
        out.line("return 0;");
    }
}

/// Writes which half of each table packets look at, and what finds them.
pub fn halves(tables: &[ControlTable], out: &mut Writer<'_>) {
    if !tables.is_empty() {
        out.line("// Which half of each of these tables packets look at.");
        out.line("struct {");
        out.line("NUMBER(type, MAP_ARRAY);");
        out.line(format!("NUMBER(max_entries, {});", tables.len()));
        out.line("TYPE(key, u32);");
        out.line("TYPE(value, u32);");
        out.line("} halves_map SEC(\".maps\");");
        out.line("");
    }
    out.line("INLINE int find_tables(struct state *s) {");
    if !tables.is_empty() {
        out.line("u32 which = 0, *half;");
    }
    for (at, ControlTable { name, .. }) in tables.iter().enumerate() {
        out.line(format!("which = {at};"));
        out.line("half = map_lookup(&halves_map, &which);");
        out.line(format!("s->{name} = half ? map_lookup(&{name}_map, half) : 0;"));
        out.line(format!("if (!s->{name})"));
        out.line("    return 0;");
    }
    out.line("(void)s;");
    out.line("return 1;");
    out.end();
}

/// One step of the hash in paceline.h.
fn spread(hash: u64, key: u64) -> u64 {
    let hash = (hash ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 32
}

fn value(set: &KeySet) -> u64 {
    match set {
        KeySet::Masked { value, mask } => (value.value & mask.value) as u64,
        KeySet::Range { low, .. } => low.value as u64,
    }
}

fn mask(set: &KeySet) -> u64 {
    match set {
        KeySet::Masked { mask, .. } => mask.value as u64,
        KeySet::Range { low, .. } => ones(low.width) as u64,
    }
}

/// Mask, least and greatest value.
fn bounds(set: &KeySet) -> [u64; 3] {
    match set {
        KeySet::Masked { .. } => [mask(set), value(set), value(set)],
        KeySet::Range { low, high } => [mask(set), low.value as u64, high.value as u64],
    }
}
