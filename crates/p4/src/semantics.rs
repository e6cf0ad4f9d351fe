//! What operations give: one place for the checker, the passes and the interpreter.
//!
//! A value is the low `width` bits of a `u128`; all others are 0. `int<N>` is two's complement.

use crate::ir::{Binary, ones};

/// `a op b` where `a` has `width` bits, `b` has `b_width`, and so on.
///
/// Operands have no bits past their width. The result has none past its own: `width`, 1 for comparisons, the sum
/// for [`Binary::Concat`].
#[inline]
pub fn binary(op: Binary, a: u128, b: u128, width: u32, b_width: u32) -> u128 {
    let mask = ones(width);
    match op {
        Binary::Add => a.wrapping_add(b) & mask,
        Binary::Subtract => a.wrapping_sub(b) & mask,
        Binary::Multiply => a.wrapping_mul(b) & mask,
        Binary::SaturatingAdd => a.checked_add(b).map_or(mask, |sum| sum.min(mask)),
        Binary::SaturatingSubtract => a.saturating_sub(b),
        Binary::SignedSaturatingAdd => saturate(signed(a, width), signed(b, width), width),
        Binary::SignedSaturatingSubtract => saturating_difference(signed(a, width), signed(b, width), width),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::ShiftLeft if b >= u128::from(width) => 0,
        Binary::ShiftLeft => (a << b) & mask,
        Binary::ShiftRight if b >= u128::from(width) => 0,
        Binary::ShiftRight => a >> b,
        Binary::SignedShiftRight => (signed(a, width) >> b.min(127)) as u128 & mask,
        Binary::Concat if b_width >= 128 => b,
        Binary::Concat => a << b_width | b,
        Binary::Equal => u128::from(a == b),
        Binary::NotEqual => u128::from(a != b),
        Binary::Less => u128::from(a < b),
        Binary::LessEqual => u128::from(a <= b),
        Binary::SignedLess => u128::from(signed(a, width) < signed(b, width)),
        Binary::SignedLessEqual => u128::from(signed(a, width) <= signed(b, width)),
    }
}

/// The bits of the result of an operation.
pub fn result_width(op: Binary, width: u32, b_width: u32) -> u32 {
    match op {
        Binary::Equal
        | Binary::NotEqual
        | Binary::Less
        | Binary::LessEqual
        | Binary::SignedLess
        | Binary::SignedLessEqual => 1,
        Binary::Concat => width + b_width,
        _ => width,
    }
}

/// From `from` bits to `to`.
#[inline]
pub fn resize(value: u128, from: u32, to: u32, is_signed: bool) -> u128 {
    let value = if is_signed { signed(value, from) as u128 } else { value };
    value & ones(to)
}

/// `into` with bits `high` to `low` replaced.
#[inline]
pub fn insert(into: u128, from: u128, high: u32, low: u32) -> u128 {
    let mask = ones(high - low + 1) << low;
    into & !mask | (from << low) & mask
}

/// As a number with a sign.
#[inline]
pub fn signed(value: u128, width: u32) -> i128 {
    let unused = 128 - width.clamp(1, 128);
    ((value << unused) as i128) >> unused
}

fn bounds(width: u32) -> (i128, i128) {
    let unused = 128 - width.clamp(1, 128);
    (i128::MIN >> unused, i128::MAX >> unused)
}

fn saturate(a: i128, b: i128, width: u32) -> u128 {
    let (least, most) = bounds(width);
    a.saturating_add(b).clamp(least, most) as u128 & ones(width)
}

fn saturating_difference(a: i128, b: i128, width: u32) -> u128 {
    let (least, most) = bounds(width);
    a.saturating_sub(b).clamp(least, most) as u128 & ones(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked out by hand.
    #[test]
    fn widths_wrap_and_saturate() {
        let on = |op, a, b, width| binary(op, a, b, width, width);
        assert_eq!(on(Binary::Add, 250, 10, 8), 4);
        assert_eq!(on(Binary::Subtract, 3, 5, 8), 254);
        assert_eq!(on(Binary::Multiply, 200, 3, 8), 600 - 512);
        assert_eq!(on(Binary::SaturatingAdd, 250, 10, 8), 255);
        assert_eq!(on(Binary::SaturatingSubtract, 3, 5, 8), 0);
        assert_eq!(on(Binary::SignedSaturatingAdd, 100, 100, 8), 127);
        assert_eq!(on(Binary::SignedSaturatingSubtract, 0x80, 1, 8), 0x80);
        assert_eq!(on(Binary::Add, u128::MAX, 1, 128), 0);
        assert_eq!(on(Binary::SaturatingAdd, u128::MAX, 1, 128), u128::MAX);
    }

    #[test]
    fn shifts_take_any_distance() {
        assert_eq!(binary(Binary::ShiftLeft, 0x81, 1, 8, 8), 2);
        assert_eq!(binary(Binary::ShiftLeft, 1, 8, 8, 8), 0);
        assert_eq!(binary(Binary::ShiftRight, 0x81, 1, 8, 8), 0x40);
        assert_eq!(binary(Binary::ShiftRight, 1, u128::MAX, 128, 128), 0);
        assert_eq!(binary(Binary::SignedShiftRight, 0x80, 3, 8, 8), 0xf0);
        assert_eq!(binary(Binary::SignedShiftRight, 0x80, 300, 8, 16), 0xff);
        assert_eq!(binary(Binary::SignedShiftRight, 0x40, 300, 8, 16), 0);
    }

    #[test]
    fn signs_slices_and_concatenation() {
        assert_eq!(binary(Binary::SignedLess, 0xff, 1, 8, 8), 1);
        assert_eq!(binary(Binary::Less, 0xff, 1, 8, 8), 0);
        assert_eq!(resize(0xff, 8, 16, true), 0xffff);
        assert_eq!(resize(0xff, 8, 16, false), 0xff);
        assert_eq!(resize(0x1ff, 9, 8, true), 0xff);
        assert_eq!(binary(Binary::Concat, 0xa, 0xb, 4, 8), 0xa0b);
        assert_eq!(binary(Binary::Concat, 0, 7, 0, 128), 7);
        assert_eq!(insert(0xffff, 0, 11, 4), 0xf00f);
        assert_eq!(insert(0, u128::MAX, 127, 0), u128::MAX);
    }
}
