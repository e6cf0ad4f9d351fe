//! A card that looks flows up before a live run: the XDP program says where they are, whatever it says answers are right, and where
//! there can be none it is said.

use std::mem;
use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use engine::strategies::{CardLink, DYSSECT};
use engine::{Chain, Plan, Progress, guests, run_live};
use io::{Pool, Reference};
use live::xdp::Steering;
use live::{Interface, LiveError, LivePort, Mode, PortOptions, Sockets};
use serde_json::json;

use crate::live::{number, of, transfer};
use crate::own_sockets::know_each_other;
use crate::service::Lan;
use crate::support::{paceline, stderr};

const PATIENCE: Duration = Duration::from_secs(60);

fn flow_statistics(lan: &Lan) -> String {
    let chain = lan.folder.file("flows.toml");
    std::fs::write(&chain, "[[function]]\nuse = \"flow-statistics\"\n").expect("a folder of the test");
    chain
}

/// Datagrams of both families: nearly all of them come with where their flow is, and nothing is lost.
fn most_packets_are_referred(cores: &str) {
    const FLOWS: u16 = 40;
    const ROUNDS: u64 = 300;
    let Some(lan) = Lan::new(&format!("referred-{cores}")) else { return };
    let chain = flow_statistics(&lan);
    know_each_other(&lan);
    for (host, number) in [(&lan.left, 1), (&lan.right, 2)] {
        host.ip(&format!("addr add 2001:db8::{number}/64 dev eth0 nodad"));
    }
    let run = lan.start(&[&chain, "--strategy", "dyssect", "--cores", cores, "--card-flows", "1000"], &[]);
    assert!(lan.left.ping("2001:db8::2", 1));
    let (mut sent, mut buffer) = (0, [0; 64]);
    for (own, to) in [("192.0.2.1", "192.0.2.2:7000"), ("2001:db8::1", "[2001:db8::2]:7000")] {
        let receives = lan.right.bound(|| UdpSocket::bind(to));
        receives.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let sender = |flow| lan.left.bound(|| UdpSocket::bind((own, 20_000 + flow)));
        let senders: Vec<UdpSocket> = (0..FLOWS).map(sender).collect();
        for _ in 0..ROUNDS {
            senders.iter().for_each(|sender| assert!(sender.send_to(b"datagram", to).is_ok()));
            for _ in &senders {
                receives.recv_from(&mut buffer).expect("it arrives");
                sent += 1;
            }
        }
    }
    run.signal("-TERM");
    let report = run.ended();
    println!("{}", report["moves"]);
    let packets = number(&report["packets"]);
    assert!(packets >= sent, "{report:#}");
    let referred = number(&report["moves"]["referred_packets"]);
    assert!(referred > sent * 4 / 5, "{referred} of {packets}");
    assert_eq!(number(&report["moves"]["wrong_references"]), 0);
    assert_eq!(number(&report["verdicts"]["forward"]), packets);
    for interface in ["in", "out"] {
        assert_eq!(of(&report, interface)["lost"], json!({}), "{interface}");
    }
    let live = number(&report["functions"][0]["flows"]["live"]);
    assert!((2 * u64::from(FLOWS)..2 * u64::from(FLOWS) + 20).contains(&live), "{live}");
}

#[test]
fn most_packets_are_referred_on_one_core() {
    most_packets_are_referred("1");
}

#[test]
fn most_packets_are_referred_behind_a_front() {
    most_packets_are_referred("2");
}

/// The program at an interface that is back is told what cores tell from then on.
#[test]
fn an_interface_that_is_back_has_a_card_too() {
    const PACKETS: u64 = 400;
    let Some(lan) = Lan::new("referred-back") else { return };
    let chain = flow_statistics(&lan);
    let mut run = lan.start(&[&chain, "--strategy", "dyssect", "--cores", "2", "--card-flows", "1000"], &[]);
    lan.gateway.ip("link del in");
    run.hear("in: gone");
    lan.pair((&lan.left, "eth0"), (&lan.gateway, "in"));
    run.hear("in: back, AF_XDP");
    lan.left.ip("addr add 192.0.2.1/24 dev eth0");
    know_each_other(&lan);
    let receives = lan.right.bound(|| UdpSocket::bind("192.0.2.2:7000"));
    receives.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let sender = lan.left.bound(|| UdpSocket::bind("192.0.2.1:20000"));
    for _ in 0..PACKETS {
        sender.send_to(b"datagram", "192.0.2.2:7000").expect("it is sent");
        receives.recv(&mut [0; 64]).expect("it arrives");
    }
    run.signal("-TERM");
    let report = run.ended();
    let referred = number(&report["moves"]["referred_packets"]);
    assert!(referred > PACKETS / 2, "{}", report["moves"]);
}

/// What the card says of a flow, by what it is told of it, and was told last and before.
type Says = fn(&mut [Reference; 2], Reference) -> Reference;

/// What is true of another flow.
fn swapped([last, before]: &mut [Reference; 2], told: Reference) -> Reference {
    if told != *last {
        *before = mem::replace(last, told);
    }
    *before
}

/// Connections through a tracker, which lets nothing pass that is not of the connection's state, while a card says what it is told,
/// or what it is not. How many packets' flows were where the card said, and how many elsewhere.
fn tracked(label: &str, says: Says) -> Option<(u64, u64)> {
    let lan = Lan::new(label)?;
    let text =
        "[[function]]\nuse = \"conntrack\"\npick_up = false\n[[function]]\nuse = \"flow-statistics\"\n";
    let chain = Chain::parse("track.toml", text, &stock::registry());
    let chain = chain.unwrap_or_else(|error| panic!("{error}"));
    let link = CardLink::default();
    let plan = Plan::new(&chain, DYSSECT, 2).unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan { card_flows: 1_000, card: Some(link.clone()), ..plan };
    let steering = vec![Steering { card_flows: 1_000, ..Steering::default() }; 2];
    let options = PortOptions { sockets: Sockets::Xdp, steering, ..PortOptions::default() };
    let (pool, guests) = Pool::chunks(8_192, LivePort::chunk_bytes(1_500), guests(&plan));
    let opened = lan.gateway.inside(|| {
        let interfaces = [Interface::open("in")?, Interface::open("out")?];
        LivePort::open(&interfaces, Mode::Bridge, pool, &options)
    });
    let mut port = opened.unwrap_or_else(|error: LiveError| panic!("{error}"));
    let (card, frames, progress) = (port.card().expect("a card"), port.frames(), Progress::default());
    let outcome = thread::scope(|scope| {
        let runs = scope.spawn(|| run_live::<(), _>(&chain, &plan, &mut port, (guests, frames), &progress));
        scope.spawn(|| {
            let mut before = [Reference::NONE; 2];
            while !progress.stop.load(Ordering::Relaxed) {
                link.take(|update| {
                    card.set(&zerocopy::transmute!(update.flow), says(&mut before, update.reference));
                });
                thread::sleep(Duration::from_millis(1));
            }
        });
        let ports = ["192.0.2.2:7001", "192.0.2.2:7002", "192.0.2.2:7003"];
        let transfer = |to: &str| transfer((&lan.left, to), (&lan.right, to), 2 << 20);
        let transfers = ports.map(|to| scope.spawn(move || transfer(to)));
        let came = transfers.map(|transfer| transfer.join().unwrap_or(false));
        progress.stop.store(true, Ordering::Relaxed);
        assert_eq!(came, [true; 3], "{label}: what was sent arrives");
        runs.join().expect("it ends").expect("it runs")
    });
    let report = engine::report::RunReport::new(&chain, &plan, &outcome);
    let report = serde_json::to_value(report).expect("JSON");
    println!("{label}: {}", report["moves"]);
    assert_eq!(number(&report["verdicts"]["forward"]), outcome.packets, "{label}: {report:#}");
    assert_eq!(number(&report["functions"][0]["events"]["opened"]), 3, "{label}: {report:#}");
    let flows = number(&report["functions"][1]["flows"]["live"]);
    assert!((6..20).contains(&flows), "{label}: {flows} flows");
    Some((outcome.moves.own.of("referred_packets"), outcome.moves.own.of("wrong_references")))
}

/// And the planted fault: what is true of another flow is found out, packet by packet, and does no harm.
#[test]
fn answers_are_right_whatever_the_card_says() {
    let Some((right, wrong)) = tracked("referred-true", |_, reference| reference) else { return };
    assert!(right > 100 && wrong < right / 10, "{right} {wrong}");
    let (right, wrong) = tracked("referred-swapped", swapped).expect("a lab");
    assert!(wrong > 100, "of other flows: {right} {wrong}");
    // Blocks that there are not, too.
    let (right, wrong) = tracked("referred-made-up", |_, _| Reference(u64::MAX - 7)).expect("a lab");
    assert!(right == 0 && wrong > 100, "of no flows: {right} {wrong}");
}

#[test]
fn where_no_program_sees_packets_it_is_said() {
    let run = |arguments: &[&str]| {
        let output = paceline(&[&["run", "examples/ddos.toml", "--card-flows", "100"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        stderr(&output)
    };
    let dyssect = ["--strategy", "dyssect"];
    let bridge = ["--inside", "lo", "--outside", "nowhere"];
    for (arguments, why) in [
        (&["--socket", "packet"][..], "before AF_PACKET there is no XDP program"),
        (&["--strategy", "rss"], "strategy `rss` has no cores that a card tells"),
    ] {
        let strategy = if arguments[0] == "--strategy" { &[][..] } else { &dyssect };
        let said = run(&[strategy, &bridge, arguments].concat());
        assert!(said.contains(why), "{said}");
    }
    let said = run(&[&dyssect[..], &["--mirror", "lo"]].concat());
    assert!(said.contains("a mirror uses AF_PACKET"), "{said}");
    let said = run(&[&dyssect[..], &["--inside", "tap:t0", "--outside", "lo"]].concat());
    assert!(said.contains("a TAP interface has no XDP program"), "{said}");
}
