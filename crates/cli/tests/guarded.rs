//! Whether the chain guards this host itself: `--host`.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use crate::live::{number, of};
use crate::service::Lan;
use crate::support::{paceline, stderr};

const PATIENCE: Duration = Duration::from_secs(60);
/// So long an answer that is not to come is waited for.
const SHORT: Duration = Duration::from_millis(300);

const DENIED: u16 = 7_001;
const ALLOWED: u16 = 7_002;
const CHAIN: &str = "name = \"guard\"\n[[function]]\nuse = \"access-list\"\ndefault = \"deny\"\nrules = [\n\
                     \"allow icmp from any to any\",\n\"allow udp from any to any port 7002\",\n\
                     \"allow tcp from any to any port 7002\",\n]\n";

/// A router with the chain, and addresses of both versions.
fn router(label: &str) -> Option<Lan> {
    let lan = Lan::new(label)?;
    lan.routed();
    lan.left.ip("addr add 2001:db8:1::10/64 dev eth0 nodad");
    lan.gateway.ip("addr add 2001:db8:1::1/64 dev in nodad");
    // As some distributions have it: what comes by another interface than its source's is dropped.
    lan.gateway.write("/proc/sys/net/ipv4/conf/all/rp_filter", "1");
    fs::write(lan.folder.file("guard.toml"), CHAIN).expect("a folder of the test");
    Some(lan)
}

/// The gateway's own TCP server, which has answered one from inside.
fn echoes(lan: &Lan) -> TcpListener {
    let listens = lan.gateway.bound(|| TcpListener::bind(("10.0.0.1", ALLOWED)));
    let echoed = thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listens.accept().expect("it is reached");
            let mut bytes = [0; 5];
            stream.read_exact(&mut bytes).and_then(|()| stream.write_all(&bytes)).expect("it is spoken to");
        });
        lan.left.inside(|| {
            let mut stream = TcpStream::connect(("10.0.0.1", ALLOWED)).expect("it is allowed");
            let mut bytes = [0; 5];
            stream.write_all(b"hello").and_then(|()| stream.read_exact(&mut bytes)).expect("it answers");
            bytes
        })
    });
    assert_eq!(&echoed, b"hello");
    listens
}

/// Whether the gateway's own server at this address and port answers a datagram from inside.
fn answers(lan: &Lan, address: &str, port: u16, patience: Duration) -> bool {
    let server = lan.gateway.bound(|| UdpSocket::bind((address, port)));
    let any = if address.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let client = lan.left.bound(|| UdpSocket::bind(any));
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(patience)).expect("a socket");
    }
    client.send_to(b"a question", (address, port)).expect("it is sent");
    let mut buffer = [0; 64];
    let Ok((_, from)) = server.recv_from(&mut buffer) else { return false };
    server.send_to(b"an answer", from).expect("it is sent");
    client.recv(&mut buffer).is_ok()
}

#[test]
fn the_chain_guards_the_host_where_it_is_asked_to() {
    let Some(lan) = router("guarded") else { return };
    let chain = lan.folder.file("guard.toml");
    let route = [&*chain, "--mode", "route", "--socket", "xdp"];
    let addresses = ["10.0.0.1", "203.0.113.1", "2001:db8:1::1"];

    // By default it does not, and says so.
    let run = lan.start(&route, &[]);
    assert!(
        run.said.contains("note: this host is not guarded: packets to its own addresses go"),
        "{}",
        run.said
    );
    for address in addresses {
        assert!(answers(&lan, address, DENIED, PATIENCE), "{address}, past the chain");
    }
    lan.ctl(&["stop"]);
    run.ended();

    let run = lan.start(&[&route[..], &["--host", "chain"]].concat(), &[]);
    assert!(!run.said.contains("guarded"), "{}", run.said);
    for address in addresses {
        assert!(!answers(&lan, address, DENIED, SHORT), "{address}");
        assert!(answers(&lan, address, ALLOWED, PATIENCE), "{address}");
    }
    assert!(lan.left.ping("10.0.0.1", 2));
    let _listens = echoes(&lan);
    // A reload changes nothing of it.
    lan.ctl(&["reload", &chain]);
    assert!(!answers(&lan, "10.0.0.1", DENIED, SHORT));
    lan.ctl(&["stop"]);
    let report = run.ended();
    assert!(number(&report["routing"]["host"]) >= 6, "{:#}", report["routing"]);
    assert_eq!(of(&report, "in")["lost"], serde_json::json!({}));

    // But for what is left to the host by name.
    let run = lan.start(&[&route[..], &["--host", "chain", "--pass-to-host", "udp/7001"]].concat(), &[]);
    assert!(run.said.contains("note: this host is guarded but for udp/7001"), "{}", run.said);
    assert!(answers(&lan, "10.0.0.1", DENIED, PATIENCE));
    lan.ctl(&["stop"]);
    run.ended();
}

/// A rule that names the gateway's address, and no state, is about the gateway itself: here, whom its TCP port answers.
#[test]
fn a_rule_of_a_firewall_says_who_may_reach_the_host() {
    let Some(lan) = router("guarded-firewall") else { return };
    lan.left.ip("addr add 10.0.0.11/24 dev eth0");
    let chain = "name = \"guard\"\n[[function]]\nuse = \"firewall\"\nsets = { gateway = [\"10.0.0.1\"] }\nrules = [\n\
                 \"accept tcp from 10.0.0.10 to @gateway port 7002\",\n\
                 \"reject tcp from any to @gateway\",\n\
                 \"accept any from any to any state established,related\",\n]\n";
    fs::write(lan.folder.file("guard.toml"), chain).expect("a folder of the test");
    let path = lan.folder.file("guard.toml");
    let run = lan.start(&[&*path, "--mode", "route", "--socket", "xdp", "--host", "chain"], &[]);
    assert!(run.said.contains("note: firewall does not see this host's answers"), "{}", run.said);
    let _listens = echoes(&lan);
    lan.left.ip("route replace 10.0.0.0/24 dev eth0 src 10.0.0.11");
    let refused =
        lan.left.inside(|| TcpStream::connect(("10.0.0.1", ALLOWED))).expect_err("from another address");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{refused}");
    lan.ctl(&["stop"]);
    run.ended();
}

#[test]
fn where_it_would_not_hold_it_is_refused() {
    for (arguments, why) in [
        (&["--mirror", "lo"][..], "not for a mirror"),
        (&["--inside", "lo", "--outside", "eth0"], "for --mode route and --on"),
        (&["--on", "lo", "--socket", "packet"], "needs AF_XDP"),
    ] {
        let output = paceline(&[&["run", "examples/edge.toml", "--host", "chain"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(why), "{arguments:?}: {}", stderr(&output));
    }
}
