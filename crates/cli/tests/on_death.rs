//! What becomes of packets when a run is killed: `--on-death`.

use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::lab::Namespace;
use crate::service::{Lan, Run};
use crate::support::{paceline, stderr};

/// So soon the interfaces are as was asked for.
const SOON: Duration = Duration::from_millis(100);
/// So long it is looked at.
const WHILE: Duration = Duration::from_secs(1);
/// So long packets may take to begin to pass.
const AT_LEAST_ONE: Duration = Duration::from_secs(20);
/// So long after the last one nothing more comes.
const LAST_ONES: Duration = Duration::from_millis(50);
/// A busy machine's threads may be late: the fastest of so many is what the kernel does.
pub const TRIES: usize = 10;

/// A BPF file system of the test's own.
pub struct BpfFileSystem(String);

impl BpfFileSystem {
    pub fn new(lan: &Lan) -> Option<BpfFileSystem> {
        let path = lan.folder.file("bpf");
        fs::create_dir_all(&path).expect("a folder of the test");
        let mounted = Command::new("mount").args(["-t", "bpf", "bpf", &path]).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(BpfFileSystem(path));
        }
        println!("skipped: no BPF file system can be mounted");
        None
    }

    pub fn pins(&self) -> String {
        format!("{}/paceline", self.0)
    }

    pub fn names(&self) -> usize {
        fs::read_dir(self.pins()).map_or(0, Iterator::count)
    }
}

impl Drop for BpfFileSystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// One datagram: when it was sent, and whether it arrived.
struct Sent {
    at: Instant,
    arrived: bool,
}

/// Sends a datagram every millisecond as long as `what` takes, which is told how many arrived so far.
///
/// Losses are told by what was sent, never by when the receiver saw it: a busy machine's threads are late, and that
/// is no loss.
fn datagrams(from: &Namespace, to: &Namespace, address: &str, what: impl FnOnce(&AtomicUsize)) -> Vec<Sent> {
    let receiver = to.bound(|| UdpSocket::bind(address));
    receiver.set_read_timeout(Some(LAST_ONES)).expect("a socket");
    let sender = from.bound(|| UdpSocket::bind("0.0.0.0:0"));
    let (goes_on, arrived) = (AtomicBool::new(true), AtomicUsize::new(0));
    thread::scope(|scope| {
        let sends = scope.spawn(|| {
            let mut sent = Vec::new();
            while goes_on.load(Ordering::Relaxed) {
                let at = Instant::now();
                if sender.send_to(&sent.len().to_be_bytes(), address).is_ok() {
                    sent.push(Sent { at, arrived: false });
                }
                thread::sleep(Duration::from_millis(1));
            }
            sent
        });
        let receives = scope.spawn(|| {
            let (mut numbers, mut bytes) = (Vec::new(), [0; 8]);
            loop {
                match receiver.recv(&mut bytes) {
                    Ok(_) => {
                        numbers.push(usize::from_be_bytes(bytes));
                        arrived.store(numbers.len(), Ordering::Relaxed);
                    }
                    Err(_) if !goes_on.load(Ordering::Relaxed) => return numbers,
                    Err(_) => {}
                }
            }
        });
        what(&arrived);
        goes_on.store(false, Ordering::Relaxed);
        let mut sent = sends.join().expect("no panic");
        for number in receives.join().expect("no panic") {
            if let Some(sent) = sent.get_mut(number) {
                sent.arrived = true;
            }
        }
        sent
    })
}

/// Kills the run once packets pass, and says for how long after that the packets sent were lost, and how many of those
/// sent after [`SOON`] arrived.
pub fn kill(lan: &Lan, run: Run, address: &str) -> (Duration, usize) {
    let mut killed = Instant::now();
    let sent = datagrams(&lan.left, &lan.right, address, |arrived| {
        let begun = Instant::now();
        // Nothing panics in here: the threads would go on for ever.
        while arrived.load(Ordering::Relaxed) == 0 && begun.elapsed() < AT_LEAST_ONE {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(50));
        killed = Instant::now();
        run.die();
        thread::sleep(WHILE);
    });
    assert!(sent.iter().any(|sent| sent.arrived && sent.at < killed), "packets pass as long as it lives");
    let after = || sent.iter().filter(|sent| sent.at >= killed);
    let last_lost = after().rfind(|sent| !sent.arrived);
    let last_arrived = after().rfind(|sent| sent.arrived).map(|sent| sent.at.duration_since(killed));
    println!("the last that arrived was sent {last_arrived:?} after the kill");
    let gap = last_lost.map_or(Duration::ZERO, |sent| sent.at.duration_since(killed));
    (gap, after().filter(|sent| sent.arrived && sent.at > killed + SOON).count())
}

/// Whether packets pass now.
pub fn passes(lan: &Lan, address: &str) -> bool {
    let sent = datagrams(&lan.left, &lan.right, address, |_| thread::sleep(Duration::from_millis(300)));
    sent.iter().any(|sent| sent.arrived)
}

const OUTSIDE: &str = "203.0.113.2:7009";

/// A router whose kernel would forward, too: that it does not while a run lives, or after one, is the run's doing.
fn router(label: &str) -> Option<(Lan, BpfFileSystem)> {
    let lan = Lan::new(label)?;
    lan.routed();
    lan.right.ip("route add 10.0.0.0/24 via 203.0.113.1");
    lan.gateway.write("/proc/sys/net/ipv4/ip_forward", "1");
    for (host, address) in [(&lan.left, "10.0.0.1"), (&lan.right, "203.0.113.1")] {
        assert!(host.ping(address, 1));
    }
    assert!(passes(&lan, OUTSIDE), "the kernel forwards");
    let file_system = BpfFileSystem::new(&lan)?;
    Some((lan, file_system))
}

fn start(lan: &Lan, what: &str, pins: &str) -> Run {
    start_on(1, lan, what, pins)
}

/// On several cores each has sockets of its own.
fn start_on(cores: usize, lan: &Lan, what: &str, pins: &str) -> Run {
    let (chain, count) = (lan.folder.file("track.toml"), cores.to_string());
    let route = ["--mode", "route", "--socket", "xdp", "--on-death", what, "--pins", pins];
    let on_cores = ["--strategy", "rss", "--cores", &count];
    let run = lan.start(&[&[chain.as_str()], &route[..], &on_cores].concat(), &[]);
    assert_eq!(run.said.contains("each with sockets of its own"), cores > 1, "{}", run.said);
    run
}

fn the_kernel_carries_on(label: &str, cores: usize) {
    let Some((lan, file_system)) = router(label) else { return };
    let mut gaps = Vec::new();
    for _ in 0..TRIES {
        let run = start_on(cores, &lan, "pass", &file_system.pins());
        assert!(!run.said.contains("nothing passes"), "{}", run.said);
        let (gap, _) = kill(&lan, run, OUTSIDE);
        gaps.push(gap);
        if gap < SOON {
            break;
        }
    }
    eprintln!("without packets after kill -9: {gaps:?}");
    assert!(gaps.iter().any(|gap| *gap < SOON), "{gaps:?}");
    // Where the kernel does not forward that is said.
    lan.gateway.write("/proc/sys/net/ipv4/ip_forward", "0");
    let run = start_on(cores, &lan, "pass", &file_system.pins());
    assert!(run.said.contains("nothing passes when this program dies"), "{}", run.said);
    lan.ctl(&["stop"]);
    run.ended();
}

#[test]
fn the_kernel_carries_on_from_one_core() {
    the_kernel_carries_on("pass", 1);
}

#[test]
fn the_kernel_carries_on_from_cores_with_sockets_of_their_own() {
    the_kernel_carries_on("pass-own", 2);
}

/// Cores with sockets of their own let nothing pass after the program died, either.
#[test]
fn nothing_passes_after_several_cores() {
    let Some((lan, file_system)) = router("block-own") else { return };
    let pins = file_system.pins();
    let run = start_on(2, &lan, "block", &pins);
    assert_eq!(kill(&lan, run, OUTSIDE).1, 0, "nothing arrives after 100 ms");
    assert!(!passes(&lan, OUTSIDE), "and nothing later");
    assert!(lan.left.ping("10.0.0.1", 1), "the host itself is reached");
    // Whatever way the next run has its sockets, it takes over.
    let run = start(&lan, "block", &pins);
    assert!(passes(&lan, OUTSIDE), "the next run carries on");
    run.die();
    let run = start_on(2, &lan, "block", &pins);
    assert!(passes(&lan, OUTSIDE), "and so does one on several cores");
    lan.ctl(&["stop"]);
    run.ended();
    assert_eq!(file_system.names(), 0);
    assert!(passes(&lan, OUTSIDE), "after a good end the kernel forwards");
}

/// In bridge mode a bridge of the kernel, which gets nothing as long as the run lives, carries on.
#[test]
fn a_bridge_of_the_kernel_carries_on() {
    let Some(lan) = Lan::new("bridge") else { return };
    lan.gateway.ip("link add br0 type bridge");
    lan.gateway.ip("link set br0 up");
    for port in ["in", "out"] {
        lan.gateway.ip(&format!("link set {port} master br0"));
    }
    let address = "192.0.2.2:7009";
    assert!(lan.left.ping("192.0.2.2", 2), "the bridge forwards");
    let chain = lan.folder.file("track.toml");
    let mut gaps = Vec::new();
    for _ in 0..TRIES {
        let run = lan.start(&[&chain, "--socket", "xdp", "--on-death", "pass"], &[]);
        assert!(run.said.contains("unless a bridge of the kernel has both"), "{}", run.said);
        let (gap, _) = kill(&lan, run, address);
        gaps.push(gap);
        if gap < SOON {
            break;
        }
    }
    assert!(gaps.iter().any(|gap| *gap < SOON), "{gaps:?}");
}

#[test]
fn nothing_passes_until_the_next_run() {
    let Some((lan, file_system)) = router("block") else { return };
    let pins = file_system.pins();
    let run = start(&lan, "block", &pins);
    // At each of two interfaces the program, and the one behind it.
    assert_eq!(file_system.names(), 4);
    assert_eq!(kill(&lan, run, OUTSIDE).1, 0, "nothing arrives after 100 ms");
    assert!(!passes(&lan, OUTSIDE), "and nothing later");
    assert!(lan.left.ping("10.0.0.1", 1), "the host itself is reached");

    // The next one takes over, and a good end leaves nothing.
    let run = start(&lan, "block", &pins);
    assert!(passes(&lan, OUTSIDE), "the next run carries on");
    let second = kill(&lan, run, OUTSIDE);
    assert_eq!(second.1, 0, "nothing arrives after the second, either");
    let run = start(&lan, "block", &pins);
    lan.ctl(&["stop"]);
    run.ended();
    assert_eq!(file_system.names(), 0);
    assert!(passes(&lan, OUTSIDE), "after a good end the kernel forwards");

    // One that passes takes over from one that blocks.
    start(&lan, "block", &pins).die();
    assert!(!passes(&lan, OUTSIDE));
    let run = start(&lan, "pass", &pins);
    assert!(passes(&lan, OUTSIDE));
    run.die();
    assert!(passes(&lan, OUTSIDE), "the kernel forwards again");

    // A person takes the block off, once.
    start(&lan, "block", &pins).die();
    let unblock = |interface: &str| {
        let mut command = lan.gateway.command(env!("CARGO_BIN_EXE_paceline"));
        command.args(["ctl", "unblock", interface, "--pins", &pins]).output().expect("it starts")
    };
    for interface in ["in", "out"] {
        let output = unblock(interface);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    assert!(passes(&lan, OUTSIDE), "unblocked");
    let again = unblock("in");
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("no dead run blocks interface `in`"), "{}", stderr(&again));

    // Without --pins it is found where the run had it; in another place it is said that there is something.
    start(&lan, "block", &pins).die();
    let unblock = |more: &[&str]| {
        let mut command = lan.gateway.command(env!("CARGO_BIN_EXE_paceline"));
        command.args(["ctl", "unblock"]).args(more).output().expect("it starts")
    };
    let elsewhere = unblock(&["in", "--pins", &lan.folder.file("empty")]);
    assert_eq!(elsewhere.status.code(), Some(2));
    assert!(stderr(&elsewhere).contains("It has an XDP program, and none"), "{}", stderr(&elsewhere));
    for interface in ["in", "out"] {
        let output = unblock(&[interface]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stderr(&output).contains(&format!("--pins {pins}")), "{}", stderr(&output));
    }
    assert!(passes(&lan, OUTSIDE), "unblocked");
    let again = unblock(&["in"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains(&file_system.0), "where it was looked: {}", stderr(&again));
}

/// A start that fails leaves nothing behind.
#[test]
fn a_failed_start_blocks_nothing() {
    let Some((lan, file_system)) = router("failed") else { return };
    let pins = file_system.pins();
    // Another program has the second interface.
    let other = lan.gateway.command(env!("CARGO_BIN_EXE_paceline"));
    let mut other = other;
    let chain = lan.folder.file("track.toml");
    let socket = lan.folder.file("other");
    other.args(["run", &chain, "--on", "out", "--socket", "xdp", "--control", &socket]);
    let other = Run::start(other);
    let mut command = lan.gateway.command(env!("CARGO_BIN_EXE_paceline"));
    command.args([
        "run",
        &chain,
        "--inside",
        "in",
        "--outside",
        "out",
        "--on-death",
        "block",
        "--pins",
        &pins,
    ]);
    let output = command.output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("another XDP program"), "{}", stderr(&output));
    assert_eq!(file_system.names(), 0);
    drop(other);
    assert!(passes(&lan, OUTSIDE));
}

#[test]
fn what_cannot_be_blocked_is_refused() {
    let output = paceline(&["run", "examples/edge.toml", "--on-death", "keep", "--on", "lo"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--on-death keep is for --backend xdp"), "{}", stderr(&output));
    for (arguments, why) in [
        (&["--mirror", "lo"][..], "not for a mirror"),
        (&["--on", "lo", "--socket", "packet"], "needs AF_XDP"),
        (&["--on", "lo", "--pins", "/proc/no-such-folder"], "mount -t bpf bpf /sys/fs/bpf"),
    ] {
        let output = paceline(&[&["run", "examples/edge.toml", "--on-death", "block"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(why), "{arguments:?}: {}", stderr(&output));
    }
}
