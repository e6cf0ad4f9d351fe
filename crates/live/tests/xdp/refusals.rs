//! What is not possible is refused in words that say what to do, and what was taken is given back.

use std::fs;

use paceline_live::Interface;
use paceline_live::xdp::{AttachMode, BusyPoll, Mode, SocketOptions, Steering, Umem, XdpProgram, XdpSocket};

#[test]
fn one_program_for_each_interface_and_none_when_it_is_dropped() {
    let Some(mut lab) = crate::lab("program") else { return };
    let namespace = lab.namespace("one");
    lab.pair((&namespace, "a0"), (&namespace, "a1"));
    let attach = || {
        namespace
            .inside(|| XdpProgram::attach(&Interface::open("a0").expect("it is there"), &Steering::default()))
    };
    let shown = || namespace.ip("link show dev a0");
    assert!(!shown().contains("xdp"));
    let first = attach().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(first.mode(), AttachMode::Native, "a veth has it");
    assert!(shown().contains("xdp"), "{}", shown());

    let error = attach().err().expect("there is one").to_string();
    for said in ["`a0` has another XDP program", "ip link set dev a0 xdp off"] {
        assert!(error.contains(said), "{error}");
    }
    drop(first);
    assert!(!shown().contains("xdp"), "{}", shown());

    // One that was attached otherwise, which the advice takes off.
    let object = namespace_object();
    for (how, off) in [("xdp", "xdp off"), ("xdpgeneric", "xdpgeneric off")] {
        let loaded = namespace.run("ip", &format!("link set dev a0 {how} obj {object} sec xdp"));
        if !loaded.status.success() {
            println!("not tried: ip loads no program: {}", String::from_utf8_lossy(&loaded.stderr));
            continue;
        }
        let error = attach().err().expect("there is one").to_string();
        assert!(error.contains("has another XDP program"), "{error}");
        namespace.ip(&format!("link set dev a0 {off}"));
        drop(attach().unwrap_or_else(|error| panic!("{error}")));
    }
    fs::remove_file(&object).expect("it was just written");
}

/// The program, in a file, for `ip` to load.
fn namespace_object() -> String {
    let path = std::env::temp_dir().join(format!("paceline-{}-source.bpf.o", std::process::id()));
    fs::write(&path, include_bytes!(concat!(env!("OUT_DIR"), "/source.bpf.o"))).expect("there is room");
    path.to_string_lossy().into_owned()
}

#[test]
fn a_queue_has_one_socket() {
    let Some(mut lab) = crate::lab("queue") else { return };
    let namespace = lab.namespace("one");
    lab.pair_of((&namespace, "a0"), (&namespace, "a1"), 2);
    let umem = Umem::mapped(16, 2_048, 0).expect("there is memory");
    let open = |queue, options: &SocketOptions| {
        namespace
            .inside(|| XdpSocket::open(&umem, &Interface::open("a0").expect("it is there"), queue, options))
    };
    let defaults = SocketOptions::default();
    let first = open(0, &defaults).unwrap_or_else(|error| panic!("{error}"));
    let error = open(0, &defaults).err().expect("it is taken").to_string();
    for said in ["queue 0 of interface `a0`: another AF_XDP socket has it", "ss --xdp"] {
        assert!(error.contains(said), "{error}");
    }
    let second = open(1, &defaults).unwrap_or_else(|error| panic!("{error}"));
    drop(first);
    let again = open(0, &defaults).unwrap_or_else(|error| panic!("{error}"));

    let mut program = namespace.inside(|| {
        let a1 = Interface::open("a1").expect("it is there");
        XdpProgram::attach(&a1, &Steering::default()).expect("it has none")
    });
    let error = program.insert(&again).expect_err("it is another interface's").to_string();
    assert!(error.contains("interface `a0` gets no packets of interface `a1`"), "{error}");
    drop((second, again));

    let busy_poll = Some(BusyPoll { micros: 20, budget: 64 });
    let mut polled =
        open(0, &SocketOptions { busy_poll, ..defaults.clone() }).unwrap_or_else(|error| panic!("{error}"));
    polled.wake_receive().unwrap_or_else(|error| panic!("{error}"));
    drop(polled);

    for (queue, options, said) in [
        (2, defaults.clone(), "interface `a0` has no queue 2: it has 2"),
        (0, SocketOptions { fill: 100, ..defaults.clone() }, "no rings of 100 entries"),
        (0, SocketOptions { receive: 0, ..defaults.clone() }, "no rings of 0 entries"),
        (0, SocketOptions { mode: Mode::ZeroCopy, ..defaults.clone() }, "its driver has no zero-copy"),
    ] {
        let error = open(queue, &options).err().expect(said).to_string();
        assert!(error.contains(said), "{error}");
    }
    namespace.ip("link set dev a0 mtu 3000");
    let error = open(0, &defaults).err().expect("too long").to_string();
    assert!(error.contains("up to 3022 bytes, and a chunk has room for 1792"), "{error}");
    assert!(error.contains("ip link set dev a0 mtu 1770"), "{error}");
}

#[test]
fn an_interface_that_goes_away_is_an_error_and_not_a_silence() {
    let Some(mut lab) = crate::lab("gone") else { return };
    let namespace = lab.namespace("one");
    lab.pair((&namespace, "a0"), (&namespace, "a1"));
    let umem = Umem::mapped(16, 2_048, 0).expect("there is memory");
    let mut socket = namespace
        .inside(|| XdpSocket::open(&umem, &Interface::open("a0")?, 0, &SocketOptions::default()))
        .unwrap_or_else(|error| panic!("{error}"));
    for change in ["link set dev a0 down", "link del dev a0"] {
        namespace.ip(change);
        socket.transmit(&[paceline_live::xdp::Descriptor { address: 0, len: 60, goes_on: false }]);
        let error = socket.kick().expect_err(change).to_string();
        assert!(error.contains("queue 0 of interface `a0` sends and receives no more"), "{error}");
    }
}
