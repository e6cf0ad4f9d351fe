//! Cores that have AF_XDP sockets of their own: which packets each gets, what passes and what is refused.

use std::collections::HashSet;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use engine::{Chain, Plan};
use live::Interface;
use live::xdp::{Spread, Steering, XdpProgram};
use serde_json::{Value, json};

use strategy::Toeplitz;

use crate::control::{Ending, LONGER, TRACK, ask, transfer};
use crate::frames::made_up;
use crate::live::{number, of};
use crate::service::{Lan, Run};
use crate::support::{paceline, stderr};

const PATIENCE: Duration = Duration::from_secs(60);
const OWN: &str = "each with sockets of its own";

fn start(lan: &Lan, cores: &str, more: &[&str]) -> Run {
    let chain = lan.folder.file("track.toml");
    let arguments = [&[&*chain, "--socket", "xdp", "--strategy", "rss", "--cores", cores], more].concat();
    lan.start(&arguments, &[])
}

/// Neighbours that need no asking: nothing but the test's packets travels.
pub fn know_each_other(lan: &Lan) {
    let address_of = |host: &crate::lab::Namespace| {
        host.ip("link show dev eth0").split("link/ether ").nth(1).expect("an address")[..17].to_owned()
    };
    let (left, right) = (address_of(&lan.left), address_of(&lan.right));
    lan.left.ip(&format!("neigh replace 192.0.2.2 dev eth0 lladdr {right}"));
    lan.right.ip(&format!("neigh replace 192.0.2.1 dev eth0 lladdr {left}"));
}

/// How many datagrams of 60 ports each core is to get, as the engine hashes them.
fn expected(cores: usize, sent: &[(u16, u64)]) -> Vec<u64> {
    let chain = Chain::parse("track.toml", TRACK, &stock::registry());
    let chain = chain.unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan::new(&chain, engine::strategies::RSS, cores).expect("a plan");
    let plan = plan.with_own_ports(&chain).expect("it is right for the chain");
    let mut assign = plan.assign(&chain);
    let mut counts = vec![0; cores];
    for (port, count) in sent {
        let headers = wire::Headers {
            src: wire::Addr::v4([192, 0, 2, 1]),
            dst: wire::Addr::v4([192, 0, 2, 2]),
            src_port: *port,
            dst_port: 7_000,
            protocol: 17,
            marks: wire::Marks::IPV4,
            ..wire::Headers::default()
        };
        let entry = assign.entry(&headers);
        counts[assign.core(entry)] += count;
    }
    counts
}

/// Datagrams of many flows: each core gets those that the engine says, whatever queue they come by, and all of them arrive.
fn each_core_gets_its_packets(queues: u32, cores: usize) {
    let Some(lan) = Lan::with_queues(&format!("own-{queues}-{cores}"), queues) else { return };
    know_each_other(&lan);
    let run = start(&lan, &cores.to_string(), &[]);
    assert!(run.said.contains(OWN), "{}", run.said);
    let receives = lan.right.bound(|| UdpSocket::bind("192.0.2.2:7000"));
    receives.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let sent: Vec<(u16, u64)> = (0..60).map(|flow| (20_000 + 7 * flow, 5 + u64::from(flow) % 3)).collect();
    let mut buffer = [0; 64];
    for (port, count) in &sent {
        let sends = lan.left.bound(|| UdpSocket::bind(("192.0.2.1", *port)));
        for at in 0..*count {
            sends.send_to(&at.to_be_bytes(), "192.0.2.2:7000").expect("it is sent");
            let (len, from) = receives.recv_from(&mut buffer).expect("it arrives");
            assert_eq!((&buffer[..len], from.port()), (&at.to_be_bytes()[..], *port), "in order");
        }
    }
    run.signal("-TERM");
    let report = run.ended();
    let got: Vec<u64> =
        report["cores"].as_array().expect("cores").iter().map(|core| number(&core["packets"])).collect();
    assert_eq!(got, expected(cores, &sent), "{report:#}");
    assert!(got.iter().all(|count| *count > 20), "{got:?}");
    assert_eq!(of(&report, "in")["lost"], json!({}));
    assert_eq!(number(&of(&report, "out")["sent"]), sent.iter().map(|(_, count)| count).sum::<u64>());
}

#[test]
fn each_core_gets_its_packets_at_one_queue() {
    each_core_gets_its_packets(1, 2);
}

#[test]
fn each_core_gets_its_packets_at_two_queues() {
    each_core_gets_its_packets(2, 3);
}

#[test]
fn each_core_gets_its_packets_at_four_queues() {
    each_core_gets_its_packets(4, 5);
}

fn reloads_lose_nothing(queues: u32) {
    reloads_through(&format!("own-reload-{queues}"), queues, |lan| start(lan, "2", &[]));
}

/// Connections through two cores survive reloads: none is tracked anew, and not one packet is lost.
fn reloads_through(label: &str, queues: u32, start: impl FnOnce(&Lan) -> Run) {
    const CONNECTIONS: usize = 3;
    let Some(lan) = Lan::with_queues(label, queues) else { return };
    fs::write(lan.folder.file("track.toml"), TRACK).expect("a folder of the test");
    let run = start(&lan);
    assert!(run.said.contains(OWN), "{}", run.said);
    let socket = lan.socket();
    let asked = |request: &Value| {
        let answer = ask(Path::new(&socket), request);
        assert_eq!(answer["ok"], json!(true), "{answer:#}");
        answer
    };
    let longer = LONGER.split("[[function]]\nuse = \"heavy").next().expect("a tracker");
    let goes_on = AtomicBool::new(true);
    let received: [AtomicU64; CONNECTIONS] = Default::default();
    let sent: u64 = thread::scope(|scope| {
        let transfers: Vec<_> = (7_000..)
            .zip(&received)
            .map(|(port, received)| {
                let (goes_on, hosts) = (&goes_on, [&lan.left, &lan.right]);
                scope.spawn(move || transfer(hosts, ([192, 0, 2, 2], port).into(), goes_on, received))
            })
            .collect();
        // Also where something fails, or the connections would go on.
        let ending = Ending(&goes_on);
        for turn in 0..10 {
            let all = || received.each_ref().map(|received| received.load(Ordering::Relaxed));
            let (before, begin) = (all(), Instant::now());
            while all().iter().zip(before).any(|(now, before)| *now <= before) {
                assert!(begin.elapsed() < PATIENCE, "each connection goes on");
                thread::sleep(Duration::from_millis(1));
            }
            let text = if turn % 2 == 0 { longer } else { TRACK };
            let answer = asked(&json!({ "command": "reload", "name": "test.toml", "text": text }));
            assert!(number(&answer["reload"]["functions"][0]["kept_flows"]) >= 3, "{answer:#}");
        }
        drop(ending);
        transfers.into_iter().map(|transfer| transfer.join().expect("no panic").expect("it goes on")).sum()
    });
    asked(&json!({ "command": "stop" }));
    let report = run.ended();
    let packets = number(&report["packets"]);
    assert!(packets > sent / 1_500, "{packets}");
    assert_eq!(number(&report["verdicts"]["forward"]), packets, "{report:#}");
    for interface in ["in", "out"] {
        assert_eq!(of(&report, interface)["lost"], json!({}), "{interface}");
    }
    assert_eq!(number(&report["functions"][0]["events"]["opened"]), CONNECTIONS as u64, "{report:#}");
    assert_eq!(report["reloads"].as_array().expect("a list").len(), 10);
}

#[test]
fn reloads_lose_nothing_at_one_queue() {
    reloads_lose_nothing(1);
}

#[test]
fn reloads_lose_nothing_at_two_queues() {
    reloads_lose_nothing(2);
}

/// What each core's own sockets do not do is refused with a way out, and packets go on.
#[test]
fn what_takes_a_front_is_refused() {
    let Some(lan) = Lan::new("own-refused") else { return };
    let run = start(&lan, "2", &[]);
    let socket = lan.socket();
    let refused = paceline(&["ctl", "--control", &socket, "cores", "1"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--front"), "{}", stderr(&refused));
    let by_source = "[[function]]\nuse = \"port-scan\"\n";
    let tracks = format!("fragments = \"track\"\n{TRACK}");
    for (text, why) in [(by_source, "the new chain hashes "), (&tracks, "one thread follows all datagrams")] {
        let answer =
            ask(Path::new(&socket), &json!({ "command": "reload", "name": "test.toml", "text": text }));
        assert_eq!(answer["ok"], json!(false), "{answer:#}");
        let error = answer["error"].as_str().expect("a reason");
        assert!(error.contains(why) && error.contains("--front"), "{error}");
    }
    assert!(lan.left.ping("192.0.2.2", 2), "packets pass");
    run.signal("-TERM");
    run.ended();
}

/// What the XDP program is told of a chain with two sides, as a run tells it.
fn spread(chain: &Chain, plan: &Plan) -> Spread {
    Spread {
        cores: plan.cores,
        fields: plan.hash_fields.expect("it hashes").fields(),
        hash: Toeplitz::symmetric().by_word().expect("a period of 16 bits"),
        sides: chain.side_prefixes(),
        owners: plan.indirection().expect("it hashes"),
    }
}

/// Golden, for chains: those with a NAT hash packets from outside as they look from inside. Planted: sides left out.
#[test]
fn the_program_picks_the_core_that_the_engine_picks_for_chains() {
    let Some(lan) = Lan::new("own-golden") else { return };
    let nat = |inside: &str, external: &str, more: &str| {
        format!("[[function]]\nuse = \"nat\"\ninside = [{inside}]\nexternal = [{external}]\n{more}")
    };
    let gateway =
        fs::read_to_string(crate::support::root().join("examples/gateway.toml")).expect("it is there");
    let chains = [
        ("track", TRACK.to_owned(), false),
        ("gateway", gateway, true),
        ("nat", nat("\"10.0.0.0/24\", \"192.168.0.0/16\"", "\"203.0.113.1\"", ""), true),
        ("preserve", nat("\"10.0.0.0/24\"", "\"203.0.113.1\"", "port_choice = \"preserve\"\n"), true),
        // An external address within what is inside.
        ("within", nat("\"10.0.0.128/25\", \"10.0.0.0/26\"", "\"10.0.0.100\"", ""), true),
    ];
    let frames = made_up(0x1234_5678_9abc_def1, 15_000);
    let frames = || frames.iter().filter(|frame| frame.len() >= 14);
    for (name, text, has_sides) in chains {
        let chain = Chain::parse(name, &text, &stock::registry());
        let chain = chain.unwrap_or_else(|error| panic!("{name}: {error}"));
        let plan =
            Plan::new(&chain, engine::strategies::RSS, 3).unwrap_or_else(|error| panic!("{name}: {error}"));
        let plan = plan.with_own_ports(&chain).unwrap_or_else(|error| panic!("{name}: {error}"));
        let differing = |spread: Spread| {
            let steering = Steering { spread: Some(spread), ..Steering::default() };
            let program = lan.gateway.inside(|| XdpProgram::attach(&Interface::open("in")?, &steering));
            let mut program = program.unwrap_or_else(|error| panic!("{error}"));
            let mut assign = plan.assign(&chain);
            let is_other = |frame: &&Vec<u8>| {
                let mut headers = wire::parse(wire::LinkType::Ethernet, frame, frame.len() as u32);
                chain.sides.iter().for_each(|sides| sides.mark(&mut headers));
                let entry = assign.entry(&headers);
                let core = assign.core(entry) as u16;
                program.pick(frame).unwrap_or_else(|error| panic!("{error}")) != (entry, core)
            };
            frames().filter(is_other).count()
        };
        let spread = spread(&chain, &plan);
        println!("{name}: {:?}, {:?}", spread.fields, spread.sides);
        assert_eq!(spread.sides.is_some(), has_sides, "{name}");
        assert_eq!(differing(spread.clone()), 0, "{name}");
        if has_sides {
            assert!(differing(Spread { sides: None, ..spread }) > 100, "{name}, planted");
        }
    }
}

/// A NAT and a tracker on two cores: connections, and errors of the router that go back through the chain.
#[test]
fn each_core_translates_for_itself() {
    let Some(lan) = Lan::new("own-nat") else { return };
    let report = translates(&lan, |chain| {
        lan.start(&[chain, "--socket", "xdp", "--mode", "route", "--strategy", "rss", "--cores", "2"], &[])
    });
    let cores = report["cores"].as_array().expect("cores");
    assert!(cores.iter().all(|core| number(&core["packets"]) > 40), "{cores:#?}");
}

fn translates(lan: &Lan, start: impl FnOnce(&str) -> Run) -> Value {
    lan.routed();
    assert!(lan.gateway.ping("203.0.113.2", 1) && lan.gateway.ping("10.0.0.10", 1));
    let run = start(&lan.folder.nat_chain());
    assert!(run.said.contains(OWN), "{}", run.said);
    let server = lan.right.bound(|| UdpSocket::bind("203.0.113.2:7000"));
    server.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut buffer = [0; 64];
    for flow in 0..100_u16 {
        let client = lan.left.bound(|| UdpSocket::bind(("10.0.0.10", 30_000 + flow)));
        client.set_read_timeout(Some(PATIENCE)).expect("a socket");
        client.send_to(&flow.to_be_bytes(), "203.0.113.2:7000").expect("it is sent");
        let (_, from) = server.recv_from(&mut buffer).expect("it arrives");
        assert_eq!(from.ip().to_string(), "203.0.113.1", "it is translated");
        server.send_to(&flow.to_be_bytes(), from).expect("it is sent");
        assert_eq!(client.recv(&mut buffer).expect("the answer is translated back"), 2);
        assert_eq!(buffer[..2], flow.to_be_bytes());
    }
    for _ in 0..8 {
        // Each has an identifier of its own, and so perhaps another core: errors come back through the chain.
        let output = lan.left.run("ping", "-n -c 1 -W 5 -t 1 203.0.113.2");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("Time to live exceeded"), "{said}");
    }
    assert!(lan.left.ping("203.0.113.2", 3));
    run.signal("-TERM");
    let report = run.ended();
    assert_eq!(report["routing"]["dropped"], json!({ "ttl-expired": 8 }), "{report:#}");
    assert_eq!(number(&report["verdicts"]["drop"]), 0, "{report:#}");
    report
}

/// Where a front is right there is one, and the start says why.
#[test]
fn a_front_says_why_it_is_there() {
    let Some(lan) = Lan::new("own-front") else { return };
    let (track, tracks) = (lan.folder.file("track.toml"), lan.folder.file("tracks.toml"));
    fs::write(&tracks, format!("fragments = \"track\"\n{TRACK}")).expect("a folder of the test");
    let record = lan.folder.file("in.pcap");
    for (chain, strategy, more, why) in [
        (&track, "rss", &["--front"][..], "--front was given"),
        (&track, "rss", &["--record", &record], "--record and --out"),
        (&track, "rss", &["--socket", "packet"], "AF_PACKET has no sockets of each core's own"),
        (&track, "rss", &["--poll", "driver"], "one thread do the driver's work"),
        (&track, "rsspp", &["--front"], "--front was given"),
        (&track, "scr-turns", &[], "with --egress as-ready each core sends by itself"),
        (&track, "dyssect", &[], "strategy `dyssect` decides as packets come"),
        (&tracks, "rss", &[], "one thread follows all datagrams"),
    ] {
        let run = lan.start(&[&[chain, "--strategy", strategy, "--cores", "2"], more].concat(), &[]);
        let line = "2 cores, and one thread that receives and sends for them: ";
        assert!(run.said.contains(line) && run.said.contains(why), "{why}: {}", run.said);
        assert!(lan.left.ping("192.0.2.2", 2), "{why}: packets pass");
        run.signal("-TERM");
        run.ended();
    }
    let run = lan.start(&[&track], &[]);
    assert!(!run.said.contains("cores"), "{}", run.said);
    run.signal("-TERM");
    run.ended();
}

/// A router's errors are sent by the core that has the packet, and the host gets its own packets.
#[test]
fn each_core_routes_by_itself() {
    let Some(lan) = Lan::new("own-router") else { return };
    lan.routed();
    lan.right.ip("route add 10.0.0.0/24 via 203.0.113.1");
    assert!(lan.gateway.ping("203.0.113.2", 1) && lan.gateway.ping("10.0.0.10", 1));
    let run = start(&lan, "3", &["--mode", "route"]);
    assert!(run.said.contains(OWN), "{}", run.said);
    assert!(
        lan.left.ping("203.0.113.2", 3) && lan.left.ping("10.0.0.1", 2) && lan.right.ping("203.0.113.1", 2)
    );
    // Datagrams of many flows whose time to live ends here: each is answered, but for what the rate limit holds back.
    let errors = |report: &Value| {
        number(&report["routing"]["icmp_errors"]) + number(&report["routing"]["icmp_errors_limited"])
    };
    const FLOWS: u16 = 40;
    for flow in 0..FLOWS {
        lan.left.inside(|| {
            let socket = UdpSocket::bind(("10.0.0.10", 30_000 + flow)).expect("it is free");
            socket.set_ttl(1).expect("a socket");
            socket.send_to(b"?", ("203.0.113.2", 40_000)).expect("it is sent");
        });
    }
    assert!(lan.left.ping("203.0.113.2", 1));
    run.signal("-TERM");
    let report = run.ended();
    assert_eq!(report["routing"]["dropped"], json!({ "ttl-expired": FLOWS }), "{report:#}");
    assert_eq!(errors(&report), u64::from(FLOWS), "{report:#}");
    let cores = report["cores"].as_array().expect("cores");
    assert!(cores.iter().all(|core| number(&core["packets"]) > 3), "{cores:#?}");
}

/// Options of cores that take packets in turns, and send by themselves.
pub const IN_TURNS: [&str; 4] = ["--strategy", "scr-turns", "--egress", "as-ready"];

fn start_in_turns(lan: &Lan, chain: &str, cores: &str, more: &[&str]) -> Run {
    let chain = lan.folder.file(chain);
    let run =
        lan.start(&[&[&*chain, "--socket", "xdp", "--cores", cores], &IN_TURNS[..], more].concat(), &[]);
    let line = "each with sockets of its own: they take packets in turns, and send as they are ready";
    assert!(run.said.contains(line), "{}", run.said);
    run
}

/// Datagrams through cores that take turns: all of them leave once, and every replica has all flows.
fn cores_take_turns(queues: u32, cores: &str) {
    const FLOWS: u16 = 40;
    const PACKETS: u64 = 8_000;
    /// On their way at once, at most: what the receiver's socket has room for.
    const AHEAD: u64 = 80;
    let Some(lan) = Lan::with_queues(&format!("turns-{queues}"), queues) else { return };
    fs::write(lan.folder.file("flows.toml"), "[[function]]\nuse = \"flow-statistics\"\n").expect("a folder");
    know_each_other(&lan);
    let run = start_in_turns(&lan, "flows.toml", cores, &[]);
    let receives = lan.right.bound(|| UdpSocket::bind("192.0.2.2:7000"));
    receives.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let senders: Vec<UdpSocket> =
        (0..FLOWS).map(|flow| lan.left.bound(|| UdpSocket::bind(("192.0.2.1", 20_000 + flow)))).collect();
    let (mut seen, mut buffer, mut sent) = (HashSet::new(), [0; 64], 0);
    for arrived in 0..PACKETS {
        while sent < PACKETS.min(arrived + AHEAD) {
            let sender = &senders[sent as usize % senders.len()];
            sender.send_to(&sent.to_be_bytes(), "192.0.2.2:7000").expect("it is sent");
            sent += 1;
        }
        let len = receives.recv(&mut buffer).expect("it arrives");
        assert!(seen.insert(buffer[..len].to_vec()), "each datagram once");
    }
    run.signal("-TERM");
    let report = run.ended();
    let packets = number(&report["packets"]);
    assert!(packets >= PACKETS, "{packets}");
    assert_eq!(number(&report["verdicts"]["forward"]), packets, "{report:#}");
    for interface in ["in", "out"] {
        assert_eq!(of(&report, interface)["lost"], json!({}), "{interface}");
    }
    let by_core = report["cores"].as_array().expect("cores");
    // A core that is free takes the next ones: how many each gets is chance.
    assert!(by_core.iter().all(|core| number(&core["packets"]) > 0), "{by_core:#?}");
    let statistics = &report["functions"][0];
    // Hosts may have said something beside.
    let live = number(&statistics["flows"]["live"]);
    assert!((u64::from(FLOWS)..u64::from(FLOWS) + 20).contains(&live), "{statistics:#}");
}

#[test]
fn cores_take_turns_at_one_queue() {
    cores_take_turns(1, "2");
}

#[test]
fn cores_take_turns_at_four_queues() {
    cores_take_turns(4, "3");
}

/// Connections through cores that take turns survive reloads. Packets of one may leave out of order: TCP puts them in order.
#[test]
fn cores_that_take_turns_lose_nothing_at_reloads() {
    reloads_through("turns-reload", 2, |lan| start_in_turns(lan, "track.toml", "2", &[]));
}

/// A NAT and a tracker whose states each core has: what the router says itself goes back through the chain of one of them.
#[test]
fn cores_that_take_turns_translate_alike() {
    let Some(lan) = Lan::new("turns-nat") else { return };
    translates(&lan, |chain| {
        lan.start(
            &[&[chain, "--socket", "xdp", "--mode", "route", "--cores", "2"], &IN_TURNS[..]].concat(),
            &[],
        )
    });
}

/// A NAT gets another external address, which is this host's too: answers to what it has sent come to the chain and not to the
/// host, and what comes to the address before is the host's again.
fn another_external_address(label: &str, more: &[&str]) {
    let Some(lan) = Lan::new(label) else { return };
    lan.routed();
    lan.gateway.ip("addr add 203.0.113.9/24 dev out");
    assert!(lan.gateway.ping("203.0.113.2", 1) && lan.gateway.ping("10.0.0.10", 1));
    let chain = lan.folder.nat_chain();
    let run = lan.start(&[&[&*chain, "--socket", "xdp", "--mode", "route"], more].concat(), &[]);
    let server = lan.right.bound(|| UdpSocket::bind("203.0.113.2:7000"));
    server.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let client = lan.left.bound(|| UdpSocket::bind("10.0.0.10:30000"));
    client.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let text = fs::read_to_string(&chain).expect("it was written");
    let other = text.replace("203.0.113.1", "203.0.113.9");
    let mut buffer = [0; 64];
    for (external, of_host, text) in [
        ("203.0.113.1", "203.0.113.9", None),
        ("203.0.113.9", "203.0.113.1", Some(&other)),
        ("203.0.113.1", "203.0.113.9", Some(&text)),
    ] {
        if let Some(text) = text {
            let request = json!({ "command": "reload", "name": "other.toml", "text": text });
            let answer = ask(Path::new(&lan.socket()), &request);
            assert_eq!(answer["ok"], json!(true), "{answer:#}");
        }
        client.send_to(b"?", "203.0.113.2:7000").expect("it is sent");
        let (_, from) = server.recv_from(&mut buffer).expect("it arrives");
        assert_eq!(from.ip().to_string(), external, "it is translated");
        server.send_to(b"!", from).expect("it is sent");
        assert_eq!(client.recv(&mut buffer).expect("the answer is translated back"), 1, "{external}");
        assert!(lan.right.ping(of_host, 1), "{of_host} is the host's");
    }
    run.signal("-TERM");
    run.ended();
}

#[test]
fn another_external_address_behind_cores_that_take_turns() {
    another_external_address("turns-external", &[&["--cores", "2"], &IN_TURNS[..]].concat());
}

#[test]
fn another_external_address_on_one_core() {
    another_external_address("one-external", &[]);
}
