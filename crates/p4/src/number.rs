//! Numbers as P4 writes them: `10`, `0xff`, `8w255`, `4s7`, `0b1010_1010`.

use num_bigint::BigUint;
use num_traits::Num;

/// Digits of a number at most: those of the widest container in binary, with room to spare.
const MAX_DIGITS: usize = 512;

/// A number with the width that is written before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Its value, without a sign.
    pub value: BigUint,
    /// Bits, and whether it is an `int<N>`.
    pub width: Option<(u32, bool)>,
}

/// Reads one.
///
/// # Errors
/// What is wrong with it, in words.
pub fn parse(text: &str) -> Result<Number, String> {
    let (width, digits) = match text.find(['w', 's']) {
        None => (None, text),
        Some(at) => {
            let bits = text[..at].parse::<u32>().map_err(|_| "its width is too large".to_owned())?;
            (Some((bits, text.as_bytes()[at] == b's')), &text[at + 1..])
        }
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        Some("0d") => (10, &lower[2..]),
        _ => (10, &lower[..]),
    };
    let digits: String = digits.chars().filter(|c| *c != '_').collect();
    if digits.len() > MAX_DIGITS {
        return Err(format!("it has more than {MAX_DIGITS} digits"));
    }
    let value = BigUint::from_str_radix(&digits, radix).map_err(|_| "it has no digits".to_owned())?;
    Ok(Number { value, width })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_and_widths() {
        let plain = |value: u32| Number { value: value.into(), width: None };
        assert_eq!(parse("10"), Ok(plain(10)));
        assert_eq!(parse("0xFf"), Ok(plain(255)));
        assert_eq!(parse("0b1010_1"), Ok(plain(21)));
        assert_eq!(parse("0o17"), Ok(plain(15)));
        assert_eq!(parse("0d19"), Ok(plain(19)));
        assert_eq!(parse("8w0x1_0"), Ok(Number { value: 16u32.into(), width: Some((8, false)) }));
        assert_eq!(parse("4s7"), Ok(Number { value: 7u32.into(), width: Some((4, true)) }));
        assert!(parse("0x_").is_err() && parse("99999999999w1").is_err());
    }
}
