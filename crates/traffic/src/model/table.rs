//! How big connections are, as tables of literature's distributions.

use super::talk::Directions;

/// A cumulative distribution of connection sizes, linear between its points.
#[derive(Clone, Copy, Debug)]
pub(super) struct SizeTable {
    /// Share of connections, in thousand millionths, that have at most that many segments of data. Ascending,
    /// from 0 to all.
    pub points: &'static [(u32, u32)],
    /// What a segment count is of.
    pub directions: Directions,
}

pub(super) const BILLION: u32 = 1_000_000_000;

/// Web search (DCTCP, SIGCOMM 2010, Fig. 4, as its authors published its points with pFabric, SIGCOMM 2013): bytes
/// of 6, 12, 19, 33, 53 ... kB there are 10 kB at 15%, 20 kB at 20%, 30 kB at 30%, 50 kB at 40%, 80 kB at 53%,
/// 200 kB at 60%, 1 MB at 70%, 2 MB at 80%, 5 MB at 90%, 10 MB at 97%, 30 MB at all; here in segments of 1,460
/// bytes. The mean is 1,172 segments, 1.7 MB.
pub(super) const WEB_SEARCH: SizeTable = SizeTable {
    points: &[
        (0, 1),
        (150_000_000, 7),
        (200_000_000, 14),
        (300_000_000, 21),
        (400_000_000, 35),
        (530_000_000, 55),
        (600_000_000, 137),
        (700_000_000, 685),
        (800_000_000, 1_370),
        (900_000_000, 3_425),
        (970_000_000, 6_850),
        (BILLION, 20_548),
    ],
    directions: Directions::Both,
};

/// A backbone link, fitted to what is published of CAIDA's Equinix traces. The flow of rank r among 1,085,931
/// has 4,260,352 (r + 2)^-1.1 packets, at least 2, less the SYN and the FIN:
/// - the exponent is Dyssect's (INFOCOM'22, Fig. 1: "similar to" CAIDA's);
/// - the number of flows and the mean of 29 packets are RAPID's (NSDI'24, Table 8, Equinix, 5-tuple);
/// - the 2 flattens the head so that two packets drawn by chance are of one flow with a probability of 0.6%:
///   RAPID's conflict ratio there, 1.47% for packets of 8 cycles on the average in 16 cycles, asks for 0.8%.
///
/// What came out that was not put in: the smaller 41% of the flows have two packets, as in Dyssect §IV-A where
/// 753,725 of 1,835,436 flows carry 0.1% of the traffic.
pub(super) const BACKBONE: SizeTable = SizeTable {
    points: &[
        (0, 0),
        (500_000_000, 0),
        (750_000_000, 2),
        (875_000_000, 8),
        (937_500_000, 19),
        (968_750_000, 42),
        (984_375_000, 93),
        (992_187_500, 201),
        (996_093_750, 433),
        (998_046_875, 931),
        (999_023_438, 1_996),
        (999_511_719, 4_271),
        (999_755_859, 9_120),
        (999_877_930, 19_391),
        (999_938_965, 40_898),
        (999_969_482, 84_929),
        (999_984_741, 171_296),
        (999_992_371, 328_109),
        (999_996_185, 578_448),
        (999_998_093, 909_377),
        (999_999_046, 1_255_949),
        (BILLION, 1_554_930),
    ],
    directions: Directions::One,
};

/// A university's data centre, fitted to what is published of the traces of Benson et al. (IMC 2010). The
/// connection of rank r among 5,472 has 422,298 (r + 1.4)^-1.6 segments of data, at least 1:
/// - the number of connections is half of the 10,945 flows by 5-tuple, and the mean of 106.5 segments makes
///   83.4 packets of each, as RAPID (NSDI'24, Table 8, UNIV1) has them;
/// - 80% of the flows have less than 10 kB, 7 segments, and the top tenth most bytes (Benson et al., §5);
/// - exponent and 1.4 satisfy these two and, as far as that goes, UNIV1's conflict ratio of 16.7%.
pub(super) const UNIVERSITY: SizeTable = SizeTable {
    points: &[
        (0, 1),
        (500_000_000, 1),
        (750_000_000, 4),
        (875_000_000, 12),
        (937_500_000, 37),
        (968_750_000, 111),
        (984_375_000, 334),
        (992_187_500, 986),
        (996_093_750, 2_842),
        (998_046_875, 7_832),
        (999_023_438, 19_924),
        (999_511_719, 44_663),
        (999_755_859, 84_382),
        (BILLION, 151_221),
    ],
    directions: Directions::Both,
};

impl SizeTable {
    /// The size that a share of connections, in thousand millionths below [`BILLION`], does not exceed.
    pub fn quantile(&self, share: u32) -> u64 {
        let after = self.points.partition_point(|(at, _)| *at <= share).min(self.points.len() - 1);
        let ((from, low), (to, high)) = (self.points[after - 1], self.points[after]);
        let [from, low, to, high, share] = [from, low, to, high, share].map(u64::from);
        // Rounded to the nearest.
        low + ((high - low) * (share - from) * 2 + (to - from)) / ((to - from) * 2)
    }

    /// Mean segments of data, in thousandths.
    fn mean_thousandths(&self) -> u64 {
        let part = |pair: &[(u32, u32)]| {
            let share = u64::from(pair[1].0 - pair[0].0);
            u128::from(share) * u128::from(pair[0].1 + pair[1].1) * 500
        };
        (self.points.windows(2).map(part).sum::<u128>() / u128::from(BILLION)) as u64
    }

    /// How many connections have about `packets` packets, at least 1.
    pub fn connections_for(&self, packets: u64) -> u64 {
        let data = self.mean_thousandths();
        let thousandths = match self.directions {
            Directions::Both => 7_500 + data + data / 2,
            Directions::One => 2_000 + data,
        };
        (u128::from(packets) * 1_000 / u128::from(thousandths)).max(1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_rise_from_nothing_to_all() {
        for table in [WEB_SEARCH, BACKBONE, UNIVERSITY] {
            assert_eq!((table.points[0].0, table.points.last().expect("points").0), (0, BILLION));
            assert!(table.points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
        }
    }

    #[test]
    fn quantiles_lie_on_the_lines() {
        assert_eq!([0, 150_000_000, 600_000_000].map(|at| WEB_SEARCH.quantile(at)), [1, 7, 137]);
        // Half way from 685 at 70% to 1,370 at 80%: 1,027.5.
        assert_eq!(WEB_SEARCH.quantile(750_000_000), 1_028);
        assert_eq!(WEB_SEARCH.quantile(BILLION - 1), 20_548);
    }

    #[test]
    fn means_are_what_the_tables_were_fitted_to() {
        // By hand, segments times share: .6 + .525 + 1.75 + 2.8 + 5.85 + 6.72 + 41.1 + 102.75 + 239.75 + 359.6
        // + 411 = 1,172.4.
        assert_eq!(WEB_SEARCH.mean_thousandths() / 100, 11_724);
        // 29 packets with SYN and FIN; points are rounded.
        assert!((26_500..27_500).contains(&BACKBONE.mean_thousandths()), "{}", BACKBONE.mean_thousandths());
        assert!((105_500..107_500).contains(&UNIVERSITY.mean_thousandths()));
        // A connection's mean of 7.5 + 1.5 * 1,172.4 is 1,766 packets.
        assert_eq!(WEB_SEARCH.connections_for(1_766_500), 1_000);
        assert_eq!(WEB_SEARCH.connections_for(1), 1);
    }
}
