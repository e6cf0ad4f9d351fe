//! Datagrams that no link takes whole, through a gateway with a NAT: the kernel's own fragments, both ways, under each strategy.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use crate::live::number;
use crate::service::{Lan, Run};

/// How long an answer may take. A busy machine holds it up.
const PATIENCE: Duration = Duration::from_secs(30);
const DATAGRAM: usize = 4_000;
/// A DNS answer with signatures, which needs EDNS, and two fragments.
const ANSWER: usize = 1_800;
const HOST: &str = "10.0.0.10";
const SERVER: &str = "203.0.113.2";
/// An address outside that is one inside host's.
const OWN: &str = "203.0.113.9";

fn chain(fragments: &str) -> String {
    format!(
        "name = \"gateway\"\nfragments = \"{fragments}\"\ninside = [\"10.0.0.0/24\"]\n\
         [[function]]\nuse = \"firewall\"\ndefault = \"drop\"\nrules = [\"accept any from any to any state established,related\", \
         \"accept any from any to any in inside\", \"accept udp from any to 10.0.0.10 port 4000\", \
         \"accept icmp from any to 10.0.0.11 type echo-request\"]\n\
         [[function]]\nuse = \"policer\"\nrate_bytes_per_s = 100000000\nburst_bytes = 1000000\n\
         [[function]]\nuse = \"nat\"\ninside = [\"10.0.0.0/24\"]\nexternal = [\"203.0.113.1\"]\nhairpinning = false\n\
         forwards = [\"udp 203.0.113.1:5300 to 10.0.0.10:4000\"]\none_to_one = [\"{OWN} to 10.0.0.11\"]\n"
    )
}

/// Hosts whose links take 1,500 bytes, and the gateway between them.
fn gateway(label: &str, fragments: &str, arguments: &[&str]) -> Option<(Lan, Run)> {
    let lan = Lan::new(&format!("fragmented-{label}"))?;
    lan.routed();
    lan.left.ip("addr add 10.0.0.11/24 dev eth0");
    lan.gateway.ip(&format!("addr add {OWN}/32 dev out"));
    for (host, address) in [(&lan.gateway, HOST), (&lan.gateway, SERVER)] {
        assert!(host.ping(address, 1), "{address} is a neighbour");
    }
    let path = lan.folder.file("gateway.toml");
    fs::write(&path, chain(fragments)).expect("a folder of the test");
    let run = lan.start(&[&[&*path, "--mode", "route", "--socket", "xdp"], arguments].concat(), &[]);
    Some((lan, run))
}

fn socket(of: &crate::lab::Namespace, address: &str) -> UdpSocket {
    let socket = of.bound(|| UdpSocket::bind(address));
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    socket
}

/// Bytes that differ, so that a piece in another's place is seen.
fn bytes(len: usize, of: u8) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 ^ of).collect()
}

/// From one socket to an address; says who sent it, as its receiver sees it.
fn carried(from: &UdpSocket, to: &str, receiver: &UdpSocket, sent: &[u8]) -> SocketAddr {
    from.send_to(sent, to.parse::<SocketAddr>().expect("an end")).expect("it is sent");
    let mut buffer = vec![0; 1 << 16];
    let (len, sender) = receiver.recv_from(&mut buffer).expect("it arrives");
    assert!(buffer[..len] == *sent, "as it was sent");
    sender
}

/// Whether each of some long echo requests is answered.
fn pings(from: &crate::lab::Namespace, source: &str, address: &str) -> bool {
    let output = from.run("ping", &format!("-n -q -i 0.3 -W 10 -c 3 -s {DATAGRAM} -I {source} {address}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let are_answered = output.status.success() && said.contains(" 0% packet loss");
    if !are_answered {
        println!("{said}{}", String::from_utf8_lossy(&output.stderr));
    }
    are_answered
}

fn all_ways(label: &str, arguments: &[&str]) {
    let Some((lan, run)) = gateway(label, "follow", arguments) else { return };
    if ["rss", "rsspp"].contains(&label) {
        let said = "one thread that receives and sends for them: with `fragments = \"track\"` or `\"follow\"` one thread";
        assert!(run.said.contains(said), "{}", run.said);
    }
    assert!(pings(&lan.left, HOST, SERVER), "from inside, by a mapping");
    assert!(pings(&lan.right, SERVER, OWN), "from outside, to an address of one host");
    let server = socket(&lan.right, &format!("{SERVER}:53"));
    let client = socket(&lan.left, &format!("{HOST}:0"));
    // A short question and a long answer; then long ones, both ways.
    for (number, (asked, answered)) in
        [(60, ANSWER), (DATAGRAM, DATAGRAM), (20_000, 20_000)].into_iter().enumerate()
    {
        let number = number as u8;
        let mapped = carried(&client, &format!("{SERVER}:53"), &server, &bytes(asked, number));
        assert_eq!(mapped.ip().to_string(), "203.0.113.1");
        let from = carried(&server, &mapped.to_string(), &client, &bytes(answered, number + 100));
        assert_eq!(from.to_string(), format!("{SERVER}:53"));
    }
    // By a forward.
    let (forwarded, outside) =
        (socket(&lan.left, &format!("{HOST}:4000")), socket(&lan.right, &format!("{SERVER}:0")));
    let seen = carried(&outside, "203.0.113.1:5300", &forwarded, &bytes(DATAGRAM, 7));
    let from = carried(&forwarded, &seen.to_string(), &outside, &bytes(DATAGRAM, 8));
    assert_eq!(from.to_string(), "203.0.113.1:5300");
    lan.ctl(&["stop"]);
    let report = run.ended();
    assert_eq!(number(&report["fragments"]["refused"]), 0, "{:#}", report["malformed"]);
}

#[test]
fn long_datagrams_cross_under_single() {
    all_ways("single", &["--strategy", "single"]);
}

#[test]
fn long_datagrams_cross_under_rss() {
    all_ways("rss", &["--strategy", "rss", "--cores", "2"]);
}

#[test]
fn long_datagrams_cross_under_rsspp() {
    all_ways("rsspp", &["--strategy", "rsspp", "--cores", "2"]);
}

#[test]
fn long_datagrams_cross_under_scr() {
    all_ways("scr", &["--strategy", "scr", "--cores", "2"]);
}

#[test]
fn long_datagrams_cross_under_auto() {
    all_ways("auto", &["--strategy", "auto", "--cores", "2"]);
}

/// Planted: what only tracks fragments, and does not have them follow, lets none through a NAT.
#[test]
fn without_it_they_do_not_cross() {
    let Some((lan, run)) = gateway("track", "track", &["--strategy", "single"]) else { return };
    let server = socket(&lan.right, &format!("{SERVER}:53"));
    let client = socket(&lan.left, &format!("{HOST}:0"));
    carried(&client, &format!("{SERVER}:53"), &server, &bytes(60, 1));
    client.send_to(&bytes(DATAGRAM, 1), (SERVER, 53)).expect("it is sent");
    carried(&client, &format!("{SERVER}:53"), &server, &bytes(61, 1));
    lan.ctl(&["stop"]);
    let report = run.ended().to_string();
    assert!(report.contains("\"fragment\":3"), "{report}");
}
