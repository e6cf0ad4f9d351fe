//! What is done to a program on its way to a pipeline.
//!
//! | pass | what it does |
//! |---|---|
//! | [`fold`] | computes what is known, and leaves out branches that are not taken |
//! | [`dead`] | leaves out what nobody reads |
//! | [`allocate`] | gives every statement a stage; finds where state is read and written |
//! | [`rename`] | keeps a re-submitted packet from its own edits (RAPID §5.2) |

pub mod allocate;
pub mod dead;
pub mod fold;
mod liveness;
pub mod rename;

use crate::ir::Program;
use crate::uses;

/// A pass.
pub struct Pass {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub doc: &'static str,
    /// Does it.
    pub run: fn(&mut Program),
}

/// All of them, in the order in which they are run.
pub const PASSES: [Pass; 4] = [
    Pass {
        name: "fold",
        doc: "computes what is known, and leaves out branches that are not taken",
        run: fold::run,
    },
    Pass { name: "dead", doc: "leaves out what nobody reads", run: dead::run },
    Pass {
        name: "allocate",
        doc: "gives every statement a stage, and finds where state is read and written",
        run: allocate::run,
    },
    Pass { name: "rename", doc: "keeps a re-submitted packet from its own edits", run: rename::run },
];

/// Runs all passes, and notes what no pipeline can do, and what it may do in another order. Cost: linear in the statements, times the stages of what is read in several places.
pub fn compile(program: &mut Program) {
    for pass in &PASSES {
        (pass.run)(program);
    }
    let (notes, warnings) = (uses::notes(program), uses::warnings(program));
    if let Some(layout) = &mut program.layout {
        layout.notes.extend(notes);
        layout.warnings.extend(warnings);
    }
}
