//! A front end for a subset of P4-16 with `muTable`, tables that the data plane writes (RAPID, NSDI'24, §5).
//!
//! | module | what it is |
//! |---|---|
//! | [`lower`] | text to the [representation](ir): preprocessor, parser, checker |
//! | [`diagnostic`] | mistakes, with their places |
//! | [`ir`] | the representation: fields, operations, tables |
//! | [`semantics`] | what operations give |
//! | [`passes`] | folding, dead code, stages, renaming |
//! | [`uses`] | how a program uses what it keeps, and which uses no pipeline can do |
//! | [`interpret`] | the reference: one packet after the other |
//! | [`resources`] | what a program takes of a chip's memories, keys, hash units and containers |
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

#[allow(missing_docs, reason = "the names of the syntax say what it is; only tests see it from outside")]
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
pub mod resources;
pub mod semantics;
mod source;
pub mod stf;
pub mod uses;

pub use diagnostic::Diagnostics;
pub use preprocess::Options;

/// The syntax tree, for tests that read a program by other means than the checker. No part of the interface.
#[doc(hidden)]
pub mod syntax {
    pub use crate::ast::*;

    use crate::diagnostic::Sink;
    use crate::source::Sources;
    use crate::{Options, parser, preprocess};

    /// A program as it is written, if it can be read.
    pub fn parse(name: &str, text: &str, options: &Options) -> Option<Vec<Declaration>> {
        let (mut sources, mut sink) = (Sources::default(), Sink::default());
        let tokens = preprocess::preprocess(name, text, options, &mut sources, &mut sink);
        let declarations = parser::parse(&tokens, &sources, &mut sink);
        (sink.errors() == 0).then_some(declarations)
    }
}

use check::{Lowered, Mention};
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
    let Lowered { mut program, mentions, starts } = check::check(&short, &declarations, &mut sink);
    match sink.errors() {
        0 => {
            place(&mut program, mentions, &sources);
            program.places = written(&starts, &sources);
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

/// The places of statements, an empty one first.
fn written(starts: &[u32], sources: &Sources) -> Vec<ir::WrittenPlace> {
    let mut places = vec![ir::WrittenPlace::default(); starts.len() + 1];
    let mut order: Vec<usize> = (0..starts.len()).collect();
    order.sort_unstable_by_key(|at| starts[*at]);
    let found = sources.places(order.iter().map(|at| starts[*at]));
    for (at, place) in order.iter().zip(found) {
        places[at + 1] = ir::WrittenPlace { place, text: sources.line(starts[*at]).to_owned() };
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/p4.md states the bounds that the code has.
    #[test]
    fn bounds_are_documented() {
        let power = |number: usize| {
            assert!(number.is_power_of_two());
            format!("2^{}", number.trailing_zeros())
        };
        let stated = format!(
            "{} MiB of sources, {} tokens, {} fields, {} statements once all that is called is written out, operators and \
             blocks {} deep. {} errors are shown, and {} warnings",
            source::MAX_SOURCE_BYTES >> 20,
            power(preprocess::MAX_TOKENS),
            power(check::MAX_FIELDS),
            power(check::MAX_STATEMENTS),
            parser::MAX_DEPTH,
            diagnostic::MAX_ERRORS,
            diagnostic::MAX_ERRORS,
        );
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/p4.md");
        let page = std::fs::read_to_string(page).expect("docs/p4.md");
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains(&stated), "not in docs/p4.md: {stated}");
    }

    /// However many mistakes one statement has.
    #[test]
    fn no_more_errors_are_shown_than_the_bound() {
        let many = "x + ".repeat(90);
        let constants: String =
            (0..8).map(|at| format!("const bit<8> c{at} = {{ {} }};\n", "x, ".repeat(90))).collect();
        let warnings: String = (0..80).map(|at| format!("const bit<4> w{at} = 300;\n")).collect();
        for text in
            [format!("{constants}{warnings}"), format!("const int y = {many} 1;\n{warnings}{constants}")]
        {
            let errors = lower("x.p4", &text, &Options::default()).expect_err("mistakes");
            assert!(errors.errors() <= diagnostic::MAX_ERRORS, "{errors}");
            assert!(errors.warnings() <= diagnostic::MAX_ERRORS, "{errors}");
            assert!(errors.errors() > diagnostic::MAX_ERRORS / 2, "{errors}");
        }
    }
}
