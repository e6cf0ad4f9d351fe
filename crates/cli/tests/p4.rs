//! `paceline p4` as a user meets it.

use crate::support::{Scratch, json, paceline, stderr, stdout};

const CAPTURE: &str = "captures/edge.pcap";

const KNOCKING: &str = "examples/p4/port_knocking.p4";

#[test]
fn p4_programs_are_checked_compiled_and_run() {
    let check = paceline(&["p4", "check", KNOCKING]);
    assert_eq!((check.status.code(), stderr(&check).as_str()), (Some(0), ""));
    let ir = paceline(&["p4", "ir", KNOCKING]);
    assert!(stdout(&ir).contains("muTable ingress.port_knocking [4096] exact STRICT"), "{}", stdout(&ir));
    let compiled = paceline(&["p4", "compile", KNOCKING, "--json", "-"]);
    assert_eq!(json(&compiled)["layout"]["span"], 2);
    let run = paceline(&["p4", "run", KNOCKING, "--stf", "examples/p4/port_knocking.stf", "--json", "-"]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert_eq!(json(&run)["state"]["mu_tables"][0]["entries"][0]["values"][0], "0x3");
}

/// With rights, the kernel checks what was made; without, the command says so. Either way the C is there.
#[test]
fn p4_programs_are_compiled_to_xdp() {
    if std::process::Command::new("clang").arg("--version").output().is_err() {
        eprintln!("skipped: there is no clang");
        return;
    }
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("p4-xdp");
    let out = folder.display().to_string();
    for strategy in ["sharded", "scr"] {
        let made =
            paceline(&["p4", "compile", KNOCKING, "--target", "xdp", "--strategy", strategy, "--out", &out]);
        assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
        let said = stdout(&made);
        assert!(said.contains("the kernel loads it") || said.contains("not tried in the kernel"), "{said}");
        let c = std::fs::read_to_string(folder.join("port_knocking.bpf.c")).expect("the C");
        assert!(c.contains("// port_knocking.p4:87  port_fsm.apply();"), "{c}");
        assert!(folder.join("port_knocking.bpf.o").is_file());
    }
    let learning = ["p4", "compile", "examples/p4/mac_learning.p4", "--target", "xdp", "--out", &out];
    let refused = paceline(&learning);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("mac_learning.p4:30:9: a multicast group"), "{}", stderr(&refused));
    let without = paceline(&["p4", "compile", KNOCKING, "--target", "xdp"]);
    assert_eq!(without.status.code(), Some(2));
    assert!(stderr(&without).contains("--out"), "{}", stderr(&without));
}

#[test]
fn p4_runs_over_captures() {
    let out = Scratch::new("p4-out.pcap", b"");
    let elephant = "examples/p4/elephant.p4";
    let run = paceline(&["p4", "run", elephant, "--pcap", CAPTURE, "--out", out.path(), "--json", "-"]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let report = json(&run);
    assert!(report["packets"].as_u64() > Some(1000));
    assert_eq!(report["packets"], report["packets_out"]);
    let again = paceline(&["inspect", "--pcap", out.path(), "--json", "-"]);
    assert_eq!(json(&again)["packets"], report["packets"]);
}

#[test]
fn p4_failures_have_their_exit_status() {
    let wrong = Scratch::new("wrong.stf", b"packet 0 00\nexpect 3 00\n");
    let unmet = paceline(&["p4", "run", KNOCKING, "--stf", wrong.path()]);
    assert_eq!(unmet.status.code(), Some(1));
    assert!(stdout(&unmet).contains("no packet came out of port 3"), "{}", stdout(&unmet));
    let unread = Scratch::new("unread.stf", b"\npaket 0 00\n");
    let refused = paceline(&["p4", "run", KNOCKING, "--stf", unread.path()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused).contains("line 2: there is no command `paket`; did you mean `packet`?"),
        "{}",
        stderr(&refused)
    );
    let program =
        Scratch::new("bad.p4", b"#include <v1model.p4>\nstruct s { bitt x; }\nheader h { bit<3> y; }\n");
    let bad = paceline(&["p4", "check", program.path()]);
    assert_eq!(bad.status.code(), Some(2));
    for part in [
        "3 errors",
        "there is no type `bitt`",
        "did you mean `bit`?",
        "add 5 bits of padding",
        "has no `main`",
    ] {
        assert!(stderr(&bad).contains(part), "{part}: {}", stderr(&bad));
    }
}

/// What a program takes of a chip, as text, JSON and a drawing; and what does not fit, with its place.
#[test]
fn p4_resources_are_shown_or_refused() {
    let all = paceline(&["p4", "resources", KNOCKING]);
    assert_eq!(all.status.code(), Some(0), "{}", stderr(&all));
    for part in ["rapid", "2 of 4", "banzai: muTable ingress.port_knocking (port_knocking.p4:"] {
        assert!(stdout(&all).contains(part), "{part}: {}", stdout(&all));
    }
    let rapid = ["p4", "resources", KNOCKING, "--profile", "rapid"];
    let text = paceline(&[&rapid[..], &["--sources"]].concat());
    for part in
        ["port_knocking.p4 fits `rapid`", "W", "hash units of a stage: 4 (RAPID §6.1: 4 hash modules)"]
    {
        assert!(stdout(&text).contains(part), "{part}: {}", stdout(&text));
    }
    assert!(stdout(&text).lines().all(|line| line.chars().count() <= 100), "{}", stdout(&text));
    let plan = json(&paceline(&[&rapid[..], &["--json", "-"]].concat()));
    assert_eq!(
        (&plan["parts"][1]["written_from"], &plan["profile"]["stages"]["number"]),
        (&2.into(), &4.into())
    );
    let drawn = paceline(&[&rapid[..], &["--svg", "-"]].concat());
    assert!(stdout(&drawn).starts_with("<svg") && stdout(&drawn).contains("stage 2"), "{}", stdout(&drawn));

    let refused = paceline(&["p4", "resources", KNOCKING, "--profile", "banzai"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stdout(&refused));
    let said = stderr(&refused).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("which takes a ring, and there is none"), "{said}");
    let unknown = paceline(&["p4", "resources", KNOCKING, "--profile", "rapit"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("there is no profile `rapit`"), "{}", stderr(&unknown));
    let bad = Scratch::new("chip.toml", b"name = 3\n");
    let bad = paceline(&["p4", "resources", KNOCKING, "--profile", bad.path()]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(stderr(&bad).contains("line 1"), "{}", stderr(&bad));
}

/// Packets in hexadecimal: what leaves is shown.
#[test]
fn p4_runs_over_packets_in_hexadecimal() {
    let frame = "02000000000102000000000288b5";
    let elephant = "examples/p4/elephant.p4";
    let run = paceline(&["p4", "run", elephant, "--packet", frame, "--packet", "0200 0000"]);
    let shown = format!("packet:\n  port 1: {frame}\npacket:\n  port 1: 02000000\n");
    assert!(stdout(&run).contains(&shown), "{}{}", stdout(&run), stderr(&run));
    // No TCP, no connection.
    let nat =
        paceline(&["p4", "run", "examples/p4/nat_lb.p4", "--packet", frame, "--port", "3", "--json", "-"]);
    let sent = &json(&nat)["sent"][0];
    assert_eq!((&sent["port"], sent["out"].as_array().map(Vec::len)), (&3.into(), Some(0)));
    let wrong = paceline(&["p4", "run", elephant, "--packet", "0200z"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("pairs of hexadecimal digits"), "{}", stderr(&wrong));
}
