//! What is asked of cards where there are none: it is said, and packets pass.

use serde_json::json;

use crate::live::{of, transfer};
use crate::service::Lan;

/// The run does the work of the driver itself.
#[test]
fn packets_pass_where_the_run_polls_the_driver() {
    let Some(lan) = Lan::new("poll-driver") else { return };
    let chain = lan.folder.file("track.toml");
    let run = lan.start(&[&chain, "--socket", "xdp", "--poll", "driver"], &[]);
    assert!(lan.left.ping("192.0.2.2", 3));
    assert!(transfer((&lan.left, "192.0.2.2:7000"), (&lan.right, "192.0.2.2:7000"), 8 << 20), "TCP");
    run.signal("-TERM");
    let report = run.ended();
    for interface in ["in", "out"] {
        assert_eq!(of(&report, interface)["lost"], json!({}), "{report:#}");
    }
}

#[test]
fn a_virtual_interface_has_no_hash_to_be_set() {
    let Some(lan) = Lan::new("card-rss") else { return };
    let chain = lan.folder.file("track.toml");
    for socket in ["xdp", "packet"] {
        let arguments = ["--socket", socket, "--card-rss", "--strategy", "rss", "--cores", "2"];
        let run = lan.start(&[&[chain.as_str()], &arguments[..]].concat(), &[]);
        let expected = match socket {
            "xdp" => "note: in: the card's own hash of `in` stays as it is: its driver has no settable hash",
            _ => "note: in: the card's own hash stays as it is without AF_XDP",
        };
        assert!(run.said.contains(expected), "{}", run.said);
        assert!(lan.left.ping("192.0.2.2", 2), "packets pass");
        run.signal("-TERM");
        let report = run.ended();
        assert_eq!(of(&report, "in")["lost"], json!({}), "{report:#}");
    }
}
