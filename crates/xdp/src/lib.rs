//! A compiler from programs in P4 to XDP programs in C, and what tries them out in the kernel.
//!
//! | module | what it is |
//! |---|---|
//! | [`compile`] | a program as C, if all that it has is in the [subset] |
//! | [`history`] | what replicas are told of packets that they do not get, and its bytes before a packet |
//! | [`state`] | how tables and registers lie in maps |
//! | [`clang`] | C to an object |
//! | [`load`] | an object in the kernel: packets by `BPF_PROG_TEST_RUN`, state read back from maps |
//!
//! docs/xdp.md says what is compiled and what is not.

mod body;
pub mod clang;
mod expression;
pub mod history;
pub mod load;
mod map;
mod names;
mod parse;
mod program;
pub mod state;
pub mod subset;
mod writer;

use std::fmt;
use std::str::FromStr;

use p4::ir::Program;

use history::{Item, Slice};
use names::Names;
use state::TableLayout;
pub use subset::Refusal;

/// How a program's state is divided among cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Each core has the flows that come to it.
    Sharded,
    /// Each core has all flows, and replays what it does not get (State-Compute Replication, NSDI'25).
    Scr,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Strategy::Sharded => "sharded",
            Strategy::Scr => "scr",
        })
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Strategy, String> {
        match text {
            "sharded" => Ok(Strategy::Sharded),
            "scr" => Ok(Strategy::Scr),
            "shared" => Err("`shared` is not compiled to XDP yet: `sharded` and `scr` are".to_owned()),
            _ => Err("a strategy of XDP programs is `sharded` or `scr`".to_owned()),
        }
    }
}

/// A program as C.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The program's name, without `.p4`.
    pub name: String,
    /// The C.
    pub c: String,
    /// What replicas are told of a packet; nothing for [`Strategy::Sharded`].
    pub item: Item,
    /// How each muTable lies in its map.
    pub mu_tables: Vec<TableLayout>,
    /// The map of each register, bytes of a value, and how many.
    pub registers: Vec<(String, usize, u32)>,
    /// The map of each counter, and how many counts.
    pub counters: Vec<(String, u32)>,
    /// What of the program is compiled with less than it has.
    pub notes: Vec<String>,
}

/// Files that the C includes: name and text.
pub const HEADERS: [(&str, &str); 2] =
    [("bpf.h", include_str!("../../../bpf/bpf.h")), ("paceline.h", include_str!("paceline.h"))];

/// A program as C. Cost: its statements times the fields that its state depends on.
///
/// # Errors
/// Everything that it has and that is not compiled, with places.
pub fn compile(program: &Program, strategy: Strategy) -> Result<Compiled, Vec<Refusal>> {
    let refusals = subset::refusals(program, strategy);
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let slice = Slice::of(program);
    let item = match strategy {
        Strategy::Sharded => Item::default(),
        Strategy::Scr => slice.item(program),
    };
    let names = Names::of(program);
    let registers = program.registers.iter().zip(&names.registers);
    let counters = program.counters.iter().zip(&names.counters);
    let mu_tables = program.mu_tables.iter().zip(&names.mu_tables);
    let open = program.tables.iter().filter(|table| !table.keys.is_empty() && !table.is_const);
    Ok(Compiled {
        name: program.name.trim_end_matches(".p4").to_owned(),
        c: program::text(program, strategy, &slice, &item),
        item,
        mu_tables: mu_tables.map(|(table, name)| TableLayout::of(table, name)).collect(),
        registers: registers
            .map(|(register, name)| (name.clone(), state::bytes_of(register.width), register.size))
            .collect(),
        counters: counters.map(|(counter, name)| (name.clone(), counter.size)).collect(),
        notes: open
            .map(|table| format!("table {} has the entries of its source: none can be added yet", table.name))
            .collect(),
    })
}
