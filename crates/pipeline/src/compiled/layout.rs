//! Where the words of a header vector are in hardware, bit by bit.

use super::code::{ASKED, Op, WRITTEN};
use super::image::Image;

/// Bits of each word of a header vector, side by side from bit 0 on. A word without bits is not in hardware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bits of each word.
    pub widths: Vec<u32>,
}

impl Layout {
    /// That of a program.
    pub fn new(image: &Image) -> Layout {
        let mut widths = vec![0; image.words];
        let marks = image.objects.len().max(1) as u32;
        widths[ASKED] = marks;
        widths[WRITTEN] = marks;
        for held in &image.objects {
            widths[held.key_word] = held.key_bits();
            for first in [held.read_words, held.new_words] {
                split(&mut widths, first, held.widths.iter().copied());
            }
        }
        for (_, place) in &image.fields {
            split(&mut widths, place.word.into(), [place.width]);
        }
        let actions = image.machine.program().actions.len() as u64;
        for op in image.arrival.iter().chain(image.stages.iter().flatten()) {
            if let Op::LookUp { chosen, .. } = op {
                widths[usize::from(*chosen)] = u64::BITS - actions.leading_zeros();
            }
        }
        Layout { widths }
    }

    /// The first bit of a word.
    pub fn at(&self, word: usize) -> u32 {
        self.widths[..word].iter().sum()
    }

    /// Bits of all.
    pub fn bits(&self) -> u32 {
        self.widths.iter().sum()
    }
}

/// Values in words from `word` on: one word for up to 64 bits, else two.
fn split(widths: &mut [u32], mut word: usize, values: impl IntoIterator<Item = u16>) {
    for width in values {
        widths[word] = u32::from(width.min(64));
        word += 1;
        if width > 64 {
            widths[word] = u32::from(width - 64);
            word += 1;
        }
    }
}
