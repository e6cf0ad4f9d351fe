//! Turns: whose they are, that shares are exact, and that cores differ in nothing else.

use proptest::prelude::*;

use super::super::round_robin::RoundRobin;
use super::*;

fn round(weights: &[u32]) -> RoundRobin {
    RoundRobin::new(&(0..).zip(weights.iter().copied()).collect::<Vec<_>>())
}

fn with_round_robin(list: &str) -> String {
    format!("policy = \"round-robin\"\n{}", service(list))
}

/// The backend that each of some new flows is sent to.
fn sent(rig: &mut Rig<LoadBalancer>, clients: core::ops::Range<u32>) -> Vec<u8> {
    let send = |number| {
        assert_eq!(rig.packet(0, &client(number)), PASS);
        backend(rig)
    };
    clients.map(send).collect()
}

#[test]
fn golden_rounds() {
    for (weights, expected) in [
        (&[][..], &[][..]),
        (&[7], &[0]),
        (&[1, 1, 1], &[0, 1, 2]),
        (&[2, 2], &[0, 1]), // of 2 and 2 as of 1 and 1
        (&[1, 2], &[1, 0, 1]),
        (&[2, 1, 1], &[0, 1, 0, 2]),
        (&[5, 1, 1], &[0, 0, 0, 1, 0, 0, 2]),
        (&[1000, 1000, 500], &[0, 1, 0, 1, 2]),
    ] {
        assert_eq!(round(weights).turns(), expected, "{weights:?}");
    }
}

/// Each new flow goes to the next backend, in the order of the list; known flows take no turn.
#[test]
fn golden() {
    let mut rig = rig(&with_round_robin(&backends(&[1, 1, 1])));
    let steps = [
        // client, flags, backend
        (1, SYN, 1),
        (2, SYN, 2),
        (1, ACK, 1),
        (3, SYN, 3),
        (2, ACK, 2),
        (4, SYN, 1),
        (9, RST, 3), // of no flow: by the hash, and no turn
        (5, ACK, 2), // in the middle: by the hash, and no turn
        (5, FIN, 2),
        (5, SYN, 2), // another connection: a turn
        (6, SYN, 3),
        (6, SYN, 3),
    ];
    for (number, flags, expected) in steps {
        assert_eq!(rig.packet(0, &with_flags(flags, client(number))), PASS);
        assert_eq!(backend(&rig), expected, "client {number}");
    }
    let events = ["flows-opened", "flows-picked-up", "flows-moved", "packets-without-flow"];
    assert_eq!(events.map(|event| rig.event(event)), [6, 1, 0, 1]);
}

#[test]
fn turns_are_for_active_backends_and_each_service_has_its_own() {
    let list = "{ address = \"10.9.0.1\" }, { address = \"10.9.0.2\", state = \"drain\" }, \
                { address = \"10.9.0.3\", state = \"down\" }, { address = \"10.9.0.4\", weight = 2 }";
    let two = format!("{}\n{}", with_round_robin(list), service(TWO).replace("port = 80", "port = 81"));
    let mut rig = rig(&two);
    assert_eq!(sent(&mut rig, 0..3), [4, 1, 4]);
    rig.packet(0, &Headers { dst_port: 81, ..client(0) });
    assert_eq!(backend(&rig), 1);
    assert_eq!(sent(&mut rig, 3..5), [4, 1]);

    let mut none = self::rig(&with_round_robin("{ address = \"10.9.0.2\", state = \"drain\" }"));
    assert_eq!(none.packet(0, &client(1)), Verdict::Drop(NO_BACKEND));
    assert!(none.is_empty());
}

/// Flows of 10.9.0.1 to 3 meet lists in which backends are drained, down, gone or new.
#[test]
fn live_flows_stay_when_backends_are_drained_or_removed() {
    let backend = |last, rest: &str| format!("{{ address = \"10.9.0.{last}\"{rest} }}");
    let [a, b, c] = [1, 2, 3].map(|last| backend(last, ""));
    let moving = |list: &[String]| format!("when_down = \"move\"\n{}", with_round_robin(&list.join(", ")));
    for (list, stay) in [
        ([backend(1, ", state = \"drain\""), b.clone(), c.clone()], [true, true, true]),
        ([backend(1, ", state = \"down\""), b.clone(), c.clone()], [false, true, true]),
        ([c.clone(), a, b.clone()], [true, true, true]),
        ([backend(9, ", weight = 5"), c, b], [false, true, true]),
    ] {
        let before: LoadBalancer = function(&with_round_robin(&backends(&[1, 1, 1]).replace("8080", "80")));
        let mut pool = before.pool();
        for (number, stay) in (0..).zip(stay) {
            let (mut edits, mut events) = (Edits::NONE, [0; LoadBalancer::ABOUT.events.len()]);
            let mut flow = None;
            let mut cx = Cx::new(Stamp::default(), &mut edits, &mut pool, &mut events, 0);
            before.step(&mut flow, &LoadBalancer::project(&client(number)).unwrap(), &mut cx);
            let begun = flow.unwrap();
            assert_eq!(u32::from(begun.backend), number);
            let packet = with_flags(ACK, client(number));
            let (verdict, _, moved) = continued(&moving(&list), &mut flow, &packet);
            assert_eq!((verdict, moved), (PASS, usize::from(!stay)), "{list:?}");
            assert_eq!(flow.unwrap().backend_id == begun.backend_id, stay, "{list:?}");
        }
    }
}

/// What finds no room in the table takes no turn: the next that does has it.
#[test]
fn a_turn_that_is_rejected_is_the_next_flows() {
    let balancer: LoadBalancer = function(&with_round_robin(&backends(&[1, 1, 1])));
    let mut pool = balancer.pool();
    let mut backends = Vec::new();
    for number in 0..7 {
        let meta = LoadBalancer::project(&client(number)).unwrap();
        let (mut edits, mut events) = (Edits::NONE, [0; LoadBalancer::ABOUT.events.len()]);
        let mut cx = Cx::new(Stamp::default(), &mut edits, &mut pool, &mut events, 0);
        let mut flow = None;
        balancer.step(&mut flow, &meta, &mut cx);
        if number % 2 == 0 {
            *cx.edits = Edits::NONE;
            assert_eq!(balancer.rejected(&flow.unwrap(), &meta, &mut cx), PASS);
            let mut expected = Edits::NONE;
            let service = balancer.services.get(0).unwrap();
            service.get(service.maglev.at(meta.hash()).unwrap()).unwrap().1.direct(&mut expected);
            assert_eq!(edits, expected);
        } else {
            backends.push(flow.unwrap().backend);
        }
    }
    assert_eq!(backends, [0, 1, 2]);
}

#[test]
fn cores_begin_at_different_backends() {
    let balancer: LoadBalancer = function(&with_round_robin(&backends(&[1; 8])));
    let begin = |cores| -> Vec<u32> {
        let pools = balancer.pools(cores, &|_| 0);
        pools.iter().map(|pool| pool.cursors[0]).collect()
    };
    assert_eq!(begin(1), [0]);
    assert_eq!(begin(4), [0, 2, 4, 6]);
    assert_eq!(begin(3), [0, 2, 5]);
}

/// With other policies there is no pool, no order to keep, and nothing that may differ.
#[test]
fn no_other_policy_has_a_pool() {
    for policy in ["maglev", "random"] {
        let other: LoadBalancer = function(&format!("policy = \"{policy}\"\n{}", service(TWO)));
        let pools = other.pools(2, &|_| 0);
        assert!(pools.iter().chain([&other.pool()]).all(|pool| pool.cursors.is_empty()));
        assert_eq!(other.refuses_eviction(), None);
        assert!(!other.steps_in_order() && other.allocates().is_empty());
        let state = State { packets: 9, backend_id: 7, backend: 1, phase: Phase::Open, service: 0 };
        assert_eq!(other.without_allocation(&state), state);
    }
    let turns: LoadBalancer = function(&with_round_robin(TWO));
    assert!(turns.steps_in_order() && turns.refuses_eviction().is_some());
    assert_eq!(turns.allocates(), Fields::DST_ADDR | Fields::DST_PORT | Fields::DST_MAC);
    assert!(LoadBalancer::EDITS.contains(turns.allocates()));
}

fn weights() -> impl Strategy<Value = Vec<u32>> {
    let weight = prop_oneof![3 => 1_u32..=3, 1 => 1_u32..=100, 1 => Just(60_u32)];
    proptest::collection::vec(weight, 1..24)
}

proptest! {
    /// At each place of a round every backend has its share to within less than one, and at its end exactly.
    #[test]
    fn shares_are_exact_to_within_one(weights in weights()) {
        let round = round(&weights);
        let (places, total) = (round.turns().len() as u64, weights.iter().map(|w| u64::from(*w)).sum::<u64>());
        let mut taken = std::vec![0_u64; weights.len()];
        for (n, backend) in (1..).zip(round.turns()) {
            taken[usize::from(*backend)] += 1;
            for (taken, weight) in taken.iter().zip(&weights) {
                // |taken - n w/W| < 1
                prop_assert!((taken * total).abs_diff(n * u64::from(*weight)) < total, "{weights:?} at {n}");
            }
        }
        for (taken, weight) in taken.iter().zip(&weights) {
            prop_assert_eq!(taken * total, places * u64::from(*weight));
        }
    }

    #[test]
    fn what_is_given_back_is_taken_again(weights in weights(), cores in 1_usize..9, core: proptest::sample::Index) {
        let round = round(&weights);
        let mut cursor = round.start(core.index(cores), cores);
        for _ in 0..2 * round.turns().len() {
            let before = cursor;
            let taken = round.take(&mut cursor);
            let after = cursor;
            round.give_back(&mut cursor);
            prop_assert_eq!(cursor, before);
            prop_assert_eq!(round.take(&mut cursor), taken);
            prop_assert_eq!(cursor, after);
        }
    }

    /// Through the function, among packets of known flows: shares are exact to within one.
    #[test]
    fn new_flows_are_shared_exactly(
        weights in proptest::collection::vec(1_u32..=10, 1..12),
        packets in proptest::collection::vec(0_u32..150, 1..400),
    ) {
        let mut rig = rig(&with_round_robin(&backends(&weights)));
        let mut by_client = BTreeMap::new();
        for number in &packets {
            rig.packet(0, &client(*number));
            let chosen = *by_client.entry(*number).or_insert(backend(&rig));
            prop_assert_eq!(chosen, backend(&rig), "a flow stays");
        }
        let (flows, total) = (by_client.len() as f64, f64::from(weights.iter().sum::<u32>()));
        for (last, weight) in (1..).zip(&weights) {
            let count = by_client.values().filter(|backend| **backend == last).count() as f64;
            prop_assert!((count - flows * f64::from(*weight) / total).abs() < 1.0 + 1e-9);
        }
    }

    /// Cores that share the flows out differ from one core in which backend, and in nothing else; and
    /// together each backend has its share to within their number.
    #[test]
    fn cores_differ_in_nothing_but_the_backend(
        packets in proptest::collection::vec((0_u32..100, any::<bool>()), 1..300), cores in 1_usize..5,
    ) {
        let weights = [3, 1, 2];
        let balancer: LoadBalancer = function(&with_round_robin(&backends(&weights)));
        let run = |cores: usize| {
            let mut pools = balancer.pools(cores, &|_| 0);
            let mut events = [0; LoadBalancer::ABOUT.events.len()];
            let mut flows: BTreeMap<u32, Option<State>> = BTreeMap::new();
            let mut verdicts = Vec::new();
            for (number, opens) in &packets {
                let headers = with_flags(if *opens { SYN } else { FIN }, client(*number));
                let (mut edits, pool) = (Edits::NONE, &mut pools[*number as usize % cores]);
                let mut cx = Cx::new(Stamp::default(), &mut edits, pool, &mut events, 0);
                let flow = flows.entry(*number).or_default();
                let verdict = balancer.step(flow, &LoadBalancer::project(&headers).unwrap(), &mut cx);
                verdicts.push((verdict, edits.fields() - balancer.allocates()));
            }
            (flows, verdicts, events)
        };
        let (single, sharded) = (run(1), run(cores));
        let without = |flows: &BTreeMap<u32, Option<State>>| -> Vec<State> {
            flows.values().flatten().map(|state| balancer.without_allocation(state)).collect()
        };
        prop_assert_eq!(without(&single.0), without(&sharded.0));
        prop_assert_eq!((single.1, single.2), (sharded.1, sharded.2));
    }
}
