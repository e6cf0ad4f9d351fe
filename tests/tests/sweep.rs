//! The sweep: over captures, mutations of them, every example, tables of few flows and every strategy nothing differs
//! that is not announced; and what differs, panics or hangs is found, and made small.
//!
//! More of it, some minutes: `cargo test -p paceline-conformance --test all sweep:: -- --ignored`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use std::{env, fs, process};

use engine::UpTo;
use engine::strategies::{RSS, SCR, SHARED};
use nf::{About, Cx, Extras, FiveTuple, FlowKey, NetworkFunction, OptionError, Pooled, Verdict};
use paceline_conformance::chain;
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{beginnings, generated, named_examples};
use sweep::{
    Capture, Journal, Limits, Matrix, NamedChain, Outcome, Question, Row, Setting, Source, Summary, Tables,
    Way, sweep,
};
use table::WhenFull;
use wire::{Fields, Headers};

const LIMITS: Limits = Limits { jobs: 2, time_limit: Duration::from_secs(120), memory_bytes: 1 << 30 };

fn of(flows: usize, when_full: WhenFull) -> Tables {
    Tables::Of { flows, when_full }
}

fn every_way(moves: &[u64]) -> Vec<Way> {
    let mut ways = [RSS, SCR, SHARED].map(Way::plain).to_vec();
    ways.extend(moves.iter().map(|every| Way::moving(*every)));
    ways.push(Way::lossy("0.05".parse().expect("a share")));
    ways
}

fn sources(captures: Vec<(String, Pcap)>) -> Vec<Source> {
    captures.into_iter().map(|(name, capture)| Source::Memory(name, Arc::new(capture))).collect()
}

/// All of the question, in this process.
fn swept(question: &Question, limits: &Limits) -> (Summary, Vec<Row>) {
    let (mut summary, mut rows) = (Summary::new(), Vec::new());
    sweep(question, limits, &|_| false, &AtomicBool::new(false), &mut |row| {
        summary.add(&row);
        rows.push(row);
    });
    summary.finish(true);
    (summary, rows)
}

fn assert_clean(question: &Question) {
    let (summary, _) = swept(question, &LIMITS);
    assert!(summary.is_clean(), "{:#?}", summary.findings);
    assert_eq!(summary.runs, question.runs());
    let of = |kind: &str| summary.outcomes[kind];
    // Most is compared, and what is refused is refused for a reason.
    assert!(of("equal") + of("equal-up-to") > summary.runs / 2, "{:?}", summary.outcomes);
    assert!(of("equal") > summary.runs / 8, "{:?}", summary.outcomes);
    assert!(summary.reasons.iter().any(|reason| reason.about == UpTo::FullTables.words()));
    // What cores share, and what they allocate, is left out.
    assert!(summary.exact > summary.compared / 2, "{} of {}", summary.exact, summary.compared);
}

/// Simulated each, and a part of them on threads.
#[test]
fn nothing_differs_that_is_not_announced() {
    let mut captures = beginnings(300);
    let model = "datacenter:seed=5,packets=300,gap-ns=1000000";
    captures.push((model.to_owned(), generated(model, 300)));
    let matrix = Matrix {
        tables: vec![
            of(4, WhenFull::EvictOldest),
            of(4, WhenFull::Reject),
            of(64, WhenFull::EvictOldest),
            of(1_024, WhenFull::Reject),
        ],
        ways: every_way(&[2, 37]),
        cores: vec![2, 4],
    };
    let simulated = Question {
        sources: sources(captures),
        mutations: 2,
        chains: named_examples(),
        settings: matrix.settings(0).into_iter().map(Setting::simulated).collect(),
        most_packets: 300,
        seed: 1,
    };
    assert_clean(&simulated);
    let tables = vec![of(4, WhenFull::EvictOldest), of(1_024, WhenFull::Reject)];
    let on_threads = Matrix { tables, ways: every_way(&[37]), cores: vec![4] };
    assert_clean(&Question { mutations: 0, settings: on_threads.settings(0), ..simulated });
}

#[test]
#[ignore = "takes minutes"]
fn nothing_differs_in_longer_captures_either() {
    let tables = [4, 16, 64, 8_192].map(|flows| WhenFull::ALL.map(|when_full| of(flows, when_full)));
    let matrix = Matrix { tables: tables.concat(), ways: every_way(&[2, 7, 37, 132]), cores: vec![2, 3, 8] };
    assert_clean(&Question {
        sources: sources(beginnings(3_000)),
        mutations: 10,
        chains: named_examples(),
        settings: matrix.settings(0),
        most_packets: 3_000,
        seed: 2,
    });
}

/// Each is wrong, in a way of its own.
const FORGETS: u8 = 0;
const PANICS: u8 = 1;
const HANGS: u8 = 2;

/// Lets go what hangs.
static IS_OVER: AtomicBool = AtomicBool::new(false);

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NoOptions {}

struct Faulty<const FAULT: u8>;

impl<const FAULT: u8> NetworkFunction for Faulty<FAULT> {
    const ABOUT: About = About { name: "faulty", drop_reasons: &["third"], ..About::NONE };
    const READS: Fields = Fields::FIVE_TUPLE;
    const EXTRAS: Extras<Self> = Extras {
        pool: Pooled { make: Self::pool, steps_in_order: Self::steps_in_order, ..Pooled::NONE },
        ..Extras::NONE
    };
    type Key = FiveTuple;
    type Meta = FiveTuple;
    type State = u64;
    type Pool = u64;
    type Options = NoOptions;

    fn new(_: NoOptions) -> Result<Self, OptionError> {
        Ok(Faulty)
    }

    fn project(headers: &Headers) -> Option<FiveTuple> {
        Some(FiveTuple::of(headers))
    }

    fn key(meta: &FiveTuple) -> FiveTuple {
        *meta
    }

    fn step(&self, flow: &mut Option<u64>, meta: &FiveTuple, cx: &mut Cx<'_, u64>) -> Verdict {
        *cx.pool += 1;
        *flow = Some(1);
        match FAULT {
            // Of a core's packets, where one core has them all.
            FORGETS if *cx.pool == 3 => return Verdict::Drop(0),
            PANICS if meta.dst_port == 80 => panic!("port 80"),
            HANGS => {
                while !IS_OVER.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(5));
                }
            }
            _ => {}
        }
        Verdict::Forward
    }

    fn idle_timeout_ns(&self, _: &u64) -> u64 {
        u64::MAX
    }
}

impl<const FAULT: u8> Faulty<FAULT> {
    fn pool(&self) -> u64 {
        0
    }

    /// A lie: packets of all flows meet in the pool.
    fn steps_in_order(&self) -> bool {
        false
    }
}

fn faulty<const FAULT: u8>(packets: usize) -> Question {
    let mut registry = stock::registry();
    registry.add::<Faulty<FAULT>>();
    let faulty = chain("[[function]]\nuse = \"faulty\"", &registry);
    let chain = NamedChain { name: "faulty.toml".to_owned(), hash: 0, chain: Arc::new(faulty) };
    let matrix = Matrix { tables: vec![Tables::AsWritten], ways: vec![Way::plain(RSS)], cores: vec![2] };
    Question {
        sources: sources(beginnings(packets).into_iter().take(1).collect()),
        mutations: 0,
        chains: vec![chain],
        settings: matrix.settings(0),
        most_packets: packets,
        seed: 1,
    }
}

/// The summary with its reproducers, in a folder that is gone afterwards, and what is in their files.
fn reproduced(question: &Question, name: &str) -> (Summary, Vec<Capture>) {
    let folder = env::temp_dir().join(format!("paceline-sweep-{name}-{}", process::id()));
    let (mut summary, _) = swept(question, &LIMITS);
    let stop = AtomicBool::new(false);
    summary
        .reproduce(question, &LIMITS, Duration::from_secs(60), &folder, &stop, &mut |_| {})
        .expect("a folder that can be written");
    let capture = |finding: &sweep::Finding| {
        let path = &finding.reproducer.as_ref().expect("a reproducer").capture;
        Capture::load(path.as_ref(), usize::MAX).expect("a capture")
    };
    let captures = summary.findings.iter().map(capture).collect();
    fs::remove_dir_all(&folder).expect("made above");
    (summary, captures)
}

/// Three packets that do not all come to one core, and not one more.
#[test]
fn a_difference_is_found_and_made_small() {
    let (summary, captures) = reproduced(&faulty::<FORGETS>(500), "forgets");
    let [finding] = &summary.findings[..] else { panic!("{:#?}", summary.findings) };
    assert!(
        matches!(&finding.example.outcome, Outcome::Different { what, .. } if what == "verdicts of faulty")
    );
    assert_eq!(captures[0].packets(), 3, "{finding:#?}");
    let command = &finding.reproducer.as_ref().expect("made").command;
    for part in ["paceline verify faulty.toml --pcap ", "--strategy rss --cores 2", "--table-seed "] {
        assert!(command.contains(part), "{command}");
    }
}

#[test]
fn a_panic_is_found_and_made_small() {
    let (summary, captures) = reproduced(&faulty::<PANICS>(200), "panics");
    let [finding] = &summary.findings[..] else { panic!("{:#?}", summary.findings) };
    assert_eq!(finding.example.outcome.kind(), "panicked");
    assert_eq!(captures[0].packets(), 1, "{finding:#?}");
}

/// It heeds no request to end, and the others go on.
#[test]
fn what_hangs_is_a_finding_and_not_the_end() {
    let question = faulty::<HANGS>(20);
    let limits = Limits { time_limit: Duration::from_millis(200), ..LIMITS };
    let (summary, rows) = swept(&question, &limits);
    IS_OVER.store(true, Ordering::Relaxed);
    assert_eq!((summary.outcomes["timed-out"], rows.len()), (1, 1));
}

/// What is in the journal is not compared again, a last line that was cut off is, and the sum is the same.
#[test]
fn a_sweep_goes_on_where_it_was_stopped() {
    let matrix = Matrix {
        tables: vec![of(16, WhenFull::Reject)],
        ways: vec![Way::plain(RSS), Way::plain(SCR)],
        cores: vec![2],
    };
    let mut captures = sources(beginnings(50).into_iter().take(1).collect());
    captures.push(Source::File("no such file".into()));
    let question = Question {
        sources: captures,
        mutations: 4,
        chains: named_examples().into_iter().take(3).collect(),
        settings: matrix.settings(0),
        most_packets: 50,
        seed: 3,
    };
    let path = env::temp_dir().join(format!("paceline-sweep-journal-{}.jsonl", process::id()));
    let mut journal = Journal::open(&path, false, &mut |_| {}).expect("a new file");
    let stop = AtomicBool::new(false);
    let mut made = 0;
    sweep(&question, &LIMITS, &|_| false, &stop, &mut |row| {
        if made < 5 {
            journal.push(&row).expect("room");
            made += 1;
        }
        stop.store(made == 5, Ordering::Relaxed);
    });
    drop(journal);
    let text = fs::read_to_string(&path).expect("the journal");
    fs::write(&path, format!("{text}{}", &text[..20])).expect("room");
    assert!(Journal::open(&path, false, &mut |_| {}).is_err(), "it is there");

    let mut keys = BTreeMap::new();
    let mut seen = |row: &Row| *keys.entry(row.key.clone()).or_insert(0) += 1;
    let mut summary = Summary::new();
    let mut journal = Journal::open(&path, true, &mut |row| {
        seen(&row);
        summary.add(&row);
    })
    .expect("what was begun");
    let done = journal.done().clone();
    assert_eq!(done.len(), 5);
    sweep(&question, &LIMITS, &|key| done.contains(&key), &AtomicBool::new(false), &mut |row| {
        seen(&row);
        summary.add(&row);
        journal.push(&row).expect("room");
    });
    fs::remove_file(&path).expect("written above");
    assert!(keys.values().all(|times| *times == 1), "{keys:?}");
    assert_eq!(summary.runs, question.runs());
    let (again, _) = swept(&question, &LIMITS);
    assert_eq!(again.outcomes, summary.outcomes);
    assert_eq!(summary.outcomes["unreadable"] % question.runs_of_each(), 0);
    assert!(summary.outcomes["unreadable"] >= question.runs() / 2);
}
