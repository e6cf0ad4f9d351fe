//! Tests of `paceline top`: what the screen shows for given counts.

use std::sync::Arc;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyEvent;
use telemetry::{
    ChoosingSnapshot, CoreCounts, CoreSnapshot, FunctionCounts, FunctionLayout, FunctionSnapshot,
    InterfaceSnapshot, Layout, MetricsServer, ObjectiveSnapshot, PromotionSnapshot, ShardSnapshot, Snapshot,
    StrategySnapshot, Telemetry, UNKNOWN, UpdateSnapshot, prometheus,
};

use super::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn layout() -> Layout {
    let function = |name: &str, drops: &[&str], events: &[&str]| FunctionLayout {
        name: name.to_owned(),
        drop_reasons: names(drops),
        events: names(events),
    };
    Layout {
        chain: "edge".to_owned(),
        strategy: "rss".to_owned(),
        malformed: names(&["ip-version"]),
        strategy_events: Vec::new(),
        drops_malformed: true,
        functions: vec![
            function("policer", &["over-rate", "unnamed"], &["packets-over-rate"]),
            function("pattern-scanner", &["unnamed"], &["matches"]),
        ],
    }
}

/// What two cores have counted after so many seconds: the second core a tenth of the first.
fn snapshot(seconds: u64) -> Snapshot {
    let core = |scale: u64| {
        let count = |per_second: u64| per_second * seconds / scale;
        CoreSnapshot {
            counts: CoreCounts {
                packets: count(1_234_560),
                bytes: count(1_234_560 * 100),
                batches: count(20_000),
                busy_ns: count(930_000_000),
                forward: count(1_234_560 - 3_210),
                dropped_by_function: count(3_200),
                dropped_malformed: count(10),
                moved_in: scale,
                moved_out: 2 * scale,
                held: 0,
                queue_depth: if scale == 1 { 512 } else { UNKNOWN },
                ..CoreCounts::default()
            },
            malformed: vec![count(10)],
            strategy_events: Vec::new(),
            functions: vec![
                FunctionSnapshot {
                    counts: FunctionCounts {
                        packets: count(1_234_550),
                        forward: count(1_231_350),
                        live: 50_000 / scale,
                        capacity: 65_536,
                        evicted: 3,
                        rejected: count(40),
                        ..FunctionCounts::default()
                    },
                    drops: vec![count(3_200), 0],
                    events: vec![count(3_200)],
                },
                FunctionSnapshot {
                    counts: FunctionCounts::default(),
                    drops: vec![0],
                    events: vec![count(1)],
                },
            ],
        }
    };
    Snapshot {
        layout: Arc::new(layout()),
        elapsed: Duration::from_secs(seconds),
        cores: vec![core(1), core(10)],
        interfaces: Vec::new(),
        strategy: StrategySnapshot::default(),
        rules: Vec::new(),
    }
}

fn reading(seconds: u64) -> Reading {
    Reading::parse(&prometheus::write(&snapshot(seconds))).expect("metrics")
}

fn screen(view: View) -> Screen {
    Screen { address: "127.0.0.1:9100".to_owned(), view, is_live: true, ..Screen::default() }
}

fn drawn(screen: &Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| frame.render_widget(screen, frame.area())).expect("draws");
    let buffer = terminal.backend().buffer().clone();
    let rows = buffer.content().chunks(usize::from(width));
    rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned() + "\n")
        .collect()
}

#[test]
fn interfaces_are_shown_where_there_are_some() {
    let at = |seconds: u64| {
        let interface = InterfaceSnapshot {
            name: "eth1".to_owned(),
            received: 1_000 * seconds,
            received_bytes: 125_000 * seconds,
            sent: 990 * seconds,
            sent_bytes: 123_750 * seconds,
            lost: vec![("ring-full", 7), ("link-down", 3)],
            overflowed: 0,
        };
        let snapshot = Snapshot { interfaces: vec![interface], ..snapshot(seconds) };
        Reading::parse(&prometheus::write(&snapshot)).expect("metrics")
    };
    let drawn = drawn(&screen(View::new(Some(&at(10)), &at(12))), 80, 30);
    let golden = "\
interface                received/s    Mbit/s      sent/s    Mbit/s  lost, total
eth1                          1,000         1         990      0.99           10
";
    assert!(drawn.contains(golden), "{drawn}");
}

/// The panel of a strategy, as it says this of itself.
fn panel(strategy: StrategySnapshot) -> Vec<String> {
    panel_of(Snapshot { strategy, ..snapshot(12) })
}

fn panel_of(snapshot: Snapshot) -> Vec<String> {
    let text = prometheus::write(&snapshot);
    let reading = Reading::parse(&text).expect("metrics");
    let text = Screen { is_live: false, ..screen(View::new(None, &reading)) }.text();
    let panel = text.lines().skip_while(|line| !line.starts_with("what rss does")).skip(1);
    panel.take_while(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn a_panel_says_what_the_strategy_does() {
    assert!(panel(StrategySnapshot::default()).is_empty(), "it says nothing");
    let of =
        |runs: &str| StrategySnapshot { runs: runs.to_owned(), cores: 2, looks: 1_234, ..Default::default() };
    let updates = UpdateSnapshot { entries: 4, seconds: 0.002, longest_seconds: 0.0015 };
    let rsspp = StrategySnapshot { moves: 5, active_cores: Some(2), updates: Some(updates), ..of("rsspp") };
    assert_eq!(panel(rsspp), ["1,234 looks at loads, 5 moves of entries; acted after 500 us, at most 1,500"]);
    let dyssect = StrategySnapshot {
        moves: 1,
        ratio_changes: 3,
        shards: (0..4)
            .map(|shard| ShardSnapshot { core: shard % 2, offloaded: [0.0, 0.0, 0.5, 0.0][shard] })
            .collect(),
        roles: vec![(true, false), (true, true)],
        priority: vec![1_200, 0],
        objective: Some(ObjectiveSnapshot {
            p99_seconds: 5e-4,
            predicted_p99_seconds: Some(1.2e-4),
            measured_p99_seconds: Some(9e-5),
            utilisation: 0.45,
            most: 0.8,
        }),
        ..of("dyssect")
    };
    let told = [
        "core 0, worker; shards: 0 2 (50.0% elsewhere)",
        "core 1, worker and offloader; shards: 1 3",
        "packets with priority by core, last period; 0: 1,200 1: 0",
        "objective: 99% wait 500 us at most; by the model 120 us, measured 90 us, busiest core 45.0% of 80.0%",
        "1,234 looks at loads, 1 move of shards, 3 changes of ratios",
    ];
    assert_eq!(panel(dyssect), told);
    let promotion = Some(PromotionSnapshot { values: 2, promotions: 7, demotions: 5, share: 0.41 });
    let told = "2 values of the hash promoted, with 41.0% of packets; 7 promotions, 5 demotions";
    assert_eq!(panel(StrategySnapshot { promotion, ..of("hybrid") }), [told]);
    let choosing = ChoosingSnapshot {
        changes: 3,
        predicted_mpps: Some(2.1),
        measured_mpps: Some(1.98),
        candidates: vec![("single".to_owned(), 1, 1.0), ("scr".to_owned(), 2, 1.9)],
    };
    let told = [
        "scr on 2 cores now, 2.10 Mpps predicted, 1.98 Mpps measured; 3 changes so far",
        "Mpps promised: single on 1 1.00 scr on 2 1.90",
        "1,234 looks at loads",
    ];
    assert_eq!(panel(StrategySnapshot { choosing: Some(choosing), ..of("scr") }), told);
}

/// Also of a strategy that says nothing else, as one of a user's own may.
#[test]
fn a_panel_has_what_the_strategy_counts() {
    let mut told = snapshot(12);
    let names = ["bursts", "lent", "sent"].map(str::to_owned).to_vec();
    told.layout = Arc::new(Layout { strategy_events: names, ..(*told.layout).clone() });
    told.cores.iter_mut().for_each(|core| core.strategy_events = vec![700, 0, 3]);
    assert_eq!(panel_of(told), ["counted so far: bursts 1,400, sent 6"]);
}

#[test]
fn the_screen_of_a_usual_terminal() {
    let view = View::new(Some(&reading(10)), &reading(12));
    let golden = "\
paceline top 127.0.0.1:9100                         arrows: other cores, q: quit
edge, rss on 2 cores, for 12.0 s
1.36M packets/s, 1,086 Mbit/s, 0.3% dropped; 16,296,192 packets so far

core busy                packets/s    Mbit/s queue   drops/s  moved in/out  held
   0 [######### ]  93%       1.23M       988   512     3,210           1/2     0
   1 [#         ]   9%        123k        99     -       321         10/20     0

function                   flows   load   packets/s   drops/s  rejected  evicted
policer                    55.0k  76.3%       1.36M     3,520       528        6
pattern-scanner                -      -           0         0         0        0

drops, function/reason                                    per second       total
policer/over-rate                                              3,520       42.2k
malformed/ip-version                                              11         132

events, function/event                                    per second       total
policer/packets-over-rate                                      3,520       42.2k
pattern-scanner/matches                                            1          13
";
    let text = drawn(&screen(view), 80, 24);
    assert_eq!(text.lines().count(), 24);
    assert_eq!(text.trim_end(), golden.trim_end());
}

#[test]
fn one_look_shows_the_mean_of_the_run() {
    let view = View::new(None, &reading(12));
    assert!(view.is_since_begin);
    let text = Screen { is_live: false, ..screen(view) }.text();
    assert!(
        text.starts_with("paceline top 127.0.0.1:9100\nedge, rss on 2 cores, for 12.0 s, mean since then\n")
    );
    assert!(text.contains("\n   0 [######### ]  93%       1.23M "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn many_cores_scroll_and_everything_else_keeps_its_place() {
    let mut many = snapshot(12);
    many.cores = (0..100).map(|core| many.cores[core % 2].clone()).collect();
    let reading = Reading::parse(&prometheus::write(&many)).expect("metrics");
    let mut screen = screen(View::new(None, &reading));
    for (first, expected) in
        [(0, ["   0 [", "   1 ["]), (2, ["   2 [", "   3 ["]), (99, ["  94 [", "  95 ["])]
    {
        screen.first_core = first;
        let text = drawn(&screen, 80, 24);
        assert_eq!(text.lines().count(), 24);
        for part in expected {
            assert!(text.contains(part), "{first}: {text}");
        }
        for part in ["more cores", "policer ", "policer/over-rate", "policer/packets-over-rate"] {
            assert!(text.contains(part), "{text}");
        }
    }
    for (width, height) in [(1, 1), (80, 3), (20, 10), (300, 200)] {
        let text = drawn(&screen, width, height);
        assert_eq!(text.lines().count(), usize::from(height));
    }
}

#[test]
fn another_run_at_the_address_is_not_compared_with_the_one_before() {
    let view = View::new(Some(&reading(12)), &reading(10));
    assert!(view.is_since_begin);
    assert_eq!(view, View::new(None, &reading(10)));
    let before_the_first_packet = View::new(None, &reading(0));
    assert_eq!((before_the_first_packet.packets_per_s, before_the_first_packet.dropped), (0.0, 0.0));
}

#[test]
fn other_metrics_are_refused_and_their_escapes_go_nowhere() {
    assert!(Reading::parse("process_cpu_seconds_total 1\n").is_err_and(|error| error.contains("another")));
    assert!(Reading::parse("<html>").is_err());
    let escapes = "paceline_info{chain=\"a\u{1b}[2Jb\\nc\",strategy=\"rss\"} 1\n";
    assert_eq!(Reading::parse(escapes).expect("metrics").chain, "a[2Jbc");
}

/// A watch of a run that serves metrics.
fn watch() -> (MetricsServer, Watch) {
    let telemetry = Arc::new(Telemetry::new(layout(), 2));
    let any = "127.0.0.1:0".parse().expect("an address");
    let server = MetricsServer::start(any, telemetry).expect("a free port");
    let before = look(server.address()).expect("it answers");
    let watch = Watch {
        address: server.address(),
        interval: PATIENCE,
        screen: screen(View::new(None, &before)),
        before,
        is_stopped: Arc::default(),
    };
    (server, watch)
}

#[test]
fn the_end_of_the_run_is_noticed() {
    let (server, mut watch) = watch();
    assert!(watch.look_again());
    drop(server);
    assert!(!watch.look_again());
    assert_eq!(
        watch.last_words(),
        "the run at 127.0.0.1:9100 has ended; last seen: edge, 0 packets in 0.0 s\n"
    );
}

#[test]
fn keys_do_what_the_screen_says() {
    let (_server, mut watch) = watch();
    let mut press = |code, modifiers| watch.heed(&Event::Key(KeyEvent::new(code, modifiers)));
    assert!(matches!(press(KeyCode::Char('q'), KeyModifiers::NONE), Some(End::Quit)));
    assert!(matches!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(End::Interrupted)));
    assert!(press(KeyCode::Char('c'), KeyModifiers::NONE).is_none());
    for (code, first) in [(KeyCode::Up, 0), (KeyCode::Down, 1), (KeyCode::Down, 1), (KeyCode::Up, 0)] {
        assert!(watch.heed(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE))).is_none());
        assert_eq!(watch.screen.first_core, first);
    }
}
