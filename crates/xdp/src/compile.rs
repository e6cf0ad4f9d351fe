//! A program as C, with what is needed to feed it and to read its state.

use p4::ir::Program;

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
    /// The map of each register, bytes of a value, and how many.
    pub registers: Vec<(String, usize, u64)>,
    /// The map of each counter, and how many counts.
    pub counters: Vec<(String, u64)>,
    /// Parts of the program that are compiled with less than they have.
    pub notes: Vec<String>,
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
        c: program::text(program, strategy, &slice, &item, &shards),
        strategy,
        item,
        mu_tables: mu_tables.map(|(table, name)| TableLayout::of(table, name)).collect(),
        registers: registers
            .map(|(register, name)| {
                (name.clone(), state::bytes_of(register.width), state::places(register.size))
            })
            .collect(),
        counters: counters.map(|(counter, name)| (name.clone(), state::places(counter.size))).collect(),
        notes: open
            .map(|table| format!("table {} has the entries of its source: none can be added yet", table.name))
            .collect(),
    })
}
