//! The condition of an `#if`: `defined X`, numbers, `!`, `&&`, `||`, comparisons.

use std::iter::Peekable;
use std::vec;

use crate::diagnostic::Sink;
use crate::lexer::{Kind, Token};
use crate::number;
use crate::source::{Sources, Span};

use super::macros::Macros;

/// Parentheses and negations nest so deep at most.
const MAX_DEPTH: usize = 64;

/// Whether it holds; one that cannot be read is an error and does not.
pub fn evaluate(span: Span, line: &[Token], macros: &Macros, sources: &mut Sources, sink: &mut Sink) -> bool {
    let mut expanded = Vec::new();
    let mut at = 0;
    while at < line.len() {
        // The name behind `defined` is not expanded.
        let is_defined = sources.text(line[at].text) == "defined";
        let keep = match line.get(at + 1).map(|next| next.kind) {
            Some(Kind::OpenParen) if is_defined => 4,
            _ if is_defined => 2,
            _ => 0,
        };
        if keep > 0 {
            let end = (at + keep).min(line.len());
            expanded.extend_from_slice(&line[at..end]);
            at = end;
        } else {
            at = macros.expand(line, at, 1 << 12, &mut expanded, sources, sink);
        }
    }
    let mut reader = Reader { tokens: expanded.into_iter().peekable(), macros, sources, depth: 0 };
    let value = reader.binary(0);
    let rest = reader.tokens.next();
    match (value, rest) {
        (Some(value), None) => value != 0,
        (_, rest) => {
            let at = rest.map_or(span, |token| token.span);
            sink.error(at, "this condition cannot be read")
                .help("`#if` knows numbers, defined NAME, !, &&, ||, comparisons and parentheses");
            false
        }
    }
}

struct Reader<'a> {
    tokens: Peekable<vec::IntoIter<Token>>,
    macros: &'a Macros,
    sources: &'a Sources,
    depth: usize,
}

impl Reader<'_> {
    fn binary(&mut self, least: u8) -> Option<i64> {
        let mut left = self.unary()?;
        loop {
            let level = match self.tokens.peek().map(|token| token.kind) {
                Some(Kind::OrOr) => 1,
                Some(Kind::AndAnd) => 2,
                Some(Kind::Equal | Kind::NotEqual) => 3,
                Some(Kind::Less | Kind::LessEqual | Kind::Greater | Kind::GreaterEqual) => 4,
                _ => return Some(left),
            };
            if level <= least {
                return Some(left);
            }
            let kind = self.tokens.next()?.kind;
            let right = self.binary(level)?;
            left = i64::from(match kind {
                Kind::OrOr => left != 0 || right != 0,
                Kind::AndAnd => left != 0 && right != 0,
                Kind::Equal => left == right,
                Kind::NotEqual => left != right,
                Kind::Less => left < right,
                Kind::LessEqual => left <= right,
                Kind::Greater => left > right,
                _ => left >= right,
            });
        }
    }

    fn unary(&mut self) -> Option<i64> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let token = self.tokens.next()?;
        let value = match token.kind {
            Kind::Not => i64::from(self.unary()? == 0),
            Kind::Minus => self.unary()?.wrapping_neg(),
            Kind::OpenParen => {
                let value = self.binary(0)?;
                (self.tokens.next()?.kind == Kind::CloseParen).then_some(value)?
            }
            Kind::Number => i64::try_from(number::parse(self.sources.text(token.text)).ok()?.value).ok()?,
            Kind::Word if self.sources.text(token.text) == "defined" => self.defined()?,
            // As in C, a name that stands for nothing is 0.
            Kind::Word => 0,
            _ => return None,
        };
        self.depth -= 1;
        Some(value)
    }

    fn defined(&mut self) -> Option<i64> {
        let mut token = self.tokens.next()?;
        let in_parentheses = token.kind == Kind::OpenParen;
        if in_parentheses {
            token = self.tokens.next()?;
        }
        let is_defined = self.macros.is_defined(self.sources.text(token.text));
        if in_parentheses && self.tokens.next()?.kind != Kind::CloseParen {
            return None;
        }
        Some(i64::from(is_defined))
    }
}
