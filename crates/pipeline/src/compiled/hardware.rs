//! A compiled program as hardware: what `rtl/rapid` needs of it, in SystemVerilog.

use std::fmt::Write as _;

use thiserror::Error;

use super::code::{ASKED, WRITTEN};
use super::image::Image;
use super::layout::Layout;
use super::object::Held;
use super::run::Compiled;
use super::verilog::statements;
use crate::emulation::check;
use crate::options::{Model, Options, RapidOptions, SetupError, WhenFull};
use crate::program::{Consistency, TableSpec};

/// Why a program, or a setting of the model, is not there in hardware.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum HardwareError {
    /// No muTable, register, counter or meter.
    #[error(
        "the program has no muTable; there is hardware for programs that write one in a later stage than they read it"
    )]
    Stateless,
    /// A table of one stage.
    #[error("{object} is read and written in one stage; there is hardware for a muTable of two or more")]
    OneStage {
        /// Which.
        object: String,
    },
    /// Keys that the model hashes, or that match entries with masks, or an array.
    #[error(
        "{object} has keys of more than 64 bits or with masks, or is an array; in hardware all bits of up to 64 match"
    )]
    Keys {
        /// Whose.
        object: String,
    },
    /// A table that is not empty at first.
    #[error("{object} has entries before the first packet; in hardware a muTable is empty at first")]
    Entries {
        /// Which.
        object: String,
    },
    /// An operation.
    #[error("stage {stage} needs {what}; there is no hardware for that")]
    Operation {
        /// The stage, from 1.
        stage: usize,
        /// What it needs.
        what: String,
    },
    /// A mode of the model.
    #[error("with stalls nothing is lost; there is hardware for the mode that drops what finds no room")]
    Stalls,
    /// What the model refuses.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

/// A program in hardware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// A package with the program's parameters, and a module for what its stages do.
    pub verilog: String,
    /// Bits of each word of a header vector; 0 for those that are not in hardware.
    pub widths: Vec<u32>,
}

impl Hardware {
    /// What `rtl/rapid` needs for a program on a pipeline of these sizes. Its tables have the entries that the program
    /// declares, not those that a control plane has added.
    ///
    /// # Errors
    /// [`HardwareError`] names what there is no hardware for.
    pub fn new(image: &Image, rapid: &RapidOptions, options: &Options) -> Result<Hardware, HardwareError> {
        if image.objects.is_empty() {
            return Err(HardwareError::Stateless);
        }
        for (held, spec) in image.objects.iter().zip(image.tables()) {
            let object = held.used.object.describe(image.machine.program());
            if spec.is_atom() {
                return Err(HardwareError::OneStage { object });
            }
            if held.key_widths().is_none() {
                return Err(HardwareError::Keys { object });
            }
            if !held.contents(&image.machine).is_empty() {
                return Err(HardwareError::Entries { object });
            }
        }
        if options.when_full == WhenFull::Stall {
            return Err(HardwareError::Stalls);
        }
        check(&Compiled::<{ super::MAX_WORDS }>::new(image), &Model::Rapid(*rapid), options)?;
        let layout = Layout::new(image);
        let mut verilog = Package { image, rapid, options, layout: &layout }.written();
        verilog += &module(image, &layout)?;
        Ok(Hardware { verilog, widths: layout.widths })
    }
}

/// What the package is written from.
struct Package<'a> {
    image: &'a Image,
    rapid: &'a RapidOptions,
    options: &'a Options,
    layout: &'a Layout,
}

/// A muTable with its schedulers.
struct Function<'a> {
    /// Its pipeline, and the stages where its state is read and written, in the numbers of ring nodes.
    pipeline: usize,
    read: usize,
    write: usize,
    /// The bit that the muTable has in `ASKED` and `WRITTEN`.
    object: u32,
    held: &'a Held,
    spec: &'a TableSpec,
    /// Its level, and how many stale packets may pass after an update.
    level: &'static str,
    stale: u32,
    /// Bits of a state's values.
    values: u32,
}

impl Package<'_> {
    /// Stages of each pipeline.
    fn stages(&self) -> usize {
        self.options.stages.unwrap_or(self.image.stages())
    }

    /// Functions of each pipeline, in the order in which packets come to them: that of the model.
    fn functions(&self) -> Vec<Function<'_>> {
        let of_pipelines = (0..self.rapid.pipelines).flat_map(|pipeline| self.functions_of(pipeline));
        of_pipelines.collect()
    }

    fn functions_of(&self, pipeline: usize) -> Vec<Function<'_>> {
        let first = pipeline * self.stages();
        let objects = (0..).zip(&self.image.objects).zip(self.image.tables());
        let mut functions: Vec<_> = objects
            .map(|((object, held), spec)| {
                let (level, stale) = match self.rapid.consistency.unwrap_or(spec.consistency) {
                    Consistency::Strict => ("STRICT", 0),
                    Consistency::BoundedStaleness(packets) => ("BS", packets),
                    Consistency::Weak => ("WEAK", 0),
                };
                let words = held.read_words..held.read_words + held.words;
                let values = self.layout.widths[words].iter().sum();
                let (read, write) = (first + spec.read_stage, first + spec.write_stage);
                Function { pipeline, read, write, object, held, spec, level, stale, values }
            })
            .collect();
        functions.sort_by_key(|function| function.spec.read_stage);
        functions
    }

    fn written(&self) -> String {
        let functions = self.functions();
        let mut text = format!(
            "// What rtl/rapid needs of the program `{}`: written by `paceline p4 rtl`. docs/rtl.md says what it means.\n",
            printable(self.image.name())
        );
        for (number, Function { pipeline, spec, level, .. }) in functions.iter().enumerate() {
            let place =
                if self.rapid.pipelines > 1 { format!(", pipeline {pipeline}") } else { String::new() };
            _ = writeln!(text, "// Function {number}: `{}`, {level}{place}.", printable(&spec.name));
        }
        text += "// verilator lint_off DECLFILENAME\n// verilator lint_off UNUSEDSIGNAL\n// verilator lint_off UNUSEDPARAM\n\
                 // verilator lint_off UNSIGNED\n// verilator lint_off CMPCONST\n\
                 package rapid_program;\n";
        let rapid = self.rapid;
        let (pipelines, stages) = (rapid.pipelines, self.stages());
        let stage_cycles = self.options.stage_cycles.unwrap_or(Model::Rapid(*rapid).stage_cycles());
        let threshold = rapid.blocking_threshold;
        let key = functions.iter().map(|function| function.held.key_bits()).max().unwrap_or_default();
        let values = functions.iter().map(|function| function.values).max().unwrap_or_default();
        let phv = self.layout.bits();
        for (name, what, number) in [
            ("PIPELINES", "Pipelines that share the ring.", pipelines as u64),
            ("STAGES", "Stages of each.", stages as u64),
            (
                "NODES",
                "Nodes of the ring: those of the first one's stages, and so on.",
                (pipelines * stages) as u64,
            ),
            ("STAGE_CYCLES", "Registers of a stage.", stage_cycles as u64),
            ("FUNCTIONS", "Functions, in the order in which packets come to them.", functions.len() as u64),
            ("FLOWS", "Flows of each dTable, and of each queue.", rapid.dirty_flows() as u64),
            ("RB", "Packets of an RB.", rapid.resubmitted_buffer as u64),
            ("PB", "Packets of a PB.", rapid.phv_buffer as u64),
            ("FROM_PIPELINE", "Packets of a ring node, of its stage.", rapid.ring_from_pipeline as u64),
            ("FROM_RING", "Packets of a ring node, of the ring.", rapid.ring_from_ring as u64),
            ("MAY_BLOCK", "1: a flow may be blocked.", u64::from(threshold.is_some())),
            ("THRESHOLD", "Updates after which it is.", threshold.unwrap_or_default().into()),
            ("KEY_BITS", "Bits of the widest key.", key.into()),
            ("VALUE_BITS", "Bits of the values of the widest state.", values.into()),
            ("PHV_BITS", "Bits of a header vector.", phv.into()),
        ] {
            _ = writeln!(text, "  // {what}\n  localparam int {name} = {number};");
        }
        text += "\n  // For each function 32 bits, the first one's the lowest.\n";
        let layout = self.layout;
        let mut each = |name: &str, what: &str, number: &dyn Fn(&Function<'_>) -> u64| {
            list(&mut text, name, what, functions.iter().map(number));
        };
        each("READ", "The node of the stage at whose entry a state is read, from 0.", &|function| {
            function.read as u64
        });
        each("WRITE", "That of the stage at whose exit it is written.", &|function| function.write as u64);
        each("IS_WEAK", "1: WEAK.", &|function| u64::from(function.level == "WEAK"));
        each("MAY_PASS", "Stale packets that may pass after an update.", &|function| function.stale.into());
        each("TABLE", "Entries of the muTable.", &|function| function.spec.size as u64);
        each("ASKED_AT", "The bit of a header vector that says that there is a key.", &|function| {
            (layout.at(ASKED) + function.object).into()
        });
        each("WRITTEN_AT", "The bit that says that there is a new state.", &|function| {
            (layout.at(WRITTEN) + function.object).into()
        });
        each("KEY_AT", "The first bit of the key.", &|function| layout.at(function.held.key_word).into());
        each("READ_AT", "That of the state that was read; the new one is behind it.", &|function| {
            layout.at(function.held.read_words).into()
        });
        each("OWN_KEY_BITS", "Bits of a key.", &|function| function.held.key_bits().into());
        each("OWN_VALUE_BITS", "Bits of a state's values.", &|function| function.values.into());
        text += "\n  // For each node 32 bits: in whose span it is; 0 where in none.\n";
        let spans = |node: usize, function: &Function<'_>| (function.read..=function.write).contains(&node);
        let of = |node| functions.iter().position(|function| spans(node, function)).unwrap_or_default();
        list(&mut text, "FUNCTION_OF", "", (0..pipelines * stages).map(|node| of(node) as u64));
        _ = write!(
            text,
            "\n  typedef logic [{}:0] key_t;\n  typedef logic [{}:0] phv_t;\n",
            key - 1,
            phv - 1
        );
        text + TYPES
    }
}

/// Numbers side by side, 32 bits each, the first one the lowest.
fn list(text: &mut String, name: &str, what: &str, numbers: impl Iterator<Item = u64>) {
    let mut numbers: Vec<_> = numbers.map(|number| format!("32'd{number}")).collect();
    numbers.reverse();
    if !what.is_empty() {
        _ = writeln!(text, "  // {what}");
    }
    let (high, numbers) = (32 * numbers.len() - 1, numbers.join(", "));
    _ = writeln!(text, "  localparam logic [{high}:0] {name} = {{{numbers}}};");
}

/// The package's types, for any program.
const TYPES: &str = "
  // What a muTable holds for a key.
  typedef struct packed {
    logic is_there;
    logic [VALUE_BITS-1:0] values;
  } state_t;
  localparam int STATE_BITS = VALUE_BITS + 1;

  // A packet, and what hardware keeps beside its header vector: of the function that it is in.
  typedef struct packed {
    logic        valid;
    logic [31:0] place;       // in order of arrival, from 1
    logic        uses_table;  // the fields below mean something
    logic        is_alone;    // of a flow that is blocked
    key_t        key;
    state_t      read;
    phv_t        phv;
  } packet_t;
  localparam int PACKET_BITS = 35 + KEY_BITS + STATE_BITS + PHV_BITS;

  // A new state on its way.
  typedef struct packed {
    logic   valid;
    logic   is_dirty;  // the flow is to be registered
    key_t   key;
    state_t state;
  } writeback_t;
  localparam int WRITEBACK_BITS = 2 + KEY_BITS + STATE_BITS;

  // What a read scheduler says in a cycle: two flows clean at most, four gone.
  typedef struct packed {
    logic [1:0] cancels;
    key_t       cancel_1;
    key_t       cancel_0;
    logic [3:0] frees;
    key_t       free_3;
    key_t       free_2;
    key_t       free_1;
    key_t       free_0;
  } control_t;
  localparam int CONTROL_BITS = 6 + 6 * KEY_BITS;
endpackage

";

fn module(image: &Image, layout: &Layout) -> Result<String, HardwareError> {
    let there = || (0..).zip(&layout.widths).filter(|(_, width)| **width > 0);
    let declared: String =
        there().map(|(word, width)| format!("  logic [{}:0] w{word};\n", width - 1)).collect();
    let all: Vec<String> = there().map(|(word, _): (usize, _)| format!("w{word}")).collect();
    let all = all.into_iter().rev().collect::<Vec<_>>().join(", ");
    let mut stages = String::new();
    for (stage, ops) in image.stages.iter().enumerate() {
        let statements = statements(image, layout, ops)
            .map_err(|what| HardwareError::Operation { stage: stage + 1, what })?;
        _ = write!(stages, "    if (STAGE == {stage}) begin\n{statements}    end\n");
    }
    Ok(format!(
        "// What a stage does to a header vector that enters it; a stage behind the program's last does nothing.\n\
         module rapid_step #(\n    parameter int STAGE = 0\n) (\n    \
             input  rapid_program::phv_t in,\n    output rapid_program::phv_t out\n);\n\n\
         {declared}  logic [15:0] at;\n\n  \
           always_comb begin\n    {{{all}}} = in;\n    at = 16'd0;\n{stages}    out = {{{all}}};\n  end\n\n\
         endmodule\n"
    ))
}

/// A name in a comment, on one line.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
