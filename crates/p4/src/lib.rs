//! A front end for P4-16.
#![forbid(unsafe_code)]

pub mod ast;
pub mod diagnostic;
pub mod ir;
pub mod lexer;
mod number;
pub mod parser;
pub mod preprocess;
pub mod semantics;
pub mod source;
