//! What outsiders know is the program: neither what functions draw nor which flows collide follows from that.

use std::net::Ipv6Addr;

use engine::report::SeedReport;
use engine::strategies::{RSS, SCR, SINGLE};
use engine::{Chain, Plan, Progress, Reload, replay_reloading, verify_reloading};
use etherparse::PacketBuilder;
use io::Fate;
use nf::{drawn, hash_bytes};
use paceline_conformance::pcap::{Pcap, of};
use paceline_conformance::{Packet, chain};

const NAT: &str = "
    [[function]]
    use = \"nat\"
    inside = [\"10.0.0.0/8\"]
    external = [\"203.0.113.1\"]
    port_choice = \"random\"
";

fn nat(seed: &str) -> Chain {
    chain(&format!("{seed}\n{NAT}"), &stock::registry())
}

/// As many datagrams as there are inside ports, to one server.
fn datagrams(many: u16) -> Pcap {
    let packet = |number: u16| {
        let mut bytes = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 9], [198, 51, 100, 53], 64)
            .udp(2_000 + 7 * number, 53)
            .write(&mut bytes, b"abcd")
            .expect("writing to memory");
        Packet { time_ns: u64::from(number), bytes }
    };
    of(&(0..many).map(packet).collect::<Vec<_>>())
}

/// The source ports with which packets left a run of chains that take over from each other.
fn ports(chains: &[(u64, &Chain)], pcap: &Pcap) -> Vec<u16> {
    let (first, rest) = chains.split_first().expect("a chain");
    let plan = |chain: &Chain| Plan::new(chain, SINGLE, 1).expect("it runs");
    let reload =
        |(after, chain): &(u64, &Chain)| Reload { after: *after, chain: (*chain).clone(), plan: plan(chain) };
    let reloads: Vec<Reload> = rest.iter().map(reload).collect();
    let mut ports = Vec::new();
    replay_reloading::<()>(
        first.1,
        &plan(first.1),
        &reloads,
        pcap.open(),
        &Progress::default(),
        &mut |seen| {
            ports.push(u16::from_be_bytes([seen.bytes[34], seen.bytes[35]]));
            Ok(())
        },
    )
    .expect("it runs");
    ports
}

/// What an outsider tells of a NAT whose seed is 0, by a number that is drawn for each packet as the program does.
fn foretold(many: u16, number: impl Fn(u64) -> u64) -> Vec<u16> {
    let mut free: [Vec<u16>; 2] = [0, 1].map(|parity| (1024 + parity..=65_535).step_by(2).collect());
    let port = |packet: u16| {
        let free = &mut free[usize::from((2_000 + 7 * packet) % 2)];
        let front = free.len().div_ceil(2) as u128;
        let at = ((u128::from(number(packet.into())) * front) >> 64) as usize;
        free.swap(0, at);
        free.remove(0)
    };
    (0..many).map(port).collect()
}

fn alike(some: &[u16], others: &[u16]) -> usize {
    some.iter().zip(others).filter(|(some, other)| some == other).count()
}

#[test]
fn ports_are_not_foretold() {
    const MANY: u16 = 300;
    let (pcap, chain) = (datagrams(MANY), nat(""));
    let got = ports(&[(0, &chain)], &pcap);
    let by_hash = hash_bytes(&[0], 0);
    let by_hash = foretold(MANY, |seq| hash_bytes(&seq.to_le_bytes(), by_hash));
    let by_zero = foretold(MANY, |seq| drawn(&seq.to_le_bytes(), drawn(&[0], 0)));
    // By chance one port in 50 runs.
    assert!(alike(&got, &by_hash) <= 3 && alike(&got, &by_zero) <= 3, "{got:?}");
    // The outsider is right if the seed is known.
    assert_eq!(ports(&[(0, &nat("seed = 0"))], &pcap), by_zero);
}

#[test]
fn a_seed_that_was_drawn_draws_the_same_again() {
    let pcap = datagrams(50);
    let [one, other] = [nat(""), nat("")];
    assert!(one.seed_is_drawn && one.seed != other.seed && i64::try_from(one.seed).is_ok());
    let got = ports(&[(0, &one)], &pcap);
    assert!(alike(&got, &ports(&[(0, &other)], &pcap)) <= 3);
    let told = nat(&format!("seed = {}", one.seed));
    assert!(!told.seed_is_drawn);
    assert_eq!(ports(&[(0, &told)], &pcap), got);
    assert_eq!(ports(&[(0, &other.with_seed(one.seed))], &pcap), got);
}

#[test]
fn what_is_told_of_a_seed_is_what_has_the_run_again() {
    let one = nat("");
    let report = SeedReport::new(&one);
    assert_eq!(
        (report.value, report.is_drawn, &report.functions[..]),
        (one.seed, true, &["nat".to_owned()][..])
    );
    assert!(report.text().contains(&format!("--seed {} draws", one.seed)), "{}", report.text());
    // Where a file says it, or nothing is drawn, there is nothing to tell.
    assert_eq!(SeedReport::new(&nat("seed = 5")).text(), "");
    let in_turn = NAT.replace("random", "in-turn");
    assert_eq!(SeedReport::new(&chain(&in_turn, &stock::registry())).text(), "");
}

/// A chain that takes over and has no seed of its own goes on with that of the one before.
#[test]
fn a_reload_goes_on_drawing() {
    let pcap = datagrams(60);
    let [one, other] = [nat(""), nat("")];
    let through = ports(&[(0, &one)], &pcap);
    assert_eq!(ports(&[(0, &one), (30, &other)], &pcap), through);
    let told = nat("seed = 5");
    let changed = ports(&[(0, &one), (30, &told)], &pcap);
    assert_eq!(changed[..30], through[..30]);
    assert!(alike(&changed[30..], &through[30..]) <= 3);
}

#[test]
fn many_cores_draw_as_one_does() {
    let pcap = datagrams(300);
    for strategy in [RSS, SCR] {
        let chain = nat("");
        let plan = Plan::new(&chain, strategy, 2).expect("it runs");
        let open = || Ok(pcap.open());
        let verified = verify_reloading(&chain, &plan, &[], &open, &Progress::default()).expect("compared");
        assert!(verified.is_same(), "{}: {verified:#?}", strategy.name());
    }
}

/// Connections to a host whose address ends in a word that the hash would multiply to 0, were it not for drawn secrets: for
/// each length of a key one.
#[test]
fn nobody_chooses_connections_that_collide() {
    const FLOWS: u16 = 2_000;
    let chain = chain("[[function]]\nuse = \"conntrack\"\nflows = 65536", &stock::registry());
    for host in [[0xe1ac, 0x2e96, 0x934b, 0xb88b], [0xc9ac, 0x2e96, 0x934b, 0xb88b]] {
        let [a, b, c, d] = host;
        let server = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 1, a, b, c, d);
        let packet = |number: u16| {
            let client = Ipv6Addr::new(0x2001, 0xdb8, 1, number, 0, 0, 0, number ^ 0x1234);
            let mut bytes = Vec::new();
            PacketBuilder::ethernet2([2; 6], [4; 6])
                .ipv6(client.octets(), server.octets(), 64)
                .tcp(1_024 + number, 443, 1_000, 8_192)
                .syn()
                .write(&mut bytes, &[])
                .expect("writing to memory");
            Packet { time_ns: u64::from(number), bytes }
        };
        let pcap = of(&(0..FLOWS).map(packet).collect::<Vec<_>>());
        let plan = Plan::new(&chain, SINGLE, 1).expect("it runs");
        let mut passed = 0;
        replay_reloading::<()>(&chain, &plan, &[], pcap.open(), &Progress::default(), &mut |seen| {
            passed += u16::from(seen.fate == Fate::Forward);
            Ok(())
        })
        .expect("it runs");
        assert_eq!(passed, FLOWS, "{server}");
    }
}
