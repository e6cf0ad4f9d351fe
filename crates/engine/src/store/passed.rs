//! What of each key passed on a core: collected where `verify` is to check a bound.

use std::collections::HashMap;

use nf::{NetworkFunction, WhenShared};
use wire::Stamp;
use zerocopy::IntoBytes;

use crate::path::step::Stepper;

/// What passed of each key on one core.
pub(crate) type Passed<K> = HashMap<Vec<u8>, PassedOf<K>>;

/// What passed of one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassedOf<K> {
    pub(crate) key: K,
    /// The first packet's own time, passed or not.
    pub(crate) first_ns: u64,
    /// The last one's.
    pub(crate) last_ns: u64,
    pub(crate) amount: u128,
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
    let (first_ns, last_ns) = (stamp.time_ns, stamp.time_ns);
    let new = PassedOf { key, first_ns, last_ns, amount: 0 };
    let of_key = passed.entry(key.as_bytes().to_vec()).or_insert(new);
    of_key.last_ns = of_key.last_ns.max(stamp.time_ns);
    if has_passed {
        of_key.amount += u128::from((F::EXTRAS.guarantees.amount)(meta));
    }
}

/// Checks what passed on all cores against what may.
pub(crate) fn check_passed<'a, F: NetworkFunction>(
    function: &F,
    cores: impl Iterator<Item = &'a Passed<F::Key>>,
) -> Result<(), String> {
    let mut all: HashMap<&Vec<u8>, PassedOf<F::Key>> = HashMap::new();
    for (bytes, of_core) in cores.flatten() {
        let sum = all.entry(bytes).or_insert(PassedOf { amount: 0, ..*of_core });
        sum.first_ns = sum.first_ns.min(of_core.first_ns);
        sum.last_ns = sum.last_ns.max(of_core.last_ns);
        sum.amount += of_core.amount;
    }
    let most = |of: &PassedOf<F::Key>| {
        (F::EXTRAS.guarantees.bound)(function, of.last_ns.saturating_sub(of.first_ns))
    };
    let above = all.values().filter(|of| of.amount > most(of));
    match above.max_by_key(|of| (of.amount - most(of), of.key.to_string())) {
        None => Ok(()),
        Some(of) => Err(format!("{} passed of {}, at most {} may", of.amount, of.key, most(of))),
    }
}

/// How many packets were over what may pass.
#[inline]
pub(crate) fn over<F: NetworkFunction>(stepper: &Stepper<F>) -> u64 {
    match F::EXTRAS.guarantees.when_shared {
        Some(WhenShared::Bound { over: Some(over) }) => stepper.events()[over],
        _ => 0,
    }
}
