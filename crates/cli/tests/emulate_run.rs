//! `paceline emulate` with one program, as a user meets it.

use crate::support::{Folder, json, paceline, stderr, stdout};

const KNOCKING: &str = "examples/p4/port_knocking.p4";
const CAPTURE: [&str; 2] = ["--pcap", "captures/edge.pcap"];

fn emulate(program: &str, options: &[&str]) -> std::process::Output {
    let words: Vec<&str> = ["emulate", program].into_iter().chain(options.iter().copied()).collect();
    paceline(&words)
}

/// Packets of two ports go through two pipelines on one ring, each with states of its own.
#[test]
fn pipelines_share_a_ring() {
    let ports = ["--port-of", "192.0.2.0/24=1", "--pipelines", "2"];
    let run = emulate(KNOCKING, &[&CAPTURE[..], &ports, &["--check", "--json", "-"]].concat());
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let found = json(&run);
    assert_eq!(found["packets_in"], found["check"]["packets"]);
    assert!(found["occupancy_max"]["ring.3.from_ring"].is_u64(), "{found}");
    let refused = emulate(KNOCKING, &[&CAPTURE[..], &ports, &["--model", "blocking"]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused).contains("blocking has no ring that pipelines could share"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn a_program_runs_and_is_checked() {
    let folder = Folder::new("emulate");
    let html = folder.file("run.html");
    let options =
        ["--check", "--consistency", "strict", "--when-full", "stall", "--json", "-", "--html", &html];
    let run = emulate(KNOCKING, &[&CAPTURE[..], &options].concat());
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let found = json(&run);
    for field in ["cycles", "packets_in", "packets_out", "resubmissions", "writebacks"] {
        assert!(found[field].is_u64(), "{field} in {found}");
    }
    for field in ["p50", "p99", "max"] {
        assert!(found["latency_cycles"][field].as_u64() >= Some(36), "{field} in {found}");
    }
    assert!(found["throughput"].is_f64() && found["cycles_per_second"].is_f64());
    assert!(found["drops"].is_object() && found["occupancy_max"].is_object());
    assert_eq!(found["packets_in"], found["check"]["packets"]);
    assert_eq!((found["stages"].as_u64(), found["tables"][0]["writes"].as_u64()), (Some(2), Some(2)));
    assert!(std::fs::read_to_string(&html).expect("a page").starts_with("<!DOCTYPE html>"));
}

#[test]
fn what_leaves_is_written() {
    let folder = Folder::new("emulate-out");
    let out = folder.file("out.pcap");
    let run = emulate(KNOCKING, &[&CAPTURE[..], &["--when-full", "stall", "--out", &out]].concat());
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let reference = json(&paceline(&[&["p4", "run", KNOCKING, "--json", "-"], &CAPTURE[..]].concat()));
    let again = json(&paceline(&["p4", "run", KNOCKING, "--json", "-", "--pcap", &out]));
    assert_eq!(again["packets"], reference["packets_out"]);
}

/// All packets appear in the report: those that the program drops, those that are lost, and what ports got.
#[test]
fn no_packet_is_missing() {
    let folder = Folder::new("emulate-sums");
    let out = folder.file("out.pcap");
    let firewall = "examples/p4/stateful_firewall.p4";
    let ports = ["--port-of=192.0.2.0/24=0", "--port=1"];
    let written = emulate(firewall, &[&CAPTURE[..], &ports, &["--json", "-", "--out", &out]].concat());
    let small = ["--pb=2", "--rb=1", "--dtable=2", "--json", "-", "--pacing=every-cycle"];
    let lossy = emulate(firewall, &[&CAPTURE[..], &ports, &small].concat());
    let switch = emulate("examples/p4/mac_learning.p4", &[&CAPTURE[..], &["--json", "-"]].concat());
    let synthetic = ["--traffic", "zipf:flows=20,packets=3000,a=1.1", "--json", "-"];
    for run in [&written, &lossy, &switch, &emulate("synthetic", &synthetic)] {
        assert_eq!(run.status.code(), Some(0), "{}", stderr(run));
        let found = json(run);
        let of = |name: &str| found[name].as_u64().unwrap_or_else(|| panic!("{name} in {found}"));
        let lost: u64 =
            found["drops"].as_object().expect("causes").values().filter_map(|lost| lost.as_u64()).sum();
        assert_eq!(of("packets_in"), of("packets_out") + lost, "{found}");
        assert_eq!(of("packets_out"), of("packets_sent") + of("packets_dropped_by_program"), "{found}");
        assert!(of("copies_sent") >= of("packets_sent"), "{found}");
    }
    // docs/p4.md has this figure of the capture.
    let (found, reference) = (json(&written), ["p4", "run", firewall, "--json", "-"]);
    let reference = json(&paceline(&[&reference[..], &CAPTURE[..], &ports].concat()));
    assert_eq!(found["packets_sent"], 1674);
    assert_eq!(found["copies_sent"], reference["packets_out"]);
    let again = json(&paceline(&["p4", "run", firewall, "--json", "-", "--pcap", &out]));
    assert_eq!(again["packets"], found["copies_sent"]);
    assert!(json(&lossy)["drops"].as_object().is_some_and(|drops| !drops.is_empty()));
}

/// Two tables with keys of their own: a run may differ from the order of arrival, and it is said which two.
#[test]
fn other_orders_are_warned_of() {
    let folder = Folder::new("emulate-order");
    let path = folder.file("two.p4");
    let firewall = std::fs::read_to_string(crate::support::root().join("examples/p4/stateful_firewall.p4"))
        .expect("an example");
    let two = firewall
        .replacen(
            "    action from_inside",
            "    muTable senders { keys = { hdr.ethernet.src_addr; } values = { bit<16> seen; } size = 4096; }
             action next() { meta.seen = meta.seen + 1; }
             table count_up { key = { meta.seen: ternary; } actions = { next; } default_action = next(); }
             action from_inside",
            1,
        )
        .replacen("struct metadata_t {", "struct metadata_t { bit<16> seen;", 1)
        .replacen(
            "        meta.state = connections.read(hdr);",
            "        meta.seen = senders.read(hdr); count_up.apply(); senders.write(hdr, meta.seen);
                     meta.state = connections.read(hdr);",
            1,
        );
    std::fs::write(&path, two).expect("a file");
    let compiled = paceline(&["p4", "compile", &path, "-I", "examples/p4"]);
    assert_eq!(compiled.status.code(), Some(0), "{}", stderr(&compiled));
    let warning = "may be asked in another order than packets arrive in";
    assert!(stdout(&compiled).contains(warning), "{}", stdout(&compiled));
    assert!(!stdout(&paceline(&["p4", "compile", "examples/p4/stateful_firewall.p4"])).contains(warning));
}

#[test]
fn registers_are_shown_cycle_by_cycle() {
    let run = emulate(KNOCKING, &[&CAPTURE[..], &["--trace-cycles", "3..5", "--packets", "20"]].concat());
    let text = stdout(&run);
    assert!(
        text.contains("cycle 3\n") && text.contains("cycle 4\n") && !text.contains("cycle 5\n"),
        "{text}"
    );
    assert!(text.contains("port_knocking.p4 on rapid, 2 stages of 18 cycles"), "{text}");
}

#[test]
fn the_synthetic_program_is_checked() {
    let traffic = ["--traffic", "zipf:flows=4,packets=2000,a=1.2", "--check", "--when-full", "stall"];
    let strict = emulate("synthetic", &[&traffic[..], &["--stages", "3", "--update-rate", "50"]].concat());
    assert_eq!(strict.status.code(), Some(0), "{}", stderr(&strict));
    // Stale packets pass: that is found, and why it may be is said.
    let weak = emulate("synthetic", &[&traffic[..], &["--consistency", "weak"]].concat());
    assert_eq!(weak.status.code(), Some(1));
    assert!(stderr(&weak).contains("only strict promises"), "{}", stderr(&weak));
}

#[test]
fn all_latencies_and_buffers_are_told() {
    let traffic = ["--traffic", "zipf:flows=20,packets=3000,a=1.1", "--pacing", "every-cycle", "--json", "-"];
    let firewall = ["examples/p4/stateful_firewall.p4", "--port-of=10.0.0.0/8=0", "--port=1", "--pb=20"];
    let runs: [&[&str]; 4] = [
        &["synthetic", "--stages=3", "--pb=20", "--suspend-queue=8", "--ring-from-ring=3"],
        &["synthetic", "--model=blocking", "--queue-depth=9"],
        &["synthetic", "--model=pisa"],
        &firewall,
    ];
    for run in runs {
        let found = json(&paceline(&[&["emulate"], run, &traffic].concat()));
        let steps = found["latency_distribution"].as_array().expect("steps").clone();
        let of = |name: &str| found["latency_cycles"][name].as_u64().expect("cycles");
        let at = |cycles: u64| steps.iter().find(|step| step["cycles"].as_u64() >= Some(cycles));
        let share = |cycles| at(cycles).and_then(|step| step["share"].as_f64()).expect("a share");
        assert_eq!(steps.last().map(|step| step["cycles"].as_u64()), Some(Some(of("max"))), "{run:?}");
        assert!(share(of("max")) == 1.0 && share(of("p50")) >= 0.5 && share(of("p99")) >= 0.99, "{run:?}");
        let (most, sizes) = (found["occupancy_max"].as_object(), found["buffer_sizes"].as_object());
        let (most, sizes) = (most.expect("buffers"), sizes.expect("sizes"));
        assert!(most.keys().eq(sizes.keys()), "{run:?}: {most:?} {sizes:?}");
        assert!(most.iter().all(|(name, most)| most.as_u64() <= sizes[name].as_u64()), "{run:?}");
        let size =
            |end: &str| sizes.iter().find(|(name, _)| name.ends_with(end)).map(|(_, size)| size.as_u64());
        let is_rapid = found["model"] == "rapid";
        assert_eq!(size(".pb"), is_rapid.then_some(Some(20)), "{run:?}");
        assert_eq!(size(".flow_queue"), (found["model"] == "blocking").then_some(Some(9)), "{run:?}");
    }
}

#[test]
fn queues_have_sizes_of_their_own() {
    let traffic = ["--traffic", "zipf:flows=64,packets=3000,a=0.9", "--pacing", "every-cycle", "--json", "-"];
    let lost = |size: &[&str]| {
        let run =
            emulate("synthetic", &[&traffic[..], &["--stages", "4", "--update-rate", "60"], size].concat());
        assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
        let found = json(&run);
        (found["drops"]["dirty_table_full"].as_u64(), found["occupancy_max"]["flows.block_queue"].as_u64())
    };
    assert!(matches!(lost(&[]), (None, Some(10..=64))), "{:?}", lost(&[]));
    // The smallest of dTable and its queues bounds how many flows are dirty.
    for queue in ["--block-queue", "--suspend-queue", "--schedule-queue", "--dtable"] {
        assert!(matches!(lost(&[queue, "3"]), (Some(_), Some(3))), "{queue}: {:?}", lost(&[queue, "3"]));
    }
}

#[test]
fn what_cannot_run_is_refused_by_name() {
    let refused: [(&str, &[&str], &str); 10] = [
        (
            "examples/p4/mac_learning.p4",
            &["--pcap", "captures/edge.pcap", "--model", "flowblaze"],
            "muTable ingress.stations",
        ),
        (KNOCKING, &["--pcap", "captures/edge.pcap", "--model", "banzai"], "muTable ingress.port_knocking"),
        (KNOCKING, &["--pcap", "captures/edge.pcap", "--stages", "1"], "the program takes 2 stages"),
        (KNOCKING, &["--pcap", "captures/edge.pcap", "--update-rate", "3"], "--update-rate"),
        (KNOCKING, &["--traffic", "no-such-model"], "no-such-model"),
        (KNOCKING, &[], "--pcap"),
        (KNOCKING, &["--pcap", "captures/edge.pcap", "--block-queue", "0"], "a whole number, 1 to 1048576"),
        ("synthetic", &["--traffic", "uniform", "--stf", "x.stf"], "--stf"),
        ("no-such.p4", &CAPTURE[..], "no-such.p4"),
        (KNOCKING, &["--pcap", "captures/edge.pcap", "--trace-cycles", "5..5"], "100..110"),
    ];
    for (program, options, said) in refused {
        let run = emulate(program, options);
        assert_eq!(run.status.code(), Some(2), "{program} {options:?}");
        assert!(stderr(&run).contains(said), "{program} {options:?}: {}", stderr(&run));
    }
}

#[test]
fn packets_on_standard_output_have_it_for_themselves() {
    let (folder, file) = (Folder::new("emulate-stdout"), "out.pcap");
    let to_file = emulate(KNOCKING, &[&CAPTURE[..], &["--out", &folder.file(file)]].concat());
    let to_stdout = emulate(KNOCKING, &[&CAPTURE[..], &["--out", "-"]].concat());
    assert_eq!(to_stdout.status.code(), Some(0), "{}", stderr(&to_stdout));
    assert_eq!(to_stdout.stdout, std::fs::read(folder.file(file)).expect("written"));
    assert!(stderr(&to_stdout).contains("cycles a second") && stdout(&to_file).contains("cycles a second"));
}
