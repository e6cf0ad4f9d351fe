//! A program as C, with what is needed to feed it and to read its state.

use p4::ir::Program;

use crate::addition::Additions;
use crate::history::{Item, Slice};
use crate::names::Names;
use crate::program;
use crate::shard::Shards;
use crate::state::{self, TableLayout};
use crate::strategy::Strategy;
use crate::subset::{self, Refusal};

/// A program as C.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The program's name, without `.p4`.
    pub name: String,
    /// The C.
    pub c: String,
    /// How state is divided among cores.
    pub strategy: Strategy,
    /// What replicas are told of a packet; nothing but with [`Strategy::Scr`].
    pub item: Item,
    /// How each muTable lies in its map.
    pub mu_tables: Vec<TableLayout>,
    /// How each register lies in its map.
    pub registers: Vec<RegisterLayout>,
    /// The map of each counter, and how many counts.
    pub counters: Vec<(String, u64)>,
    /// Whether a packet has the state to itself, under a lock; never but with [`Strategy::Shared`].
    pub is_locked: bool,
    /// Parts of the program that are compiled with less than they have.
    pub notes: Vec<String>,
}

/// How a register lies in memory.
#[derive(Clone, Debug)]
pub struct RegisterLayout {
    /// The name of its map and its struct.
    pub name: String,
    /// Bits of a value. Those past them mean nothing.
    pub width: u32,
    /// Bytes of a value.
    pub bytes: usize,
    /// Places for values.
    pub places: u64,
}

/// Files that the C includes: name and text.
pub const HEADERS: [(&str, &str); 2] =
    [("bpf.h", live::xdp::BPF_HEADER), ("paceline.h", include_str!("paceline.h"))];

/// A program as C. Cost: its statements times the fields that its state depends on.
///
/// # Errors
/// Everything that it has and that is not compiled, with places.
pub fn compile(program: &Program, strategy: Strategy) -> Result<Compiled, Vec<Refusal>> {
    let refusals = subset::refusals(program, strategy);
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let shards = match strategy {
        Strategy::Sharded => Shards::of(program).map_err(|refusal| vec![refusal])?,
        Strategy::Shared | Strategy::Scr => Shards::default(),
    };
    let (ordered, additions) = match strategy {
        Strategy::Shared => Additions::of(program),
        Strategy::Sharded | Strategy::Scr => (program.clone(), Additions::default()),
    };
    let program = &ordered;
    let slice = Slice::of(program);
    let item = match strategy {
        Strategy::Sharded | Strategy::Shared => Item::default(),
        Strategy::Scr => slice.item(program),
    };
    let names = Names::of(program);
    let registers = program.registers.iter().zip(&names.registers);
    let counters = program.counters.iter().zip(&names.counters);
    let mu_tables = program.mu_tables.iter().zip(&names.mu_tables);
    let open = program.tables.iter().filter(|table| !table.keys.is_empty() && !table.is_const);
    Ok(Compiled {
        name: program.name.trim_end_matches(".p4").to_owned(),
        c: program::text(program, strategy, &slice, &item, &shards, &additions),
        strategy,
        item,
        mu_tables: mu_tables.map(|(table, name)| TableLayout::of(table, name)).collect(),
        registers: (0..)
            .zip(registers)
            .map(|(at, (register, name))| RegisterLayout {
                name: name.clone(),
                width: register.width,
                bytes: state::register_bytes(at, register.width, &additions),
                places: state::places(register.size),
            })
            .collect(),
        counters: counters.map(|(counter, name)| (name.clone(), state::places(counter.size))).collect(),
        is_locked: additions.needs_lock,
        notes: open
            .map(|table| format!("table {} has the entries of its source: none can be added yet", table.name))
            .collect(),
    })
}
