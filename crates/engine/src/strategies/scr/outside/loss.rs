//! Losses between a sequencer and its cores, drawn from a seed.

use std::fmt;
use std::str::FromStr;

use nf::hash_bytes;

/// Packets that get lost between a sequencer and its cores, drawn from a seed: the same for the same input, whatever
/// threads do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    share: LossShare,
    seed: u64,
}

/// A share of the packets, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossShare(f64);

/// A share that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a share of packets is a number from 0 to 1: 0.01 is 1%")]
pub struct LossShareError;

impl FromStr for LossShare {
    type Err = LossShareError;

    fn from_str(text: &str) -> Result<LossShare, LossShareError> {
        let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
        share.map(LossShare).ok_or(LossShareError)
    }
}

impl fmt::Display for LossShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Loss {
    /// This share of the packets, each drawn by itself.
    pub fn new(share: LossShare, seed: u64) -> Loss {
        Loss { share, seed }
    }

    /// Whether the packet is lost that is the `index`-th for this core.
    pub fn hits(&self, core: usize, index: u64) -> bool {
        let drawn = hash_bytes(&index.to_le_bytes(), hash_bytes(&core.to_le_bytes(), self.seed));
        // As many bits as a fraction has.
        ((drawn >> 11) as f64) < self.share.0 * (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(share: &str, seed: u64) -> Loss {
        Loss::new(share.parse().expect("a share"), seed)
    }

    #[test]
    fn as_many_are_lost_as_asked_for() {
        for (share, expected) in
            [("0", 0..1), ("0.01", 850..1150), ("0.5", 49_000..51_000), ("1", 100_000..100_001)]
        {
            let lost: u64 = (0..100_000).map(|index| u64::from(loss(share, 7).hits(3, index))).sum();
            assert!(expected.contains(&lost), "{share}: {lost}");
        }
    }

    #[test]
    fn other_cores_and_seeds_lose_others() {
        let lost = |core, seed| (0..64).map(|index| loss("0.5", seed).hits(core, index)).collect::<Vec<_>>();
        assert!(lost(0, 1) == lost(0, 1) && lost(0, 1) != lost(1, 1) && lost(0, 1) != lost(0, 2));
    }

    #[test]
    fn shares_are_numbers_in_their_range() {
        for text in ["", "x", "-0.1", "1.1", "NaN"] {
            assert_eq!(text.parse::<LossShare>(), Err(LossShareError), "{text}");
        }
    }
}
