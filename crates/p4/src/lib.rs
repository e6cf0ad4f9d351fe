//! A front end for a subset of P4-16 with `muTable`, tables that the data plane writes (RAPID, NSDI'24, §5).
//!
//! | module | what it is |
//! |---|---|
//! | [`lower`] | text to the [representation](ir): preprocessor, parser, checker |
//! | [`diagnostic`] | mistakes, with their places |
//! | [`ir`] | the representation: fields, operations, tables |
//! | [`semantics`] | what operations give |
//! | [`passes`] | folding, dead code, stages, renaming |
//! | [`uses`] | how a program uses what it keeps, and what of that no pipeline can do |
//! | [`interpret`] | the reference: one packet after the other |
//! | [`stf`] | test files |
//!
//! ```
//! use paceline_p4::{Options, lower};
//!
//! let errors = lower("x.p4", "const bit<8> x = 8w1 + true;", &Options::default()).unwrap_err();
//! assert_eq!(errors.findings()[1].to_string(), "bit<8> and bool do not go together");
//! ```
//!
//! docs/p4.md lists the subset.
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
pub mod uses;

pub use diagnostic::Diagnostics;
pub use preprocess::Options;

use check::Mention;
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
    let (mut program, mentions) = check::check(&short, &declarations, &mut sink);
    match sink.errors() {
        0 => {
            place(&mut program, mentions, &sources);
            Ok((program, sink.finish(sources)))
        }
        _ => Err(sink.finish(sources)),
    }
}

/// Writes where objects are named into the program.
fn place(program: &mut ir::Program, mut mentions: Vec<Mention>, sources: &Sources) {
    // What a control does that is applied twice is named once.
    mentions.sort_by_key(|mention| (mention.span.start, mention.object));
    mentions.dedup_by_key(|mention| (mention.span.start, mention.object));
    let places = sources.places(mentions.iter().map(|mention| mention.span.start));
    for (mention, place) in mentions.iter().zip(places) {
        let named = mention.object.mentions_mut(program);
        if mention.is_declaration {
            named.declared = place;
        } else {
            named.used.push(place);
        }
    }
}
