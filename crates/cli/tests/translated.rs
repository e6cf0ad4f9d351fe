//! ICMP errors about translated packets: they reach the end that sent the packet, and quote it as that end sent it. The balancer's
//! `vip` is an address of the gateway's own.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::lab::Namespace;
use crate::live::number;
use crate::service::{Lan, Run};

/// How long something may stand still. A busy machine holds it up.
const PATIENCE: Duration = Duration::from_secs(30);
const BYTES: usize = 300_000;
/// The MTU of one of the gateway's links, bytes; the hosts' links have 1,500.
const NARROW: u32 = 1_300;
const VIP: [&str; 2] = ["203.0.113.80", "2001:db8:2::80"];
const BACKEND: [&str; 2] = ["10.0.0.10:8080", "[2001:db8:1::10]:8080"];

/// Clients are to the right, the backend is to the left. `narrow` is the gateway's narrow interface.
fn balanced(label: &str, narrow: &str, socket: &str) -> Option<(Lan, Run)> {
    let lan = Lan::new(&format!("translated-{label}"))?;
    lan.routed();
    for (host, address, interface) in [
        (&lan.gateway, "203.0.113.80/32", "out"),
        (&lan.gateway, "2001:db8:2::80/128", "out"),
        (&lan.left, "2001:db8:1::10/64", "eth0"),
        (&lan.gateway, "2001:db8:1::1/64", "in"),
        (&lan.gateway, "fe80::1/64", "in"),
        (&lan.gateway, "2001:db8:2::1/64", "out"),
        (&lan.gateway, "fe80::2/64", "out"),
        (&lan.right, "2001:db8:2::2/64", "eth0"),
    ] {
        let nodad = if address.contains(':') { " nodad" } else { "" };
        host.ip(&format!("addr add {address} dev {interface}{nodad}"));
    }
    lan.left.ip("-6 route add default via 2001:db8:1::1");
    lan.gateway.ip(&format!("link set {narrow} mtu {NARROW}"));
    let service = |vip: &str, port: u16, protocol: &str, backend: &str, backend_port: u16| {
        format!(
            "[[function.services]]\nvip = \"{vip}\"\nport = {port}\nprotocol = \"{protocol}\"\n\
             backends = [{{ address = \"{backend}\", port = {backend_port} }}]\n"
        )
    };
    let text = [
        "name = \"balanced\"\n[[function]]\nuse = \"load-balancer\"\nrewrite_answers = true\n".to_owned(),
        service(VIP[0], 80, "tcp", "10.0.0.10", 8_080),
        service(VIP[0], 53, "udp", "10.0.0.10", 5_353),
        service(VIP[1], 80, "tcp", "2001:db8:1::10", 8_080),
        service(VIP[1], 53, "udp", "2001:db8:1::10", 5_353),
    ];
    let chain = lan.folder.file("balanced.toml");
    std::fs::write(&chain, text.concat()).expect("a folder of the test");
    let run = lan.start(&[&chain, "--mode", "route", "--socket", socket], &[]);
    Some((lan, run))
}

/// A connection of a client to the service: what it sends first, and what it gets then, in bytes.
fn exchange(lan: &Lan, family: usize, [sent, got]: [usize; 2]) {
    let backend: SocketAddr = BACKEND[family].parse().expect("an end");
    let listener = lan.left.bound(|| TcpListener::bind(backend));
    let service = SocketAddr::new(VIP[family].parse().expect("an address"), 80);
    let mut client =
        lan.right.inside(|| TcpStream::connect_timeout(&service, PATIENCE)).expect("the backend answers");
    let (mut accepted, _) = listener.accept().expect("it connected");
    for stream in [&client, &accepted] {
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
    }
    let server = thread::spawn(move || {
        let mut bytes = vec![0; sent];
        accepted.read_exact(&mut bytes).expect("all that was sent");
        accepted.write_all(&vec![7; got]).expect("it is sent");
    });
    client.write_all(&vec![7; sent]).expect("it is sent");
    let mut bytes = vec![0; got];
    client.read_exact(&mut bytes).expect("all that was sent");
    server.join().expect("no panic");
}

/// The MTU that a host has learned of the way to an address.
fn learned(host: &Namespace, address: &str) -> Option<u32> {
    let said = host.ip(&format!("route get {address}"));
    let mut words = said.split_whitespace().skip_while(|word| *word != "mtu");
    words.nth(1).and_then(|mtu| mtu.parse().ok())
}

fn dropped(report: &Value) -> Vec<&str> {
    report["routing"]["dropped"].as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn a_client_learns_that_the_backends_link_is_narrow() {
    let Some((lan, run)) = balanced("upload", "in", "xdp") else { return };
    for (family, vip) in VIP.into_iter().enumerate() {
        exchange(&lan, family, [BYTES, 1]);
        assert_eq!(learned(&lan.right, vip), Some(NARROW), "by the router's error");
    }
    lan.ctl(&["stop"]);
    assert_eq!(dropped(&run.ended()), ["above-mtu"]);
}

#[test]
fn a_backend_learns_that_the_clients_link_is_narrow() {
    let Some((lan, run)) = balanced("download", "out", "xdp") else { return };
    for (family, client) in ["203.0.113.2", "2001:db8:2::2"].into_iter().enumerate() {
        exchange(&lan, family, [1, BYTES]);
        assert_eq!(learned(&lan.left, client), Some(NARROW), "by the router's error");
    }
    lan.ctl(&["stop"]);
    assert_eq!(dropped(&run.ended()), ["above-mtu"]);
}

/// The backend's own "port unreachable" is the service's to the client.
#[test]
fn a_client_learns_that_nobody_listens() {
    let Some((lan, run)) = balanced("unreachable", "in", "xdp") else { return };
    for (vip, any) in VIP.into_iter().zip(["203.0.113.2:0", "[2001:db8:2::2]:0"]) {
        let client = lan.right.bound(|| UdpSocket::bind(any));
        client.set_read_timeout(Some(PATIENCE)).expect("a socket");
        client.connect(SocketAddr::new(vip.parse().expect("an address"), 53)).expect("a socket");
        client.send(b"question").expect("it is sent");
        let error = client.recv(&mut [0; 100]).expect_err("nobody listens");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{vip}: {error}");
    }
    lan.ctl(&["stop"]);
    let report = run.ended();
    assert!(report.to_string().contains("\"errors-translated\":2"), "{report:#}");
}

/// A packet from outside, to a NAT's external address, that is too long for the inside.
#[test]
fn the_outside_learns_that_the_inside_is_narrow() {
    let Some(lan) = Lan::new("translated-nat") else { return };
    lan.routed();
    lan.gateway.ip(&format!("link set in mtu {NARROW}"));
    let chain = lan.folder.nat_chain();
    let run = lan.start(&[&chain, "--mode", "route", "--socket", "xdp"], &[]);
    let outside = lan.right.bound(|| UdpSocket::bind("203.0.113.2:9000"));
    let inside = lan.left.bound(|| UdpSocket::bind("10.0.0.10:7000"));
    for socket in [&outside, &inside] {
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    }
    inside.send_to(b"hello", "203.0.113.2:9000").expect("it is sent");
    let (_, mapped) = outside.recv_from(&mut [0; 100]).expect("it arrives");
    assert_eq!(learned(&lan.right, "203.0.113.1"), None);
    // The first is too long and gets lost. From then on the kernel sends fragments, which the NAT does not take.
    outside.send_to(&[7; 1_400], mapped).expect("it is sent");
    let has_learned = || learned(&lan.right, "203.0.113.1") == Some(NARROW);
    assert!((0..500).any(|_| has_learned() || {
        thread::sleep(Duration::from_millis(20));
        false
    }));
    outside.send_to(&[7; 1_200], mapped).expect("it is sent");
    assert_eq!(inside.recv(&mut [0; 2_000]).expect("it arrives"), 1_200);
    lan.ctl(&["stop"]);
    let report = run.ended();
    assert_eq!(dropped(&report), ["above-mtu"]);
    assert_eq!(number(&report["routing"]["icmp_errors"]), 1);
}
