//! Reduces a capture to few packets that still show a difference.

use crate::Capture;

/// A capture made smaller.
#[derive(Clone, Debug)]
pub struct Reduced {
    /// What is left.
    pub capture: Capture,
    /// Whether no packet can be left out: `false` where the search was ended before.
    pub is_smallest: bool,
    /// How often the question was asked.
    pub tried: u64,
}

/// Finds few packets of `capture` of which `differs` still holds, by delta debugging (Zeller and Hildebrandt,
/// "Simplifying and Isolating Failure-Inducing Input", 2002, ddmin): parts are left out, halves first, then smaller
/// ones, until no single packet can be. `differs` must hold of `capture`; `first` is the packet, from 1, behind which
/// nothing may be needed. `differs` says `None` to end the search.
pub fn smallest(
    capture: &Capture,
    first: Option<u64>,
    differs: &mut dyn FnMut(&Capture) -> Option<bool>,
) -> Reduced {
    let mut kept: Vec<usize> = (0..capture.packets()).collect();
    let mut tried = 0;
    let mut ask = |indices: &[usize]| {
        tried += 1;
        differs(&capture.select(indices))
    };
    let mut is_smallest = true;
    if let Some(first) = first.map(|first| first as usize).filter(|first| *first < kept.len()) {
        match ask(&kept[..first]) {
            Some(true) => kept.truncate(first),
            Some(false) => {}
            None => is_smallest = false,
        }
    }
    let mut parts = 2;
    while is_smallest && kept.len() > 1 {
        let size = kept.len().div_ceil(parts);
        let mut shrunk = false;
        // From the end, so that what is left out does not move what is still to be looked at.
        let mut begin = kept.len().div_ceil(size) * size;
        while begin > 0 {
            begin -= size;
            let end = kept.len().min(begin + size);
            let rest: Vec<usize> = kept[..begin].iter().chain(&kept[end..]).copied().collect();
            if rest.is_empty() {
                continue;
            }
            match ask(&rest) {
                Some(true) => {
                    kept = rest;
                    shrunk = true;
                }
                Some(false) => {}
                None => {
                    is_smallest = false;
                    break;
                }
            }
        }
        if size == 1 && !shrunk {
            break;
        }
        parts = if size == 1 { kept.len() } else { (parts * 2).min(kept.len()) };
    }
    Reduced { capture: capture.select(&kept), is_smallest, tried }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(packets: u8) -> Capture {
        let mut capture = Capture::new();
        (0..packets).for_each(|number| capture.push(u64::from(number), 1, &[number]));
        capture
    }

    fn numbers(capture: &Capture) -> Vec<u8> {
        capture.records().map(|record| record.data[0]).collect()
    }

    /// Whatever packets it takes, those are left, in far fewer questions than there are subsets.
    #[test]
    fn only_what_is_needed_is_left() {
        let needs: [&[u8]; 5] = [&[0], &[199], &[3, 4, 5], &[0, 100, 199], &[7, 64, 65, 130, 131, 170]];
        for need in needs {
            let mut differs = |capture: &Capture| {
                let numbers = numbers(capture);
                Some(need.iter().all(|number| numbers.contains(number)))
            };
            let reduced = smallest(&numbered(200), Some(200), &mut differs);
            assert_eq!(numbers(&reduced.capture), need);
            assert!(reduced.is_smallest && reduced.tried < 400, "{} questions", reduced.tried);
        }
    }

    #[test]
    fn what_comes_behind_the_first_difference_goes_at_once() {
        let mut differs = |capture: &Capture| Some(numbers(capture).contains(&9));
        let reduced = smallest(&numbered(200), Some(10), &mut differs);
        assert_eq!(numbers(&reduced.capture), [9]);
        assert!(reduced.tried < 12, "{} questions", reduced.tried);
    }

    #[test]
    fn a_search_that_is_ended_keeps_what_it_has() {
        let mut left = 3;
        let mut differs = |capture: &Capture| {
            left -= 1;
            (left > 0).then(|| numbers(capture).contains(&9))
        };
        let reduced = smallest(&numbered(200), None, &mut differs);
        assert!(!reduced.is_smallest);
        assert!(numbers(&reduced.capture).contains(&9) && reduced.capture.packets() < 200);
    }
}
