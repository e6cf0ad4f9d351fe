//! `paceline emulate` as a user meets it.

use std::process::{Command, Stdio};

use crate::support::{Folder, by_line, json, paceline, root, stderr, stdout};

#[test]
fn a_sweep_writes_what_it_found() {
    let folder = Folder::new("sweep");
    let (csv, html) = (folder.file("sweep.csv"), folder.file("sweep.html"));
    let sweep = by_line(&format!(
        "emulate sweep --pcap captures/edge.pcap --update-rates 10,50 --stages 2,4 --search=0.01 --csv {csv} --html {html} --svg {} --json -",
        folder.path()
    ));
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
fn drawings_are_whole_or_as_they_were() {
    let folder = Folder::new("whole");
    let older = || std::fs::read_to_string(folder.file("fig3.svg")).expect("a file");
    std::fs::write(folder.file("fig3.svg"), "older").expect("written");
    std::fs::create_dir(folder.file("figc.svg")).expect("a folder");
    let refused =
        paceline(&["emulate", "sweep", "--figure", "3,c", "--packets", "500", "--svg", folder.path()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("figc.svg is a directory"), "{}", stderr(&refused));
    assert_eq!(
        (older().as_str(), folder.names()),
        ("older", vec!["fig3.svg".to_owned(), "figc.svg".to_owned()])
    );
    let html = folder.file("fig3.svg");
    let twice =
        ["emulate", "sweep", "--figure", "3", "--packets", "500", "--html", &html, "--svg", folder.path()];
    let twice = paceline(&twice);
    assert!(stderr(&twice).contains("they are one file"), "{}", stderr(&twice));
    assert_eq!(older(), "older");
}

/// Interrupted in one way, and killed in the other: only that cannot be tidied up after.
#[test]
fn an_interrupted_sweep_leaves_older_drawings() {
    for (signal, status, left) in [("-INT", Some(130), 1), ("-KILL", None, 2)] {
        let folder = Folder::new(&format!("interrupted{signal}"));
        let drawing = folder.file("fig16.svg");
        std::fs::write(&drawing, "older").expect("written");
        let sweep = ["emulate", "sweep", "--figure", "16", "--packets", "300000", "--svg", folder.path()];
        let mut child = Command::new(env!("CARGO_BIN_EXE_paceline"));
        let child = child.current_dir(root()).args(sweep).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child.spawn().expect("the program runs");
        let partial = folder.file("fig16.svg.partial");
        for _ in 0..600 {
            if std::path::Path::new(&partial).exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let killed = Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(killed.expect("kill runs").success());
        assert_eq!(child.wait().expect("it ends").code(), status);
        assert_eq!(std::fs::read_to_string(&drawing).expect("a file"), "older", "{signal}");
        assert_eq!(folder.names().len(), left, "{signal}: {:?}", folder.names());
    }
}

#[test]
fn what_cannot_be_swept_is_refused() {
    let cases: [(&[&str], &str); 9] = [
        (&["--stages", "17"], "a whole number, 1 to 16"),
        (&["--update-rates", "10,101"], "101 is not in 0..=100"),
        (&["--models", "drmt"], "possible values: pisa"),
        (&["--consistency", "eventual"], "strict, weak, or bs"),
        (&["--search=1.5"], "below 1; 0.1% is 0.001"),
        (&["--models", "banzai"], "banzai can write a table only in the stage that reads it"),
        (&["--traffic", "no-such-model"], "no-such-model"),
        (&["--figure", "13", "--pcap", "captures/edge.pcap"], "figures other than 3 and 12"),
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

/// The message names what was given, and not all that could have been.
#[test]
fn a_figure_with_an_option_of_the_grid_is_refused() {
    let refused = by_line("emulate sweep --figure 13 --rb 4");
    assert_eq!(refused.status.code(), Some(2));
    let text = stderr(&refused);
    assert!(text.contains("cannot be used with '--rb <N,...>'") && !text.contains("--models"), "{text}");
}
