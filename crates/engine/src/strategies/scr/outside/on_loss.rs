//! Which of the items that come to a core it steps.

use crate::strategies::scr::outside::rebuild::Recovering;
use recovery::Gaps;

/// What cores do about packets that are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// They get them from each other.
    #[default]
    On,
    /// They get them from each other, with logs of so many records, to see what becomes of cores that lag.
    Records(usize),
    /// Nothing: replicas may come to differ.
    Off,
}

/// What is stepped of what has arrived.
pub(crate) enum OnLoss {
    /// What the core has itself.
    Skip(Gaps),
    /// What any core has.
    Recover(Box<Recovering>),
}

impl OnLoss {
    /// For cores with items of so many bytes.
    pub(crate) fn for_cores(recovery: Recovery, cores: usize, item_bytes: usize) -> Vec<OnLoss> {
        match recovery.records(cores) {
            None => (0..cores).map(|_| OnLoss::Skip(Gaps::default())).collect(),
            Some(records) => {
                let parts = Recovering::for_cores(cores, records, item_bytes);
                parts.into_iter().map(|recovering| OnLoss::Recover(Box::new(recovering))).collect()
            }
        }
    }
}

impl Recovery {
    /// Records of each core's log. As many as packets can be on their way, so that without long stretches of losses
    /// no core lags by more.
    pub(crate) fn records(self, cores: usize) -> Option<usize> {
        match self {
            Recovery::On => Some(cores * (io::QUEUE_FRAMES_MAX + 2 * crate::BATCH_PACKETS)),
            Recovery::Records(records) => Some(records),
            Recovery::Off => None,
        }
    }
}
