//! Which of some names was probably meant, for errors about names that are not there.
//!
//! Chain files, rules, programs in P4, models of traffic and command lines all have names that people write. [`nearest`] is
//! the one search for what they meant. The crates that find names unknown word the error.
#![no_std]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

/// A longer name is not searched for: it is no name that was mistyped, and a stranger may have written it.
const MAX_CHARACTERS: usize = 64;

/// The choice that `name` was probably meant to be; `None` where no choice is like it, or `name` is one of them.
///
/// A choice is like a name that has a slip of the finger in three letters at most: a letter that is missing, too many, another
/// one, or two that changed places. Case and whether words are joined by `_` or `-` are no slips. A choice of several words is
/// also like its first words, `rate` for `rate_bytes_per_s`, and its last ones, `limiter` for `rate-limiter`. Of several the one with
/// the fewest slips is meant, and the first of these.
pub fn nearest<'a>(name: &str, choices: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.is_empty() || name.chars().nth(MAX_CHARACTERS).is_some() {
        return None;
    }
    let wanted = plain(name);
    let mut best: Option<(usize, &str)> = None;
    for choice in choices {
        if choice == name {
            return None;
        }
        let Some(slips) = slips(&wanted, &plain(choice)) else { continue };
        if best.is_none_or(|(fewest, _)| slips < fewest) {
            best = Some((slips, choice));
        }
    }
    best.map(|(_, choice)| choice)
}

/// Small letters, joined by `-`.
fn plain(name: &str) -> Vec<char> {
    let letters: String = name.to_lowercase().replace(['_', ' '], "-");
    letters.chars().take(MAX_CHARACTERS + 1).collect()
}

/// How many slips make `name` of a choice; `None` if it is not like it.
fn slips(name: &[char], choice: &[char]) -> Option<usize> {
    let most = (name.len().max(choice.len()) / 3).max(1);
    let slips = distance(name, choice);
    // A name of which nothing is left is another one: `ab` for `xy`.
    if slips <= most && slips < name.len().max(choice.len()) {
        return Some(slips);
    }
    // Less sure than two slips, and surer than many.
    const WORDS: usize = 2;
    let is_word = |rest: Option<&char>| rest.is_some_and(|joint| matches!(joint, '-' | '.' | ':'));
    let is_first = choice.starts_with(name) && is_word(choice.get(name.len()));
    let is_last = choice.ends_with(name) && is_word(choice.get((choice.len() - name.len()).wrapping_sub(1)));
    (is_first || is_last).then_some(WORDS)
}

/// The distance of two words: letters put in, taken out, replaced, or swapped with their neighbour, each pair of letters at
/// most once (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut two_above: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i + 1);
        for (j, y) in b.iter().enumerate() {
            let mut least = (above[j] + usize::from(x != y)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(two_above[j - 1] + 1);
            }
            row.push(least);
        }
        two_above = core::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FUNCTIONS: [&str; 8] =
        ["conntrack", "ddos", "heavy-hitters", "nat", "policer", "port-knock", "port-scan", "rate-limiter"];

    #[test]
    fn slips_of_the_finger_are_put_right() {
        let pairs = [
            ("contrack", "conntrack"),
            ("conntrak", "conntrack"),
            ("nta", "nat"),
            ("natt", "nat"),
            ("POLICER", "policer"),
            ("heavy_hitters", "heavy-hitters"),
            ("heavyhitter", "heavy-hitters"),
            ("limiter", "rate-limiter"),
            ("heavy", "heavy-hitters"),
            ("portknock", "port-knock"),
            ("port-scna", "port-scan"),
        ];
        for (wrong, right) in pairs {
            assert_eq!(nearest(wrong, FUNCTIONS), Some(right), "{wrong}");
        }
    }

    #[test]
    fn what_is_like_no_choice_gets_none() {
        for none in ["xyz", "", "firewall", "q", "synthetic", "nat", &"n".repeat(1 << 20)] {
            assert_eq!(nearest(none, FUNCTIONS), None, "{}", none.len());
        }
        assert_eq!(nearest("ab", ["xy"]), None);
        assert_eq!(nearest("a", ["b"]), None);
        assert_eq!(nearest("nat", []), None);
    }

    #[test]
    fn the_fewest_slips_are_meant_and_the_first_of_equals() {
        assert_eq!(nearest("stat", ["start", "state"]), Some("start"));
        assert_eq!(nearest("port-scam", ["port-scar", "port-scan", "port"]), Some("port-scar"));
        assert_eq!(nearest("rate", ["rate_bytes_per_s", "rates"]), Some("rates"));
    }

    /// The textbook's definition, by recursion.
    fn slow(a: &[char], b: &[char]) -> usize {
        let ([rest_a @ .., x], [rest_b @ .., y]) = (a, b) else { return a.len().max(b.len()) };
        let mut least = slow(rest_a, rest_b) + usize::from(x != y);
        least = least.min(slow(rest_a, b) + 1).min(slow(a, rest_b) + 1);
        if let ([shorter_a @ .., before_x], [shorter_b @ .., before_y]) = (rest_a, rest_b)
            && (x, before_x) == (before_y, y)
        {
            least = least.min(slow(shorter_a, shorter_b) + 1);
        }
        least
    }

    proptest! {
        #[test]
        fn the_distance_is_the_textbooks(a in "[abc]{0,6}", b in "[abc]{0,6}") {
            let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
            prop_assert_eq!(distance(&a, &b), slow(&a, &b));
            prop_assert_eq!(distance(&a, &b), distance(&b, &a));
        }

        #[test]
        fn any_text_is_searched_for(name in ".{0,80}", choices in proptest::collection::vec(".{0,80}", 0..5)) {
            let near = nearest(&name, choices.iter().map(String::as_str));
            prop_assert!(near.is_none_or(|near| near != name && choices.iter().any(|choice| choice == near)));
        }
    }
}
