//! Rates of a firewall's rules: exact where one core or every replica judges, one bucket where cores share states, refused where each
//! core judges alone. Planted bugs: a bucket for each core, and one that is full again once a replica has stepped a packet.

use std::sync::atomic::{AtomicU64, Ordering};

use engine::strategies::{ALL, AUTO, DYSSECT, HYBRID, RSS, RSSPP, SCR, SCR_TURNS, SHARED, SINGLE, Strategy};
use engine::{Agreement, Chain, Plan, Progress, Verified, verify};
use etherparse::PacketBuilder;
use nf::{About, Connection, Cx, Extras, NetworkFunction, OptionError, Pooled, Verdict};
use nfs::Firewall;
use nfs::firewall::{Buckets, Meta, Options, State};
use paceline_conformance::draw::Draw;
use paceline_conformance::pcap::{self, Pcap};
use paceline_conformance::{Packet, chain};
use wire::{Fields, Headers};

const SECOND: u64 = 1_000_000_000;

const RULES: &str = "rules = [
    \"drop udp from 10.0.0.3 to any rate over 20/s burst 4\",
    \"accept any from any to any state established,related\",
    \"accept icmp from any to any type echo-request rate 10/s burst 3\",
    \"accept udp from 10.0.0.0/24 to any rate 300/minute burst 6\",
    \"reject udp from any to any rate 2/s burst 2\",
]\n";

fn rated(function: &str, flows: usize, full: &str) -> Chain {
    let mut registry = stock::registry();
    registry.add::<Faulty<OWN_BUCKETS>>();
    registry.add::<Faulty<REFILLS>>();
    let toml = format!(
        "[[function]]\nuse = \"{function}\"\nflows = {flows}\ntable_full = \"{full}\"\nudp_timeout_s = 1\n{RULES}"
    );
    chain(&toml, &registry).with_seed(7)
}

/// Hosts inside and outside that talk in UDP, and ask for an echo; sometimes all at once, sometimes nobody for a while.
fn traffic(seed: u64) -> Pcap {
    let mut draw = Draw::new(seed);
    let mut time_ns = SECOND;
    let packet = |number: usize| {
        time_ns += if number % 300 == 299 { 2 * SECOND } else { draw.below(4) * SECOND / 100 };
        let (host, peer) = ([10, 0, 0, 1 + draw.below(6) as u8], [192, 0, 2, 1 + draw.below(3) as u8]);
        let port = 2_000 + draw.below(4) as u16;
        let mut bytes = Vec::new();
        let ends = |src, dst| PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64);
        match draw.below(4) {
            0 => ends(host, peer).icmpv4_echo_request(port, 1).write(&mut bytes, b"x"),
            1 => ends(peer, host).udp(53, port).write(&mut bytes, b"x"),
            _ => ends(host, peer).udp(port, 53).write(&mut bytes, b"x"),
        }
        .expect("writing to memory");
        Packet { time_ns, bytes }
    };
    pcap::of(&(0..1_500).map(packet).collect::<Vec<_>>())
}

fn compared(
    chain: &Chain,
    strategy: &'static dyn Strategy,
    cores: usize,
    seed: u64,
) -> Result<Verified, String> {
    let plan = Plan::new(chain, strategy, cores).map_err(|error| error.to_string())?;
    let (plan, capture) = (Plan { simulation: Some(seed), ..plan }, traffic(seed));
    Ok(verify(chain, &plan, &|| Ok(capture.open()), &Progress::default()).expect("it runs"))
}

#[test]
fn replicas_have_one_core_s_buckets() {
    for (flows, full) in [(8, "reject"), (8, "evict-oldest"), (1_024, "reject")] {
        let chain = rated("firewall", flows, full);
        for (strategy, cores) in [(SINGLE, 1), (SCR, 2), (SCR, 4), (SCR_TURNS, 3), (AUTO, 3)] {
            for seed in 1..4 {
                let verified = compared(&chain, strategy, cores, seed).expect("it runs");
                let at = format!("{} on {cores}, {flows} flows, seed {seed}: {verified:#?}", strategy.name());
                assert_eq!(verified.agreement(), Agreement::Equal, "{at}");
            }
        }
        assert_ne!(compared(&chain, SHARED, 3, 1).expect("it runs").agreement(), Agreement::Different);
    }
}

#[test]
fn cores_that_judge_alone_are_refused() {
    let refused = |chain: &Chain| -> Vec<(&str, String)> {
        let cores = |strategy: &dyn Strategy| if strategy.name() == SINGLE.name() { 1 } else { 3 };
        let why = |strategy: &'static dyn Strategy| {
            Some((strategy.name(), Plan::new(chain, strategy, cores(strategy)).err()?.to_string()))
        };
        ALL.into_iter().filter_map(why).collect()
    };
    let found = refused(&rated("firewall", 64, "reject"));
    let mut names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    let mut expected = [RSS, RSSPP, DYSSECT, HYBRID].map(|strategy| strategy.name());
    expected.sort_unstable();
    assert_eq!(names, expected);
    for (name, why) in &found {
        for says in [
            "`firewall` has one bucket of tokens for all packets that a rule matches (`rate`), and a hash spreads these over cores",
            "`--strategy scr`",
            "no `rate`",
        ] {
            assert!(why.contains(says), "{name}: {why}");
        }
    }
    let plain = "[[function]]\nuse = \"firewall\"\nrules = [\"accept any from any to any\"]\n";
    assert_eq!(refused(&chain(plain, &stock::registry())), []);
}

/// Each core has a bucket of its own, and nobody refuses that.
const OWN_BUCKETS: u8 = 0;
/// All buckets are full again behind one step of the second run.
const REFILLS: u8 = 1;

/// The stock firewall with a fault.
struct Faulty<const FAULT: u8> {
    firewall: Firewall,
    steps: AtomicU64,
}

impl<const FAULT: u8> NetworkFunction for Faulty<FAULT> {
    const ABOUT: About = About {
        name: if FAULT == OWN_BUCKETS { "own-buckets" } else { "refills" },
        options: &[],
        ..Firewall::ABOUT
    };
    const READS: Fields = Firewall::READS;
    const EXTRAS: Extras<Self> = Extras {
        pool: Pooled {
            make: |faulty| (Firewall::EXTRAS.pool.make)(&faulty.firewall),
            steps_in_order: |faulty| (Firewall::EXTRAS.pool.steps_in_order)(&faulty.firewall),
            ..Pooled::NONE
        },
        ..Extras::NONE
    };
    type Key = Connection;
    type Meta = Meta;
    type State = State;
    type Pool = Buckets;
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        Ok(Faulty { firewall: Firewall::new(options)?, steps: AtomicU64::new(0) })
    }

    fn project(headers: &Headers) -> Option<Meta> {
        Firewall::project(headers)
    }

    fn key(meta: &Meta) -> Connection {
        Firewall::key(meta)
    }

    fn step(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, Buckets>) -> Verdict {
        // One core's run has 1,500 steps.
        if FAULT == REFILLS && self.steps.fetch_add(1, Ordering::Relaxed) == 2_500 {
            *cx.pool = (Firewall::EXTRAS.pool.make)(&self.firewall);
        }
        self.firewall.step(flow, meta, cx)
    }

    fn idle_timeout_ns(&self, state: &State) -> u64 {
        self.firewall.idle_timeout_ns(state)
    }
}

#[test]
fn planted_faults_are_found() {
    for (fault, strategy) in
        [("own-buckets", RSS), ("own-buckets", RSSPP), ("refills", SCR), ("refills", SCR_TURNS)]
    {
        let verified = compared(&rated(fault, 1_024, "reject"), strategy, 3, 1).expect("it runs");
        assert_eq!(
            verified.agreement(),
            Agreement::Different,
            "{fault} under {}: {verified:#?}",
            strategy.name()
        );
    }
}
