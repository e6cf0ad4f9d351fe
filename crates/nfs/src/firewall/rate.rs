//! Rates of rules: how they are written, and the buckets whose tokens they take.
//!
//! A bucket holds as many tokens as its rule has a burst; tokens come back at the rule's rate, and a packet takes one. It is kept as
//! one number, the time at which the bucket is full again (GCRA, ITU-T I.371), so that nothing is refilled, and a step divides nothing:
//!
//! ```text
//! rate 10/s burst 3      a token is 100 ms; full is 300 ms
//!
//!                        full again at
//! packet at 1,000 ms     1,000 + 100 = 1,100      takes a token: 1,100 - 1,000 <= 300
//! packet at 1,000 ms     1,100 + 100 = 1,200      takes one
//! packet at 1,010 ms     1,200 + 100 = 1,300      takes one: 1,300 - 1,010 <= 300
//! packet at 1,020 ms     1,300 + 100 = 1,400      finds none: 1,400 - 1,020 > 300, and all stays as it was
//! packet at 1,100 ms     1,300 + 100 = 1,400      takes one
//! ```
//!
//! The numbers are those of nftables: a token is the unit divided by the rate, cut to whole nanoseconds.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// The most rules with a rate.
pub(super) const RATES_MAX: usize = 256;
/// What a bucket holds where its rule does not say.
const BURST: u32 = 5;
/// The longest that an empty bucket takes to be full: 100 years of 365 days.
const FULL_MAX_NS: u64 = 100 * 365 * 86_400 * SECOND;
const SECOND: u64 = 1_000_000_000;

/// Units of time in rules, ns.
const UNITS: [(&str, u64); 5] = [
    ("s", SECOND),
    ("second", SECOND),
    ("minute", 60 * SECOND),
    ("hour", 3_600 * SECOND),
    ("day", 86_400 * SECOND),
];

/// How many packets in how much time a rule asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    /// Which one it is of those of all rules, from 0.
    pub(super) number: u8,
    /// Whether the rule matches where the bucket is empty.
    is_over: bool,
    /// A token.
    token_ns: u64,
    /// All tokens of a full bucket.
    full_ns: u64,
}

/// A rate as it is written, without a burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    is_over: bool,
    token_ns: u64,
}

impl Pace {
    /// Reads `10/s`. An error says what is wrong with the rule, to follow its name in a sentence.
    pub(super) fn parse(text: &str, is_over: bool) -> Result<Pace, String> {
        let wrong = || {
            format!("has the rate \"{text}\"; write packets and a unit: \"10/s\", or /minute, /hour, /day")
        };
        let (packets, unit) = text.split_once('/').ok_or_else(wrong)?;
        let packets: u64 = packets.parse().map_err(|_| wrong())?;
        let (_, unit_ns) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        match unit_ns.checked_div(packets) {
            None => Err(format!(
                "has the rate \"{text}\", which lets nothing pass; write \"1/day\" or more, or leave the rule out"
            )),
            Some(0) => Err(format!("has the rate \"{text}\"; at most one packet a nanosecond can be told")),
            Some(token_ns) => Ok(Pace { is_over, token_ns }),
        }
    }

    /// The rate with a burst, if the rule has one.
    pub(super) fn rate(self, burst: Option<u32>) -> Result<Rate, String> {
        let Pace { is_over, token_ns } = self;
        let burst = burst.unwrap_or(BURST);
        match token_ns.checked_mul(burst.into()) {
            Some(full_ns) if full_ns <= FULL_MAX_NS => Ok(Rate { number: 0, is_over, token_ns, full_ns }),
            _ => Err(format!(
                "has a burst of {burst}, which takes more than 100 years to come back at its rate; write a smaller one"
            )),
        }
    }
}

/// Reads a burst: an error is one of [`Pace::parse`].
pub(super) fn parse_burst(text: &str) -> Result<u32, String> {
    let burst = text.parse().ok().filter(|burst| *burst > 0);
    burst.ok_or_else(|| {
        format!("has the burst \"{text}\"; write the packets that may come at once, 1 to {}", u32::MAX)
    })
}

/// The buckets of all rules with a rate: 4 KiB, where there are any.
#[derive(Clone, Debug, Default)]
pub struct Buckets(Vec<Bucket>);

/// What is left of a rule's burst.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Whose it is: [`Place::owner`]; 0 is none.
    owner: u64,
    full_at_ns: u64,
}

/// Where a rule's bucket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    slot: u8,
    /// No two rules with a rate in a run have one owner, so that no rule takes over what another has left.
    owner: u64,
}

impl Buckets {
    /// Full ones for as many rules as may have a rate.
    pub(super) fn full() -> Buckets {
        Buckets(vec![Bucket::default(); RATES_MAX])
    }

    /// Whether a packet that came at `now_ns` matches; it takes a token, if there is one.
    pub(super) fn matches(&mut self, rate: &Rate, place: Place, now_ns: u64) -> bool {
        self.take(rate, place, now_ns) != rate.is_over
    }

    fn take(&mut self, rate: &Rate, place: Place, now_ns: u64) -> bool {
        let Some(bucket) = self.0.get_mut(usize::from(place.slot)) else { return false };
        if bucket.owner != place.owner {
            *bucket = Bucket { owner: place.owner, full_at_ns: 0 };
        }
        let Some(full_at_ns) = bucket.full_at_ns.max(now_ns).checked_add(rate.token_ns) else { return false };
        let has_one = full_at_ns - now_ns <= rate.full_ns;
        if has_one {
            bucket.full_at_ns = full_at_ns;
        }
        has_one
    }
}

/// Where the buckets of all rules with a rate are.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// By [`Rate::number`].
    by_number: Arc<[Place]>,
    /// The owner of the next bucket.
    next: u64,
}

impl Places {
    /// Those of the first chain file of a run.
    pub(super) fn first(rates: usize) -> Places {
        Places::with((0..rates).map(|_| None).collect(), 1)
    }

    /// Those of rules that follow the `old` ones of these places while packets pass, both by the numbers of their rates and their
    /// words: rules that say the same go on with their buckets.
    pub(super) fn of_following(&self, rules: &[(u8, String)], old: Vec<(u8, String)>) -> Places {
        let mut left = old;
        let mut kept = |(_, words): &(u8, String)| {
            let at = left.iter().position(|(_, of_old)| of_old == words)?;
            Some(self.of(left.remove(at).0))
        };
        Places::with(rules.iter().map(&mut kept).collect(), self.next)
    }

    fn with(kept: Vec<Option<Place>>, mut next: u64) -> Places {
        let taken: Vec<u8> = kept.iter().flatten().map(|place| place.slot).collect();
        let mut free = (0..=u8::MAX).filter(|slot| !taken.contains(slot));
        let by_number = kept.into_iter().map(|place| {
            place.unwrap_or_else(|| {
                let place = Place { slot: free.next().unwrap_or_default(), owner: next };
                next += 1;
                place
            })
        });
        let by_number = by_number.collect();
        Places { by_number, next }
    }

    /// Where the bucket of a rate is.
    pub(super) fn of(&self, number: u8) -> Place {
        self.by_number[usize::from(number)]
    }
}
