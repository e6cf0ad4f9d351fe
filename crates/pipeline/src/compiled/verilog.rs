//! Operations of a stage as statements of SystemVerilog.
//!
//! Words of a header vector are variables `w0`, `w1` and so on. Jumps lead forward only: `at` is the operation that a jump
//! led to, and what comes before it is left out.

use std::fmt::Write as _;

use p4::ir::{Binary, KeySet, MatchKind, Table, has_priorities};

use super::code::{ASKED, Compute, Op, Place, Range, Source, WRITTEN};
use super::image::Image;
use super::layout::Layout;
use super::limits::words_of;

/// What a stage does, a statement a line. `Err` names the first part that there is no hardware for.
pub fn statements(image: &Image, layout: &Layout, ops: &[Op]) -> Result<String, String> {
    let writer = Writer { image, layout };
    let mut text = String::new();
    let mut has_jumped = false;
    for (number, op) in ops.iter().enumerate() {
        let statement = writer.statement(op)?;
        match has_jumped {
            true => _ = writeln!(text, "      if (at <= 16'd{number}) begin {statement} end"),
            false => _ = writeln!(text, "      {statement}"),
        }
        has_jumped |= matches!(op, Op::Jump { .. } | Op::UnlessSet { .. } | Op::UnlessChosen { .. });
    }
    Ok(text)
}

struct Writer<'a> {
    image: &'a Image,
    layout: &'a Layout,
}

impl Writer<'_> {
    fn statement(&self, op: &Op) -> Result<String, String> {
        Ok(match *op {
            Op::Compute { to, compute } => put(to, &self.computed(compute, to)?),
            Op::UnlessSet { condition, target } => {
                format!("if ({} == 128'd0) at = 16'd{target};", self.value(condition))
            }
            Op::UnlessChosen { word, action, target } => {
                let bits = self.layout.widths[usize::from(word)];
                format!("if (w{word} != {bits}'d{}) at = 16'd{target};", action + 1)
            }
            Op::Jump { target } => format!("at = 16'd{target};"),
            Op::ForgetAsked { objects } => self.forget(ASKED, objects),
            Op::ForgetWritten { objects } => self.forget(WRITTEN, objects),
            Op::LookUp { table, keys, chosen, hit, action_run } => {
                self.look_up(table, keys, chosen, [hit, action_run])
            }
            Op::Ask { object, keys } => self.ask(object, keys),
            Op::Recall { object, to } => self.recall(object, to),
            Op::Keep { object, values } => self.keep(object, values),
            Op::Count { .. } => return Err("a counter".to_owned()),
            Op::Mark { .. } => return Err("a meter".to_owned()),
            Op::Hash { .. } => return Err("a hash".to_owned()),
            Op::Checksum { .. } => return Err("a checksum".to_owned()),
            Op::Random { .. } => return Err("a random number".to_owned()),
        })
    }

    fn forget(&self, word: usize, objects: u64) -> String {
        let bits = self.layout.widths[word];
        let kept = !objects & (u64::MAX >> (u64::BITS - bits));
        format!("w{word} = w{word} & {bits}'d{kept};")
    }

    /// A value, of 128 bits.
    fn value(&self, source: Source) -> String {
        match source {
            Source::Word(word) if self.layout.widths[usize::from(word)] == 0 => "128'd0".to_owned(),
            Source::Word(word) => format!("128'(w{word})"),
            Source::Pair(word) => format!("128'({{w{}, w{word}}})", word + 1),
            Source::Constant(value) => format!("128'h{value:x}"),
            Source::Wide(at) => format!("128'h{:x}", self.image.lists.wide[at as usize]),
        }
    }

    fn computed(&self, compute: Compute, to: Place) -> Result<String, String> {
        Ok(match compute {
            Compute::Copy(from) => self.value(from),
            Compute::Resize { from, width, signed: true } => {
                format!("128'($signed({width}'({})))", self.value(from))
            }
            Compute::Resize { from, .. } => self.value(from),
            Compute::Not(from) => format!("~{}", self.value(from)),
            Compute::Negate(from) => format!("128'd0 - {}", self.value(from)),
            Compute::Slice { from, high, low } => {
                format!("128'({}'({} >> {low}))", high - low + 1, self.value(from))
            }
            Compute::Insert { into, from, high, low } => {
                let mask = p4::ir::ones(u32::from(high - low) + 1) << low;
                let (into, from) = (self.value(into), self.value(from));
                format!("({into} & ~128'h{mask:x}) | (({from} << {low}) & 128'h{mask:x})")
            }
            Compute::Binary { by, a, b, width, b_width } => self.binary(by, [a, b], width, b_width, to)?,
            Compute::Select { condition, then, otherwise } => {
                let (then, otherwise) = (self.value(then), self.value(otherwise));
                format!("{} != 128'd0 ? {then} : {otherwise}", self.value(condition))
            }
        })
    }

    fn binary(
        &self,
        by: Binary,
        [a, b]: [Source; 2],
        width: u16,
        b_width: u16,
        to: Place,
    ) -> Result<String, String> {
        let (a, b) = (self.value(a), self.value(b));
        let mask = format!("128'h{:x}", p4::ir::ones(width.into()));
        let signed = |value: &str| format!("$signed({width}'({value}))");
        let compared = |by: &str| format!("128'({a} {by} {b})");
        let compared_signed = |by: &str| format!("128'({} {by} {})", signed(&a), signed(&b));
        Ok(match by {
            Binary::Add => format!("({a} + {b}) & {mask}"),
            Binary::Subtract => format!("({a} - {b}) & {mask}"),
            Binary::Multiply => format!("({a} * {b}) & {mask}"),
            Binary::SaturatingAdd if width < 128 => {
                format!("{a} + {b} > {mask} ? {mask} : {a} + {b}")
            }
            Binary::SaturatingSubtract => format!("{a} > {b} ? {a} - {b} : 128'd0"),
            Binary::And => format!("{a} & {b}"),
            Binary::Or => format!("{a} | {b}"),
            Binary::Xor => format!("{a} ^ {b}"),
            Binary::ShiftLeft => format!("({b} >= 128'd{width} ? 128'd0 : {a} << {b}) & {mask}"),
            Binary::ShiftRight => format!("{b} >= 128'd{width} ? 128'd0 : {a} >> {b}"),
            Binary::Concat if b_width < 128 => format!("({a} << {b_width}) | {b}"),
            Binary::Equal => compared("=="),
            Binary::NotEqual => compared("!="),
            Binary::Less => compared("<"),
            Binary::LessEqual => compared("<="),
            Binary::SignedLess => compared_signed("<"),
            Binary::SignedLessEqual => compared_signed("<="),
            _ => return Err(format!("an operation of {} bits ({by:?})", to.width)),
        })
    }

    fn look_up(&self, table: u32, keys: Range, chosen: u16, [hit, action_run]: [Option<Place>; 2]) -> String {
        let declared = &self.image.machine.program().tables[table as usize];
        let sources = keys.of(&self.image.lists.sources);
        let mut entries: Vec<_> = declared.entries.iter().collect();
        // The longest prefix, where no order decides.
        if !has_priorities(&declared.keys)
            && let Some(at) = declared.keys.iter().position(|key| key.kind == MatchKind::Lpm)
        {
            entries.sort_by_key(|entry| match entry.keys[at] {
                KeySet::Masked { mask, .. } => 128 - mask.value.count_ones(),
                KeySet::Range { .. } => 128,
            });
        }
        let does = |call: &p4::ir::ActionCall, is_hit: bool| {
            let bits = self.layout.widths[usize::from(chosen)];
            let mut text = format!("w{chosen} = {bits}'d{};", call.action + 1);
            for (place, argument) in self.image.parameters[call.action as usize].iter().zip(&call.arguments) {
                if let Some(place) = place {
                    _ = write!(text, " {}", put(*place, &format!("128'h{:x}", argument.value)));
                }
            }
            if let Some(hit) = hit {
                _ = write!(text, " {}", put(hit, &format!("128'd{}", u8::from(is_hit))));
            }
            if let Some(to) = action_run {
                _ = write!(text, " {}", put(to, &format!("128'd{}", position(declared, call.action))));
            }
            text
        };
        let mut text = String::new();
        // A table without keys has nothing to match.
        for entry in entries.iter().filter(|_| !sources.is_empty()) {
            let tests = entry.keys.iter().zip(sources).map(|(key, source)| self.matches(key, *source));
            let tests: Vec<_> = tests.collect();
            _ = write!(text, "if ({}) begin {} end else ", tests.join(" && "), does(&entry.call, true));
        }
        format!("{text}begin {} end", does(&declared.default, false))
    }

    fn matches(&self, key: &KeySet, source: Source) -> String {
        let value = self.value(source);
        match key {
            KeySet::Masked { mask, .. } if mask.value == 0 => "1'b1".to_owned(),
            KeySet::Masked { value: wanted, mask } => {
                format!("(({value} & 128'h{:x}) == 128'h{:x})", mask.value, wanted.value & mask.value)
            }
            KeySet::Range { low, high } => {
                format!("({value} >= 128'h{:x} && {value} <= 128'h{:x})", low.value, high.value)
            }
        }
    }

    fn ask(&self, object: u16, keys: Range) -> String {
        let held = &self.image.objects[usize::from(object)];
        let sources = keys.of(&self.image.lists.sources);
        let widths = held.key_widths().unwrap_or_default();
        let parts: Vec<_> = sources
            .iter()
            .zip(&widths)
            .map(|(source, width)| format!("{width}'({})", self.value(*source)))
            .collect();
        format!("w{ASKED}[{object}] = 1'b1; w{} = {{{}}};", held.key_word, parts.join(", "))
    }

    fn recall(&self, object: u16, to: Range) -> String {
        let held = &self.image.objects[usize::from(object)];
        let mut at = 0;
        let mut text = Vec::new();
        for place in to.of(&self.image.lists.places) {
            let [new, read] =
                [held.new_words + at, held.read_words + at].map(|word| match place.width > 64 {
                    true => format!("{{w{}, w{word}}}", word + 1),
                    false => format!("w{word}"),
                });
            let value =
                format!("w{ASKED}[{object}] ? (w{WRITTEN}[{object}] ? 128'({new}) : 128'({read})) : 128'd0");
            text.push(put(*place, &value));
            at += words_of(place.width);
        }
        text.join(" ")
    }

    fn keep(&self, object: u16, values: Range) -> String {
        let held = &self.image.objects[usize::from(object)];
        let mut word = held.new_words as u16;
        let mut text = format!("if (w{ASKED}[{object}]) begin w{WRITTEN}[{object}] = 1'b1;");
        for (source, width) in values.of(&self.image.lists.sources).iter().zip(&held.widths) {
            _ = write!(text, " {}", put(Place { word, width: *width }, &self.value(*source)));
            word += words_of(*width) as u16;
        }
        text + " end"
    }
}

/// Puts an expression of 128 bits where it goes, cut to its bits.
fn put(to: Place, value: &str) -> String {
    let Place { word, width } = to;
    match width > 64 {
        true => format!("{{w{}, w{word}}} = {width}'({value});", word + 1),
        false => format!("w{word} = {width}'({value});"),
    }
}

/// The place of an action in a table's list of them.
fn position(table: &Table, action: u32) -> usize {
    table.actions.iter().position(|listed| *listed == action).unwrap_or_default()
}
