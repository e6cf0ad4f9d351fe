//! `paceline emulate` as a user meets it.

use support::{Folder, json, paceline, stderr, stdout};

mod support;

#[test]
fn a_sweep_writes_what_it_found() {
    let folder = Folder::new("sweep");
    let (csv, html) = (folder.file("sweep.csv"), folder.file("sweep.html"));
    let sweep = paceline(&[
        "emulate",
        "sweep",
        "captures/edge.pcap",
        "--update-rates",
        "10,50",
        "--stages",
        "2,4",
        "--search=0.01",
        "--csv",
        &csv,
        "--html",
        &html,
        "--svg",
        folder.path(),
        "--json",
        "-",
    ]);
    assert_eq!(sweep.status.code(), Some(0), "{}", stderr(&sweep));
    let found = json(&sweep);
    assert_eq!((found["complete"].as_bool(), found["rows"].as_array().map(Vec::len)), (Some(true), Some(8)));
    let row = &found["rows"][0];
    assert_eq!(
        (row["settings"]["model"].as_str(), row["report"]["model"].as_str()),
        (Some("rapid"), Some("rapid"))
    );
    assert_eq!(row["settings"]["load"], "loss <= 1%");
    assert_eq!(std::fs::read_to_string(&csv).expect("rows").lines().count(), 9);
    assert!(std::fs::read_to_string(&html).expect("a page").starts_with("<!DOCTYPE html>"));
    assert!(std::fs::read_to_string(folder.file("sweep.svg")).expect("a drawing").starts_with("<svg xmlns"));
}

#[test]
fn figures_are_drawn() {
    let folder = Folder::absent("figures");
    let figures =
        paceline(&["emulate", "sweep", "--figure", "c,3", "--packets", "500", "--svg", folder.path()]);
    assert_eq!(figures.status.code(), Some(0), "{}", stderr(&figures));
    assert_eq!(folder.names(), ["fig3.svg", "figc.svg"]);
    let text = stdout(&figures);
    let (first, second) = (text.find("Fig. 3:"), text.find("App. C:"));
    assert!(first.is_some() && first < second, "{text}");
}

#[test]
fn what_cannot_be_swept_is_refused() {
    let cases: [(&[&str], &str); 9] = [
        (&["--stages", "17"], "17 is not in 1..=16"),
        (&["--update-rates", "10,101"], "101 is not in 0..=100"),
        (&["--models", "drmt"], "possible values: pisa"),
        (&["--consistency", "eventual"], "strict, weak, or bs"),
        (&["--search=1.5"], "below 1; 0.1% is 0.001"),
        (&["--models", "banzai"], "banzai can write a table only in the stage that reads it"),
        (&["no-such-model"], "no-such-model"),
        (&["--figure", "13", "captures/edge.pcap"], "figures other than 3 and 12"),
        (
            &[
                "--loads",
                "1,2,3,4,5,6,7,8,9,10",
                "--pb",
                "1,2,3,4,5,6,7,8,9,10",
                "--rb",
                "1,2,3,4,5,6,7,8,9,10",
                "--dtable",
                "1,2,3,4,5,6,7,8,9,10",
                "--stages",
                "1,2,3,4,5,6,7,8,9,10",
            ],
            "more than 100,000 places",
        ),
    ];
    for (args, message) in cases {
        let refused = paceline(&[&["emulate", "sweep"], args].concat());
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        assert!(stderr(&refused).contains(message), "{args:?}: {}", stderr(&refused));
    }
}
