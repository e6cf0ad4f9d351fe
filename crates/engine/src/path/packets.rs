//! Sets of the packets of a batch: bit *i* stands for packet *i*.

/// The most packets that are worked on at once. A batch is never broken on its way through the chain.
pub const BATCH_PACKETS: usize = table::BATCH_MAX;

pub(crate) use table::bits;

/// The set of the first `count` packets there are.
#[inline]
pub(crate) fn all_bits(count: usize) -> u64 {
    1u64.checked_shl(count as u32).unwrap_or(0).wrapping_sub(1)
}

/// The first `count` packets of a set.
#[inline]
pub(crate) fn first_bits(packets: u64, count: usize) -> u64 {
    if packets.count_ones() as usize <= count {
        return packets;
    }
    let rest = (0..count).fold(packets, |rest, _| rest & (rest - 1));
    packets & !rest
}

/// The packets of a set in order: runs of those that are in `hits`, and after each the miss that ends it, if there is one.
pub(crate) fn runs_between_misses(packets: u64, hits: u64) -> impl Iterator<Item = (u64, Option<usize>)> {
    let mut rest = packets;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let misses = rest & !hits;
            let run = rest & below_first(misses);
            let miss = (misses != 0).then(|| misses.trailing_zeros() as usize);
            rest &= !run;
            rest &= rest.wrapping_sub(1);
            (run, miss)
        })
    })
}

/// The set of those from number `begin` on, as many as `count`, at least one.
#[inline]
pub(crate) fn span_bits(begin: usize, count: usize) -> u64 {
    (u64::MAX >> (u64::BITS as usize - count)) << begin
}

/// Items that are a run of their own. None where some run has a gap, so that its items are not neighbours.
#[inline]
pub(crate) fn alone(packets: u64, leaders: u64) -> u64 {
    let followers = packets & !leaders;
    match followers & !(packets << 1) {
        0 => packets & !(followers | followers >> 1),
        _ => 0,
    }
}

/// The items below the first of `some`; all if there is none.
#[inline]
pub(crate) fn below_first(some: u64) -> u64 {
    (some & some.wrapping_neg()).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_packets_of_a_set() {
        let set = 0b1011_0110;
        assert_eq!([0, 1, 3, 5, 64].map(|count| first_bits(set, count)), [0, 0b10, 0b1_0110, set, set]);
        assert_eq!(first_bits(u64::MAX, 63), u64::MAX >> 1);
        assert!(bits(set).eq([1, 2, 4, 5, 7]));
        let runs = runs_between_misses(set, 0b1001_0010);
        assert!(runs.eq([(0b10, Some(2)), (0b1_0000, Some(5)), (0b1000_0000, None)]));
        assert!(runs_between_misses(0b101, 0b001).eq([(0b001, Some(2))]));
        assert_eq!([0, 1, 63, 64].map(all_bits), [0, 1, u64::MAX >> 1, u64::MAX]);
        assert_eq!(
            [(0, 64), (3, 2), (63, 1)].map(|(begin, count)| span_bits(begin, count)),
            [u64::MAX, 0b11000, 1 << 63]
        );
    }

    #[test]
    fn items_whose_neighbours_are_of_other_flows_are_alone() {
        assert_eq!(alone(0b1111, 0b1111), 0b1111);
        assert_eq!(alone(0b1111, 0b1011), 0b1001, "2 is in the run of 1");
        assert_eq!(alone(0b1111, 0b0001), 0);
        assert_eq!(alone(0b1101_0101, 0b1101_0101), 0b1101_0101, "gaps between runs");
        assert_eq!(alone(0b1101_0101, 0b1100_0101), 0, "a gap in a run");
        assert_eq!((below_first(0), below_first(0b1100)), (!0, 0b11));
    }
}
