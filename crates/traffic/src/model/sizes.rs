//! The lengths of frames.

use std::fmt;
use std::str::FromStr;

use super::draw::{Dice, Stream};

/// How long frames are, bytes with the Ethernet header and without the frame check sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All alike.
    Fixed(u32),
    /// The simple IMIX: of twelve frames seven have 60 bytes, four 590, one 1,514. Where headers take more than
    /// 60, those have what they take.
    Imix,
    /// Lengths and weights, 1 to 64 of them, weights from 1.
    Mix(Vec<(u32, u32)>),
}

/// Lengths in a mix.
const MAX_SIZES: usize = 64;

const IMIX: [(u32, u32); 3] = [(60, 7), (590, 4), (1_514, 1)];

impl Sizes {
    /// Lengths and weights.
    pub(super) fn weighted(&self) -> Vec<(u32, u32)> {
        match self {
            Sizes::Fixed(bytes) => vec![(*bytes, 1)],
            Sizes::Imix => IMIX.to_vec(),
            Sizes::Mix(sizes) => sizes.clone(),
        }
    }

    /// These lengths, with all that is shorter as long as this.
    pub(super) fn at_least(&self, least: u32) -> Sizes {
        match self {
            Sizes::Fixed(bytes) => Sizes::Fixed(least.max(*bytes)),
            Sizes::Imix => Sizes::Imix,
            Sizes::Mix(sizes) => {
                Sizes::Mix(sizes.iter().map(|(bytes, weight)| (least.max(*bytes), *weight)).collect())
            }
        }
    }

    /// The shortest and the longest; `None` of an empty mix.
    pub(super) fn range(&self) -> Option<(u32, u32)> {
        let bytes = self.weighted().into_iter().map(|(bytes, _)| bytes);
        Some((bytes.clone().min()?, bytes.max()?))
    }

    /// Whether this is a mix that can be drawn from.
    pub(super) fn is_drawable(&self) -> bool {
        let sizes = self.weighted();
        (1..=MAX_SIZES).contains(&sizes.len()) && sizes.iter().all(|(_, weight)| *weight > 0)
    }
}

impl FromStr for Sizes {
    type Err = String;

    /// `fixed:60`, `imix`, or lengths with weights such as `60x7+590x4+1514`.
    fn from_str(text: &str) -> Result<Sizes, String> {
        let wrong = || "must be fixed:BYTES, imix, or a mix such as 60x7+590x4+1514x1".to_owned();
        let number = |digits: &str| digits.parse::<u32>().map_err(|_| wrong());
        if text == "imix" {
            return Ok(Sizes::Imix);
        }
        if let Some(bytes) = text.strip_prefix("fixed:") {
            return Ok(Sizes::Fixed(number(bytes)?));
        }
        let size = |part: &str| match part.split_once('x') {
            Some((bytes, weight)) => Ok((number(bytes)?, number(weight)?)),
            None => Ok((number(part)?, 1)),
        };
        let sizes = Sizes::Mix(text.split('+').map(size).collect::<Result<_, String>>()?);
        if !sizes.is_drawable() {
            return Err(format!("must be 1 to {MAX_SIZES} lengths, with weights from 1"));
        }
        Ok(sizes)
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sizes::Fixed(bytes) => write!(f, "fixed:{bytes}"),
            Sizes::Imix => f.write_str("imix"),
            Sizes::Mix(sizes) => {
                let parts: Vec<_> = sizes.iter().map(|(bytes, weight)| format!("{bytes}x{weight}")).collect();
                f.write_str(&parts.join("+"))
            }
        }
    }
}

/// Draws lengths.
pub(super) struct SizeDraw {
    /// Lengths, each with the sum of the weights up to it.
    cumulative: Vec<(u32, u64)>,
    dice: Dice,
}

impl SizeDraw {
    pub fn new(sizes: &Sizes, seed: u64) -> SizeDraw {
        let add = |sum: &mut u64, (bytes, weight): (u32, u32)| {
            *sum += u64::from(weight);
            Some((bytes, *sum))
        };
        let cumulative = sizes.weighted().into_iter().scan(0, add).collect();
        SizeDraw { cumulative, dice: Dice::new(seed, Stream::Size) }
    }

    /// The next frame's length, bytes.
    pub fn next(&mut self) -> usize {
        let bytes = match self.cumulative.as_slice() {
            [] => 0,
            [(bytes, _)] => *bytes,
            [.., (_, total)] => {
                let point = self.dice.below(*total);
                let index = self.cumulative.partition_point(|(_, weight)| *weight <= point);
                self.cumulative[index].0
            }
        };
        bytes as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for text in ["fixed:60", "imix", "60x7+590x4+1514x1"] {
            assert_eq!(text.parse::<Sizes>().map(|sizes| sizes.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("60+70x2".parse(), Ok(Sizes::Mix(vec![(60, 1), (70, 2)])));
        for text in ["", "fixed", "fixed:", "fixed:x", "60x0", "60x", "60,70", "-1", "60+"] {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_mix_has_its_weights() {
        let mut draw = SizeDraw::new(&Sizes::Imix, 3);
        let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
        (0..12_000).for_each(|_| *counts.entry(draw.next()).or_default() += 1);
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [60, 590, 1_514]);
        for (bytes, expected) in [(60, 7_000), (590, 4_000), (1_514, 1_000)] {
            assert!(counts[&bytes].abs_diff(expected) < 200, "{bytes}: {counts:?}");
        }
    }
}
