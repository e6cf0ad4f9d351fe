//! State as C: a struct for each muTable, register and counter, which is the value of an array map, one for each replica.
//!
//! A muTable is a hash table without a bucket's pointer: an entry is in one of [`PROBES`] slots behind the one that its
//! keys hash to, in a table of four times its size. It never forgets an entry, so the first free slot ends a search.

use p4::ir::{Matching, MuTable, Object, Program};

use crate::addition::Additions;
use crate::expression::spread;
use crate::names::{self, Names};
use crate::strategy::Strategy;
use crate::table::{self, ControlTable};
use crate::writer::Writer;

/// Slots that an entry may be in.
pub const PROBES: u32 = 32;

/// Slots for each entry: with a quarter of them used, 32 in a row are used once in 10^9 insertions.
const SLOTS_PER_ENTRY: u64 = 4;

/// A member of a struct.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name in C.
    pub name: String,
    /// Its bytes: 1, 2, 4 or 8.
    pub bytes: usize,
    /// Where it is.
    pub offset: usize,
}

/// How a muTable lies in memory.
#[derive(Clone, Debug)]
pub struct TableLayout {
    /// The name of its map and its struct.
    pub name: String,
    /// Keys in the order of the program.
    pub keys: Vec<Member>,
    /// Values in the order of the program.
    pub values: Vec<Member>,
    /// Says whether an entry is in use.
    pub used: Member,
    /// Bytes of an entry.
    pub entry_bytes: usize,
    /// Places for entries.
    pub slots: u64,
    /// The members of an entry as they lie.
    members: Vec<Member>,
}

/// Bytes before the slots: entries in use, writes that were refused, those refused before the table was full.
pub const TABLE_HEAD_BYTES: usize = 24;

impl TableLayout {
    /// How a table lies in memory: widest members first, so that none of them needs padding before it.
    pub fn of(table: &MuTable, name: &str) -> TableLayout {
        let columns = || table.keys.iter().chain(&table.values);
        let names = names::all(columns().map(|column| &*column.name).chain(["in_use"]));
        let widths = columns().map(|column| bytes_of(column.width)).chain([1]);
        let mut members: Vec<(usize, Member)> = names
            .into_iter()
            .zip(widths)
            .map(|(name, bytes)| Member { name, bytes, offset: 0 })
            .enumerate()
            .collect();
        members.sort_by_key(|(_, member)| std::cmp::Reverse(member.bytes));
        let mut offset = 0;
        for (_, member) in &mut members {
            member.offset = offset;
            offset += member.bytes;
        }
        let align = members.first().map_or(1, |(_, member)| member.bytes);
        let (keys, values) = (table.keys.len(), table.values.len());
        let find = |wanted: usize| {
            let found = members.iter().find(|(at, _)| *at == wanted).map(|(_, member)| member.clone());
            found.unwrap_or(Member { name: String::new(), bytes: 1, offset: 0 })
        };
        let slots = match table.matching {
            Matching::Direct => places(table.size),
            _ => (u64::from(table.size.max(1)) * SLOTS_PER_ENTRY).max(PROBES.into()).next_power_of_two(),
        };
        TableLayout {
            name: name.to_owned(),
            keys: (0..keys).map(find).collect(),
            values: (keys..keys + values).map(find).collect(),
            used: find(keys + values),
            entry_bytes: offset.next_multiple_of(align),
            slots,
            members: members.into_iter().map(|(_, member)| member).collect(),
        }
    }

    /// Bytes of the whole table in one replica.
    pub fn bytes(&self) -> usize {
        (TABLE_HEAD_BYTES + self.slots as usize * self.entry_bytes).next_multiple_of(8)
    }
}

/// Bytes of a number of so many bits in memory.
pub fn bytes_of(width: u32) -> usize {
    (width.div_ceil(8) as usize).next_power_of_two().min(8)
}

/// Bytes of a value of a register. The kernel adds to words of 4 and of 8 bytes.
pub fn register_bytes(register: u32, width: u32, additions: &Additions) -> usize {
    let bytes = bytes_of(width);
    if additions.added.contains_key(&register) { bytes.max(4) } else { bytes }
}

/// Places of an array of so many, as there are in memory: a power of two, so that a mask bounds an index.
pub fn places(size: u32) -> u64 {
    u64::from(size.max(1)).next_power_of_two()
}

fn c_type(bytes: usize) -> String {
    format!("u{}", bytes * 8)
}

/// Bytes that each object takes in one replica.
pub fn bytes(program: &Program) -> Vec<(Object, u64)> {
    let tables = (0..)
        .zip(&program.mu_tables)
        .map(|(at, table)| (Object::MuTable(at), TableLayout::of(table, "").bytes() as u64));
    let registers = (0..).zip(&program.registers).map(|(at, register)| {
        (Object::Register(at), places(register.size) * bytes_of(register.width) as u64)
    });
    let counters =
        (0..).zip(&program.counters).map(|(at, counter)| (Object::Counter(at), places(counter.size) * 16));
    tables.chain(registers).chain(counters).collect()
}

/// Writes the structs, maps and functions of all state and of tables from outside, and `struct state`, which points to those of one
/// replica.
pub fn write(
    program: &Program,
    names: &Names,
    strategy: Strategy,
    additions: &Additions,
    controls: &[ControlTable],
    out: &mut Writer<'_>,
) {
    controls.iter().for_each(|table| table.write(program, out));
    for (table, name) in program.mu_tables.iter().zip(&names.mu_tables) {
        mu_table(table, &TableLayout::of(table, name), strategy, out);
    }
    for (at, (register, name)) in (0..).zip(program.registers.iter().zip(&names.registers)) {
        let bytes = register_bytes(at, register.width, additions);
        out.line(format!("// register {} ({})", register.name, register.mentions.declared));
        out.line(format!("struct {name} {{"));
        out.line(format!("{} values[{}];", c_type(bytes), places(register.size)));
        out.line("};");
        map(name, out);
    }
    for (counter, name) in program.counters.iter().zip(&names.counters) {
        out.line(format!("// counter {} ({}): own packets only", counter.name, counter.mentions.declared));
        out.line(format!("struct {name} {{"));
        out.line(format!("struct {{ u64 packets, bytes; }} counts[{}];", places(counter.size)));
        out.line("};");
        map(name, out);
    }
    progress(out);
    let all = || names.mu_tables.iter().chain(&names.registers).chain(&names.counters);
    let is_shared = strategy == Strategy::Shared;
    let is_locked = additions.needs_lock;
    if is_locked {
        out.line("// What all state is under, and how many packets have had it: their order.");
        out.line("struct turns {");
        out.line("struct bpf_spin_lock lock;");
        out.line("u64 taken;");
        out.line("};");
        map("turns", out);
    }
    out.line("// The state of one replica.");
    out.line("struct state {");
    all().for_each(|name| out.line(format!("struct {name} *{name};")));
    controls.iter().for_each(|ControlTable { name, .. }| out.line(format!("struct {name} *{name};")));
    if is_locked {
        out.line("struct turns *turns;");
    }
    out.line("struct progress *progress;");
    out.line("};");
    out.line("");
    table::halves(controls, out);
    out.line("INLINE int find_state(struct state *s, u32 replica) {");
    let found: Vec<&str> =
        all().map(String::as_str).chain(is_locked.then_some("turns")).chain(["progress"]).collect();
    if is_shared {
        out.line("u32 first = 0;");
    }
    for name in &found {
        let which = if is_shared && *name != "progress" { "first" } else { "replica" };
        out.line(format!("s->{name} = map_lookup(&{name}_map, &{which});"));
    }
    let each: Vec<_> = found.iter().map(|name| format!("s->{name}")).collect();
    out.line(format!("return {} && find_tables(s);", each.join(" && ")));
    out.end();
}

fn progress(out: &mut Writer<'_>) {
    out.line("// How far a replica is: the number of the packet that it expects next, packets that it stepped on without, its own");
    out.line("// packets behind a cpumap, those of them that it sent; items that it took from logs of others, packets that");
    out.line("// no replica knows of, own packets that were dropped, because one before them was not settled yet, and those that");
    out.line("// were sent behind a later one. Of its own packets, too: their bytes, those sent by the port by which they came, those");
    out.line("// dropped for want of an interface at their port, those that the full queue of its CPU lost, and the number of the next.");
    out.line("struct progress {");
    out.line("u64 next, missed, packets, sent, recovered, nobody, waited, inversions;");
    out.line("u64 bytes, back, no_port, lost, turn, unused[3]; // two lines of the cache, which no other CPU writes");
    out.line("};");
    map("progress", out);
}

/// Writes what each CPU counts of each port of the program.
pub fn traffic(out: &mut Writer<'_>) {
    out.line("// What came and left by a port of the program, on one CPU; packets that came and had no room for a header.");
    out.line("struct traffic {");
    out.line("u64 came, came_bytes, left, left_bytes, no_room;");
    out.line("};");
    out.line("struct {");
    out.line("NUMBER(type, MAP_PERCPU_ARRAY);");
    out.line("NUMBER(max_entries, DROP_PORT);");
    out.line("TYPE(key, u32);");
    out.line("TYPE(value, struct traffic);");
    out.line("} traffic_map SEC(\".maps\");");
    out.line("");
    out.line("INLINE struct traffic *traffic_of(u32 port) { return map_lookup(&traffic_map, &port); }");
    out.line("");
}

/// Writes an array map of structs of this name.
pub fn map(name: &str, out: &mut Writer<'_>) {
    map_of(name, &["NUMBER(type, MAP_ARRAY);"], out);
}

/// Writes a map of structs of this name that has such members, too.
fn map_of(name: &str, members: &[&str], out: &mut Writer<'_>) {
    out.line("struct {");
    members.iter().for_each(|member| out.line(member));
    out.line("NUMBER(max_entries, 1); // replicas: set where it is loaded");
    out.line("TYPE(key, u32);");
    out.line(format!("TYPE(value, struct {name});"));
    out.line(format!("}} {name}_map SEC(\".maps\");"));
    out.line("");
}

fn mu_table(table: &MuTable, layout: &TableLayout, strategy: Strategy, out: &mut Writer<'_>) {
    let (name, used) = (&layout.name, &layout.used.name);
    out.line(format!("// muTable {} ({})", table.name, table.mentions.declared));
    out.line(format!("struct {name}_entry {{"));
    layout.members.iter().for_each(|member| out.line(format!("{} {};", c_type(member.bytes), member.name)));
    out.line("};");
    out.line(format!("struct {name} {{"));
    out.line("u64 entries; // in use");
    out.line("u64 refused; // writes that found no room");
    out.line("u64 crowded; // of these, before the table was full: their slots were");
    out.line(format!("struct {name}_entry slots[{}];", layout.slots));
    out.line("};");
    out.line(format!(
        "_Static_assert(sizeof(struct {name}_entry) == {}, \"as it is read back\");",
        layout.entry_bytes
    ));
    // User space reads the first words of a table where they are: a look-up would copy all of it.
    map_of(name, &["NUMBER(type, MAP_ARRAY);", "NUMBER(map_flags, MAP_MMAPABLE);"], out);
    find(table, layout, out);
    let columns =
        |members: &[Member]| members.iter().map(|member| format!("u64 {}", member.name)).collect::<Vec<_>>();
    let parameters = [columns(&layout.keys), columns(&layout.values)].concat().join(", ");
    let keys: Vec<_> = layout.keys.iter().map(|member| member.name.clone()).collect();
    let equal: Vec<_> = keys.iter().map(|key| format!("entry->{key} == {key}")).collect();
    out.line("// `read` is 1 more than the slot that was read with these keys, or 0.");
    out.line(format!("INLINE void {name}_write(struct {name} *table, u64 read, {parameters}) {{"));
    out.line(format!("struct {name}_entry *entry = {name}_at(table, read - 1);"));
    match strategy {
        Strategy::Shared => {
            out.line("// Another packet may have come into it since.");
            out.line(format!("if (!entry || (entry->{used} && !({})))", equal.join(" && ")));
        }
        // One packet at a time has this state.
        Strategy::Sharded | Strategy::Scr => out.line("if (!entry)"),
    }
    out.line(format!("    entry = {name}_at(table, {name}_find(table, {}));", keys.join(", ")));
    if table.matching == Matching::Direct {
        out.line("// Past the end of an array nothing is written.");
        out.line("if (!entry)");
        out.line("    return;");
    } else {
        out.line(format!("if (!entry || (!entry->{used} && table->entries >= {})) {{", table.size));
        out.line("table->refused++;");
        out.line(format!("table->crowded += table->entries < {};", table.size));
        out.line("return;");
        out.line("}");
    }
    out.line(format!("if (!entry->{used}) {{"));
    layout.keys.iter().for_each(|key| out.line(format!("entry->{0} = {0};", key.name)));
    out.line(format!("entry->{used} = 1;"));
    out.line("table->entries++;");
    out.line("}");
    layout.values.iter().for_each(|value| out.line(format!("entry->{0} = {0};", value.name)));
    out.end();
}

/// The slot of keys, or the free one where they would be; past the slots if there is neither.
fn find(table: &MuTable, layout: &TableLayout, out: &mut Writer<'_>) {
    let (name, slots) = (&layout.name, layout.slots);
    let keys: Vec<_> = layout.keys.iter().map(|key| key.name.as_str()).collect();
    let parameters = keys.iter().map(|key| format!("u64 {key}")).collect::<Vec<_>>().join(", ");
    out.line(format!("INLINE struct {name}_entry *{name}_at(struct {name} *table, u64 slot) {{"));
    out.line(format!("if (slot >= {slots})"));
    out.line("    return 0;");
    out.line(format!("BOUNDED(slot, {:#x});", slots - 1));
    out.line("return &table->slots[slot];");
    out.end();
    if let (Matching::Direct, Some(key)) = (table.matching, keys.first()) {
        out.line(format!("INLINE u64 {name}_find(struct {name} *table, {parameters}) {{"));
        out.line(format!("return {key} < {} ? {key} : {slots};", table.size));
        return out.end();
    }
    out.line(format!("struct {name}_key {{"));
    keys.iter().for_each(|key| out.line(format!("u64 {key};")));
    out.line("};");
    out.line(format!("APART u32 {name}_slot(struct {name} *table, struct {name}_key *key) {{"));
    out.line("if (!table || !key)");
    out.line(format!("    return {slots};"));
    out.line(format!("u64 at = {};", place(&layout.keys, "key->", slots)));
    out.line(format!("for (u32 probe = 0; probe < {PROBES}; probe++) {{"));
    out.line(format!("u32 slot = (at + probe) & {:#x};", slots - 1));
    out.line(format!("struct {name}_entry *entry = &table->slots[slot];"));
    let equal: Vec<_> = keys.iter().map(|key| format!("entry->{key} == key->{key}")).collect();
    out.line(format!("if (!entry->{} || ({}))", layout.used.name, equal.join(" && ")));
    out.line("    return slot;");
    out.line("}");
    out.line(format!("return {slots};"));
    out.end();
    out.line(format!("INLINE u64 {name}_find(struct {name} *table, {parameters}) {{"));
    let hash = place(&layout.keys, "", slots);
    out.line("// Most keys are where they hash to, or nowhere.");
    out.line(format!("u64 slot = {hash} & {:#x};", slots - 1));
    out.line(format!("struct {name}_entry *entry = &table->slots[slot];"));
    let equal: Vec<_> = keys.iter().map(|key| format!("entry->{key} == {key}")).collect();
    out.line(format!("if (!entry->{} || ({}))", layout.used.name, equal.join(" && ")));
    out.line("    return slot;");
    out.line(format!("struct {name}_key key = {{{}}};", keys.join(", ")));
    out.line(format!("return {name}_slot(table, &key);"));
    out.end();
}

/// Where keys hash to: one step for as many of them as fit in 64 bits. A step carries what differs in the highest bits of its word to
/// the slots only if these bits are few, and so does another step behind it.
fn place(keys: &[Member], prefix: &str, slots: u64) -> String {
    let (mut words, mut bits) = (Vec::<String>::new(), 64);
    for Member { name, bytes, .. } in keys {
        let width = 8 * bytes;
        bits += width;
        match words.last_mut() {
            Some(word) if bits <= 64 => *word = format!("({word} << {width} | {prefix}{name})"),
            _ => {
                words.push(format!("{prefix}{name}"));
                bits = width;
            }
        }
    }
    if bits > 32 + slots.ilog2() as usize / 2 {
        words.push("0".to_owned());
    }
    spread("seed", words)
}
