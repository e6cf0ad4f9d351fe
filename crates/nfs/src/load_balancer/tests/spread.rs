//! How even flows are spread, and that it depends on nothing but the packets.

use proptest::prelude::*;

use super::*;

/// How far the worst backend is from its share, in the standard deviations that the module's page gives.
fn worst_sigmas(counts: &[u64], weights: &[u32]) -> f64 {
    let (flows, total) = (counts.iter().sum::<u64>() as f64, f64::from(weights.iter().sum::<u32>()));
    let sigmas = |(count, weight): (&u64, &u32)| {
        let share = f64::from(*weight) / total;
        (*count as f64 - flows * share).abs() / (flows * share * (1.0 - share)).sqrt()
    };
    counts.iter().zip(weights).map(sigmas).fold(0.0, f64::max)
}

/// How many of 4,000 flows each backend gets when flow `n` begins with packet `(4000 * run + n) * stride`.
fn counts(policy: &str, weights: &[u32], run: u32, stride: u64) -> Vec<u64> {
    let balancer: LoadBalancer = function(&format!("policy = \"{policy}\"\n{}", service(&backends(weights))));
    let mut counts = std::vec![0; weights.len()];
    for number in 4000 * run..4000 * (run + 1) {
        let meta = LoadBalancer::project(&client(number)).unwrap();
        let (mut edits, mut pool, mut events) =
            (Edits::NONE, balancer.pool(), [0; LoadBalancer::ABOUT.events.len()]);
        let stamp = Stamp { seq: u64::from(number) * stride, time_ns: 0 };
        let mut flow = None;
        balancer.step(&mut flow, &meta, &mut Cx::new(stamp, &mut edits, &mut pool, &mut events, 1));
        counts[usize::from(flow.unwrap().backend)] += 1;
    }
    counts
}

/// Neither more nor less even than chance: the mean square of deviations is σ².
#[test]
fn deviations_are_those_of_chance() {
    for policy in ["maglev", "random"] {
        for stride in [1, 4, 89, 6765] {
            let sigmas = |run: u32| worst_sigmas(&counts(policy, &[6, 5], run, stride), &[6, 5]);
            let mean_square = (0..200).map(|run| sigmas(run).powi(2)).sum::<f64>() / 200.0;
            // The mean of 200 squares of normal numbers has itself a σ of 0.1.
            assert!((0.6..1.4).contains(&mean_square), "{policy} by {stride}: {mean_square}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// However many packets lie between the beginnings of two flows: where a turn by sequence number would
    /// give one backend everything, chance does not.
    #[test]
    fn random_is_even_for_every_rhythm_of_arrivals(
        weights in proptest::collection::vec(1_u32..=10, 2..12),
        run in 0_u32..1000,
        stride in prop_oneof![1_u64..20, Just(64), Just(89), Just(6765), Just(65_537)],
    ) {
        let counts = counts("random", &weights, run, stride);
        prop_assert!(worst_sigmas(&counts, &weights) < 6.0, "{counts:?} for {weights:?} by {stride}");
    }

    /// Clients next to each other, which is how they come.
    #[test]
    fn maglev_is_even_over_clients(
        weights in proptest::collection::vec(1_u32..=10, 2..12), run in 0_u32..1000,
    ) {
        let counts = counts("maglev", &weights, run, 1);
        prop_assert!(worst_sigmas(&counts, &weights) < 6.0, "{counts:?} for {weights:?}");
    }

    /// The choice under `maglev` depends on the 5-tuple alone, under `random` on the first packet's number.
    #[test]
    fn what_was_there_before_does_not_matter(
        number in 0_u32..1000, seq in 1_u64..1 << 40, other in 0_u32..1000,
    ) {
        for policy in ["maglev", "random"] {
            let options = format!("policy = \"{policy}\"\n{}", service(&backends(&[1, 4, 2])));
            let (mut alone, mut later) = (rig(&options), rig(&options));
            later.step(Stamp { seq: seq - 1, time_ns: 0 }, &Headers { src_port: 1, ..client(other) });
            for rig in [&mut alone, &mut later] {
                rig.step(Stamp { seq, time_ns: 0 }, &client(number));
            }
            prop_assert_eq!(alone.edits(), later.edits());
        }
    }
}

/// By addresses and protocol, what a client opens goes to one backend, whatever its ports and the service's; clients are spread.
#[test]
fn all_that_a_client_opens_goes_to_one_backend_by_the_3_tuple() {
    let options = |hash: &str, policy: &str| {
        let service = service(&backends(&[1; 9])).replace("port = 80\n", "port = \"any\"\n");
        format!("hash = \"{hash}\"\npolicy = \"{policy}\"\n{service}")
    };
    let got = |hash: &str, policy: &str| {
        let mut rig = rig(&options(hash, policy));
        let of_client = |number: u32| {
            let packets = (0..12).map(|port| {
                let (src_port, dst_port) = (2_000 + port, if port % 2 == 0 { 80 } else { 443 });
                rig.packet(0, &Headers { src_port, dst_port, ..client(number) });
                backend(&rig)
            });
            packets.collect::<std::collections::BTreeSet<u8>>()
        };
        (0..40).map(of_client).collect::<Vec<_>>()
    };
    for policy in ["maglev", "random"] {
        let by_three = got("3-tuple", policy);
        assert!(by_three.iter().all(|backends| backends.len() == 1), "{policy}: {by_three:?}");
        let all: std::collections::BTreeSet<u8> = by_three.into_iter().flatten().collect();
        assert!(all.len() >= 7, "{policy}: {all:?}");
        assert!(got("5-tuple", policy).iter().all(|backends| backends.len() > 3), "{policy}");
    }
}
