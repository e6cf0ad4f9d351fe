//! A balancer's backend drains: connections that it has go on, new ones go to another, and no packet is lost.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lab::{Lab, Namespace};
use crate::live::{number, of};
use crate::service::Run;
use crate::support::{Folder, paceline, root, stderr};

/// How long a connection may stand still. A busy machine holds it up.
pub const PATIENCE: Duration = Duration::from_secs(60);
pub const SERVICE: &str = "198.51.100.10:80";
/// How many connections are opened at most until one goes where it is wanted.
pub const MANY: usize = 64;
const CHUNK: usize = 4_096;

/// A client, a balancer with one leg, and two backends, in one LAN.
pub struct Net {
    pub client: Namespace,
    pub gateway: Namespace,
    pub backends: [Namespace; 2],
    pub folder: Folder,
    _lab: Lab,
}

impl Net {
    /// `label` is the test's own: its files are in a folder of that name.
    pub fn new(label: &str) -> Option<Net> {
        let mut lab = Lab::new("drain")?;
        let lan = lab.namespace("lan");
        let (client, gateway) = (lab.namespace("c"), lab.namespace("g"));
        let backends = [lab.namespace("b1"), lab.namespace("b2")];
        lan.ip("link add br0 type bridge");
        lan.ip("link set br0 up");
        let hosts = [(&client, 1), (&gateway, 254), (&backends[0], 21), (&backends[1], 22)];
        for (at, (host, number)) in hosts.into_iter().enumerate() {
            lab.pair((&lan, &format!("p{at}")), (host, "eth0"));
            lan.ip(&format!("link set p{at} master br0"));
            host.ip(&format!("addr add 198.51.100.{number}/24 dev eth0"));
            host.offload("eth0");
        }
        client.ip("route add 198.51.100.10/32 via 198.51.100.254");
        backends.iter().for_each(|backend| {
            backend.ip("route add 198.51.100.1/32 via 198.51.100.254");
        });
        // Neighbours first: of packets to one that is unknown only the latest waits.
        for number in [1, 21, 22] {
            assert!(gateway.ping(&format!("198.51.100.{number}"), 1), "a LAN");
        }
        let folder = Folder::new(&format!("drain-{label}"));
        Some(Net { client, gateway, backends, folder, _lab: lab })
    }

    /// A chain whose backends are these, each with its state.
    pub fn chain(&self, name: &str, backends: &[(u8, &str)]) -> String {
        let backend = |(number, state): &(u8, &str)| {
            format!("{{ address = \"198.51.100.{}\", port = 8080, state = \"{state}\" }}", 20 + number)
        };
        let backends: Vec<_> = backends.iter().map(backend).collect();
        let text = format!(
            "name = \"{name}\"\n[[function]]\nuse = \"load-balancer\"\nrewrite_answers = true\n\
             [[function.services]]\nvip = \"198.51.100.10\"\nport = 80\nbackends = [{}]\n",
            backends.join(", ")
        );
        let path = self.folder.file(&format!("{name}.toml"));
        fs::write(&path, text).expect("a folder of the test");
        path
    }

    pub fn start(&self, chain: &str, strategy: &str, cores: &str) -> Run {
        let mut command = self.gateway.command(env!("CARGO_BIN_EXE_paceline"));
        command.current_dir(root()).args(["run", chain, "--on", "eth0", "--socket", "xdp", "--json", "-"]);
        command.args(["--strategy", strategy, "--cores", cores, "--control", &self.folder.file("socket")]);
        Run::start(command)
    }

    pub fn ctl(&self, arguments: &[&str]) -> String {
        let output = paceline(&[&["ctl", "--control", &self.folder.file("socket")], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Another chain takes over; the balancer goes on with so many flows, or begins anew.
    pub fn reload(&self, chain: &str) -> Option<u64> {
        let told: Value = serde_json::from_str(&self.ctl(&["reload", chain, "--json"])).expect("JSON");
        told["reload"]["functions"][0]["kept_flows"].as_u64()
    }

    /// A new connection to the service, and which backend it got.
    pub fn connect(&self) -> Connection {
        let to: SocketAddr = SERVICE.parse().expect("one");
        let connect = || TcpStream::connect_timeout(&to, PATIENCE);
        let mut stream = self.client.inside(connect).expect("the service answers");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
        let mut backend = [0];
        stream.read_exact(&mut backend).expect("a backend says its number");
        Connection { stream, backend: backend[0], rounds: 0 }
    }
}

/// A connection of the client's.
pub struct Connection {
    pub stream: TcpStream,
    pub backend: u8,
    rounds: u64,
}

impl Connection {
    /// Sends some bytes, and wants them back.
    pub fn round(&mut self) -> std::io::Result<()> {
        let sent = [self.rounds as u8; CHUNK];
        let mut back = [0; CHUNK];
        self.stream.write_all(&sent)?;
        self.stream.read_exact(&mut back)?;
        assert!(sent == back, "bytes as they were sent");
        self.rounds += 1;
        Ok(())
    }
}

/// Ends what goes on, after a panic, too.
pub struct Ending<'a>(pub &'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Says its number on each connection, and sends back what comes. In the end it closes them: the end of a connection that
/// the balancer lost does not come here.
pub fn serve(listener: &TcpListener, number: u8, goes_on: &AtomicBool) {
    thread::scope(|scope| {
        let mut open = Vec::new();
        while goes_on.load(Ordering::Relaxed) {
            let Ok((mut stream, _)) = listener.accept() else {
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            open.extend(stream.try_clone());
            scope.spawn(move || -> std::io::Result<()> {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                stream.write_all(&[number])?;
                std::io::copy(&mut stream.try_clone()?, &mut stream).map(drop)
            });
        }
        open.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    });
}

/// Calls `what` while both backends serve.
pub fn served<T>(net: &Net, what: impl FnOnce() -> T) -> T {
    let goes_on = AtomicBool::new(true);
    let listen = |(number, backend): (u8, &Namespace)| {
        let own = SocketAddr::from(([198, 51, 100, 20 + number], 8_080));
        let listener = backend.bound(|| TcpListener::bind(own));
        listener.set_nonblocking(true).expect("a socket");
        (listener, number)
    };
    let listeners: Vec<_> = (1..).zip(&net.backends).map(listen).collect();
    thread::scope(|scope| {
        let _ending = Ending(&goes_on);
        for (listener, number) in &listeners {
            scope.spawn(|| serve(listener, *number, &goes_on));
        }
        what()
    })
}

/// Connections of which both backends have two or more.
pub fn connections_to_both(net: &Net) -> Vec<Connection> {
    let mut open: Vec<Connection> = Vec::new();
    let has_two = |open: &[Connection], number| {
        open.iter().filter(|connection| connection.backend == number).count() >= 2
    };
    while !(has_two(&open, 1) && has_two(&open, 2)) {
        assert!(open.len() < MANY, "both backends take connections");
        open.push(net.connect());
    }
    open
}

/// Rounds go on: each connection has some more than it had.
fn all_go_on(rounds: &[AtomicU64]) {
    let before: Vec<u64> = rounds.iter().map(|rounds| rounds.load(Ordering::Relaxed)).collect();
    for (rounds, before) in rounds.iter().zip(before) {
        let begin = Instant::now();
        while rounds.load(Ordering::Relaxed) < before + 5 {
            assert!(begin.elapsed() < PATIENCE, "each connection goes on");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn a_backend_drains(strategy: &str, cores: &str) {
    let Some(net) = Net::new(strategy) else { return };
    let both = net.chain("both", &[(1, "active"), (2, "active")]);
    let draining = net.chain("draining", &[(1, "drain"), (2, "active")]);
    // The list's order says nothing about who has a connection.
    let turned = net.chain("turned", &[(2, "active"), (1, "drain")]);
    let run = net.start(&both, strategy, cores);
    let opened = served(&net, || {
        let open = connections_to_both(&net);
        let mut opened = open.len();
        let goes_on = AtomicBool::new(true);
        let rounds: Vec<AtomicU64> = open.iter().map(|_| AtomicU64::new(0)).collect();
        thread::scope(|scope| {
            let ending = Ending(&goes_on);
            let exchanging: Vec<_> = open
                .into_iter()
                .zip(&rounds)
                .map(|(mut connection, rounds)| {
                    let goes_on = &goes_on;
                    scope.spawn(move || -> std::io::Result<()> {
                        while goes_on.load(Ordering::Relaxed) {
                            connection.round()?;
                            rounds.store(connection.rounds, Ordering::Relaxed);
                        }
                        Ok(())
                    })
                })
                .collect();
            all_go_on(&rounds);
            for chain in [&draining, &turned, &draining] {
                assert!(net.reload(chain) >= Some(opened as u64), "all flows are kept");
                all_go_on(&rounds);
                for _ in 0..6 {
                    assert_eq!(net.connect().backend, 2, "a new one goes to the other backend");
                    opened += 1;
                }
            }
            // It comes back, and takes connections again.
            assert!(net.reload(&both) >= Some(opened as u64), "all flows are kept");
            all_go_on(&rounds);
            let mut turns = (0..MANY).map(|_| net.connect().backend);
            opened += turns.position(|backend| backend == 1).expect("it takes connections again") + 1;
            drop(ending);
            for connection in exchanging {
                connection.join().expect("no panic").expect("the connection goes on");
            }
        });
        opened
    });
    net.ctl(&["stop"]);
    let report = run.ended();
    let balancer = &report["functions"][0];
    assert_eq!(number(&balancer["events"]["flows-opened"]), opened as u64, "{balancer:#}");
    assert!(balancer["events"].get("flows-moved").is_none_or(|moved| number(moved) == 0), "{balancer:#}");
    nothing_is_lost(&report);
    assert_eq!(report["reloads"].as_array().expect("a list").len(), 4);
}

/// Each packet that came has left again.
fn nothing_is_lost(report: &Value) {
    let packets = number(&report["packets"]);
    assert_eq!(number(&report["verdicts"]["forward"]), packets, "{report:#}");
    let (interface, routing) = (of(report, "eth0"), &report["routing"]);
    assert_eq!(interface["lost"], json!({}), "{interface:#}");
    assert_eq!(routing["dropped"], json!({}), "{routing:#}");
    assert_eq!(number(&routing["sent"]), packets, "{routing:#}");
    assert_eq!(number(&interface["sent"]), packets, "{interface:#}");
}

#[test]
fn a_backend_drains_on_one_core() {
    a_backend_drains("single", "1");
}

#[test]
fn a_backend_drains_under_rss() {
    a_backend_drains("rss", "2");
}

#[test]
fn a_backend_drains_under_rsspp() {
    a_backend_drains("rsspp", "2");
}

#[test]
fn a_backend_drains_under_scr() {
    a_backend_drains("scr", "2");
}

/// What the tests above would find, if a draining backend's connections were not kept. A backend that is not in the list
/// any more loses its own; so does one that drains, if flows begin anew.
fn connections_are_lost(label: &str, next: impl Fn(&Net) -> String, kept: impl Fn(usize) -> Option<u64>) {
    let Some(net) = Net::new(label) else { return };
    let both = net.chain("both", &[(1, "active"), (2, "active")]);
    let run = net.start(&both, "single", "1");
    served(&net, || {
        let mut open = connections_to_both(&net);
        for connection in &mut open {
            connection.round().expect("before");
        }
        assert_eq!(net.reload(&next(&net)), kept(open.len()));
        for connection in &mut open {
            assert_eq!(connection.round().is_ok(), connection.backend == 2, "after");
        }
    });
    net.ctl(&["stop"]);
    run.ended();
}

#[test]
fn a_backend_that_is_taken_out_loses_its_connections() {
    connections_are_lost("out", |net| net.chain("without", &[(2, "active")]), |open| Some(open as u64));
}

#[test]
fn a_backend_that_drains_while_flows_begin_anew_loses_its_connections() {
    let anew = |net: &Net| {
        let path = net.chain("anew", &[(1, "drain"), (2, "active")]);
        let text = fs::read_to_string(&path).expect("it was written");
        let text = text.replace("rewrite_answers", "policy = \"random\"\nrewrite_answers");
        fs::write(&path, text).expect("a folder of the test");
        path
    };
    connections_are_lost("anew", anew, |_| None);
}
