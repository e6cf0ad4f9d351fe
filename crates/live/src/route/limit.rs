//! How often ICMP errors are sent, and neighbours asked for.

/// Tokens that come at a rate, up to a number.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// When the tokens were counted, ns.
    counted_ns: u64,
    /// In billionths of a token.
    tokens: u64,
}

const TOKEN: u64 = 1_000_000_000;

/// A rate and a burst.
#[derive(Clone, Copy, Debug)]
struct Rate {
    a_second: u64,
    burst: u64,
}

impl Bucket {
    fn full(rate: Rate) -> Bucket {
        Bucket { counted_ns: 0, tokens: rate.burst * TOKEN }
    }

    fn has_one(&mut self, now_ns: u64, rate: Rate) -> bool {
        // A clock that ran back brings no tokens.
        let new = now_ns.saturating_sub(self.counted_ns).saturating_mul(rate.a_second);
        self.counted_ns = self.counted_ns.max(now_ns);
        self.tokens = self.tokens.saturating_add(new).min(rate.burst * TOKEN);
        self.tokens >= TOKEN
    }

    fn take(&mut self) {
        self.tokens -= TOKEN;
    }
}

/// Limits ICMP errors (RFC 1812 §4.3.2.8, RFC 4443 §2.4 f): all together, and those to one address.
pub(super) struct ErrorLimit {
    all: Bucket,
    /// By a hash of the address: addresses may share one.
    each: Box<[Bucket; ErrorLimit::BUCKETS]>,
}

impl ErrorLimit {
    /// As Linux has it (`icmp_msgs_per_sec`), for each forwarder.
    const ALL: Rate = Rate { a_second: 1_000, burst: 50 };
    const EACH: Rate = Rate { a_second: 10, burst: 10 };
    const BUCKETS: usize = 256;

    pub(super) fn new() -> ErrorLimit {
        let each = Box::new([Bucket::full(ErrorLimit::EACH); ErrorLimit::BUCKETS]);
        ErrorLimit { all: Bucket::full(ErrorLimit::ALL), each }
    }

    /// Whether an error may be sent now. Path MTU discovery stalls without its errors, so that these are limited only
    /// all together (as Linux does).
    pub(super) fn permits(&mut self, now_ns: u64, address_hash: u64, is_path_mtu: bool) -> bool {
        let each = &mut self.each[address_hash as usize % ErrorLimit::BUCKETS];
        let permits = self.all.has_one(now_ns, ErrorLimit::ALL)
            && (is_path_mtu || each.has_one(now_ns, ErrorLimit::EACH));
        if permits {
            self.all.take();
            if !is_path_mtu {
                each.take();
            }
        }
        permits
    }
}

/// Which neighbours were asked for a short while ago.
pub(super) struct Recent {
    /// By a hash of the neighbour: whose it is, and when.
    asked: Box<[(u64, u64); Recent::SLOTS]>,
}

impl Recent {
    const SLOTS: usize = 256;

    pub(super) fn new() -> Recent {
        Recent { asked: Box::new([(0, 0); Recent::SLOTS]) }
    }

    /// Whether the last time is `pause_ns` ago or more; now is the last time, then.
    #[inline]
    pub(super) fn is_due(&mut self, now_ns: u64, hash: u64, pause_ns: u64) -> bool {
        let slot = &mut self.asked[hash as usize % Recent::SLOTS];
        let (whose, when_ns) = *slot;
        if whose == hash && now_ns.saturating_sub(when_ns) < pause_ns {
            return false;
        }
        *slot = (hash, now_ns);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_at_a_rate() {
        let mut limit = ErrorLimit::new();
        let mut second = |from_ns: u64, hash: u64, is_path_mtu| {
            let ticks = (0..1_000).map(|tick| from_ns + tick * 1_000_000);
            ticks.filter(|now_ns| limit.permits(*now_ns, hash, is_path_mtu)).count()
        };
        assert_eq!(second(1_000_000_000, 7, false), 10 + 9, "the burst, and the rate");
        assert_eq!(second(2_000_000_000, 7, false), 10);
        assert_eq!(second(3_000_000_000, 7, true), 1_000, "path MTU errors: the common limit alone");
        let mut burst = ErrorLimit::new();
        assert_eq!((0..1_000).filter(|hash| burst.permits(1, *hash, false)).count(), 50, "of all addresses");
    }

    #[test]
    fn a_clock_that_runs_back_brings_no_errors() {
        let mut limit = ErrorLimit::new();
        let times = [u64::MAX, 5, 0, u64::MAX, 1, u64::MAX - 1];
        assert_eq!(times.iter().cycle().take(600).filter(|now| limit.permits(**now, 3, false)).count(), 10);
    }

    #[test]
    fn a_neighbour_is_asked_for_once_a_pause() {
        let mut recent = Recent::new();
        assert!(recent.is_due(10, 42, 100));
        assert!(!recent.is_due(109, 42, 100));
        assert!(recent.is_due(110, 42, 100));
        assert!(recent.is_due(111, 43, 100), "another");
    }
}
