//! An elephant beside mice: `iperf3` with one connection for seconds, and beside it `curl` with a thousand short ones, through two
//! cores. Paceline loses nothing, and TCP has to send no more again than where the kernel itself forwards.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lab::Namespace;
use crate::live::{number, of};
use crate::service::Lan;
use crate::support::stderr;

const MICE: u64 = 1_000;
/// How many mice there are at a time.
const AT_ONCE: &str = "40";
/// What a mouse gets.
const BYTES: usize = 2_000;
const SERVER: &str = "192.0.2.2:8000";
const SERVERS: usize = 4;
/// The elephant's port at the client.
const ELEPHANT: &str = "40000";
/// What a machine with two processors that others use, too, still forwards without loss in the kernel.
const RATE: &str = "80M";
const SECONDS: u64 = 5;
const PATIENCE: Duration = Duration::from_secs(180);
/// Share of all segments that may be sent again beyond those that are through the kernel.
const TOLERANCE: f64 = 0.02;

/// Ends the servers, after a panic, too.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Answers one request.
fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut request, mut part) = (Vec::new(), [0; 1_024]);
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut part)? {
            0 => return Ok(()),
            read => request.extend(&part[..read]),
        }
    }
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\nConnection: close\r\n\r\n");
    stream.write_all(&[head.as_bytes(), &[b'm'; BYTES]].concat())
}

fn serve(listener: &TcpListener, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        match listener.accept() {
            // Where it fails curl says so.
            Ok((stream, _)) => drop(answer(stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
    }
}

/// What TCP counts in a namespace, by name.
fn tcp(host: &Namespace) -> BTreeMap<String, u64> {
    let output = host.run("cat", "/proc/net/snmp");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let values = values.split(' ').map(|value| value.parse().unwrap_or(0));
    names.split(' ').map(str::to_owned).zip(values).collect()
}

/// What came of the traffic.
struct Came {
    /// Segments that both hosts sent, and those of them that they had sent before.
    segments: u64,
    again: u64,
    elephant_mbits: f64,
    /// How long the mice took, the slowest and half of them.
    slowest: Duration,
    median: Duration,
}

impl Came {
    fn share(&self) -> f64 {
        self.again as f64 / self.segments.max(1) as f64
    }

    fn print(&self, way: &str) {
        println!(
            "{way:<28} {:>8} segments, {:>5} sent again ({:.3}%), elephant {:>5.1} Mbit/s, mice: median {:>4.1} ms, slowest {:>6.1} ms",
            self.segments,
            self.again,
            100.0 * self.share(),
            self.elephant_mbits,
            1e3 * self.median.as_secs_f64(),
            1e3 * self.slowest.as_secs_f64(),
        );
    }
}

/// An elephant, and mice beside it. `meanwhile` is done when both are on their way.
fn traffic(lan: &Lan, meanwhile: impl FnOnce()) -> Came {
    let counts = || {
        let all = [&lan.left, &lan.right].map(tcp);
        let sum = |name: &str| all.iter().map(|host| host[name]).sum::<u64>();
        (sum("OutSegs"), sum("RetransSegs"))
    };
    // The server begins, or has not yet done with the client before.
    let begin = Instant::now();
    let elephant = loop {
        let mut probe = lan.left.command("iperf3");
        let arguments = format!("-c 192.0.2.2 --cport {ELEPHANT} -b {RATE} -t {SECONDS} -J");
        probe.args(arguments.split_whitespace());
        let before = counts();
        let (elephant, mice) = thread::scope(|scope| {
            let elephant = scope.spawn(move || probe.output().expect("it runs"));
            thread::sleep(Duration::from_millis(500));
            let mice = scope.spawn(|| {
                let mut curl = lan.left.command("curl");
                curl.args(["-sS", "--parallel", "--parallel-max", AT_ONCE, "--max-time", "120"]);
                curl.args(["-H", "Connection: close", "-w", "%{http_code} %{size_download} %{time_total}\n"]);
                curl.args(["-o", "/dev/null", &format!("http://{SERVER}/[1-{MICE}]")]);
                curl.output().expect("it runs")
            });
            let mice = mice.join().expect("no panic");
            (elephant.join().expect("no panic"), mice)
        });
        let text = String::from_utf8_lossy(&elephant.stdout).into_owned();
        let said = serde_json::from_str::<Value>(&text).unwrap_or_default();
        if said["error"].is_null() && said["end"].is_object() {
            break (before, said["end"].clone(), mice);
        }
        assert!(begin.elapsed() < PATIENCE, "{text}");
        thread::sleep(Duration::from_millis(200));
    };
    let (before, elephant, mice) = elephant;
    meanwhile();
    let after = counts();
    let text = String::from_utf8_lossy(&mice.stdout).into_owned();
    let mut times: Vec<Duration> = text
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words[..2], ["200", &*BYTES.to_string()], "{line}");
            Duration::from_secs_f64(words[2].parse().expect("seconds"))
        })
        .collect();
    assert_eq!(times.len() as u64, MICE, "{}", stderr(&mice));
    times.sort_unstable();
    Came {
        segments: after.0 - before.0,
        again: after.1 - before.1,
        elephant_mbits: elephant["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0) / 1e6,
        slowest: times[times.len() - 1],
        median: times[times.len() / 2],
    }
}

/// Through a bridge of the kernel's own.
fn through_the_kernel(lan: &Lan) -> Came {
    lan.gateway.ip("link add br0 type bridge");
    for what in ["link set in master br0", "link set out master br0", "link set br0 up"] {
        lan.gateway.ip(what);
    }
    assert!(lan.left.ping("192.0.2.2", 1), "the kernel's bridge");
    let came = traffic(lan, || ());
    lan.gateway.ip("link del br0");
    came
}

/// One in 16 of the elephant's packets is lost at its end: what is looked for shows then.
fn with_a_planted_fault(lan: &Lan, kernel: &Came) {
    const RULES: &str = "add table ip t; add chain ip t i { type filter hook input priority 0; }; \
                         add rule ip t i tcp dport 5201 meta length > 1000 numgen random mod 16 < 1 drop";
    let has_rules = lan.right.command("nft").arg(RULES).output().is_ok_and(|output| output.status.success());
    if !has_rules {
        println!("no planted fault: `nft` does not run, or its kernel draws no numbers");
        return;
    }
    let came = through_the_kernel(lan);
    came.print("kernel bridge, planted fault");
    assert!(came.share() > kernel.share() + TOLERANCE, "losses are seen");
}

/// Through Paceline; what it said why, and its report.
fn through(lan: &Lan, strategy: &str, more: &[&str]) -> (Came, Value, Value) {
    let chain = lan.folder.file("track.toml");
    let run = lan
        .start(&[&[&*chain, "--strategy", strategy, "--cores", "2", "--socket", "xdp"], more].concat(), &[]);
    assert!(lan.left.ping("192.0.2.2", 1), "{strategy}");
    let mut why = Value::Null;
    let came = traffic(lan, || {
        why = serde_json::from_str(&lan.ctl(&["why", "--json"])).expect("JSON");
    });
    run.signal("-TERM");
    (came, why["why"]["told"].clone(), run.ended())
}

/// Nothing was lost, and all is accounted for.
fn nothing_is_lost(report: &Value, strategy: &str) {
    let packets = number(&report["packets"]);
    assert_eq!(number(&report["verdicts"]["forward"]), packets, "{strategy}: {report:#}");
    for interface in ["in", "out"] {
        assert_eq!(of(report, interface)["lost"], json!({}), "{strategy}, {interface}");
    }
    let sent: u64 = ["in", "out"].iter().map(|name| number(&of(report, name)["sent"])).sum();
    assert_eq!(sent, packets, "{strategy}");
}

#[test]
fn an_elephant_beside_a_thousand_mice() {
    let Some(lan) = Lan::new("mice") else { return };
    for program in ["iperf3", "curl"] {
        if !lan.left.command(program).arg("--version").output().is_ok_and(|output| output.status.success()) {
            println!("skipped: `{program}` does not run");
            return;
        }
    }
    let listener = lan.right.bound(|| TcpListener::bind(SERVER));
    listener.set_nonblocking(true).expect("a socket");
    let _elephants = lan.right.start("iperf3", "-s");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ending = Ending(&is_over);
        (0..SERVERS).for_each(|_| drop(scope.spawn(|| serve(&listener, &is_over))));
        let kernel = through_the_kernel(&lan);
        kernel.print("kernel bridge");
        for (strategy, more) in [("hybrid", &[][..]), ("auto", &[]), ("auto", &["--move-every", "1000"])] {
            let (came, told, report) = through(&lan, strategy, more);
            let way = [&[strategy, "on 2 cores"], more].concat().join(" ");
            came.print(&way);
            nothing_is_lost(&report, &way);
            assert!(came.share() <= kernel.share() + TOLERANCE, "{way}: segments sent again");
            if strategy == "hybrid" {
                let promotions = number(&told["promotion"]["promotions"]);
                println!("  {promotions} promotions, {} demotions", told["promotion"]["demotions"]);
                assert!(promotions > 0, "the elephant was replicated: {told:#}");
            } else {
                let phases = report["changes"]["phases"].as_array().expect("phases");
                let ran: Vec<String> = phases
                    .iter()
                    .take(8)
                    .map(|phase| format!("{} on {}", phase["strategy"], phase["cores"]))
                    .collect();
                println!("  {} phases: {}", phases.len(), ran.join(", "));
                assert!(more.is_empty() || phases.len() > 3, "{report:#}");
            }
        }
        with_a_planted_fault(&lan, &kernel);
    });
}
