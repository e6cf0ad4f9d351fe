//! A gateway under mixed traffic, for as long as `PACELINE_SOAK_SECONDS` says (`./x soak`), or some seconds: its memory
//! stays as it is, no frame is lost from its pools, and its counters add up.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::service::Lan;

/// How long in an ordinary run of the tests.
const SHORT: u64 = 6;
/// How long a connection may stand still. A reload and a busy machine hold it up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a connection, each way.
const BYTES: usize = 256 << 10;
/// Connections and datagrams have so many different ports: tables have their flows once all were used.
const PORTS: u64 = 400;
const SERVER: &str = "203.0.113.2:7000";
const ECHO: &str = "203.0.113.2:7001";

/// What the traffic did.
#[derive(Default)]
struct Done {
    is_over: AtomicBool,
    /// Nobody connects any more.
    is_served: AtomicBool,
    connections: AtomicU64,
    datagrams: AtomicU64,
    echoed: AtomicU64,
    pings: AtomicU64,
    reloads: AtomicU64,
}

impl Done {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Ends the traffic, after a panic, too.
struct Ending<'a>(&'a Done);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// Lets the server go when its last client has, after a panic, too.
struct Serving<'a>(&'a Done);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.is_served.store(true, Ordering::Relaxed);
    }
}

/// Answers connections with what they send, one at a time. It outlives its clients: one that begins as all ends is
/// answered, too.
fn serve(listener: &TcpListener, done: &Done) {
    listener.set_nonblocking(true).expect("a socket");
    while !done.is_served.load(Ordering::Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            thread::sleep(Duration::from_millis(2));
            continue;
        };
        let echo = || -> std::io::Result<()> {
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            let mut received = vec![0; BYTES];
            stream.read_exact(&mut received)?;
            stream.write_all(&received)
        };
        // The client that connected says whether it was right.
        let _ = { echo }();
    }
}

/// Connections one after the other: each sends and gets back the same bytes.
fn connect(lan: &Lan, done: &Done) {
    let address: SocketAddr = SERVER.parse().expect("an address");
    let sent: Vec<u8> = (0..BYTES).map(|at| ((at * 31) >> 3) as u8).collect();
    let mut received = vec![0; BYTES];
    while done.goes_on() {
        let stream = lan.left.inside(|| TcpStream::connect_timeout(&address, PATIENCE));
        let mut stream = stream.expect("a connection through the gateway");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
        stream.write_all(&sent).expect("it takes bytes");
        stream.read_exact(&mut received).expect("they come back");
        assert!(received == sent, "as they were sent");
        add(&done.connections);
    }
}

/// Datagrams of all lengths from many ports, some in fragments.
fn talk(lan: &Lan, done: &Done) {
    let bind = |at: u64| lan.left.bound(|| UdpSocket::bind(("10.0.0.10", 20_000 + at as u16)));
    let sockets: Vec<UdpSocket> = (0..PORTS).map(bind).collect();
    let bytes = [7; 4_000];
    let mut turn = 0_usize;
    while done.goes_on() {
        let socket = &sockets[turn % sockets.len()];
        let len = if turn.is_multiple_of(50) { 3_000 } else { 1 + (turn * 7) % 1_400 };
        let _ = socket.send_to(&bytes[..len], ECHO);
        add(&done.datagrams);
        turn += 1;
        thread::sleep(Duration::from_micros(500));
    }
}

/// Sends datagrams back.
fn echo(socket: &UdpSocket, done: &Done) {
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket");
    let mut buffer = [0; 5_000];
    while done.goes_on() {
        if let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
            add(&done.echoed);
        }
    }
}

fn ping(lan: &Lan, done: &Done) {
    while done.goes_on() {
        if lan.left.ping("203.0.113.2", 2) {
            add(&done.pings);
        }
        // One whose time to live ends at the gateway: it answers with an ICMP error.
        lan.left.run("ping", "-n -q -c 1 -W 1 -t 1 203.0.113.2");
    }
}

/// Reloads at the start of each period. What a first one takes of the memory allocator stays: it is in the warm-up.
fn reload(lan: &Lan, done: &Done, period: Duration, end: Instant) {
    let mut next = Instant::now();
    while done.goes_on() && Instant::now() < end {
        if Instant::now() < next {
            thread::sleep(Duration::from_millis(50));
            continue;
        }
        next = Instant::now() + period;
        lan.ctl(&["reload", "examples/gateway.toml"]);
        add(&done.reloads);
    }
}

/// What the process has in memory, KiB.
fn resident(pid: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is told");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Whether memory did not grow: the median of the last third of what was seen against that of the first, by more than
/// so many in a hundred, and some pages.
fn is_flat(seen: &[u64], percent: u64) -> bool {
    let median = |part: &[u64]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part[part.len() / 2]
    };
    let third = seen.len() / 3;
    let (first, last) = (median(&seen[..third]), median(&seen[seen.len() - third..]));
    last <= first + first * percent / 100 + 512
}

/// Whether memory fell back: [`is_flat`] of the least that was seen in the last third. While a chain takes over
/// there are tables of two, on a busy machine for long.
fn falls_back(seen: &[u64], percent: u64) -> bool {
    let (first, last) = (&seen[..seen.len() / 3], &seen[seen.len() - seen.len() / 3..]);
    is_flat(&[first, &vec![*last.iter().min().expect("some"); first.len()]].concat(), percent)
}

/// What was seen, where it changed: which look it was, and KiB.
fn steps(seen: &[u64]) -> Vec<(usize, u64)> {
    let is_new = |at: &usize| *at == 0 || seen[*at] != seen[at - 1];
    (0..seen.len()).filter(is_new).map(|at| (at, seen[at])).collect()
}

/// Whether memory levelled off: [`is_flat`] behind the first third. A chain that took over has new tables, in huge
/// pages, which are in memory as soon as a flow comes to lie there: for a minute or two it grows by a huge page now
/// and then.
fn levels_off(seen: &[u64], percent: u64) -> bool {
    is_flat(&seen[seen.len() / 3..], percent)
}

#[test]
fn growth_is_noticed() {
    assert!(is_flat(&[50_000; 30], 1));
    let spikes: Vec<u64> = (0..30).map(|at| if at % 5 == 0 { 90_000 } else { 50_000 }).collect();
    assert!(is_flat(&spikes, 1));
    let leak: Vec<u64> = (0..30).map(|at| 50_000 + at * 200).collect();
    assert!(!is_flat(&leak, 1));
    assert!(!falls_back(&leak, 1) && !levels_off(&leak, 1));
    let touched: Vec<u64> = (0..30).map(|at| 134_000 + 2_048 * (at / 2).min(4)).collect();
    assert!(levels_off(&touched, 1) && !is_flat(&touched, 1));
    assert_eq!(steps(&touched)[..2], [(0, 134_000), (2, 136_048)]);
    let two_at_the_end = [114_880, 106_716, 106_716, 106_716, 123_152, 123_152, 126_276, 147_768, 147_768];
    assert!(falls_back(&two_at_the_end, 30) && !is_flat(&two_at_the_end, 30));
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// All counters of the report that speak of the same packets agree.
pub fn adds_up(report: &Value) {
    let sum =
        |values: &Value| values.as_object().map_or(0, |values| values.values().map(number).sum::<u64>());
    let interfaces = report["interfaces"].as_array().expect("a list");
    let of_all = |what: &str| interfaces.iter().map(|interface| number(&interface[what])).sum::<u64>();
    let (packets, verdicts, routing) = (number(&report["packets"]), &report["verdicts"], &report["routing"]);
    assert_eq!(sum(verdicts), packets, "each packet has one verdict: {verdicts}");
    let errors = number(&routing["icmp_errors"]);
    // The router drops these before the chain sees them.
    let screened: u64 =
        ["own-source", "source-route"].map(|why| number(&routing["dropped"][why])).iter().sum();
    let received = of_all("received") - screened;
    // An ICMP error that goes back through the NAT comes in again.
    assert!((received..=received + errors).contains(&packets), "{packets} packets, {received} received");
    let lost: u64 = interfaces.iter().map(|interface| sum(&interface["lost"])).sum();
    let not_sent: u64 = interfaces
        .iter()
        .flat_map(|interface| {
            ["ring-full", "link-down", "refused", "too-long"].map(|why| number(&interface["lost"][why]))
        })
        .sum();
    let left = of_all("sent") + not_sent;
    let routed = number(&routing["sent"]);
    assert!(
        (routed..=routed + errors).contains(&left),
        "{left} left, {routed} routed, {errors} errors: {report:#}"
    );
    let forwarded = number(&verdicts["forward"]);
    let of_router = routed + sum(&routing["dropped"]) - screened + number(&routing["host"]);
    assert_eq!(of_router, forwarded, "each forwarded packet is routed, dropped or the host's: {routing:#}");
    eprintln!("{packets} packets, {left} left, {lost} lost, verdicts {verdicts}");
}

#[test]
fn a_gateway_stays_as_it_is() {
    let seconds =
        std::env::var("PACELINE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SHORT);
    let Some(lan) = Lan::new("soak") else { return };
    lan.routed();
    let route = ["--mode", "route", "--socket", "xdp", "--strategy", "rss", "--cores", "2"];
    let run = lan.start(&[&["examples/gateway.toml"], &route[..]].concat(), &[]);
    let pid = run.pid();
    // The router learns both neighbours.
    lan.left.ping("203.0.113.2", 1);
    assert!(lan.left.ping("203.0.113.2", 2), "a host outside");
    let listener = lan.right.bound(|| TcpListener::bind(SERVER));
    let socket = lan.right.bound(|| UdpSocket::bind(ECHO));
    let (done, begin) = (Done::default(), Instant::now());
    // Where the tables of another chain lie is the allocator's choice each time: so much of a run is without reloads.
    let (mut reloaded, mut quiet) = (Vec::new(), Vec::new());
    let warm_up = Duration::from_secs(seconds).div_f64(3.0).min(Duration::from_secs(120));
    let reloading = Duration::from_secs(seconds).mul_f64(0.65);
    thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &done));
        scope.spawn(|| echo(&socket, &done));
        scope.spawn(|| {
            let _ending = (Ending(&done), Serving(&done));
            connect(&lan, &done);
        });
        scope.spawn(|| talk(&lan, &done));
        scope.spawn(|| ping(&lan, &done));
        scope.spawn(|| {
            reload(&lan, &done, warm_up.div_f64(3.0).min(Duration::from_secs(10)), begin + reloading);
        });
        while begin.elapsed() < Duration::from_secs(seconds) && done.goes_on() {
            thread::sleep(Duration::from_millis(250));
            if begin.elapsed() > warm_up {
                let is_quiet = begin.elapsed() > reloading + warm_up.div_f64(6.0);
                if is_quiet { &mut quiet } else { &mut reloaded }.push(resident(&pid));
            }
        }
        drop(Ending(&done));
    });
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    eprintln!(
        "{:.0} s: {} connections, {} datagrams ({} arrived), {} pings, {} reloads; {} to {} KiB in memory",
        begin.elapsed().as_secs_f64(),
        of(&done.connections),
        of(&done.datagrams),
        of(&done.echoed),
        of(&done.pings),
        of(&done.reloads),
        reloaded.iter().chain(&quiet).min().unwrap_or(&0),
        reloaded.iter().chain(&quiet).max().unwrap_or(&0),
    );
    assert!(of(&done.connections) > 0 && of(&done.echoed) > 0 && of(&done.pings) > 0, "packets passed");
    assert!(quiet.len() > 3 && levels_off(&quiet, 1), "memory grew: {:?}", steps(&quiet));
    assert!(
        reloaded.len() > 3 && falls_back(&reloaded, 30),
        "memory grew by reloads: {:?}",
        steps(&reloaded)
    );
    lan.ctl(&["stop"]);
    // It ends with an error if a frame is missing from its pool.
    adds_up(&run.ended());
}
