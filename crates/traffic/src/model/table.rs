//! How big connections are, as tables of literature's distributions.

use super::talk::Directions;

/// A cumulative distribution of connection sizes, linear between its points.
#[derive(Clone, Copy, Debug)]
pub(super) struct SizeTable {
    /// Share of connections, in thousand millionths, that have at most that many segments of data. Ascending,
    /// from 0 to all.
    pub points: &'static [(u32, u32)],
    /// Which directions of a connection there are.
    pub directions: Directions,
    /// The biggest connection's share of all packets where it was fitted, in thousandths. A trace of fewer
    /// connections would have a bigger one without this bound: the fit's tail is for a million flows.
    pub biggest_thousandths: u64,
}

pub(super) const BILLION: u32 = 1_000_000_000;

/// Web search, DCTCP's Fig. 4 (SIGCOMM 2010), with the points that its authors gave simulations of pFabric
/// (SIGCOMM 2013): of the flows 15% have at most 10 kB, 20% 20 kB, 30% 30 kB, 40% 50 kB, 53% 80 kB, 60% 200 kB,
/// 70% 1 MB, 80% 2 MB, 90% 5 MB, 97% 10 MB, all 30 MB. Here in segments of 1,460 bytes; the mean is 1,172.
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
    biggest_thousandths: 1_000,
};

/// A backbone link, fitted to what is published of CAIDA's Equinix traces. The flow of rank r among 1,085,931
/// has 4,952,136 (r + 6)^-1.1 packets, at least 2, less the SYN and the FIN:
/// - the exponent is Dyssect's (INFOCOM'22, Fig. 1: Zipf with 1.1 is "similar to" CAIDA's);
/// - the number of flows and the mean of 29 packets are RAPID's (NSDI'24, Table 8, Equinix, 5-tuple);
/// - the 6 flattens the head until a generated trace comes near RAPID's conflict ratio there, 1.47%: a million
///   packets have 1.9%.
///
/// What came out that was not put in: half of the flows have 2 packets. In Dyssect §IV-A 753,725 of 1,835,436
/// flows, 41%, carry 0.1% of the traffic.
pub(super) const BACKBONE: SizeTable = SizeTable {
    points: &[
        (0, 0),
        (500_000_000, 0),
        (750_000_000, 3),
        (875_000_000, 9),
        (937_500_000, 22),
        (968_750_000, 49),
        (984_375_000, 108),
        (992_187_500, 234),
        (996_093_750, 504),
        (998_046_875, 1_080),
        (999_023_438, 2_310),
        (999_511_719, 4_924),
        (999_755_859, 10_429),
        (999_877_930, 21_825),
        (999_938_965, 44_653),
        (999_969_482, 87_680),
        (999_984_741, 160_658),
        (999_992_371, 265_718),
        (999_996_185, 387_285),
        (999_998_093, 497_916),
        (999_999_046, 579_106),
        (BILLION, 631_810),
    ],
    directions: Directions::One,
    biggest_thousandths: 20,
};

/// A university's data centre, fitted to what is published of the traces of Benson et al. (IMC 2010). The
/// connection of rank r among 5,472 has 422,298 (r + 1.4)^-1.6 segments of data, at least 1:
/// - the number of connections is half of the 10,945 flows by 5-tuple, and the mean of 106.5 segments makes
///   83.4 packets of each flow, as RAPID (NSDI'24, Table 8, UNIV1) has them;
/// - 80% of the flows have less than 10 kB, 7 segments (Benson et al., §5.1);
/// - of the curves that satisfy these, this one comes near the conflict ratio of UNIV1 in that table, 16.7%,
///   together with trains of 3 packets, which are the model's default: 912,000 packets have 16.0%.
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
    biggest_thousandths: 260,
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
