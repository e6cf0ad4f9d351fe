//! Where in an expression a mistake is. libpcap says what is wrong, and of a syntax error not where.

use std::ops::Range;

/// What may come behind the beginning of an expression, so that it is a whole one: of any beginning that is right so far,
/// one of these makes it whole.
const ENDINGS: [&str; 13] = [
    "",
    "ip",
    "1",
    "1.2.3.4",
    "1.2.3.0/24",
    "host 1.2.3.4",
    "port 1",
    "1-2",
    "= 1",
    "1 = 1",
    "] = 1",
    "0] = 1",
    "1] = 1",
];

/// The most parentheses that are closed at the end of a beginning.
const OPEN_MAX: usize = 8;

/// The bytes of the expression where its mistake is: the word that the message names, or else the first that cannot come
/// where it stands; at the end if something is missing there. `compiles` is asked for parts of it.
pub fn place<T>(
    expression: &str,
    message: &str,
    compiles: &dyn Fn(&str) -> Result<T, String>,
) -> Range<usize> {
    let words = words(expression);
    let named = |word: &&Range<usize>| {
        let text = &expression[(*word).clone()];
        text.len() > 1 && message.contains(&format!("'{text}'"))
    };
    if let Some(word) = words.iter().find(named) {
        return word.clone();
    }
    if !message.contains("syntax error") {
        return expression.len() - expression.trim_start().len()..expression.trim_end().len();
    }
    let can_go_on = |beginning: &str| {
        let open = beginning.matches('(').count().saturating_sub(beginning.matches(')').count());
        let closed = ")".repeat(open.min(OPEN_MAX));
        // A host that is looked for is a right word, whether or not it is found.
        let is_whole = |text: String| match compiles(&text) {
            Ok(_) => true,
            Err(message) => !message.contains("syntax error"),
        };
        ENDINGS.iter().any(|ending| is_whole(format!("{beginning} {ending}{closed}")))
    };
    let wrong = words.iter().find(|word| !can_go_on(&expression[..word.end]));
    wrong.cloned().unwrap_or(expression.trim_end().len()..expression.len().max(1))
}

/// The words of an expression, and its signs; signs such as `&&` and `!=` are one.
fn words(expression: &str) -> Vec<Range<usize>> {
    let kind = |sign: char| match sign {
        _ if sign.is_whitespace() => Kind::Space,
        _ if sign.is_alphanumeric() || "._:/-\\".contains(sign) => Kind::Word,
        _ if "&|=!<>".contains(sign) => Kind::Operator,
        _ => Kind::Sign,
    };
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut before = Kind::Space;
    for (at, sign) in expression.char_indices() {
        let (end, kind) = (at + sign.len_utf8(), kind(sign));
        match words.last_mut() {
            Some(word) if kind == before && matches!(kind, Kind::Word | Kind::Operator) => word.end = end,
            _ if kind != Kind::Space => words.push(at..end),
            _ => {}
        }
        before = kind;
    }
    words
}

/// What a character of an expression is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Space,
    Word,
    Operator,
    Sign,
}
