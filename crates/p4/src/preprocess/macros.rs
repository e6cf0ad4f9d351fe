//! Macros: definition and expansion.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use crate::diagnostic::Sink;
use crate::lexer::{Kind, Token, tokens};
use crate::source::{Sources, Span};

/// Macros use macros so deep at most.
const MAX_DEPTH: usize = 64;

/// Tokens of macros' bodies that are looked at, in all: a macro that stands for nothing twice over stands for it
/// 2^64 times after 64 more.
const MAX_WORK: usize = 1 << 22;

/// What is defined.
#[derive(Default)]
pub struct Macros {
    defined: HashMap<String, Macro>,
    work: Cell<usize>,
    /// Where texts are that `##` has made: each is added to the sources once.
    pasted: RefCell<HashMap<String, Span>>,
}

#[derive(Clone)]
struct Macro {
    /// `None` for one that takes no argument list.
    parameters: Option<Vec<String>>,
    body: Vec<Token>,
}

impl Macros {
    /// Whether there is a macro of this name.
    pub fn is_defined(&self, name: &str) -> bool {
        self.defined.contains_key(name)
    }

    /// `NAME body` or `NAME(a, b) body`.
    pub fn define(&mut self, line: &[Token], sources: &Sources, sink: &mut Sink) {
        let Some((name, rest)) = line.split_first().filter(|(name, _)| name.kind == Kind::Word) else {
            let span = line.first().map_or(Span::default(), |token| token.span);
            sink.error(span, "`#define` without a name");
            return;
        };
        // A parenthesis right behind the name, and only there, opens parameters.
        let takes =
            rest.first().is_some_and(|next| next.kind == Kind::OpenParen && next.span.start == name.span.end);
        let (parameters, body) = if takes {
            let Some(close) = rest.iter().position(|token| token.kind == Kind::CloseParen) else {
                sink.error(name.span, "the macro's parameters are not closed").help("add `)`");
                return;
            };
            let words = rest[1..close].iter().filter(|token| token.kind == Kind::Word);
            (Some(words.map(|token| sources.text(token.text).to_owned()).collect()), &rest[close + 1..])
        } else {
            (None, rest)
        };
        if let Some(paste) = [body.first(), body.last()].into_iter().flatten().find(|token| is_paste(token)) {
            sink.error(paste.span, "`##` stands between two tokens").label("joins nothing");
            return;
        }
        self.defined.insert(sources.text(name.text).to_owned(), Macro { parameters, body: body.to_vec() });
    }

    /// `NAME`
    pub fn undefine(&mut self, line: &[Token], sources: &Sources) {
        if let Some(name) = line.first() {
            self.defined.remove(sources.text(name.text));
        }
    }

    /// Writes what the token at `at` stands for, at most up to `limit` tokens in all; gives the next place.
    pub fn expand(
        &self,
        all: &[Token],
        at: usize,
        limit: usize,
        out: &mut Vec<Token>,
        sources: &mut Sources,
        sink: &mut Sink,
    ) -> usize {
        let mut expansion = Expansion { macros: self, limit, sources, sink, open: Vec::new() };
        expansion.token(all, at, out)
    }
}

struct Expansion<'a> {
    macros: &'a Macros,
    limit: usize,
    sources: &'a mut Sources,
    sink: &'a mut Sink,
    /// Macros that are being expanded: they do not stand for themselves in their own bodies.
    open: Vec<String>,
}

impl Expansion<'_> {
    fn token(&mut self, all: &[Token], at: usize, out: &mut Vec<Token>) -> usize {
        let token = all[at];
        if out.len() > self.limit {
            return all.len();
        }
        if matches!(token.kind, Kind::Unknown | Kind::OpenText | Kind::Paste) {
            self.unknown(token);
            return at + 1;
        }
        let macros = self.macros;
        let found = macros.defined.get_key_value(self.sources.text(token.text));
        let found = found.filter(|_| token.kind == Kind::Word);
        let Some((name, found)) = found.filter(|(name, _)| !self.open.contains(name)) else {
            out.push(token);
            return at + 1;
        };
        if self.open.len() >= MAX_DEPTH {
            self.sink.error(token.span, format!("macros use macros more than {MAX_DEPTH} deep"));
            return at + 1;
        }
        let (arguments, next) = match &found.parameters {
            None => (Vec::new(), at + 1),
            Some(parameters) => match self.arguments(all, at + 1) {
                // The name alone is no use of the macro.
                None => {
                    out.push(token);
                    return at + 1;
                }
                Some((arguments, next)) => {
                    let given = if parameters.is_empty()
                        && arguments.iter().all(Vec::is_empty)
                        && arguments.len() == 1
                    {
                        0
                    } else {
                        arguments.len()
                    };
                    if given != parameters.len() {
                        let message = format!("`{name}` takes {} arguments, not {given}", parameters.len());
                        self.sink.error(token.span, message);
                        return next;
                    }
                    (arguments, next)
                }
            },
        };
        let body = self.substitute(found, &arguments, token.span);
        let work = macros.work.get() + body.len() + 1;
        macros.work.set(work);
        if work > MAX_WORK {
            self.sink
                .error(token.span, "macros stand for too much")
                .help("does one use itself many times over?");
            return all.len();
        }
        self.open.push(name.clone());
        let mut inner = 0;
        while inner < body.len() {
            inner = self.token(&body, inner, out);
        }
        self.open.pop();
        next
    }

    /// The body with arguments, which keep their own places, put in; and what `##` joins is one token.
    fn substitute(&mut self, found: &Macro, arguments: &[Vec<Token>], span: Span) -> Vec<Token> {
        let mut body: Vec<Token> = Vec::new();
        let mut at = 0;
        while let Some(token) = found.body.get(at) {
            if is_paste(token) {
                let right = found.body.get(at + 1).map(|token| self.part(token, found, arguments, span));
                self.paste(&mut body, right.unwrap_or_default(), span);
                at += 2;
            } else {
                // An argument that is empty leaves a place that `##` may fill.
                let part = self.part(token, found, arguments, span);
                let joins = found.body.get(at + 1).is_some_and(is_paste);
                match part.is_empty() && joins {
                    true => {
                        let right =
                            found.body.get(at + 2).map(|token| self.part(token, found, arguments, span));
                        body.extend(right.unwrap_or_default());
                        at += 3;
                    }
                    false => {
                        body.extend(part);
                        at += 1;
                    }
                }
            }
            if body.len() > self.limit {
                break;
            }
        }
        body
    }

    /// What a token of a macro's body stands for.
    fn part(&self, token: &Token, found: &Macro, arguments: &[Vec<Token>], span: Span) -> Vec<Token> {
        let name = self.sources.text(token.text);
        let parameter = found.parameters.iter().flatten().position(|parameter| parameter == name);
        match parameter.and_then(|index| arguments.get(index)).filter(|_| token.kind == Kind::Word) {
            Some(argument) => argument.clone(),
            None => vec![Token { span, ..*token }],
        }
    }

    /// Joins the last token of the body with the first of what follows.
    fn paste(&mut self, body: &mut Vec<Token>, right: Vec<Token>, span: Span) {
        let mut right = right.into_iter();
        let Some(second) = right.next() else { return };
        let Some(first) = body.pop() else {
            body.push(second);
            return body.extend(right);
        };
        let text = format!("{}{}", self.sources.text(first.text), self.sources.text(second.text));
        match self.made(&text) {
            Some(token) => body.push(Token { span, ..token }),
            None => {
                self.sink.error(span, format!("`##` makes `{text}`, which is not one token"));
            }
        }
        body.extend(right);
    }

    /// The one token that this text is, as a source of its own.
    fn made(&mut self, text: &str) -> Option<Token> {
        let known = self.macros.pasted.borrow().get(text).copied();
        let base = match known {
            Some(known) => known.start,
            None => {
                let base = self.sources.add("made by ##", text)?;
                let span = Span { start: base, end: base + text.len() as u32 };
                self.macros.pasted.borrow_mut().insert(text.to_owned(), span);
                base
            }
        };
        match tokens(text, base)[..] {
            [token] if !matches!(token.kind, Kind::Unknown | Kind::OpenText | Kind::Newline) => Some(token),
            _ => None,
        }
    }

    /// Arguments in parentheses from `at`, and the place behind them.
    fn arguments(&self, all: &[Token], at: usize) -> Option<(Vec<Vec<Token>>, usize)> {
        let open = at + all.get(at..)?.iter().position(|token| token.kind != Kind::Newline)?;
        if all[open].kind != Kind::OpenParen {
            return None;
        }
        let mut arguments = vec![Vec::new()];
        let mut depth = 0;
        for (offset, token) in all[open + 1..].iter().enumerate() {
            match token.kind {
                Kind::CloseParen if depth == 0 => return Some((arguments, open + offset + 2)),
                Kind::Comma if depth == 0 => {
                    arguments.push(Vec::new());
                    continue;
                }
                Kind::OpenParen | Kind::OpenBrace | Kind::OpenBracket => depth += 1,
                Kind::CloseParen | Kind::CloseBrace | Kind::CloseBracket => depth -= 1,
                Kind::Newline => continue,
                _ => {}
            }
            arguments.last_mut().expect("one at least").push(*token);
        }
        None
    }

    fn unknown(&mut self, token: Token) {
        let (message, help) = match token.kind {
            Kind::OpenText => ("this text is not closed".to_owned(), "end it with `\"`"),
            Kind::Paste => {
                ("`##` has no place here".to_owned(), "it joins two tokens in what `#define` says")
            }
            _ => {
                let text = self.sources.text(token.text);
                (format!("`{}` is not a character of P4", text.escape_default()), "remove it")
            }
        };
        self.sink.error(token.span, message).help(help);
    }
}

fn is_paste(token: &Token) -> bool {
    token.kind == Kind::Paste
}
