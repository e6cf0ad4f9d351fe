//! Tests of the chooser on simulated machines: what it changes to, and how often.

use proptest::prelude::*;

use super::*;
use crate::rates::{DYSSECT, HYBRID, RSS, RSSPP, SCR, SCR_TURNS, SINGLE};
use crate::throughput::promoted_shares;

const ENTRIES: usize = 128;

/// Choices among strategies under which a core has all its flows, or all cores have all.
fn choices(most: usize) -> Vec<Choice> {
    choices_of(&[&RSS, &RSSPP, &SCR, &SCR_TURNS], most)
}

fn all_choices(most: usize) -> Vec<Choice> {
    choices_of(&[&RSS, &RSSPP, &DYSSECT, &SCR, &SCR_TURNS, &HYBRID], most)
}

fn choices_of(several: &[&'static RateModel], most: usize) -> Vec<Choice> {
    let of = |model: &&'static RateModel| {
        let model = *model;
        (2..=most).map(move |cores| Choice { model, cores })
    };
    let single = Choice { model: &SINGLE, cores: 1 };
    [single].into_iter().chain(several.iter().flat_map(of)).collect()
}

/// A machine: what packets cost on it, and how they spread.
#[derive(Clone, Debug)]
struct Machine {
    packet_ns: f64,
    replay_ns: f64,
    loads: Vec<u64>,
}

impl Machine {
    /// What cores do in an epoch under a choice, each with its time off by a factor from `noise`.
    fn work(&self, Choice { model, cores }: Choice, noise: &mut dyn FnMut() -> f64) -> Vec<Work> {
        let mut owners: Vec<u16> = (0..ENTRIES).map(|entry| (entry % cores) as u16).collect();
        if model == &RSSPP {
            crate::Balancer::default().rebalance(&mut owners, &self.loads, cores);
        }
        let all: u64 = self.loads.iter().sum();
        if model == &HYBRID {
            // As many as level out what cores have to do.
            let (told, busiest) = promoted_shares(&owners, &self.loads, cores, 2);
            let busy_ns = all as f64 * self.costs().hybrid_ns(cores, told) / cores as f64;
            let work = |core: usize| {
                let packets = if core == 0 { busiest * all as f64 } else { 0.0 };
                let busy_ns = (busy_ns * noise()) as u64;
                Work { packets: packets.max(all as f64 / cores as f64) as u64, busy_ns }
            };
            return (0..cores).map(work).collect();
        }
        let packets = |core: usize| match model.learning {
            Learning::Replays { .. } => all / cores as u64,
            _ => (0..ENTRIES)
                .filter(|entry| usize::from(owners[*entry]) == core)
                .map(|entry| self.loads[entry])
                .sum(),
        };
        let mut work = |core: usize| {
            let packets = packets(core);
            let (others, writing_ns) = match model.learning {
                Learning::Replays { writes_history: false } => (all - packets, 0.0),
                Learning::Replays { writes_history: true } => (all - packets, self.costs().writing_ns()),
                _ => (0, 0.0),
            };
            let own_ns = self.packet_ns + writing_ns;
            let busy_ns = packets as f64 * own_ns + others as f64 * self.replay_ns;
            Work { packets, busy_ns: (busy_ns * noise()) as u64 }
        };
        (0..cores).map(&mut work).collect()
    }

    /// Runs so many epochs: the number of each that led to a change, and the change.
    fn run(
        &self,
        chooser: &mut Chooser,
        epochs: usize,
        noise: &mut dyn FnMut() -> f64,
    ) -> Vec<(usize, Decision)> {
        self.run_worse(chooser, epochs, noise, |_, _| Span::default())
    }

    /// Runs as `run` does, where epochs are worse than the model has them: `worsen` says how, for a strategy and
    /// what cores did under it.
    fn run_worse(
        &self,
        chooser: &mut Chooser,
        epochs: usize,
        noise: &mut dyn FnMut() -> f64,
        mut worsen: impl FnMut(&'static RateModel, &mut [Work]) -> Span,
    ) -> Vec<(usize, Decision)> {
        let epoch = |number: usize| {
            let mut work = self.work(chooser.now(), noise);
            let span = worsen(chooser.now().model, &mut work);
            Some((number, chooser.end_epoch(&self.loads, &work, span).decision?))
        };
        (0..epochs).filter_map(epoch).collect()
    }

    fn costs(&self) -> Costs {
        let Machine { packet_ns, replay_ns, .. } = *self;
        let (dispatch_ns, sequencer_ns) = (packet_ns, SEQUENCER_NS);
        Costs { dispatch_ns, compute_ns: 0.0, replay_ns, carry_ns: 0.0, sequencer_ns }
    }

    /// What a choice is worth on it, with full knowledge of the machine.
    fn worth(&self, choice: Choice) -> f64 {
        Chooser::knowing(vec![choice], choice, &self.costs(), self.loads.clone()).worth(choice)
    }
}

/// One flow has so many of 128,000 packets, and the others are spread evenly.
fn elephant(share: f64) -> Vec<u64> {
    let mut loads = vec![((1.0 - share) * 1e3) as u64; ENTRIES];
    loads[3] += (share * 128e3) as u64;
    loads
}

fn single() -> Choice {
    choices(2)[0]
}

/// By hand: at 126 ns a packet one core has 7.94 Mpps; of an elephant with 90% no number of cores makes more than 8.8 by a
/// hash. A sequencer passes 28.6 on; replicas on 7 that take turns, at 14 ns to write and 13 a packet of others, have 32.1.
#[test]
fn an_elephant_is_replicated_and_mice_are_spread() {
    let mut quiet = || 1.0;
    let machine = Machine { packet_ns: 126.0, replay_ns: 13.0, loads: elephant(0.9) };
    let mut chooser = Chooser::new(choices(7), single(), ENTRIES);
    let changes = machine.run(&mut chooser, 20, &mut quiet);
    assert_eq!(chooser.now(), Choice { model: &SCR_TURNS, cores: 7 }, "{changes:?}");
    assert!((chooser.predict(chooser.now()) - 32.1).abs() < 0.1);
    let behind = Choice { model: &SCR, cores: 7 };
    assert!((chooser.predict(behind) - 28.6).abs() < 0.1);
    assert_eq!(changes[0].0, LASTING as usize - 1, "not before it has lasted");
    // The elephant goes, and mice stay: while it is still remembered RSS++ is better than RSS, and then as good.
    let even = Machine { loads: elephant(0.0), ..machine };
    even.run(&mut chooser, 20, &mut quiet);
    assert_eq!(chooser.now(), Choice { model: &RSSPP, cores: 7 });
}

/// By hand: an elephant of 40% among mice on 7 cores, at 164 ns a packet and 85 a packet of another core, as the table of
/// `docs/hybrid.md` has it. Replicas of all have 7000 / (164 + 6 * 85) = 10.4 Mpps, RSS++ 1000 / (0.4 * 164) = 15.2, replicas of the
/// elephant's entry 7000 / (164 + 6 * 0.405 * 85) = 18.9.
#[test]
fn an_elephant_alone_is_replicated_where_replay_is_dear() {
    let machine = Machine { packet_ns: 164.0, replay_ns: 85.0, loads: elephant(0.4) };
    let begin = Choice { model: &RSS, cores: 7 };
    let mut chooser = Chooser::new(all_choices(7), begin, ENTRIES);
    let changes = machine.run(&mut chooser, 50, &mut || 1.0);
    assert_eq!(chooser.now(), Choice { model: &HYBRID, cores: 7 }, "{changes:?}");
    // Once it has measured that a replay takes longer than was guessed.
    assert!((chooser.predict(chooser.now()) - 18.9).abs() < 0.2, "{}", chooser.predict(chooser.now()));
    let others = all_choices(7).into_iter().filter(|choice| choice.model != &HYBRID).collect();
    let mut chooser = Chooser::new(others, begin, ENTRIES);
    machine.run(&mut chooser, 50, &mut || 1.0);
    assert_eq!(chooser.now().model, &RSSPP, "without it");
}

/// What was guessed is measured, and if it was wrong the change is taken back.
#[test]
fn replay_that_costs_more_than_was_guessed() {
    let machine = Machine { packet_ns: 100.0, replay_ns: 95.0, loads: elephant(0.6) };
    let mut chooser = Chooser::new(choices(4), single(), ENTRIES);
    let changes = machine.run(&mut chooser, 100, &mut || 1.0);
    let told: Vec<_> = changes.iter().map(|(_, decision)| decision.to.model).collect();
    assert_eq!(told, [&SCR, &RSSPP], "{changes:?}");
    assert!(!changes[0].1.has_measured_replay && changes[1].1.has_measured_replay);
    assert!((changes[1].1.replay_ns - 95.0).abs() < 1.0);
}

/// Four cores under RSS, of which one has two entries with nine times the packets of others: RSS++ promises most.
fn two_heavy_entries_of_one_core() -> (Machine, Chooser) {
    let mut loads = vec![1_000; ENTRIES];
    (loads[0], loads[4]) = (9_000, 9_000);
    let begin = Choice { model: &RSS, cores: 4 };
    (Machine { packet_ns: 100.0, replay_ns: 90.0, loads }, Chooser::new(choices(4), begin, ENTRIES))
}

/// RSS++ that is busy with moving entries is left, and not come back to at once.
#[test]
fn moves_that_cost_more_than_they_gain() {
    let (machine, mut chooser) = two_heavy_entries_of_one_core();
    let changes = machine.run_worse(&mut chooser, 60, &mut || 1.0, |model, work| {
        let moves = if model == &RSSPP { 2 } else { 1 };
        work.iter_mut().for_each(|core| core.busy_ns *= moves);
        Span::default()
    });
    let told: Vec<_> = changes.iter().map(|(epoch, decision)| (*epoch, decision.to.model)).collect();
    let [(2, first), (epoch, second)] = told[..] else { panic!("{told:?}") };
    assert!((first, second) == (&RSSPP, &RSS) && epoch < 10, "{told:?}");
}

/// Which strategies take over, where so many packets of 1,000 are lost under each of `under`, while cores are busy for a quarter
/// of the time at most.
fn with_queues_that_overflow(
    (machine, mut chooser): (Machine, Chooser),
    lost: u64,
    under: &[&'static RateModel],
) -> Vec<&'static RateModel> {
    let all: u64 = machine.loads.iter().sum();
    let changes = machine.run_worse(&mut chooser, 60, &mut || 1.0, |model, work| {
        let busiest_ns = work.iter().map(|core| core.busy_ns).max().unwrap_or(0);
        let lost = if under.contains(&model) { all * lost / 1_000 } else { 0 };
        Span { elapsed_ns: 4 * busiest_ns, lost }
    });
    changes.iter().map(|(_, decision)| decision.to.model).collect()
}

/// What moves flows and loses packets that its cores would have had the time for does not do what was predicted.
#[test]
fn queues_that_overflow_while_cores_pause() {
    let taking_over = |lost| with_queues_that_overflow(two_heavy_entries_of_one_core(), lost, &[&RSSPP]);
    assert_eq!(taking_over(9), [&RSSPP]);
    assert_eq!(taking_over(20), [&RSSPP, &RSS]);
}

/// If packets are lost under RSS as well, RSS++ has its cores do less, and runs; but RSS is tried again in 60 epochs, as what
/// it lost is forgotten.
#[test]
fn queues_that_overflow_under_rss_too() {
    let both = [&RSS, &RSSPP];
    let taking_over = with_queues_that_overflow(two_heavy_entries_of_one_core(), 20, &both);
    assert_eq!(taking_over, [&RSSPP, &RSS, &RSSPP]);
}

/// Where packets are lost as long as RSS runs, as much is expected of others that have not run: the machine may lose them. Only what
/// is better all the same is tried.
#[test]
fn losses_do_not_make_others_look_better() {
    let machine = Machine { packet_ns: 100.0, replay_ns: 90.0, loads: elephant(0.0) };
    let begin = Choice { model: &RSS, cores: 4 };
    let chooser = Chooser::new(choices(4), begin, ENTRIES);
    assert_eq!(with_queues_that_overflow((machine, chooser), 20, &[&RSS]), [] as [&RateModel; 0]);
}

/// Promotion that leaves one core with twice as much to do as it should is left as well.
#[test]
fn promotion_that_levels_less_than_it_should() {
    let machine = Machine { packet_ns: 164.0, replay_ns: 85.0, loads: elephant(0.4) };
    let begin = Choice { model: &RSS, cores: 7 };
    let mut chooser = Chooser::new(all_choices(7), begin, ENTRIES);
    let changes = machine.run_worse(&mut chooser, 60, &mut || 1.0, |model, work| {
        if model == &HYBRID {
            work[0].busy_ns *= 2;
        }
        Span::default()
    });
    let told: Vec<_> = changes.iter().map(|(_, decision)| decision.to.model).collect();
    assert_eq!(told.iter().filter(|to| **to == &HYBRID).count(), 1, "{told:?}");
    assert_ne!(chooser.now().model, &HYBRID, "{told:?}");
}

/// Cores that add nothing are given back.
#[test]
fn cores_that_add_nothing_are_given_back() {
    let mut loads = vec![0; ENTRIES];
    (loads[0], loads[1]) = (10_000, 10_000);
    let machine = Machine { packet_ns: 100.0, replay_ns: 90.0, loads };
    let begin = Choice { model: &RSSPP, cores: 16 };
    let mut chooser = Chooser::new(choices(16), begin, ENTRIES);
    machine.run(&mut chooser, 50, &mut || 1.0);
    assert_eq!(chooser.now(), Choice { model: &RSS, cores: 2 });
}

#[test]
fn an_epoch_with_few_packets_says_nothing() {
    let mut chooser = Chooser::new(choices(4), single(), ENTRIES);
    let few = [Work { packets: 999, busy_ns: 1 }];
    assert_eq!(chooser.end_epoch(&[7; ENTRIES], &few, Span::default()), Epoch::default());
    assert_eq!(chooser.loads, [0; ENTRIES]);
}

fn machines() -> impl Strategy<Value = Machine> {
    let loads =
        (0.0..0.95f64, prop::collection::vec(10u64..1_000, ENTRIES)).prop_map(|(share, mut loads)| {
            let all: u64 = loads.iter().sum();
            loads[5] += (all as f64 * share / (1.0 - share)) as u64;
            loads
        });
    (20.0..500.0f64, 0.05..0.95f64, loads).prop_map(|(packet_ns, replay, loads)| Machine {
        packet_ns,
        replay_ns: packet_ns * replay,
        loads,
    })
}

proptest! {
    /// Whatever is measured, nothing is left for less than the gain, nor before it has lasted.
    #[test]
    fn nothing_is_left_for_less_than_the_gain(
        machine in machines(), begin in 0usize..36, seed in any::<u64>(), amount in 0.0..0.5f64,
    ) {
        let mut state = seed;
        let mut noise = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            1.0 + amount * ((state >> 40) as f64 / (1u64 << 24) as f64 - 0.5)
        };
        let mut chooser = Chooser::new(all_choices(8), all_choices(8)[begin], ENTRIES);
        let mut last = None;
        for (number, decision) in machine.run(&mut chooser, 60, &mut noise) {
            let per_core = |choice: Choice| (1.0 - CORE).powi(choice.cores as i32 - 1);
            let (from, to) = (decision.from_mpps * per_core(decision.from), decision.to_mpps * per_core(decision.to));
            prop_assert!(to >= from * (1.0 + GAIN) * (1.0 - 1e-9), "{decision:?}");
            prop_assert!(last.is_none_or(|last| number >= last + LASTING as usize));
            last = Some(number);
        }
    }

    /// Where nothing changes it comes to rest at what is worth most, or so little less that no change is worth it; and does
    /// not go to and fro on noise of 1%. It does not begin with replicas, which alone do not tell what each packet costs.
    #[test]
    fn it_comes_to_rest_near_the_best(machine in machines(), begin in 0usize..15, seed in any::<u64>()) {
        let mut state = seed;
        let mut noise = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            1.0 + 0.02 * ((state >> 40) as f64 / (1u64 << 24) as f64 - 0.5)
        };
        let mut chooser = Chooser::new(all_choices(8), all_choices(8)[begin], ENTRIES);
        let changes = machine.run(&mut chooser, 200, &mut noise);
        prop_assert!(changes.len() <= 4, "{changes:?}");
        let best = all_choices(8).into_iter().map(|choice| machine.worth(choice)).fold(0.0, f64::max);
        let unseen = chooser.replay_ns.is_none() || chooser.told_ns.is_none();
        prop_assert!(unseen || machine.worth(chooser.now()) >= best * 0.93, "{} of {best}", chooser.now());
    }
}

#[test]
fn a_choice_has_the_name_that_options_have() {
    let names: Vec<String> = all_choices(2).iter().map(Choice::to_string).collect();
    let several =
        ["rss", "rsspp", "dyssect", "scr", "scr-turns", "hybrid"].map(|name| format!("{name} on 2"));
    assert_eq!(names, [&["single on 1".into()], &several[..]].concat());
}

/// What is measured, and what is ahead until it has lasted; too few packets say nothing.
#[test]
fn a_chooser_says_what_it_knows() {
    let machine = Machine { packet_ns: 126.0, replay_ns: 13.0, loads: elephant(0.0) };
    let mut chooser = Chooser::new(choices(2), single(), ENTRIES);
    let few = chooser.end_epoch(&[0; ENTRIES], &[Work { packets: PACKETS - 1, busy_ns: 1 }], Span::default());
    assert_eq!((few, chooser.measured_ns(), chooser.ahead()), (Epoch::default(), (None, None), None));
    for epochs in 1..LASTING {
        assert!(machine.run(&mut chooser, 1, &mut || 1.0).is_empty());
        assert_eq!(chooser.ahead(), Some((&RSS, epochs)));
    }
    assert_eq!(chooser.measured_ns(), (Some(126.0), None));
    assert_eq!(machine.run(&mut chooser, 1, &mut || 1.0).len(), 1);
    assert_eq!((chooser.ahead(), chooser.now().model), (None, &RSS));
}

/// Millions of packets in a second: those of all cores, by the time of the busiest.
#[test]
fn an_epoch_says_what_its_busiest_core_could_do() {
    let measured = |work: &[(u64, u64)]| {
        let cores: Vec<Work> =
            work.iter().map(|(packets, busy_ns)| Work { packets: *packets, busy_ns: *busy_ns }).collect();
        let now = Choice { model: &RSS, cores: cores.len() };
        let mut chooser = Chooser::new(vec![now], now, ENTRIES);
        chooser.end_epoch(&[1; ENTRIES], &cores, Span::default()).measured_mpps
    };
    assert_eq!(measured(&[(2_000, 4_000_000)]), Some(0.5));
    assert_eq!(measured(&[(1_000, 5_000_000), (3_000, 8_000_000)]), Some(0.5));
    assert_eq!(measured(&[(1_000, 10_000)]), Some(100.0), "as few as tell something");
    assert_eq!(measured(&[(999, 10_000)]), None);
    assert_eq!(measured(&[(1_000, 0)]), None, "no time was measured");
}

/// An epoch counts whole, the one before it by three quarters.
#[test]
fn loads_of_earlier_epochs_count_less() {
    let now = Choice { model: &SINGLE, cores: 1 };
    let mut chooser = Chooser::new(vec![now], now, ENTRIES);
    let work = [Work { packets: PACKETS, busy_ns: 1_000_000 }];
    for (load, known) in [(8, 8), (4, 10), (0, 8), (2, 8)] {
        chooser.end_epoch(&[load; ENTRIES], &work, Span::default());
        assert_eq!(chooser.loads[0], known, "behind {load}");
    }
}
