//! Tokens to a program as it is written.
//!
//! By recursive descent, and expressions by the strength of their operators. After a mistake it goes on behind the
//! statement or the declaration that has it, so that one run finds several.

mod declaration;
mod expression;
mod object;
mod statement;

use std::collections::HashSet;
use std::rc::Rc;

use names::nearest;

use crate::ast::{Declaration, Name};
use crate::diagnostic::{Checked, Sink};
use crate::lexer::{Kind, Token};
use crate::source::{Sources, Span};

/// Parentheses, blocks and types nest so deep at most, and trees of operators are so high at most.
pub(crate) const MAX_DEPTH: u16 = 96;

/// Words that are no names.
const RESERVED: [&str; 29] = [
    "action",
    "bit",
    "bool",
    "const",
    "control",
    "default",
    "else",
    "enum",
    "error",
    "exit",
    "extern",
    "false",
    "header",
    "header_union",
    "if",
    "in",
    "inout",
    "int",
    "match_kind",
    "out",
    "package",
    "parser",
    "return",
    "select",
    "struct",
    "switch",
    "table",
    "true",
    "void",
];

/// Reads a program; mistakes go to `sink`.
pub fn parse(tokens: &[Token], sources: &Sources, sink: &mut Sink) -> Vec<Declaration> {
    let built_in = ["packet_in", "packet_out", "register", "counter", "meter"];
    let types = built_in.iter().map(|name| Rc::from(*name)).collect();
    // Lines matter to the preprocessor only.
    let tokens = tokens.iter().filter(|token| token.kind != Kind::Newline).copied().collect();
    let mut parser = Parser { tokens, at: 0, sources, sink, types, depth: 0 };
    let mut program = Vec::new();
    while !parser.is_at(Kind::End) && !parser.sink.is_full() {
        let start = parser.at;
        match parser.declaration() {
            Ok(Some(declaration)) => program.push(declaration),
            Ok(None) => {}
            Err(_) => parser.skip_declaration(start),
        }
    }
    program
}

/// What has a mistake is left out, and the mistake was reported.
type Parsed<T> = Checked<T>;

struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    sources: &'a Sources,
    sink: &'a mut Sink,
    /// Names that are types, by which a cast is told from parentheses.
    types: HashSet<Rc<str>>,
    depth: u16,
}

impl Parser<'_> {
    fn token(&self) -> Token {
        self.peek(0)
    }

    fn peek(&self, ahead: usize) -> Token {
        let last = self.tokens.len() - 1;
        self.tokens[(self.at + ahead).min(last)]
    }

    fn span(&self) -> Span {
        self.token().span
    }

    fn is_at(&self, kind: Kind) -> bool {
        self.token().kind == kind
    }

    fn text_at(&self, ahead: usize) -> &str {
        self.sources.text(self.peek(ahead).text)
    }

    /// Whether the next token is this word.
    fn is_word(&self, word: &str) -> bool {
        self.is_at(Kind::Word) && self.text_at(0) == word
    }

    fn advance(&mut self) -> Token {
        let token = self.token();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn take(&mut self, kind: Kind) -> bool {
        let is_there = self.is_at(kind);
        if is_there {
            self.advance();
        }
        is_there
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_there = self.is_word(word);
        if is_there {
            self.advance();
        }
        is_there
    }

    /// What stands here, for people.
    fn found(&self) -> String {
        match self.token().kind {
            Kind::End => "the end of the file".to_owned(),
            _ => format!("`{}`", self.text_at(0)),
        }
    }

    fn unexpected<T>(&mut self, expected: &str) -> Parsed<T> {
        let message = format!("expected {expected}, found {}", self.found());
        let span = self.span();
        self.sink.error(span, message).label(format!("expected {expected}")).refused()
    }

    fn expect(&mut self, kind: Kind, what: &str) -> Parsed<Span> {
        if self.is_at(kind) {
            return Ok(self.advance().span);
        }
        if kind == Kind::Semicolon && self.at > 0 {
            // Behind what lacks it, which may be a line above.
            let before = self.tokens[self.at - 1].span;
            let message = format!("expected `;` before {}", self.found());
            return self.sink.error(before, message).label("`;` is missing behind this").refused();
        }
        self.unexpected(what)
    }

    fn name(&mut self) -> Parsed<Name> {
        if !self.is_at(Kind::Word) {
            return self.unexpected("a name");
        }
        if RESERVED.contains(&self.text_at(0)) {
            let message = format!("{} is a word of the language and no name", self.found());
            let span = self.span();
            return self.sink.error(span, message).refused();
        }
        Ok(self.any_name())
    }

    /// A name where words of the language may stand, as behind a dot.
    fn any_name(&mut self) -> Name {
        let text = Rc::from(self.text_at(0));
        Name { text, span: self.advance().span }
    }

    fn member_name(&mut self) -> Parsed<Name> {
        if self.is_at(Kind::Word) { Ok(self.any_name()) } else { self.unexpected("a name") }
    }

    /// One level deeper, if that is not too deep.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            let span = self.span();
            return self.sink.error(span, format!("this nests more than {MAX_DEPTH} deep")).refused();
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Items up to `close`, which is taken. A mistake in one leaves out that one.
    fn block<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.expect(Kind::OpenBrace, "`{`")?;
        let mut items = Vec::new();
        while !self.is_at(Kind::CloseBrace) {
            if self.is_at(Kind::End) || self.sink.is_full() {
                return self.unexpected("`}`");
            }
            let start = self.at;
            match item(self) {
                Ok(parsed) => items.push(parsed),
                Err(_) => self.skip_statement(start),
            }
        }
        self.advance();
        Ok(items)
    }

    fn separated<T>(
        &mut self,
        close: Kind,
        closing: &str,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while !self.is_at(close) {
            items.push(item(self)?);
            if !self.take(Kind::Comma) {
                break;
            }
        }
        self.expect(close, closing)?;
        Ok(items)
    }

    /// Past the `;` or the block in which a statement went wrong, but not out of the block around it.
    fn skip_statement(&mut self, start: usize) {
        // What was read of it may have opened braces.
        let mut depth = 0i32;
        for token in &self.tokens[start..self.at] {
            depth += brace(token.kind);
        }
        loop {
            match self.token().kind {
                Kind::End => return,
                Kind::CloseBrace if depth <= 0 => return,
                Kind::Semicolon if depth <= 0 => {
                    self.advance();
                    return;
                }
                kind => {
                    depth += brace(kind);
                    self.advance();
                    if kind == Kind::CloseBrace && depth == 0 {
                        self.take(Kind::Semicolon);
                        return;
                    }
                }
            }
        }
    }

    /// To what looks like the start of a declaration.
    fn skip_declaration(&mut self, start: usize) {
        const STARTS: [&str; 11] = [
            "control",
            "parser",
            "header",
            "struct",
            "typedef",
            "enum",
            "const",
            "error",
            "match_kind",
            "extern",
            "package",
        ];
        if self.at == start {
            self.advance();
        }
        let mut depth = 0i32;
        for token in &self.tokens[start..self.at] {
            depth += brace(token.kind);
        }
        loop {
            let kind = self.token().kind;
            let is_start = kind == Kind::Word && STARTS.contains(&self.text_at(0));
            if kind == Kind::End || (is_start && depth <= 0) {
                return;
            }
            depth += brace(kind);
            self.advance();
            if depth <= 0 && matches!(kind, Kind::Semicolon | Kind::CloseBrace) {
                return;
            }
        }
    }

    /// An error about a word that is none of those known here.
    fn unknown_word<T>(&mut self, name: &Name, what: &str, known: &[&str]) -> Parsed<T> {
        let help = nearest(&name.text, known.iter().copied()).map_or_else(
            || format!("there are: {}", known.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        self.sink.error(name.span, format!("there is no {what} `{}`", name.text)).help(help).refused()
    }

    /// Annotations say nothing that is compiled here; that is said.
    fn annotations(&mut self) -> Parsed<()> {
        while self.is_at(Kind::At) {
            let at = self.advance().span;
            let name = self.member_name()?;
            let mut depth = 0i32;
            while self.is_at(Kind::OpenParen) || depth > 0 {
                match self.advance().kind {
                    Kind::OpenParen => depth += 1,
                    Kind::CloseParen => depth -= 1,
                    Kind::End => return self.unexpected("`)`"),
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
            }
            let message = format!("the annotation `@{}` has no effect", name.text);
            self.sink.warn(at.to(name.span), message, "skipped");
        }
        Ok(())
    }
}

fn brace(kind: Kind) -> i32 {
    match kind {
        Kind::OpenBrace => 1,
        Kind::CloseBrace => -1,
        _ => 0,
    }
}
