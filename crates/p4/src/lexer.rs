//! Text to tokens.

use logos::Logos;

use crate::source::Span;

/// What a token is.
#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq)]
#[logos(skip r"[ \t\r\f]+")]
#[logos(skip r"\\\r?\n")]
#[logos(skip(r"//[^\n]*", allow_greedy = true))]
pub enum Kind {
    /// The preprocessor's directives end with a line.
    #[token("\n")]
    Newline,
    #[regex(r"/\*([^*]|\*+[^*/])*\*+/", logos::skip)]
    Comment,
    #[regex(r"[A-Za-z_][A-Za-z0-9_]*")]
    Word,
    #[regex(r"([0-9]+[ws])?(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|0[dD][0-9_]+|[0-9][0-9_]*)")]
    Number,
    /// On one line; the preprocessor joins one over several lines where a program has it.
    #[regex(r#""([^"\\\n]|\\.)*""#)]
    Text,
    /// A text that does not end on its line.
    #[regex(r#""([^"\\\n]|\\.)*"#)]
    OpenText,
    #[token("#")]
    Hash,
    /// Joins two tokens to one, in a macro.
    #[token("##")]
    Paste,
    #[token("@")]
    At,
    #[token("(")]
    OpenParen,
    #[token(")")]
    CloseParen,
    #[token("[")]
    OpenBracket,
    #[token("]")]
    CloseBracket,
    #[token("{")]
    OpenBrace,
    #[token("}")]
    CloseBrace,
    #[token(";")]
    Semicolon,
    #[token(",")]
    Comma,
    #[token(":")]
    Colon,
    #[token(".")]
    Dot,
    #[token("..")]
    Range,
    #[token("...")]
    Dots,
    #[token("?")]
    Question,
    #[token("=")]
    Assign,
    #[token("==")]
    Equal,
    #[token("!=")]
    NotEqual,
    #[token("<")]
    Less,
    #[token("<=")]
    LessEqual,
    #[token("<<")]
    ShiftLeft,
    /// Two of them side by side shift right: `>>` also closes two lists of type arguments.
    #[token(">")]
    Greater,
    #[token(">=")]
    GreaterEqual,
    #[token("!")]
    Not,
    #[token("~")]
    Tilde,
    #[token("&")]
    And,
    #[token("&&")]
    AndAnd,
    #[token("&&&")]
    Mask,
    #[token("|")]
    Or,
    #[token("||")]
    OrOr,
    #[token("|+|")]
    SaturatingPlus,
    #[token("|-|")]
    SaturatingMinus,
    #[token("^")]
    Xor,
    #[token("+")]
    Plus,
    #[token("++")]
    Concat,
    #[token("-")]
    Minus,
    #[token("*")]
    Times,
    #[token("/")]
    Divide,
    #[token("%")]
    Modulo,
    /// No token of P4.
    Unknown,
    /// Past the last one.
    End,
}

/// A token, and where it is.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Where to point: for what a macro gives, where the macro is used.
    pub span: Span,
    /// Where its text stands: for what a macro gives, in the macro.
    pub text: Span,
}

/// All tokens of a text that begins at `base`, without an end.
pub fn tokens(text: &str, base: u32) -> Vec<Token> {
    let mut lines = Lines::new(text, base);
    let mut all = Vec::new();
    while lines.next(&mut all, false) {}
    all
}

/// The tokens of a file, line by line: what stands in lines that are left out need not be tokens of P4.
pub struct Lines<'t> {
    lexer: logos::Lexer<'t, Kind>,
    base: u32,
}

impl<'t> Lines<'t> {
    /// The lines of a text that begins at `base`.
    pub fn new(text: &'t str, base: u32) -> Lines<'t> {
        Lines { lexer: Kind::lexer(text), base }
    }

    /// Adds the tokens of the next line, the one that ends it included; `false` at the end of the text. With `joins`, a
    /// text that is still open at the end of the line goes on to its closing quote.
    pub fn next(&mut self, to: &mut Vec<Token>, joins: bool) -> bool {
        let before = to.len();
        while let Some(kind) = self.lexer.next() {
            let mut kind = kind.unwrap_or(Kind::Unknown);
            let start = self.lexer.span().start;
            if kind == Kind::OpenText
                && joins
                && let Some(length) = closing_quote(self.lexer.remainder())
            {
                self.lexer.bump(length);
                kind = Kind::Text;
            }
            let end = self.lexer.span().end;
            let span = Span { start: self.base + start as u32, end: self.base + end as u32 };
            to.push(Token { kind, span, text: span });
            if kind == Kind::Newline {
                return true;
            }
        }
        to.len() > before
    }
}

/// Bytes up to the quote that closes a text, and with it.
fn closing_quote(rest: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'"' if !is_escaped => return Some(at + 1),
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        tokens(text, 0).into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn the_longest_token_wins() {
        use Kind::*;
        assert_eq!(kinds("a&&&b && c & d"), [Word, Mask, Word, AndAnd, Word, And, Word]);
        assert_eq!(kinds("1..5 ... |+| ++ +"), [Number, Range, Number, Dots, SaturatingPlus, Concat, Plus]);
        assert_eq!(kinds("8w0xff 4s7 0b1010_1 10"), [Number; 4]);
        assert_eq!(kinds("bit<bit<8>>"), [Word, Less, Word, Less, Number, Greater, Greater]);
    }

    #[test]
    fn comments_and_joined_lines_are_no_tokens() {
        use Kind::*;
        assert_eq!(kinds("a /* b\n** c */ d // e\nf \\\n g"), [Word, Word, Newline, Word, Word]);
        assert_eq!(kinds("/* open"), [Divide, Times, Word]);
        assert_eq!(kinds("$"), [Unknown]);
    }

    #[test]
    fn texts_go_on_where_they_are_joined() {
        use Kind::*;
        let joined = |text: &str| {
            let (mut lines, mut all) = (Lines::new(text, 0), Vec::new());
            while lines.next(&mut all, true) {}
            all.into_iter().map(|token| token.kind).collect::<Vec<_>>()
        };
        let text = "a \"b /* \n \\\" c\" d\ne";
        assert_eq!(joined(text), [Word, Text, Word, Newline, Word]);
        assert_eq!(joined("\"a\n\"b\" c"), [Text, Word, OpenText]);
        assert_eq!(kinds("\"a\nb"), [OpenText, Newline, Word]);
        assert_eq!(kinds("\"a\" b"), [Text, Word]);
    }
}
