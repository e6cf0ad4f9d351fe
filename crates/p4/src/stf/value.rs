//! Values and sets of values as test files write them.

use crate::ir::{Constant, KeySet, MatchKind, ones};

/// A value of so many bits.
pub fn value(text: &str, width: u32) -> Result<u128, String> {
    let parsed = number(text).or_else(|| address(text)).ok_or_else(|| format!("`{text}` is no value"))?;
    if parsed > ones(width) {
        return Err(format!("{text} does not fit in {width} bits"));
    }
    Ok(parsed)
}

fn number(text: &str) -> Option<u128> {
    if let Some(digits) = text.strip_prefix("0x") {
        u128::from_str_radix(digits, 16).ok()
    } else if let Some(digits) = text.strip_prefix("0b") {
        u128::from_str_radix(digits, 2).ok()
    } else {
        text.parse().ok()
    }
}

fn address(text: &str) -> Option<u128> {
    if let Ok(address) = text.parse::<std::net::Ipv4Addr>() {
        return Some(u32::from(address).into());
    }
    if let Ok(address) = text.parse::<std::net::Ipv6Addr>() {
        return Some(address.into());
    }
    Some(mac(text)?.iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte)))
}

/// A MAC address: six bytes in hexadecimal with colons.
pub fn mac(text: &str) -> Option<[u8; 6]> {
    let byte = |part: &str| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2);
    let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
    bytes?.try_into().ok()
}

/// What a key is held against.
pub fn key_set(text: &str, width: u32, kind: MatchKind) -> Result<KeySet, String> {
    if kind == MatchKind::Range {
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        let (low, high) = (value(low.trim(), width)?, value(high.trim(), width)?);
        return Ok(KeySet::Range { low: Constant::new(low, width), high: Constant::new(high, width) });
    }
    let (found, mask) = masked(text, width)?;
    let zeros = !mask & ones(width);
    let is_allowed = match kind {
        MatchKind::Exact => mask == ones(width),
        MatchKind::Lpm => zeros & zeros.wrapping_add(1) == 0,
        MatchKind::Optional => mask == ones(width) || mask == 0,
        MatchKind::Ternary | MatchKind::Range => true,
    };
    if !is_allowed {
        return Err(format!("`{text}` does not go with how this key is matched"));
    }
    Ok(KeySet::Masked { value: Constant::new(found, width), mask: Constant::new(mask, width) })
}

/// A value and its mask: `value`, `value/bits`, `value&&&mask`, `0x1*`, `*`.
pub fn masked(text: &str, width: u32) -> Result<(u128, u128), String> {
    if text == "*" || text == "_" {
        return Ok((0, 0));
    }
    let (found, mask) = if let Some((found, mask)) = text.split_once("&&&") {
        (value(found.trim(), width)?, value(mask.trim(), width)?)
    } else if let Some((found, bits)) = text.split_once('/') {
        let bits = bits.parse::<u32>().ok().filter(|bits| *bits <= width);
        let bits = bits.ok_or_else(|| format!("`{text}`: a prefix has up to {width} bits"))?;
        (value(found, width)?, ones(width) & !ones(width - bits))
    } else if let Some(digits) = text.strip_prefix("0x").filter(|digits| digits.contains('*')) {
        let mask = digits.chars().map(|c| if c == '*' { '0' } else { 'f' }).collect::<String>();
        let found = digits.replace('*', "0");
        (
            value(&format!("0x{found}"), width)?,
            u128::from_str_radix(&mask, 16).unwrap_or_default() & ones(width),
        )
    } else {
        (value(text, width)?, ones(width))
    };
    Ok((found & mask, mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_values() {
        assert_eq!(value("10", 8), Ok(10));
        assert_eq!(value("0x10", 8), Ok(16));
        assert_eq!(value("0b10", 8), Ok(2));
        assert_eq!(value("10.0.0.1", 32), Ok(0x0a00_0001));
        assert_eq!(value("02:00:00:00:00:0a", 48), Ok(0x0200_0000_000a));
        assert!(value("256", 8).is_err() && value("x", 8).is_err());
    }

    #[test]
    fn forms_of_sets() {
        assert_eq!(masked("10.1.2.3/8", 32), Ok((0x0a00_0000, 0xff00_0000)));
        assert_eq!(masked("0x1*", 8), Ok((0x10, 0xf0)));
        assert_eq!(masked("3&&&1", 8), Ok((1, 1)));
        assert_eq!(masked("*", 8), Ok((0, 0)));
        assert!(key_set("3&&&1", 8, MatchKind::Exact).is_err());
        assert!(key_set("3&&&1", 8, MatchKind::Lpm).is_err());
        assert!(key_set("1..5", 8, MatchKind::Range).is_ok_and(|set| set.contains(5) && !set.contains(6)));
    }
}
