//! A made-up run with a bit of everything, and requests to its dashboard.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use paceline_dashboard::{Dashboard, Flow, Hosts, Inspect, Matched, Portion, Seen, Token, TraceFilter};
use telemetry::{
    CoreCounts, CoreWriter, FunctionCounts, FunctionLayout, InterfaceSnapshot, Layout, RuleSnapshot,
    StrategySnapshot, Telemetry,
};

/// How long a test waits for what has to come at once or with the next message.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Run {
    pub telemetry: Arc<Telemetry>,
    writers: Vec<CoreWriter>,
    step: u64,
    rules_asked: Arc<AtomicU64>,
    pub asked: Arc<Asked>,
}

/// What the page asked of the run.
#[derive(Default)]
pub struct Asked {
    /// Looks through all flows.
    pub looks: AtomicU64,
    /// Filters of traces.
    pub filters: Mutex<Vec<TraceFilter>>,
    /// What was to be reloaded.
    pub reloads: Mutex<Vec<Option<String>>>,
}

impl Inspect for Asked {
    /// 300 flows, the rates of which fall from the first to the last.
    fn flows(&self, see: &mut dyn FnMut(Portion) -> bool) -> Result<(), String> {
        let look = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
        let flow = |number: u64| Flow {
            function: "flow-statistics".to_owned(),
            key: format!("tcp [2001:db8:1:2:3:4:5:{number:x}]:40000 > [2001:db8:ffff:ffff::1]:443"),
            core: Some(number as usize % 2),
            packets: look * (100_000 - 100 * number),
            bytes: Some(look * (700_000 + 1_000 * number)),
        };
        for portion in 0..3 {
            let flows = (100 * portion..100 * (portion + 1)).map(flow).collect();
            if !see(Portion { flows, worked: Duration::from_micros(30 * portion) }) {
                break;
            }
        }
        Ok(())
    }

    /// Port 1 is no filter; packets to port 2 never come; with all others there are more than are shown.
    fn trace(
        &self,
        filter: &TraceFilter,
        most: u64,
        see: &mut dyn FnMut(Seen) -> bool,
    ) -> Result<Matched, String> {
        self.filters.lock().expect("no panic").push(filter.clone());
        if filter.port == Some(1) {
            return Err("`port` is 1, which this test has no packets of".to_owned());
        }
        see(Seen::Began("udp and port 443".to_owned()));
        let mut matched = 0;
        loop {
            thread::sleep(Duration::from_millis(1));
            let seen = match filter.port == Some(2) {
                true => Seen::Nothing,
                false => {
                    matched += 1;
                    Seen::Packet(format!(
                        "packet {matched} at 1795366015.2 s, core 0: udp [2001:db8:1:2:3:4:5:6]:40000 > [2001:db8::1]:443, 1200 bytes\n  \
                         access-list  forward  key udp [2001:db8:1:2:3:4:5:6]:40000 <-> [2001:db8::1]:443  new -> open\n  => forward\n"
                    ))
                }
            };
            if !see(seen) {
                return Ok(Matched { matched, missed: 0 });
            }
            assert!(matched <= most, "more than were asked for");
        }
    }

    fn reload(&self, text: Option<&str>) -> Result<String, String> {
        self.reloads.lock().expect("no panic").push(text.map(str::to_owned));
        match text {
            Some(text) if text.contains("wrong") => Err("chain.toml has no function `wrong`".to_owned()),
            _ => Ok("after 7,200,000 packets edge took over; packets waited for 0.4 ms\n  access-list goes on with 12,000 \
                     flows\n  nat begins anew, because its option `external` is another"
                .to_owned()),
        }
    }
}

/// What changes the run.
pub const TOKEN: &str = "8c7b4a0d92e15f36";

impl Run {
    pub fn new() -> Run {
        let function = |name: &str, drop_reasons: &[&str], events: &[&str]| FunctionLayout {
            name: name.to_owned(),
            drop_reasons: drop_reasons.iter().map(|name| (*name).to_owned()).collect(),
            events: events.iter().map(|name| (*name).to_owned()).collect(),
        };
        let layout = Layout {
            chain: "edge".to_owned(),
            strategy: "rsspp".to_owned(),
            strategy_events: vec!["bursts".to_owned()],
            malformed: vec!["ip-version".to_owned()],
            drops_malformed: true,
            functions: vec![
                function("access-list", &["denied"], &["rule-3-matches"]),
                function("nat", &["no-port", "table-full"], &["mappings-made"]),
            ],
        };
        let telemetry = Arc::new(Telemetry::new(layout, 2));
        telemetry.tell_interfaces(|| {
            let interface = |name: &str, lost| InterfaceSnapshot {
                name: name.to_owned(),
                received: 1_200_000,
                received_bytes: 900_000_000,
                sent: 1_100_000,
                sent_bytes: 800_000_000,
                lost: vec![("queue-full", lost)],
                overflowed: lost,
            };
            vec![interface("inside0", 0), interface("outside0", 1_234)]
        });
        telemetry.tell_strategy(|| StrategySnapshot {
            runs: "rsspp".to_owned(),
            cores: 2,
            active_cores: Some(2),
            looks: 120,
            moves: 7,
            ..StrategySnapshot::default()
        });
        // A firewall of many rules, all of which decide more and more.
        let rules_asked = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&rules_asked);
        telemetry.tell_rules(move || {
            let asked = count.fetch_add(1, Ordering::Relaxed) + 1;
            let text = |number: u64| match number {
                1 => "accept any from any to any state established,related".to_owned(),
                _ => format!(
                    "drop tcp from 2001:db8:1:{number:x}::/64 to any port 22,2222,8022 limit 10/s burst 20"
                ),
            };
            let rule = |number: u64| RuleSnapshot {
                function: "access-list".to_owned(),
                rule: number.to_string(),
                text: text(number),
                decided: 10_000 * asked / number,
            };
            (1..=60).map(rule).collect()
        });
        let writers = (0..2).map(|core| telemetry.writer(core).expect("a writer")).collect();
        telemetry.begin();
        let mut run = Run { telemetry, writers, step: 0, rules_asked, asked: Arc::default() };
        run.step();
        run
    }

    /// Counts some more.
    pub fn step(&mut self) {
        self.step += 1;
        let n = self.step;
        for (core, writer) in self.writers.iter_mut().enumerate() {
            let packets = n * [90_000, 30_000][core];
            writer.core(&CoreCounts {
                packets,
                bytes: 700 * packets,
                batches: packets / 60,
                busy_ns: n * [97_000_000, 31_000_000][core],
                forward: packets - packets / 10,
                dropped_by_function: packets / 10 - n,
                dropped_malformed: n,
                moved_in: 3,
                moved_out: 4,
                queue_depth: 17,
                ..CoreCounts::default()
            });
            writer.malformed(&[n]);
            writer.strategy(|_| n);
            let counts = FunctionCounts { packets, forward: packets, ..FunctionCounts::default() };
            writer.function(0, &counts, &[packets / 40], &[n * 12]);
            let live = [45_000 + 200 * n, 20_000][core];
            let counts = FunctionCounts { live, capacity: 65_536, created: live, ..counts };
            writer.function(1, &counts, &[0, packets / 20], &[live]);
        }
    }

    /// How often cores were asked what rules decided.
    pub fn rules_asked(&self) -> u64 {
        self.rules_asked.load(Ordering::Relaxed)
    }

    pub fn dashboard(&self) -> Dashboard {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let inspect: Arc<dyn Inspect> = Arc::clone(&self.asked) as _;
        let telemetry = Arc::clone(&self.telemetry);
        let token = Token::new(TOKEN).expect("a token");
        let asked = (Some(inspect), Some(token));
        Dashboard::on(listener, telemetry, Hosts::of("127.0.0.1:0"), asked).expect("a dashboard")
    }

    /// A page that shows counters alone.
    pub fn plain_dashboard(&self) -> Dashboard {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let telemetry = Arc::clone(&self.telemetry);
        Dashboard::on(listener, telemetry, Hosts::of("127.0.0.1:0"), (None, None)).expect("a dashboard")
    }
}

/// A connection that has said this much.
pub fn connect(address: SocketAddr, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a bounded wait");
    stream.write_all(head.as_bytes()).expect("sent");
    stream
}

/// The whole answer to a request: its head and its body.
pub fn ask(address: SocketAddr, head: &str) -> (String, String) {
    let mut answer = String::new();
    connect(address, head).read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

/// A stream of messages, whose head has been read.
pub struct Messages {
    stream: TcpStream,
    read: String,
}

impl Messages {
    pub fn listen(address: SocketAddr) -> Messages {
        Messages::of(address, "/events")
    }

    pub fn of(address: SocketAddr, path: &str) -> Messages {
        let stream = connect(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        Messages { stream, read: String::new() }
    }

    /// The next message's JSON; `None` at the end of the stream.
    pub fn next(&mut self) -> Option<String> {
        loop {
            if let Some(begin) = self.read.find("data: ")
                && let Some(len) = self.read[begin..].find("\n\n")
            {
                let message = self.read[begin + 6..begin + len].to_owned();
                self.read.drain(..begin + len + 2);
                return Some(message);
            }
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece) {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.read.push_str(&String::from_utf8_lossy(&piece[..read])),
            }
        }
    }
}
