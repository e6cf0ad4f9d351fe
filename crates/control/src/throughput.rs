//! What a number of cores will do, from what a packet costs one (SCR App. A) and how packets spread: the model of `plan` and
//! of `auto`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BUCKETS, Balancer, Burden, Part, Placement};

/// What a packet costs a core, ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Costs {
    /// Receiving, parsing and sending it: the paper's *d*.
    pub dispatch_ns: f64,
    /// Taking it through the chain: *c1*.
    pub compute_ns: f64,
    /// Stepping it on a core that does not have it, from its item of history: *c2*.
    pub replay_ns: f64,
    /// What a core spends more on each packet of its own once there are others to step as well: it receives and sends
    /// fewer at a time. The paper's model has no such term.
    pub carry_ns: f64,
    /// Its time at the sequencer, a core in front of the others: what all packets pass one after the other. 0 where a
    /// sequencer is no bound, as the paper's, which is hardware.
    #[serde(default)]
    pub sequencer_ns: f64,
}

/// What a core spends on writing the history of a packet of its own, as a share of what a sequencer spends on the packet: that
/// receives and parses it as well, which a core does anyway. In the table of `docs/scr.md` (*Rates beside `rss`*) `scr-turns`
/// on 2 cores takes 0.29 to 0.50 of the sequencer's time more for a packet than `scr` does, 0.40 in the median of seven rows.
const WRITING: f64 = 0.4;

impl Costs {
    /// All of a packet on a core that steps no others: *t* = *d* + *c1*.
    pub fn packet_ns(&self) -> f64 {
        self.dispatch_ns + self.compute_ns
    }

    /// Million packets per second on one core.
    pub fn single_mpps(&self) -> f64 {
        1e3 / self.packet_ns()
    }

    /// Million packets per second of `cores` cores, each of which steps the packets of all, and of the sequencer in front
    /// of several: `k / (t + (k - 1) c2)` with what is to be carried, and no more than the sequencer passes on.
    pub fn scr_mpps(&self, cores: usize) -> f64 {
        match self.sequencer_mpps().filter(|_| cores > 1) {
            Some(mpps) => self.replicas_mpps(cores).min(mpps),
            None => self.replicas_mpps(cores),
        }
    }

    /// The most that the sequencer passes on, million packets per second; `None` where it is no bound.
    pub fn sequencer_mpps(&self) -> Option<f64> {
        (self.sequencer_ns > 0.0).then(|| 1e3 / self.sequencer_ns)
    }

    /// Million packets per second of `cores` cores, each of which steps the packets of all, without the sequencer's
    /// bound.
    fn replicas_mpps(&self, cores: usize) -> f64 {
        let carry_ns = if cores > 1 { self.carry_ns } else { 0.0 };
        let others = cores as f64 - 1.0;
        cores as f64 * 1e3 / (self.packet_ns() + carry_ns + others * self.replay_ns)
    }

    /// Million packets per second of such cores without a sequencer (`scr-turns`): each core writes the history of
    /// its own packets. Taking packets from the one queue is no bound up to 60 Mpps, the most that was measured.
    pub fn turns_mpps(&self, cores: usize) -> f64 {
        let writing_ns = if cores > 1 { self.writing_ns() } else { 0.0 };
        Costs { carry_ns: self.carry_ns + writing_ns, ..*self }.replicas_mpps(cores)
    }

    /// Million packets per second where a hash picks the core (`hybrid`), but for a share of all packets, `told`,
    /// which go to the cores in such shares that all have the same to do, and which each core steps. The busiest
    /// core has a share `busiest` of all packets beside these.
    ///
    /// Cores are level as long as there is enough to share out: then they do all packets once, and what is told once more on
    /// each other core. No core does less than its own packets and the replay of what is told, and the sequencer has that alone.
    pub fn hybrid_mpps(&self, cores: usize, (told, busiest): (f64, f64)) -> f64 {
        let level_ns = self.hybrid_ns(cores, told) / cores as f64;
        let busiest_ns = busiest * self.packet_ns() + told * self.replay_ns;
        1e3 / level_ns.max(busiest_ns).max(told * self.sequencer_ns)
    }

    /// What a packet takes on all cores together then, ns, in the mean.
    pub fn hybrid_ns(&self, cores: usize, told: f64) -> f64 {
        self.packet_ns() + told * (self.carry_ns + (cores as f64 - 1.0) * self.replay_ns)
    }

    /// What a core takes to write the history of a packet of its own, ns.
    pub fn writing_ns(&self) -> f64 {
        WRITING * self.sequencer_ns
    }

    /// What no number of cores passes since each steps all packets, million packets per second; `None` where replay costs
    /// nothing.
    pub fn scr_limit_mpps(&self) -> Option<f64> {
        (self.replay_ns > 0.0).then(|| 1e3 / self.replay_ns)
    }

    /// The fewest cores to which any more, up to one beyond `max_cores`, add less than `gain` each, a share of their
    /// rate; `None` if that is more than `max_cores`.
    pub fn scr_levels_off_at(&self, gain: f64, max_cores: usize) -> Option<usize> {
        let adds = |cores: usize, more: usize| self.scr_mpps(cores + more) / self.scr_mpps(cores) - 1.0;
        let is_level =
            |cores: usize| (1..=max_cores + 1 - cores).all(|more| adds(cores, more) < gain * more as f64);
        (1..=max_cores).find(|cores| is_level(*cores))
    }

    /// Million packets per second of cores of which the busiest has so much of all packets, 0 to 1. The others wait
    /// for it, or it drops what it cannot take.
    pub fn sharded_mpps(&self, busiest_share: f64) -> f64 {
        self.single_mpps() / busiest_share
    }
}

/// Share of the packets of the busiest of `cores` cores, 0 to 1, of `loads` packets by entry: where entries stay with their
/// `owners` (`rss`), and where they go to the core with the least (`rsspp`), moved once and for all of these
/// packets. No core has less than the heaviest entry.
///
/// # Panics
/// If there are not as many loads as owners, or an owner is no core.
pub fn busiest_shares(owners: &mut [u16], loads: &[u64], cores: usize) -> (f64, f64) {
    let fixed = busiest_share(owners, loads, cores);
    Balancer::default().rebalance(owners, loads, cores);
    (fixed, busiest_share(owners, loads, cores))
}

/// What `hybrid` comes to from where `owners` has each entry, if it went by entries: the share of all packets that is told, and that of the core that
/// has most of the others. It goes by values of the hash, of which an entry has many: what is told beside an elephant is less
/// in truth, and loads are more even.
///
/// # Panics
/// As [`busiest_shares`].
pub fn promoted_shares(owners: &[u16], loads: &[u64], cores: usize, replay_sixteenths: u64) -> (f64, f64) {
    let mut burden = Burden::none(cores, replay_sixteenths);
    owners.iter().zip(loads).for_each(|(owner, load)| burden.own[usize::from(*owner)] += load);
    let part = |(value, (owner, packets)): (usize, (&u16, &u64))| Part {
        value,
        core: usize::from(*owner),
        packets: *packets,
    };
    let parts: Vec<_> = owners.iter().zip(loads).enumerate().map(part).collect();
    burden.relieve(&parts, CHANGES, &mut Vec::new());
    let all = loads.iter().sum::<u64>().max(1) as f64;
    (burden.told as f64 / all, burden.own[burden.busiest()] as f64 / all)
}

/// More than it takes until loads are even.
const CHANGES: usize = 512;

/// Share of the packets of the busiest of `cores` cores under `dyssect`, 0 to 1: shards of `loads` by entry go to the core with the least,
/// and cores have others step some of theirs. An entry has several buckets; it is taken for one that is not divided.
///
/// # Panics
/// If there are more than 1,024 loads.
pub fn shards_share(loads: &[u64], cores: usize) -> f64 {
    let shards = SHARDS.min(loads.len().max(1));
    let mut costs = vec![[0; BUCKETS as usize]; shards];
    loads.iter().enumerate().for_each(|(entry, load)| costs[entry % shards][entry / shards] += load);
    let mut placement = Placement::new(shards, cores);
    placement.balance(&costs, &Balancer::default());
    let busiest = placement.loads(&costs).into_iter().max().unwrap_or(0);
    busiest as f64 / loads.iter().sum::<u64>().max(1) as f64
}

/// As many as `dyssect` has where nothing else is said.
const SHARDS: usize = 16;

pub(crate) fn busiest_share(owners: &[u16], loads: &[u64], cores: usize) -> f64 {
    let mut of_core = vec![0; cores];
    owners.iter().zip(loads).for_each(|(owner, load)| of_core[usize::from(*owner)] += load);
    let all: u64 = loads.iter().sum();
    of_core.into_iter().max().unwrap_or(0) as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Table 4 of the paper, ns: d, c1, c2. Its heavy hitter has a t of 138, the sum before it was rounded.
    const DDOS: Costs =
        Costs { dispatch_ns: 101.0, compute_ns: 25.0, replay_ns: 13.0, carry_ns: 0.0, sequencer_ns: 0.0 };
    const HEAVY_HITTER: Costs =
        Costs { dispatch_ns: 105.0, compute_ns: 33.0, replay_ns: 17.0, carry_ns: 0.0, sequencer_ns: 0.0 };
    const TOKEN_BUCKET: Costs =
        Costs { dispatch_ns: 102.0, compute_ns: 51.0, replay_ns: 22.0, carry_ns: 0.0, sequencer_ns: 0.0 };
    const PORT_KNOCKING: Costs =
        Costs { dispatch_ns: 101.0, compute_ns: 27.0, replay_ns: 15.0, carry_ns: 0.0, sequencer_ns: 0.0 };
    const CONNTRACK: Costs =
        Costs { dispatch_ns: 71.0, compute_ns: 69.0, replay_ns: 39.0, carry_ns: 0.0, sequencer_ns: 0.0 };

    /// The predicted points of Fig. 11, by hand: k * 1000 / (t + (k - 1) c2).
    #[test]
    fn the_papers_predictions() {
        let points = [
            // 1000 / 126, 7000 / (126 + 6 * 13), 14000 / (126 + 13 * 13)
            (DDOS, 1, 7.937),
            (DDOS, 7, 34.314),
            (DDOS, 14, 47.458),
            // 1000 / 138, 4000 / (138 + 3 * 17), 7000 / (138 + 6 * 17)
            (HEAVY_HITTER, 1, 7.246),
            (HEAVY_HITTER, 4, 21.164),
            (HEAVY_HITTER, 7, 29.167),
            // 2000 / (153 + 22), 7000 / (153 + 6 * 22)
            (TOKEN_BUCKET, 2, 11.429),
            (TOKEN_BUCKET, 7, 24.561),
            // 7000 / (128 + 6 * 15), 14000 / (128 + 13 * 15)
            (PORT_KNOCKING, 7, 32.110),
            (PORT_KNOCKING, 14, 43.344),
            // 2000 / (140 + 39), 7000 / (140 + 6 * 39)
            (CONNTRACK, 2, 11.173),
            (CONNTRACK, 7, 18.717),
        ];
        for (costs, cores, mpps) in points {
            let predicted = costs.scr_mpps(cores);
            assert!((predicted - mpps).abs() < 5e-4, "{cores} cores: {predicted} for {mpps}");
        }
    }

    #[test]
    fn where_replication_ends() {
        assert_eq!(CONNTRACK.packet_ns(), 140.0);
        assert!((CONNTRACK.scr_limit_mpps().expect("replay costs something") - 25.641).abs() < 5e-4);
        // 5000 / 296 = 16.892, 6000 / 335 = 17.910, 7000 / 374 = 18.717: the sixth core adds 6.0%, the seventh 4.5%.
        assert_eq!(CONNTRACK.scr_levels_off_at(0.05, 32), Some(6));
        assert_eq!(CONNTRACK.scr_levels_off_at(0.05, 5), None);
        let free = Costs { replay_ns: 0.0, ..DDOS };
        assert_eq!(free.scr_limit_mpps(), None);
        assert_eq!(free.scr_mpps(8), 8.0 * free.single_mpps());
        // What is carried counts once, and not on one core: 2000 / (126 + 13 + 11), 4000 / (126 + 39 + 11).
        let carrying = Costs { carry_ns: 11.0, ..DDOS };
        assert_eq!((carrying.scr_mpps(1), carrying.scr_mpps(2)), (DDOS.single_mpps(), 2_000.0 / 150.0));
        assert_eq!(carrying.scr_mpps(4), 4_000.0 / 176.0);
        // Two cores may be slower than one, and others still be worth having.
        let late =
            Costs { dispatch_ns: 6.0, compute_ns: 0.0, replay_ns: 0.01, carry_ns: 10.0, sequencer_ns: 0.0 };
        assert!(late.scr_mpps(2) < late.single_mpps());
        assert_eq!(late.scr_levels_off_at(0.05, 8), None);
        // Replay that costs all that a packet costs: a core more is of no use at all.
        let dear = Costs { replay_ns: 126.0, ..DDOS };
        assert_eq!(dear.scr_levels_off_at(0.05, 32), Some(1));
        assert!((dear.scr_mpps(20) - dear.single_mpps()).abs() < 1e-9);
    }

    /// 25 ns for each packet are 40 Mpps, however many cores stand behind; one core alone has no sequencer.
    #[test]
    fn no_core_passes_the_sequencer() {
        let behind = Costs { sequencer_ns: 25.0, ..DDOS };
        assert_eq!(behind.sequencer_mpps(), Some(40.0));
        assert_eq!((behind.scr_mpps(7), behind.scr_mpps(14)), (DDOS.scr_mpps(7), 40.0));
        assert_eq!(Costs { sequencer_ns: 500.0, ..DDOS }.scr_mpps(1), DDOS.single_mpps());
        assert_eq!((DDOS.sequencer_mpps(), behind.scr_levels_off_at(0.05, 32)), (None, Some(9)));
    }

    /// The table of `docs/scr.md`, `ddos` with 90 ns more: on 2 cores 14.9 and 13.8 Mpps; on 7 the sequencer has 30 ns, and
    /// replicas in turns are ahead, 33.4 Mpps and 31.9.
    #[test]
    fn cores_in_turns_write_and_pass_the_sequencer() {
        let measured =
            Costs { dispatch_ns: 90.0, compute_ns: 25.0, replay_ns: 14.0, carry_ns: 5.0, sequencer_ns: 30.0 };
        let close = |predicted: f64, mpps: f64| (predicted / mpps - 1.0).abs() < 0.05;
        assert!(close(measured.scr_mpps(2), 14.9) && close(measured.turns_mpps(2), 13.8));
        // 7000 / (115 + 5 + 12 + 6 * 14)
        assert!(
            (measured.turns_mpps(7) - 7_000.0 / 216.0).abs() < 1e-9 && close(measured.turns_mpps(7), 33.4)
        );
        let cheap = Costs { dispatch_ns: 3.0, ..measured };
        assert_eq!(cheap.scr_mpps(7), 1e3 / 30.0);
        assert!(cheap.turns_mpps(7) > 1.5 * cheap.scr_mpps(7));
        assert_eq!(measured.turns_mpps(1), measured.single_mpps());
    }

    /// The table of `docs/hybrid.md`: a flow of 40% on 7 cores. Of `ddos` one core has 7.8 Mpps, a replay takes 16 ns, the sequencer
    /// 58; of `edge` 6.1 Mpps, 85 and 76.
    #[test]
    fn an_elephant_among_mice_as_it_was_measured() {
        let close = |predicted: f64, mpps: f64| (predicted / mpps - 1.0).abs() < 0.03;
        let ddos =
            Costs { dispatch_ns: 128.0, compute_ns: 0.0, replay_ns: 16.0, carry_ns: 0.0, sequencer_ns: 58.0 };
        let shares = (0.4, 0.6 / 7.0);
        assert!(close(ddos.hybrid_mpps(7, shares), 42.2), "{}", ddos.hybrid_mpps(7, shares));
        let edge = Costs { dispatch_ns: 1e3 / 6.1, replay_ns: 85.0, sequencer_ns: 76.0, ..ddos };
        assert!(close(edge.hybrid_mpps(7, shares), 19.4), "{}", edge.hybrid_mpps(7, shares));
        // Nothing told: as sharding. All told: as replicas. Too little to level out: its own, and the replay.
        assert_eq!(ddos.hybrid_mpps(4, (0.0, 0.4)), ddos.sharded_mpps(0.4));
        let hardware = Costs { sequencer_ns: 0.0, ..ddos };
        assert!((hardware.hybrid_mpps(4, (1.0, 0.0)) - hardware.scr_mpps(4)).abs() < 1e-9);
        assert_eq!(ddos.hybrid_mpps(2, (0.1, 0.8)), 1e3 / (0.8 * 128.0 + 0.1 * 16.0));
        // An entry of 40% is promoted, and even ones are not.
        let mut loads = vec![600; 128];
        let owners: Vec<u16> = (0..128).map(|entry| entry % 4).collect();
        assert_eq!(promoted_shares(&owners, &loads, 4, 2), (0.0, 0.25));
        loads[1] += 51_200;
        let (told, busiest) = promoted_shares(&owners, &loads, 4, 2);
        assert_eq!((told, busiest), (51_800.0 / 128_000.0, 19_200.0 / 128_000.0));
        assert_eq!(promoted_shares(&[0, 1], &[0, 0], 2, 2), (0.0, 0.0));
    }

    /// An elephant of 40% and even mice on 4 cores: shards and ratios leave its core little beside it.
    #[test]
    fn shards_go_to_who_has_least_and_some_are_offloaded() {
        let even = vec![1_000; 128];
        assert_eq!(shards_share(&even, 4), 0.25);
        assert!(shards_share(&even, 7) < 0.16, "{}", shards_share(&even, 7));
        let mut loads = vec![600; 128];
        loads[1] += 51_200;
        let share = shards_share(&loads, 4);
        assert!((0.4..0.45).contains(&share), "{share}");
        assert_eq!(shards_share(&[], 2), 0.0);
    }

    /// By hand. Entries of 50 and 30 have one core: the other, with 20, gets the 30.
    #[test]
    fn what_is_moved_and_told_costs_as_much_as_it_says() {
        assert_eq!(busiest_shares(&mut [0, 0, 1], &[50, 30, 20], 2), (0.8, 0.5));
        let costs =
            Costs { dispatch_ns: 90.0, compute_ns: 25.0, replay_ns: 14.0, carry_ns: 6.0, sequencer_ns: 30.0 };
        assert_eq!((costs.writing_ns(), costs.hybrid_ns(3, 0.5)), (12.0, 115.0 + 0.5 * (6.0 + 28.0)));
    }

    #[test]
    fn sharding_is_as_fast_as_its_busiest_core() {
        assert_eq!(DDOS.sharded_mpps(1.0), DDOS.single_mpps());
        assert!((DDOS.sharded_mpps(0.4) - 1e3 / (0.4 * 126.0)).abs() < 1e-9);
        // Entries 0 and 3 are core 0's: 40 + 30 of 100.
        assert_eq!(busiest_share(&[0, 1, 2, 0], &[40, 20, 10, 30], 3), 0.7);
        assert_eq!(busiest_share(&[0, 1], &[0, 0], 2), 0.0);
    }

    proptest! {
        #[test]
        fn more_cores_never_cost_and_never_pass_the_limit(
            dispatch_ns in 1.0..500.0f64, compute_ns in 0.0..500.0f64, replay in 0.001..1.0f64, cores in 1usize..128,
        ) {
            let replay_ns = replay * (dispatch_ns + compute_ns);
            let costs = Costs { dispatch_ns, compute_ns, replay_ns, carry_ns: 0.0, sequencer_ns: 0.0 };
            let (here, next) = (costs.scr_mpps(cores), costs.scr_mpps(cores + 1));
            prop_assert!(next > here * (1.0 - 1e-12));
            prop_assert!(here <= costs.single_mpps() * cores as f64 * (1.0 + 1e-12));
            prop_assert!(next <= costs.scr_limit_mpps().unwrap() * (1.0 + 1e-12));
        }
    }
}
