//! One of 100 backends goes while connections are open: none is broken that was not its own.

use std::collections::BTreeMap;

use engine::strategies::{RSS, SCR, SINGLE, Strategy};
use engine::{Chain, Plan, Progress, Reload, replay_reloading};
use io::Fate;
use paceline_conformance::pcap::{self, Pcap};
use paceline_conformance::{Packet, chain, tcp};

const BACKENDS: u8 = 100;
/// The one that goes.
const GONE: u8 = 42;
/// Connections that are open when it goes, and that begin afterwards.
const OPEN: u32 = 1_500;
const NEW: u32 = 500;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// 100 backends, known by their MAC addresses 02::1 to 02::64. What is said of the one that goes; without it, it is not in the list.
fn text(policy: &str, gone: Option<&str>, flows: usize) -> String {
    let backend = |last: u8| {
        let said = if last == GONE { gone? } else { "" };
        Some(format!("{{ mac = \"02:00:00:00:00:{last:02x}\"{said} }}"))
    };
    let backends: Vec<String> = (1..=BACKENDS).filter_map(backend).collect();
    format!(
        "[[function]]\nuse = \"load-balancer\"\nflows = {flows}\npolicy = \"{policy}\"\n\
         services = [{{ vip = \"10.0.0.200\", port = 80, backends = [{}] }}]\n",
        backends.join(", ")
    )
}

fn balancer(policy: &str, gone: Option<&str>, flows: usize) -> Chain {
    chain(&text(policy, gone, flows), &stock::registry())
}

/// Each open connection has three packets before the backend goes and two afterwards, among which others begin. Beside the packets,
/// after how many it goes.
fn connections() -> (Pcap, u64) {
    let packet = |round: u32, number: u32| {
        let (client, port) = (1 + (number / 400) as u8, 10_000 + (number % 400) as u16);
        let time_ns = 1_000_000_000 + u64::from(round) * 1_000_000_000 + u64::from(number) * 10_000;
        let flags = if round == 0 || number >= OPEN && round == 3 { SYN } else { ACK };
        tcp(time_ns, client, 200, (port, 80), flags, round, 0)
    };
    let round =
        |round: u32| (0..if round < 3 { OPEN } else { OPEN + NEW }).map(move |number| packet(round, number));
    let packets: Vec<Packet> = (0..5).flat_map(round).collect();
    (pcap::of(&packets), 3 * u64::from(OPEN))
}

/// What came of the connections.
#[derive(Debug, PartialEq, Eq)]
struct Broken {
    /// Connections of other backends that changed their backend, or lost a packet.
    of_others: usize,
    /// Those of the backend that went.
    own: usize,
    /// New ones that it got.
    new_to_it: usize,
}

fn broken(before: &Chain, after: &Chain, strategy: &'static dyn Strategy, cores: usize) -> Broken {
    let (pcap, goes) = connections();
    let plan = |chain: &Chain| Plan::new(chain, strategy, cores).expect("it runs");
    let reload = Reload { after: goes, chain: after.clone(), plan: plan(after) };
    // By client and port: to which backend each packet went, 0 to none.
    let mut went: BTreeMap<(u8, u16), Vec<u8>> = BTreeMap::new();
    let outcome = replay_reloading::<()>(
        before,
        &plan(before),
        &[reload],
        pcap.open(),
        &Progress::default(),
        &mut |seen| {
            let client = (seen.bytes[29], u16::from_be_bytes([seen.bytes[34], seen.bytes[35]]));
            let to = if seen.fate == Fate::Forward { seen.bytes[5] } else { 0 };
            went.entry(client).or_default().push(to);
            Ok(())
        },
    );
    assert_eq!(outcome.expect("it runs").packets, goes + 2 * u64::from(OPEN + NEW));
    assert_eq!(went.len(), (OPEN + NEW) as usize);
    let is_open = |went: &&Vec<u8>| went.len() == 5;
    let is_torn = |went: &&Vec<u8>| went.iter().any(|to| *to == 0 || *to != went[0]);
    let torn: Vec<&Vec<u8>> = went.values().filter(is_torn).collect();
    let new_to_it = went.values().filter(|went| !is_open(went) && went.contains(&GONE)).count();
    assert!(went.values().filter(is_open).any(|went| went[0] == GONE), "it had some");
    let own = torn.iter().filter(|went| is_open(went) && went[0] == GONE).count();
    Broken { of_others: torn.len() - own, own, new_to_it }
}

#[test]
fn of_100_backends_one_goes_and_no_connection_of_the_others_is_broken() {
    for policy in ["maglev", "random", "round-robin"] {
        let of = |gone: Option<&str>| balancer(policy, gone, 65_536);
        let before = of(Some(""));
        for (said, loses) in [
            (Some(", state = \"drain\""), false),
            (Some(", weight = 0"), false),
            (Some(", state = \"down\""), true),
            (Some(", health = \"failed\""), true),
            (None, true),
        ] {
            for (strategy, cores) in [(SINGLE, 1), (RSS, 4), (SCR, 3)] {
                let Broken { of_others, own, new_to_it } = broken(&before, &of(said), strategy, cores);
                let case = format!("{policy}, {said:?}, {}", strategy.name());
                println!("{case}: {of_others} of others broken, {own} of its own");
                assert_eq!((of_others, new_to_it), (0, 0), "{case}");
                assert_eq!(own > 0, loses, "{case}: {own}");
            }
        }
    }
}

/// What the test above would find: a balancer that does not remember its flows, as one that goes by the hash alone, moves some of
/// others; one whose flows begin anew moves nearly all.
#[test]
fn planted_flows_that_are_not_remembered_are_found() {
    let of = |policy: &str, gone: Option<&str>, flows| balancer(policy, gone, flows);
    let forgetful = broken(&of("maglev", Some(""), 1), &of("maglev", None, 1), SINGLE, 1);
    assert!((1..=OPEN as usize / 50).contains(&forgetful.of_others), "{forgetful:?}");
    let anew = broken(&of("maglev", Some(""), 65_536), &of("random", None, 65_536), SINGLE, 1);
    assert!(anew.of_others > OPEN as usize / 2, "{anew:?}");
}
