//! The bucket of `policer` and of `rate-limiter`, in exact arithmetic.

use alloc::string::ToString;
use alloc::vec::Vec;
use alloc::{format, vec};

use nf::{FlowKey, FunctionReport, Leap};
use zerocopy::{Immutable, IntoBytes};

use crate::common::{REPORT_ROWS, keep_top, ms_text};

/// A bucket of this many tokens is the largest whose nanotokens fit in 64 bits.
pub(crate) const BURST_MAX: u64 = u64::MAX / NANOTOKENS_PER_TOKEN;

const NANOTOKENS_PER_TOKEN: u64 = 1_000_000_000;
/// A flow is kept at least this long.
const KEPT_NS: u64 = 10_000_000;

/// How fast buckets fill, and how much they hold. A token is a byte, or a packet.
///
/// The state holds the *debt*: what the bucket lacks to be full, in nanotokens, 10⁻⁹ token. A rate of
/// *R* tokens a second is then *R* nanotokens a nanosecond: no division, no remainder, no drift at one
/// token a second nor at 10¹². A debt that would fall below 0 is 0, and a packet conforms only if debt
/// and its tokens together are at most the burst *B*. Hence 0 ≤ debt ≤ *B* at all times, and:
///
/// - *Never more*: a packet that conforms raises the debt by its tokens, and time lowers it by at most
///   *R*. So in any interval of length *T* what conforms is at most debt(end) - debt(start) + *R T*
///   ≤ *B + R T*.
/// - *Never less*: between two packets that do not conform, *T* apart, with the debt above 0 throughout
///   (the flow is backlogged), time lowers it by exactly *R*. The later one, of *L* tokens, did not
///   conform because debt(end) > *B - L*; and debt(start) ≤ *B*. So what conformed is
///   debt(end) - debt(start) + *R T* > *R T - L*.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate_nanotokens_per_ns: u64,
    burst_nanotokens: u64,
    /// What [`KEPT_NS`] pays.
    kept_nanotokens: u64,
}

/// The state of one bucket that is not full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct Debt {
    /// What the bucket lacked to be full after the last packet, 10⁻⁹ token: never 0, never above the
    /// burst.
    pub nanotokens: u64,
    /// When the last packet came, ns.
    pub last_ns: u64,
}

impl TokenBucket {
    /// Buckets of `burst` tokens, at most [`BURST_MAX`], that get `rate_per_s`, at least 1, a second.
    pub(crate) fn new(rate_per_s: u64, burst: u64) -> TokenBucket {
        TokenBucket {
            rate_nanotokens_per_ns: rate_per_s,
            burst_nanotokens: burst * NANOTOKENS_PER_TOKEN,
            kept_nanotokens: rate_per_s.saturating_mul(KEPT_NS),
        }
    }

    /// Takes `tokens` out if the bucket holds that many, and says whether it did. A full bucket is
    /// `None`: it is that of a new flow, and there is nothing to remember.
    #[inline]
    pub(crate) fn take(&self, debt: &mut Option<Debt>, tokens: u64, now_ns: u64) -> bool {
        let mut nanotokens = debt.map_or(0, |debt| self.debt_at(&debt, now_ns));
        // At most a packet's length, 65,535: the product fits.
        let cost_nanotokens = tokens * NANOTOKENS_PER_TOKEN;
        let conforms = cost_nanotokens <= self.burst_nanotokens - nanotokens;
        if conforms {
            nanotokens += cost_nanotokens;
        }
        *debt = (nanotokens > 0).then_some(Debt { nanotokens, last_ns: now_ns });
        conforms
    }

    /// Takes `tokens` out of a bucket that is not full, and will not be, and says whether it did; if it does not
    /// hold that many nothing changes.
    #[inline]
    pub(crate) fn take_in_place(&self, debt: &mut Debt, tokens: u64, now_ns: u64) -> bool {
        let before = self.debt_at(debt, now_ns);
        let cost_nanotokens = tokens * NANOTOKENS_PER_TOKEN;
        let nanotokens = before + cost_nanotokens;
        let takes = cost_nanotokens <= self.burst_nanotokens - before && nanotokens > 0;
        if takes {
            *debt = Debt { nanotokens, last_ns: now_ns };
        }
        takes
    }

    /// Takes `tokens` out for each of several packets, as far as the flow surely lives and the bucket is not full.
    /// Those that conform pass.
    #[inline]
    pub(crate) fn take_each(&self, debt: &mut Option<Debt>, tokens: u64, times_ns: &[u64]) -> Leap {
        let Some(Debt { mut nanotokens, mut last_ns }) = *debt else { return Leap::NONE };
        let cost_nanotokens = tokens * NANOTOKENS_PER_TOKEN;
        let mut taken = Leap { steps: 0, passes: true };
        for now_ns in times_ns {
            let now = self.debt_at(&Debt { nanotokens, last_ns }, *now_ns);
            let conforms = cost_nanotokens <= self.burst_nanotokens - now;
            let after = if conforms { now + cost_nanotokens } else { now };
            if now_ns.saturating_sub(last_ns) >= KEPT_NS || after == 0 {
                break;
            }
            (nanotokens, last_ns) = (after, *now_ns);
            taken.steps += 1;
            taken.passes &= conforms;
        }
        *debt = Some(Debt { nanotokens, last_ns });
        taken
    }

    /// The most tokens that conform in `elapsed_ns`: a full bucket, and what comes in.
    pub(crate) fn most(&self, elapsed_ns: u64) -> u128 {
        let nanotokens = u128::from(self.rate_nanotokens_per_ns) * u128::from(elapsed_ns);
        (u128::from(self.burst_nanotokens) + nanotokens) / u128::from(NANOTOKENS_PER_TOKEN)
    }

    /// How long a debt is worth keeping: a full bucket is a new flow's. But [`KEPT_NS`] at least, which
    /// is known without a division for every debt that is paid by then: those of most flows.
    #[inline]
    pub(crate) fn idle_timeout_ns(&self, debt: &Debt) -> u64 {
        if debt.nanotokens <= self.kept_nanotokens { KEPT_NS } else { self.ns_to_full(debt.nanotokens) }
    }

    /// The emptiest buckets, of what is called `subject`, with their `left` tokens.
    pub(crate) fn report<'a, K: FlowKey>(
        &self,
        [subject, left]: [&'static str; 2],
        flows: &mut dyn Iterator<Item = (&'a K, &'a Debt)>,
        now_ns: u64,
    ) -> Vec<FunctionReport> {
        let debt_now = |debt: &Debt| self.debt_at(debt, now_ns);
        let mut in_debt: Vec<_> = flows.filter(|(_, debt)| debt_now(debt) > 0).collect();
        let total = in_debt.len();
        keep_top(&mut in_debt, REPORT_ROWS, debt_now);
        let row = |(key, debt): &(&K, &Debt)| {
            let nanotokens = debt_now(debt);
            let left = (self.burst_nanotokens - nanotokens) / NANOTOKENS_PER_TOKEN;
            vec![key.to_string(), left.to_string(), ms_text(self.ns_to_full(nanotokens))]
        };
        vec![FunctionReport {
            title: format!("Buckets not full now: {total}, emptiest first"),
            columns: vec![subject, left, "full_in_ms"],
            rows: in_debt.iter().map(row).collect(),
        }]
    }

    /// What the bucket lacks at `now_ns`. Products and differences that leave 64 bits are beyond
    /// every burst, so saturating is exact. A debt from before the burst became smaller is one of all that the bucket
    /// holds now.
    #[inline]
    pub(crate) fn debt_at(&self, debt: &Debt, now_ns: u64) -> u64 {
        let elapsed_ns = now_ns.saturating_sub(debt.last_ns);
        let paid = self.rate_nanotokens_per_ns.saturating_mul(elapsed_ns);
        debt.nanotokens.min(self.burst_nanotokens).saturating_sub(paid)
    }

    /// How long until such a debt is paid.
    #[inline]
    pub(crate) fn ns_to_full(&self, nanotokens: u64) -> u64 {
        nanotokens.div_ceil(self.rate_nanotokens_per_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The time-out without a division is the one with it, on either side of where they meet.
        #[test]
        fn a_debt_is_kept_until_it_is_paid(
            rate in prop_oneof![1_u64..2_000, 1_u64..1 << 40, Just(u64::MAX)],
            nanotokens in prop_oneof![1_u64.., 1_u64..1 << 40],
            beside in 0_u64..3,
        ) {
            let bucket = TokenBucket::new(rate, 1);
            let meeting = rate.saturating_mul(KEPT_NS).saturating_sub(1).saturating_add(beside);
            for nanotokens in [nanotokens, meeting] {
                let expected = bucket.ns_to_full(nanotokens).max(KEPT_NS);
                prop_assert_eq!(bucket.idle_timeout_ns(&Debt { nanotokens, last_ns: 0 }), expected);
            }
        }
    }
}
