//! Shares, in millionths.

use std::fmt;
use std::str::FromStr;

/// A share of 1, in millionths: exact, so that it means the same on every machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

const MILLION: u32 = 1_000_000;

impl Share {
    /// Nothing.
    pub const NONE: Share = Share(0);
    /// All.
    pub const ALL: Share = Share(MILLION);

    /// `None` if there are more than a million of them.
    pub const fn from_millionths(millionths: u32) -> Option<Share> {
        if millionths <= MILLION { Some(Share(millionths)) } else { None }
    }

    /// Millionths.
    pub const fn millionths(self) -> u32 {
        self.0
    }

    /// This share of `whole`, rounded down.
    pub(super) fn of(self, whole: u64) -> u64 {
        (u128::from(whole) * u128::from(self.0) / u128::from(MILLION)) as u64
    }

    /// Whether number `number` is in, where this share of all numbers are, as evenly as can be.
    pub(super) fn takes(self, number: u64) -> bool {
        self.of(number + 1) > self.of(number)
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let wrong = || "must be 0 to 1, with at most 6 decimals".to_owned();
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let are_digits =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !are_digits(whole) || !are_digits(decimals) || decimals.len() > 6 || whole.len() > 3 {
            return Err(wrong());
        }
        let number = |digits: &str| digits.parse::<u32>().map_err(|_| wrong());
        let millionths = number(whole)? * MILLION + number(&format!("{decimals:0<6}"))?;
        Share::from_millionths(millionths).ok_or_else(wrong)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:06}", self.0 % MILLION);
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{}", self.0 / MILLION),
            decimals => write!(f, "{}.{decimals}", self.0 / MILLION),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_written() {
        for (text, millionths) in [("0", 0), ("1", MILLION), ("0.25", 250_000), ("0.000001", 1)] {
            assert_eq!(text.parse(), Ok(Share(millionths)));
            assert_eq!(Share(millionths).to_string(), text);
        }
        assert_eq!("1.0".parse(), Ok(Share::ALL));
        for text in ["", ".5", "1.", "-0", "+1", "1.000001", "2", "0.1234567", "x", "9999999999"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_of_numbers_is_taken_evenly() {
        let share = Share(250_000);
        let taken: Vec<u64> = (0..12).filter(|number| share.takes(*number)).collect();
        assert_eq!(taken, [3, 7, 11]);
        assert!((0..100).all(|number| Share::ALL.takes(number) && !Share::NONE.takes(number)));
    }
}
