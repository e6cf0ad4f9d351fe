//! What the program decides, packet by packet, and that the host answers for what is passed to it.

use std::net::IpAddr;

use paceline_live::Interface;
use paceline_live::xdp::{Action, HostPort, SocketOptions, Steered, Steering, Umem, XdpProgram, XdpSocket};

use crate::lab::Namespace;

struct Steers {
    program: XdpProgram,
    /// Packets of queue 0 have where to go.
    socket: XdpSocket,
}

fn steers(namespace: &Namespace, name: &str, steering: &Steering) -> Steers {
    let opened = namespace.inside(|| {
        let interface = Interface::open(name)?;
        let mut program = XdpProgram::attach(&interface, steering)?;
        let socket = XdpSocket::open(&Umem::mapped(64, 2_048, 0)?, &interface, 0, &SocketOptions::default())?;
        program.insert(&socket)?;
        Ok::<_, paceline_live::LiveError>(Steers { program, socket })
    });
    opened.unwrap_or_else(|error| panic!("{error}"))
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

fn ethernet(tags: &[u16], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    tags.iter().for_each(|tag| frame.extend([tag.to_be_bytes(), [0, 7]].concat()));
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    frame
}

/// With `words` words of options, at fragment offset `offset`.
fn ipv4(to: [u8; 4], protocol: u8, words: u8, offset: u16, port: u16) -> Vec<u8> {
    let mut packet = vec![0x45 + words, 0, 0, 40];
    packet.extend([0, 0, (offset >> 8) as u8, offset as u8, 64, protocol, 0, 0, 198, 51, 100, 1]);
    packet.extend(to);
    packet.extend(vec![1; usize::from(words) * 4]);
    packet.extend([[0x30, 0x39], port.to_be_bytes(), [0, 8], [0, 0]].concat());
    packet
}

fn ipv6(to: &str, next: u8, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let Ok(IpAddr::V6(to)) = to.parse() else { panic!("{to}") };
    let mut packet = vec![0x60, 0, 0, 0, 0, 8, next, hop_limit];
    packet.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    packet.extend(to.octets());
    packet.extend(payload);
    packet
}

/// By name, so that a failure says which.
fn frames() -> Vec<(&'static str, Vec<u8>)> {
    let (own, other) = ([192, 0, 2, 1], [192, 0, 2, 99]);
    let own_tcp = ipv4(own, TCP, 0, 0, 22);
    let cut = |mut frame: Vec<u8>, by: usize| {
        frame.truncate(frame.len() - by);
        frame
    };
    vec![
        ("arp", ethernet(&[], 0x0806, &[0; 28])),
        ("arp, tagged", ethernet(&[0x8100], 0x0806, &[0; 28])),
        ("arp, tagged thrice", ethernet(&[0x88a8, 0x8100, 0x8100], 0x0806, &[0; 28])),
        ("router solicitation", ethernet(&[], 0x86dd, &ipv6("ff02::2", ICMPV6, 255, &[133, 0, 0, 0]))),
        ("redirect", ethernet(&[], 0x86dd, &ipv6("2001:db8::9", ICMPV6, 255, &[137, 0, 0, 0]))),
        ("solicitation from afar", ethernet(&[], 0x86dd, &ipv6("ff02::1", ICMPV6, 254, &[135, 0]))),
        ("echo", ethernet(&[], 0x86dd, &ipv6("2001:db8::9", ICMPV6, 255, &[128, 0, 0, 0]))),
        ("after discovery", ethernet(&[], 0x86dd, &ipv6("2001:db8::9", ICMPV6, 255, &[138, 0, 0, 0]))),
        ("icmpv6 without a type", ethernet(&[], 0x86dd, &ipv6("2001:db8::9", ICMPV6, 255, &[]))),
        ("own tcp 22", ethernet(&[], 0x0800, &own_tcp)),
        ("own tcp 22, two tags", ethernet(&[0x88a8, 0x8100], 0x0800, &own_tcp)),
        ("own tcp 22, options", ethernet(&[], 0x0800, &ipv4(own, TCP, 10, 0, 22))),
        ("own tcp 80", ethernet(&[], 0x0800, &ipv4(own, TCP, 0, 0, 80))),
        ("own udp 22", ethernet(&[], 0x0800, &ipv4(own, UDP, 0, 0, 22))),
        ("own udp 53", ethernet(&[], 0x0800, &ipv4(own, UDP, 0, 0, 53))),
        ("own tcp 22, later fragment", ethernet(&[], 0x0800, &ipv4(own, TCP, 0, 5, 22))),
        ("other tcp 22", ethernet(&[], 0x0800, &ipv4(other, TCP, 0, 0, 22))),
        ("other tcp 80", ethernet(&[], 0x0800, &ipv4(other, TCP, 0, 0, 80))),
        ("own tcp 22, version 5", ethernet(&[], 0x0800, &[&[0x55], &own_tcp[1..]].concat())),
        ("own tcp 22, header of 16", ethernet(&[], 0x0800, &[&[0x44], &own_tcp[1..]].concat())),
        ("own tcp 22, cut in ports", ethernet(&[], 0x0800, &cut(own_tcp.clone(), 5))),
        ("own tcp 22, cut in address", ethernet(&[], 0x0800, &cut(own_tcp.clone(), 9))),
        ("own6 udp 53", ethernet(&[], 0x86dd, &ipv6("2001:db8::1", UDP, 64, &[0, 1, 0, 53, 0, 8, 0, 0]))),
        ("other6 udp 53", ethernet(&[], 0x86dd, &ipv6("2001:db8::9", UDP, 64, &[0, 1, 0, 53, 0, 8, 0, 0]))),
        (
            "own6 of version 4",
            ethernet(&[], 0x86dd, &[&[0x45], &ipv6("2001:db8::1", UDP, 64, &[0, 1, 0, 53])[1..]].concat()),
        ),
        ("header alone", ethernet(&[], 0x0800, &[])),
        ("cut in tag", ethernet(&[], 0x8100, &[0])),
        ("another kind", ethernet(&[], 0x88b5, &[0; 46])),
        ("to a group", to_group(ethernet(&[], 0x0800, &ipv4(other, UDP, 0, 0, 80)))),
        ("to a group, another kind", to_group(ethernet(&[], 0x88b5, &[0; 46]))),
        ("to a group, own tcp 80", to_group(ethernet(&[], 0x0800, &ipv4(own, TCP, 0, 0, 80)))),
        (
            "to a group, own6 udp 80",
            to_group(ethernet(&[], 0x86dd, &ipv6("2001:db8::1", UDP, 64, &[0, 1, 0, 80, 0, 8, 0, 0]))),
        ),
    ]
}

/// The frame to several stations.
fn to_group(mut frame: Vec<u8>) -> Vec<u8> {
    frame[0] |= 1;
    frame
}

/// Which rules pass which of the frames; all others go to the socket. Golden: bpf/steer.bpf.c changes with it.
#[test]
fn each_rule_passes_its_packets_and_no_others() {
    let Some(mut lab) = crate::lab("steer") else { return };
    let namespace = lab.namespace("one");
    lab.pair((&namespace, "a0"), (&namespace, "a1"));
    let own: Vec<IpAddr> = ["192.0.2.1", "2001:db8::1"].map(|address| address.parse().expect(address)).into();
    let ports = vec![HostPort::Tcp(22), HostPort::Udp(53)];
    let none = Steering::default();
    let neighbours = Steering { pass_neighbours: true, ..none.clone() };
    let addresses = Steering { pass_host_addresses: true, host_addresses: own.clone(), ..none.clone() };
    let groups = Steering { pass_groups: true, ..none.clone() };
    let any_ports = Steering { pass_ports: ports.clone(), ..none.clone() };
    let own_ports = Steering { pass_ports: ports, host_addresses: own, ..none.clone() };
    let discovery = ["arp", "arp, tagged", "router solicitation", "redirect"];
    let to_own = [
        "own tcp 22",
        "own tcp 22, two tags",
        "own tcp 22, options",
        "own tcp 80",
        "own udp 22",
        "own udp 53",
        "own tcp 22, later fragment",
        "own tcp 22, cut in ports",
        "own6 udp 53",
        "to a group, own tcp 80",
        "to a group, own6 udp 80",
    ];
    // A chain has the packets to these, but for those to the ports.
    let of_a_nat = Steering {
        pass_host_addresses: true,
        host_addresses: Vec::new(),
        port_addresses: own_ports.host_addresses.clone(),
        ..own_ports.clone()
    };
    // Of a router: what the Ethernet address says is no way past the chain to an address that the chain has.
    let guarded = Steering { pass_groups: true, pass_ports: Vec::new(), ..of_a_nat.clone() };
    let to_groups =
        ["to a group", "to a group, another kind", "to a group, own tcp 80", "to a group, own6 udp 80"];
    let to_own_ports =
        ["own tcp 22", "own tcp 22, two tags", "own tcp 22, options", "own udp 53", "own6 udp 53"];
    let to_ports = [&to_own_ports[..], &["other tcp 22", "other6 udp 53"]].concat();
    for (steering, passed) in [
        (&none, &[][..]),
        (&neighbours, &discovery),
        (&addresses, &to_own),
        (&any_ports, &to_ports),
        (&own_ports, &to_own_ports),
        (&groups, &to_groups),
        (&guarded, &to_groups[..2]),
        (&of_a_nat, &to_own_ports),
    ] {
        let steers = steers(&namespace, "a0", steering);
        let mut counted = Steered::default();
        for (name, frame) in frames() {
            let action = steers.program.try_out(&frame).unwrap_or_else(|error| panic!("{error}"));
            let expected = if passed.contains(&name) { Action::Pass } else { Action::Redirect };
            assert_eq!(action, expected, "{name}, with {steering:?}");
            counted.redirected += u64::from(action == Action::Redirect);
        }
        let passed = (frames().len() as u64) - counted.redirected;
        match steering {
            _ if steering.pass_neighbours || steering.pass_groups => counted.neighbours = passed,
            _ if steering.pass_host_addresses && steering.port_addresses.is_empty() => {
                counted.host_addresses = passed;
            }
            _ => counted.host_ports = passed,
        }
        assert_eq!(steers.program.counters().expect("it counts"), counted, "{steering:?}");
    }
}

#[test]
fn without_a_socket_packets_pass_and_addresses_can_change() {
    let Some(mut lab) = crate::lab("change") else { return };
    let namespace = lab.namespace("one");
    lab.pair((&namespace, "a0"), (&namespace, "a1"));
    let steering = Steering { pass_host_addresses: true, ..Steering::default() };
    let Steers { mut program, socket } = steers(&namespace, "a0", &steering);
    let frame = ethernet(&[], 0x0800, &ipv4([192, 0, 2, 7], TCP, 0, 0, 80));
    let decides = |program: &XdpProgram| program.try_out(&frame).expect("it can be tried");
    assert_eq!(decides(&program), Action::Redirect);
    for (addresses, action) in
        [(vec!["192.0.2.7", "2001:db8::7"], Action::Pass), (vec!["192.0.2.8"], Action::Redirect)]
    {
        let addresses: Vec<IpAddr> =
            addresses.iter().map(|address| address.parse().expect("an address")).collect();
        program.set_host_addresses(&addresses).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(decides(&program), action, "{addresses:?}");
    }
    let many: Vec<IpAddr> = (0..1_025u32).map(|i| IpAddr::from((0x0a00_0000 + i).to_be_bytes())).collect();
    let error = program.set_host_addresses(&many).expect_err("too many").to_string();
    assert!(error.contains("which addresses are the host's"), "{error}");
    assert_eq!(program.counters().expect("it counts").no_socket, 0);
    drop(socket);
    assert_eq!(decides(&program), Action::Pass, "the host's again");
    assert_eq!(program.counters().expect("it counts").no_socket, 1);
    assert!(program.try_out(&frame[..13]).is_err(), "the kernel takes no less than a header");
}

/// What an interface's later queues bring, where nothing is to pass beside the sockets.
#[test]
fn without_a_socket_packets_are_dropped_where_that_is_asked_for() {
    let Some(mut lab) = crate::lab("unserved") else { return };
    let namespace = lab.namespace("one");
    lab.pair((&namespace, "a0"), (&namespace, "a1"));
    let steering = Steering { drops_unserved: true, ..Steering::default() };
    let Steers { program, socket } = steers(&namespace, "a0", &steering);
    let frame = ethernet(&[], 0x0800, &ipv4([192, 0, 2, 7], TCP, 0, 0, 80));
    let decides = |program: &XdpProgram| program.try_out(&frame).expect("it can be tried");
    assert_eq!(decides(&program), Action::Redirect);
    drop(socket);
    assert_eq!(decides(&program), Action::Drop);
    assert_eq!(program.counters().expect("it counts").no_socket, 1);
}

/// The host behind the interface answers ARP and pings as if nothing were there, and a port that is passed is reached.
#[test]
fn the_host_answers_for_what_is_passed_to_it() {
    let Some(mut lab) = crate::lab("host") else { return };
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.pair((&left, "l0"), (&right, "r0"));
    left.ip("addr add 192.0.2.1/24 dev l0");
    right.ip("addr add 192.0.2.2/24 dev r0");
    left.ip("addr add 2001:db8::1/64 dev l0 nodad");
    right.ip("addr add 2001:db8::2/64 dev r0 nodad");
    let own: Vec<IpAddr> = ["192.0.2.2", "2001:db8::2"].map(|address| address.parse().expect(address)).into();
    let all = Steering {
        pass_neighbours: true,
        pass_host_addresses: true,
        host_addresses: own,
        ..Steering::default()
    };
    let steers_all = steers(&right, "r0", &all);
    assert!(left.ping("192.0.2.2", 3));
    assert!(left.ping("2001:db8::2", 3));
    let counted = steers_all.program.counters().expect("it counts");
    assert!(counted.neighbours >= 2 && counted.host_addresses >= 6, "{counted:?}");
    drop(steers_all);

    // Planted: without the rules the socket gets it all, and nobody answers.
    let steers_none = steers(&right, "r0", &Steering::default());
    assert!(!left.ping_once("192.0.2.2", 1));
    assert!(steers_none.program.counters().expect("it counts").redirected > 0);
    drop(steers_none);

    let port =
        Steering { pass_neighbours: true, pass_ports: vec![HostPort::Tcp(8080)], ..Steering::default() };
    let _steers = steers(&right, "r0", &port);
    let listens = right.bound(|| std::net::TcpListener::bind("192.0.2.2:8080"));
    let address = listens.local_addr().expect("it is bound");
    let reached = left.inside(|| {
        std::net::TcpStream::connect_timeout(&address, std::time::Duration::from_secs(60)).is_ok()
    });
    assert!(reached, "tcp/8080 is passed");
    assert!(!left.ping_once("192.0.2.2", 1), "and nothing else to the same address");
}
