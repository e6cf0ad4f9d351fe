//! A P4 program in the kernel: `paceline run PROGRAM.p4 --backend xdp`.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use io::capture::{CaptureReader, CaptureWriter};
use serde_json::Value;
use wire::LinkType;

use crate::lab::{Lab, Namespace};
use crate::live::number;
use crate::on_death::{BpfFileSystem, TRIES, kill, passes};
use crate::raw::{Raw, datagram, station as address_of};
use crate::service::{Lan, Run, heard};
use crate::support::{Folder, paceline, root, stderr};

const PROGRAM: &str = "examples/p4/port_knocking.p4";
const PATIENCE: Duration = Duration::from_secs(20);
/// Datagrams that are sent one by one: none of them is lost.
const DATAGRAMS: u64 = 300;

/// Two hosts that find each other without asking, since one direction alone is carried. Nothing, with a word why, where programs
/// cannot be built.
fn lan(label: &str) -> Option<Lan> {
    for (program, argument) in [("clang", "--version"), ("ethtool", "--version")] {
        if Command::new(program).arg(argument).output().is_err() {
            println!("skipped: `{program}` does not run");
            return None;
        }
    }
    let lan = Lan::new(label)?;
    lan.left.ip(&format!("neigh add 192.0.2.2 lladdr {} dev eth0", station(&lan)));
    assert!(lan.right.run("ethtool", "-K eth0 gro on").status.success());
    Some(lan)
}

/// The program between the two interfaces of the gateway.
fn between(lan: &Lan, program: &str) -> Command {
    let mut command = lan.gateway.command(env!("CARGO_BIN_EXE_paceline"));
    let place = ["--inside", "in", "--outside", "out", "--backend", "xdp"];
    command.current_dir(root()).args(["run", program]).args(place);
    command
}

fn start(lan: &Lan, arguments: &[&str]) -> Run {
    let mut command = between(lan, PROGRAM);
    command.args(["--json", "-"]).args(arguments);
    Run::start(command)
}

/// Datagrams from the left that came to the right, each waited for.
fn carried(lan: &Lan) -> u64 {
    let receiver = lan.right.bound(|| UdpSocket::bind("192.0.2.2:7000"));
    receiver.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let sender = lan.left.bound(|| UdpSocket::bind("192.0.2.1:0"));
    let mut bytes = [0; 64];
    let one = |number: u64| {
        sender.send_to(&number.to_be_bytes(), "192.0.2.2:7000").is_ok() && receiver.recv(&mut bytes).is_ok()
    };
    (0..DATAGRAMS).map(one).take_while(|came| *came).count() as u64
}

/// A run carries all that comes, says so, and leaves nothing at the interfaces.
fn carries(lan: &Lan, strategy: &str) -> Value {
    let run = start(lan, &["--strategy", strategy, "--cores", "1"]);
    assert_eq!(carried(lan), DATAGRAMS, "{strategy}");
    assert!(lan.gateway.ip("-d link show in").contains("xdp"), "the program is at its interface");
    run.signal("-INT");
    let report = run.ended();
    assert_eq!(report["strategy"], strategy, "{report:#}");
    for what in ["packets", "packets_out"] {
        assert!(number(&report[what]) >= DATAGRAMS, "{what}: {report:#}");
    }
    assert_eq!((number(&report["lost"]), number(&report["no_room"])), (0, 0), "{report:#}");
    for interface in ["in", "out"] {
        let shown = lan.gateway.ip(&format!("-d link show {interface}"));
        assert!(!shown.contains("xdp"), "{shown}");
    }
    report
}

#[test]
fn a_program_in_the_kernel_stands_between_two_interfaces() {
    let Some(lan) = lan("xdp") else { return };
    let report = carries(&lan, "scr");
    assert_eq!(number(&report["cpus"][0]["missed"]), 0, "{report:#}");
    carries(&lan, "sharded");
    carries(&lan, "shared");

    // State that is looked up by nothing in common.
    let refused = refused(&lan, "examples/p4/syn_cookie.p4", "sharded");
    assert!(
        refused.contains("syn_cookie.p4:") && refused.contains("by no field that both have"),
        "{refused}"
    );

    let run = start(&lan, &["--strategy", "scr", "--cores", "1", "--duration", "1"]);
    assert!(run.said.contains("packets that come by out are not the program's"), "{}", run.said);
    assert!(run.said.contains("the other end of out is in another network namespace"), "{}", run.said);
    assert_eq!(number(&run.ended()["cpus"][0]["cpu"]), 0);
}

/// Asks the run at the test's socket.
fn status(lan: &Lan) -> Value {
    serde_json::from_str::<Value>(&lan.ctl(&["status", "--json"])).expect("JSON")["status"].clone()
}

/// Samples of a name and its labels, from the run's metrics.
fn metrics(lan: &Lan, run: &Run) -> String {
    let (_, address) = run.said.split_once("metrics at http://").expect("it says where");
    let address = address.split('/').next().and_then(|address| address.parse().ok()).expect("an address");
    lan.gateway.inside(|| telemetry::fetch(address, PATIENCE)).expect("it answers")
}

/// While the process is stopped all packets pass, and their counts are there when it goes on.
#[test]
fn packets_and_counts_need_no_process() {
    let Some(lan) = lan("xdp-counts") else { return };
    lan.gateway.ip("link set lo up");
    for strategy in ["scr", "sharded", "shared"] {
        let socket = lan.socket();
        let watched = ["--control", &socket, "--metrics", "127.0.0.1:0"];
        let run = start(&lan, &[&["--strategy", strategy, "--cores", "1"], &watched[..]].concat());
        assert_eq!(number(&status(&lan)["kernel"]["tables"][0]["each"][0]["refused"]), 0);
        run.signal("-STOP");
        assert_eq!(carried(&lan), DATAGRAMS, "{strategy}");
        run.signal("-CONT");
        let told = status(&lan);
        assert_eq!(told["strategy"], strategy, "{told:#}");
        let [core, inside, outside] = [&told["cores"][0], &told["counters"][0], &told["counters"][1]];
        assert!(number(&core["forward"]) >= DATAGRAMS && number(&core["packets"]) >= DATAGRAMS, "{told:#}");
        assert!(
            number(&inside["received"]) >= DATAGRAMS && number(&outside["sent"]) >= DATAGRAMS,
            "{told:#}"
        );
        // An Ethernet header, IPv4, UDP, and the number.
        assert!(number(&core["bytes"]) >= DATAGRAMS * (14 + 20 + 8 + 8), "{told:#}");
        assert_eq!(number(&told["kernel"]["cpus"][0]["lost"]), 0, "{told:#}");
        assert!(told["kernel"]["tables"][0]["size"].is_u64(), "{told:#}");
        let text = lan.ctl(&["status"]);
        assert!(text.contains("strategy ") && text.contains("table ") && text.contains("out: "), "{text}");
        let told = metrics(&lan, &run);
        for wanted in [
            "paceline_verdicts_total{core=\"0\",verdict=\"forward\"}",
            "paceline_drops_total{core=\"0\",function=\"engine\",reason=\"queue-full\"} 0",
            "reason=\"by-program\"",
            "paceline_interface_received_packets_total{interface=\"in\"}",
            "paceline_table_capacity_flows",
        ] {
            assert!(told.contains(wanted), "{wanted}: {told}");
        }
        assert!(!told.contains("\npaceline_busy_seconds_total{"), "{told}");
        for (request, why) in [
            (&["cores", "1"][..], "the CPUs that it was started with"),
            (&["flows"], "has tables, not flows"),
            (&["why"], if strategy == "sharded" { "keys of a packet" } else { "in turn" }),
        ] {
            let output = paceline(&[&["ctl", "--control", &socket], request].concat());
            assert_eq!(output.status.code(), Some(2), "{request:?}");
            assert!(stderr(&output).contains(why), "{request:?}: {}", stderr(&output));
        }
        lan.ctl(&["stop"]);
        assert!(number(&run.ended()["packets_out"]) >= DATAGRAMS);
    }
}

/// The station of the host on the right.
fn station(lan: &Lan) -> String {
    address_of(&lan.right).map(|byte| format!("{byte:02x}")).join(":")
}

/// Asks for a change of a table that is refused, and gives why.
fn refused_change(lan: &Lan, change: &[&str]) -> String {
    let output = paceline(&[&["ctl", "--control", &lan.socket(), "table"], change].concat());
    assert_eq!(output.status.code(), Some(2), "{change:?}");
    stderr(&output)
}

/// Tables are filled ahead of the first packet, and change while packets pass: each packet sees a table before a change, or behind.
#[test]
fn tables_of_a_program_in_the_kernel_change_while_packets_pass() {
    const HOST: &str = "hdr.ipv4.src_addr:192.0.2.1";
    let Some(lan) = lan("xdp-tables") else { return };
    let entries = lan.folder.file("entries");
    let route = format!("hdr.ipv4.dst_addr:192.0.2.2/32 next_hop(1, {})", station(&lan));
    std::fs::write(&entries, format!("# The host on the right.\nadd routes {route}\n"))
        .expect("a folder of the test");
    let receiver = lan.right.bound(|| UdpSocket::bind("192.0.2.2:7001"));
    receiver.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let sender = lan.left.bound(|| UdpSocket::bind("192.0.2.1:0"));
    for strategy in ["scr", "sharded", "shared"] {
        let mut command = between(&lan, "examples/p4/router.p4");
        command.args(["--json", "-", "--cores", "1", "--strategy", strategy, "--entries", &entries]);
        command.args(["--control", &lan.socket()]);
        let run = Run::start(command);
        let change = |words: &[&str]| lan.ctl(&[&["table"], words].concat());
        thread::scope(|scope| {
            let changes = scope.spawn(|| {
                for _ in 0..30 {
                    change(&["add", "routes", "hdr.ipv4.dst_addr:192.0.0.0/16", "drop()"]);
                    change(&["remove", "routes", "hdr.ipv4.dst_addr:192.0.0.0/16"]);
                }
            });
            assert_eq!(carried(&lan), DATAGRAMS, "{strategy}");
            changes.join().expect("all are done");
        });
        let dropped = || number(&status(&lan)["cores"][0]["dropped"]);
        let before = dropped();
        change(&["add", "hosts", HOST, "drop()"]);
        (0..10).for_each(|_| assert!(sender.send_to(b"denied", "192.0.2.2:7001").is_ok()));
        let until = Instant::now() + PATIENCE;
        while dropped() < before + 10 && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
        let listed = change(&["list", "hosts"]);
        assert!(
            listed.contains("ingress.hosts: 1 of 1,024 entries, else") && listed.contains("0xc0000201"),
            "{listed}"
        );
        for (words, why) in [
            (&["add", "hosts", HOST, "drop()"][..], "has an entry with these keys already"),
            (&["del", "hosts", "hdr.ipv4.src_addr:192.0.2.9"], "has no entry with these keys"),
            (&["add", "hosts", HOST, "fly()"], "there is no action of this table `fly`"),
            (&["list", "guests"], "the program has no table `guests`"),
        ] {
            assert!(refused_change(&lan, words).contains(why), "{words:?}: {}", refused_change(&lan, words));
        }
        change(&["del", "hosts", HOST]);
        sender.send_to(b"again", "192.0.2.2:7001").expect("it is sent");
        let mut bytes = [0; 64];
        let (length, _) = receiver.recv_from(&mut bytes).expect("it comes");
        assert_eq!(&bytes[..length], b"again", "{strategy}: what is denied does not come");
        let json: Value = serde_json::from_str(&change(&["list", "--json"])).expect("JSON");
        assert_eq!(number(&json["tables"][1]["entries"]), 1, "{json:#}");
        lan.ctl(&["stop"]);
        run.ended();
    }
    // A file that says something else.
    std::fs::write(&entries, format!("add routes {route}\npacket 0 00\n")).expect("a folder of the test");
    let mut command = between(&lan, "examples/p4/router.p4");
    let output = command.args(["--strategy", "scr", "--entries", &entries]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("line 2: `packet` changes no table"), "{}", stderr(&output));
}

/// A service manager hears of it as of other runs; what asks it to reload is told that it does not, and ends nothing.
#[test]
fn a_service_manager_hears_of_a_program_in_the_kernel() {
    let Some(lan) = lan("xdp-notify") else { return };
    let path = lan.folder.file("notify");
    let manager = UnixDatagram::bind(&path).expect("a folder of the test");
    let mut command = between(&lan, PROGRAM);
    command.args(["--json", "-", "--strategy", "shared", "--cores", "1"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000");
    let mut run = Run::start(command);
    let ready = heard(&manager, "READY=1");
    assert!(ready.concat().contains("STATUS=port_knocking.p4 runs in the kernel"), "{ready:?}");
    (0..3).for_each(|_| drop(heard(&manager, "WATCHDOG=1")));
    run.signal("-HUP");
    run.hear("no reload: a program in the kernel stays");
    assert_eq!(carried(&lan), DATAGRAMS);
    run.signal("-TERM");
    heard(&manager, "STOPPING=1");
    assert!(number(&run.ended()["packets_out"]) >= DATAGRAMS);
}

/// The program at one interface, with its control socket at `socket`.
fn start_at(gateway: &Namespace, place: &[&str], strategy: &str, socket: &str) -> Run {
    let mut command = gateway.command(env!("CARGO_BIN_EXE_paceline"));
    command.current_dir(root()).args(["run", PROGRAM, "--backend", "xdp", "--cores", "1", "--json", "-"]);
    command.args(place).args(["--strategy", strategy, "--control", socket]);
    Run::start(command)
}

/// Datagrams that came from one host to another, each waited for.
fn one_by_one(from: &Namespace, to: &Namespace, address: &str, ttl: u32) -> u64 {
    let receiver = to.bound(|| UdpSocket::bind(address));
    let patience = if ttl == 1 { Duration::from_millis(20) } else { PATIENCE };
    receiver.set_read_timeout(Some(patience)).expect("a socket");
    let sender = from.bound(|| UdpSocket::bind("0.0.0.0:0"));
    sender.set_ttl(ttl).expect("a socket");
    let mut bytes = [0; 64];
    let one = |number: &u64| {
        sender.send_to(&number.to_be_bytes(), address).is_ok() && receiver.recv(&mut bytes).is_ok()
    };
    (0..50).filter(one).count() as u64
}

/// A mirror's program sees all, and the host gets all, what the program would drop, too.
#[test]
fn a_mirror_in_the_kernel_leaves_packets_to_the_host() {
    let Some(lan) = lan("xdp-mirror") else { return };
    lan.gateway.ip("addr add 192.0.2.254/24 dev in");
    for strategy in ["scr", "sharded", "shared"] {
        let run = start_at(&lan.gateway, &["--mirror", "in"], strategy, &lan.socket());
        assert_eq!(one_by_one(&lan.left, &lan.gateway, "192.0.2.254:7000", 64), 50, "{strategy}");
        let listener = lan.gateway.bound(|| TcpListener::bind("192.0.2.254:7001"));
        let address = "192.0.2.254:7001".parse().expect("an address");
        lan.left.inside(|| TcpStream::connect_timeout(&address, PATIENCE)).expect("the host answers");
        drop(listener);
        let told = status(&lan);
        let (core, interface) = (&told["cores"][0], &told["counters"][0]);
        assert!(number(&core["forward"]) >= 50 && number(&core["dropped"]) > 0, "{told:#}");
        assert!(number(&interface["received"]) > 50 && number(&interface["sent"]) == 0, "{told:#}");
        lan.ctl(&["stop"]);
        run.ended();
    }
}

/// With one arm packets go by the kernel's routes and leave by the same interface; the program decides which do.
#[test]
fn a_program_with_one_arm_sends_by_the_kernels_routes() {
    const SERVER: &str = "198.51.100.21:7000";
    // Says why, where programs cannot be built.
    if lan("xdp-arm").is_none() {
        return;
    }
    let Some(mut lab) = Lab::new("xdp-arm") else { return };
    let (lan, client, gateway, server) =
        (lab.namespace("lan"), lab.namespace("c"), lab.namespace("g"), lab.namespace("s"));
    lan.ip("link add br0 type bridge");
    lan.ip("link set br0 up");
    for (port, host, number) in [("p0", &client, 1), ("p1", &gateway, 254), ("p2", &server, 21)] {
        lab.pair((&lan, port), (host, "eth0"));
        lan.ip(&format!("link set {port} master br0"));
        host.ip(&format!("addr add 198.51.100.{number}/24 dev eth0"));
    }
    assert!(lan.run("ethtool", "-K p1 gro on").status.success());
    client.ip("route add 198.51.100.21/32 via 198.51.100.254");
    let folder = Folder::new("xdp-arm");
    let socket = folder.file("socket");
    let mut command = gateway.command(env!("CARGO_BIN_EXE_paceline"));
    command.current_dir(root()).args([
        "run",
        PROGRAM,
        "--backend",
        "xdp",
        "--on",
        "eth0",
        "--strategy",
        "scr",
    ]);
    let refused = command.output().expect("it runs");
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("net.ipv4.conf.eth0.forwarding=1"), "{}", stderr(&refused));
    gateway.write("/proc/sys/net/ipv4/conf/eth0/forwarding", "1");
    for which in ["all", "eth0"] {
        gateway.write(&format!("/proc/sys/net/ipv4/conf/{which}/send_redirects"), "0");
    }
    for strategy in ["scr", "sharded", "shared"] {
        let run = start_at(&gateway, &["--on", "eth0"], strategy, &socket);
        assert!(client.ping("198.51.100.254", 2), "the host itself is the kernel's");
        let own = gateway.bound(|| TcpListener::bind("198.51.100.254:7001"));
        let address = "198.51.100.254:7001".parse().expect("an address");
        client.inside(|| TcpStream::connect_timeout(&address, PATIENCE)).expect("past the program");
        drop(own);
        assert_eq!(one_by_one(&client, &server, SERVER, 64), 50, "{strategy}");
        assert_eq!(one_by_one(&client, &server, SERVER, 2), 50, "{strategy}: one hop is left");
        assert_eq!(one_by_one(&client, &server, SERVER, 1), 0, "{strategy}: none is left");
        // The kernel would forward it, and the program does not.
        let listener = server.bound(|| TcpListener::bind(SERVER));
        let address = SERVER.parse().expect("an address");
        let connected = client.inside(|| TcpStream::connect_timeout(&address, Duration::from_millis(300)));
        assert!(connected.is_err(), "{strategy}");
        drop(listener);
        let output = paceline(&["ctl", "--control", &socket, "status", "--json"]);
        let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let told = &told["status"];
        // The first one may wait for a neighbour in the kernel.
        assert!(number(&told["counters"][0]["sent"]) >= 98, "past the kernel's stack: {told:#}");
        assert!(number(&told["cores"][0]["transmit_back"]) >= 98, "{told:#}");
        assert!(number(&told["cores"][0]["dropped"]) > 0, "{told:#}");
        run.signal("-INT");
        run.ended();
    }
}

/// The kernel closes what a killed process had: the programs are gone with it.
#[test]
fn a_run_that_is_killed_leaves_no_program() {
    let Some(lan) = lan("xdp-killed") else { return };
    let run = start(&lan, &["--strategy", "sharded", "--cores", "1"]);
    assert!(programs(&lan).contains("xdp"));
    run.die();
    has_no_program(&lan);
}

/// What is said of both interfaces.
fn programs(lan: &Lan) -> String {
    ["in", "out"].map(|interface| lan.gateway.ip(&format!("-d link show {interface}"))).concat()
}

/// The kernel takes a program off a moment after nobody holds it any more.
fn has_no_program(lan: &Lan) {
    let until = Instant::now() + PATIENCE;
    while programs(lan).contains("xdp") && Instant::now() < until {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(!programs(lan).contains("xdp"), "{}", programs(lan));
}

/// What `--on-death` says holds after `kill -9`, for each of its values.
#[test]
fn a_killed_run_leaves_what_on_death_says() {
    const ADDRESS: &str = "192.0.2.2:7009";
    let Some(lan) = lan("xdp-death") else { return };
    let Some(file_system) = BpfFileSystem::new(&lan) else { return };
    let pins = file_system.pins();
    let start = |strategy: &str, what: &str| {
        start(&lan, &["--strategy", strategy, "--cores", "1", "--on-death", what, "--pins", &pins])
    };
    // A bridge of the kernel would carry what it gets.
    lan.gateway.ip("link add br0 type bridge");
    lan.gateway.ip("link set br0 up");
    ["in", "out"].iter().for_each(|port| drop(lan.gateway.ip(&format!("link set {port} master br0"))));
    for (strategy, interfaces) in [("sharded", 2), ("scr", 1)] {
        let run = start(strategy, "pass");
        assert!(run.said.contains("unless a bridge of the kernel has both"), "{}", run.said);
        assert_eq!(file_system.names(), 0);
        assert!(kill(&lan, run, ADDRESS).1 > 0, "the bridge carries on");

        // The kernel takes its time with a process that dies on a busy machine: the fastest is what blocks.
        let blocks_soon = (0..TRIES).any(|_| {
            let run = start(strategy, "block");
            assert_eq!(file_system.names(), interfaces);
            assert!(passes(&lan, ADDRESS), "it carries on after the one before");
            let after = kill(&lan, run, ADDRESS).1;
            assert!(!passes(&lan, ADDRESS), "nothing passes any more");
            after == 0
        });
        assert!(blocks_soon, "nothing arrives after 100 ms");
    }
    // One at one interface takes off what one at two left at the other; it passes, so the bridge carries on after it.
    start("sharded", "block").die();
    let run = start("scr", "pass");
    assert_eq!(file_system.names(), 0);
    assert!(kill(&lan, run, ADDRESS).1 > 0);
    lan.gateway.ip("link del br0");
    for strategy in ["sharded", "scr"] {
        // A busy machine may lose a datagram at any time, at a socket or before a CPU; one that dies does not lose some each time.
        let goes_on = (0..TRIES).any(|_| {
            let (gap, after) = kill(&lan, start(strategy, "keep"), ADDRESS);
            assert!(after > 0, "the program goes on");
            gap == Duration::ZERO
        });
        assert!(goes_on, "without a gap");
        // The next one takes over, and a good end leaves nothing.
        let run = start(strategy, "keep");
        assert!(passes(&lan, ADDRESS));
        run.signal("-INT");
        assert!(number(&run.ended()["packets_out"]) > 0);
        assert_eq!(file_system.names(), 0);
        assert!(!passes(&lan, ADDRESS), "nobody else carries anything");
    }
    start("scr", "keep").die();
    assert!(passes(&lan, ADDRESS));
    let mut unblock = lan.gateway.command(env!("CARGO_BIN_EXE_paceline"));
    let output = unblock.args(["ctl", "unblock", "in", "--pins", &pins]).output().expect("it starts");
    assert!(output.status.success(), "{}", stderr(&output));
    has_no_program(&lan);
    assert!(!passes(&lan, ADDRESS), "a person takes it off");
}

/// What a run that does not start says.
fn refused(lan: &Lan, program: &str, strategy: &str) -> String {
    let output =
        between(lan, program).args(["--strategy", strategy, "--cores", "1"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    stderr(&output)
}

#[test]
fn a_sequencer_is_not_for_two_queues() {
    let Some(lan) = Lan::with_queues("xdp-queues", 2) else { return };
    if Command::new("clang").arg("--version").output().is_err() {
        return println!("skipped: `clang` does not run");
    }
    let refused = refused(&lan, PROGRAM, "scr");
    assert!(
        refused.contains("in has 2 receive queues") && refused.contains("`ethtool -L in combined 1`"),
        "{refused}"
    );
}

#[test]
fn what_cannot_run_in_the_kernel_is_refused() {
    let lo = ["--inside", "lo", "--outside", "lo"];
    let two = ["--inside", "lo", "--outside", "no-such"];
    let cases: [(&str, &[&str], &[&str], &str); 10] = [
        (PROGRAM, &lo, &["--strategy", "scr", "--on-death", "keep"], "one interface, `lo`"),
        (PROGRAM, &lo, &["--strategy", "scr"], "one interface, `lo`"),
        (PROGRAM, &two, &["--strategy", "scr"], "there is no interface `no-such`"),
        (PROGRAM, &two, &["--strategy", "rss"], "a strategy of XDP programs is"),
        (PROGRAM, &two, &[], "a strategy of XDP programs is"),
        (PROGRAM, &two, &["--strategy", "scr", "--record", "x.pcap"], "cannot be used with"),
        (PROGRAM, &["--mirror", "lo"], &["--strategy", "scr", "--on-death", "keep"], "not for a mirror"),
        (
            PROGRAM,
            &["--inside", "lo", "--outside", "lo"],
            &["--strategy", "scr", "--mode", "route"],
            "cannot be used with",
        ),
        (PROGRAM, &[], &["--strategy", "scr"], "nothing says where packets come from"),
        (PROGRAM, &["--pcap", "captures/edge.pcap"], &["--strategy", "scr"], "cannot be used with"),
    ];
    for (program, place, rest, why) in cases {
        let output = paceline(&[&["run", program, "--backend", "xdp"], place, rest].concat());
        assert_eq!(output.status.code(), Some(2), "{place:?} {rest:?}");
        assert!(stderr(&output).contains(why), "{place:?} {rest:?}: {}", stderr(&output));
    }
    let chain =
        paceline(&["run", "examples/edge.toml", "--pcap", "captures/edge.pcap", "--strategy", "sharded"]);
    assert_eq!(chain.status.code(), Some(2));
    assert!(stderr(&chain).contains("Use --strategy rss for a chain"), "{}", stderr(&chain));
}

/// A sequencer outside has put history in front of packets. It is taken off, and what is left is carried once, however often it comes.
#[test]
fn packets_that_bring_their_history_are_carried() {
    let Some(lan) = lan("xdp-outside") else { return };
    let cores = thread::available_parallelism().map_or(1, |there| there.get().min(2));
    let (capture, folder) = (lan.folder.file("made.pcap"), Folder::absent("xdp-outside-cores"));
    let mut writer =
        CaptureWriter::create(Path::new(&capture), LinkType::Ethernet).expect("a folder of the test");
    let (to, from) = (address_of(&lan.right), address_of(&lan.left));
    for number in 0..DATAGRAMS {
        let frame = datagram(to, from, [192, 0, 2, 1], number as u16);
        writer.write(1_000_000_000 + number * 1_000, frame.len() as u32, &frame).expect("room");
    }
    writer.finish().expect("room");
    let many = cores.to_string();
    let to = ["--cores", &many, "--out-dir", folder.path(), "--ethernet"];
    let written = paceline(&[&["sequence", PROGRAM, "--pcap", &capture], &to[..]].concat());
    assert!(written.status.success(), "{}", stderr(&written));
    let mut of_cores: Vec<CaptureReader> = folder
        .names()
        .iter()
        .map(|name| CaptureReader::open(folder.file(name)).expect("it was written"))
        .collect();

    let run = start(&lan, &["--strategy", "scr", "--cores", &many, "--sequencer", "external"]);
    let receiver = lan.right.bound(|| UdpSocket::bind("192.0.2.2:99"));
    receiver.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let raw = lan.left.inside(|| Raw::open("eth0"));
    let mut came = Vec::new();
    for number in 0..DATAGRAMS {
        let core = number as usize % cores;
        let frame = of_cores[core].next().expect("whole").expect("a packet").data.to_vec();
        let times = if number % 100 == 50 { 2 } else { 1 };
        (0..times).for_each(|_| raw.send(&frame));
        let (_, sender) = receiver.recv_from(&mut [0; 64]).expect("it is carried");
        came.push(u64::from(sender.port()));
    }
    // The flushes, and a packet that brings none.
    of_cores.iter_mut().for_each(|core| raw.send(core.next().expect("whole").expect("a flush").data));
    raw.send(&datagram(address_of(&lan.right), from, [192, 0, 2, 1], 7));
    run.signal("-INT");
    let report = run.ended();
    assert_eq!(came, (0..DATAGRAMS).collect::<Vec<_>>());
    assert_eq!(number(&report["packets_out"]), DATAGRAMS, "{report:#}");
    println!("{report:#}");
}
