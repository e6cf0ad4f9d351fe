//! A front end for P4-16.
#![forbid(unsafe_code)]

use std::path::Path;

mod ast;
mod check;
pub mod diagnostic;
pub mod interpret;
pub mod ir;
mod lexer;
mod number;
mod parser;
pub mod passes;
mod preprocess;
pub mod semantics;
mod source;
pub mod stf;

pub use diagnostic::Diagnostics;
pub use preprocess::Options;

use diagnostic::Sink;
use source::Sources;

/// A program as it is written, lowered but not changed by any pass, and warnings about it.
///
/// # Errors
/// What is wrong with it, each with its place.
pub fn lower(name: &str, text: &str, options: &Options) -> Result<(ir::Program, Diagnostics), Diagnostics> {
    let mut sources = Sources::default();
    let mut sink = Sink::default();
    let tokens = preprocess::preprocess(name, text, options, &mut sources, &mut sink);
    let declarations = parser::parse(&tokens, &sources, &mut sink);
    let short = Path::new(name)
        .file_name()
        .map_or_else(|| name.to_owned(), |name| name.to_string_lossy().into_owned());
    let program = check::check(&short, &declarations, &mut sink);
    match sink.errors() {
        0 => Ok((program, sink.finish(sources))),
        _ => Err(sink.finish(sources)),
    }
}
