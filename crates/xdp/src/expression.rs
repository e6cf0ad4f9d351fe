//! Values and operations as C. Every value is a `u64` whose bits past its width are 0, as the interpreter has it.

use p4::ir::{Binary, Compute, FieldId, Operand, Program, ones};

use crate::names::Names;

/// What expressions are written with.
#[derive(Clone, Copy)]
pub struct Expressions<'a> {
    /// The program.
    pub program: &'a Program,
    /// Its names.
    pub names: &'a Names,
}

impl Expressions<'_> {
    /// A value.
    pub fn operand(&self, operand: Operand) -> String {
        match operand {
            Operand::Field(field) => format!("p->{}", self.names.field(field)),
            Operand::Constant(constant) => number(constant.value),
        }
    }

    /// What an operation gives, with no bit past the width of the field that it is for.
    pub fn computed(&self, to: FieldId, value: &Compute) -> String {
        let of = |operand: Operand| self.operand(operand);
        let width = self.program.fields[to as usize].width;
        let cut = |text: String, has: u32| if has > width { masked(&text, width) } else { text };
        match *value {
            Compute::Copy { from } => cut(of(from), self.program.width(from)),
            Compute::Resize { from, signed: false } => cut(of(from), self.program.width(from)),
            Compute::Resize { from, signed: true } => {
                masked(&format!("(u64)sign({}, {})", of(from), self.program.width(from)), width)
            }
            Compute::Not { from } => masked(&format!("~{}", of(from)), width),
            Compute::Negate { from } => masked(&format!("-{}", of(from)), width),
            Compute::Slice { from, high, low } => {
                cut(masked(&format!("{} >> {low}", of(from)), high - low + 1), high - low + 1)
            }
            Compute::Insert { into, from, high, low } => {
                let mask = (ones(high - low + 1) << low) as u64;
                let kept = format!("({} & ~{})", of(into), number(mask.into()));
                let put = format!("({} << {low} & {})", of(from), number(mask.into()));
                cut(format!("({kept} | {put})"), self.program.width(into))
            }
            Compute::Binary { by, a, b } => {
                let (wide, b_wide) = (self.program.width(a), self.program.width(b));
                let result = p4::semantics::result_width(by, wide, b_wide);
                cut(binary(by, &of(a), &of(b), wide, b_wide), result)
            }
            Compute::Select { condition, then, otherwise } => {
                let widest = self.program.width(then).max(self.program.width(otherwise));
                cut(format!("({} ? {} : {})", of(condition), of(then), of(otherwise)), widest)
            }
        }
    }
}

/// The hash of some words: a step of paceline.h for each.
pub fn spread(seed: &str, words: impl IntoIterator<Item = impl std::fmt::Display>) -> String {
    words.into_iter().fold(seed.to_owned(), |hash, word| format!("spread({hash}, {word})"))
}

fn binary(by: Binary, a: &str, b: &str, width: u32, b_width: u32) -> String {
    let mask = number(ones(width));
    let plain = |sign: &str| format!("({a} {sign} {b})");
    let wrapped = |sign: &str| masked(&format!("{a} {sign} {b}"), width);
    let with_sign = |sign: &str| format!("(sign({a}, {width}) {sign} sign({b}, {width}))");
    match by {
        Binary::Add => wrapped("+"),
        Binary::Subtract => wrapped("-"),
        Binary::Multiply => wrapped("*"),
        Binary::SaturatingAdd => format!("saturating_add({a}, {b}, {mask})"),
        Binary::SaturatingSubtract => format!("saturating_subtract({a}, {b})"),
        Binary::SignedSaturatingAdd => format!("signed_saturating_add({a}, {b}, {width})"),
        Binary::SignedSaturatingSubtract => format!("signed_saturating_subtract({a}, {b}, {width})"),
        Binary::And => plain("&"),
        Binary::Or => plain("|"),
        Binary::Xor => plain("^"),
        Binary::ShiftLeft => masked(&format!("shift_left({a}, {b})"), width),
        Binary::ShiftRight => format!("shift_right({a}, {b})"),
        Binary::SignedShiftRight => masked(&format!("signed_shift_right({a}, {b}, {width})"), width),
        Binary::Concat => format!("({a} << {b_width} | {b})"),
        Binary::Equal => plain("=="),
        Binary::NotEqual => plain("!="),
        Binary::Less => plain("<"),
        Binary::LessEqual => plain("<="),
        Binary::SignedLess => with_sign("<"),
        Binary::SignedLessEqual => with_sign("<="),
    }
}

/// A text with only its lowest bits.
pub fn masked(text: &str, width: u32) -> String {
    match width {
        64.. => format!("({text})"),
        _ => format!("(({text}) & {})", number(ones(width))),
    }
}

/// A number of at most 64 bits.
pub fn number(value: u128) -> String {
    match value {
        0..10 => format!("{value}ull"),
        _ => format!("{value:#x}ull"),
    }
}

/// Bits of a packet as a value: `width` of them, `at_bits` behind the byte that `base` points to.
pub fn load(base: &str, at_bits: u32, width: u32) -> String {
    let (first, last) = (at_bits / 8, (at_bits + width - 1) / 8);
    if last - first >= 8 {
        // More bytes than a word has: the first one, then the rest.
        let rest = width - (8 - at_bits % 8);
        let (high, low) = (load(base, at_bits, width - rest), load(base, at_bits + width - rest, rest));
        return format!("({high} << {rest} | {low})");
    }
    let behind = (last + 1) * 8 - at_bits - width;
    let mut text = String::new();
    let mut at = first;
    while at <= last {
        let left = last + 1 - at;
        let bytes = [8, 4, 2, 1].into_iter().find(|bytes| *bytes <= left).unwrap_or(1);
        let part = format!("be{}({base} + {at})", bytes * 8);
        text = if text.is_empty() { part } else { format!("({text} << {} | {part})", bytes * 8) };
        at += bytes;
    }
    match (behind, (last + 1 - first) * 8 == width) {
        (0, true) => text,
        (0, false) => masked(&text, width),
        _ => masked(&format!("{text} >> {behind}"), width),
    }
}

/// Statements that write a value over bits of a packet, byte by byte.
pub fn store(base: &str, at_bits: u32, width: u32, value: &str) -> Vec<String> {
    let end = at_bits + width;
    let whole = |bits: u32| at_bits.is_multiple_of(8) && width == bits;
    if let Some(bits) = [16, 32, 64].into_iter().find(|bits| whole(*bits)) {
        return vec![format!("put{bits}({base} + {}, {value});", at_bits / 8)];
    }
    let byte = |at: u32| {
        let (from, to) = ((at * 8).max(at_bits), (at * 8 + 8).min(end));
        let (shift, behind) = (end - to, at * 8 + 8 - to);
        let part = masked(&format!("{value} >> {shift}"), to - from);
        match to - from {
            8 => format!("{base}[{at}] = {part};"),
            bits => {
                let kept = !(ones(bits) << behind) as u8;
                format!("{base}[{at}] = ({base}[{at}] & {kept:#x}) | {part} << {behind};")
            }
        }
    };
    (at_bits / 8..=(end - 1) / 8).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_read_where_they_are() {
        assert_eq!(load("at", 96, 16), "be16(at + 12)");
        assert_eq!(load("at", 0, 48), "(be32(at + 0) << 16 | be16(at + 4))");
        assert_eq!(load("at", 4, 4), "((be8(at + 0)) & 0xfull)");
        assert_eq!(load("at", 51, 13), "((be16(at + 6)) & 0x1fffull)");
        assert_eq!(load("at", 48, 3), "((be8(at + 6) >> 5) & 7ull)");
        // Nine bytes.
        let first = "((be8(at + 0)) & 0x1full)";
        assert_eq!(
            load("at", 3, 62),
            format!("({first} << 57 | ((be64(at + 1) >> 7) & 0x1ffffffffffffffull))")
        );
    }

    #[test]
    fn bits_are_written_where_they_are() {
        assert_eq!(store("at", 80, 16, "v"), ["put16(at + 10, v);"]);
        assert_eq!(store("at", 8, 8, "v"), ["at[1] = ((v >> 0) & 0xffull);"]);
        assert_eq!(store("at", 4, 4, "v"), ["at[0] = (at[0] & 0xf0) | ((v >> 0) & 0xfull) << 0;"]);
        assert_eq!(store("at", 48, 3, "v"), ["at[6] = (at[6] & 0x1f) | ((v >> 0) & 7ull) << 5;"]);
    }
}
