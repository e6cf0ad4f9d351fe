//! A compiled program as hardware: what `rtl/rapid` needs of it, in SystemVerilog.

use std::fmt::Write as _;

use thiserror::Error;

use super::code::{ASKED, WRITTEN};
use super::image::Image;
use super::layout::Layout;
use super::run::Compiled;
use super::verilog::statements;
use crate::emulation::check;
use crate::options::{Model, Options, RapidOptions, SetupError, WhenFull};
use crate::program::Consistency;

/// Why a program, or a setting of the model, is not there in hardware.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum HardwareError {
    /// Not one muTable.
    #[error(
        "the program has {objects} muTables, registers, counters and meters; there is hardware for one muTable"
    )]
    Objects {
        /// How many.
        objects: usize,
    },
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
        let [held] = &image.objects[..] else {
            return Err(HardwareError::Objects { objects: image.objects.len() });
        };
        let object = held.used.object.describe(image.machine.program());
        let spec = &image.tables()[0];
        if spec.is_atom() {
            return Err(HardwareError::OneStage { object });
        }
        if held.key_widths().is_none() {
            return Err(HardwareError::Keys { object });
        }
        if !held.contents(&image.machine).is_empty() {
            return Err(HardwareError::Entries { object });
        }
        if options.when_full == WhenFull::Stall {
            return Err(HardwareError::Stalls);
        }
        check(&Compiled::<{ super::MAX_WORDS }>::new(image), &Model::Rapid(*rapid), options)?;
        let layout = Layout::new(image);
        let mut verilog = package(image, rapid, options, &layout);
        verilog += &module(image, &layout)?;
        Ok(Hardware { verilog, widths: layout.widths })
    }
}

fn package(image: &Image, rapid: &RapidOptions, options: &Options, layout: &Layout) -> String {
    let (held, spec) = (&image.objects[0], &image.tables()[0]);
    let stages = options.stages.unwrap_or(image.stages());
    let stage_cycles = options.stage_cycles.unwrap_or(Model::Rapid(*rapid).stage_cycles());
    let values: u32 = layout.widths[held.read_words..held.read_words + held.words].iter().sum();
    let (name, stale) = match rapid.consistency.unwrap_or(spec.consistency) {
        Consistency::Strict => ("STRICT", 0),
        Consistency::BoundedStaleness(packets) => ("BS", packets),
        Consistency::Weak => ("WEAK", 0),
    };
    let numbers: [(&str, String, u64); 18] = [
        ("STAGES", "Stages of the pipeline.".into(), stages as u64),
        ("STAGE_CYCLES", "Registers of each.".into(), stage_cycles as u64),
        (
            "READ",
            format!("The stage at whose entry `{}` is read, from 0.", spec.name),
            spec.read_stage as u64,
        ),
        ("WRITE", "The stage at whose exit it is written.".into(), spec.write_stage as u64),
        ("IS_WEAK", format!("Consistency: {name}."), u64::from(name == "WEAK")),
        ("MAY_PASS", "Stale packets that may pass after an update.".into(), stale.into()),
        ("TABLE", "Entries of the muTable.".into(), spec.size as u64),
        ("FLOWS", "Flows of each dTable, and of each queue.".into(), rapid.dirty_flows() as u64),
        ("RB", "Packets of RB.".into(), rapid.resubmitted_buffer as u64),
        ("PB", "Packets of PB.".into(), rapid.phv_buffer as u64),
        ("FROM_PIPELINE", "Packets of a ring node, of its stage.".into(), rapid.ring_from_pipeline as u64),
        ("FROM_RING", "Packets of a ring node, of the ring.".into(), rapid.ring_from_ring as u64),
        ("MAY_BLOCK", "1: a flow may be blocked.".into(), u64::from(rapid.blocking_threshold.is_some())),
        (
            "THRESHOLD",
            "Updates after which it is.".into(),
            rapid.blocking_threshold.unwrap_or_default().into(),
        ),
        (
            "ASKED_AT",
            "The bit of a header vector that says that there is a key.".into(),
            layout.at(ASKED).into(),
        ),
        ("WRITTEN_AT", "The bit that says that there is a new state.".into(), layout.at(WRITTEN).into()),
        ("KEY_AT", "The first bit of the key.".into(), layout.at(held.key_word).into()),
        (
            "READ_AT",
            "That of the state that was read; the new one is behind it.".into(),
            layout.at(held.read_words).into(),
        ),
    ];
    let mut text = format!(
        "// What rtl/rapid needs of the program `{}`: written by `paceline p4 rtl`. docs/rtl.md says what it means.\n\
         // verilator lint_off DECLFILENAME\n// verilator lint_off UNUSEDSIGNAL\n// verilator lint_off UNUSEDPARAM\n\
         // verilator lint_off UNSIGNED\n// verilator lint_off CMPCONST\n\
         package rapid_program;\n",
        printable(image.name())
    );
    for (name, what, number) in numbers {
        _ = writeln!(text, "  // {}\n  localparam int {name} = {number};", printable(&what));
    }
    let (key, phv) = (held.key_bits(), layout.bits());
    _ = write!(
        text,
        "  // Bits of a key, of a state's values, of a header vector.\n  \
           localparam int KEY_BITS = {key};\n  localparam int VALUE_BITS = {values};\n  \
           localparam int PHV_BITS = {phv};\n  \
           typedef logic [{}:0] key_t;\n  typedef logic [{}:0] phv_t;\n\n  \
           // What a muTable holds for a key.\n  \
           typedef struct packed {{\n    logic is_there;\n    logic [{}:0] values;\n  }} state_t;\n  \
           localparam int STATE_BITS = VALUE_BITS + 1;\n\n  \
           // A packet, and what hardware keeps beside its header vector.\n  \
           typedef struct packed {{\n    \
             logic        valid;\n    \
             logic [31:0] place;       // in order of arrival, from 1\n    \
             logic        uses_table;  // the fields below mean something\n    \
             logic        is_alone;    // of a flow that is blocked\n    \
             key_t        key;\n    state_t      read;\n    phv_t        phv;\n  }} packet_t;\n  \
           localparam int PACKET_BITS = 35 + KEY_BITS + STATE_BITS + PHV_BITS;\n\n  \
           // A new state on its way.\n  \
           typedef struct packed {{\n    \
             logic   valid;\n    logic   is_dirty;  // the flow is to be registered\n    \
             key_t   key;\n    state_t state;\n  }} writeback_t;\n\n  \
           // What the read scheduler says in a cycle: two flows clean at most, four gone.\n  \
           typedef struct packed {{\n    \
             logic [1:0] cancels;\n    key_t       cancel_1;\n    key_t       cancel_0;\n    \
             logic [3:0] frees;\n    key_t       free_3;\n    key_t       free_2;\n    \
             key_t       free_1;\n    key_t       free_0;\n  }} control_t;\nendpackage\n\n",
        key - 1,
        phv - 1,
        values - 1,
    );
    text
}

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
