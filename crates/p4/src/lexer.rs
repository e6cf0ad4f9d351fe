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
    #[regex(r#""([^"\\\n]|\\.)*""#)]
    Text,
    #[token("#")]
    Hash,
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

/// All tokens of a file that begins at `base`, without an end.
pub fn tokens(text: &str, base: u32) -> Vec<Token> {
    let lexed = Kind::lexer(text).spanned();
    let token = |(kind, range): (Result<Kind, ()>, std::ops::Range<usize>)| {
        let span = Span { start: base + range.start as u32, end: base + range.end as u32 };
        Token { kind: kind.unwrap_or(Kind::Unknown), span, text: span }
    };
    lexed.map(token).collect()
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
}
