//! The token without which the page changes nothing.

use std::fmt;

use subtle::ConstantTimeEq;

/// The fewest characters of a token.
pub const TOKEN_LEAST: usize = 16;

/// What a request has to show: `Authorization: Bearer TOKEN`. It is never a part of an address, which browsers and others keep.
#[derive(Clone)]
pub struct Token(String);

/// A token is in no message.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// A token that a user chose, or why it is none.
    ///
    /// # Errors
    /// It is too short, or has characters that no header has.
    pub fn new(text: &str) -> Result<Token, String> {
        if text.len() < TOKEN_LEAST {
            return Err(format!("it has {} characters, and needs {TOKEN_LEAST}", text.len()));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("it has other characters than letters, digits and signs of ASCII".to_owned());
        }
        Ok(Token(text.to_owned()))
    }

    /// The token, to be said once to who starts the run.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether an `Authorization` header shows it. How long this takes says nothing of where they differ.
    pub(crate) fn is_shown(&self, header: &[u8]) -> bool {
        header.strip_prefix(b"Bearer ").is_some_and(|shown| shown.ct_eq(self.0.as_bytes()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_shown_whole_or_not() {
        let token = Token::new("0123456789abcdef").expect("a token");
        assert!(token.is_shown(b"Bearer 0123456789abcdef"));
        for wrong in [
            &b""[..],
            b"Bearer",
            b"Bearer ",
            b"Bearer 0123456789abcde",
            b"Bearer 0123456789abcdef0",
            b"Bearer 0123456789abcdeF",
            b"bearer 0123456789abcdef",
            b"0123456789abcdef",
            b"Basic 0123456789abcdef",
        ] {
            assert!(!token.is_shown(wrong), "{}", String::from_utf8_lossy(wrong));
        }
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn what_is_easily_guessed_or_in_no_header_is_no_token() {
        for wrong in
            ["", "short", "0123456789abcde", "0123456789 abcdef", "0123456789abcdef\n", "0123456789abcdefé"]
        {
            assert!(Token::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
