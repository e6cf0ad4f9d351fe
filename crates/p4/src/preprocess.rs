//! `#include`, `#define`, `#if`: before tokens are parsed.
//!
//! What a macro gives points to where the macro is used, so that a mistake is shown where its author can see it.

mod condition;
mod macros;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use names::nearest;

use crate::diagnostic::Sink;
use crate::lexer::{Kind, Lines, Token, tokens};
use crate::source::{MAX_SOURCE_BYTES, Sources, Span};

use macros::Macros;

/// Files include files so deep at most.
const MAX_INCLUDE_DEPTH: usize = 32;

/// So many tokens at most, whatever macros give.
pub const MAX_TOKENS: usize = 1 << 20;

const DIRECTIVES: [&str; 11] =
    ["include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error", "pragma"];

/// Headers that are built in.
const BUILT_IN: [(&str, &str); 2] =
    [("core.p4", include_str!("builtin/core.p4")), ("v1model.p4", include_str!("builtin/v1model.p4"))];

/// Where headers come from and what is defined before the first line.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Folders in which `#include` looks, after the file's own.
    pub include_dirs: Vec<PathBuf>,
    /// Macros: name and what it stands for.
    pub defines: Vec<(String, String)>,
    /// No file is read: only headers that are built in can be included.
    pub no_files: bool,
}

/// The tokens that are parsed, with an end.
pub fn preprocess(
    name: &str,
    text: &str,
    options: &Options,
    sources: &mut Sources,
    sink: &mut Sink,
) -> Vec<Token> {
    let mut state =
        Preprocessor { options, sources, sink, macros: Macros::default(), out: Vec::new(), depth: 0 };
    for (macro_name, value) in &options.defines {
        state.define_option(macro_name, value);
    }
    let end = match state.sources.add(name, text) {
        Some(base) => {
            state.file(text, base, name);
            Span { start: base + text.len() as u32, end: base + text.len() as u32 }
        }
        None => {
            state.sources.add(name, "");
            let message = format!("the program is longer than {} MiB", MAX_SOURCE_BYTES >> 20);
            state.sink.error(Span::default(), message);
            Span::default()
        }
    };
    let mut out = state.out;
    out.push(Token { kind: Kind::End, span: end, text: end });
    out
}

struct Preprocessor<'a> {
    options: &'a Options,
    sources: &'a mut Sources,
    sink: &'a mut Sink,
    macros: Macros,
    out: Vec<Token>,
    depth: usize,
}

/// An `#if` that is not closed yet.
struct Condition {
    opened: Span,
    /// Lines here go in.
    is_active: bool,
    /// A branch went in already, or the whole is left out.
    is_settled: bool,
    has_else: bool,
}

impl Preprocessor<'_> {
    fn define_option(&mut self, name: &str, value: &str) {
        let text = format!("{name} {value}");
        if let Some(base) = self.sources.add("command line", &text) {
            self.macros.define(&tokens(&text, base), self.sources, self.sink);
        }
    }

    fn file(&mut self, text: &str, base: u32, name: &str) {
        let mut lines = Lines::new(text, base);
        let mut conditions: Vec<Condition> = Vec::new();
        // Lines up to the next directive: a macro's arguments may go on over several.
        let mut pending: Vec<Token> = Vec::new();
        let mut line: Vec<Token> = Vec::new();
        while !self.is_too_long(base) {
            line.clear();
            let is_active = conditions.iter().all(|condition| condition.is_active);
            if !lines.next(&mut line, is_active) {
                break;
            }
            if line[0].kind == Kind::Hash {
                self.text(&pending);
                pending.clear();
                line.retain(|token| token.kind != Kind::Newline);
                self.directive(&line, &mut conditions, is_active, name);
            } else if is_active {
                pending.append(&mut line);
            }
        }
        self.text(&pending);
        for condition in conditions {
            self.sink.error(condition.opened, "this `#if` is never closed").help("add `#endif`");
        }
    }

    fn is_too_long(&mut self, base: u32) -> bool {
        let is_too_long = self.out.len() > MAX_TOKENS;
        if is_too_long && !self.sink.is_full() {
            let span = self.out.last().map_or(Span { start: base, end: base }, |token| token.span);
            self.sink.error(span, format!("more than {MAX_TOKENS} tokens"));
        }
        is_too_long
    }

    /// Lines without directives, with what their macros stand for.
    fn text(&mut self, all: &[Token]) {
        let mut at = 0;
        while at < all.len() && self.out.len() <= MAX_TOKENS {
            at = match all[at].kind {
                Kind::Newline => at + 1,
                _ => self.macros.expand(all, at, MAX_TOKENS, &mut self.out, self.sources, self.sink),
            };
        }
    }

    fn directive(&mut self, line: &[Token], conditions: &mut Vec<Condition>, is_active: bool, file: &str) {
        let Some(word) = line.get(1) else { return };
        let rest = &line[2..];
        let name = self.sources.text(word.text).to_owned();
        match name.as_str() {
            "if" | "ifdef" | "ifndef" => {
                let holds = is_active && self.holds(&name, word.span, rest);
                let condition = Condition {
                    opened: word.span,
                    is_active: holds,
                    is_settled: holds || !is_active,
                    has_else: false,
                };
                conditions.push(condition);
            }
            "elif" | "else" | "endif" => self.branch(&name, word.span, rest, conditions),
            _ if !is_active => {}
            "include" => self.include(word.span, rest, file),
            "define" => self.macros.define(rest, self.sources, self.sink),
            "undef" => self.macros.undefine(rest, self.sources),
            "error" => {
                let text =
                    rest.iter().map(|token| self.sources.text(token.text)).collect::<Vec<_>>().join(" ");
                self.sink.error(word.span, format!("#error {text}"));
            }
            "pragma" => {
                self.sink.warn(word.span, "this `#pragma` has no effect", "skipped");
            }
            _ => {
                let known = nearest(&name, DIRECTIVES).map_or_else(
                    || format!("there are: {}", DIRECTIVES.join(", ")),
                    |near| format!("did you mean `#{near}`?"),
                );
                self.sink.error(word.span, format!("there is no directive `#{name}`")).help(known);
            }
        }
    }

    fn branch(&mut self, name: &str, span: Span, rest: &[Token], conditions: &mut Vec<Condition>) {
        let outer = conditions.len().saturating_sub(1);
        let is_outer_active = conditions[..outer].iter().all(|condition| condition.is_active);
        let Some(last) = conditions.last_mut() else {
            self.sink.error(span, format!("`#{name}` without `#if`"));
            return;
        };
        if name != "endif" && last.has_else {
            self.sink.error(span, format!("`#{name}` after `#else`"));
            return;
        }
        match name {
            "endif" => {
                conditions.pop();
            }
            "else" => {
                last.is_active = !last.is_settled;
                (last.is_settled, last.has_else) = (true, true);
            }
            _ => {
                let is_open = !last.is_settled && is_outer_active;
                last.is_active = false;
                let holds = is_open && self.holds("if", span, rest);
                if let Some(last) = conditions.last_mut().filter(|_| holds) {
                    (last.is_active, last.is_settled) = (true, true);
                }
            }
        }
    }

    fn holds(&mut self, directive: &str, span: Span, rest: &[Token]) -> bool {
        match (directive, rest.first()) {
            ("if", _) => condition::evaluate(span, rest, &self.macros, self.sources, self.sink),
            (_, Some(name)) => self.macros.is_defined(self.sources.text(name.text)) == (directive == "ifdef"),
            (_, None) => {
                self.sink.error(span, format!("`#{directive}` without a name"));
                false
            }
        }
    }

    fn include(&mut self, span: Span, rest: &[Token], file: &str) {
        let whole = match (rest.first(), rest.last()) {
            (Some(first), Some(last)) => first.span.to(last.span),
            _ => span,
        };
        let text = self.sources.text(whole).to_owned();
        let unquoted =
            |open: char, close: char| text.strip_prefix(open).and_then(|text| text.strip_suffix(close));
        let Some(path) = unquoted('<', '>').or_else(|| unquoted('"', '"')) else {
            self.sink.error(whole, "`#include` takes <FILE> or \"FILE\"");
            return;
        };
        if self.depth >= MAX_INCLUDE_DEPTH {
            let message = format!("files include files more than {MAX_INCLUDE_DEPTH} deep");
            self.sink.error(whole, message).help("does a file include itself? Guard it with `#ifndef`");
            return;
        }
        let Some((name, text)) = self.find(path, text.starts_with('"'), file) else {
            let built_in: Vec<_> = BUILT_IN.iter().map(|(name, _)| *name).collect();
            let help = match nearest(path, built_in.iter().copied()) {
                Some(near) => format!("did you mean <{near}>?"),
                None => format!(
                    "built in are {}; others are looked for beside the file that includes them, and where -I says",
                    built_in.join(" and ")
                ),
            };
            self.sink.error(whole, format!("there is no file `{path}` to include")).help(help);
            return;
        };
        let Some(base) = self.sources.add(&name, &text) else {
            self.sink.error(whole, format!("the program is longer than {} MiB", MAX_SOURCE_BYTES >> 20));
            return;
        };
        self.depth += 1;
        self.file(&text, base, &name);
        self.depth -= 1;
    }

    fn find(&self, path: &str, is_local: bool, file: &str) -> Option<(String, Arc<str>)> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(name, _)| *name == path) {
            return Some(((*name).to_owned(), (*text).into()));
        }
        if self.options.no_files {
            return None;
        }
        let own = Path::new(file).parent().filter(|_| is_local).map(Path::to_owned);
        let folders = own.iter().chain(&self.options.include_dirs);
        for folder in folders {
            let whole = folder.join(path);
            // A device may have no end.
            if whole.is_file()
                && let Ok(text) = std::fs::read_to_string(&whole)
            {
                return Some((whole.display().to_string(), text.into()));
            }
        }
        None
    }
}
