//! Tests of the page and the text of one emulation.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use pipeline::{Latency, Report};
use roxmltree::{Document, ParsingOptions};

use super::latencies::{Step, steps};
use super::render::{render_html, render_text};
use super::report::{Compared, Departures, Emulation, Place};

fn sample(latencies: &[u64]) -> Emulation {
    let mut taken = Histogram::new(3).expect("digits");
    latencies.iter().for_each(|cycles| taken.saturating_record(*cycles));
    let occupancy = [("<flows>.pb", 24), ("<flows>.rb", 0), ("<flows>.dtable_read", 3)];
    Emulation {
        paceline: "0",
        command: "paceline emulate <p4>".to_owned(),
        source: "a & b".to_owned(),
        stages: 2,
        stage_cycles: 18,
        tables: vec![Place {
            name: "<flows>".to_owned(),
            reads: 1,
            writes: 2,
            consistency: "strict".to_owned(),
            size: 64,
        }],
        report: Report {
            model: "rapid",
            program: "<program>".to_owned(),
            cycles: 100,
            packets_in: 8,
            packets_out: latencies.len() as u64,
            throughput: 0.04,
            offered: 0.08,
            latency_cycles: Latency { mean: 20.0, p50: 10, p99: 40, max: 40 },
            drops: BTreeMap::from([("phv_buffer_full", 3), ("queue_full", 1)]),
            lost_after_write: BTreeMap::from([("<flows>".to_owned(), 2)]),
            stalls: 0,
            resubmissions: 0,
            writebacks: 0,
            occupancy_max: occupancy.map(|(name, most)| (name.to_owned(), most)).into(),
            ring_utilisation: 0.0,
            states_refused: BTreeMap::new(),
            cycles_simulated: 100,
            cycles_per_second: 1.0,
        },
        departures: Departures { packets_sent: 3, packets_dropped_by_program: 1, copies_sent: 5 },
        latency_distribution: steps(&taken),
        buffer_sizes: [("<flows>.pb", 32), ("<flows>.rb", 16), ("<flows>.dtable_read", 64)]
            .map(|(name, size)| (name.to_owned(), size))
            .into(),
        check: None,
    }
}

/// The page of a run, read as XML.
fn with_page(emulation: &Emulation, look: impl Fn(&Document)) {
    let html = render_html(emulation);
    assert!(!html.contains("http"), "it needs no other file");
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    look(&Document::parse_with_options(&html, options).expect("a page"));
}

/// Attributes of all elements of a class, in order.
fn of_class(page: &Document, class: &str, attribute: &str) -> Vec<String> {
    let has = page.descendants().filter(|node| node.attribute("class") == Some(class));
    has.filter_map(|node| node.attribute(attribute)).map(str::to_owned).collect()
}

#[test]
fn every_chart_says_what_it_shows() {
    with_page(&sample(&[10, 10, 20, 40]), |page| {
        let figures: Vec<_> = page.descendants().filter(|node| node.has_tag_name("figure")).collect();
        let labels: Vec<_> = figures
            .iter()
            .flat_map(|figure| figure.descendants())
            .filter(|node| node.attribute("role") == Some("img"))
            .filter_map(|node| node.attribute("aria-label"))
            .collect();
        let expected = [
            "Latency: half of the packets took at most 10 cycles, 99% at most 40, all at most 40",
            "The most that each buffer held, of its size; the fullest was <flows>.pb with 24 of 32",
            "4 of 8 packets were lost, by cause",
        ];
        assert_eq!(labels, expected);
        for (figure, label) in figures.iter().zip(labels) {
            let caption = figure.descendants().find(|node| node.has_tag_name("figcaption"));
            let caption = caption.and_then(|caption| caption.text()).expect("a caption");
            assert!(caption.starts_with(label), "{caption}");
            let titles = figure.descendants().filter(|node| node.attribute("class") == Some("title"));
            let titles: Vec<_> = titles.filter_map(|title| title.text()).collect();
            assert!(titles.len() == 2 && titles.iter().any(|title| title.contains('%')), "{titles:?}");
        }
    });
}

/// Each packet is in one row, on the page and in the text.
#[test]
fn what_became_of_every_packet_is_told() {
    let emulation = sample(&[10, 10, 20, 40]);
    let rows = [
        ("of these sent", "3"),
        ("of these dropped by the program", "1"),
        ("copies that ports got", "5"),
        ("of these, had already changed <flows>", "2"),
    ];
    let text = render_text(&emulation);
    for (name, value) in rows {
        let line = text.lines().find(|line| line.trim_start().starts_with(name));
        assert!(line.is_some_and(|line| line.trim_end().ends_with(value)), "{name} in {text}");
    }
    with_page(&emulation, |page| {
        let cells: Vec<_> =
            page.descendants().filter(|node| node.has_tag_name("td") || node.has_tag_name("th")).collect();
        for (name, value) in rows {
            let at = cells.iter().position(|cell| cell.text() == Some(name)).expect("a row");
            assert_eq!(cells[at + 1].text(), Some(value), "{name}");
        }
    });
}

/// The first lines, and the head of the page, say the finding.
#[test]
fn what_came_of_it_is_said_first() {
    let mut emulation = sample(&[10, 10, 20, 40]);
    emulation.report.stalls = 25;
    emulation.report.occupancy_max.insert("<flows>.pb".to_owned(), 32);
    let headline = "<program> on rapid: 0.04 packets a cycle, 4 of 8 packets are lost";
    assert_eq!(emulation.headline(), headline);
    let findings = [
        "Most packets that are lost are lost for phv buffer full: 3 of 4.",
        "0.0800 packets a cycle were offered, and 0.0400 came out.",
        "Half of the packets take 10 cycles at most, 99 in 100 40 at most.",
        "The first stage could not advance in 25 cycles (25.0%).",
        "<flows>.pb was full, with 32.",
    ];
    assert_eq!(emulation.findings(), findings);
    let text = render_text(&emulation);
    assert!(text.starts_with(headline), "{text}");
    assert!(text.lines().take(10).any(|line| line.contains(findings[4])), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100) && text.lines().count() <= 40, "{text}");
    with_page(&emulation, |page| {
        let of =
            |tag: &str| page.descendants().find(|node| node.has_tag_name(tag)).and_then(|node| node.text());
        assert_eq!(of("h1"), Some(headline));
        assert_eq!(of("li"), Some(findings[0]));
    });
    let different = Compared { packets: 8, differ: 1, first: None, state: None };
    emulation.check = Some(different);
    assert!(emulation.headline().ends_with("; it DIFFERS from the reference"));
    emulation.report.drops.clear();
    emulation.check = Some(Compared { packets: 8, differ: 0, first: None, state: None });
    assert_eq!(
        emulation.headline(),
        "<program> on rapid: 0.04 packets a cycle, no packet is lost; all is as the reference has it"
    );
}

/// 40 cycles at the right end, 400 - 24; 0 at 48. 100% at 28, 0% at 240 - 40.
#[test]
fn the_distribution_is_drawn_step_by_step() {
    with_page(&sample(&[10, 10, 20, 40]), |page| {
        let way = of_class(page, "series s0", "points");
        assert_eq!(way, ["130,200 130,114 212,114 212,71 376,71 376,28"]);
        let marks = page.descendants().filter(|node| node.attribute("class") == Some("marker s0 filled"));
        let tips: Vec<_> = marks.filter_map(|mark| mark.first_element_child()?.text()).collect();
        assert_eq!(
            tips,
            [
                "50.0% of the packets: 10 cycles at most",
                "99.0% of the packets: 40 cycles at most",
                "100.0% of the packets: 40 cycles at most"
            ]
        );
    });
}

/// Bars are 368 wide where they are full.
#[test]
fn bars_are_as_long_as_buffers_are_full() {
    with_page(&sample(&[36]), |page| {
        // 3 of 64 and 24 of 32; what nothing was in is left out.
        assert_eq!(of_class(page, "busy", "width"), ["17.2", "276"]);
        // 3 and 1 of 8 packets, on an axis up to 40%.
        assert_eq!(of_class(page, "lost", "width"), ["345", "115"]);
    });
}

#[test]
fn what_there_is_none_of_is_not_drawn() {
    let mut nothing = sample(&[]);
    nothing.report.drops.clear();
    nothing.report.occupancy_max.clear();
    with_page(&nothing, |page| assert!(!page.descendants().any(|node| node.has_tag_name("figure"))));
    let mut one = sample(&[]);
    one.latency_distribution = vec![Step { cycles: 64, share: 1.0 }];
    one.report.drops.clear();
    with_page(&one, |page| {
        assert_eq!(page.descendants().filter(|node| node.has_tag_name("figure")).count(), 2);
        assert_eq!(of_class(page, "lost", "width").len(), 0);
    });
}
