//! A program as C, with what is needed to feed it and to read its state.

use p4::ir::{Program, SourcePlace};

use crate::addition::Additions;
use crate::history::{Item, Slice};
use crate::names::Names;
use crate::program;
use crate::shard::Shards;
use crate::state::{self, TableLayout};
use crate::strategy::Strategy;
use crate::subset::{self, Refusal};
use crate::table::{ControlTable, is_open};

/// A program as C.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The program's name, without `.p4`.
    pub name: String,
    /// What was compiled.
    pub program: Program,
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
    /// The tables whose entries come from outside.
    pub controls: Vec<ControlTable>,
    /// The map of each counter, and how many counts.
    pub counters: Vec<(String, u64)>,
    /// Whether a packet has the state to itself, under a lock; never but with [`Strategy::Shared`].
    pub is_locked: bool,
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

/// Why a table stays where replicas step each other's packets.
const DECIDES_STATE: &str = "state depends on it, and replicas step a packet at different times: with a change between, their states \
     would differ. Give its entries before the run, or use strategy shared";

/// Why a table stays where it says to which shard packets go.
const MOVES_SHARDS: &str = "it says to which core packets go, and their state would stay behind. Give its entries before the run, or \
     use strategy shared";

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
    let whole = program;
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
    let decides = match strategy {
        Strategy::Sharded => shards.slice.as_ref().map(|slice| (slice, MOVES_SHARDS)),
        Strategy::Shared => None,
        Strategy::Scr => Some((&slice, DECIDES_STATE)),
    };
    let fixed = |table: u32| {
        decides.filter(|(slice, _)| slice.applies(program, table)).map(|(_, why)| why.to_owned())
    };
    let open = (0..).zip(&program.tables).filter(|(_, table)| is_open(table));
    let controls = open.map(|(at, _)| ControlTable::of(program, &names, at, fixed(at)));
    let controls = controls.collect::<Result<Vec<_>, _>>().map_err(|error| {
        vec![Refusal { place: SourcePlace::default(), text: String::new(), message: error.to_string() }]
    })?;
    Ok(Compiled {
        name: program.name.trim_end_matches(".p4").to_owned(),
        program: whole.clone(),
        c: program::text(program, strategy, &slice, &item, &shards, &additions, &controls),
        controls,
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
    })
}
