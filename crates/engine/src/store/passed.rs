//! What came and passed by key on a core: collected where `verify` is to check a bound.

use std::collections::HashMap;

use nf::{NetworkFunction, WhenShared};
use wire::Stamp;
use zerocopy::IntoBytes;

use crate::path::step::Stepper;

/// What came of each key on one core.
pub(crate) type Passed<K> = HashMap<Vec<u8>, PassedOf<K>>;

/// What came of one key.
#[derive(Clone, Debug)]
pub(crate) struct PassedOf<K> {
    pub(crate) key: K,
    pub(crate) packets: Vec<Came>,
}

/// A packet that was stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Came {
    /// As of when it was stepped: the latest time that its key's state had seen. Steps of one key are in this order.
    pub(crate) time_ns: u64,
    /// Whether it was refused: at one time those that passed come first.
    pub(crate) is_refused: bool,
    pub(crate) amount: u64,
}

/// Notes a packet, which passed or not.
#[cold]
pub(crate) fn watch<F: NetworkFunction>(
    passed: &mut Passed<F::Key>,
    meta: &F::Meta,
    stamp: Stamp,
    has_passed: bool,
) {
    let key = F::key(meta);
    let amount = (F::EXTRAS.guarantees.amount)(meta);
    let of_key =
        passed.entry(key.as_bytes().to_vec()).or_insert_with(|| PassedOf { key, packets: Vec::new() });
    of_key.packets.push(Came { time_ns: stamp.time_ns, is_refused: !has_passed, amount });
}

/// Checks what passed on all cores against what may, and what did not against what had to; the latter not of flows that go on
/// from another chain, since what they passed there is not known here.
pub(crate) fn check_passed<'a, F: NetworkFunction>(
    function: &F,
    cores: impl Iterator<Item = &'a Passed<F::Key>>,
    goes_on: bool,
) -> Result<(), String> {
    let mut all: HashMap<&Vec<u8>, PassedOf<F::Key>> = HashMap::new();
    for (bytes, PassedOf { key, packets }) in cores.flatten() {
        let new = || PassedOf { key: *key, packets: Vec::new() };
        all.entry(bytes).or_insert_with(new).packets.extend(packets);
    }
    let bound = |elapsed_ns| (F::EXTRAS.guarantees.bound)(function, elapsed_ns);
    let mut worst: Option<(u128, String)> = None;
    let is_bound = |of: &PassedOf<F::Key>| (F::EXTRAS.guarantees.is_bound)(function, &of.key);
    for PassedOf { key, mut packets } in all.into_values().filter(is_bound) {
        packets.sort_unstable();
        let broken = above(&packets, &bound).or_else(|| if goes_on { None } else { below(&packets, &bound) });
        if let Some((by, why)) = broken {
            worst = worst.max(Some((by, format!("of {key} {why}"))));
        }
    }
    worst.map_or(Ok(()), |(_, why)| Err(why))
}

/// By how much more passed of a key than may, and what to say of it.
fn above(packets: &[Came], bound: &dyn Fn(u64) -> u128) -> Option<(u128, String)> {
    let (first, last) = (packets.first()?, packets.last()?);
    let passed = packets.iter().filter(|came| !came.is_refused);
    let amount: u128 = passed.map(|came| u128::from(came.amount)).sum();
    let most = bound(last.time_ns - first.time_ns);
    (amount > most).then(|| (amount - most, format!("{amount} passed, at most {most} may")))
}

/// By how much packets were refused that were not over the bound: with such a packet no more would have passed, in any
/// stretch of time that ends with it, than may.
///
/// A stretch that counts begins with a packet that passed, and what passed since then is more than time alone allows
/// at every later packet: else a shorter one allows no more.
fn below(packets: &[Came], bound: &dyn Fn(u64) -> u128) -> Option<(u128, String)> {
    let (mut begin_ns, mut passed) = (0, 0);
    let mut refused: Option<(u128, u64)> = None;
    for Came { time_ns, is_refused, amount } in packets {
        let elapsed_ns = if passed == 0 { 0 } else { time_ns - begin_ns };
        if passed <= bound(elapsed_ns) - bound(0) {
            (begin_ns, passed) = (*time_ns, 0);
        }
        let (with, most) = (passed + u128::from(*amount), bound(time_ns - begin_ns));
        match is_refused {
            false => passed = with,
            true if with <= most => {
                let (amounts, first_ns) = refused.unwrap_or((0, *time_ns));
                refused = Some((amounts + u128::from(*amount), first_ns));
            }
            true => {}
        }
    }
    let (amount, first_ns) = refused?;
    Some((
        amount,
        format!("{amount} did not pass that had to, the first at {first_ns} ns: they were not over the rate"),
    ))
}

/// How many packets were over what may pass.
#[inline]
pub(crate) fn over<F: NetworkFunction>(stepper: &Stepper<F>) -> u64 {
    match F::EXTRAS.guarantees.when_shared {
        Some(WhenShared::Bound { over: Some(over) }) => stepper.events()[over],
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 at once, and one a nanosecond.
    fn bound(elapsed_ns: u64) -> u128 {
        1_000 + u128::from(elapsed_ns)
    }

    fn came(packets: &[(u64, bool, u64)]) -> Vec<Came> {
        let came = |(time_ns, passes, amount): &(u64, bool, u64)| Came {
            time_ns: *time_ns,
            is_refused: !passes,
            amount: *amount,
        };
        packets.iter().map(came).collect()
    }

    #[test]
    fn a_packet_is_refused_only_if_it_is_over_the_bound() {
        let is_held = |packets: &[(u64, bool, u64)]| below(&came(packets), &bound).is_none();
        assert!(is_held(&[(0, true, 600), (0, true, 400), (0, false, 1)]));
        assert!(!is_held(&[(0, true, 600), (0, false, 400)]), "it fits");
        assert!(is_held(&[(0, true, 1_000), (299, false, 300)]));
        assert!(!is_held(&[(0, true, 1_000), (300, false, 300)]), "there were as many again");
        // What time before them has paid for does not count twice.
        assert!(is_held(&[(0, true, 500), (10_000, true, 1_000), (10_000, false, 1)]));
        assert!(!is_held(&[(0, true, 500), (10_000, true, 999), (10_000, false, 1)]));
        assert!(is_held(&[(0, false, 1_001)]), "larger than the bucket");
        assert!(!is_held(&[(0, false, 1_000)]), "nothing passes");
        assert!(is_held(&[]));
    }

    #[test]
    fn no_more_passes_than_the_bound() {
        let is_held = |packets: &[(u64, bool, u64)]| above(&came(packets), &bound).is_none();
        assert!(is_held(&[(5, true, 1_000), (105, true, 100), (105, false, 1)]));
        assert!(!is_held(&[(5, true, 1_000), (105, true, 101)]));
    }
}
